"""How much the tests try of what could be tried without an end. TEST_THOROUGH=1 takes all of it: `nox -s thorough`.

Without it a test takes an even share, another share than its neighbour, so that together they meet everything.
TEST_QUICK=1, which is `nox -s quick`, takes a smaller one: no test that is marked as slow, a client's or a server's,
few random examples, and of a test with more parameters than a table has lines some, others than its neighbour's.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

THOROUGH = os.environ.get("TEST_THOROUGH") == "1"
QUICK = os.environ.get("TEST_QUICK") == "1" and not THOROUGH
_TABLE = 60  # sets of parameters: so many are a table of cases, taken whole; more are a product, such as by formats
_PARAMETERS = 6  # sets of parameters of a product, if quick


def places(end: int, name: str, every: int = 3) -> range:
    """Where the test `name` cuts a text of `end` characters: all if thorough, else one in `every`."""
    return range(end) if THOROUGH else range(len(name) % every, end, every)


def quick_share(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """(the tests of the quick loop, all others): tables of cases whole, of products some parameters, evenly spread."""
    sets: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not any(item.get_closest_marker(name) for name in ("client", "server", "slow")):
            sets[item.nodeid.partition("[")[0]].append(item)
    taken = set()
    for name, same in sets.items():
        every = 1 if len(same) <= _TABLE else -(-len(same) // _PARAMETERS)
        taken.update(same[zlib.crc32(name.encode()) % every :: every])
    return [item for item in items if item in taken], [item for item in items if item not in taken]
