"""Random exchanges (tests/bench/fuzz.py): the first few of each kind here, a million by command.

What they found stands in parsing/test_found_by_fuzzing.py and test_found_by_fuzzing.py, written out: a number means
another exchange as soon as there is another format.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.bench.fuzz import KINDS, main, mixed, run
from tests.bench.fuzzed.dice import Dice, FromBytes, Seeded

pytestmark = pytest.mark.slow

FIRST = {"asked": 800, "conserved": 500, "faces": 80}


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_exchanges_keep_every_rule(kind: str) -> None:
    seen = {KINDS[kind](Seeded(number)) for number in range(FIRST.get(kind, 250))}
    assert len(seen) > 1, "all alike"


@hypothesis_settings(max_examples=200)
@given(st.binary(max_size=300))
def test_any_choices_keep_every_rule(choices: bytes) -> None:
    assert mixed(FromBytes(choices))


def test_a_failure_is_told_with_the_exchange_that_showed_it() -> None:
    def one(dice: Dice) -> str:
        if dice.below(10) == 3:
            message = "three"
            raise AssertionError(message)
        return "fine"

    told: list[str] = []
    failures = run(one, range(100), told.append)
    assert 0 < failures < 30
    assert told[0].startswith("--only ")
    assert "three" in told[0]
    assert told[-1].endswith(f"{failures} failures")


def test_one_exchange_can_be_done_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kind", "asked", "--only", "7"]) == 0
    assert main(["--kind", "asked", "--bytes", "00ff10"]) == 0
    assert capsys.readouterr().out.split() == [KINDS["asked"](Seeded(7)), "text"]
