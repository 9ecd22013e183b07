"""A backend's own calls, repaired. Each fault is one that an engine has (or had); its issue stands beside it."""

from __future__ import annotations

import gc
import json
import time
from typing import Any

import pytest

from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Text
from toolcall_middleware.response.native_calls import NativeCalls

TOOLS = ToolSet.of([Tool("f"), Tool("get"), Tool("get_weather")])


def delta(arguments: Any = None, name: str | None = None, **fields: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function}


def events(*deltas: list[dict[str, Any]], cut: bool = False, unknown: str = "text") -> list[Event]:
    native = NativeCalls(TOOLS, ParserOptions(unknown_tool=unknown))
    made: list[Event] = []
    for entries in deltas:
        made += native.feed(entries)
    return made + native.finish(cut=cut)


def calls(*deltas: list[dict[str, Any]]) -> list[tuple[str, str | None, Any]]:
    """(name, id, arguments) of each call; calls may not interleave and must be complete."""
    found: list[tuple[str, str | None, Any]] = []
    opened: CallStart | None = None
    text = ""
    for event in events(*deltas):
        match event:
            case CallStart():
                assert opened is None
                opened, text = event, ""
            case CallArgs(piece):
                text += piece
            case CallEnd(complete):
                assert complete
                assert opened is not None
                found.append((opened.name, opened.id, json.loads(text)))
                opened = None
    return found


def test_what_is_right_passes_as_it_is() -> None:
    got = events(
        [delta("", "f", index=0, id="a", type="function")],
        [delta('{"x"', index=0)],
        [delta(": 1}", index=0)],
        [delta("", "get", index=1, id="b", type="function")],
        [delta("{}", index=1)],
    )
    assert [type(event).__name__ for event in got] == [
        "CallStart", "CallArgs", "CallArgs", "CallEnd", "CallStart", "CallArgs", "CallEnd"
    ]  # fmt: skip
    assert [event.text for event in got if isinstance(event, CallArgs)] == ['{"x"', ": 1}", "{}"]


