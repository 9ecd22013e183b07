"""What is known of one request while it is under way, for the access log and between the router and an upstream; and
observers around an app, which get a report of each request when it begins, and again when it has ended.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from ...observe.report import Observer, Report
from .answer import MeasuredAnswer
from .head import values_of

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
    answer = MeasuredAnswer(send)
    ended = "error"
    try:
        await app(scope, receive, answer.send)
        ended = "complete" if answer.complete else "gone"
    finally:
        report.ended = time.perf_counter()
        report.end = ended
        _fill(report, record, answer)
        for observer in observers:
            observer.end(report)


def _fill(report: Report, record: Record, answer: MeasuredAnswer) -> None:
    report.tenant, report.upstream = record.tenant, record.upstream
    report.status = answer.status
    report.model = report.model or record.model
    report.model_listed = record.model_listed
    report.error = report.error or record.error
    if report.recorder is not None and not any(row["kind"] in {"client", "face"} for row in report.recorder.rows):
        report.recorder.note("passed", report.ended, status=answer.status, size=answer.size)
    if report.prompt_tokens is None and report.completion_tokens is None:
        usage = answer.tail.usage()
        report.prompt_tokens, report.completion_tokens = usage["prompt_tokens"], usage["completion_tokens"]


def trace_in(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The trace id of a `traceparent` (W3C's Trace Context) among headers in lower case."""
    found = next((_TRACE.fullmatch(value) for name, value in headers if name == b"traceparent"), None)
    return None if found is None else found[1].decode()
