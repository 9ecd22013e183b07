"""The fakes do what the other tests rely on."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.helpers.fakes import (
    Answer,
    Quirks,
    Refusal,
    Script,
    TextBackend,
    complaint,
    obedient_model,
    serve,
    write_calls,
)
from tests.helpers.stream_rules import check_stream, check_whole

HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
USAGE = {"stream_options": {"include_usage": True}}


async def post(backend: TextBackend, **fields: Any) -> httpx.Response:
    transport = httpx.ASGITransport(backend)
    async with httpx.AsyncClient(transport=transport, base_url="http://fake/v1") as client:
        return await client.post("/chat/completions", json={**HELLO, **fields})


async def streamed(script: list[Script], quirks: Quirks | None = None, **fields: Any) -> bytes:
    backend = TextBackend(script, quirks=quirks or Quirks())
    return (await post(backend, stream=True, **fields)).content


@pytest.mark.asyncio
async def test_whole_and_streamed_text_keep_the_rules() -> None:
    text = "Grüße \N{SNOWMAN}, " * 5
    backend = TextBackend([text, text, text], strict=True)
    whole = check_whole((await post(backend)).content, model="m")
    plain = check_stream((await post(backend, stream=True)).content, model="m")
    counted = check_stream((await post(backend, stream=True, **USAGE)).content, include_usage=True)
    assert whole.only.content == plain.only.content == counted.only.content == text
    assert whole.usage == counted.usage
    assert [seen.finished for seen in backend.seen] == [True, True, True]
    assert backend.bodies[2] == {**HELLO, "stream": True, **USAGE}


@pytest.mark.asyncio
async def test_choices_take_turns() -> None:
    answer = check_stream(await streamed([["first one", Answer("second", "length")]], n=2), n=2)
    assert [(choice.content, choice.finish_reason) for choice in answer.choices] == [
        ("first one", "stop"),
        ("second", "length"),
    ]


@pytest.mark.asyncio
async def test_stop_string_cuts_wherever_it_stands() -> None:
    body = await streamed([write_calls("hermes", ("f", {"x": "Observation: 1"}))], stop=["Observation:"])
    assert check_stream(body).only.content == '<tool_call>\n{"name": "f", "arguments": {"x": "'


@pytest.mark.asyncio
async def test_each_quirk_shows() -> None:
    async def body(quirks: Quirks) -> bytes:
        return await streamed(["some text"], quirks)

    clean = await body(Quirks())
    assert await body(Quirks(line_end="\r\n")) == clean.replace(b"\n", b"\r\n")
    assert await body(Quirks(line_end="\r")) == clean.replace(b"\n", b"\r")
    assert await body(Quirks(space=False)) == clean.replace(b"data: ", b"data:")
    assert await body(Quirks(comments=True)) == clean.replace(b"data: ", b": keep-alive\n\ndata: ")
    assert await body(Quirks(done=False)) == clean.removesuffix(b"data: [DONE]\n\n")
    assert await body(Quirks(last_blank_line=False)) == clean.removesuffix(b"\n\n")
    assert await body(Quirks(bytes_per_write=3)) == await body(Quirks(events_per_write=4)) == clean
    assert (await body(Quirks(cut_after=2))).count(b"data: ") == 2
    assert b'"stop"' not in await body(Quirks(finish=False))
    assert b'"role"' not in await body(Quirks(role_chunk=False))
    assert b'"content": "t"}, "logprobs": null, "finish_reason": "stop"' in await body(Quirks(finish_with_text=True))
    assert check_stream(await body(Quirks(empty_choices=True)), empty_choices=True).only.content == "some text"
    assert check_stream(await body(Quirks(error_after=2)), error=True).error is not None


@pytest.mark.asyncio
async def test_extra_fields_logprobs_and_reasoning_are_sent() -> None:
    script = [Answer("ab", pieces=("a", "b"), reasoning="hm", extra={"token_ids": [1]})] * 2
    backend = TextBackend(script)
    whole = check_whole((await post(backend, logprobs=True)).content)
    stream = check_stream((await post(backend, logprobs=True, stream=True)).content)
    for answer in (whole, stream):
        assert (answer.only.content, answer.only.reasoning) == ("ab", "hm")
        assert [entry["token"] for entry in answer.only.logprobs] == ["a", "b"]
        assert answer.chunks[-1]["token_ids"] == [1]


@pytest.mark.asyncio
async def test_refusals_and_an_empty_script_are_errors() -> None:
    backend = TextBackend([Refusal(429, {"detail": "slow down"}, {"retry-after": "1"})], refused_fields=["grammar"])
    refused = await post(backend)
    assert (refused.status_code, refused.json(), refused.headers["retry-after"]) == (429, {"detail": "slow down"}, "1")
    assert (await post(backend, grammar="x")).json()["error"]["param"] == "grammar"
    assert (await post(backend)).status_code == 500


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tool_choice": "auto"},
        {"parallel_tool_calls": True},
        {"functions": []},
        {"toolcall": {}},
        {"request_options": {}},
        {"stream_options": {"include_usage": True}},
        {"messages": []},
        {"messages": [{"role": "developer", "content": "x"}]},
        {"messages": [{"role": "tool", "content": "x", "tool_call_id": "call_1"}]},
        {"messages": [{"role": "assistant", "content": "x", "tool_calls": []}]},
        {"messages": [{"role": "assistant", "content": "x", "refusal": None}]},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]},
        {"messages": [{"role": "system", "content": "x"}, {"role": "system", "content": "y"}]},
        {"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]},
    ],
    ids=json.dumps,
)
def test_strict_backend_refuses_all_that_is_not_plain_text(fields: dict[str, Any]) -> None:
    assert complaint({**HELLO, **fields}) is not None


def test_strict_backend_takes_a_plain_history() -> None:
    roles = ("system", "user", "assistant", "user")
    assert complaint({**HELLO, "messages": [{"role": role, "content": role} for role in roles]}) is None


def test_server_serves_and_stops() -> None:
    backend = TextBackend(obedient_model("json", ("f", {"x": 1})))
    with serve(backend) as url:
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "fake-model"
        with httpx.stream("POST", f"{url}/v1/chat/completions", json={**HELLO, "stream": True}) as response:
            text = check_stream(b"".join(response.iter_bytes())).only.content or ""
    assert json.loads(text.removeprefix("```json\n").removesuffix("\n```"))["tool_calls"][0]["function"]["name"] == "f"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/v1/models")


def test_stream_that_crashes_breaks_the_connection() -> None:
    backend = TextBackend(["text"], quirks=Quirks(crash_after=2))
    with serve(backend) as url, pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{url}/v1/chat/completions", json={**HELLO, "stream": True})


@pytest.mark.asyncio
async def test_obedient_model_says_what_it_read() -> None:
    model = obedient_model("hermes", ("f", {}))
    history = [{"role": "user", "content": "TOOLMARK-0"}, {"role": "assistant", "content": "call"}]
    result = {"role": "user", "content": "result TOOLMARK-a1 and TOOLMARK-b2"}
    assert model({"messages": history[:1]}) == "The code is TOOLMARK-0."
    assert model({"messages": [*history, result]}) == "The code is TOOLMARK-a1 and TOOLMARK-b2."
    assert model({"messages": HELLO["messages"]}) == write_calls("hermes", ("f", {}))
