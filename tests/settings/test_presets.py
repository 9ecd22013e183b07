"""The presets end to end, over real HTTP: `gateway` as the OpenAI SDK sees it, `strict` as it stands on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.helpers.fakes import TextBackend, obedient_model, serve, write_calls
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.settings import OPTIONS, PROFILES

from ..clients.common import need

if TYPE_CHECKING:
    import openai
else:
    openai = need("openai")

pytestmark = pytest.mark.server

CITY = {"type": "string", "description": "Where."}
SCHEMA = {"type": "object", "properties": {"city": CITY}, "required": ["city"], "additionalProperties": False}
ASK = [{"role": "user", "content": "The weather in Paris?"}]
PARIS = ("weather", {"city": "Paris"})


def tool(name: str = "weather", **fields: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": "The weather.", "parameters": SCHEMA, **fields},
    }


@contextmanager
def preset(model: Any, **options: Any) -> Iterator[str]:
    backend = TextBackend(model if callable(model) else [model] * 20, strict=True, chunk_size=256)
    with serve(ToolCallMiddleware(backend, settings=Settings(**options))) as address:
        yield address


def test_the_presets_are_data() -> None:
    """Nothing else in the package asks for a profile by its name: what a preset does, its settings do."""
    for values in PROFILES.values():
        assert set(values) <= set(OPTIONS)
    for name, values in PROFILES.items():
        by_hand = Settings(**values)
        assert all(
            getattr(Settings(profile=name), option) == getattr(by_hand, option)
            for option in OPTIONS
            if option != "profile"
        )


# --- gateway, by the OpenAI SDK


@contextmanager
def gateway(model: Any, **options: Any) -> Iterator[openai.OpenAI]:
    with (
        preset(model, profile="gateway", format="hermes", **options) as address,
        openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        yield client


@pytest.mark.slow
def test_gateway_serves_a_whole_turn_with_index_and_warning() -> None:
    with gateway(obedient_model("hermes", PARIS)) as client:
        create: Any = client.chat.completions.create
        first: Any = create(model="m", messages=ASK, tools=[tool()])
        (call,) = first.choices[0].message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == PARIS
        assert call.index == 0
        assert first._toolcall["warning"] == (
            "tool calls are written by a model: check them before you run them; "
            "none has been run: the client runs the tools and sends their results"
        )
        result = {"role": "tool", "tool_call_id": call.id, "content": "Error: TOOLMARK-0a1b"}
        history = [*ASK, first.choices[0].message.model_dump(exclude_none=True), result]
        last: Any = create(model="m", messages=history, tools=[tool()])
        assert "TOOLMARK-0a1b" in last.choices[0].message.content
        assert "warning" not in getattr(last, "_toolcall", {})


@pytest.mark.slow
def test_gateway_streams_the_warning_beside_the_finish_reason() -> None:
    bad = {"role": "tool", "tool_call_id": "call_1", "content": ""}
    called = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    history = [*ASK, {"role": "assistant", "content": None, "tool_calls": [called]}, bad]
    with gateway(write_calls("hermes", PARIS)) as client:
        create: Any = client.chat.completions.create
        stream: Any = create(model="m", messages=history, tools=[tool()], stream=True)
        chunks = list(stream)
    noted = [chunk for chunk in chunks if "warning" in getattr(chunk, "_toolcall", {})]
    assert [chunk.choices[0].finish_reason for chunk in noted] == ["tool_calls"]
    assert noted[0]._toolcall["warning"] == "the result of 'weather' is empty"


@pytest.mark.slow
def test_gateway_limits_what_the_model_writes() -> None:
    """In a stream; tests/exchange/test_limits.py has each limit, whole answers too."""

    def answer(body: dict[str, Any]) -> str:
        if "many" in body["messages"][-1]["content"]:
            return write_calls("hermes", *[("weather", {"city": str(number)}) for number in range(21)])
        return write_calls("hermes", ("weather", {"city": "x" * 65536}))

    def names(messages: Any) -> list[str]:
        create: Any = client.chat.completions.create
        created = create(model="m", messages=messages, tools=[tool()], stream=True)
        deltas = [call for chunk in created for call in chunk.choices[0].delta.tool_calls or ()]
        return [call.function.name for call in deltas if call.function.name]

    with gateway(answer) as client:
        assert names([{"role": "user", "content": "many"}]) == ["weather"] * 20
        with pytest.raises(openai.APIError, match=r"max_arguments_bytes \(65536\)") as raised:
            names(ASK)
        assert raised.value.code == "limit_exceeded"


# --- strict, on the wire

STRICT_TOOL = tool(strict=True)


# One for all: a client of its own for each request costs more than the request.
_web: list[httpx.Client] = []


@pytest.fixture(autouse=True, scope="module")
def _client() -> Iterator[None]:
    with httpx.Client(timeout=10) as client:
        _web.append(client)
        yield
        _web.clear()


def post(address: str, **fields: Any) -> httpx.Response:
    body = {"model": "m", "messages": ASK, "tools": [STRICT_TOOL], "parallel_tool_calls": False, **fields}
    sent = {name: value for name, value in body.items() if value is not None}
    return _web[0].post(f"{address}/v1/chat/completions", json=sent)


def deltas(response: httpx.Response) -> list[dict[str, Any]]:
    """The calls' deltas of a stream, in order."""
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    choices = [choice for event in events for choice in event.get("choices", ())]
    return [call for choice in choices for call in choice["delta"].get("tool_calls", ())]


