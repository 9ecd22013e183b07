"""Every limit at its value, one below and one above, streamed and whole, through the whole middleware."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.helpers.answers import STREAMS, Case, NativeBackend, answered, calling, case, cases, check, own
from tests.helpers.answers import post as ask
from tests.helpers.fakes import TextBackend, write_calls
from tests.helpers.stream_rules import check_stream
from toolcall_middleware import ToolCallMiddleware

LIMIT = 5
HELLO = {"role": "user", "content": "hi"}


def tool(name: str = "f", description: str = "", parameters: Any = None) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters or {"type": "object"}}
    return {"type": "function", "function": function}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def history(rounds: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [HELLO]
    for number in range(rounds):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "ok"})
    return messages


@dataclass(frozen=True)
class OfRequest:
    """A limit that the request itself keeps or breaks: `make` gives fields of the size asked for."""

    name: str
    make: Callable[[int], dict[str, Any]]
    code: str = "limit_exceeded"
    param: str | None = None
    says: tuple[str, ...] = ()


OF_REQUEST = [
    OfRequest(
        "max_tools", lambda n: {"tools": [tool(f"f{i}") for i in range(n)]}, "too_many_tools", "tools", ("'f5'",)
    ),
    OfRequest(
        "max_tool_name_length",
        lambda n: {"tools": [tool("n" * n)]},
        param="tools[0].function.name",
        says=("nnnnnn", "characters"),
    ),
    OfRequest(
        "max_description_length",
        lambda n: {"tools": [tool("look", "d" * n)]},
        param="tools[0].function.description",
        says=("look", "characters"),
    ),
    OfRequest(
        "max_schema_depth",
        lambda n: {"tools": [tool("look", "", nested(n))]},
        param="tools[0].function.parameters",
        says=("look", "levels"),
    ),
    OfRequest("max_messages", lambda n: {"messages": [HELLO] * n}, param="messages"),
    OfRequest("max_tool_rounds", lambda n: {"messages": history(n)}, param="messages", says=("'f'",)),
]


def body_of(fields: dict[str, Any], *, stream: bool) -> bytes:
    body = {"model": "m", "messages": [HELLO], "tools": [tool()], "stream": stream, **fields}
    return json.dumps(body).encode()


async def post(app: Any, body: bytes) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app") as client:
        return await client.post("/v1/chat/completions", content=body)


def refused(response: httpx.Response, status: int, code: str, *says: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] == code
    for word in says:
        assert word in error["message"]
    return error


@STREAMS
@pytest.mark.parametrize("case", OF_REQUEST, ids=lambda case: case.name)
async def test_what_a_request_may_hold(case: OfRequest, stream: bool) -> None:
    backend = TextBackend(["text"] * 2)
    limit: dict[str, Any] = {case.name: LIMIT}
    app = ToolCallMiddleware(backend, **limit)
    for size in (LIMIT - 1, LIMIT):
        assert (await post(app, body_of(case.make(size), stream=stream))).status_code == 200
    error = refused(
        await post(app, body_of(case.make(LIMIT + 1), stream=stream)), 400, case.code, case.name, str(LIMIT), *case.says
    )
    assert error["param"] == case.param
    assert len(backend.bodies) == 2
    limit[case.name] = None
    unlimited = ToolCallMiddleware(TextBackend(["text"]), **limit)
    assert (await post(unlimited, body_of(case.make(LIMIT + 1), stream=stream))).status_code == 200


@STREAMS
async def test_the_size_of_a_request(stream: bool) -> None:
    body = body_of({}, stream=stream)
    for limit in (len(body) + 1, len(body)):
        assert (await post(ToolCallMiddleware(TextBackend(["x"]), max_request_bytes=limit), body)).status_code == 200
    limit = len(body) - 1
    app = ToolCallMiddleware(TextBackend([]), max_request_bytes=limit)
    refused(await post(app, body), 413, "request_too_large", "max_request_bytes", str(limit))


def arguments_of(size: int) -> str:
    return '{"x": "' + "y" * (size - 9) + '"}'


def backend(mode: str, *calls: tuple[str, str]) -> Any:
    """One that makes these calls: in its text, or by itself."""
    if mode == "prompt":
        return write_calls("hermes", *calls)
    return calling(*(own(arguments, name, index) for index, (name, arguments) in enumerate(calls)))


ANY = {"tools": [tool()]}
BOTH = {"tools": [tool("f"), tool("g")]}
MODES = ("prompt", "native")
LONG, SHORT = ("f", arguments_of(4000)), ("f", "{}")
APART = calling(own('{"x": ', "f"), own("y" * 10_000, "g", 1))
TOO_LONG: Any = {"code": "limit_exceeded", "says": ("max_arguments_bytes (400)", "'f'")}
FORBIDDEN = write_calls("hermes", ("rm_all", {}))
LISTED: Any = {"allowlist": "f,get_*", "unknown_tool": "forward", "asked": ANY}
UNLISTED: Any = {"code": "tool_not_allowed", "status": 403, "param": "tool_calls[0].function.name"}
NOT_LISTED = "The model called the tool 'rm_all', which is not on the allowlist."


def sized(size: int, mode: str, *, streamed: bool) -> Any:
    """A call whose arguments have so many bytes."""
    made = ("f", arguments_of(size))
    due = {"calls": [made]} if size <= 400 else TOO_LONG
    settings = {"mode": mode, "stream_arguments": streamed, "max_arguments_bytes": 400}
    return case(f"{size} bytes, {mode}, {streamed}", backend(mode, made), asked=ANY, **due, **settings)


@cases(
    *(sized(size, mode, streamed=one) for size in (399, 400, 401) for mode in MODES for one in (True, False)),
    # Nothing of a stream has been sent either.
    case(
        "much too large", backend("native", LONG, SHORT), asked=ANY, status=422, mode="native", max_arguments_bytes=400,
        parallel="never", **TOO_LONG,
    ),
    # An interleaved call does not wait without bounds.
    case(
        "apart", APART, asked=BOTH, code="limit_exceeded", says="max_arguments_bytes (100)", mode="native",
        max_arguments_bytes=100,
    ),
    case("the list holds", FORBIDDEN, says=NOT_LISTED, allowlist_mode="enforce", **LISTED, **UNLISTED),
)  # fmt: skip
async def test_answers(one: Case) -> None:
    await check(one)


@STREAMS
@pytest.mark.parametrize("mode", ["warn", "off"])
async def test_the_allowlist_may_only_warn_of_what_the_model_calls(mode: str, stream: bool) -> None:
    settings = {name: LISTED[name] for name in ("allowlist", "unknown_tool")}
    app = ToolCallMiddleware(TextBackend([FORBIDDEN]), allowlist_mode=mode, extension_field="_note", **settings)
    response = await ask(app, stream=stream, **ANY)
    assert answered(response).named_calls == [("rm_all", "{}")]
    assert (NOT_LISTED in response.text) is (mode == "warn")


async def test_a_call_is_stopped_at_the_limit_and_not_at_its_end() -> None:
    """The backend is told to end, long before the arguments do."""
    endless = TextBackend([write_calls("hermes", ("f", arguments_of(1_000_000)))], chunk_size=100)
    response = await ask(ToolCallMiddleware(endless, max_arguments_bytes=1000), stream=True, **ANY)
    answer = check_stream(response.content, error=True)
    assert (answer.error or {})["code"] == "limit_exceeded"
    assert 800 < len(answer.only.calls[0].arguments) <= 1000
    assert not endless.last.finished


@STREAMS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [LIMIT - 1, LIMIT, LIMIT + 1])
async def test_calls_of_an_answer(number: int, mode: str, stream: bool) -> None:
    """The answer ends after the last call that is allowed, as if the model had stopped there, and says so."""
    calls = [("f", f'{{"x": {i}}}') for i in range(number)]
    made = backend(mode, *calls)
    app = ToolCallMiddleware(
        TextBackend([made]) if mode == "prompt" else made, mode=mode, max_tool_calls=LIMIT, extension_field="_note"
    )
    response = await ask(app, stream=stream, **ANY)
    choice = answered(response, own_ids=mode == "prompt")
    assert (choice.named_calls, choice.finish_reason) == (calls[:LIMIT], "tool_calls")
    note = f"max_tool_calls is {LIMIT}: the answer was ended after the call of 'f'"
    assert (note in response.text) is (number >= LIMIT)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "asked for a stream"])
async def test_the_size_of_a_whole_answer(stream: bool) -> None:
    class Whole(NativeBackend):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def count(message: Any) -> None:
                self.size = len(message.get("body", b"")) or getattr(self, "size", 0)
                await send(message)

            async def asked() -> Any:
                message = dict(await receive())
                message["body"] = message["body"].replace(b'"stream":true', b'"stream":false')
                return message

            await super().__call__(scope, asked, count)

    backend = Whole({"content": "text"})
    assert (await post(ToolCallMiddleware(backend), body_of({}, stream=stream))).status_code == 200
    for limit in (backend.size + 1, backend.size):
        app = ToolCallMiddleware(backend, max_response_bytes=limit)
        assert (await post(app, body_of({}, stream=stream))).status_code == 200
    limit = backend.size - 1
    app = ToolCallMiddleware(backend, max_response_bytes=limit)
    refused(await post(app, body_of({}, stream=stream)), 502, "upstream_error", "max_response_bytes", str(limit))


@pytest.mark.parametrize("mode", ["prompt", "native"])
@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT, LIMIT + 1])
async def test_the_size_of_a_result(size: int, mode: str) -> None:
    messages = history(1)
    messages[-1]["content"] = "r" * size
    backend = NativeBackend({"content": "ok"})
    app = ToolCallMiddleware(backend, mode=mode, max_result_bytes=LIMIT)
    assert (await post(app, body_of({"messages": messages}, stream=False))).status_code == 200
    sent = json.dumps(backend.bodies[0]["messages"])
    assert "r" * min(size, LIMIT) in sent
    assert ("1 bytes of this result were cut off here" in sent) is (size > LIMIT)
