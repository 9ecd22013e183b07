"""The two heads of an intercepted exchange: what the app is asked with, what the client's answer starts with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ...errors import ToolCallError
from .bodies import Message, Receive

Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

_REQUEST_HEADERS_DROPPED = frozenset({b"accept-encoding", b"expect"})
_LENGTH_HEADERS = frozenset({b"content-length", b"transfer-encoding"})
_ENTITY_HEADERS = frozenset(
    b"content-length content-encoding transfer-encoding etag content-md5 digest content-digest".split()
)


def is_chat(scope: Scope, paths: tuple[str, ...]) -> bool:
    """Whether a request is a POST to one of `paths`, which are suffixes. A slash more is the same, as to many apps."""
    if scope["method"] != "POST":
        return False
    path: str = scope["path"]
    return path.endswith(paths) or (path.endswith("/") and path.rstrip("/").endswith(paths))


def with_length(scope: Scope, length: int) -> RawHeaders:
    """The request's headers, for a body of this length."""
    kept = [item for item in scope.get("headers", ()) if item[0].lower() not in _LENGTH_HEADERS]
    return [*kept, (b"content-length", str(length).encode())]


def request_scope(scope: Scope, length: int) -> Scope:
    """The app's scope: the new length, and an answer that can be read: no codings, no files, no trailers."""
    scope = dict(scope)
    scope["headers"] = [
        *(item for item in with_length(scope, length) if item[0].lower() not in _REQUEST_HEADERS_DROPPED),
        (b"accept-encoding", b"identity"),
    ]
    extensions = scope.get("extensions") or {}
    scope["extensions"] = {name: value for name, value in extensions.items() if not name.startswith("http.response.")}
    return scope


def response_head(start: Message, headers: dict[str, str], *, status: int | None = None) -> Message:
    """The app's response start with other headers, and without those that told of its own body."""
    replaced = {name.encode("latin-1") for name in headers}
    kept: RawHeaders = [
        (name, value)
        for name, value in start.get("headers", ())
        if name.lower() not in _ENTITY_HEADERS and name.lower() not in replaced
    ]
    kept += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {**start, "status": start["status"] if status is None else status, "headers": kept}


async def answer_error(send: Send, error: ToolCallError) -> None:
    """The whole HTTP answer that an error is."""
    body = error.body()
    headers: RawHeaders = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in error.headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
