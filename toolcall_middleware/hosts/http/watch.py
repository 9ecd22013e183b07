"""Observers around an app: they get a report of each request when it begins, and again when it has ended."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Receive, Scope, Send

from ...observe.report import Observers, Report
from .answer import MeasuredAnswer
from .request_record import RECORD, Record, record_of

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


async def watched(app: ASGIApp, observers: Observers, scope: Scope, receive: Receive, send: Send) -> None:
    """Run `app` for one request that has no report yet."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    record = record_of(scope)
    path: str = scope["path"]
    report = record.report = Report(id=record.id or f"req_{time.time_ns():x}", api=api_of(path), path=path[:256])
    observers.begin(report, headers)
    if report.sent_on:
        own = {name.encode("latin-1"): value.encode("latin-1") for name, value in report.sent_on.items()}
        kept = [(name, value) for name, value in scope["headers"] if name.lower() not in own]
        scope = {**scope, "headers": [*kept, *own.items()], RECORD: record}
        record.trace = _trace_id(report.sent_on.get("traceparent"))
    answer = MeasuredAnswer(send)
    ended = "error"
    try:
        await app(scope, receive, answer.send)
        ended = "complete" if answer.complete else "gone"
    finally:
        report.ended = time.perf_counter()
        report.end = ended
        _fill(report, record, answer)
        observers.end(report)


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


def _trace_id(traceparent: str | None) -> str | None:
    parts = (traceparent or "").split("-")
    return parts[1] if len(parts) == 4 and len(parts[1]) == 32 else None
