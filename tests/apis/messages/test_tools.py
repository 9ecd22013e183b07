"""The tools of a Messages request: which the model is offered, and how."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tests.apis.fed import MessagesFace
from toolcall_middleware.apis.messages.client.tools import read_tools, typed_tool
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.wire.json_input import ANTHROPIC, Reader

from .chat import READ, body, chat_of, recorded

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
LATER = {"name": "Later", "description": "L", "input_schema": {"type": "object"}, "defer_loading": True}
OTHER = {"name": "Other", "input_schema": {"type": "object"}, "defer_loading": True}
USER = {"role": "user", "content": "hi"}
FOUND = [
    USER,
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {"query": "Later"}}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "tool_reference", "tool_name": "Later"}]}
        ],
    },
]


def names(**fields: Any) -> list[str]:
    return [tool["function"]["name"] for tool in chat_of(**fields).get("tools", ())]


def test_a_tool_is_a_function_and_its_schema_keeps_its_bytes() -> None:
    tool = (
        b'{"type":"custom","name":"a","description":"d","input_schema":{"type": "object", "n":1.0},"cache_control":{},'
        b'"eager_input_streaming":true}'
    )
    raw = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"q"}],"tools":[%b]}' % tool
    made = MessagesFace().request(raw).body
    assert (
        b'[{"type":"function","function":{"name":"a","description":"d","parameters":{"type": "object", "n":1.0}}}]'
        in made
    )


@pytest.mark.parametrize(("native", "kept"), [(False, True), (True, None)])
def test_a_strict_tool_stays_strict_unless_the_upstream_keeps_that_promise_itself(
    native: bool, kept: bool | None
) -> None:
    fields = {"tools": msgspec.Raw(b'[{"name":"a","strict":true,"input_schema":{"type":"object"}}]')}
    [tool] = read_tools(Reader(fields, ANTHROPIC), native=native).offered
    assert tool.function.get("strict") is kept


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {}),
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "Read"}, {"tool_choice": {"type": "function", "function": {"name": "Read"}}}),
        ({"type": "auto", "disable_parallel_tool_use": True}, {"tool_choice": "auto", "parallel_tool_calls": False}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"tool_choice": "required", "parallel_tool_calls": False}),
        ({"type": "any", "disable_parallel_tool_use": False}, {"tool_choice": "required"}),
    ],
)
def test_choices(choice: Any, expected: dict[str, Any]) -> None:
    chat = chat_of(tools=[READ], tool_choice=choice)
    assert {name: chat[name] for name in ("tool_choice", "parallel_tool_calls") if name in chat} == expected


def test_server_tools_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    toolset = {"type": "mcp_toolset", "mcp_server_name": "srv"}
    with caplog.at_level(logging.WARNING, "toolcall_middleware"):
        made = MessagesFace().request(body(tools=[SEARCH, READ, toolset], tool_choice={"type": "any"}))
    assert made.dropped_tools == ("web_search", "srv")
    assert [tool["function"]["name"] for tool in json.loads(made.body)["tools"]] == ["Read"]
    assert "web_search" in caplog.text


def test_a_server_tool_alone_is_a_request_without_tools() -> None:
    chat = chat_of(tools=[SEARCH], tool_choice={"type": "auto"})
    assert chat.keys() == {"model", "max_tokens", "messages"}


@pytest.mark.parametrize(
    ("choice", "param"),
    [({"type": "any"}, "tool_choice"), ({"type": "tool", "name": "web_search"}, "tool_choice.name")],
)
def test_a_server_tool_that_is_forced_is_refused_by_name(choice: Any, param: str) -> None:
    with pytest.raises(ToolCallError, match="web_search") as caught:
        MessagesFace().request(body(tools=[SEARCH], tool_choice=choice))
    assert caught.value.code == "invalid_tool_choice"
    assert caught.value.param == param


def test_a_tool_of_an_unknown_type_with_a_schema_is_a_function() -> None:
    assert names(tools=[{"type": "new_20300101", **READ}]) == ["Read"]


# -- typed tools ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "inputs"),
    [
        ("bash_20241022", "bash", [{"command": "ls"}, {"restart": True}]),
        ("bash_20250124", "bash", [{"command": "ls"}]),
        ("text_editor_20241022", "str_replace_editor", [{"command": "undo_edit", "path": "/x"}]),
        (
            "text_editor_20250124",
            "str_replace_editor",
            [{"command": "insert", "path": "/x", "insert_line": 0, "new_str": "a"}],
        ),
        (
            "text_editor_20250429",
            "str_replace_based_edit_tool",
            [{"command": "view", "path": "/x", "view_range": [1, -1]}],
        ),
        (
            "text_editor_20250728",
            "str_replace_based_edit_tool",
            [{"command": "insert", "path": "/x", "insert_line": 0, "insert_text": "a"}],
        ),
        ("memory_20250818", "memory", [{"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}]),
        ("computer_20241022", "computer", [{"action": "left_click", "coordinate": [1, 2]}]),
        (
            "computer_20250124",
            "computer",
            [{"action": "scroll", "coordinate": [1, 2], "scroll_direction": "up", "scroll_amount": 3}],
        ),
        ("computer_20251124", "computer", [{"action": "zoom", "region": [0, 0, 9, 9]}]),
        ("bash_20290101", "bash", [{"command": "ls"}]),
    ],
)
def test_typed_tools_are_functions_with_their_schema(kind: str, name: str, inputs: list[Any]) -> None:
    given = {"type": kind, "name": name, "display_width_px": 800, "display_height_px": 600, "enable_zoom": True}
    [tool] = chat_of(tools=[given])["tools"]
    function = tool["function"]
    assert function["name"] == name
    assert function["description"]
    validator = Draft202012Validator(function["parameters"])
    for given_input in inputs:
        validator.validate(given_input)
        assert given_input.keys() <= function["parameters"]["properties"].keys()
    assert not validator.is_valid(
        {"command": "fly", "action": "fly", "path": "/"} if name != "bash" else {"command": 1}
    )


def test_the_newer_editor_undoes_nothing() -> None:
    versions = ("20250124", "20250429", "20250728")
    tools = [typed_tool(f"text_editor_{version}", Reader({}, ANTHROPIC)) for version in versions]
    commands = [tool["parameters"]["properties"]["command"]["enum"] for tool in tools if tool is not None]
    assert ["undo_edit" in found for found in commands] == [True, False, False]


def test_the_screens_size_is_told() -> None:
    given = {"type": "computer_20250124", "name": "computer", "display_width_px": 800, "display_height_px": 600}
    assert "800 x 600" in chat_of(tools=[given])["tools"][0]["function"]["description"]


# -- deferred tools ------------------------------------------------------------------------------------------------


def test_deferred_tools_are_hidden_until_a_result_names_them() -> None:
    assert names(tools=[LATER, READ]) == ["Read"]
    assert names(tools=[LATER, READ, OTHER], messages=FOUND) == ["Read", "Later"]


def test_the_placeholder_is_never_offered() -> None:
    placeholder = {**LATER, "name": "DeferredToolPlaceholder"}
    named = json.loads(json.dumps(FOUND).replace('"tool_name": "Later"', '"tool_name": "DeferredToolPlaceholder"'))
    assert names(tools=[READ, placeholder], messages=named) == ["Read"]


def test_loaded_tools_stand_behind_the_others_in_the_order_of_their_coming() -> None:
    more = json.loads(json.dumps(FOUND[1:]).replace("t1", "t2").replace('"tool_name": "Later"', '"tool_name": "Other"'))
    tools = [OTHER, LATER, READ]
    first, second = (
        chat_of(tools=tools, messages=FOUND)["tools"],
        chat_of(tools=tools, messages=[*FOUND, *more])["tools"],
    )
    assert [tool["function"]["name"] for tool in second] == ["Read", "Later", "Other"]
    assert second[: len(first)] == first


def test_the_result_names_the_tools_for_an_upstream_that_gets_their_definitions_itself() -> None:
    chat = json.loads(MessagesFace(native=True).request(body(tools=[LATER, READ], messages=FOUND)).body)
    assert chat["messages"][2]["content"] == "These tools can be called from now on: Later"
    assert not any("toolcall_loaded" in tool for tool in chat["tools"])


def test_the_result_holds_the_definitions() -> None:
    chat = chat_of(tools=[LATER, READ], messages=FOUND)
    assert '{"name":"Later","description":"L","parameters":{"type": "object"}}' in chat["messages"][2]["content"]
    assert chat["tools"] == [
        {"type": "function", "function": {"name": "Read", "description": "Reads.", "parameters": READ["input_schema"]}},
        {
            "type": "function",
            "function": {"name": "Later", "description": "L", "parameters": {"type": "object"}},
            "toolcall_loaded": True,
        },
    ]


def test_a_reference_to_what_is_not_declared_says_nothing() -> None:
    chat = chat_of(tools=[READ], messages=FOUND)
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["Read"]
    assert chat["messages"][2]["content"] == ""


def test_claude_codes_tool_search() -> None:
    before, after = chat_of(recorded("claude_code-01")), chat_of(recorded("claude_code-02"))
    sent = [tool["name"] for tool in json.loads(recorded("claude_code-02"))["tools"]]
    loaded = ["CronList", "NotebookEdit"]
    assert [tool["function"]["name"] for tool in after["tools"]] == [*(n for n in sent if n not in loaded), *loaded]
    assert after["messages"][: len(before["messages"])] == before["messages"]
    introduction, *definitions = after["messages"][-1]["content"].split("\n")
    assert introduction == "These tools can be called from now on:"
    assert [json.loads(definition)["name"] for definition in definitions] == loaded


def test_an_mcp_tool_comes_by_tool_search() -> None:
    sent = json.loads(recorded("claude_code_mcp-02"))
    sent["tools"].insert(1, {**LATER, "name": "mcp__codes__lookup_code"})
    chat = chat_of(json.dumps(sent).encode())
    assert chat["tools"][-1]["function"]["name"] == "mcp__codes__lookup_code"
    assert chat["messages"][-1]["content"] == "code TOOLMARK-1e8e4c0000a2 for day 3 in Paris"


def test_where_the_search_itself_cannot_run_all_deferred_tools_are_offered() -> None:
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    assert names(tools=[search, LATER, READ]) == ["Read", "Later"]


def changed(kind: str, name: str) -> dict[str, Any]:
    return {"role": "system", "content": [{"type": kind, "tool": {"type": "tool_reference", "name": name}}]}


def test_tools_are_added_and_taken_away_in_the_conversation() -> None:
    added = chat_of(tools=[READ, LATER], messages=[USER, changed("tool_addition", "Later")])
    assert [tool["function"]["name"] for tool in added["tools"]] == ["Read", "Later"]
    definition = '{"name":"Later","description":"L","parameters":{"type": "object"}}'
    announced = f"These tools can be called from now on:\n{definition}"
    assert added["messages"][1] == {"role": "system", "content": announced}
    removed = chat_of(tools=[READ, LATER], messages=[*FOUND, changed("tool_removal", "Read")])
    assert [tool["function"]["name"] for tool in removed["tools"]] == ["Later"]
    assert removed["messages"][-1] == {"role": "system", "content": "This tool cannot be called any more: Read"}
    back = [USER, changed("tool_removal", "Read"), changed("tool_addition", "Read")]
    assert names(tools=[READ], messages=back) == ["Read"]


def test_a_change_that_changes_nothing_leaves_no_message() -> None:
    said = chat_of(tools=[READ], messages=[USER, changed("tool_addition", "Read"), changed("tool_removal", "Nothing")])
    assert said["messages"] == [USER]


def test_a_tool_can_be_defined_in_the_conversation() -> None:
    block = {
        "type": "tool_addition",
        "tool": {"type": "tool_definition", "definition": {"name": "New", "input_schema": {"type": "object"}}},
    }
    assert names(tools=[READ], messages=[USER, {"role": "system", "content": [block]}]) == ["Read", "New"]


def test_a_tool_that_was_taken_away_cannot_be_forced() -> None:
    with pytest.raises(ToolCallError, match="'Read' is not offered"):
        MessagesFace().request(
            body(
                tools=[READ],
                messages=[USER, changed("tool_removal", "Read")],
                tool_choice={"type": "tool", "name": "Read"},
            )
        )


def test_a_log_line_and_a_header_can_hold_the_name_of_a_tool_that_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    tools = [{"type": "web_search_20250305", "name": "a\r\nset-cookie: \ud83d"}, {"name": "f", "input_schema": {}}]
    made = MessagesFace().request(body(tools=tools))
    assert made.dropped_tools == ("a__set-cookie:__",)
    assert [record.getMessage().encode().count(b"\n") for record in caplog.records] == [0]