def test_arguments_leave_as_they_come() -> None:
    native = NativeCalls(TOOLS)
    assert native.feed([delta("", "f", index=0, id="a")]) == []
    assert native.feed([delta('{"x": "ab', index=0)]) == [CallStart("f", "a"), CallArgs('{"x": "ab')]
    assert native.feed([delta("c", index=0)]) == [CallArgs("c")]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(
            [[delta("", "f", id="a")], [delta('{"x":')], [delta("1}")]],
            [("f", "a", {"x": 1})],
            id="no index: Ollama",
        ),
        pytest.param(
            [[delta("{}", "f", id="a")], [delta("{}", "f", id="b")]],
            [("f", "a", {}), ("f", "b", {})],
            id="ids, no index",
        ),
        pytest.param(
            [[delta('{"x":1}', "f", index=0, id="a")], [delta('{"x":2}', "f", index=0, id="b")]],
            [("f", "a", {"x": 1}), ("f", "b", {"x": 2})],
            id="every call has index 0: SGLang 6310",
        ),
        pytest.param(
            [[delta(None, "get", index=0, id="a")], [delta("{}", "_weather", index=0)]],
            [("get_weather", "a", {})],
            id="name in pieces",
        ),
        pytest.param(
            [[delta(None, "get")], [delta(None, "_weather")], [delta("{}")]],
            [("get_weather", None, {})],
            id="name in pieces, no index",
        ),
        pytest.param(
            [[delta("", "f", index=0, id="a")], [delta('{"x', "f", index=0)], [delta('":1}', "f", index=0)]],
            [("f", "a", {"x": 1})],
            id="name in each delta: llama-cpp-python",
        ),
        pytest.param([[delta(None, "f", index=0, id="a")]], [("f", "a", {})], id="no arguments at all: vLLM 28806"),
        pytest.param([[delta({"x": 1}, "f", index=0, id="a")]], [("f", "a", {"x": 1})], id="arguments as an object"),
        pytest.param(
            [[delta('"{\\"x\\": 1}"', "f", index=0, id="a")]], [("f", "a", {"x": 1})], id="encoded twice: vLLM 54964"
        ),
        pytest.param(
            [[delta('{"x": 1}', "f", index=0, id="a")], [delta('{"x": 1}', index=0)]],
            [("f", "a", {"x": 1})],
            id="sent twice: vLLM 24509",
        ),
        pytest.param(
            [[delta('{"city": "Pa', "f", index=0, id="a")], [delta('{"city": "Paris"}', index=0)]],
            [("f", "a", {"city": "Paris"})],
            id="all so far in each delta",
        ),
        pytest.param(
            [[delta('{"x": true', "f", index=0, id="a")]], [("f", "a", {"x": True})], id="last brace: vLLM 10398"
        ),
        pytest.param(
            [
                [delta('{"a"', "f", index=0, id="a"), delta('{"b"', "get", index=1, id="b")],
                [delta(":2}", index=1)],
                [delta(":1}", index=0)],
            ],
            [("f", "a", {"a": 1}), ("get", "b", {"b": 2})],
            id="interleaved",
        ),
        pytest.param([[delta("null", "f", index=0, id="a")]], [("f", "a", {})], id="null"),
        pytest.param(
            [[delta("{}", "f", index=0, id="a")], [delta('{"x":', index=0)], [delta("1}", index=0)]],
            [("f", "a", {"x": 1})],
            id="opened with {}: LiteLLM 4537",
        ),
        pytest.param(
            [[delta("{}", "f", index=0, id="a")], [delta("", index=0)], [delta("{}", "get", index=1, id="b")]],
            [("f", "a", {}), ("get", "b", {})],
            id="opened with {}, and that is all",
        ),
        pytest.param(
            [[delta('{}{"x":1}', "f", index=0, id="a")], [delta("{}", "f", index=0, id="b")]],
            [("f", "a", {"x": 1}), ("f", "b", {})],
            id="{} and the arguments in one",
        ),
        pytest.param(
            [[delta('{"x":1}', "f", id="a"), delta("{}", "get", id="a"), delta("{}", "get", id="a")]],
            [("f", "a", {"x": 1}), ("get", "a", {}), ("get", "a", {})],
            id="one id for all calls of a whole answer",
        ),
        pytest.param(
            [[delta('{"x":1}', "f", id="a")], [delta("{}", "get", id="a")], [delta("{}", "get", id="a")]],
            [("f", "a", {"x": 1}), ("get", "a", {})],
            id="one id for all calls, and the last one twice",
        ),
        pytest.param(
            [[delta('{"x":1}', "f", index=0, id="a")], [delta('{"x":2}', "f", index=0, id="a")]],
            [("f", "a", {"x": 1}), ("f", "a", {"x": 2})],
            id="one id and one index for all calls",
        ),
    ],
)
def test_faults_are_repaired(deltas: list[list[dict[str, Any]]], expected: Any) -> None:
    assert calls(*deltas) == expected


@pytest.mark.parametrize("key", ["{", "{{", '{"', ":", "{:"])
def test_a_key_that_reads_like_a_beginning_is_no_repetition(key: str) -> None:
    written = json.dumps({key: 1})
    for at in range(1, len(written)):
        opened = [delta("", "f", index=0, id="a")]
        pieces = [[delta(piece, index=0)] for piece in (written[:at], written[at:])]
        assert calls(opened, *pieces) == [("f", "a", {key: 1})], at


def test_a_cut_call_stays_open() -> None:
    got = events([delta('{"x": "a', "f", index=0, id="a")], cut=True)
    assert got[-1] == CallEnd(complete=False, repaired=False, raw='{"name":"f","arguments":"{\\"x\\": \\"a"}')


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("written", ["n", "nul", '"', '"abc', '"nu', "["])
def test_a_call_that_ends_in_a_value_which_is_no_object_is_never_closed(written: str, cut: bool) -> None:
    got = events([delta(written, "f", index=0, id="a")], cut=cut)
    assert got == [CallStart("f", "a"), CallEnd(complete=False, repaired=False, raw=_raw("f", written))]


@pytest.mark.parametrize(
    ("unknown", "kinds"),
    [
        ("text", [Text]),
        ("drop", []),
        ("error", [Malformed, Text]),
        ("forward", [CallStart, CallArgs, CallEnd]),
    ],
)
def test_a_name_that_is_not_offered(unknown: str, kinds: list[type]) -> None:
    got = events([delta('{"x":1}', "other", index=0, id="a")], unknown=unknown)
    assert [type(event) for event in got] == kinds


