"""JSON calls with members that calls do not have: none of what the model wrote is lost."""

from __future__ import annotations

import json

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import Event

from ..parsing import streams

CITY = {"city": {"type": "string"}, "days": {"type": "integer"}, "where": {"type": "object"}, "id": {"type": "string"}}
TOOLS = ToolSet.of([Tool("weather", parameters={"type": "object", "properties": CITY}), Tool("ping")])
WRITTEN = {
    "hermes": "<tool_call>\n{}\n</tool_call>",
    "json": '```json\n{{"tool_calls": [{}]}}\n```',
    "mistral_old": "[TOOL_CALLS] [{}]",
    "jamba": "<tool_calls>[{}]</tool_calls>",
    "granite": "<tool_call>[{}]",
    "internlm": "<|action_start|><|plugin|>{}<|action_end|>",
}


def read(format_name: str, text: str, size: int) -> list[Event]:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return streams.read(registry.get(format_name).parser(TOOLS, ParserOptions()), pieces)


def said(events: list[Event]) -> tuple[str, list[tuple[str, str, bool]]]:
    """(text, the calls with their arguments and whether they needed repair)."""
    calls = [(call.name, call.arguments, call.repaired) for call in streams.calls_in(events)]
    return streams.text_in(events), calls


BESIDE = [
    ('{"name": "weather", "city": "Paris", "days": 2}', {"city": "Paris", "days": 2}),
    ('{"name": "weather", "where": {"a": [1, "}"]}, "note": "x"}', {"where": {"a": [1, "}"]}}),
    ('{"name": "weather", "inputs": {"city": "Paris"}}', {"city": "Paris"}),
    ('{"Arguments": {"city": "Paris"}, "name": "weather"}', {"city": "Paris"}),
    ('{"name": "weather", "id": "call_1", "type": "function", "city": "Paris"}', {"id": "call_1", "city": "Paris"}),
    ('{"type": "function", "function": {"name": "weather", "city": "Paris"}}', {"city": "Paris"}),
]


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(("call", "arguments"), BESIDE, ids=[call for call, _ in BESIDE])
@pytest.mark.parametrize("format_name", WRITTEN)
def test_arguments_beside_the_name_are_read(format_name: str, call: str, arguments: object, size: int) -> None:
    text, [(name, made, repaired)] = said(read(format_name, WRITTEN[format_name].format(call), size))
    assert (text, name, json.loads(made), repaired) == ("", "weather", arguments, True)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ('{"name": "weather", "arguments": {}, "city": "Paris"}', {}),
        ('{"name": "weather", "note": "x", "other": {"a": 1}}', {}),
        ('{"name": "weather", "id": 5, "type": "function"}', {"id": 5}),
        ('{"name": "ping", "city": "Paris"}', {}),
        ('{"name": "weather"}', {}),
    ],
)
def test_what_the_tool_does_not_know_is_no_argument(call: str, arguments: object) -> None:
    for size in (1, 10_000):
        _, [(_, made, repaired)] = said(read("hermes", WRITTEN["hermes"].format(call), size))
        assert (json.loads(made), repaired) == (arguments, bool(arguments))


def test_more_of_it_than_anybody_writes_is_not_kept() -> None:
    call = '{"name": "weather", "note": "%s", "city": "Paris"}' % ("x" * (1 << 21))
    _, [(_, made, _)] = said(read("hermes", WRITTEN["hermes"].format(call), 4096))
    assert json.loads(made) == {"city": "Paris"}


BEHIND = [
    ('{"tool_calls": [{"name": "ping", "arguments": {}}], "content": null}', ""),
    ('{"tool_calls": [{"name": "ping", "arguments": {}}], "finish_reason": "tool_calls"}', ""),
    ('{"tool_calls": [{"name": "ping", "arguments": {}}], "content": "I \\"ping\\"."}', 'I "ping".'),
    ('{"tool_calls": {"name": "ping", "arguments": {}}, "role": "assistant"}', ""),
    ('{"function_call": {"name": "ping", "arguments": {}}, "content": null}', ""),
]


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(("message", "text"), BEHIND, ids=[message for message, _ in BEHIND])
@pytest.mark.parametrize("format_name", ["json", "auto", "hermes"])
def test_members_behind_a_list_of_calls_are_no_text_but_for_what_it_says(
    format_name: str, message: str, text: str, size: int
) -> None:
    assert said(read(format_name, message, size)) == (text, [("ping", "{}", False)])
    if "function_call" not in message:
        assert said(read(format_name, f"```json\n{message}\n```", size)) == (text, [("ping", "{}", False)])


