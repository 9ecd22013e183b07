"""Markers in a long text are looked for piece by piece: the same are found, and others get their turns meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.loop_watch import standstill
from toolcall_middleware.formats.prompt import escaping

from .restored import restore

UNITS = (
    "<", "\\", "[", "{", "\n", " ", "</", '"', "'", "tool_call>", "name", "id", ":", "Action", ":\n", "Action Input:",
    "functools", ">>>", "f(", "a=", "f\n{", "```", "json", "◁", "｜", "|", "function", "=", "<f>",
    "[TOOL_CALLS]", "x" * 50,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(UNITS), max_size=40).map("".join), st.integers(1, 40))
def test_where_a_text_is_cut_for_its_search_changes_nothing(text: str, piece: int) -> None:
    def made() -> tuple[str, str, str, bool]:
        tags = escaping.neutralise_names(text, {"f", "name"})
        return escaping.neutralise(text), escaping.as_data(text), tags, escaping.has_markup(text)

    whole = made()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(escaping, "_PIECE", piece)
        assert made() == whole
    assert restore(whole[0]) == text


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["<", "[[[0]]],", "{", "The rain falls. ", "\\", "\n"])
def test_no_search_of_a_long_text_holds_the_interpreter(unit: str) -> None:
    """Against the time of the whole in the same run."""
    text = unit * ((4 << 20) // len(unit))
    longest, seconds = asyncio.run(standstill(asyncio.to_thread(escaping.neutralise, text)))
    assert longest < seconds / 4 + 0.05
