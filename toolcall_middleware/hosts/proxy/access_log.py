"""Request ids in and out, and one line in the log for each request. No prompts, no queries, no keys."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from ...observe.json_log import lines_of, pairs, time_of
from ...wire import openai
from ..http.answer import MeasuredAnswer
from ..http.head import raw_path
from ..http.request_record import RECORD, SANE_ID, Record, trace_in

logger = logging.getLogger("toolcall_middleware.access")

_ID = b"x-request-id"
_UPSTREAM_ID = b"x-upstream-request-id"
_MAX_VALUE = 256
# Where only the log needs the model, it is not read from bodies that take long (some 5 ms).
_PEEK = 8 << 20
_CALLS = re.compile(rb"; calls=([0-9]+)")


class AccessLog:
    """Gives each request an id (`x-request-id`: the client's when it is sane) and logs it when it has ended.

    `style` is `text`, `json` or `off`. `peek`: read the model from the body, because the app does not note it.
    """

    def __init__(self, *, style: str, peek: bool = False) -> None:
        self._style = style
        self._peek = peek and style != "off"

    @contextlib.contextmanager
    def line(self, scope: Scope, receive: Receive, send: Send) -> Iterator[tuple[Scope, Receive, Send]]:
        """What the app is called with for one request. The line is written at the context's end.

        The scope has the id among its headers, and the request's record. The answer gets the id; an upstream's own id
        stays in it as `x-upstream-request-id`.
        """
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        shown = [value for name, value in headers if name == _ID]
        own = shown[0] if len(shown) == 1 and SANE_ID.fullmatch(shown[0]) else b"req_" + secrets.token_hex(16).encode()
        if shown:
            headers = [pair for pair in headers if pair[0] != _ID]
        headers.append((_ID, own))
        record = Record(id=own.decode(), trace=trace_in(headers))
        answer = _LoggedAnswer(send, own)
        begin = time.perf_counter()
        ended = "error"
        try:
            if self._peek and scope["method"] == "POST":
                receive = _peeking(receive, record)
            with lines_of(record):
                yield {**scope, "headers": headers, RECORD: record}, receive, answer.send
            ended = "complete" if answer.complete else "gone"
        finally:
            if self._style != "off":
                self._log(scope, record, answer, begin, ended)

    def _log(self, scope: Scope, record: Record, answer: _LoggedAnswer, begin: float, ended: str) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        first = None if answer.first is None else round((answer.first - begin) * 1000, 1)
        row: dict[str, Any] = {
            "id": record.id,
            "client": _short((scope.get("client") or ("",))[0]),
            "tenant": _short(record.tenant),
            "method": scope["method"][:_MAX_VALUE],
            "path": raw_path(scope)[:_MAX_VALUE].decode("latin-1"),
            "model": _short(record.model),
            "upstream": _short(record.upstream),
            "status": answer.status,
            "duration_ms": round((time.perf_counter() - begin) * 1000, 1),
            "first_byte_ms": first,
            "bytes": answer.size,
            "mode": record.mode,
            "format": record.format,
            "calls": answer.calls if record.calls is None else record.calls,
            "outcome": _outcomes(record.outcomes),
            "no_call": record.no_call,
            **answer.tail.usage(),
            "error": _short(record.error),
            "trace": record.trace,
            "end": ended,
        }
        said, level = time_of(time.time()), "info"
        if self._style == "json":
            row = {"time": said, "level": level, "logger": logger.name, "event": "request", **row}
            logger.info("%s", json.dumps(row))
        else:
            logger.info("%s", f"{said} {level.upper() + ':':9} request: {pairs(row)}")


def _short(value: str | None) -> str | None:
    return value if value is None or len(value) <= _MAX_VALUE else value[:_MAX_VALUE]


def _outcomes(outcomes: tuple[str, ...]) -> str | None:
    """`clean` for one call, `clean:2,repaired:1` for more."""
    if len(outcomes) <= 1:
        return outcomes[0] if outcomes else None
    counts = Counter(outcomes)
    return ",".join(f"{name}:{count}" for name, count in sorted(counts.items()))


class _LoggedAnswer(MeasuredAnswer):
    """The answer, which gets the request's id."""

    __slots__ = ("_id", "calls")

    def __init__(self, send: Send, request_id: bytes) -> None:
        super().__init__(send)
        self._id = request_id
        self.calls: int | None = None

    def started(self, start: Message) -> Message:
        return {**super().started(start), "headers": self._headers(start)}

    def _headers(self, start: Message) -> list[tuple[bytes, bytes]]:
        headers = []
        for name, value in start.get("headers", ()):
            if name.lower() == _ID:
                if value != self._id:
                    headers.append((_UPSTREAM_ID, value))
                continue
            if name == b"x-toolcall" and (found := _CALLS.search(value)):
                self.calls = int(found[1])
            headers.append((name, value))
        headers.append((_ID, self._id))
        return headers


def _peeking(receive: Receive, record: Record) -> Receive:
    """`receive`, and the model of a JSON body is noted, in how many pieces it may come."""
    collected: bytearray | None = bytearray()

    async def peek() -> Message:
        nonlocal collected
        message = await receive()
        if collected is not None and message["type"] == "http.request":
            collected += message.get("body", b"")
            if collected and (collected[:1] != b"{" or len(collected) > _PEEK):
                collected = None
            elif not message.get("more_body", False):
                record.model = record.model or openai.model_of(bytes(collected)) or None
                collected = None
        return message

    return peek


def write_to_stdout() -> None:
    """Write the access log to standard output, where no handler is set for it."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
