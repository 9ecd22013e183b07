"""The whole proxy in front of Google's API: OpenAI's SDK on one side, an API that keeps Google's rules on the other.

That API's requests and answers are of the official SDK's types, and the official SDK itself talks to it here.
"""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from google import genai
from google.genai import types

from tests.helpers.asgi_client import Client, ask
from tests.helpers.google_fake import KEY, Error, FakeGemini, answer, call, text, usage
from toolcall_middleware import Settings, create_proxy
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream.providers import upstream_app

from .proxy_servers import PATIENCE, FakeTransport, client_of, serving

MODEL = "gemini-3-test"
SIGNATURE = b"where the model was in its thoughts"
WEATHER: Any = {
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
HELLO: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Köln and Ulm?"}]


@contextlib.contextmanager
def variables(**values: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(f"TOOLCALL_{name}", value)
        yield


@contextlib.asynccontextmanager
async def proxied(fake: FakeGemini, **settings: str) -> AsyncIterator[str]:
    """The address of a real proxy in front of `fake`, both on loopback."""
    async with serving(fake) as upstream:
        values = {"UPSTREAM_URL": upstream, "UPSTREAM_API": "google", "UPSTREAM_KEY": KEY, **settings}
        with variables(**values):
            app = create_proxy()
        async with serving(app) as address:
            yield address


@contextlib.asynccontextmanager
async def talking(fake: FakeGemini, **settings: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with proxied(fake, **settings) as address:
        client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-client", max_retries=0, timeout=PATIENCE)
        async with client:
            yield client


async def joined(stream: Any) -> tuple[str, list[dict[str, Any]], str | None, Any]:
    """(text, calls as a client would send them back, finish_reason, usage) of a stream."""
    content, calls, reason, told = "", [], None, None
    async for chunk in stream:
        told = chunk.usage or told
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for delta in choice.delta.tool_calls or ():
                if delta.id:
                    calls.append(delta.model_dump(exclude={"index"}, exclude_none=True))
                else:
                    calls[delta.index]["function"]["arguments"] += delta.function.arguments
    return content, calls, reason, told


# -- OpenAI's SDK --------------------------------------------------------------------------------------------------


async def test_a_plain_answer_and_its_usage() -> None:
    fake = FakeGemini()
    async with talking(fake) as client:
        made = await client.chat.completions.create(model=MODEL, messages=HELLO)
        told = await client.chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        content, _, reason, used = await joined(told)
    assert (made.choices[0].message.content, made.choices[0].finish_reason) == ("Hello.", "stop")
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.total_tokens) == (7, 8, 15)
    assert (content, reason, used.total_tokens) == ("Hello.", "stop", 15)
    assert fake.targets == [
        f"/v1beta/models/{MODEL}:generateContent?",
        f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse",
    ]
    assert fake.bodies[0]["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_with_parallel_calls_results_and_signatures(stream: bool) -> None:
    calls = [
        call("get_weather", None, SIGNATURE, city="Köln", days=2),
        call("get_weather", "google-2", city="Ulm"),
    ]
    pieces = [answer(text("Let me see."), reason=None), answer(*calls, usage=usage())]
    fake = FakeGemini([pieces if stream else [answer(text("Let me see."), *calls)], [answer(text("Rain."))]])
    async with talking(fake) as client:
        if stream:
            first = await client.chat.completions.create(model=MODEL, messages=HELLO, tools=[WEATHER], stream=True)
            content, made, reason, _ = await joined(first)
            said: Any = {"role": "assistant", "content": content, "tool_calls": made}
        else:
            whole = await client.chat.completions.create(model=MODEL, messages=HELLO, tools=[WEATHER])
            reason = whole.choices[0].finish_reason
            said = whole.choices[0].message.model_dump(exclude_none=True)
            made = said["tool_calls"]
        assert reason == "tool_calls"
        assert [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in made] == [
            ("get_weather", {"city": "Köln", "days": 2}),
            ("get_weather", {"city": "Ulm"}),
        ]
        assert made[1]["id"] == "google-2"
        # The results come in another order; Google matches by order.
        results = [{"role": "tool", "tool_call_id": one["id"], "content": one["function"]["arguments"]} for one in made]
        last = await client.chat.completions.create(
            model=MODEL, messages=[*HELLO, said, *reversed(results)], tools=[WEATHER]
        )
        assert last.choices[0].message.content == "Rain."
    turns = [types.Content.model_validate(content) for content in fake.bodies[1]["contents"]]
    assert [turn.role for turn in turns] == ["user", "model", "user"]
    sent = [part for part in turns[1].parts or () if part.function_call]
    assert (turns[1].parts or [])[0].text == "Let me see."
    assert [part.thought_signature for part in sent] == [SIGNATURE, None]
    answers = [part.function_response for part in turns[2].parts or ()]
    assert [(one.id, json.loads((one.response or {})["result"])["city"]) for one in answers if one] == [
        (None, "Köln"),
        ("google-2", "Ulm"),
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_drops_the_signature_still_gets_its_answer(stream: bool) -> None:
    fake = FakeGemini([[answer(call("get_weather", None, SIGNATURE, city="Ulm"))], [answer(text("Rain."))]])
    async with talking(fake) as client:
        made = await client.chat.completions.create(model=MODEL, messages=HELLO, tools=[WEATHER])
        one = made.choices[0].message.tool_calls[0]  # type: ignore[index]
        bare: Any = one.model_dump(include={"id", "type", "function"})
        messages = [
            *HELLO,
            {"role": "assistant", "tool_calls": [bare]},
            {"role": "tool", "tool_call_id": bare["id"], "content": "wet"},
        ]
        last: Any = await client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER], stream=stream)
        said = (await joined(last))[0] if stream else last.choices[0].message.content
    assert said == "Rain."


async def test_one_call_where_one_is_asked_for() -> None:
    """Google has no word for it: what comes beyond is cut."""
    both = [answer(call("get_weather", city="Ulm"), reason=None), answer(call("get_weather", city="Bonn"))]
    fake = FakeGemini([both, [answer(call("get_weather", city="Ulm"), call("get_weather", city="Bonn"))]])
    async with talking(fake) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=HELLO, tools=[WEATHER], parallel_tool_calls=False, stream=True
        )
        _, calls, reason, _ = await joined(stream)
        whole = await client.chat.completions.create(
            model=MODEL, messages=HELLO, tools=[WEATHER], parallel_tool_calls=False
        )
    assert ([json.loads(one["function"]["arguments"]) for one in calls], reason) == ([{"city": "Ulm"}], "tool_calls")
    assert len(whole.choices[0].message.tool_calls or ()) == 1


async def test_a_required_call_is_asked_for_checked_and_tried_again() -> None:
    fake = FakeGemini([[answer(text("No."))], [answer(call("get_weather", city="Ulm"))]])
    async with talking(fake) as client:
        made = await client.chat.completions.create(
            model=MODEL, messages=HELLO, tools=[WEATHER], tool_choice="required"
        )
    assert made.choices[0].finish_reason == "tool_calls"
    modes = [body["toolConfig"]["functionCallingConfig"] for body in fake.bodies]
    assert modes == [{"mode": "ANY"}, {"mode": "ANY"}]


async def test_a_schema_that_google_cannot_express_never_leaves() -> None:
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    looped: Any = {
        "type": "function",
        "function": {"name": "tree", "parameters": {"$ref": "#/$defs/node", "$defs": {"node": node}}},
    }
    fake = FakeGemini()
    async with talking(fake) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model=MODEL, messages=HELLO, tools=[WEATHER, looped])
    body: Any = caught.value.body
    assert (body["code"], body["type"]) == ("tool_schema_incompatible", "semantic_error")
    assert body["incompatible_features"] == ["recursive $ref"]
    assert body["tool"] == "tree"
    assert body["param"].startswith("tools[1].function.parameters")
    assert fake.bodies == []


