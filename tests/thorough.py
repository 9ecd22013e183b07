"""How much the tests try of what could be tried without an end. TEST_THOROUGH=1 takes all of it: `nox -s thorough`.

Without it a test takes an even share, another share than its neighbour, so that together they meet everything.
"""

from __future__ import annotations

import os

THOROUGH = os.environ.get("TEST_THOROUGH") == "1"


def places(end: int, name: str, every: int = 3) -> range:
    """Where the test `name` cuts a text of `end` characters: all if thorough, else one in `every`."""
    return range(end) if THOROUGH else range(len(name) % every, end, every)
