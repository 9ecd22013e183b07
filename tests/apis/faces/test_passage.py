"""An upstream that speaks Messages behind the Messages face: bytes stay as they were, and guards hold all the same."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest

from tests.apis.faces.messages_upstream import (
    CALL,
    READ,
    SEARCH,
    THOUGHT,
    VERSION,
    Start,
    Upstream,
    ask,
    body,
    events,
    message,
    spelled,
)
from toolcall_middleware.apis.messages.passed import refuse_unread
from toolcall_middleware.errors import ToolCallError

HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Read /a", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [THOUGHT, {"type": "redacted_thinking", "data": "x=="}, CALL]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_01", "content": [{"type": "text", "text": "1"}]},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}, "citations": {"enabled": True}},
        {"type": "block_of_next_year", "x": 1},
    ]},
]  # fmt: skip
FILES = {"type": "url", "url": "https://mcp.example/", "name": "files"}
FILE_TOOLS = {
    "type": "mcp_toolset", "mcp_server_name": "files",
    "default_config": {"enabled": False}, "configs": {"search": {"enabled": True}},
}  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"messages": HISTORY, "thinking": {"type": "enabled", "budget_tokens": 1024}, "stream": False},
        {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
        {"tools": [READ, SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
        {"tools": [{**READ, "defer_loading": True}, {"type": "tool_search_tool_bm25_20251119", "name": "search"}]},
        {"tools": [], "mcp_servers": [FILES]},
        {"tools": [], "mcp_servers": [FILES], "tool_choice": {"type": "tool", "name": "search"}},
        {"tools": [FILE_TOOLS, READ], "mcp_servers": [FILES], "tool_choice": {"type": "tool", "name": "search"}},
        {"tools": [FILE_TOOLS, READ], "mcp_servers": [FILES], "tool_choice": {"type": "any"}},
        {"tools": [{**FILE_TOOLS, "mcp_server_name": "Read"}, READ], "mcp_servers": [{**FILES, "name": "Read"}]},
        {"tools": [READ, {**READ, "name": "search"}, FILE_TOOLS], "mcp_servers": [{**FILES, "name": "f" * 99}]},
        {"tools": [], "context_management": {"edits": []}, "container": {"skills": []}, "top_k": 3},
    ],
)
def test_requests_and_answers_keep_their_bytes(start: Start, fields: dict[str, Any]) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    calls = [CALL] if fields.get("tools") != [] else []
    said = spelled(message(THOUGHT, search, {"type": "text", "text": "é", "citations": []}, *calls))
    upstream, url = start(Upstream(said))
    answer = ask(url, body(**fields))
    assert (answer.status_code, answer.content) == (200, said)
    assert upstream.bodies == [body(**fields)]
    assert upstream.targets == ["/v1/messages?beta=true"]
    for name in ("anthropic-version", "anthropic-beta"):
        assert upstream.headers[0][name] == VERSION[name]
    assert upstream.headers[0]["x-api-key"] == "real"
    assert answer.headers["request-id"] == "req_upstream"
    assert answer.headers["anthropic-ratelimit-requests-remaining"] == "9"
    assert answer.headers["x-toolcall"].startswith("api=messages; mode=native")
    assert "dropped_tools" not in answer.headers["x-toolcall"]


@pytest.mark.parametrize("pieces", ["events", "bytes", "one"])
def test_streams_keep_their_bytes(start: Start, pieces: str) -> None:
    told = events(THOUGHT, {"type": "text", "text": "Ok"}, CALL, {**CALL, "id": "toolu_02", "input": {"path": "/b"}})
    whole = b"".join(told)
    cut = {"events": told, "one": [whole], "bytes": [whole[at : at + 1] for at in range(len(whole))]}[pieces]
    upstream, url = start(Upstream(stream=cut))
    answer = ask(url, body(stream=True))
    assert answer.content == whole
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert upstream.bodies == [body(stream=True)]


def test_the_sdk_reads_a_passed_stream(start: Start) -> None:
    _, url = start(Upstream(stream=events(THOUGHT, {"type": "text", "text": "Ok"}, CALL)))
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:  # noqa: SIM117 - two kinds
        with client.messages.stream(
            model="claude",
            max_tokens=9,
            messages=[{"role": "user", "content": "hi"}],
            tools=[READ],  # type: ignore[list-item]
        ) as stream:
            got = stream.get_final_message()
    assert [block.type for block in got.content] == ["thinking", "text", "tool_use"]
    assert got.content[0].signature == THOUGHT["signature"]  # type: ignore[union-attr]
    assert got.content[2].input == CALL["input"]  # type: ignore[union-attr]


def test_errors_keep_their_bytes(start: Start) -> None:
    said = spelled({"type": "error", "error": {"type": "rate_limit_error", "message": "slow", "x": 1}})
    _, url = start(Upstream(said, status=429))
    answer = ask(url, body())
    assert (answer.status_code, answer.content) == (429, said)


def test_an_error_within_a_stream_keeps_its_bytes(start: Start) -> None:
    fault = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}\n\n'
    told = [*events({"type": "text", "text": "Ok"})[:4], fault]
    _, url = start(Upstream(stream=told))
    assert ask(url, body(stream=True)).content == b"".join(told)


def test_tokens_are_counted_by_the_upstream(start: Start) -> None:
    upstream, url = start(Upstream())
    asked = spelled({"model": "claude", "messages": [{"role": "user", "content": "hi"}], "tools": [READ, SEARCH]})
    answer = ask(url, asked, "/v1/messages/count_tokens?beta=true")
    assert answer.content == b'{ "input_tokens": 1234 }'
    assert upstream.bodies == [asked]
    assert upstream.targets == ["/v1/messages/count_tokens?beta=true"]


def test_so_are_those_of_a_request_that_is_changed_on_its_way(start: Start) -> None:
    """By the fields that the API takes there; it refuses `max_tokens`."""
    upstream, url = start(Upstream(), drop_params="top_k")
    answer = ask(url, body(top_k=3, temperature=0.5, system="Be brief."), "/v1/messages/count_tokens")
    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 1234})
    assert upstream.targets == ["/v1/messages/count_tokens"]
    assert json.loads(upstream.bodies[0]).keys() == {"model", "messages", "system", "tools"}


# -- guards --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "fields", "status"),
    [
        ({"allowlist": "Write", "allowlist_mode": "enforce"}, {}, 403),
        ({"allowlist": "Read", "allowlist_mode": "enforce"}, {"tools": [READ, SEARCH]}, 403),
        ({"allowlist": "Read", "allowlist_mode": "enforce"},
         {"tools": [], "mcp_servers": [{"type": "url", "url": "https://x/", "name": "files"}]}, 403),
        ({"allowlist": "*", "allowlist_mode": "enforce"}, {"tools": [], "mcp_servers": [FILES]}, 403),
        ({"max_tools": "1"}, {"tools": [READ, SEARCH]}, 400),
        ({"max_request_bytes": "100"}, {}, 413),
        ({"profile": "strict"}, {}, 400),
        ({"api_keys": "alice=secret"}, {}, 401),
        ({}, {"tools": [{**READ, "input_schema": {"type": "string"}}]}, 400),
    ],
)  # fmt: skip
def test_guards_on_requests_hold(start: Start, settings: dict[str, str], fields: dict[str, Any], status: int) -> None:
    upstream, url = start(Upstream(spelled(message(CALL))), **settings)
    answer = ask(url, body(**fields))
    assert answer.status_code == status
    assert answer.json()["type"] == "error"
    assert upstream.bodies == []


def test_what_is_allowed_passes_in_the_words_that_were_checked(start: Start) -> None:
    upstream, url = start(Upstream(spelled(message(CALL))), allowlist="Read", allowlist_mode="enforce")
    twice = body().replace(b'"name": "Read"', b'"name": "Bash", "Name": "Bash", "name": "Read"')
    assert ask(url, twice).status_code == 200
    assert b"Bash" not in upstream.bodies[0]
    assert json.loads(upstream.bodies[0]) == json.loads(body())


def test_calls_are_counted_for_the_rate(start: Start) -> None:
    upstream, url = start(Upstream(spelled(message(CALL, {**CALL, "id": "toolu_02"}))), rate_limit="2/minute")
    first = ask(url, body())
    assert (first.status_code, first.headers["x-ratelimit-remaining"]) == (200, "0")
    assert ask(url, body()).status_code == 429
    assert len(upstream.bodies) == 1


@pytest.mark.parametrize("streams", [True, False])
def test_tokens_are_charged_as_the_upstream_counts_them(start: Start, streams: bool) -> None:
    """And the answer keeps its bytes."""
    told = events({"type": "text", "text": "Ok"})
    upstream = Upstream(spelled(message(CALL)), stream=told)
    _, url = start(upstream, token_limit="100000/minute")
    first, second = ask(url, body(stream=streams)), ask(url, body(stream=streams))
    assert first.content == (b"".join(told) if streams else spelled(message(CALL)))
    left = [int(answer.headers["x-ratelimit-remaining-tokens"]) for answer in (first, second)]
    assert left[0] - left[1] == 3 + 5 + 7


def test_a_call_that_is_too_long_ends_the_stream(start: Start) -> None:
    told = events({"type": "text", "text": "Ok"}, {**CALL, "input": {"path": "x" * 4000}}, pieces=40)
    _, url = start(Upstream(stream=told), max_arguments_bytes="500")
    got = ask(url, body(stream=True)).content
    assert got.startswith(b"".join(told[:5]))
    assert got.count(b"x") < 700
    assert b"event: error\n" in got
    assert b"message_stop" not in got


def test_a_call_that_is_refused_does_not_leave(start: Start) -> None:
    wrong = {**CALL, "input": {"path": 7}}
    upstream, url = start(
        Upstream(spelled(message(wrong)), events({"type": "text", "text": "Ok"}, wrong)),
        validate_arguments="error",
        coerce_arguments="false",
    )
    answer = ask(url, body())
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")
    assert answer.headers["x-toolcall-error"] == "invalid_tool_arguments"
    got = ask(url, body(stream=True)).content
    assert b"tool_use" not in got
    assert got.startswith(b"".join(upstream.stream[:5]))
    assert b"event: error\n" in got


def test_a_call_that_is_held_leaves_as_it_came(start: Start) -> None:
    upstream, url = start(Upstream(stream=events(THOUGHT, CALL, {**CALL, "id": "b"})), validate_arguments="error")
    assert ask(url, body(stream=True)).content == b"".join(upstream.stream)


def test_a_call_that_is_repaired_leaves_so(start: Start) -> None:
    wrong = {**CALL, "name": "read"}
    told = events(THOUGHT, wrong)
    _, url = start(Upstream(spelled(message(THOUGHT, wrong)), told), stream_arguments="false")
    content = ask(url, body()).json()["content"]
    assert content[0] == THOUGHT
    assert (content[1]["name"], content[1]["input"]) == ("Read", CALL["input"])
    got = ask(url, body(stream=True)).content
    assert got.startswith(b"".join(told[:6]))
    assert b'"name":"Read"' in got
    assert got.endswith(b"".join(told[-6:]))


def test_a_call_of_a_name_that_is_not_offered_is_no_call(start: Start) -> None:
    wrong = {**CALL, "name": "Bash"}
    _, url = start(Upstream(spelled(message(wrong)), events({"type": "text", "text": "Ok"}, wrong)))
    assert ask(url, body()).json()["stop_reason"] == "end_turn"
    got = ask(url, body(stream=True)).content.decode()
    assert "tool_use" not in got.replace('"stop_reason": "tool_use"', "tool_use")
    assert '"stop_reason":"end_turn"' in got


def test_only_so_many_calls_leave(start: Start) -> None:
    told = events(CALL, {**CALL, "id": "toolu_02"}, {**CALL, "id": "toolu_03"})
    _, url = start(Upstream(stream=told), max_tool_calls="2")
    got = ask(url, body(stream=True)).content
    assert b"toolu_03" not in got
    assert got.count(b"event: content_block_start\n") <= 2


def test_a_request_that_is_changed_is_translated(start: Start) -> None:
    upstream, url = start(Upstream(spelled(message(CALL))), drop_params="top_k")
    answer = ask(url, body(top_k=3, tools=[READ, SEARCH]))
    assert answer.json()["content"] == [{**CALL, "id": answer.json()["content"][0]["id"]}]
    sent = json.loads(upstream.bodies[0])
    assert "top_k" not in sent
    assert [tool["name"] for tool in sent["tools"]] == ["Read"]


def test_a_request_that_cannot_be_translated_and_must_be_is_refused(start: Start) -> None:
    upstream, url = start(Upstream(spelled(message(CALL))), drop_params="top_k")
    answer = ask(url, body(top_k=3, messages=HISTORY))
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert upstream.bodies == []


def test_options_of_a_request_do_not_reach_the_upstream(start: Start) -> None:
    upstream, url = start(Upstream(spelled(message(CALL))))
    assert ask(url, body(toolcall={"max_tools": 5})).status_code == 200
    assert json.loads(upstream.bodies[0]) == json.loads(body())


def test_thoughts_that_another_model_had_stay_here(start: Start) -> None:
    upstream, url = start(Upstream(spelled(message(CALL))))
    own = {"type": "thinking", "thinking": "Hm", "signature": "toolcall-v1.SG0="}
    talk = [HISTORY[0], {"role": "assistant", "content": [own, {"type": "text", "text": "a"}]}, HISTORY[0]]
    assert ask(url, body(messages=talk)).status_code == 200
    talk[1] = {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
    assert json.loads(upstream.bodies[0])["messages"] == talk


def test_an_alias_is_the_clients_name_again(start: Start) -> None:
    told = events(CALL)
    upstream, url = start(Upstream(spelled(message(CALL)), told), model_aliases="mine=claude")
    assert ask(url, body(model="mine")).json()["model"] == "mine"
    assert json.loads(upstream.bodies[0])["model"] == "claude"
    got = ask(url, body(model="mine", stream=True)).content
    assert got.endswith(b"".join(told[1:]))
    assert b'"model":"mine"' in got


@pytest.mark.parametrize("pieces", [3, 40, 5000])
def test_a_refused_call_in_one_piece_does_not_leave(start: Start, pieces: int) -> None:
    told = events({"type": "text", "text": "Ok"}, {**CALL, "input": {"path": "x" * 4000}}, pieces=pieces)
    _, url = start(Upstream(stream=[b"".join(told)]), max_arguments_bytes="500")
    got = ask(url, body(stream=True)).content
    sent, _, error = got.partition(b"event: error\n")
    assert sent == b"".join(told[:5])
    assert error


def test_arguments_that_are_coerced_leave_so(start: Start) -> None:
    tool = {**READ, "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    told = events({**CALL, "input": {"n": "7"}})
    _, url = start(Upstream(spelled(message({**CALL, "input": {"n": "7"}})), told), stream_arguments="false")
    assert ask(url, body(tools=[tool])).json()["content"][0]["input"] == {"n": 7}
    got = ask(url, body(tools=[tool], stream=True)).content
    parts = [json.loads(line[6:])["delta"] for line in got.splitlines() if b'"partial_json"' in line]
    assert json.loads("".join(part["partial_json"] for part in parts)) == {"n": 7}


# -- asked again -------------------------------------------------------------------------------------------------------

WORDS: dict[str, Any] = {"type": "text", "text": "I would rather not."}
WRONG = {**CALL, "input": {"path": 7}}


@pytest.mark.parametrize(
    ("first", "fields", "settings"),
    [
        (WORDS, {"tool_choice": {"type": "any"}}, {}),
        (WORDS, {"tool_choice": {"type": "tool", "name": "Read"}}, {}),
        (WRONG, {}, {"validate_arguments": "retry", "coerce_arguments": "false"}),
    ],
)
def test_a_model_that_did_not_call_as_it_had_to_is_asked_again(
    start: Start, first: dict[str, Any], fields: dict[str, Any], settings: dict[str, str]
) -> None:
    upstream = Upstream(spelled(message(CALL)), events(CALL), first=(spelled(message(first)), events(first)))
    _, url = start(upstream, **settings)
    answer = ask(url, body(**fields))
    assert [block["type"] for block in answer.json()["content"]] == ["tool_use"]
    assert answer.json()["content"][0]["input"] == CALL["input"]
    assert len(upstream.bodies) == 2
    assert "retried=1" in answer.headers["x-toolcall"]
    again = json.loads(upstream.bodies[1])["messages"]
    assert len(again) > 1, "the model is told what was wrong"
    upstream.bodies.clear()
    got = ask(url, body(stream=True, **fields)).content
    assert len(upstream.bodies) == 2
    assert got.count(b"event: message_start\n") == 1
    assert b'"name":"Read"' in got.replace(b'"name": "Read"', b'"name":"Read"')
    assert b"rather not" not in got
    assert b'"path": 7' not in got


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_clients_of_the_other_apis_have_the_model_asked_again_too(start: Start, path: str) -> None:
    first = spelled(message(WORDS)), events(WORDS)
    upstream, url = start(Upstream(spelled(message(CALL)), events(CALL), first=first))
    function = {"name": "Read", "parameters": READ["input_schema"]}
    said = {"role": "user", "content": "hi"}
    chat = path.endswith("completions")
    asked: dict[str, Any] = {"model": "claude", "tool_choice": "required"}
    asked |= {"messages": [said]} if chat else {"input": [said]}
    asked["tools"] = [{"type": "function", "function": function} if chat else {"type": "function", **function}]
    answer = ask(url, spelled(asked), path)
    assert "retried=1" in answer.headers["x-toolcall"]
    assert len(upstream.bodies) == 2
    assert '"Read"' in answer.text
    assert "rather not" not in answer.text


EVIL: dict[str, Any] = {"name": "evil", "input_schema": {"type": "object"}}
LISTED = {"allowlist": "Read", "allowlist_mode": "enforce"}
SERVER = {"type": "url", "url": "https://mcp.example/", "name": "Read"}
TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "Read"}
SEARCHED = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "evil"}],
    },
}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [], "mcp_servers": [SERVER]}, "mcp_servers.0"),
        ({"tools": [TOOLSET], "mcp_servers": [SERVER]}, "tools.0"),
        ({"tools": [TOOLSET]}, "tools.0"),
        ({"tools": [READ, {**EVIL, "defer_loading": True}]}, "tools.1"),
        ({"tools": [READ, {**EVIL, "defer_loading": True}],
          "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [SEARCHED]}]}, "tools.1"),
    ],
)  # fmt: skip
def test_a_tool_that_is_not_on_the_list_has_no_other_way(start: Start, fields: dict[str, Any], param: str) -> None:
    upstream, url = start(Upstream(spelled(message())), **LISTED)
    answer = ask(url, body(**fields))
    assert (answer.status_code, answer.headers["x-toolcall-error"]) == (403, "tool_not_allowed")
    assert param in answer.json()["error"]["message"]
    assert upstream.bodies == []


def test_a_deferred_tool_on_the_list_passes(start: Start) -> None:
    upstream, url = start(Upstream(said := spelled(message())), **LISTED)
    asked = body(tools=[{**READ, "defer_loading": True}])
    assert ask(url, asked).content == said
    assert json.loads(upstream.bodies[0]) == json.loads(asked)


@pytest.mark.parametrize("guard", [LISTED, {"rate_limit": "9/minute"}, {"max_tools": "9"}])
@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "weird", "tools": [EVIL]}]}]},
         "messages.0.content.0.tools"),
        ({"messages": [{"role": "user", "content": [{"type": "weird_tool", "x": 1}]}]}, "messages.0.content.0.type"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "tools": [EVIL]}]}]},
         "messages.0.content.0.tools"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_addition", "tool": {"definition": EVIL}}]}]},
         "messages.0.content.0.type"),
        ({"messages": [HISTORY[0], HISTORY[1], {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_01",
             "content": [{"type": "x", "y": [{"tools": [EVIL]}]}]}]}]},
         "messages.2.content.0.content.0.y.0.tools"),
        ({"messages": [{"role": "user", "content": "hi", "tools": [EVIL]}]}, "messages.0.tools"),
        ({"tools": [{**READ, "tools": [EVIL]}]}, "tools.0.tools"),
        ({"tools": [{"type": "advisor_20260301", "name": "Read", "tools": [EVIL]}]}, "tools.0.tools"),
    ],
)  # fmt: skip
def test_what_is_not_read_carries_no_tools_past_a_guard(
    start: Start, guard: dict[str, str], fields: dict[str, Any], where: str
) -> None:
    upstream, url = start(Upstream(spelled(message())), **guard)
    answer = ask(url, body(**fields))
    assert (answer.status_code, answer.headers["x-toolcall-error"]) == (403, "tool_not_allowed")
    assert where in answer.json()["error"]["message"]
    assert upstream.bodies == []


@pytest.mark.parametrize("guard", [LISTED, {"rate_limit": "9/minute"}, {"max_tools": "9"}])
def test_what_holds_no_tools_passes_a_guard(start: Start, guard: dict[str, str]) -> None:
    talk = json.loads(json.dumps(HISTORY))
    talk[1]["content"][2]["input"] = {"path": "/a", "tools": [1], "input_schema": {"functions": 1}}
    talk[2]["content"].append({"type": "text", "text": "the tools, a function"})
    tool = {**READ, "input_schema": {"type": "object", "properties": {"tools": {"type": "object"}, "path": {}}}}
    upstream, url = start(Upstream(spelled(message())), **guard)
    assert ask(url, body(messages=talk, tools=[tool])).status_code == 200
    assert json.loads(upstream.bodies[0]) == json.loads(body(messages=talk, tools=[tool]))


@pytest.mark.parametrize("stream", [False, True])
def test_calls_that_the_upstream_makes_on_servers_are_counted_for_the_rate(start: Start, *, stream: bool) -> None:
    made = [{"type": "mcp_tool_use", "id": f"mcptoolu_{n}", "name": "x", "server_name": "s"} for n in range(3)]
    upstream, url = start(Upstream(spelled(message(*made)), events(*made)), rate_limit="3/minute")
    asked = body(tools=[], mcp_servers=[SERVER], stream=stream)
    who = {"x-api-key": f"{stream}"}  # others have been counted here before
    assert ask(url, asked, **who).status_code == 200
    assert ask(url, asked, **who).status_code == 429
    assert len(upstream.bodies) == 1


# -- mode=off ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"mode": "off"}, {"faces": "chat"}])
def test_an_upstream_of_the_same_api_is_asked_where_no_face_reads(start: Start, settings: dict[str, str]) -> None:
    wrong = {**CALL, "name": "Bash"}
    upstream, url = start(Upstream(spelled(message(wrong)), events(wrong)), **settings)
    assert ask(url, body()).content == upstream.whole
    assert ask(url, body(stream=True)).content == b"".join(upstream.stream)
    counted = ask(url, body(), "/v1/messages/count_tokens")
    assert counted.json() == {"input_tokens": 1234}
    assert upstream.bodies == [body(), body(stream=True), body()]
    assert upstream.targets == ["/v1/messages?beta=true"] * 2 + ["/v1/messages/count_tokens"]
    assert [one["x-api-key"] for one in upstream.headers] == ["real"] * 3


def test_its_refusals_pass_too(start: Start) -> None:
    said = spelled({"type": "error", "error": {"type": "not_found_error", "message": "model: claude"}})
    _, url = start(Upstream(said, status=404), mode="off")
    answer = ask(url, body())
    assert (answer.status_code, answer.content) == (404, said)


def test_no_tools_pass_a_guard_where_no_face_reads(start: Start) -> None:
    upstream, url = start(Upstream(spelled(message())), faces="chat", allowlist="Read", allowlist_mode="enforce")
    assert ask(url, body()).status_code == 403
    assert ask(url, spelled({"model": "claude", "max_tokens": 9, "messages": []})).status_code == 200
    assert len(upstream.bodies) == 1


def test_a_long_path_is_told_short() -> None:
    """Many members below a long name would cost the product of both."""
    block = {"type": "text", "text": "x", "n" * 1_000_000: [{"a": 1}] * 20_000 + [{"tools": [1]}]}
    with pytest.raises(ToolCallError) as caught:
        refuse_unread("messages", [{"role": "user", "content": [block]}])
    assert len(caught.value.param or "") == 200
