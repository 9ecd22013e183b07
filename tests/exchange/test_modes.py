"""`mode=native` and `mode=auto`, checked arguments and the strict dialect, through the whole middleware."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.helpers.answers import (
    BAD,
    GOOD,
    HISTORY,
    STREAMS,
    TOOL,
    Case,
    NativeBackend,
    answered,
    calling,
    case,
    cases,
    check,
    own,
    post,
)
from tests.helpers.fakes import TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.response.call_id_codec import read_id

NATIVE_ID = "call_abcdefghijklmnopqrstuvwx"
DESCRIBED = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "f"}}
NONE = {"tool_choice": "none"}
RAW = '{"name":"f","arguments":"{}"}'
THREE = ("f", '{"x": 3}')
OTHER = write_calls("hermes", ("other", {}))
NO_OBJECT = {"code": "malformed_tool_arguments", "says": "'f' are not a JSON object", "mode": "native"}


def hermes(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'


@cases(
    case(
        "choice none, and the backend calls", calling(own("{}")), asked=NONE, calls=[], content=RAW, finish="stop",
        mode="native",
    ),
    # Without tools of the request's own there is nothing to choose from: what the backend calls is between the two.
    case(
        "calls in the history alone", calling(own("{}")), asked={"tools": [], "messages": HISTORY}, calls=[("f", "{}")],
        mode="native",
    ),
    case(
        "a finish_reason of calls without a call", NativeBackend({"content": "No call."}, finish="tool_calls"),
        finish="stop", mode="native",
    ),
    *(
        case(
            f"a named tool and no other, {mode}", [OTHER, GOOD], asked={"tool_choice": NAMED}, calls=[THREE], mode=mode,
            unknown_tool="forward", rules={"own_ids": True},
        )
        for mode in ("prompt", "native")
    ),
    *(
        case(
            f"arguments that never fit, {policy}", [BAD, BAD], code="invalid_tool_arguments",
            says="x: 'no' is not of type 'integer'", validate_arguments=policy,
        )
        for policy in ("retry", "error")
    ),
    case("text passes where calls are checked", "Just text.", content="Just text.", validate_arguments="retry"),
    *(
        case(
            f"{checks} takes {arguments}", hermes(arguments), calls=[("f", repaired)], format="hermes",
            validate_arguments=checks,
        )
        for checks in ("off", "warn")
        for arguments, repaired in (
            ("{'x': 3}", '{"x": 3}'),
            ('{"x": 3,}', '{"x": 3}'),
            ("{x: 3}", '{"x": 3}'),
            ('{"x": 3', '{"x": 3}'),
        )
    ),
    case(
        "refused before the backend is asked", GOOD, code="tool_not_allowed", allowlist="g*", allowlist_mode="enforce",
    ),
    *(
        case(
            f"{arguments} is no object, {option}", calling(own(arguments)), asked={"tools": [DESCRIBED]}, **NO_OBJECT,
            **{option: value},
        )
        for arguments in ("[1, 2]", [1], '"text"', "5")
        for option, value in (("profile", "strict"), ("arguments_as_object", True))
    ),
)  # fmt: skip
async def test_answers(one: Case) -> None:
    await check(one)


@STREAMS
async def test_a_native_call_is_repaired_and_keeps_its_id(stream: bool) -> None:
    backend = NativeBackend({"tool_calls": [{"id": NATIVE_ID, "function": {"name": "f", "arguments": {"x": 1}}}]})
    response = await post(ToolCallMiddleware(backend, mode="native"), stream=stream)
    choice = answered(response, tools={"f"})
    assert [(call.id, call.name, call.parsed) for call in choice.calls] == [(NATIVE_ID, "f", {"x": 1})]
    assert choice.finish_reason == "tool_calls"
    assert response.headers["x-toolcall"].startswith("mode=native")
    assert backend.bodies[0]["tools"] == [TOOL]
    own = await post(ToolCallMiddleware(backend, mode="native", rewrite_ids=True), stream=stream)
    written = answered(own, tools={"f"}, own_ids=False).calls[0].id
    assert re.fullmatch("call_[a-zA-Z0-9]+", written)
    assert written != NATIVE_ID
    assert read_id(written) == NATIVE_ID


@STREAMS
@pytest.mark.parametrize("rewrite", [False, True])
async def test_calls_of_one_answer_never_share_an_id(stream: bool, rewrite: bool) -> None:
    same = [{"index": at, "id": "call_0", "function": {"name": "f", "arguments": {"x": at}}} for at in range(3)]
    backend = NativeBackend({"tool_calls": same})
    response = await post(ToolCallMiddleware(backend, mode="native", rewrite_ids=rewrite), stream=stream)
    calls = answered(response, tools={"f"}, own_ids=False).calls
    assert [call.parsed for call in calls] == [{"x": 0}, {"x": 1}, {"x": 2}]
    assert len({call.id for call in calls}) == 3
    assert (calls[0].id == "call_0") is not rewrite


@STREAMS
async def test_a_rewritten_id_finds_its_way_back_without_memory(stream: bool) -> None:
    backend = NativeBackend({"tool_calls": [{"id": "functions.f:0", "function": {"name": "f", "arguments": {"x": 1}}}]})
    first = await post(ToolCallMiddleware(backend, mode="native", rewrite_ids=True), stream=stream)
    call = answered(first, tools={"f"}, own_ids=False).calls[0]
    history = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call.id, "type": "function", "function": {"name": "f", "arguments": call.arguments}}],
        },
        {"role": "tool", "tool_call_id": call.id, "content": {"json": True}, "is_error": True},
    ]
    # Another process, which has never seen the call; in the strict dialect, which refuses the backend's own form.
    tool = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}}}
    again = ToolCallMiddleware(backend, mode="native", profile="strict")
    assert (await post(again, stream=stream, messages=history, tools=[tool])).status_code == 200
    sent = backend.bodies[-1]["messages"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == "functions.f:0"
    assert sent[2]["content"] == 'Error: the call failed.\n{"json":true}'
    assert "is_error" not in sent[2]
    foreign = json.loads(json.dumps(history).replace(call.id, "functions.f:0"))
    refused = await post(again, stream=stream, messages=foreign, tools=[tool])
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_tool_call_id")


@STREAMS
async def test_a_native_call_keeps_the_fields_that_nobody_knows(stream: bool) -> None:
    """Google's OpenAI layer puts a signature there that has to come back (ai.google.dev/gemini-api/docs/openai)."""
    extra = {"google": {"thought_signature": "AbC="}}
    call = {"index": 0, "id": "call_1", "type": "function", "extra_content": extra}
    backend = NativeBackend({"tool_calls": [{**call, "function": {"name": "f", "arguments": '{"x": 3}'}}]})
    response = await post(ToolCallMiddleware(backend, mode="native"), stream=stream)
    if stream:
        chunks = [json.loads(line[6:]) for line in response.text.split("\n\n") if line.startswith("data: {")]
        deltas = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
        assert [delta.get("extra_content") for delta in deltas] == [extra, *[None] * (len(deltas) - 1)]
    else:
        assert response.json()["choices"][0]["message"]["tool_calls"][0]["extra_content"] == extra


