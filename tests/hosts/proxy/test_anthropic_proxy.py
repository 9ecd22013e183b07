"""The whole proxy before Anthropic's API: OpenAI's own client in front, a strict upstream behind, real sockets."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.helpers.anthropic_fake import KEY, AnthropicUpstream, Break, Failure
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import create_proxy

from ...apis.messages import anthropic_api as api
from .proxy_servers import PATIENCE, serving

MODEL = "claude-sonnet-4-5"
# The SDK warns of models that are about to go.
NEWEST = "claude-opus-5-5"
ASK: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "The weather in Paris?"}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = api.answer(api.text("Let me look."), api.call("toolu_01A", "weather", {"city": "Paris"}), stop_reason="tool_use")
TWO = api.answer(
    api.call("toolu_01A", "weather", {"city": "Paris"}),
    api.call("toolu_01B", "weather", {"city": "Rome"}),
    stop_reason="tool_use",
)
PROSE = api.answer(api.text("It is sunny in Paris."))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TOOLCALL_"):
            monkeypatch.delenv(name)


@dataclass
class Proxy:
    upstream: AnthropicUpstream
    client: openai.AsyncOpenAI
    http: httpx.AsyncClient

    async def chat(self, **fields: Any) -> Any:
        return await self.client.chat.completions.create(**{"model": MODEL, "messages": ASK, **fields})

    async def raw(self, **fields: Any) -> httpx.Response:
        return await self.http.post("/v1/chat/completions", json={"model": MODEL, "messages": ASK, **fields})


@contextlib.asynccontextmanager
async def proxying(monkeypatch: pytest.MonkeyPatch, *script: Any, **settings: str) -> AsyncIterator[Proxy]:
    upstream = AnthropicUpstream(list(script))
    async with serving(upstream.app) as address:
        given = {"upstream_url": address, "upstream_api": "anthropic", "upstream_key": KEY, **settings}
        for name, value in given.items():
            monkeypatch.setenv(f"TOOLCALL_{name.upper()}", value)
        async with (
            serving(create_proxy()) as proxy,
            openai.AsyncOpenAI(base_url=f"{proxy}/v1", api_key="sk-client", max_retries=0, timeout=PATIENCE) as client,
            httpx.AsyncClient(base_url=proxy, trust_env=False, timeout=PATIENCE) as http,
        ):
            yield Proxy(upstream, client, http)


async def test_the_official_client_takes_the_fake_for_the_real_one() -> None:
    upstream = AnthropicUpstream([TWO, CALL, PROSE])
    messages: Any = [{"role": "user", "content": "hi"}]
    tools: Any = [{"name": "weather", "input_schema": {"type": "object"}}]
    async with serving(upstream.app) as address:
        client = anthropic.AsyncAnthropic(base_url=address, api_key=KEY, max_retries=0)
        async with client:
            whole = await client.messages.create(model=NEWEST, max_tokens=9, messages=messages, tools=tools)
            assert whole.content == TWO.content
            for said in (CALL, PROSE):
                async with client.messages.stream(model=NEWEST, max_tokens=9, messages=messages, tools=tools) as stream:
                    final = await stream.get_final_message()
                assert [block.model_dump(exclude_none=True) for block in final.content] == [
                    block.model_dump(exclude_none=True) for block in said.content
                ]
                assert final.usage.output_tokens == said.usage.output_tokens
            bad: Any = [{"role": "user", "content": " "}]
            with pytest.raises(anthropic.BadRequestError, match="non-whitespace"):
                await client.messages.create(model=NEWEST, max_tokens=9, messages=bad)
            assert [model.id async for model in client.models.list()] == ["claude-opus-5"]


async def test_plain_and_streamed_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, PROSE, PROSE) as proxy:
        whole = await proxy.chat()
        assert whole.choices[0].message.content == "It is sunny in Paris."
        assert whole.choices[0].finish_reason == "stop"
        assert whole.usage.prompt_tokens == 18
        assert whole.usage.prompt_tokens_details.cached_tokens == 5
        stream = await proxy.chat(stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "It is sunny in Paris."
        assert chunks[-1].usage.total_tokens == 25
        assert proxy.upstream.asked[0]["system"] == "Be brief."
        assert proxy.upstream.asked[0]["max_tokens"] == 8192


async def test_a_tool_loop_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, TWO, PROSE) as proxy:
        message = (await proxy.chat(tools=[TOOL])).choices[0].message
        assert [(call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls] == [
            ("toolu_01A", "weather", {"city": "Paris"}),
            ("toolu_01B", "weather", {"city": "Rome"}),
        ]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": f"{call.function.arguments} is sunny"}
            for call in reversed(message.tool_calls)
        ]
        done = await proxy.chat(tools=[TOOL], messages=[*ASK, message, *results])
        assert done.choices[0].message.content == "It is sunny in Paris."
        turn = proxy.upstream.asked[1]["messages"]
    assert [block["id"] for block in turn[1]["content"]] == ["toolu_01A", "toolu_01B"]
    assert [block["tool_use_id"] for block in turn[2]["content"]] == ["toolu_01A", "toolu_01B"]


async def test_a_tool_loop_streamed_by_the_clients_own_accumulator(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = json.loads(json.dumps(TOOL))
    strict["function"]["strict"] = True
    strict["function"]["parameters"]["additionalProperties"] = False
    thinking = api.answer(api.thought("Two cities."), *TWO.content, stop_reason="tool_use")
    async with proxying(monkeypatch, thinking, PROSE) as proxy:
        asked: Any = {"model": MODEL, "tools": [strict], "reasoning_effort": "low"}
        async with proxy.client.chat.completions.stream(**asked, messages=ASK) as stream:
            message = (await stream.get_final_completion()).choices[0].message
        given = message.model_dump(exclude_none=True)
        assert given["reasoning"] == "Two cities."
        history: list[Any] = [*ASK, given]
        history += [{"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in given["tool_calls"]]
        async with proxy.client.chat.completions.stream(**asked, messages=history) as stream:
            done = (await stream.get_final_completion()).choices[0].message
        assert done.content == "It is sunny in Paris."
        first, second = proxy.upstream.asked
    assert first["tools"][0]["strict"] is True
    assert first["thinking"]["type"] == second["thinking"]["type"] == "enabled"
    # The signed thinking has been round the client, without any state of ours.
    assert second["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "Two cities.",
        "signature": "c2ln",
    }


async def test_the_rules_of_the_wire_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, CALL, CALL, TWO) as proxy:
        expected = {"tools": {"weather"}, "own_ids": False}
        whole = check_whole((await proxy.raw(tools=[TOOL])).content, **expected)
        response = await proxy.raw(tools=[TOOL], stream=True)
        stream = check_stream(response.content, **expected)
        assert stream.only.named_calls == [("weather", '{"city":"Paris"}')]
        assert whole.only.content == stream.only.content == "Let me look."
        assert response.headers["x-toolcall"] == "mode=native; format=auto"
        assert response.headers["x-upstream-request-id"] == "req_011"
        one = check_stream((await proxy.raw(tools=[TOOL], stream=True, parallel_tool_calls=False)).content, **expected)
        assert [call.id for call in one.only.calls] == ["toolu_01A"]
        assert proxy.upstream.asked[2]["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


async def test_arguments_leave_as_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    long = api.answer(api.call("toolu_1", "weather", {"city": "x" * 200}), stop_reason="tool_use")
    async with proxying(monkeypatch, long) as proxy:
        proxy.upstream.pause = 0.002
        async with proxy.http.stream(
            "POST",
            "/v1/chat/completions",
            json={"model": MODEL, "messages": ASK, "tools": [TOOL], "stream": True},
        ) as response:
            seen = [piece async for piece in response.aiter_raw()]
    assert len([piece for piece in seen if b'"arguments":' in piece]) > 10


FAILURES: list[tuple[Failure, type[openai.APIStatusError]]] = [
    (Failure(400, "invalid_request_error", "prompt is too long"), openai.BadRequestError),
    (Failure(401, "authentication_error", "invalid x-api-key"), openai.AuthenticationError),
    (Failure(403, "permission_error", "no"), openai.PermissionDeniedError),
    (Failure(404, "not_found_error", "model: x"), openai.NotFoundError),
    (Failure(429, "rate_limit_error", "slow down", {"retry-after": "7"}), openai.RateLimitError),
    (Failure(529, "overloaded_error", "Overloaded"), openai.InternalServerError),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_errors_keep_status_text_and_retry_after(
    tools: Any, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxying(monkeypatch, *[failure for failure, _ in FAILURES]) as proxy:
        for failure, error in FAILURES:
            with pytest.raises(error) as caught:
                await proxy.chat(stream=stream, **({"tools": tools} if tools else {}))
            assert caught.value.status_code == failure.status
            assert caught.value.type == failure.kind
            assert failure.text in caught.value.message
            assert caught.value.response.headers.get("retry-after") == failure.headers.get("retry-after")
            assert caught.value.response.headers["x-upstream-request-id"] == "req_011"


@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_an_error_in_a_stream_is_told_and_never_looks_complete(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"tools": tools} if tools else {}
    async with proxying(monkeypatch, Break(PROSE, 4, "overloaded_error"), Break(PROSE, 4)) as proxy:
        overloaded = await proxy.raw(stream=True, **more)
        assert b'"message":"Overloaded","type":"overloaded_error","param":null,"code":529' in overloaded.content
        broken = await proxy.raw(stream=True, **more)
        assert b"broke off its answer" in broken.content
        for response in (overloaded, broken):
            assert response.content.count(b"[DONE]") == 1
            assert b'"finish_reason":"stop"' not in response.content


async def test_an_upstream_that_is_down_is_said_in_openais_form(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, upstream_url="http://127.0.0.1:9/v1") as proxy:
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError) as caught:
                await proxy.chat(stream=stream)
            assert (caught.value.status_code, caught.value.code) == (502, "upstream_error")


async def test_the_clients_key_never_goes_where_the_proxy_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, PROSE) as proxy:
        headers = {"x-api-key": "sk-mine", "anthropic-beta": "b1", "cookie": "a=b", "origin": "http://localhost:3000"}
        await proxy.chat(extra_headers=headers)
        got = proxy.upstream.headers[0]
    assert got["x-api-key"] == KEY
    assert got["anthropic-beta"] == "b1"
    assert not {"authorization", "cookie", "origin", "x-forwarded-for"} & got.keys()
    assert not [name for name in got if name.startswith("x-stainless")]
    assert "sk-client" not in str(got)
    assert "sk-mine" not in str(got)


async def test_without_a_key_of_its_own_the_proxy_hands_the_clients_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, PROSE, upstream_key="") as proxy:
        answer = await proxy.chat(extra_headers={"authorization": f"Bearer {KEY}"})
        assert answer.choices[0].message.content
        assert "authorization" not in proxy.upstream.headers[0]


async def test_a_key_of_the_proxy_is_never_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, PROSE, upstream_key="", api_keys="sk-client") as proxy:
        with pytest.raises(openai.AuthenticationError, match="x-api-key"):
            await proxy.chat(extra_headers={"x-api-key": KEY})
        assert "sk-client" not in str(proxy.upstream.headers)


async def test_a_choice_that_the_model_lacks_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, PROSE, CALL) as proxy:
        answer = await proxy.chat(model="claude-fable-5-1", tools=[TOOL], tool_choice="required")
        assert [call.function.name for call in answer.choices[0].message.tool_calls] == ["weather"]
        assert [body.get("tool_choice") for body in proxy.upstream.asked] == [None, None]


async def test_prompt_mode_works_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    written = '```json\n{"tool_calls": [{"name": "weather", "arguments": {"city": "Paris"}}]}\n```'
    async with proxying(monkeypatch, api.answer(api.text(written)), PROSE, mode="prompt", format="json") as proxy:
        response = await proxy.raw(tools=[TOOL], tool_choice="required")
        message = check_whole(response.content, tools={"weather"}).only
        assert message.named_calls == [("weather", '{"city": "Paris"}')]
        assert "tools" not in proxy.upstream.asked[0]
        call = {
            "role": "assistant",
            "content": None,
            "tool_calls": response.json()["choices"][0]["message"]["tool_calls"],
        }
        result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "sunny"}
        stream = await proxy.raw(tools=[TOOL], messages=[*ASK, call, result], stream=True)
        assert check_stream(stream.content).only.content == "It is sunny in Paris."


async def test_models_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch) as proxy:
        assert [(model.id, model.object) async for model in await proxy.client.models.list()] == [
            ("claude-opus-5", "model")
        ]
        assert (await proxy.client.models.retrieve("claude-opus-5")).owned_by == "anthropic"
        with pytest.raises(openai.NotFoundError, match="model: nope"):
            await proxy.client.models.retrieve("nope")


async def test_other_paths_are_a_404_that_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch) as proxy:
        with pytest.raises(openai.NotFoundError, match="POST /v1/embeddings") as caught:
            await proxy.client.embeddings.create(model="x", input="y")
        assert caught.value.code == "unknown_url"
        assert (await proxy.http.get("/healthz")).status_code == 200


async def test_what_cannot_be_said_is_refused_before_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch) as proxy:
        with pytest.raises(openai.BadRequestError, match="n must be 1"):
            await proxy.chat(n=2)
        result = {"role": "tool", "tool_call_id": "nope", "content": "x"}
        with pytest.raises(openai.BadRequestError) as caught:
            await proxy.chat(messages=[*ASK, result])
        assert caught.value.code in {"invalid_tool_call_id", "invalid_message_order"}
        assert proxy.upstream.asked == []
