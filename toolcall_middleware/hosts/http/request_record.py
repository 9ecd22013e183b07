"""What is known of one request while it is under way: for the access log, and between the router and an upstream."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import Scope

# A key of the scope.
RECORD = "toolcall.request"


@dataclass(slots=True, kw_only=True)
class Record:
    """One request. `others`: another upstream can be asked. `unreached`: the upstream at hand was given nothing.

    `silent`: it was, and said nothing in time. `streams`: the client wants the answer as it is made.
    """

    id: str = ""
    tenant: str | None = None
    model: str | None = None
    upstream: str | None = None
    others: bool = False
    unreached: bool = False
    silent: bool = False
    streams: bool = False


def record_of(scope: Scope) -> Record:
    """The record of the request in `scope`; a new one, kept there, where nobody has made it."""
    record = scope.get(RECORD)
    if not isinstance(record, Record):
        record = scope[RECORD] = Record()
    return record
