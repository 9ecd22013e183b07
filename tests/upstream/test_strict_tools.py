"""`strict: true` in every profile: constrained where an operator says so, else checked before the call is emitted."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest

from tests.helpers.answers import NativeBackend
from tests.helpers.fakes import Answer, InTurn, Refusal, Script, TextBackend, write_calls
from tests.helpers.stream_rules import check_error, check_stream, check_whole
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.formats import registry
from toolcall_middleware.upstream.negotiation import constraint_requests

from ..request.chats import HELLO, request

PARAMETERS = {
    "type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"], "additionalProperties": False,
}  # fmt: skip
FUNCTION = {"name": "f", "description": "F.", "strict": True, "parameters": PARAMETERS}
TOOL = {"type": "function", "function": FUNCTION}
LOOSE = {"type": "function", "function": {"name": "g", "description": "G.", "parameters": PARAMETERS}}
BAD, GOOD = write_calls("hermes", ("f", {"x": 7})), write_calls("hermes", ("f", {"x": True}))
OTHER = write_calls("hermes", ("g", {"x": "many words that are no boolean"}))
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
MODES = pytest.mark.parametrize("mode", ["prompt", "native"])


@pytest.mark.parametrize(
    ("fmt", "begin", "end", "style"),
    [
        ("qwen3_coder", "<tool_call>\n<function=f>\n", "\n</function>\n</tool_call>", "qwen_xml"),
        ("glm45", "<tool_call>f\n", "</tool_call>", "glm_xml"),
        ("glm47", "<tool_call>f", "</tool_call>", "glm_xml"),
        (
            "deepseek_v32",
            '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n',
            "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            "deepseek_xml",
        ),
        (
            "kimi_k3",
            '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>',
            "<|close|>call<|sep|><|close|>tools<|sep|>",
            "kimi_k3_xml",
        ),
        ("minimax_m2", '<minimax:tool_call>\n<invoke name="f">\n', "</invoke>\n</minimax:tool_call>", "minimax_xml"),
    ],
)
def test_arguments_in_xml_are_constrained_too(fmt: str, begin: str, end: str, style: str) -> None:
    chat = request(HELLO, tools=(TOOL,), tool_choice="auto")
    [asked] = constraint_requests(chat, registry.get(fmt), Settings())
    form = json.loads(json.dumps(asked.fields))["response_format"]["format"]
    assert form["tags"] == [
        {"begin": begin, "content": {"type": "json_schema", "json_schema": PARAMETERS, "style": style}, "end": end}
    ]
    assert all(begin.startswith(trigger) for trigger in form["triggers"])


async def post(app: Any, *, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL, LOOSE], **fields}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        return await client.post(path, json={name: value for name, value in body.items() if value is not None})


def made(backend: Any, **settings: Any) -> ToolCallMiddleware:
    return ToolCallMiddleware(backend, **{"format": "hermes", "coerce_arguments": False, **settings})


def calls(arguments: str) -> NativeBackend:
    """A backend that calls the tool itself."""
    function = {"name": "f", "arguments": arguments}
    return NativeBackend({"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": function}]})


def backend_of(mode: str, *arguments: str) -> Any:
    return InTurn(*map(calls, arguments)) if mode == "native" else TextBackend([_written(given) for given in arguments])


def _written(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'


def calls_of(response: httpx.Response) -> list[tuple[str, Any]]:
    assert response.status_code == 200, response.text
    check = check_stream if response.headers["content-type"].startswith("text/event-stream") else check_whole
    return [(call.name, call.parsed) for call in check(response.content, tools={"f", "g"}, own_ids=False).only.calls]


@STREAMS
@MODES
@pytest.mark.parametrize("settings", [{}, {"validate_arguments": "warn"}, {"profile": "gateway"}])
async def test_a_call_that_does_not_fit_is_asked_for_again(mode: str, settings: dict[str, Any], stream: bool) -> None:
    backend = backend_of(mode, '{"x": 7}', '{"x": true}')
    response = await post(made(backend, mode=mode, **settings), stream=stream)
    assert calls_of(response) == [("f", {"x": True})]
    *_, said, asked = backend.bodies[1]["messages"]
    assert said["role"] == "assistant"
    assert "x: 7 is not of type" in asked["content"]
    assert stream or "; retried=1" in response.headers["x-toolcall"]


@STREAMS
@MODES
@pytest.mark.parametrize(
    ("settings", "tries"), [({}, 2), ({"retries": 0}, 1), ({"retries": 2}, 3), ({"validate_arguments": "error"}, 1)]
)
async def test_it_is_refused_where_no_try_is_left(
    mode: str, settings: dict[str, Any], tries: int, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcall_middleware")
    backend = backend_of(mode, *['{"x": 7}'] * 4)
    response = await post(made(backend, mode=mode, **settings), stream=stream)
    assert response.status_code == 422
    error = check_error(response.content)
    assert (error["code"], error["param"]) == ("invalid_tool_arguments", "tool_calls[0].function.arguments.x")
    assert len(backend.bodies) == tries
    assert sum("outcome=invalid path=arguments.x" in line for line in caplog.messages) == tries
    assert not any("7" in line for line in caplog.messages)


@STREAMS
async def test_types_are_corrected_before_the_check(stream: bool) -> None:
    backend = backend_of("prompt", '{"x": "true"}')
    assert calls_of(await post(made(backend, coerce_arguments=True), stream=stream)) == [("f", {"x": True})]


async def test_it_is_an_event_where_text_has_left() -> None:
    backend = TextBackend([f"Let me see. {BAD}"])
    answer = check_stream((await post(made(backend), stream=True)).content, error=True)
    assert (answer.error or {})["code"] == "invalid_tool_arguments"
    assert (answer.only.content, answer.only.calls) == ("Let me see. ", [])
    assert len(backend.bodies) == 1


@STREAMS
async def test_a_call_that_the_limit_cut_is_not_emitted(stream: bool) -> None:
    backend = TextBackend([Answer(BAD[:-20], finish_reason="length")])
    response = await post(made(backend), stream=stream)
    check = check_stream if stream else check_whole
    answer = check(response.content).only
    assert (answer.calls, answer.finish_reason) == ([], "length")


@STREAMS
async def test_only_calls_of_strict_tools_wait(stream: bool) -> None:
    response = await post(made(TextBackend([OTHER + GOOD])), stream=stream)
    assert [name for name, _ in calls_of(response)] == ["g", "f"]
    if stream:
        events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
        deltas = [call for event in events for call in event["choices"][0]["delta"].get("tool_calls", ())]
        pieces = [[call["index"] for call in deltas].count(at) for at in range(2)]
        assert pieces[0] > 5
        assert pieces[1] <= 2  # its opening, and all of its arguments


async def test_no_stream_waits_for_tools_that_are_not_strict() -> None:
    backend = TextBackend([OTHER])
    response = await post(made(backend), tools=[LOOSE], stream=True)
    assert [name for name, _ in calls_of(response)] == ["g"]
    assert len(backend.bodies) == 1


# -- constraints -------------------------------------------------------------------------------------------------------


def pieces_of(response: httpx.Response) -> int:
    """How many deltas the calls of a stream come in."""
    return response.text.count('"tool_calls":[{"index"')


async def test_arguments_stream_under_a_constraint_that_an_operator_names() -> None:
    backend = TextBackend([GOOD])
    response = await post(made(backend, constrain="structural_tag"), stream=True)
    assert calls_of(response) == [("f", {"x": True})]
    assert pieces_of(response) > 2
    assert "response_format" in backend.bodies[0]


@STREAMS
async def test_a_constraint_that_is_ignored_all_the_same_costs_no_promise(stream: bool) -> None:
    response = await post(made(TextBackend([BAD, GOOD]), constrain="structural_tag"), stream=stream)
    if not stream:
        assert calls_of(response) == [("f", {"x": True})]
        return
    answer = check_stream(response.content, error=True)
    assert (answer.error or {})["param"] == "tool_calls[0].function.arguments.x"


@pytest.mark.parametrize("refused", [False, True], ids=["taken", "refused"])
@pytest.mark.parametrize("constrain", ["auto", "off", "response_format"])
async def test_else_it_is_checked_first(constrain: str, refused: bool) -> None:
    script: list[Script] = [BAD, GOOD]

    def model(body: dict[str, Any]) -> Script:
        if refused and "response_format" in body:
            return Refusal(400, {"error": {"message": "response_format: this schema is not supported"}})
        return script.pop(0)

    assert calls_of(await post(made(TextBackend(model), constrain=constrain), stream=True)) == [("f", {"x": True})]


@STREAMS
@pytest.mark.parametrize("calls", ["auto", "required"])
async def test_a_weaker_constraint_holds_nothing(calls: str, stream: bool) -> None:
    script: list[Script] = [BAD, GOOD]

    def model(body: dict[str, Any]) -> Script:
        if b'"boolean"' in json.dumps(body.get("response_format")).encode():
            return Refusal(400, {"error": {"message": "response_format: this schema is not supported"}})
        return script.pop(0)

    app = made(TextBackend(model), constrain="structural_tag")
    assert calls_of(await post(app, tool_choice=calls, stream=stream)) == [("f", {"x": True})]


# -- faces -------------------------------------------------------------------------------------------------------------

FACES: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "max_tokens": 100,
        "tools": [{"name": "f", "description": "F.", "strict": True, "input_schema": PARAMETERS}],
    },
    "/v1/responses": {"messages": None, "input": "Hi", "tools": [{"type": "function", **FUNCTION}]},
}


@STREAMS
@pytest.mark.parametrize("path", FACES)
async def test_it_is_the_same_promise_on_each_face(path: str, stream: bool) -> None:
    app = made(TextBackend([BAD, GOOD, BAD, BAD]), faces="chat,messages,responses")
    response = await post(app, path=path, stream=stream, **FACES[path])
    assert response.status_code == 200
    said = response.text.replace("\\", "").replace(" ", "")
    assert '{"x":true}' in said
    assert '"x":7' not in said
    refused = await post(app, path=path, stream=stream, **FACES[path])
    assert refused.status_code == (500 if path == "/v1/messages" else 400)
    assert refused.headers["x-toolcall-error"] == "invalid_tool_arguments"


@pytest.mark.parametrize("strict", [None, False])
async def test_responses_hold_no_tools_of_clients_that_ask_for_nothing(strict: bool | None) -> None:
    tool = {"type": "function", **FUNCTION, "strict": strict}
    app = made(TextBackend([BAD]), faces="chat,messages,responses")
    response = await post(app, path="/v1/responses", stream=True, messages=None, input="Hi", tools=[tool])
    assert response.text.count("event: response.function_call_arguments.delta") > 1
