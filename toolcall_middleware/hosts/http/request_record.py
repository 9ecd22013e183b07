"""What is known of one request while it is under way, for the middleware, the router and the upstreams; the line of the
access log; and observers around an app, which get a report of each request when it begins, and again when it has ended.

The access log has no prompts, no queries, no keys.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...observe.json_log import lines_of, pairs, time_of
from ...observe.report import Observer, Report
from ...wire import openai
from .answer import MeasuredAnswer
from .head import raw_path, values_of

logger = logging.getLogger("toolcall_middleware.access")

_ID = b"x-request-id"
_UPSTREAM_ID = b"x-upstream-request-id"
_MAX_VALUE = 256
# Where only the log needs the model, it is not read from bodies that take long (some 5 ms).
_PEEK = 8 << 20
_CALLS = re.compile(rb"; calls=([0-9]+)")


# A key of the scope.
RECORD = "toolcall.request"
# What other systems give out, and nothing that could be more than one word in a log or a header.
SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=@~-]{1,128}")
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")


@dataclass(slots=True, kw_only=True)
class Record:
    """One request. What says nothing of itself is known at its end."""

    id: str = ""
    is_question: bool = False
    """The middleware asks it about a model: its errors have no line in the log."""
    tenant: str | None = None
    model: str | None = None
    model_listed: bool = False
    """An upstream lists the model."""
    upstream: str | None = None
    streams: bool = False
    """The client wants the answer as it is made."""
    counted: bool = False
    """It is counted for the tenant's `request_limit`: another upstream does not count it again."""
    others: bool = False
    """Another upstream can be asked instead of the one at hand."""
    refused: bool = False
    """The middleware refused it before it asked the upstream at hand: that is no refusal of the upstream's."""
    unreached: bool = False
    """The upstream at hand could not be reached: nothing of the request has left for it."""
    silent: bool = False
    """The upstream at hand has the request, and did not answer in time."""
    mode: str | None = None
    format: str | None = None
    calls: int | None = None
    outcomes: tuple[str, ...] = ()
    no_call: str | None = None
    """Why the answer holds no call, where tools were offered."""
    error: str | None = None
    """The code of the error that the client got."""
    trace: str | None = None
    """The trace id of the client's `traceparent`."""
    hide: Callable[[bytes], bytes] | None = None
    """Takes the operator's keys out of what the upstream at hand says; None: its words are not logged."""
    report: Report | None = None
    """What observers get; None where there are none."""
    answer: MeasuredAnswer | None = None
    """The answer as the access log measures it; None where there is no such log."""


def record_of(scope: Scope) -> Record:
    """The record of the request in `scope`; a new one with the client's own id, kept there, where it has none."""
    record = scope.get(RECORD)
    if not isinstance(record, Record):
        shown = values_of(scope.get("headers", ()), b"x-request-id")
        sane = next((value.decode() for value in shown if SANE_ID.fullmatch(value)), "")
        record = scope[RECORD] = Record(id=sane)
    return record


_APIS = (
    ("/chat/completions", "chat"),
    ("/messages", "messages"),
    ("/responses", "responses"),
    (":generateContent", "google"),
    (":streamGenerateContent", "google"),
)


def api_of(path: str) -> str:
    """Which API a path belongs to; `other` for none of those with tools."""
    path = path.rstrip("/")
    return next((api for suffix, api in _APIS if path.endswith(suffix)), "other")


async def watched(app: ASGIApp, observers: Sequence[Observer], scope: Scope, receive: Receive, send: Send) -> None:
    """Run `app` for one request that has no report yet."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    record = record_of(scope)
    path: str = scope["path"]
    report = record.report = Report(id=record.id or f"req_{time.time_ns():x}", api=api_of(path), path=path[:256])
    for observer in observers:
        observer.begin(report, headers)
    if report.sent_on:
        own = {name.encode("latin-1"): value.encode("latin-1") for name, value in report.sent_on.items()}
        kept = [(name, value) for name, value in scope["headers"] if name.lower() not in own]
        scope = {**scope, "headers": [*kept, *own.items()], RECORD: record}
        record.trace = trace_in(own.items())
    answer = record.answer
    if answer is None:
        answer = MeasuredAnswer(send)
        send = answer.send
    ended = "error"
    try:
        await app(scope, receive, send)
        ended = "complete" if answer.complete else "gone"
    finally:
        report.ended = time.perf_counter()
        report.end = ended
        _fill(report, record, answer)
        for observer in observers:
            observer.end(report)


def _fill(report: Report, record: Record, answer: MeasuredAnswer) -> None:
    report.tenant, report.upstream, report.status = record.tenant, record.upstream, answer.status
    report.model, report.model_listed = report.model or record.model, record.model_listed
    report.mode, report.format = record.mode or report.mode, record.format
    report.outcomes, report.no_call = record.outcomes, record.no_call
    report.error = report.error or record.error
    if report.recorder is not None and not any(row["kind"] in {"client", "face"} for row in report.recorder.rows):
        report.recorder.note("passed", report.ended, status=answer.status, size=answer.size)
    if report.prompt_tokens is None and report.completion_tokens is None:
        usage = answer.usage()
        report.prompt_tokens, report.completion_tokens = usage["prompt_tokens"], usage["completion_tokens"]


def trace_in(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The trace id of a `traceparent` (W3C's Trace Context) among headers in lower case."""
    found = next((_TRACE.fullmatch(value) for name, value in headers if name == b"traceparent"), None)
    return None if found is None else found[1].decode()


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
        answer = _LoggedAnswer(send, own)
        record = Record(id=own.decode(), trace=trace_in(headers), answer=answer)
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
            **answer.usage(),
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
