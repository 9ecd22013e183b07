"""Calls that no marker announces: dialects that `auto` reads where the tool is offered, and JSON as the last lines."""

from __future__ import annotations

import json

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.cursor import MAX_HELD
from toolcall_middleware.parsing.events import CallArgs, Event, Malformed, Text

from ..parsing.streams import alike, calls_in, read, shown_in, text_in

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = ToolSet.of([Tool("get_weather", "", CITY), Tool("clock")])
ARGUMENTS = '{"city": "Paris"}'

CALLS = {
    "react": f"Action: get_weather\nAction Input: {ARGUMENTS}",
    "action": '{"action": "get_weather", "action_input": ' + ARGUMENTS + "}",
    "function_call": '{"function_call": {"name": "get_weather", "arguments": ' + ARGUMENTS + "}}",
    "tool_code": '```tool_code\nget_weather(city="Paris")\n```',
    "tags": "<get_weather>\n<city>Paris</city>\n</get_weather>",
    "invoke": '<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>',
    "json": '{"name": "get_weather", "arguments": ' + ARGUMENTS + "}",
}
every_call = pytest.mark.parametrize("dialect", CALLS)
UNMARKED = pytest.mark.parametrize("dialect", ["action", "function_call", "json"])


def _read(text: str, options: ParserOptions | None = None, *, name: str = "auto") -> list[Event]:
    return alike(lambda: registry.get(name).parser(TOOLS, options or ParserOptions()), text)


@every_call
@pytest.mark.parametrize("before", ["", "Let me look.\n", "Let me look.\n\n"])
def test_a_call_is_read(dialect: str, before: str) -> None:
    events = _read(before + CALLS[dialect])
    (call,) = calls_in(events)
    assert (call.name, json.loads(call.arguments), call.complete, call.repaired) == (
        "get_weather",
        {"city": "Paris"},
        True,
        False,
    )
    assert text_in(events).strip() == before.strip()


@every_call
@pytest.mark.parametrize(
    "around",
    [
        "I would write {} here.",
        "For example: {}\n\nThat is all.",
        "A call looks so:\n\n`````text\n{}\n`````\n\nThat is all.",
        "- {}\n- and more",
        "> {}",
    ],
)
def test_one_in_prose_or_code_stays_text(dialect: str, around: str) -> None:
    if dialect == "tool_code" and "`````" not in around:
        pytest.skip("a block of its own at a sentence's end is a call in every syntax that stands in one")
    text = around.format(CALLS[dialect])
    events = _read(text)
    assert not calls_in(events)
    assert shown_in(events) == text


@every_call
@pytest.mark.parametrize("unknown", ["text", "drop", "error", "forward"])
def test_one_of_a_tool_that_is_not_offered_stays_text(dialect: str, unknown: str) -> None:
    text = "Well.\n" + CALLS[dialect].replace("get_weather", "get_wind")
    events = _read(text, ParserOptions(unknown_tool=unknown))
    assert not calls_in(events)
    assert shown_in(events) == text
    assert not any(isinstance(event, Malformed) for event in events)


@UNMARKED
@pytest.mark.parametrize("name", ["auto", "json"])
@pytest.mark.parametrize("behind", ["", "\n", " \n\n", "<|im_end|>", "\n</s>", "\n</tool_call>\n</s>"])
def test_json_behind_prose_is_a_call_where_nothing_follows(dialect: str, name: str, behind: str) -> None:
    events = _read("Let me look.\n" + CALLS[dialect] + behind, name=name)
    (call,) = calls_in(events)
    assert (call.name, call.arguments) == ("get_weather", ARGUMENTS)
    assert text_in(events).strip() == "Let me look."


JSON_LIST = f"[{CALLS['json']}, {CALLS['json']}]"
LISTS = pytest.mark.parametrize("name", ["auto", "json"])


@LISTS
@pytest.mark.parametrize("behind", ["", "\n", "<|im_end|>"])
def test_a_list_of_calls_behind_prose_is_calls_where_nothing_follows(name: str, behind: str) -> None:
    events = _read("Let me look.\n" + JSON_LIST + behind, name=name)
    assert [call.name for call in calls_in(events)] == ["get_weather"] * 2
    assert text_in(events).strip() == "Let me look."


@LISTS
@pytest.mark.parametrize("before", ["Let me look: ", "$ tool --json\n> ", "```json\n", "$ tool\n[\n "])
def test_a_list_beside_prose_in_a_block_or_over_lines_is_text(name: str, before: str) -> None:
    text = "See.\n" + before + JSON_LIST.removeprefix("[" if "[" in before else "") + ("\n```" if "`" in before else "")
    events = _read(text, name=name)
    assert not calls_in(events)
    assert shown_in(events) == text


@LISTS
def test_a_list_behind_prose_is_text_where_anything_follows(name: str) -> None:
    for text in (f"See.\n{JSON_LIST} Done.", f"See.\n{JSON_LIST}\nDone."):
        events = _read(text, name=name)
        assert not calls_in(events)
        assert shown_in(events) == text


@UNMARKED
@pytest.mark.parametrize("behind", [" Done.", "\nDone.", "\n```", " // so", "\n[1]"])
def test_json_behind_prose_is_text_where_anything_follows(dialect: str, behind: str) -> None:
    text = "Let me look.\n" + CALLS[dialect] + behind
    events = _read(text)
    assert not calls_in(events)
    assert shown_in(events) == text


