"""What is known of one request while it is under way: for the access log, and between the router and an upstream."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import Scope

from ...observe.report import Report
from .headers import values_of

# A key of the scope.
RECORD = "toolcall.request"
# What other systems give out, and nothing that could be more than one word in a log or a header.
SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=@~-]{1,128}")


@dataclass(slots=True, kw_only=True)
class Record:
    """One request. What says nothing of itself is known at its end."""

    id: str = ""
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
    """The code of the error that the client was told."""
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
