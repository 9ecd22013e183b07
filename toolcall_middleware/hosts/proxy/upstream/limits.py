"""How long, how often and over how many connections an upstream is asked, and after which pause again."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from random import Random

from ...http.headers import values_of

# 529 is Anthropic's word for overloaded.
BUSY = frozenset({429, 503, 529})
# Seconds. Who says to come back later than this is not waited for: the client does that.
LONGEST_WAIT = 5.0
_FIRST_WAIT = 0.2
_NUMBER = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{1,9})?")


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


def retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """The seconds that an answer's `retry-after` says, as a number or a date; None where there is none."""
    given = next(iter(values_of(headers, b"retry-after")), None)
    if given is None:
        return None
    if _NUMBER.fullmatch(given):
        return float(given)
    try:
        return max(0.0, parsedate_to_datetime(given.decode("latin-1")).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def pause(attempts: int, random: Random) -> float:
    """Seconds before the attempt after `attempts` others: doubled each time, and not the same for all who wait."""
    return _FIRST_WAIT * 2.0 ** min(attempts, 10) * random.uniform(0.5, 1.0)
