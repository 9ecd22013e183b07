"""Escapes that are half a surrogate pair leave a call's arguments, wherever the stream is cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.apis.serial import WholePairs


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
