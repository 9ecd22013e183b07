"""What is known of one request while it is under way: for the access log, and between the router and an upstream."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import Scope

from ...observe.report import Report

# A key of the scope.
RECORD = "toolcall.request"


@dataclass(slots=True, kw_only=True)
class Record:
    """One request. `others`: another upstream can be asked. `unreached`: the upstream at hand was given nothing.

    mode, format, calls, outcomes: how its answer was made, known at its end. error: the code that the client was told.
    trace: the trace id of its `traceparent`. report: what observers are told; None where there are none.
    `silent`: it was, and said nothing in time. `streams`: the client wants the answer as it is made.
    """

    id: str = ""
    tenant: str | None = None
    model: str | None = None
    upstream: str | None = None
    others: bool = False
    unreached: bool = False
    mode: str | None = None
    format: str | None = None
    calls: int | None = None
    outcomes: tuple[str, ...] = ()
    error: str | None = None
    trace: str | None = None
    report: Report | None = None
    silent: bool = False
    streams: bool = False


def record_of(scope: Scope) -> Record:
    """The record of the request in `scope`; a new one, kept there, where nobody has made it."""
    record = scope.get(RECORD)
    if not isinstance(record, Record):
        record = scope[RECORD] = Record()
    return record
