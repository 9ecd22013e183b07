"""The whole proxy in front of Anthropic's and Google's APIs: OpenAI's SDK on one side, a strict fake on the other.

The fakes keep the APIs' rules and answer in the official SDKs' types; the official SDKs themselves talk to them here.
What a translation makes of each field is tested in tests/apis, what its host does in test_translator.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google import genai
from google.genai import types

from tests.helpers import anthropic_api as api
from tests.helpers import google_fake as gemini
from tests.helpers.anthropic_fake import KEY, AnthropicUpstream, Failure
from tests.helpers.asgi_client import Client, ask
from tests.helpers.google_fake import Error, FakeGemini
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import Settings, create_proxy
from toolcall_middleware.hosts.http import client_library
from toolcall_middleware.hosts.proxy.upstream.providers import upstream_app

from .proxy_servers import PATIENCE, FakeTransport, serving

ASK: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Köln and Ulm?"}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 1},
                "unit": {"anyOf": [{"enum": ["C", "F"]}, {"type": "null"}], "default": None},
                "days": {"$ref": "#/$defs/days"},
            },
            "required": ["city"],
            "additionalProperties": False,
            "$defs": {"days": {"type": "integer", "exclusiveMinimum": 0}},
        },
    },
}
SIGNATURE = b"where the model was in its thoughts"
PROSE = api.answer(api.text("It rains."))
CALL = api.answer(
    api.text("Let me see."), api.call("toolu_01A", "get_weather", {"city": "Ulm"}), stop_reason="tool_use"
)
TWO = api.answer(
    api.text("Let me see."),
    api.call("toolu_01A", "get_weather", {"city": "Köln", "days": 2}),
    api.call("toolu_01B", "get_weather", {"city": "Ulm"}),
    stop_reason="tool_use",
)


def _blocks_in_turn(body: dict[str, Any]) -> list[Any]:
    _, asked, given = body["messages"]
    text, *calls = asked["content"]
    return [
        text["text"],
        *(block["id"] for block in calls),
        *((block["tool_use_id"], json.loads(block["content"])["city"]) for block in given["content"]),
    ]


def _parts_in_turn(body: dict[str, Any]) -> list[Any]:
    turns = [types.Content.model_validate(content) for content in body["contents"]]
    assert [turn.role for turn in turns] == ["user", "model", "user"]
    parts = turns[1].parts or []
    answers = [part.function_response for part in turns[2].parts or ()]
    return [
        parts[0].text,
        *(part.thought_signature for part in parts[1:]),
        *((one.id, json.loads((one.response or {})["result"])["city"]) for one in answers if one),
    ]


@dataclass(frozen=True)
class Provider:
    """One API: how its fake is made, what it says, and what of a request is where in its body."""

    api: str
    key: str
    model: str
    fake: Callable[[list[Any]], Any]
    prose: Any
    two: Any
    usage: tuple[int, int, int]
    states: dict[str, Any]  # of a plain request
    in_turn: Callable[[dict[str, Any]], list[Any]]
    turn: list[Any]
    failures: list[tuple[Any, type[openai.APIStatusError], dict[str, Any]]]
    shows_key: str


ANTHROPIC = Provider(
    api="anthropic",
    key=KEY,
    model="claude-sonnet-4-5",
    fake=AnthropicUpstream,
    prose=PROSE,
    two=TWO,
    usage=(18, 7, 25),
    states={"system": "Be brief.", "max_tokens": 8192},
    in_turn=_blocks_in_turn,
    turn=["Let me see.", "toolu_01A", "toolu_01B", ("toolu_01A", "Köln"), ("toolu_01B", "Ulm")],
    failures=[
        (Failure(429, "rate_limit_error", "slow down", {"retry-after": "7"}), openai.RateLimitError, {"wait": "7"}),
        (Failure(529, "overloaded_error", "Overloaded"), openai.InternalServerError, {}),
    ],
    shows_key="x-api-key",
)
_LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
GOOGLE = Provider(
    api="google",
    key=gemini.KEY,
    model="gemini-3-test",
    fake=FakeGemini,
    prose=[gemini.answer(gemini.text("It rains."), usage=gemini.usage())],
    two=[
        gemini.answer(
            gemini.text("Let me see."),
            gemini.call("get_weather", None, SIGNATURE, city="Köln", days=2),
            gemini.call("get_weather", "google-2", city="Ulm"),
            usage=gemini.usage(),
        )
    ],
    usage=(7, 8, 15),
    states={"systemInstruction": {"parts": [{"text": "Be brief."}]}},
    in_turn=_parts_in_turn,
    turn=["Let me see.", SIGNATURE, None, (None, "Köln"), ("google-2", "Ulm")],
    failures=[
        (Error(400, "INVALID_ARGUMENT", _LONG), openai.BadRequestError, {"code": "context_length_exceeded"}),
        (
            Error(429, "RESOURCE_EXHAUSTED", "Quota.", delay="12.5s"),
            openai.RateLimitError,
            {"code": "RESOURCE_EXHAUSTED", "wait": "13"},
        ),
    ],
    shows_key="x-goog-api-key",
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TOOLCALL_"):
            monkeypatch.delenv(name)


@pytest.fixture(params=[ANTHROPIC, GOOGLE], ids=lambda provider: provider.api)
def provider(request: pytest.FixtureRequest) -> Provider:
    given: Provider = request.param
    return given


@dataclass
class Proxy:
    """A proxy in front of a fake: `bodies` and `headers` of what the fake was asked."""

    model: str
    fake: Any
    bodies: list[dict[str, Any]]
    headers: list[dict[str, str]]
    client: openai.AsyncOpenAI
    http: httpx.AsyncClient

    async def chat(self, **fields: Any) -> Any:
        return await self.client.chat.completions.create(**{"model": self.model, "messages": ASK, **fields})

    async def raw(self, **fields: Any) -> httpx.Response:
        return await self.http.post("/v1/chat/completions", json={"model": self.model, "messages": ASK, **fields})

    async def said(self, *, stream: bool, **fields: Any) -> tuple[dict[str, Any], Any, Any]:
        """(the message as a client sends it back, finish_reason, usage), whole or accumulated."""
        if not stream:
            whole = await self.chat(**fields)
            return whole.choices[0].message.model_dump(exclude_none=True), whole.choices[0].finish_reason, whole.usage
        message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
        reason = told = None
        async for chunk in await self.chat(stream=True, stream_options={"include_usage": True}, **fields):
            told = chunk.usage or told
            for choice in chunk.choices:
                message["content"] += choice.delta.content or ""
                reason = choice.finish_reason or reason
                for delta in choice.delta.tool_calls or ():
                    if delta.id:
                        message["tool_calls"].append(delta.model_dump(exclude={"index"}, exclude_none=True))
                    else:
                        message["tool_calls"][delta.index]["function"]["arguments"] += delta.function.arguments
        return {name: value for name, value in message.items() if value}, reason, told


@contextlib.asynccontextmanager
async def proxying(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, *script: Any, path: str = "", **settings: str
) -> AsyncIterator[Proxy]:
    fake: Any = provider.fake(list(script))
    google = provider.api == "google"
    async with serving(fake if google else fake.app) as address:
        given = {"upstream_url": address + path, "upstream_api": provider.api, "upstream_key": provider.key, **settings}
        for name, value in given.items():
            monkeypatch.setenv(f"TOOLCALL_{name.upper()}", value)
        async with (
            serving(create_proxy()) as proxy,
            openai.AsyncOpenAI(base_url=f"{proxy}/v1", api_key="sk-client", max_retries=0, timeout=PATIENCE) as client,
            httpx.AsyncClient(base_url=proxy, trust_env=False, timeout=PATIENCE) as http,
        ):
            yield Proxy(provider.model, fake, fake.bodies if google else fake.asked, fake.headers, client, http)


# -- both ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_plain_answer_and_its_usage(provider: Provider, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(provider, monkeypatch, provider.prose) as proxy:
        message, reason, usage = await proxy.said(stream=stream)
    assert (message, reason) == ({"role": "assistant", "content": "It rains."}, "stop")
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == provider.usage
    if provider is ANTHROPIC:
        assert usage.prompt_tokens_details.cached_tokens == 5
    (body,) = proxy.bodies
    assert {**body, **provider.states} == body


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_with_parallel_calls_and_results(
    provider: Provider, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxying(provider, monkeypatch, provider.two, provider.prose) as proxy:
        message, reason, _ = await proxy.said(stream=stream, tools=[TOOL])
        calls = message["tool_calls"]
        assert (message["content"], reason) == ("Let me see.", "tool_calls")
        assert [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls] == [
            ("get_weather", {"city": "Köln", "days": 2}),
            ("get_weather", {"city": "Ulm"}),
        ]
        assert calls[1]["id"] == ("toolu_01B" if provider is ANTHROPIC else "google-2")
        # The results come in another order; the APIs match by order.
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": call["function"]["arguments"]}
            for call in reversed(calls)
        ]
        done, _, _ = await proxy.said(stream=stream, messages=[*ASK, message, *results], tools=[TOOL])
    assert done["content"] == "It rains."
    assert provider.in_turn(proxy.bodies[1]) == provider.turn


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_errors_keep_status_text_and_the_time_to_wait(
    provider: Provider, tools: Any, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxying(provider, monkeypatch, *[failure for failure, _, _ in provider.failures]) as proxy:
        for failure, error, told in provider.failures:
            with pytest.raises(error) as caught:
                await proxy.chat(stream=stream, **({"tools": tools} if tools else {}))
            assert caught.value.status_code == failure.status
            assert caught.value.response.headers.get("retry-after") == told.get("wait")
            if provider is ANTHROPIC:
                assert (caught.value.type, failure.text in caught.value.message) == (failure.kind, True)
                assert caught.value.response.headers["x-upstream-request-id"] == "req_011"
            else:
                assert (caught.value.code, failure.message in caught.value.message) == (told["code"], True)


async def test_neither_side_meets_the_others_key(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"x-api-key": "sk-mine", "anthropic-beta": "b1", "cookie": "a=b", "origin": "http://localhost:3000"}
    async with proxying(provider, monkeypatch, provider.prose) as proxy:
        answer = await proxy.client.chat.completions.with_raw_response.create(
            model=provider.model, messages=ASK, tools=[TOOL], extra_headers=headers
        )
    (got,) = proxy.headers
    assert got[provider.shows_key] == provider.key
    assert got.get("anthropic-beta") == "b1"
    assert not {"authorization", "cookie", "origin", "x-forwarded-for"} & got.keys()
    assert not [name for name in got if name.startswith("x-stainless")]
    assert not [key for key in ("sk-client", "sk-mine") if key in str(got)]
    assert provider.key not in answer.text


async def test_without_a_key_of_its_own_the_proxy_hands_the_clients_on(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "" if provider is ANTHROPIC else "/v1beta/"
    async with proxying(provider, monkeypatch, provider.prose, path=path, upstream_key="") as proxy:
        answer = await proxy.chat(extra_headers={"authorization": f"Bearer {provider.key}", "cookie": "a=b"})
    assert answer.choices[0].message.content == "It rains."
    assert not {"authorization", "cookie"} & proxy.headers[0].keys()


# -- Anthropic -----------------------------------------------------------------------------------------------------


async def test_anthropics_client_takes_the_fake_for_the_real_one() -> None:
    upstream = AnthropicUpstream([TWO, CALL, PROSE])
    newest = "claude-opus-5-5"  # The SDK warns of models that are about to go.
    asked: dict[str, Any] = {"model": newest, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    asked["tools"] = [{"name": "get_weather", "input_schema": {"type": "object"}}]
    async with serving(upstream.app) as address:
        client = anthropic.AsyncAnthropic(base_url=address, api_key=KEY, max_retries=0)
        async with client:
            whole = await client.messages.create(**asked)
            assert whole.content == TWO.content
            for said in (CALL, PROSE):
                async with client.messages.stream(**asked) as stream:
                    final = await stream.get_final_message()
                assert [block.model_dump(exclude_none=True) for block in final.content] == [
                    block.model_dump(exclude_none=True) for block in said.content
                ]
                assert final.usage.output_tokens == said.usage.output_tokens
            with pytest.raises(anthropic.BadRequestError, match="non-whitespace"):
                await client.messages.create(**{**asked, "messages": [{"role": "user", "content": " "}]})
            assert [model.id async for model in client.models.list()] == ["claude-opus-5"]


async def test_a_tool_loop_streamed_by_the_clients_own_accumulator(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = json.loads(json.dumps(TOOL))
    strict["function"]["strict"] = True
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    strict["function"]["parameters"] = {**parameters, "additionalProperties": False}
    calls = TWO.content[1].model_copy(update={"input": {"city": "Köln"}}), TWO.content[2]
    thinking = api.answer(api.thought("Two cities."), *calls, stop_reason="tool_use")
    async with proxying(ANTHROPIC, monkeypatch, thinking, PROSE) as proxy:
        asked: Any = {"model": ANTHROPIC.model, "tools": [strict], "reasoning_effort": "low"}
        async with proxy.client.chat.completions.stream(**asked, messages=ASK) as stream:
            message = (await stream.get_final_completion()).choices[0].message
        given = message.model_dump(exclude_none=True)
        assert given["reasoning"] == "Two cities."
        history: list[Any] = [*ASK, given]
        history += [{"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in given["tool_calls"]]
        async with proxy.client.chat.completions.stream(**asked, messages=history) as stream:
            done = (await stream.get_final_completion()).choices[0].message
        assert done.content == "It rains."
        first, second = proxy.bodies
    assert first["tools"][0]["strict"] is True
    assert first["thinking"]["type"] == second["thinking"]["type"] == "enabled"
    # The signed thinking has been round the client, without any state of ours.
    assert second["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Two cities.", "signature": "c2ln"}


async def test_the_rules_of_the_wire_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(ANTHROPIC, monkeypatch, CALL, CALL, TWO) as proxy:
        expected = {"tools": {"get_weather"}, "own_ids": False}
        whole = check_whole((await proxy.raw(tools=[TOOL])).content, **expected)
        response = await proxy.raw(tools=[TOOL], stream=True)
        stream = check_stream(response.content, **expected)
        assert stream.only.named_calls == [("get_weather", '{"city":"Ulm"}')]
        assert whole.only.content == stream.only.content == "Let me see."
        assert response.headers["x-toolcall"] == "mode=native; format=auto"
        assert response.headers["x-upstream-request-id"] == "req_011"
        one = check_stream((await proxy.raw(tools=[TOOL], stream=True, parallel_tool_calls=False)).content, **expected)
        assert [call.id for call in one.only.calls] == ["toolu_01A"]


async def test_prompt_mode_works_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    written = '```json\n{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Ulm"}}]}\n```'
    script = api.answer(api.text(written)), PROSE
    async with proxying(ANTHROPIC, monkeypatch, *script, mode="prompt", format="json") as proxy:
        response = await proxy.raw(tools=[TOOL], tool_choice="required")
        message = check_whole(response.content, tools={"get_weather"}).only
        assert message.named_calls == [("get_weather", '{"city": "Ulm"}')]
        assert "tools" not in proxy.bodies[0]
        calls = response.json()["choices"][0]["message"]["tool_calls"]
        call = {"role": "assistant", "content": None, "tool_calls": calls}
        result = {"role": "tool", "tool_call_id": calls[0]["id"], "content": "sunny"}
        stream = await proxy.raw(tools=[TOOL], messages=[*ASK, call, result], stream=True)
        assert check_stream(stream.content).only.content == "It rains."


async def test_a_model_that_is_not_there_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(ANTHROPIC, monkeypatch) as proxy:
        with pytest.raises(openai.NotFoundError, match="model: nope"):
            await proxy.client.models.retrieve("nope")


# -- Google --------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def googling(fake: FakeGemini) -> AsyncIterator[Any]:
    """Google's own client, talking to the fake."""
    async with serving(fake) as address:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = types.HttpOptions(base_url=address, api_version="v1beta", timeout=int(PATIENCE * 1000))
            client = genai.Client(api_key=gemini.KEY, http_options=options)
            try:
                yield client.aio.models
            finally:
                await client.aio.aclose()