@UNMARKED
@pytest.mark.parametrize("name", [name for name in registry.names() if name not in {"auto", "json", "llama3_json"}])
def test_other_formats_leave_it_as_text(dialect: str, name: str) -> None:
    if name in {"react", "action_json", "function_call", "tool_code", "tool_tags"}:
        pytest.skip("dialects read JSON as `json` does")
    text = "Let me look.\n" + CALLS[dialect]
    events = _read(text, name=name)
    assert not calls_in(events)
    assert shown_in(events) == text


@pytest.mark.parametrize("name", ["auto", "json"])
@pytest.mark.parametrize("key", ['"score": 0.5', '"why": {"a": 1}', "why: 1"])
def test_json_behind_prose_is_text_where_a_key_is_no_calls(key: str, name: str) -> None:
    for call in (
        f'{{"name": "get_weather", "arguments": {ARGUMENTS}, {key}}}',
        f'{{"arguments": {ARGUMENTS}, {key}, "name": "get_weather"}}',
    ):
        events = _read(f"Let me look.\n{call}", name=name)
        assert not calls_in(events)
        assert shown_in(events) == f"Let me look.\n{call}"


def test_json_that_is_cut_behind_prose_is_text() -> None:
    text = 'Let me look.\n{"name": "get_weather", "arguments": {"city": "Pa'
    fmt = registry.get("auto")
    for cut in (False, True):
        events = read(fmt.parser(TOOLS, ParserOptions()), [text], cut=cut)
        assert not calls_in(events)
        assert shown_in(events) == text


def test_what_is_held_back_can_still_become_a_call() -> None:
    parser = registry.get("auto").parser(TOOLS, ParserOptions())
    shown = "".join(
        event.text for piece in ["Well.", "\nAction", ":", " get", "_wi"] for event in parser.feed(piece)
        if isinstance(event, Text)
    )  # fmt: skip
    assert shown == "Well.\nAction: get_wi"
    for text in ["Well.\n<get_wi", "Well.\n<di", 'Well.\n{"nam": ', 'Well. {"name', "So\nAction i"]:
        parser = registry.get("auto").parser(TOOLS, ParserOptions())
        events = [event for char in text for event in parser.feed(char)]
        assert "".join(event.text for event in events if isinstance(event, Text)) == text


def test_arguments_leave_as_they_arrive() -> None:
    for text in (CALLS["react"], CALLS["tags"], CALLS["tool_code"], CALLS["action"]):
        parser = registry.get("auto").parser(TOOLS, ParserOptions())
        head, _, rest = text.partition("Pa")
        assert any(isinstance(event, CallArgs) for event in parser.feed(head + "Pa"))
        assert [event.text for event in parser.feed("ri") if isinstance(event, CallArgs)] == ["ri"]
        assert rest


def test_a_line_that_is_too_long_is_text() -> None:
    text = 'Well.\n{"name": "get_weather", "arguments": {"city": "' + "a" * (MAX_HELD + 8) + '"}}'
    fmt = registry.get("auto")
    for size in (1 << 12, len(text)):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        events = read(fmt.parser(TOOLS, ParserOptions()), pieces)
        assert not calls_in(events)
        assert shown_in(events) == text


def test_an_observation_that_the_model_made_up_ends_the_answer() -> None:
    parser = registry.get("auto").parser(TOOLS, ParserOptions())
    events = read(parser, [CALLS["react"], "\nObserv", "ation: 22\nThought: I know.\nFinal Answer: 22"])
    assert len(calls_in(events)) == 1
    assert not text_in(events)


def test_any_name_is_no_tag_of_a_call() -> None:
    """Without the names of tools (captured text, read offline) nothing tells a tag from XML."""
    text = "Well.\n<note>\n<to>Ann</to>\n</note>"
    parser = registry.get("auto").parser(None, ParserOptions())
    assert shown_in(read(parser, [text])) == text


def test_an_empty_element_is_no_call_of_a_tool_that_needs_an_argument() -> None:
    """`search` and `output` are HTML's names, too."""
    needs = ToolSet.of([Tool("search", "", {**CITY, "required": ["city"]}), Tool("ping")])
    text = "The element:\n\n<search></search>\n\nholds a form."
    for pieces in ([text], [*text]):
        events = read(registry.get("auto").parser(needs, ParserOptions()), pieces)
        assert (calls_in(events), text_in(events)) == ([], text)
    for call in ("<search>\n<city>Paris</city>\n</search>", "<ping></ping>"):
        assert len(calls_in(read(registry.get("auto").parser(needs, ParserOptions()), [*call]))) == 1


def test_the_tag_of_a_tool_named_tool_code_is_its_call() -> None:
    tools = ToolSet.of([Tool("tool_code", "", {"type": "object", "properties": {"code": {"type": "string"}}})])
    text = "Let me look.\n<tool_code>\n<code>print(1)</code>\n</tool_code>"
    (call,) = calls_in(alike(lambda: registry.get("auto").parser(tools, ParserOptions()), text))
    assert (call.name, call.arguments) == ("tool_code", '{"code": "print(1)"}')