async def test_a_result_of_no_call_never_leaves() -> None:
    fake = FakeGemini()
    stray: Any = {"role": "tool", "tool_call_id": "call_nobody", "content": "x"}
    async with talking(fake) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model=MODEL, messages=[*HELLO, stray])
    assert caught.value.code in {"invalid_tool_call_id", "invalid_message_order"}
    assert fake.bodies == []


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "name", "raised"),
    [
        (400, "INVALID_ARGUMENT", openai.BadRequestError),
        (429, "RESOURCE_EXHAUSTED", openai.RateLimitError),
        (503, "UNAVAILABLE", openai.InternalServerError),
    ],
)
async def test_errors_keep_their_status(
    status: int, name: str, raised: type[openai.APIStatusError], stream: bool, tools: bool
) -> None:
    fake = FakeGemini([Error(status, name, "Why it failed.")])
    async with talking(fake) as client:
        with pytest.raises(raised, match="Why it failed") as caught:
            await client.chat.completions.create(
                model=MODEL, messages=HELLO, stream=stream, tools=[WEATHER] if tools else openai.omit
            )
    assert caught.value.status_code == status
    assert caught.value.code == name


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_is_too_long_has_openai_s_code(stream: bool, tools: bool) -> None:
    said = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    fake = FakeGemini([Error(400, "INVALID_ARGUMENT", said)])
    async with talking(fake) as client:
        with pytest.raises(openai.BadRequestError, match="The input token count") as caught:
            await client.chat.completions.create(
                model=MODEL, messages=HELLO, stream=stream, tools=[WEATHER] if tools else openai.omit
            )
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_time_to_wait_is_told_where_clients_look_for_it(stream: bool, tools: bool) -> None:
    fake = FakeGemini([Error(429, "RESOURCE_EXHAUSTED", "Quota.", delay="12.5s")])
    async with talking(fake) as client:
        with pytest.raises(openai.RateLimitError, match="Quota") as caught:
            await client.chat.completions.create(
                model=MODEL, messages=HELLO, stream=stream, tools=[WEATHER] if tools else openai.omit
            )
    assert caught.value.response.headers["retry-after"] == "13"
    assert caught.value.code == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_google_could_not_read_is_the_models_fault(stream: bool) -> None:
    broken = answer(reason="MALFORMED_FUNCTION_CALL", message="Malformed function call: print(")
    async with talking(FakeGemini([[broken]])) as client:
        with pytest.raises(openai.APIError, match=r"print\(") as caught:
            await joined(
                await client.chat.completions.create(model=MODEL, messages=HELLO, tools=[WEATHER], stream=stream)
            )
    assert caught.value.code == "malformed_tool_arguments"