def _config(body: dict[str, Any]) -> types.GenerateContentConfig:
    """A translated request, as the arguments of the official client."""
    tool_config = body.get("toolConfig")
    return types.GenerateContentConfig.model_validate(
        {
            **body.get("generationConfig", {}),
            **{name: body[name] for name in ("systemInstruction", "tools") if name in body},
            **({"toolConfig": tool_config} if tool_config else {}),
            "automaticFunctionCalling": {"disable": True},
        }
    )


def _spelled(value: Any) -> Any:
    """In one spelling: that client writes some names in snake case, leaves out nulls and sends empty objects."""
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): _spelled(item) for name, item in value.items()}
    return {name: item for name, item in named.items() if item is not None and item != {}}


async def test_googles_client_sends_what_we_send_and_reads_what_we_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of ours, given to the official client as its own types, comes out of it as the same JSON."""
    signed = [gemini.answer(gemini.call("get_weather", None, SIGNATURE, city="Ulm"), gemini.text("x"))]
    async with proxying(GOOGLE, monkeypatch, signed, GOOGLE.prose) as proxy:
        made = await proxy.chat(
            tools=[TOOL], tool_choice="required", temperature=0.5, max_tokens=99, stop=["END"], seed=3,
            reasoning_effort="low",
        )  # fmt: skip
        said: Any = made.choices[0].message.model_dump(exclude_none=True)
        result: Any = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "wet"}
        await proxy.chat(messages=[*ASK, said, result], tools=[TOOL])
    theirs = FakeGemini([[gemini.answer(gemini.call("get_weather", "1", city="Ulm"))], GOOGLE.prose])
    async with googling(theirs) as models:
        read = [
            await models.generate_content(model=GOOGLE.model, contents=body["contents"], config=_config(body))
            for body in proxy.bodies
        ]
    assert _spelled(theirs.bodies) == _spelled(proxy.bodies)
    assert read[0].function_calls[0].args == {"city": "Ulm"}
    assert read[1].text == "It rains."


async def test_googles_client_reads_the_fakes_stream_models_and_errors() -> None:
    pieces = [gemini.answer(gemini.text("Hel"), reason=None), gemini.answer(gemini.text("lo"))]
    fake = FakeGemini([pieces, Error(429, "RESOURCE_EXHAUSTED", "Slow.")])
    async with googling(fake) as models:
        stream = await models.generate_content_stream(model=GOOGLE.model, contents="hi")
        assert "".join([piece.text async for piece in stream]) == "Hello"
        with pytest.raises(genai.errors.ClientError) as caught:
            await models.generate_content(model=GOOGLE.model, contents="hi")
        assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
        assert [model.name async for model in await models.list()] == ["models/gemini-test", "models/gemini-other"]


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1beta", "/v1beta/", "/v1alpha", "/v1beta/openai"])
async def test_an_address_may_end_in_a_version(ending: str) -> None:
    transport = FakeTransport(lambda _request: client_library.httpx.Response(503))
    settings = Settings(upstream_api="google", upstream_url=f"http://up.example/prefix{ending}", upstream_key="k")
    app = upstream_app(settings, forward_authorization=False, transport=transport)
    await Client(ask(tools=(), stream=False)).run(app)
    assert transport.targets == [b"/prefix/v1beta/models/m:generateContent"]
