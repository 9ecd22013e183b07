"""`mode=native` and `mode=auto`, checked arguments and the strict dialect, through the whole middleware."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from tests.helpers.fakes import TextBackend, write_calls
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.response.call_id_codec import read_id

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
}
HISTORIC = {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}
GOOD = write_calls("hermes", ("f", {"x": 3}))
BAD = write_calls("hermes", ("f", {"x": "no"}))


class NativeBackend:
    """Takes tools and answers with calls of its own, in the way that `deltas` say; records the bodies."""

    def __init__(self, *deltas: dict[str, Any], finish: str | None = "stop", **whole: Any) -> None:
        """whole: more fields of a whole answer."""
        self.deltas = deltas
        self.finish = finish
        self.whole = whole
        self.bodies: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            received = await receive()
            body += received.get("body", b"")
            if not received.get("more_body"):
                break
        request = json.loads(body)
        self.bodies.append(request)
        head = {"id": "c", "created": 1, "model": "m"}
        if request.get("stream"):
            choices: list[dict[str, Any]] = [
                {"index": 0, "delta": delta, "finish_reason": None} for delta in self.deltas
            ]
            choices.append({"index": 0, "delta": {}, "finish_reason": self.finish})
            chunks = [{**head, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
            out = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
            kind = b"text/event-stream"
        else:
            message: dict[str, Any] = {"role": "assistant", "content": None}
            for delta in self.deltas:
                message.update(delta)
            choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": self.finish}
            out = json.dumps({**head, "object": "chat.completion", "choices": [choice], **self.whole}).encode()
            kind = b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": out})


async def post(app: Any, **fields: Any) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL], **fields}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        return await client.post("/v1/chat/completions", json=body)


def answered(response: httpx.Response, **expected: Any) -> Any:
    assert response.status_code == 200, response.text
    check = check_stream if response.headers["content-type"].startswith("text/event-stream") else check_whole
    return check(response.content, **expected).choices[0]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_native_call_is_repaired_and_keeps_its_id(stream: bool) -> None:
    backend = NativeBackend(
        {"tool_calls": [{"id": "call_abcdefghijklmnopqrstuvwx", "function": {"name": "f", "arguments": {"x": 1}}}]}
    )
    response = await post(ToolCallMiddleware(backend, mode="native"), stream=stream)
    choice = answered(response, tools={"f"})
    assert [(call.id, call.name, call.parsed) for call in choice.calls] == [
        ("call_abcdefghijklmnopqrstuvwx", "f", {"x": 1})
    ]
    assert choice.finish_reason == "tool_calls"
    assert response.headers["x-toolcall"].startswith("mode=native")
    assert backend.bodies[0]["tools"] == [TOOL]
    own = await post(ToolCallMiddleware(backend, mode="native", rewrite_ids=True), stream=stream)
    written = answered(own, tools={"f"}, own_ids=False).calls[0].id
    assert re.fullmatch("call_[a-zA-Z0-9]+", written)
    assert written != "call_abcdefghijklmnopqrstuvwx"
    assert read_id(written) == "call_abcdefghijklmnopqrstuvwx"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("rewrite", [False, True])
async def test_calls_of_one_answer_never_share_an_id(stream: bool, rewrite: bool) -> None:
    same = [{"index": at, "id": "call_0", "function": {"name": "f", "arguments": {"x": at}}} for at in range(3)]
    backend = NativeBackend({"tool_calls": same})
    response = await post(ToolCallMiddleware(backend, mode="native", rewrite_ids=rewrite), stream=stream)
    calls = answered(response, tools={"f"}, own_ids=False).calls
    assert [call.parsed for call in calls] == [{"x": 0}, {"x": 1}, {"x": 2}]
    assert len({call.id for call in calls}) == 3
    assert (calls[0].id == "call_0") is not rewrite


@pytest.mark.parametrize("stream", [False, True])
async def test_choice_none_gets_no_call_from_a_backend_that_makes_one_all_the_same(stream: bool) -> None:
    backend = NativeBackend({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]})
    response = await post(ToolCallMiddleware(backend, mode="native"), stream=stream, tool_choice="none")
    choice = answered(response)
    assert (choice.calls, choice.finish_reason) == ([], "stop")
    assert json.loads(choice.content) == {"name": "f", "arguments": "{}"}
    # Without tools of the request's own there is nothing to choose from: what the backend calls is between the two.
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [HISTORIC]}]
    response = await post(ToolCallMiddleware(backend, mode="native"), stream=stream, tools=[], messages=history)
    assert [call.name for call in answered(response, own_ids=False).calls] == ["f"]


@pytest.mark.parametrize("stream", [False, True])
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


@pytest.mark.parametrize("stream", [True, False])
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


@pytest.mark.parametrize("stream", [False, True])
async def test_a_finish_reason_of_calls_without_a_call_is_corrected(stream: bool) -> None:
    backend = NativeBackend({"content": "No call."}, finish="tool_calls")
    assert answered(await post(ToolCallMiddleware(backend, mode="native"), stream=stream)).finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
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
@pytest.mark.parametrize("stream", [False, True])
async def test_auto_takes_a_call_of_an_unknown_tool_for_no_fault_of_the_backend(stream: bool, unknown: str) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "other", "arguments": "{}"}}
    backend = NativeBackend({"tool_calls": [call]}, finish="tool_calls")
    app = ToolCallMiddleware(backend, mode="auto", unknown_tool=unknown)
    for _ in range(2):
        response = await post(app, stream=stream)
        assert answered(response).finish_reason == "stop"
        assert response.headers["x-toolcall"].startswith("mode=native")
    assert ["tools" in body for body in backend.bodies] == [True, True, True]  # the first one looks for evidence


@pytest.mark.parametrize("mode", ["prompt", "native"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_named_tool_is_called_and_no_other(stream: bool, mode: str) -> None:
    backend = TextBackend([write_calls("hermes", ("other", {})), GOOD])
    app = ToolCallMiddleware(backend, mode=mode, unknown_tool="forward")
    response = await post(app, stream=stream, tool_choice={"type": "function", "function": {"name": "f"}})
    assert [call.name for call in answered(response).calls] == ["f"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refused_call_is_tried_again_with_what_was_wrong(stream: bool) -> None:
    backend = TextBackend([BAD, GOOD])
    response = await post(ToolCallMiddleware(backend, validate_arguments="retry"), stream=stream)
    assert answered(response, tools={"f"}).calls[0].parsed == {"x": 3}
    said, told = backend.seen[1].body["messages"][-2:]
    assert '"no"' in said["content"]
    assert "'no' is not of type 'integer'" in told["content"]


@pytest.mark.parametrize("mode", ["retry", "error"])
async def test_arguments_that_never_fit_are_an_error(mode: str) -> None:
    response = await post(ToolCallMiddleware(TextBackend([BAD, BAD]), validate_arguments=mode))
    assert response.status_code == 422
    assert response.headers["x-should-retry"] == "false"
    error = response.json()["error"]
    assert (error["code"], error["type"]) == ("invalid_tool_arguments", "model_error")
    assert "x: 'no' is not of type 'integer'" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_text_passes_where_calls_are_checked(stream: bool) -> None:
    response = await post(ToolCallMiddleware(TextBackend(["Just text."]), validate_arguments="retry"), stream=stream)
    assert answered(response).content == "Just text."


async def test_a_warning_stands_beside_the_answer() -> None:
    app = ToolCallMiddleware(TextBackend([BAD]), validate_arguments="warn", extension_field="_toolcall")
    body = (await post(app)).json()
    assert "is not of type" in body["_toolcall"]["warning"]
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"x": "no"}'


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("arguments", ["{'x': 3}", '{"x": 3,}', "{x: 3}", '{"x": 3'])
async def test_warn_refuses_nothing_that_off_repairs(arguments: str, *, stream: bool) -> None:
    text = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
    got = []
    for checks in ("off", "warn"):
        app = ToolCallMiddleware(TextBackend([text]), format="hermes", validate_arguments=checks)
        response = await post(app, stream=stream)
        assert response.status_code == 200, response.text
        got.append([(call.name, call.arguments) for call in answered(response).calls])
    assert got[0] == got[1]


async def test_arguments_can_be_objects() -> None:
    whole = (await post(ToolCallMiddleware(TextBackend([GOOD]), arguments_as_object=True))).json()
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == {"x": 3}
    stream = await post(ToolCallMiddleware(TextBackend([GOOD]), arguments_as_object=True), stream=True)
    chunks = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: {")]
    deltas = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert deltas[-1]["function"] == {"arguments": {"x": 3}}


async def test_an_allowlist_refuses_before_the_backend_is_asked() -> None:
    backend = TextBackend([GOOD])
    response = await post(ToolCallMiddleware(backend, allowlist="g*", allowlist_mode="enforce"))
    assert (response.status_code, response.json()["error"]["code"]) == (403, "tool_not_allowed")
    assert not backend.seen


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


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("arguments", ["[1, 2]", [1], '"text"', "5"])
@pytest.mark.parametrize("options", [{"profile": "strict"}, {"arguments_as_object": True}])
async def test_arguments_that_are_no_object_are_an_error_where_an_object_is_due(
    options: dict[str, Any], arguments: Any, stream: bool
) -> None:
    backend = NativeBackend({"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": arguments}}]})
    tool = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}}}
    response = await post(ToolCallMiddleware(backend, mode="native", **options), stream=stream, tools=[tool])
    assert (response.status_code, response.headers["x-should-retry"]) == (422, "false")
    assert '"tool_calls":' not in response.text
    assert '"code":"malformed_tool_arguments"' in response.text
    assert "'f' are not a JSON object" in response.text


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