async def test_the_client_never_meets_the_upstreams_key() -> None:
    fake = FakeGemini()
    async with talking(fake) as client:
        response = await client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO, tools=[WEATHER])
    assert KEY not in response.text
    assert fake.headers[0]["x-goog-api-key"] == KEY
    assert "authorization" not in fake.headers[0]
    assert "sk-client" not in json.dumps(fake.headers[0])


async def test_a_clients_own_key_goes_where_google_reads_it() -> None:
    fake = FakeGemini()
    async with serving(fake) as upstream:
        with variables(UPSTREAM_URL=f"{upstream}/v1beta/", UPSTREAM_API="google"):
            app = create_proxy()
        async with serving(app) as address, openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY) as client:
            made = await client.chat.completions.create(model=MODEL, messages=HELLO)
    assert made.choices[0].message.content == "Hello."


async def test_models_are_listed() -> None:
    async with talking(FakeGemini()) as client:
        assert [model.id async for model in client.models.list()] == ["gemini-test", "gemini-other"]
        assert (await client.models.retrieve("gemini-test")).id == "gemini-test"


async def test_other_paths_are_not_there() -> None:
    async with proxied(FakeGemini()) as address, client_of(address) as client:
        response = await client.post("/v1/embeddings", json={})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "unknown_url"


# -- Google's SDK --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def googling(fake: FakeGemini) -> AsyncIterator[Any]:
    """Google's own client, talking to the fake."""
    async with serving(fake) as address:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = types.HttpOptions(base_url=address, api_version="v1beta", timeout=int(PATIENCE * 1000))
            client = genai.Client(api_key=KEY, http_options=options)
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


async def test_the_official_client_sends_what_we_send_and_reads_what_we_read() -> None:
    """A request of ours, given to the official client as its own types, comes out of it as the same JSON."""
    ours = FakeGemini([[answer(call("get_weather", None, SIGNATURE, city="Ulm"), text("x"))], [answer(text("Rain."))]])
    async with talking(ours) as client:
        made = await client.chat.completions.create(
            model=MODEL, messages=HELLO, tools=[WEATHER], tool_choice="required", temperature=0.5, max_tokens=99,
            stop=["END"], seed=3, reasoning_effort="low",
        )  # fmt: skip
        said: Any = made.choices[0].message.model_dump(exclude_none=True)
        result: Any = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "wet"}
        await client.chat.completions.create(model=MODEL, messages=[*HELLO, said, result], tools=[WEATHER])
    theirs = FakeGemini([[answer(call("get_weather", "1", city="Ulm"))], [answer(text("Rain."), usage=usage())]])
    async with googling(theirs) as models:
        read = [
            await models.generate_content(model=MODEL, contents=body["contents"], config=_config(body))
            for body in ours.bodies
        ]
    assert _spelled(theirs.bodies) == _spelled(ours.bodies)
    assert read[0].function_calls[0].args == {"city": "Ulm"}
    assert read[1].text == "Rain."


async def test_the_official_client_reads_the_fakes_stream_models_and_errors() -> None:
    fake = FakeGemini(
        [[answer(text("Hel"), reason=None), answer(text("lo"))], Error(429, "RESOURCE_EXHAUSTED", "Slow.")]
    )
    async with googling(fake) as models:
        stream = await models.generate_content_stream(model=MODEL, contents="hi")
        assert "".join([piece.text async for piece in stream]) == "Hello"
        with pytest.raises(genai.errors.ClientError) as caught:
            await models.generate_content(model=MODEL, contents="hi")
        assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
        assert [model.name async for model in await models.list()] == ["models/gemini-test", "models/gemini-other"]


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1beta", "/v1beta/", "/v1alpha", "/v1beta/openai"])
async def test_an_address_may_end_in_a_version(ending: str) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path.decode())
        return httpx.Response(503)

    app = upstream_app(
        Settings(upstream_api="google", upstream_url=f"http://up.example/prefix{ending}", upstream_key="k"),
        forward_authorization=False,
        transport=FakeTransport(answer),
    )
    await Client(ask(tools=(), stream=False)).run(app)
    assert seen == ["/prefix/v1beta/models/m:generateContent"]
