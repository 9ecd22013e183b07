"""Lists and objects in Python's and Gemma's notation: read in pieces as in one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.parsing.values.literal_reader import LiteralReader, Notation

MARK = '<|"|>'
PYTHON = Notation(quotes=('"""', "'''", '"', "'"), keywords=True, ends=("</calls>",), listed=True)
GEMMA = Notation(quotes=(MARK, '"', "'"), verbatim=frozenset({MARK}), inner='"', ends=("<call|>",))
NOTATIONS = {"python": (PYTHON, "a=", ")"), "gemma": (GEMMA, "a:", "}")}
SPACES = st.sampled_from(["", "", "", " ", "\n", " \t"])
NOISE = ['"', "'", MARK, "<|", ",", ":", "=", "{", "}", "[", "]", "(", ")", "\\", "\\x4", " ", "1", ".", "e", "f", "T",
         "rue", "None", "null", "key", "é", '"""', "**", "}]}", '", "', "': '", "<b>", "x" * 140, " " * 140]  # fmt: skip


def reader(notation: Notation, closer: str) -> LiteralReader:
    return LiteralReader(notation, "(" if closer == ")" else "{", {"properties": {"a": {"type": "array"}}}, bool)


def whole(name: str, text: str) -> tuple[str, bool]:
    """The arguments of a text that is read at once."""
    notation, key, closer = NOTATIONS[name]
    made = reader(notation, closer)
    said = made.feed(key + text, 0, last=True)[1]
    return said + made.close(), made.repaired


def in_pieces(name: str, text: str, sizes: Callable[[], int]) -> tuple[str, bool]:
    """... that arrives in pieces."""
    notation, key, closer = NOTATIONS[name]
    made = reader(notation, closer)
    out: list[str] = []
    tail = ""
    for piece in cut(key + text, sizes):
        said, tail = read_on(made, tail, piece)
        out.append(said)
        if made.done:
            break
    if not made.done:
        out += made.feed(tail, 0, last=True)[1], made.close()
    return "".join(out), made.repaired


def read_on(made: LiteralReader, tail: str, piece: str) -> tuple[str, str]:
    """What is emitted for a piece of text behind a `tail` that was not read, and what is not read of both."""
    said = made.within(tail + piece)
    if said is not None:
        return said, ""
    at, said = made.feed(tail + piece, 0, last=False)
    return said, (tail + piece)[at:]


def cut(text: str, sizes: Callable[[], int]) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = sizes()
        yield text[at : at + size]
        at += size


STRINGS = st.text("ab1 ,:}]'\"\\\nTé<", max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | STRINGS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "b-1", "at"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def written(name: str, value: Any, space: Callable[[], str]) -> str:
    """A value as the notation has it."""
    match value:
        case str():
            return f"{MARK}{value}{MARK}" if name == "gemma" else repr(value)
        case list():
            items = [space() + written(name, item, space) + space() for item in value]
            return f"[{','.join(items)}]"
        case dict():
            quoted = {key: key if name == "gemma" else repr(key) for key in value}
            items = [f"{space()}{quoted[key]}:{space()}{written(name, item, space)}" for key, item in value.items()]
            return f"{{{','.join(items)}}}"
    return json.dumps(value) if name == "gemma" else repr(value)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTATIONS)
def test_values_with_noise_in_them_are_the_same_as_in_one_piece(name: str) -> None:
    @settings(max_examples=300)
    @given(VALUES, st.data(), st.randoms(use_true_random=False))
    def holds(value: Any, data: st.DataObject, rng: random.Random) -> None:
        text = written(name, [value], lambda: data.draw(SPACES))
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(text)))
            text = text[:at] + data.draw(st.sampled_from(NOISE)) + text[at + data.draw(st.integers(0, 2)) :]
        meant = whole(name, text)
        for longest in (1, 4, 9, 70):
            assert in_pieces(name, text, lambda longest=longest: rng.randint(1, longest)) == meant  # type: ignore[misc]

    holds()


@pytest.mark.parametrize("name", NOTATIONS)
@pytest.mark.parametrize("unit", ["1", " ", "a", "[", "]", '"', "\\", "{", "<"])
@pytest.mark.parametrize("begin", ["[", "[1", "[{'a':", "[{'a': 'b'", "[{a:1,", "[{", f"[{MARK}a{MARK}"])
def test_what_waits_is_not_read_again_and_again(name: str, begin: str, unit: str) -> None:
    notation, key, closer = NOTATIONS[name]
    made = reader(notation, closer)
    tail = read_on(made, "", key + begin)[1]
    for _ in range(400):
        tail = read_on(made, tail, unit * 4)[1]
        if made.done:
            break
        assert len(tail) < 1024
