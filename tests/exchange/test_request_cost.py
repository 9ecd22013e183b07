"""What a request costs is bounded by its size: no kind is much dearer than an ordinary one, none grows faster."""

from __future__ import annotations

import gc

import pytest

from tests.bench import hostile

pytestmark = pytest.mark.slow

SIZE = 60_000
# The dearest is about 60 times an ordinary one, twice that beside others on the machine: brackets by the ten thousand,
# each of which may open a marker. What would explode, or look at all for each, is far above.
WORST = 250


def test_no_kind_of_request_costs_more_than_its_size_allows() -> None:
    base = hostile.ordinary(SIZE)
    for name, each, growth in hostile.factors(SIZE):
        assert each < WORST * base, f"{name}: {each / base:.0f} times an ordinary request"
        # Twice the size: of what takes less than some milliseconds the clock says nothing, and one look may be unlucky.
        if growth >= 3.2:
            growth = _best(name, 2 * SIZE) / _best(name, SIZE)  # noqa: PLW2901 - the same figure, seen better
        assert growth < 3.2 or each * 2 * SIZE / 1024 < 10, f"{name}: {growth:.1f} times for twice the size"


def _best(name: str, size: int) -> float:
    """Seconds: the quickest of several looks, without the collector, which looks through all that tests have left."""
    make = hostile.CASES[name]
    gc.collect()
    gc.disable()
    try:
        return max(min(hostile.cost(make(size))[0] for _ in range(5)), 1e-5)
    finally:
        gc.enable()
