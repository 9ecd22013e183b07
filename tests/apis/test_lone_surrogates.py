"""Halves of surrogate pairs, in a text and as escapes in arguments: what becomes of them wherever they are cut."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.loop_watch import standstill
from toolcall_middleware.apis import serial
from toolcall_middleware.apis.serial import WholePairs
from toolcall_middleware.errors import ToolCallError

from .responses import chat
from .responses.asking import streamed
from .responses.received import check_stream


def read(*pieces: str) -> str:
    pairs = WholePairs()
    return "".join([*map(pairs.feed, pieces), pairs.finish()])


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        (r'{"a": "\ud83d"}', r'{"a": "\ufffd"}'),
        (r'{"a": "\ud83d\\u 00"}', r'{"a": "\ufffd\\u 00"}'),
        (r'{"a": "\ud83d\ud83d\ude00"}', r'{"a": "\ufffd\ud83d\ude00"}'),
        (r'{"a": "\ude00\u0041\n"}', r'{"a": "\ufffd\u0041\n"}'),
        (r'{"a": "\\ud83d \\\\ud83d"}', r'{"a": "\\ud83d \\\\ud83d"}'),
        (r'{"a": "\\\ud83d"}', r'{"a": "\\\ufffd"}'),
        (r'{"a": "\ud83d', r'{"a": "\ufffd'),
        (r'{"a": "\ud83d\ude', r'{"a": "\ufffd\ude'),
        (r'{"a": "\u00', r'{"a": "\u00'),
        ('{"a": "b\\', '{"a": "b\\'),
    ],
)
def test_every_cut_gives_whole_pairs(written: str, read_as: str) -> None:
    assert read(written) == read_as
    assert read(*written) == read_as
    for at in range(len(written)):
        assert read(written[:at], written[at:]) == read_as


def test_what_holds_no_surrogate_is_the_same_text() -> None:
    pairs = WholePairs()
    for piece in ('{"a": "é', "plain", '\\n"}'):
        assert pairs.feed(piece) is piece
    assert pairs.finish() == ""


@given(text=st.text(), cuts=st.lists(st.integers(0, 300)))
def test_valid_arguments_stay_what_they_say(text: str, cuts: list[int]) -> None:
    written = json.dumps({"a": text})
    edges = [0, *sorted(min(cut, len(written)) for cut in cuts), len(written)]
    assert json.loads(read(*(written[a:b] for a, b in pairwise(edges))))["a"] == text.encode(
        "utf-16", "surrogatepass"
    ).decode("utf-16", "replace")


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