BEFORE = [
    ('{"role": "assistant", "content": null, "tool_calls": [{"name": "ping", "arguments": {}}]}', ""),
    ('{"role": "assistant", "tool_calls": [{"name": "ping", "arguments": {}}], "content": "I ping."}', "I ping."),
    ('{"role": "assistant", "content": "\\"Ping\\".", "tool_calls": [{"name": "ping", "arguments": {}}]}', '"Ping".'),
    (
        '{"role": "assistant", "content": [{"text": "I "}, {"text": "ping."}, 3], "tool_calls": [{"name": "ping"}]}',
        "I ping.",
    ),
    ('{"role": "assistant", "content": "", "function_call": {"name": "ping", "arguments": {}}}', ""),
]


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(("message", "text"), BEFORE, ids=[message for message, _ in BEFORE])
@pytest.mark.parametrize("format_name", ["json", "auto", "hermes"])
def test_an_assistants_message_in_json_is_its_calls_and_what_it_says(
    format_name: str, message: str, text: str, size: int
) -> None:
    assert said(read(format_name, message, size)) == (text, [("ping", "{}", False)])


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(
    "message",
    [
        '{"content": null, "tool_calls": [{"name": "ping", "arguments": {}}]}',
        '{"role":"assistant","content":"","tool_calls":[{"name":"ping","arguments":{}}],"refusal":null}',
        '{"role": "assistant", "tool_calls": [{"name": "ping", "arguments": {}}]}',
    ],
)
def test_so_it_is_beside_text_where_it_says_nothing(message: str, size: int) -> None:
    assert said(read("auto", message, size)) == ("", [("ping", "{}", False)])
    assert said(read("auto", f"I ping.\n{message} Done.", size)) == ("I ping.\n Done.", [("ping", "{}", False)])
    assert said(read("auto", f'I ping. {message}{{"x": 1}}', size)) == ('I ping. {"x": 1}', [("ping", "{}", False)])


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(
    ("behind", "left"),
    [
        ('{"x": 1}', '{"x": 1}'),
        ('; {"x": 1}', '; {"x": 1}'),
        ('\n{"name": "nope", "arguments": {}}', '\n{"name": "nope", "arguments": {}}'),
    ],
)
def test_the_end_of_a_list_is_no_text_where_an_object_follows(behind: str, left: str, size: int) -> None:
    message = '{"tool_calls": [{"name": "ping", "arguments": {}}]}'
    assert said(read("auto", message + behind, size)) == (left, [("ping", "{}", False)])


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_behind_a_call_that_is_refused_nothing_is_lost(size: int) -> None:
    behind = ', {"name": "nope"], "arguments": {"a": 1}}, {"name": "other", "arguments": }{}]}'
    message = f'{{"tool_calls": [{{"name": "ping", "arguments": {{}}}}{behind}'
    assert said(read("auto", message, size)) == (behind, [("ping", "{}", False)])


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        ("hermes", "<tool_call>\n{}\n</tool_call>"),
        ("granite", "<tool_call>{}"),
        ("mistral_old", "[TOOL_CALLS]{}"),
        ("jamba", "<tool_calls>{}</tool_calls>"),
        ("auto", "<tool_call>{}</tool_call>"),
    ],
)
def test_a_list_under_its_key_may_stand_behind_a_marker(format_name: str, text: str, size: int) -> None:
    message = '{"tool_calls": [{"name": "ping", "arguments": {}}, {"name": "weather", "arguments": {"days": 1}}]}'
    calls = [("ping", "{}", False), ("weather", '{"days": 1}', False)]
    assert said(read(format_name, text.format(message), size)) == ("", calls)


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    "message",
    [
        '{"role": "user", "content": "Hi.", "tool_calls": [{"name": "ping", "arguments": {}}]}',
        '{"role": "assistant", "content": "Hi."}',
        '{"role": "assistant", "title": "CTO", "tool_calls": [{"name": "ping", "arguments": {}}]}',
        '{"content": "Hi.", "tool_calls": [{"name": "ping", "arguments": {}}]}',
        '{"content": null, "title": [{"name": "ping", "arguments": {}}]}',
        '{"name": "ping", "role": "assistant", "arguments": {}}',
    ],
)
def test_other_objects_stay_text(message: str, size: int) -> None:
    assert said(read("auto", message, size)) == (message, [])


@pytest.mark.parametrize("size", [1, 10_000])
def test_where_the_call_is_refused_all_of_it_is_text(size: int) -> None:
    message = '{"tool_calls": [{"name": "nope", "arguments": {}}], "content": "Hi."}'
    assert said(read("json", message, size)) == (message, [])