@STREAMS
async def test_auto_goes_by_prompt_where_tools_are_refused_and_remembers(stream: bool) -> None:
    backend = TextBackend([GOOD, GOOD], strict=True)
    app = ToolCallMiddleware(backend, mode="auto")
    first = await post(app, stream=stream)
    assert answered(first, tools={"f"}).calls[0].parsed == {"x": 3}
    assert first.headers["x-toolcall"].startswith("mode=prompt")
    assert ["tools" in seen.body for seen in backend.seen] == [True, False]
    await post(app, stream=stream)
    assert ["tools" in seen.body for seen in backend.seen] == [True, False, False]


@pytest.mark.parametrize("unknown", ["text", "drop"])
@STREAMS
async def test_auto_takes_a_call_of_an_unknown_tool_for_no_fault_of_the_backend(stream: bool, unknown: str) -> None:
    backend = calling(own("{}", "other"), finish="tool_calls")
    app = ToolCallMiddleware(backend, mode="auto", unknown_tool=unknown)
    for _ in range(2):
        response = await post(app, stream=stream)
        assert answered(response).finish_reason == "stop"
        assert response.headers["x-toolcall"].startswith("mode=native")
    assert ["tools" in body for body in backend.bodies] == [True, True, True]  # the first one looks for evidence


