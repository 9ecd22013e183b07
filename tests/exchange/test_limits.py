"""Every limit at its value, one below and one above, streamed and whole, through the whole middleware."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.helpers.answers import NativeBackend
from tests.helpers.fakes import TextBackend, write_calls
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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_the_size_of_a_request(stream: bool) -> None:
    body = body_of({}, stream=stream)
    for limit in (len(body) + 1, len(body)):
        assert (await post(ToolCallMiddleware(TextBackend(["x"]), max_request_bytes=limit), body)).status_code == 200
    limit = len(body) - 1
    app = ToolCallMiddleware(TextBackend([]), max_request_bytes=limit)
    refused(await post(app, body), 413, "request_too_large", "max_request_bytes", str(limit))


def arguments_of(size: int) -> str:
    return '{"x": "' + "y" * (size - 9) + '"}'


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.text.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line[6:])


def calls_in(response: httpx.Response) -> list[tuple[str, str]]:
    """(name, arguments) of each call."""
    if not response.headers["content-type"].startswith("text/event-stream"):
        calls = response.json()["choices"][0]["message"].get("tool_calls") or []
        return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    joined: dict[int, list[str]] = {}
    for event in events(response):
        for choice in event.get("choices", ()):
            for call in choice["delta"].get("tool_calls", ()):
                made = joined.setdefault(call["index"], ["", ""])
                made[0] += call["function"].get("name", "")
                made[1] += call["function"].get("arguments", "")
    return [(name, arguments) for name, arguments in joined.values()]


def prompt_backend(*calls: tuple[str, str]) -> Any:
    return TextBackend([write_calls("hermes", *calls)])


def native_backend(*calls: tuple[str, str]) -> Any:
    made = [{"index": i, "id": f"c{i}", "function": {"name": n, "arguments": a}} for i, (n, a) in enumerate(calls)]
    return NativeBackend({"tool_calls": made})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_call_that_is_much_too_large_is_none_without_arguments(stream: bool) -> None:
    backend = native_backend(("f", arguments_of(4000)), ("f", "{}"))
    app = ToolCallMiddleware(backend, mode="native", max_arguments_bytes=400, parallel="never")
    response = await post(app, body_of({}, stream=stream))
    refused(response, 422, "limit_exceeded", "max_arguments_bytes (400)")  # nothing of a stream has been sent either


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("held", [False, True], ids=["fragments", "held"])
@pytest.mark.parametrize(("mode", "make"), [("prompt", prompt_backend), ("native", native_backend)])
async def test_the_size_of_arguments(mode: str, make: Any, held: bool, stream: bool) -> None:
    limit = 400

    async def answer(size: int) -> httpx.Response:
        app = ToolCallMiddleware(
            make(("f", arguments_of(size))), mode=mode, max_arguments_bytes=limit, stream_arguments=not held
        )
        return await post(app, body_of({}, stream=stream))

    for size in (limit - 1, limit):
        assert calls_in(await answer(size)) == [("f", arguments_of(size))]
    response = await answer(limit + 1)
    if stream and response.status_code == 200:
        *_, last = events(response)
        assert last["error"]["code"] == "limit_exceeded"
        assert f"max_arguments_bytes ({limit})" in last["error"]["message"]
        assert "'f'" in last["error"]["message"]
        assert response.text.endswith("data: [DONE]\n\n")
        assert all(len(arguments) <= limit for _, arguments in calls_in(response))
    else:
        refused(response, 422, "limit_exceeded", f"max_arguments_bytes ({limit})", "'f'")


async def test_a_call_is_stopped_at_the_limit_and_not_at_its_end() -> None:
    """The backend is told to end, long before the arguments do."""
    backend = TextBackend([write_calls("hermes", ("f", arguments_of(1_000_000)))], chunk_size=100)
    response = await post(ToolCallMiddleware(backend, max_arguments_bytes=1000), body_of({}, stream=True))
    assert '"code":"limit_exceeded"' in response.text
    sent = sum(len(arguments) for _, arguments in calls_in(response))
    assert 800 < sent <= 1000
    assert not backend.last.finished


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("mode", "make"), [("prompt", prompt_backend), ("native", native_backend)])
@pytest.mark.parametrize("number", [LIMIT - 1, LIMIT, LIMIT + 1])
async def test_calls_of_an_answer(number: int, mode: str, make: Any, stream: bool) -> None:
    """The answer ends after the last call that is allowed, as if the model had stopped there, and says so."""
    calls = [("f", f'{{"x": {i}}}') for i in range(number)]
    app = ToolCallMiddleware(make(*calls), mode=mode, max_tool_calls=LIMIT, extension_field="_note")
    response = await post(app, body_of({}, stream=stream))
    assert calls_in(response) == calls[:LIMIT]
    note = f"max_tool_calls is {LIMIT}: the answer was ended after the call of 'f'"
    assert (note in response.text) is (number >= LIMIT)
    assert '"finish_reason":"tool_calls"' in response.text.replace(": ", ":")


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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_interleaved_call_does_not_wait_without_bounds(stream: bool) -> None:
    first = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": '}}
    second = {"index": 1, "id": "b", "function": {"name": "g", "arguments": "y" * 10_000}}
    app = ToolCallMiddleware(NativeBackend({"tool_calls": [first, second]}), mode="native", max_arguments_bytes=100)
    response = await post(app, body_of({"tools": [tool("f"), tool("g")]}, stream=stream))
    assert "max_arguments_bytes (100)" in response.text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("mode", ["enforce", "warn", "off"])
async def test_the_allowlist_holds_for_what_the_model_calls(mode: str, stream: bool) -> None:
    backend = TextBackend([write_calls("hermes", ("rm_all", {}))])
    app = ToolCallMiddleware(
        backend, allowlist="f,get_*", allowlist_mode=mode, unknown_tool="forward", extension_field="_note"
    )
    response = await post(app, body_of({}, stream=stream))
    message = "The model called the tool 'rm_all', which is not on the allowlist."
    if mode == "enforce":
        error = refused(response, 403, "tool_not_allowed", message)
        assert error["param"] == "tool_calls[0].function.name"
        assert '"tool_calls":' not in response.text
    else:
        assert calls_in(response) == [("rm_all", "{}")]
        assert (message in response.text) is (mode == "warn")
