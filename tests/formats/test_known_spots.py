"""What real models were seen to write: comments around a call's end, and Python's sets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.events import Event

from ..parsing.streams import alike, calls_in, text_in

TOOLS = ToolSet.of(
    [
        Tool("run", "", {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}),
        Tool("tag", "", {"type": "object", "properties": {"tags": {}, "city": {"type": "string"}}}),
    ]
)
ARGUMENTS = '{"x": 1}'


def _read(name: str, text: str) -> list[Event]:
    return alike(lambda: registry.get(name).parser(TOOLS, ParserOptions()), text)


def _parts(name: str) -> tuple[str, str, str]:
    """What a family writes before a call's arguments, the brackets behind them, and the marker that closes the call."""
    before, _, behind = registry.get(name).render_calls([ToolCall("run", ARGUMENTS)]).partition(ARGUMENTS)
    marker = behind.lstrip("}] \n`")
    return before, behind.removesuffix(marker), marker


# mistral_old: the call's id stands behind its arguments, and no marker behind it.
VERBATIM = [
    name for name in registry.names() if ARGUMENTS in registry.get(name).render_calls([ToolCall("run", ARGUMENTS)])
]
CLOSED = [name for name in VERBATIM if name not in {"auto", "mistral_old"} and _parts(name)[2].strip()]

COMMENTS = [
    pytest.param("{0}{1}{2} // done {3}", id="behind the call"),
    pytest.param("{0}{1}{2} /* done {3}", id="behind the call, a block"),
    pytest.param("{0}{1}{2} /* done */{3}", id="behind the call, a whole block"),
    pytest.param("{0}{1}{2}\n# done\n{3}", id="a line of its own"),
    pytest.param("{0}{1} // done {2}{3}", id="before the brackets"),
    pytest.param("{0}{1} // done {3}", id="the brackets are missing"),
    pytest.param("{0}{4} // done {2}{3}", id="in the arguments"),
    pytest.param("{0}{4} /* done {3}", id="in the arguments, a block"),
]


def test_most_families_close_their_calls() -> None:
    assert len(CLOSED) >= 15


@pytest.mark.parametrize("written", COMMENTS)
@pytest.mark.parametrize("behind", ["", " And text.\nMore of it."])
@pytest.mark.parametrize("name", CLOSED)
def test_a_marker_in_a_comment_closes_a_call_that_is_complete(name: str, behind: str, written: str) -> None:
    before, brackets, marker = _parts(name)
    text = written.format(before, ARGUMENTS, brackets, marker, ARGUMENTS[:-1]) + behind
    events = _read(name, text)
    (call,) = calls_in(events)
    assert (call.name, json.loads(call.arguments), call.complete) == ("run", {"x": 1}, True)
    assert text_in(events) == behind


def test_a_marker_in_a_comment_before_a_value_closes_nothing() -> None:
    inner = '{"x": 1, // </tool_call> comes below\n "y": 2}'
    (call,) = calls_in(_read("hermes", f'<tool_call>\n{{"name": "run", "arguments": {inner}}}\n</tool_call>'))
    assert (json.loads(call.arguments), call.complete) == ({"x": 1, "y": 2}, True)
    (call,) = calls_in(_read("hermes", '<tool_call>\n{"name": "run", "arguments": {"x": // </tool_call>'))
    assert not call.complete


def test_a_comment_behind_a_call_swallows_no_other_call() -> None:
    one = '{"name": "run", "arguments": {"x": 1}}'
    events = _read("hermes", f"<tool_call>{one} // two of them: <tool_call>{one}</tool_call>")
    assert [call.arguments for call in calls_in(events)] == [ARGUMENTS] * 2


@pytest.mark.parametrize("behind", [" // done", "\n# A title\n\nText of it.", " / 2", " /* done"])
def test_what_no_marker_closes_stays_text(behind: str) -> None:
    events = _read("hermes", '<tool_call>{"name": "run", "arguments": {"x": 1}}' + behind)
    assert len(calls_in(events)) == 1
    assert text_in(events) == behind


SETS: list[tuple[str, Any]] = [
    ("{'a', 'b'}", ["a", "b"]),
    ('{"a"}', ["a"]),
    ("{1, 2.5, -3}", [1, 2.5, -3]),
    ("{True, None}", [True, None]),
    ("{'a, b', 'it\\'s'}", ["a, b", "it's"]),
    ("{ 'a' , 'b' , }", ["a", "b"]),
    ("[{'a', 'b'}, {'c'}]", [["a", "b"], ["c"]]),
    ("{'k': {'a', 'b'}, 'm': 1}", {"k": ["a", "b"], "m": 1}),
    ("({'a'}, {'b': 1})", [["a"], {"b": 1}]),
    ("{r'a\\b', 'c'}", ["a\\b", "c"]),
    ("{}", {}),
    ("{'a': 1}", {"a": 1}),
    ("{'a b, c': {'d': [1]}}", {"a b, c": {"d": [1]}}),
    ("{1: 'a'}", {"1": "a"}),
]


@pytest.mark.parametrize(("written", "value"), SETS)
@pytest.mark.parametrize("name", ["pythonic", "lfm2", "auto"])
def test_a_set_of_python_is_a_list(name: str, written: str, value: Any) -> None:
    mark = ("<|tool_call_start|>", "<|tool_call_end|>") if name == "lfm2" else ("", "")
    events = _read(name, f"{mark[0]}[tag(tags={written}, city='x')]{mark[1]}")
    (call,) = calls_in(events)
    assert (json.loads(call.arguments), call.complete, call.repaired) == ({"tags": value, "city": "x"}, True, False)
    assert not text_in(events)