@STREAMS
async def test_a_refused_call_is_tried_again_with_what_was_wrong(stream: bool) -> None:
    backend = TextBackend([BAD, GOOD])
    response = await post(ToolCallMiddleware(backend, validate_arguments="retry"), stream=stream)
    assert answered(response, tools={"f"}).calls[0].parsed == {"x": 3}
    said, told = backend.seen[1].body["messages"][-2:]
    assert '"no"' in said["content"]
    assert "'no' is not of type 'integer'" in told["content"]


async def test_a_warning_stands_beside_the_answer() -> None:
    app = ToolCallMiddleware(TextBackend([BAD]), validate_arguments="warn", extension_field="_toolcall")
    body = (await post(app)).json()
    assert "is not of type" in body["_toolcall"]["warning"]
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"x": "no"}'


async def test_arguments_can_be_objects() -> None:
    whole = (await post(ToolCallMiddleware(TextBackend([GOOD]), arguments_as_object=True))).json()
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == {"x": 3}
    stream = await post(ToolCallMiddleware(TextBackend([GOOD]), arguments_as_object=True), stream=True)
    chunks = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: {")]
    deltas = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert deltas[-1]["function"] == {"arguments": {"x": 3}}


@pytest.mark.parametrize("choice", ["auto", None])
async def test_a_clients_own_response_format_does_not_lock_calls_out(choice: str | None) -> None:
    wanted = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "integer"}}}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": wanted, "strict": True}}
    backend = TextBackend([GOOD])
    answered(await post(ToolCallMiddleware(backend), response_format=form, tool_choice=choice), tools={"f"})
    asked = backend.last.body["response_format"]["json_schema"]["schema"]
    assert [sorted(option["properties"]) for option in asked["anyOf"]] == [["n"], ["tool_calls"]]
    assert asked["anyOf"][0]["properties"]["n"] == {"$ref": "#/$defs/answer_N"}
    assert asked["$defs"]["answer_N"] == {"type": "integer"}
    assert "fits this JSON Schema" in backend.last.body["messages"][-1]["content"]


SEARCH = {"type": "openrouter:web_search"}


async def test_a_providers_tool_passes_in_native_mode_and_is_left_out_of_a_prompt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}}]}
    native = NativeBackend(call)
    await post(ToolCallMiddleware(native, mode="native"), tools=[SEARCH, TOOL])
    assert native.bodies[0]["tools"] == [SEARCH, TOOL]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    custom = {"type": "custom", "custom": {"name": "free"}}
    await post(ToolCallMiddleware(native, mode="native"), tools=[SEARCH, TOOL, custom])
    assert [tool["type"] for tool in native.bodies[1]["tools"]] == ["function", "function", "openrouter:web_search"]
    backend = TextBackend([GOOD])
    answered(await post(ToolCallMiddleware(backend), tools=[SEARCH, TOOL]))
    assert "web_search" not in str(backend.seen[0])
    assert "'openrouter:web_search' is run by a provider" in caplog.text


@pytest.mark.parametrize(
    ("options", "status", "code", "param"),
    [
        ({"allowlist": ["f"], "allowlist_mode": "enforce"}, 403, "tool_not_allowed", "tools[0].type"),
        (
            {"allowlist": ["openrouter:*"], "allowlist_mode": "enforce"},
            403,
            "tool_not_allowed",
            "tools[1].function.name",
        ),
        ({"allowlist": ["f", "openrouter:*"], "allowlist_mode": "enforce"}, 200, None, None),
        ({"profile": "strict"}, 400, "invalid_request", "tools[0].type"),
    ],
)
async def test_a_providers_tool_does_not_pass_a_guard_by_its_type(
    options: Any, status: int, code: str | None, param: str | None
) -> None:
    app = ToolCallMiddleware(TextBackend([GOOD]), **options)
    answer = await post(app, tools=[SEARCH, TOOL])
    assert answer.status_code == status
    if code is not None:
        error = answer.json()["error"]
        assert (error["code"], error["param"]) == (code, param)
