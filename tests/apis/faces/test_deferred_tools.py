"""Tools that a search loads: the prompt keeps its bytes, and their definitions stand where they were loaded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware import Settings
from toolcall_middleware.apis.face import Face
from toolcall_middleware.apis.messages.client.face import MessagesFace
from toolcall_middleware.apis.responses import ResponsesFace
from toolcall_middleware.exchange import Ask, Exchange, Request
from toolcall_middleware.upstream.backend_memory import BackendMemory

SCHEMA = {"type": "object", "properties": {"depth": {"type": "integer"}}}
READ: dict[str, Any] = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
SEARCH: dict[str, Any] = {"name": "ToolSearch", "description": "Finds tools.", "input_schema": {"type": "object"}}
LATER: dict[str, Any] = {"name": "Later", "description": "Comes later.", "input_schema": SCHEMA, "defer_loading": True}
HI = {"role": "user", "content": "hi"}
FOUND = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "tool_reference", "tool_name": "Later"}]},
    ]},
]  # fmt: skip


def asked(face: Face, body: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """What the backend is asked with."""
    request = face.request(json.dumps(body).encode(), {})
    exchange = Exchange(Settings(**settings), BackendMemory(), always=True)
    action = exchange.receive(Request(request.body))[0]
    assert isinstance(action, Ask), action
    sent: dict[str, Any] = json.loads(action.body)
    return sent


def by_messages(*more: Any, tools: Any = (READ, SEARCH, LATER), **settings: Any) -> dict[str, Any]:
    body = {"model": "m", "max_tokens": 9, "messages": [HI, *more], "tools": list(tools)}
    return asked(MessagesFace(inline_tools=True), body, **settings)


def by_responses(*more: Any, **settings: Any) -> dict[str, Any]:
    tools = [
        {"type": "function", "name": "Read", "parameters": {"type": "object"}},
        {"type": "tool_search", "execution": "client"},
    ]
    return asked(ResponsesFace(), {"model": "m", "input": [HI, *more], "tools": tools}, **settings)


SEARCHED = [
    {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}},
    {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [
        {"type": "function", "name": "Later", "description": "Comes later.", "parameters": SCHEMA},
        {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "Inner"}]},
    ]},
]  # fmt: skip


@pytest.mark.parametrize("format", ["hermes", "llama3_json", "qwen3_coder", "pythonic", "json"])
def test_what_stands_in_front_keeps_its_bytes(format: str) -> None:  # noqa: A002 - the setting's own name
    for ask, more in ((by_messages, FOUND), (by_responses, SEARCHED)):
        before, after = ask(format=format)["messages"], ask(*more, format=format)["messages"]
        assert after[: len(before)] == before
        assert "Comes later." not in json.dumps(before)
        assert "depth" in json.dumps(after[len(before) :])


def test_what_was_loaded_can_be_called() -> None:
    body = {
        "model": "m", "max_tokens": 9, "messages": [HI, *FOUND], "tools": [READ, SEARCH, LATER],
        "tool_choice": {"type": "tool", "name": "Later"},
    }  # fmt: skip
    sent = asked(MessagesFace(inline_tools=True), body, format="hermes")
    assert "Later" in sent["messages"][-1]["content"]


def names(sent: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in sent["tools"]]


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_a_backend_that_takes_tools_gets_those_that_were_loaded_behind_the_others(mode: str) -> None:
    for ask, more, loaded in ((by_messages, FOUND, ["Later"]), (by_responses, SEARCHED, ["Later", "mcp__x__Inner"])):
        before, after = ask(mode=mode), ask(*more, mode=mode)
        assert not {"Later", "mcp__x__Inner"} & set(names(before))
        assert after["tools"][: len(before["tools"])] == before["tools"]
        assert names(after)[len(before["tools"]) :] == loaded
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert "depth" in after["messages"][-1]["content"]
        assert all(tool.keys() == {"type", "function"} for tool in after["tools"])


def test_a_backend_that_takes_tools_gets_those_of_a_namespace_once_they_were_found() -> None:
    inner = {"type": "function", "name": "Inner", "parameters": SCHEMA, "defer_loading": True}
    space = {"type": "namespace", "name": "mcp__x", "description": "X.", "tools": [inner]}
    tools = [space, {"type": "tool_search", "execution": "client"}]
    for more, offered in (((), ["tool_search"]), (SEARCHED, ["tool_search", "Later", "mcp__x__Inner"])):
        sent = asked(ResponsesFace(), {"model": "m", "input": [HI, *more], "tools": tools}, mode="native")
        assert names(sent) == offered


def test_a_backend_that_takes_tools_gets_none_that_was_taken_away() -> None:
    removed = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Later"}}
    sent = by_messages(*FOUND, {"role": "system", "content": [removed]}, HI, mode="native")
    assert names(sent) == ["Read", "ToolSearch"]


def test_tools_that_nobody_could_search_stand_in_front() -> None:
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    assert "Comes later." in by_messages(tools=[READ, search, LATER], format="hermes")["messages"][0]["content"]


def test_where_all_tools_were_loaded_they_stand_in_front() -> None:
    sent = by_messages({"role": "system", "content": [
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Later"}}
    ]}, HI, tools=[LATER], format="hermes")  # fmt: skip
    assert "Comes later." in sent["messages"][0]["content"]
