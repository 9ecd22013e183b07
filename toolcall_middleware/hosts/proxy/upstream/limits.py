"""How long, how often and over how many connections an upstream is asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What an upstream may take. `connect`: seconds for a connection. `total`: seconds for a whole answer.

    `connections`: that many at a time; the rest waits as for a connection. `retries`: further attempts at a request.
    `upload`: seconds for the next piece of a client's body (see Upload). `first_byte`: seconds for the beginning of a
    streamed answer, while another upstream can be asked.
    """

    connect: float = 10.0
    total: float | None = None
    connections: int | None = None
    retries: int = 0
    upload: float | None = None
    first_byte: float | None = None


DEFAULT_LIMITS = Limits()
