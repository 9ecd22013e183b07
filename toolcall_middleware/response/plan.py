"""What becomes of a backend's response: the plan for it, and the reply that is made of a whole one."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


class Plan(enum.Enum):
    """What the host does with the backend's response."""

    PASS = "pass"  # forward as it is
    STREAM = "stream"  # feed each piece
    TAP = "tap"  # feed each piece; an app that fails does so as without us
    BUFFER = "buffer"  # collect, then whole()
    SNIFF = "sniff"  # decide by the first bytes: plan_for()


@dataclass(slots=True)
class Reply:
    """A whole response for the client. `headers` replace the backend's of the same name."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    as_it_came: bool = False
    """The backend's own headers go with it."""


def plan_of(status: int, *, stream: bool) -> Plan:
    """The plan for a response of this status to a request with tools. stream: what the request asked for."""
    if status >= 400:
        return Plan.BUFFER
    if not 200 <= status < 300 or status in {204, 205}:
        return Plan.PASS
    return Plan.SNIFF if stream else Plan.BUFFER


def plan_by_start(data: bytes, *, is_stream: bool) -> Plan:
    """The plan for a body that begins with `data`: STREAM, BUFFER, or SNIFF for more of it. Content types lie.

    is_stream: what the content type says.
    """
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(STREAM_STARTS) or (is_stream and start and start[:1] not in b"{[<"):
        return Plan.STREAM
    return Plan.SNIFF if any(mark.startswith(start) for mark in STREAM_STARTS) else Plan.BUFFER
