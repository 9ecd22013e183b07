"""One request through `ToolCallMiddleware`, from raw ASGI message to raw ASGI message, over a scripted backend."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import product
from .fixed import seeded_secrets

_MOST_TRIES = 12
_RANDOM_ID = re.compile(r"\b(call_|req_|chatcmpl-(?=[0-9a-f]{24}\b))[A-Za-z0-9]{20,}")
_HEADERS = [
    (b"host", b"localhost"),
    (b"content-type", b"application/json"),
    (b"accept-encoding", b"gzip"),
    (b"authorization", b"Bearer k"),
    (b"x-own", b"1"),
]


class BrokenOffError(Exception):
    """A backend that breaks off in the middle."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a backend says. cut: it breaks off behind the last piece: by an exception, or by going away."""

    pieces: Sequence[bytes]
    content_type: str = "application/json"
    status: int = 200
    cut: str = ""


@dataclass(slots=True)
class Seen:
    """What came of an exchange."""

    asked: list[Any] = field(default_factory=list)
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Each message for the client, with the piece of the backend's that it follows."""
    ends: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def add(self, target: str, headers: list[list[str]], body: bytes) -> None:
        """The backend is asked."""
        self.asked.append({"target": target, "headers": checked_length(headers, len(body)), "body": text_of(body)})


class _Log(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.levelname} {record.getMessage()}")


def exchange(
    settings: dict[str, Any],
    body: dict[str, Any] | bytes,
    answers: Sequence[Answer],
    path: str = "/v1/chat/completions",
) -> dict[str, str]:
    """The items of one exchange. `answers`: one for each time that the backend is asked, the last again and again."""
    import toolcall_middleware as package

    raw = body if isinstance(body, bytes) else json.dumps(body).encode("utf-8", "surrogatepass")
    seen = Seen()
    try:
        with seeded_secrets(), caught_log(seen):
            app = package.ToolCallMiddleware(_backend(answers, seen), settings=package.Settings(**settings))
            drive(app, raw, path, seen)
    except (package.SettingsError, package.FormatError) as error:
        return {"answer": f"{product.RAISED}{type(error).__name__}: {error}"}
    return items(seen)


@contextlib.contextmanager
def caught_log(seen: Seen) -> Iterator[None]:
    """What the package logs inside goes to `seen`."""
    handler = _Log(seen.log)
    logger = logging.getLogger(product.PACKAGE)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def drive(app: Any, raw: bytes, path: str, seen: Seen, *, method: str = "POST") -> None:
    """One request, with what the client gets kept in `seen`."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [*_HEADERS, (b"content-length", b"%d" % len(raw))],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "extensions": {},
    }
    messages = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        seen.sent.append((seen.ends[-1] if seen.ends else "before", dict(message)))

    async def run() -> None:
        try:
            await asyncio.wait_for(app(scope, receive, send), 60)
        except BrokenOffError:
            seen.ends.append("broke off")
        except Exception as error:  # noqa: BLE001 - what a server would log is behaviour as well
            seen.ends.append(f"{product.RAISED}{type(error).__name__}: {error}")

    _runner().run(run())


@functools.cache
def _runner() -> asyncio.Runner:
    """One event loop for all: to make one costs more than an exchange."""
    return asyncio.Runner()


def _backend(answers: Sequence[Answer], seen: Seen) -> Any:
    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        number = len(seen.asked)
        if number >= _MOST_TRIES:
            raise RuntimeError("the backend is asked again and again")
        data = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                break
            data += message.get("body", b"")
            if not message.get("more_body", False):
                break
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
        seen.add(scope["path"], headers, data)
        answer = answers[min(number, len(answers) - 1)]
        seen.ends.append(f"{number}:start")
        kind = answer.content_type.encode("latin-1")
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": [(b"content-type", kind)]})
            for at, piece in enumerate(answer.pieces):
                seen.ends[-1] = f"{number}:{at}"
                last = at == len(answer.pieces) - 1 and not answer.cut
                await send({"type": "http.response.body", "body": piece, "more_body": not last})
            seen.ends[-1] = f"{number}:end"
        except OSError:
            seen.ends[-1] += " stopped"
            return
        if answer.cut == "raises":
            raise BrokenOffError

    return app


def items(seen: Seen) -> dict[str, str]:
    """An exchange's items: answer, pieces, asked, log."""
    ids: dict[str, str] = {}

    def numbered(text: str) -> str:
        return _RANDOM_ID.sub(lambda found: ids.setdefault(found[0], f"{found[1]}#{len(ids)}"), text)

    starts = [message for _, message in seen.sent if message["type"] == "http.response.start"]
    body = b"".join(message.get("body", b"") for _, message in seen.sent if message["type"] == "http.response.body")
    ended = [message.get("more_body", False) for _, message in seen.sent if message["type"] == "http.response.body"]
    heads = [
        {
            "status": start["status"],
            "headers": checked_length(
                [[name.decode("latin-1"), value.decode("latin-1")] for name, value in start.get("headers", ())],
                len(body),
            ),
        }
        for start in starts
    ]
    answer = "\n".join(
        [
            *(json.dumps(head) for head in heads),
            text_of(body),
            f"ended={ended.count(False)} of {len(starts)}; {[end for end in seen.ends if not end[0].isdigit()]}",
        ]
    )
    answer = numbered(answer)  # first: these ids are numbered as the client sees them
    pieces = [
        [behind, len(message.get("body", b"")) if message["type"] == "http.response.body" else message["type"]]
        for behind, message in seen.sent
    ]
    return {
        "answer": answer,
        "pieces": json.dumps([pieces, seen.ends]),
        "asked": numbered(json.dumps(seen.asked, ensure_ascii=False)),
        "log": numbered("\n".join(seen.log)),
    }


def checked_length(headers: list[list[str]], length: int) -> list[list[str]]:
    """Headers with a right content-length said so: the lengths of random ids may differ."""
    return [
        [name, "right" if name.lower() == "content-length" and value == str(length) else value]
        for name, value in headers
    ]


def text_of(data: bytes) -> str:
    """Bytes as text, whatever they are."""
    return data.decode("utf-8", "surrogateescape")
