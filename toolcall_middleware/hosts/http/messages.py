"""The two heads of an intercepted exchange: what the app is asked with, what the client's answer starts with."""

from __future__ import annotations

from starlette.types import Message, Scope

from .headers import ENTITY_HEADERS, RETRY_HEADERS, Headers, scope_for_body, without
from .paths import ends_with, normal_path

_ERROR = 400  # the least status of one


def is_chat(scope: Scope, paths: tuple[str, ...]) -> bool:
    """Whether a request is a POST to one of `paths`, which are suffixes. Another spelling of the path is the same."""
    if scope["method"] != "POST":
        return False
    path: str = scope["path"]
    return path.endswith(paths) or ends_with(normal_path(path), paths)


def request_scope(scope: Scope, length: int) -> Scope:
    """The app's scope: the new length, and an answer that can be read: no codings, no files, no trailers."""
    scope = scope_for_body(scope, length, identity=True)
    extensions = scope.get("extensions") or {}
    scope["extensions"] = {name: value for name, value in extensions.items() if not name.startswith("http.response.")}
    return scope


def response_head(start: Message, headers: dict[str, str], *, status: int | None) -> Message:
    """The app's response start with other headers, and without those that told of its own body, or of its error where
    `status` says that it is none any more.
    """
    replaced = {name.encode("latin-1") for name in headers}
    status = start["status"] if status is None else status
    told = ENTITY_HEADERS | RETRY_HEADERS if status < _ERROR <= start["status"] else ENTITY_HEADERS
    kept: Headers = without(start.get("headers", ()), told | replaced)
    kept += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {**start, "status": status, "headers": kept}
