"""Random texts through whole exchanges (tests/bench/fuzz.py): the first few here, a million by command."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.bench.fuzzed.dice import FromBytes, Seeded
from tests.bench.fuzzed.prompt import one


def test_the_first_exchanges_keep_every_rule() -> None:
    seen = {one(Seeded(number)) for number in range(1500)}
    assert seen == {"calls", "text"}


@hypothesis_settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_choices_keep_every_rule(choices: bytes) -> None:
    assert one(FromBytes(choices)) in {"calls", "text"}


def test_what_was_found_stays_found() -> None:
    # A call without a name, half a surrogate pair in one, a key that does not end, a tag that lost its space.
    found = (10_000_420, 10_002_367, 10_002_777, 10_007_412, 30_177_813, 30_237_293, 30_274_547, 30_331_721, 30_400_667)
    for number in found:
        assert one(Seeded(number)) in {"calls", "text"}
