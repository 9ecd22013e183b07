"""Tools that a search loads: the prompt keeps its bytes, and their definitions stand where they were loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.apis.faces.messages_upstream import Start, Upstream, ask, events, message, spelled
from tests.apis.faces.messages_upstream import body as message_body
from tests.apis.responses import chat
from tests.helpers.asgi_client import JSON_TYPE, Backend
from tests.helpers.fakes import TextBackend, write_calls
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.apis.face import Face
from toolcall_middleware.apis.messages.client.face import MessagesFace
from toolcall_middleware.apis.responses.face import ResponsesFace
from toolcall_middleware.exchange import Ask, Exchange, Fail, Request
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
    request = face.request(json.dumps(body).encode())
    exchange = Exchange(Settings(**settings), BackendMemory(), always=True)
    action = exchange.receive(Request(request.body))[0]
    assert isinstance(action, Ask), action
    sent: dict[str, Any] = json.loads(action.body)
    return sent


def by_messages(*more: Any, tools: Any = (READ, SEARCH, LATER), **settings: Any) -> dict[str, Any]:
    body = {"model": "m", "max_tokens": 9, "messages": [HI, *more], "tools": list(tools)}
    return asked(MessagesFace(), body, **settings)


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
    for by, more in ((by_messages, FOUND), (by_responses, SEARCHED)):
        before, after = by(format=format)["messages"], by(*more, format=format)["messages"]
        assert after[: len(before)] == before
        assert "Comes later." not in json.dumps(before)
        assert "depth" in json.dumps(after[len(before) :])


def test_what_was_loaded_can_be_called() -> None:
    body = {
        "model": "m", "max_tokens": 9, "messages": [HI, *FOUND], "tools": [READ, SEARCH, LATER],
        "tool_choice": {"type": "tool", "name": "Later"},
    }  # fmt: skip
    sent = asked(MessagesFace(), body, format="hermes")
    assert "Later" in sent["messages"][-1]["content"]


def names(sent: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in sent["tools"]]


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_a_backend_that_takes_tools_gets_those_that_were_loaded_behind_the_others(mode: str) -> None:
    for by, more, loaded in ((by_messages, FOUND, ["Later"]), (by_responses, SEARCHED, ["Later", "mcp__x__Inner"])):
        before, after = by(mode=mode), by(*more, mode=mode)
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


def test_where_all_tools_were_loaded_they_stand_in_front() -> None:
    sent = by_messages({"role": "system", "content": [
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Later"}}
    ]}, HI, tools=[LATER], format="hermes")  # fmt: skip
    assert "Comes later." in sent["messages"][0]["content"]


# -- a tool that the conversation has not loaded ---------------------------------------------------------------------

LISTED: list[Any] = [
    {"type": "function", "name": "Read", "parameters": {"type": "object"}},
    {"type": "function", "name": "Later", "description": "Comes later.", "parameters": SCHEMA, "defer_loading": True},
    {"type": "tool_search", "execution": "client"},
]
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/messages": {"max_tokens": 9, "messages": [HI], "tools": [READ, SEARCH, LATER]},
    "/v1/responses": {"input": [HI], "tools": LISTED},
}
CALLS = {
    "hermes": write_calls("hermes", ("Later", {"depth": 1})),
    "qwen3_coder": "<tool_call>\n<function=Later>\n<parameter=depth>\n1\n</parameter>\n</function>\n</tool_call>",
}


async def posted(backend: Any, path: str, **settings: Any) -> dict[str, Any]:
    app = ToolCallMiddleware(backend, faces="messages,responses", **settings)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer: dict[str, Any] = (await client.post(path, json={"model": "m", **REQUESTS[path]})).json()
    return answer


def calls_of(answer: dict[str, Any]) -> list[Any]:
    items = answer.get("content") or answer.get("output") or []
    return [
        [item["name"], item["input"] if "input" in item else json.loads(item["arguments"])]
        for item in items
        if item["type"] in ("tool_use", "function_call")
    ]


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("format_", CALLS)
async def test_a_listed_tool_may_be_called_before_it_is_loaded(path: str, format_: str) -> None:
    backend = TextBackend([CALLS[format_]], strict=True)
    answer = await posted(
        backend, path, format=format_, mode="prompt", unknown_tool="error", validate_arguments="error"
    )
    assert calls_of(answer) == [["Later", {"depth": 1}]], answer
    assert "Comes later." not in json.dumps(backend.bodies[0])


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_backend_that_takes_tools_is_not_given_it_and_may_call_it(path: str) -> None:
    """It has calls of its own, and makes one of a tool that it was not given."""
    called = chat.whole(calls=[("Later", '{"depth": 1}')], reason="tool_calls")
    backend = Backend(called, headers=[JSON_TYPE])
    answer = await posted(backend, path, mode="native", unknown_tool="error")
    assert calls_of(answer) == [["Later", {"depth": 1}]], answer
    assert "Later" not in json.dumps(backend.bodies[0])
    assert "toolcall_" not in json.dumps(backend.bodies[0])


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_listed_tool_that_is_not_allowed_is_not_called(path: str) -> None:
    backend = TextBackend([CALLS["hermes"]], strict=True)
    allowed = {"allowlist": "Read,ToolSearch,tool_search", "allowlist_mode": "enforce"}
    answer = await posted(backend, path, format="hermes", mode="prompt", **allowed)
    assert calls_of(answer) == []


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_of_the_same_api_may_call_what_was_not_loaded(start: Start, *, stream: bool) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Later", "input": {"depth": 1}}
    upstream, url = start(Upstream(spelled(message(call)), events(call)), unknown_tool="error")
    sent = message_body(tools=[READ, SEARCH, LATER], stream=stream)
    assert ask(url, sent).content == (b"".join(upstream.stream) if stream else upstream.whole)
    assert upstream.bodies == [sent]


NAMED = "Found: `Later`, Laterally."


def by_text() -> Iterator[tuple[Face, dict[str, Any]]]:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": NAMED}
    yield MessagesFace(), {
        "max_tokens": 9,
        "messages": [HI, FOUND[0], {"role": "user", "content": [result]}],
        "tools": [READ, SEARCH, LATER],
    }  # fmt: skip
    called = {"type": "function_call", "call_id": "c", "name": "Read", "arguments": "{}"}
    yield ResponsesFace(), {
        "input": [HI, called, {"type": "function_call_output", "call_id": "c", "output": NAMED}], "tools": LISTED
    }  # fmt: skip


def test_a_result_that_names_a_tool_in_its_text_loads_it() -> None:
    for face, body in by_text():
        sent = asked(face, {"model": "m", **body}, mode="prompt", format="hermes")["messages"]
        assert "Comes later." not in json.dumps(sent[:-1])
        assert sent[-1]["content"].count("Comes later.") == 1
    for face, body in by_text():
        assert names(asked(face, {"model": "m", **body}, mode="native"))[-1] == "Later"


def test_a_fault_of_a_tool_that_was_not_loaded_has_the_clients_path() -> None:
    broken = {"type": "object", "properties": {"a": {"type": "no such type"}}}
    request = MessagesFace()
    body = {"model": "m", "max_tokens": 9, "messages": [HI], "tools": [READ, {**LATER, "input_schema": broken}]}
    made = request.request(json.dumps(body).encode())
    action = Exchange(Settings(), BackendMemory(), always=True).receive(Request(made.body))[0]
    assert isinstance(action, Fail)
    assert "tools.1.input_schema.properties.a.type" in request.error(action.error).body.decode()
