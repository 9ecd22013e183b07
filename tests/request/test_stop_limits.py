"""How many stop strings a request may have, and what they cost."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.asgi_client import ask
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.parsing.sink import StopFinder
from toolcall_middleware.request.parse import read_request
from toolcall_middleware.settings import Settings


@pytest.mark.parametrize("stop", [["x"] * 257, ["x"] * 100_000, ["x" * 20_000], ["x" * 1000] * 20])
def test_too_many_or_too_long_stop_strings_are_refused(stop: Any) -> None:
    with pytest.raises(ToolCallError) as refused:
        read_request(ask(stop=stop), Settings())
    assert (refused.value.status, refused.value.param) == (400, "stop")


def test_stop_strings_of_real_clients_are_taken() -> None:
    stop = [f"<|stop{number}|>" for number in range(100)]
    chat = read_request(json.dumps(json.loads(ask(stop=stop))).encode(), Settings())
    assert chat is not None
    assert getattr(chat, "stop", None) == tuple(stop)


def first_stop(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """By the definition: the stop string that is complete first, of two the longer."""
    for end in range(1, len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            stop = max(ended, key=len)
            return text[: end - len(stop)], stop
    return text, None


@given(
    st.lists(st.text("ab<", min_size=1, max_size=5), min_size=1, max_size=5).map(tuple),
    st.lists(st.text("ab<c", max_size=7), max_size=8),
)
def test_the_first_complete_stop_string_ends_the_text(stops: tuple[str, ...], pieces: list[str]) -> None:
    finder = StopFinder(stops)
    shown = "".join(finder.feed(piece) for piece in pieces)
    expected, found = first_stop("".join(pieces), stops)
    assert finder.found == found
    assert shown + finder.flush() == expected


def cost_of(stops: tuple[str, ...]) -> float:
    best = 1e9
    for _ in range(3):
        finder = StopFinder(stops)
        begin = time.process_time()
        for _ in range(400):
            finder.feed("the rain in Paris falls on everybody alike, xy. ")
        best = min(best, time.process_time() - begin)
    return best


def test_many_stop_strings_cost_a_chunk_no_more_than_a_few() -> None:
    few = cost_of(("xyz", "xaz"))
    many = cost_of(tuple(f"x{number:04}" for number in range(256)))
    assert many < 10 * few + 0.005
