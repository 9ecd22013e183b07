"""Halves of surrogate pairs in a text, which have no bytes: what becomes of them, and that nobody waits meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.loop_watch import standstill
from toolcall_middleware.apis import serial
from toolcall_middleware.errors import ToolCallError

from . import chat
from .asking import streamed
from .received import check_stream


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["\ud83d", "\ude00", "\udbff", "\udc00", "a", "é", "\U0001f600"])), st.integers(1, 5))
def test_pairs_are_joined_and_halves_replaced_wherever_the_text_is_cut(units: list[str], piece: int) -> None:
    text = "".join(units)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serial, "_PIECE", piece)
        # Python's own decoder of UTF-16 reads it so.
        assert serial.whole_text(text) == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.slow
def test_a_long_text_of_halves_does_not_hold_the_interpreter() -> None:
    """Against the time of the whole in the same run."""
    text = "\ud83d" * (2 << 20)
    longest, seconds = asyncio.run(standstill(asyncio.to_thread(serial.whole_text, text)))
    assert longest < seconds / 4 + 0.05


def test_a_call_and_an_error_that_hold_one_half_are_told() -> None:
    written: list[chat.Delta] = [
        {"tool_calls": [{"index": 0, "id": "c\ud83d", "function": {"name": "x\ud83d", "arguments": "{}"}}]}
    ]
    fault = ToolCallError("upstream_error", "No \ud83d here.")
    response = check_stream(streamed(b"".join(map(chat.chunk, written)) + fault.sse())).response
    (call,) = response["output"]
    assert (call["call_id"], call["name"]) == ("c\ufffd", "x\ufffd")
    assert response["error"]["message"] == "No \ufffd here."
