"""The table for clean JSON reads as the parts that repair, and leaves to them what is not clean."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.parsing.values.json_reader import JsonReader
from toolcall_middleware.parsing.values.json_table import CleanJson


class NoTable(CleanJson):
    """Leaves all to the other parts."""

    __slots__ = ()

    def read(self, _s: str) -> None:
        return None


def without_table() -> JsonReader:
    reader = JsonReader()
    reader._table = NoTable(reader._at)
    return reader


def steps(reader: JsonReader, pieces: list[str]) -> tuple[list[str], bool, bool]:
    """What had left after each piece, and at the end."""
    out: list[str] = []
    left: list[str] = []
    for piece in pieces:
        if reader.done or reader.stuck:
            break
        reader.feed(piece, 0, out)
        left.append("".join(out))
    if not reader.done:
        reader.close(out)
    return [*left, "".join(out)], reader.repaired, reader.done


def cuts(text: str, seed: int) -> list[str]:
    chance = random.Random(seed)
    pieces, at = [], 0
    while at < len(text):
        size = chance.randint(1, 6)
        pieces.append(text[at : at + size])
        at += size
    return pieces


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab \"\\,:{}[]'é1\n/"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab"\\:,}', max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.dictionaries(st.text("xy"), JSON, max_size=5), st.integers(0, 9), st.sampled_from([None, 1]))
def test_clean_json_leaves_as_without_the_table(value: object, seed: int, indent: int | None) -> None:
    pieces = cuts(json.dumps(value, indent=indent, ensure_ascii=False), seed)
    assert steps(JsonReader(), pieces) == steps(without_table(), pieces)


@pytest.mark.slow
@settings(max_examples=600)
@given(
    st.lists(st.sampled_from([*"{}[]\",:= \n\\'<", "true", "tru", "1", "-", "0.", "e5", "a", '"k":', '"k": ', ", "]))
)
def test_what_is_not_clean_is_repaired_as_without_the_table(parts: list[str]) -> None:
    pieces = ['{"a": [1, {"b": "', 'c"}, ', *parts]
    assert steps(JsonReader(), pieces) == steps(without_table(), pieces)


@pytest.mark.parametrize(
    "text", ['{"a": 01}', '{"a": 1.}', '{"a": -}', '{"a": tru}', '{"a": truex, "b": 1}', '{"a": [1,]}', '{"a": {"b":}}',
             '{"a": 1 "b": 2}', '{"a": {"x"}}', "{\"a\": 'b', \"c\": [1]}", '{"a": "b" c"}', '{"a": 1e+}']
)  # fmt: skip
def test_faults_are_repaired_at_each_cut(text: str) -> None:
    for seed in range(40):
        pieces = cuts(text, seed)
        assert steps(JsonReader(), pieces) == steps(without_table(), pieces)


def test_the_table_reads_most_of_what_is_clean() -> None:
    read = []

    class Counting(CleanJson):
        __slots__ = ()

        def read(self, s: str) -> str | None:
            said = super().read(s)
            read.append(said is not None)
            return said

    reader = JsonReader()
    reader._table = Counting(reader._at)
    rows = [{"id": number, "at": [number / 7, -1], "name": "a b", "on": True} for number in range(30)]
    steps(reader, cuts(json.dumps({"rows": rows}), 1))
    assert sum(read) > 0.95 * len(read) > 100


def test_the_table_copies_no_deep_stack() -> None:
    copied = []

    class Stack(list[str]):
        def copy(self) -> Stack:
            copied.append(len(self))
            return Stack(self)

    reader = JsonReader()
    reader._at.stack = Stack(reader._at.stack)
    text = '{"a": [' * 2000 + "1" + "]}" * 2000
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    assert steps(reader, pieces) == steps(without_table(), pieces)
    assert copied
    assert max(copied) <= 2100
