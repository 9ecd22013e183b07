"""Text that arrives in pieces: collected, and cut before a stop string."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcall_middleware.parsing.sink import Gathered, StopFinder

from .streams import cut_at, one_cut


def shown(stops: tuple[str, ...], pieces: list[str]) -> tuple[str, str | None]:
    """The text that goes out, and the stop that was found."""
    finder = StopFinder(stops)
    text = "".join(finder.feed(piece) for piece in pieces)
    return (text if finder.found is not None else text + finder.flush()), finder.found


def expected(stops: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """The same, by looking at the text after each of its characters."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop
    return text, None


CASES = [
    ((), "Hello", "Hello", None),
    (("",), "Hello", "Hello", None),
    (("X",), "Hello", "Hello", None),
    (("\n\n",), "one\ntwo\n\nthree", "one\ntwo", "\n\n"),
    (("END",), "EENDED", "E", "END"),
    (("END",), "the EN", "the EN", None),
    (("END",), "ENEND", "EN", "END"),
    (("ab", "abc"), "xabc", "x", "ab"),
    (("abcde", "bcd"), "xabcde", "xa", "bcd"),
    (("bc", "abc"), "xabc", "x", "abc"),
    (("aab",), "aaab", "a", "aab"),
    (("終わり", "🛑"), "これで🛑終わり", "これで", "🛑"),
    (("a.c", "$"), "abc a.c", "abc ", "a.c"),
]


@pytest.mark.parametrize(("stops", "text", "out", "found"), CASES)
def test_text_ends_before_the_first_stop(stops: tuple[str, ...], text: str, out: str, found: str | None) -> None:
    assert shown(stops, [text]) == (out, found)
    assert shown(stops, list(text)) == (out, found)
    for pieces in one_cut(text):
        assert shown(stops, pieces) == (out, found)


@given(
    st.lists(st.text("ab.", max_size=4), max_size=4).map(tuple),
    st.text("ab.c", max_size=20),
    st.lists(st.integers(0, 20), max_size=4),
)
@example(("ab", "b"), "aab", [2])
def test_any_stops_are_found_however_the_text_is_cut(stops: tuple[str, ...], text: str, cuts: list[int]) -> None:
    pieces = cut_at(text, sorted(min(cut, len(text)) for cut in cuts))
    assert shown(stops, pieces) == expected(stops, text)


@pytest.mark.parametrize(
    ("stops", "fed", "out"),
    [
        (("END",), "the end", "the end"),
        (("END",), "the E", "the "),
        (("END",), "the EN", "the "),
        (("END",), "the ENE", "the EN"),
        (("\n\n",), "one\n", "one"),
        (("aab",), "aaaa", "aa"),
        (("ab", "bcd"), "xabx", "x"),
        (("abd", "bcd"), "xab", "x"),
        (("abd", "bcd"), "xabc", "xa"),
    ],
)
def test_only_what_may_begin_a_stop_is_held_back(stops: tuple[str, ...], fed: str, out: str) -> None:
    finder = StopFinder(stops)
    assert "".join(map(finder.feed, fed)) == out


def test_nothing_comes_after_a_stop() -> None:
    finder = StopFinder(("END",))
    assert finder.feed("a END b") == "a "
    assert finder.feed("c") == ""
    assert finder.flush() == ""


def test_flush_lets_go_of_what_was_held() -> None:
    # A call follows: the text before it is over.
    finder = StopFinder(("END",))
    assert finder.feed("wait E") == "wait "
    assert finder.flush() == "E"
    assert finder.feed("ND") == "ND"
    assert finder.found is None


def test_text_comes_back_once_and_whole() -> None:
    gathered = Gathered()
    pieces = [str(number) for number in range(3000)]
    for piece in pieces:
        gathered.write(piece)
    assert gathered.take() == "".join(pieces)
    gathered.write("x")
    assert gathered.take() == "x"
    assert not gathered.take()


@pytest.mark.slow
def test_small_pieces_take_no_more_than_their_text() -> None:
    gathered = Gathered()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(100_000):
        gathered.write(f"{number:04}"[:4])
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1.3 * 400_000
    assert peak - before < 1.5 * 400_000
