"""The public functions that read calls and write prompts without a server: the same as the middleware's own readers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolcall_middleware
from tests.formats.goldens import FOLDER, Case
from tests.parsing.streams import merged
from toolcall_middleware import (
    CallReader,
    FormatError,
    ReadAnswer,
    ToolCallError,
    ToolResult,
    read_calls,
    render_calls,
    render_results,
    render_tools,
)
from toolcall_middleware.formats import registry
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Text

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "now", "description": "The time."}},
]
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
FORMATS = [name for name in registry.names() if name != "auto"]


def all_events(reader: CallReader, pieces: Iterable[str], *, cut: bool = False) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        events += reader.feed(piece)
    return merged(events + reader.finish(cut=cut))


def test_a_whole_text() -> None:
    answer = read_calls(f"<think>Let me see.</think>I look.\n{HERMES}", TOOLS)
    assert (answer.text, answer.reasoning, answer.malformed) == ("I look.\n", "Let me see.", [])
    (call,) = answer.calls
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Paris", "days": 2}')
    assert (call.complete, call.repaired, call.coerced) == (True, False, False)
    assert call.decoded() == {"city": "Paris", "days": 2}


def test_events_come_while_the_model_writes() -> None:
    reader = CallReader(TOOLS, format="hermes")
    assert reader.feed("I look.") == [Text("I look.")]
    assert reader.feed('<tool_call>{"name": "get_weather", "argum') == []
    assert reader.feed('ents": {"city": "Pa') == [CallStart("get_weather"), CallArgs('{"city": "Pa')]
    assert merged(reader.feed('ris"}}</tool_call>') + reader.finish()) == [CallArgs('ris"}'), CallEnd()]


@pytest.mark.parametrize("format_name", ["hermes", "auto"])
def test_every_cut_gives_the_same(format_name: str) -> None:
    text = f"Text.\n{HERMES}".replace("2}", '"2"}')
    whole = all_events(CallReader(TOOLS, format=format_name), [text])
    assert CallEnd(coerced=True) in whole
    for at in range(len(text)):
        assert all_events(CallReader(TOOLS, format=format_name), [text[:at], text[at:]]) == whole
    assert all_events(CallReader(TOOLS, format=format_name), text) == whole
    assert read_calls(text, TOOLS, format=format_name) == read_calls(list(text), TOOLS, format=format_name)


def golden_calls() -> list[Case]:
    """The first golden case of each format that holds calls of offered tools."""
    found: list[Case] = []
    for path in sorted(FOLDER.glob("*.jsonl")):
        cases = (Case(**json.loads(line)) for line in path.read_text("utf-8").splitlines() if line.strip())
        usable = (case for case in cases if case.tools and case.expected_tool_calls and not case.options)
        found += [case for case in [next(usable, None)] if case is not None and not case.ends_cut]
    return found


@pytest.mark.parametrize("case", golden_calls(), ids=lambda case: case.format)
def test_it_reads_what_the_middleware_reads(case: Case) -> None:
    answer = read_calls(case.text, case.tools, format=case.format, coerce=False)
    parser = registry.get(case.format).parser(case.offered, case.parser_options)
    expected = [event.name for event in parser.feed(case.text) + parser.finish() if isinstance(event, CallStart)]
    assert [call.name for call in answer.calls] == expected
    assert expected


@pytest.mark.parametrize("format_name", FORMATS)
def test_what_is_written_is_read_back(format_name: str) -> None:
    calls = [("get_weather", {"city": "Zürich", "days": 3}), ("now", {})]
    for turn in (calls, calls[:1]):
        read = read_calls(render_calls(turn, format=format_name), TOOLS, format=format_name)
        assert [(call.name, call.decoded()) for call in read.calls] == turn
        assert not read.malformed
    again = render_calls(read.calls, format=format_name)
    assert read_calls(again, TOOLS, format=format_name).calls[0].decoded() == calls[0][1]


@given(st.text(max_size=60))
def test_a_text_without_calls_stays_as_it_is(text: str) -> None:
    answer = read_calls(text, [])
    assert answer.calls == []
    if not answer.reasoning and "<" not in text:
        assert answer.text == text


def test_a_call_that_is_cut_stays_cut() -> None:
    (call,) = read_calls(HERMES[:60], TOOLS, format="hermes", cut=True).calls
    assert (call.complete, call.arguments) == (False, '{"city": "P')
    with pytest.raises(ValueError, match="truncated"):
        call.decoded()


def test_calls_of_other_names() -> None:
    other = HERMES.replace("get_weather", "rm")
    assert read_calls(other, TOOLS) == ReadAnswer(text=other)
    assert read_calls(other, TOOLS, unknown_tool="drop") == ReadAnswer()
    assert [call.name for call in read_calls(other, TOOLS, unknown_tool="forward").calls] == ["rm"]
    assert [call.name for call in read_calls(other).calls] == ["rm"]


def test_values_get_the_types_of_the_schema_unless_that_is_switched_off() -> None:
    text = HERMES.replace("2}", '"2"}')
    (typed,) = read_calls(text, TOOLS).calls
    assert (typed.decoded()["days"], typed.coerced) == (2, True)
    (raw,) = read_calls(text, TOOLS, coerce=False).calls
    assert (raw.decoded()["days"], raw.coerced) == ("2", False)


def test_an_answer_that_begins_in_the_reasoning() -> None:
    answer = read_calls(f"I should look.</think>{HERMES}", TOOLS, format="hermes", in_reasoning=True)
    assert (answer.reasoning, answer.text, len(answer.calls)) == ("I should look.", "", 1)


def test_the_prompt_of_a_family() -> None:
    block = render_tools(TOOLS, model="Qwen/Qwen2.5-7B-Instruct")
    assert "<tools>" in block
    assert '"get_weather"' in block
    assert block == render_tools(TOOLS, format="hermes")
    assert render_tools(TOOLS, format="hermes", tool_choice="required").startswith(block)
    assert render_tools(TOOLS, format="hermes", parallel=False) != block


def test_no_result_can_be_read_as_markup() -> None:
    result = render_results([ToolResult("get_weather", f"Sunny. {HERMES}")], format="hermes")
    assert render_results([("get_weather", f"Sunny. {HERMES}")], format="hermes") == result
    assert read_calls(result, TOOLS, format="hermes").calls == []


def test_errors_name_the_field() -> None:
    with pytest.raises(FormatError, match="herms is not a format; did you mean hermes"):
        CallReader(TOOLS, format="herms")
    with pytest.raises(ValueError, match="unknown_tool: 'maybe' is not allowed; use text, drop or forward"):
        CallReader(TOOLS, unknown_tool="maybe")
    with pytest.raises(ToolCallError) as caught:
        read_calls("", [{"type": "function", "function": {"name": ""}}])
    assert caught.value.param == "tools[0].function.name"
    with pytest.raises(ToolCallError) as caught:
        render_tools(TOOLS, tool_choice={"type": "function", "function": {"name": "absent"}})
    assert caught.value.code == "invalid_tool_choice"


def test_the_names_are_public() -> None:
    events = {"Text", "Reasoning", "CallStart", "CallArgs", "CallEnd", "Malformed", "UnknownCall", "Stop"}
    assert events <= set(toolcall_middleware.__all__)
    assert toolcall_middleware.CallStart is CallStart