@pytest.mark.slow
def test_strict_returns_objects_and_takes_results_that_are_json() -> None:
    with preset(obedient_model("hermes", PARIS), profile="strict", format="hermes") as address:
        first = post(address)
        (call,) = first.json()["choices"][0]["message"]["tool_calls"]
        assert call["function"] == {"name": "weather", "arguments": {"city": "Paris"}}
        assert re.fullmatch("call_[a-zA-Z0-9]+", call["id"])
        result = {"role": "tool", "tool_call_id": call["id"], "content": {"mark": "TOOLMARK-0a1b"}, "is_error": True}
        last = post(address, messages=[*ASK, first.json()["choices"][0]["message"], result])
        assert "TOOLMARK-0a1b" in last.json()["choices"][0]["message"]["content"]


@pytest.mark.slow
def test_strict_streams_the_object_whole_in_the_last_delta_of_its_call() -> None:
    calls = [PARIS, ("weather", {"city": "Rome"})]
    with preset(write_calls("hermes", *calls), profile="strict", format="hermes") as address:
        made = deltas(post(address, stream=True, tools=[tool()], parallel_tool_calls=None))
    assert [(delta["index"], delta["function"]["arguments"]) for delta in made] == [
        (0, ""),
        (0, {"city": "Paris"}),
        (1, ""),
        (1, {"city": "Rome"}),
    ]
    assert [delta["function"].get("name") for delta in made] == ["weather", None, "weather", None]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "written",
    [
        '<tool_call>{"name": "weather", "arguments": {"city": "Pa</tool_call>',
        '<tool_call>{"name": "weather", "arguments": {"city": Paris}}</tool_call>',
        '<tool_call>{"name": "weather", "arguments": {\'city\': None}}</tool_call>',
    ],
)
def test_strict_arguments_that_are_malformed_are_an_error(written: str, stream: bool) -> None:
    with preset(written, profile="strict", format="hermes") as address:
        response = post(address, stream=stream)
    assert '"arguments"' not in response.text.replace('\\"arguments\\"', "")
    assert '"code":"malformed_tool_arguments"' in response.text
    if not stream:
        assert (response.status_code, response.headers["x-should-retry"]) == (422, "false")


@pytest.mark.slow
def test_strict_refuses_on_the_wire_what_compat_accepts() -> None:
    """One of the parts of the dialect; tests/request/test_policy.py has them all."""
    answers: list[httpx.Response] = []
    for profile in ("compat", "strict"):
        with preset("Fine.", profile=profile) as address:
            answers.append(post(address, tools=[tool("get-weather")]))
    accepted, refused = answers
    assert accepted.status_code == 200
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["code"], error["param"], error["type"]) == (
        "invalid_tool_schema",
        "tools[0].function.name",
        "invalid_request_error",
    )
