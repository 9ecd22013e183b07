"""A backend's id, written as our own and read back without memory."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.response.call_id_codec import read_id, write_id
from toolcall_middleware.wire.openai import new_call_id

FORM = re.compile(r"call_[a-zA-Z0-9]+")


@given(st.text(max_size=60))
def test_any_id_comes_back(own: str) -> None:
    written = write_id(own)
    assert FORM.fullmatch(written)
    assert read_id(written) == own


@given(st.text(max_size=60) | st.from_regex(r"call_x[a-zA-Z0-9]{0,500}", fullmatch=True))
def test_what_was_not_written_here_is_not_read(text: str) -> None:
    assert read_id(text) is None


def test_a_backend_that_gives_every_call_one_id_gets_different_ones() -> None:
    assert len({write_id("call_0") for _ in range(200)}) == 200


def test_new_ids_have_24_characters_of_which_none_is_rarer() -> None:
    made = [new_call_id() for _ in range(4000)]
    assert all(re.fullmatch("call_[a-zA-Z0-9]{24}", one) for one in made)
    counts = Counter("".join(one[5:] for one in made))
    assert len(counts) == 62
    # 1548 of each are expected, give or take 39: eight times that is no chance.
    assert all(abs(count - 1548) < 320 for count in counts.values())


def test_new_ids_are_never_taken_for_written_ones() -> None:
    assert all(read_id(new_call_id()) is None for _ in range(2000))


def test_a_changed_id_is_not_read() -> None:
    written = write_id("functions.weather:0")
    changed = [written[:at] + ("a" if written[at] != "a" else "b") + written[at + 1 :] for at in range(6, len(written))]
    assert [read_id(text) for text in changed] == [None] * len(changed)


def test_an_endless_id_gets_a_new_one() -> None:
    assert read_id(write_id("x" * 300)) is None
    assert len(write_id("x" * 300)) == 29
    assert read_id(write_id("x" * 256)) == "x" * 256
