"""Answers without an end pass in bounded memory, whole, whatever is in them (100 MB: `python -m tests.bench.flood`)."""

from __future__ import annotations

import pytest

from tests.bench.flood import CASES, flood

pytestmark = pytest.mark.slow

PIECE = 2048


@pytest.mark.parametrize("name", CASES)
def test_an_answer_without_an_end_is_not_held(name: str) -> None:
    """Five times the text takes no more memory."""
    case = CASES[name]
    flood(case, 1000)  # what is imported and cached at first is not the text's
    size = 30_000 if case.dear else 100_000
    # What is open in a call's arguments has to be remembered: as much as they may take.
    limit = 10_000 if name == "nesting" else None
    short = flood(case, size, trace=True, piece=PIECE, max_arguments_bytes=limit)
    long = flood(case, 5 * size, trace=True, piece=PIECE, max_arguments_bytes=limit)
    assert short.done
    assert long.done
    assert short.same
    assert long.same
    # An open thought is read for calls in batches, which reach their full size behind the first 200 kB.
    assert long.peak < 1.2 * short.peak + (160_000 if name == "think" else 60_000)


def test_arguments_without_an_end_are_cut_at_their_limit() -> None:
    made = flood(CASES["a long string"], 6_000_000, trace=True)
    assert made.done
    assert made.peak < 600_000


def test_a_string_in_one_chunk_is_no_more_than_a_few_copies() -> None:
    case = CASES["no line end"]
    made = flood(type(case)("x" * 4_000_000), 4_000_000, trace=True)
    assert made.same
    assert made.peak < 60_000_000