def test_garbage_is_no_call() -> None:
    native = NativeCalls(TOOLS)
    assert native.feed([None, 3, {}, {"function": None}, {"function": {"name": 3, "arguments": None}}]) == []
    assert native.finish() == []


@pytest.mark.parametrize("text", ["<x y", "]{}", '[[<"a"]', "[1, <"])
def test_arguments_that_cannot_be_read_are_text_in_pieces_too(text: str) -> None:
    whole, pieces = ([delta(text, "f", index=0)],), [[delta("", "f", index=0)], *([delta(c, index=0)] for c in text)]
    for got in (events(*whole), events(*pieces)):
        assert [type(event).__name__ for event in got] == ["UnknownCall", "Text"]


def test_nothing_leaves_behind_a_call_that_was_cut_off() -> None:
    deltas = ([delta('{"x"', "f", index=0)], [delta("{}", "get", index=1)])
    kinds = [type(event).__name__ for event in events(*deltas, cut=True)]
    assert kinds == ["CallStart", "CallArgs", "CallEnd"]
    # The model ended by itself: then the first one is repaired, and both are there.
    kinds = [type(event).__name__ for event in events(*deltas)]
    assert kinds.count("CallEnd") == 2


def test_a_call_without_arguments_is_over_when_those_of_a_later_one_begin() -> None:
    first, second = delta("", "f", index=0, id="a"), delta("", "get", index=1, id="b")
    both = [CallStart("f", "a"), CallArgs("{}"), CallEnd(complete=True, repaired=False, raw=_raw("f", ""))]
    later = [CallStart("get", "b"), CallArgs("{}"), CallEnd(complete=True, repaired=False, raw=_raw("get", "{}"))]
    for cut in (False, True):
        assert events([first], [second], [delta("{}", index=1)], cut=cut) == [*both, *later]
    native = NativeCalls(TOOLS)
    assert native.feed([first]) == []
    assert native.feed([second]) == []  # engines may open several calls first
    assert native.feed([delta("{}", index=1)]) == [*both, *later]


def _raw(name: str, arguments: str) -> str:
    return json.dumps({"name": name, "arguments": arguments}, separators=(",", ":"))


@pytest.mark.parametrize("index", [{}, {"index": 1}], ids=["without index", "with index"])
def test_nothing_leaves_of_a_call_that_is_too_large_nor_behind_it(index: dict[str, int]) -> None:
    native = NativeCalls(TOOLS, max_arguments_bytes=4)
    big = delta(json.dumps({"x": "a" * 40}), "f", id="b", **index)
    made = native.feed([delta("{}", "get", id="a"), big, delta("{}", "get_weather", id="c")])
    assert made == [
        CallStart("get", "a"),
        CallArgs("{}"),
        CallEnd(complete=True, repaired=False, raw=_raw("get", "{}")),
    ]
    assert native.oversized == "f"
    assert native.finish() == []


def _with_index(count: int) -> list[dict[str, Any]]:
    return [delta("{}", "f", index=number, id=f"c{number}") for number in range(count)]


def _without_index(count: int) -> list[dict[str, Any]]:
    return [delta("{}", "f", id=f"c{number}") for number in range(count)]


def _names_alone(count: int) -> list[dict[str, Any]]:
    return [delta(None, "f", index=number) for number in range(count)]


def _behind_the_end(count: int) -> list[dict[str, Any]]:
    return [delta("{}", "f", index=0), *(delta("{", index=0) for _ in range(count))]


@pytest.mark.slow
@pytest.mark.parametrize("make", [_with_index, _without_index, _names_alone, _behind_the_end])
def test_many_deltas_take_time_in_proportion(make: Any) -> None:
    def cost(count: int) -> float:
        best = 1e9
        gc.disable()  # what it looks through grows with the objects that are alive
        try:
            for _ in range(3):
                deltas = make(count)
                begin = time.process_time()
                events(deltas)
                best = min(best, time.process_time() - begin)
        finally:
            gc.enable()
        return best

    cost(100)
    assert cost(12_000) < 8 * cost(3_000) + 0.02


def test_a_late_id_belongs_to_the_last_call_that_has_it() -> None:
    got = calls(
        [delta(None, "f", index=0), delta(None, "get", index=1, id="a")],
        [delta('{"x": ', id="a")],
        [delta("1}", index=1), delta("{}", index=0, id="a")],
    )
    assert got == [("f", None, {}), ("get", "a", {"x": 1})]
