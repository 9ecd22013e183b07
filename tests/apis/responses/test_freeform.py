"""A custom tool's text comes out of its JSON string whatever it holds and wherever it is cut."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.apis.responses.face import FreeformInput

TRICKY = 'a "q" \\ \\u12 \b\f\n\r\t/ é \U0001f600 \\"end\\'


def read(*pieces: str) -> str:
    reader = FreeformInput()
    return "".join([*(reader.feed(piece) for piece in pieces), reader.finish()])


@pytest.mark.parametrize(
    "written",
    [
        json.dumps({"input": TRICKY}),
        json.dumps({"input": TRICKY}, ensure_ascii=False),
        json.dumps({"input": TRICKY}).replace("/", "\\/"),
        ' \n{ "input"\t: ' + json.dumps(TRICKY) + ' , "more": "x"}',
        json.dumps({"why": 'x"', "input": TRICKY}),
        json.dumps({"patch": TRICKY}),
        json.dumps(TRICKY),
        TRICKY,
    ],
)
def test_every_cut_gives_the_same_text(written: str) -> None:
    assert read(written) == TRICKY
    assert read(*written) == TRICKY
    for at in range(len(written)):
        assert read(written[:at], written[at:]) == TRICKY
        for other in range(at, len(written), 3):
            assert read(written[:at], written[at:other], written[other:]) == TRICKY


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("", ""),
        ("{}", ""),
        ('{"input": ""}', ""),
        ('{"input": 3}', '{"input": 3}'),
        ('{"input": {"a": 1}}', '{"input": {"a": 1}}'),
        ('{"a": "x", "b": "y"}', '{"a": "x", "b": "y"}'),
        ("[1]", "[1]"),
        ('{"input": "a\\ud83d"}', "a�"),
        ('{"input": "a\\ud83db"}', "a�b"),
        ('{"input": "a\\ud83d\\n"}', "a�\n"),
        ('{"input": "a\\ud83d\\ud83d\\ude00"}', "a�\U0001f600"),
        ('{"input": "\\ude00\\u0041"}', "�A"),
        ('{"input": "a\\x"}', "ax"),
        ('{"input": "a\\u12"}', "au12"),
        ('{"input": "raw\nline"}', "raw\nline"),
        ("[" * 5000, "[" * 5000),
    ],
)
def test_odd_arguments_give_a_text(written: str, text: str) -> None:
    assert read(written) == text
    assert read(*written) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{"input": "abc', "abc"),
        ('{"input": "abc\\', "abc"),
        ('{"input": "abc\\u00', "abc"),
        ('{"input": "a\\ud83d', "a"),
    ],
)
def test_what_is_cut_off_gives_what_is_certain(written: str, text: str) -> None:
    assert read(*written) == text


@given(text=st.text(st.characters(exclude_categories=["Cs"])), cuts=st.lists(st.integers(0, 400)), ascii_=st.booleans())
def test_any_text_comes_back(text: str, cuts: list[int], ascii_: bool) -> None:
    written = json.dumps({"input": text}, ensure_ascii=ascii_)
    edges = [0, *sorted(min(cut, len(written)) for cut in cuts), len(written)]
    assert read(*(written[a:b] for a, b in pairwise(edges))) == text


@pytest.mark.slow
@pytest.mark.parametrize("opening", ['{"input": "', '{"other": "'])
def test_time_is_linear(opening: str) -> None:
    def seconds(size: int) -> float:
        pieces = [opening, *(["\\n\\u00e9x"] * (size // 9)), '"}']
        best = 9.0
        for _ in range(7):
            began = time.process_time()
            read(*pieces)
            best = min(best, time.process_time() - began)
        return best

    seconds(10_000)
    assert seconds(400_000) < 10 * seconds(100_000)
