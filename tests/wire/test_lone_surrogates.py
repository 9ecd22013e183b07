"""Escapes that are half a surrogate pair, in the JSON of clients."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.loop_watch import standstill
from toolcall_middleware.wire import json_input

ESCAPES = [rb"\ud83d", rb"\uDE00", rb"\uD83D\ude00", rb"\\", rb"\n", rb"\u0061", b"a", rb"\\ud83d", "é".encode()]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(ESCAPES)), st.integers(1, 3))
def test_halves_are_replaced_and_nothing_else(escapes: list[bytes], at_once: int) -> None:
    data = b'"%b"' % b"".join(escapes)
    whole = json.loads(data).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_input, "_AT_ONCE", at_once)
        made = json_input.without_lone_surrogates(data)
    assert json.loads(made) == whole
    assert (made == data) == ("\ufffd" not in whole)


@pytest.mark.slow
def test_halves_by_the_million_do_not_hold_the_interpreter() -> None:
    """Against the time of the whole in the same run."""
    data = rb"\ud83d" * (4 << 20)
    longest, seconds = asyncio.run(standstill(asyncio.to_thread(json_input.without_lone_surrogates, data)))
    assert longest < seconds / 15 + 0.05
