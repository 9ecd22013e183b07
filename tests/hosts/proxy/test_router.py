"""Which upstream answers, under which name, and what happens when one cannot."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import socket
from collections import Counter
from typing import Any

import httpx
import openai
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tests.helpers.asgi_client import JSON_TYPE, Backend
from tests.helpers.fakes import Answer, Refusal, TextBackend, write_calls
from toolcall_middleware import Settings, create_proxy
from toolcall_middleware.hosts.proxy import model_list
from toolcall_middleware.hosts.proxy.router import Router
from toolcall_middleware.hosts.proxy.upstream.upstream import Upstream, UpstreamConfig, in_turn

from .proxy_servers import PATIENCE, raw_upstream, read_request, scope_of, serving
from .proxy_servers import ask as drive
from .routing import TOOL, Proxies, ask, chat, error_of, http, said, table


def closed_port() -> str:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{closed.getsockname()[1]}/v1"


def says(text: str, *models: str) -> TextBackend:
    return TextBackend(lambda _body: text, models=models or ("m",))


def text_of(answer: httpx.Response) -> str:
    content: str = answer.json()["choices"][0]["message"]["content"]
    return content


async def test_the_model_says_who_answers(proxies: Proxies) -> None:
    one, two = says("one"), says("two")
    async with serving(one) as first, serving(two) as second:
        tables = table(f"{first}/v1", name="one", models=["qwen*"]), table(f"{second}/v1", name="two", models=["gpt-4"])
        async with proxies.running(*tables) as client:
            answers = [text_of(await ask(client, model)) for model in ("qwen3", "gpt-4", "qwen/x")]
            unknown = await ask(client, "gpt-5")
    assert answers == ["one", "two", "one"]
    assert unknown.status_code == 404
    error = error_of(unknown)
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "model_not_found", "model")
    assert "'gpt-5' does not exist" in error["message"]
    assert "x-request-id" in unknown.headers


async def test_a_request_for_no_model_goes_to_the_first_upstream(proxies: Proxies) -> None:
    app = Backend(b"first")
    async with serving(app) as first, serving(says("x")) as second:
        tables = table(f"{first}/v1", models=["a"]), table(f"{second}/v1", models=["b"])
        async with proxies.running(*tables, forward_paths="*") as client:
            got = [
                await client.get("/v1/files"),
                await client.post("/v1/embeddings", json={"input": "x"}),
                await client.post("/v1/audio/transcriptions", files={"file": b"x"}),
                await client.post("/tokenize", content=b"no json"),
            ]
    assert [answer.text for answer in got] == ["first"] * 4
    assert [scope["path"] for scope in app.scopes] == [
        "/v1/files",
        "/v1/embeddings",
        "/v1/audio/transcriptions",
        "/tokenize",
    ]


async def test_other_paths_with_a_model_go_by_it_too(proxies: Proxies) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})

    async with serving(says("x")) as first, serving(http(app)) as second:
        tables = table(f"{first}/v1", models=["a"]), table(f"{second}/v1", rename={"vec": "text-embedding"})
        async with proxies.running(*tables) as client:
            answer = await client.post("/v1/embeddings", content=b'{"input": [1.50, "\\u00e9"], "model": "vec"}')
    # The other fields kept their bytes; the name went there and back.
    assert answer.content.replace(b" ", b"") == b'{"input":[1.50,"\\u00e9"],"model":"vec"}'


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [None, [TOOL]])
async def test_a_renamed_model_has_the_clients_name_in_the_answer(
    tools: list[Any] | None, proxies: Proxies, *, stream: bool
) -> None:
    backend = TextBackend(lambda _body: Answer('I say "model": "Qwen" and more', extra={"inner": {"model": "Qwen"}}))
    more = {"stream": stream, **({"tools": tools} if tools else {})}
    async with (
        serving(backend) as address,
        proxies.running(table(f"{address}/v1", rename={"fast": "Qwen"})) as client,
    ):
        answer = await ask(client, "fast", **more)
    assert backend.last.body["model"] == "Qwen"
    assert int(backend.last.headers["content-length"]) == len(backend.last.raw)
    if stream:
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        assert answer.text.endswith("data: [DONE]\n\n")
        text = "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    else:
        events = [answer.json()]
        text = text_of(answer)
        assert int(answer.headers["content-length"]) == len(answer.content)
    assert {event["model"] for event in events} == {"fast"}
    assert all(event["inner"] == {"model": "Qwen"} for event in events)
    assert text == 'I say "model": "Qwen" and more'


async def test_the_openai_sdk_over_the_router(proxies: Proxies) -> None:
    hermes = TextBackend(lambda _body: write_calls("hermes", ("add", {"a": 1})), strict=True, models=("qwen2.5",))
    plain = TextBackend(lambda _body: write_calls("json", ("add", {"a": 2})), strict=True)
    async with serving(hermes) as first, serving(plain) as second:
        tables = (
            table(f"{first}/v1", name="h", models=["qwen*"], format="hermes"),
            table(f"{second}/v1", name="j", rename={"fast": "fake-model"}, format="json"),
        )
        async with proxies.running(*tables) as client:
            plain_http = openai.DefaultAsyncHttpxClient(trust_env=False)
            sdk = openai.AsyncOpenAI(
                base_url=f"{client.base_url}/v1", api_key="k", http_client=plain_http, max_retries=0
            )
            tools: Any = [TOOL]
            for model, arguments in (("qwen2.5", '{"a": 1}'), ("fast", '{"a": 2}')):
                messages: Any = chat()["messages"]
                whole = await sdk.chat.completions.create(model=model, messages=messages, tools=tools)
                assert whole.model == model
                assert whole._request_id
                (call,) = whole.choices[0].message.tool_calls or []
                assert call.type == "function"
                assert (call.function.name, call.function.arguments) == ("add", arguments)
                async with sdk.chat.completions.stream(model=model, messages=messages, tools=tools) as stream:
                    final = await stream.get_final_completion()
                (call,) = final.choices[0].message.tool_calls or []
                assert call.type == "function"
                assert (final.model, call.function.arguments) == (model, arguments)
            assert [model.id async for model in sdk.models.list()] == ["qwen2.5", "fast"]
            assert (await sdk.models.retrieve("fast")).owned_by == "j"
            with pytest.raises(openai.NotFoundError) as caught:
                await sdk.chat.completions.create(model="x", messages=messages)
            assert caught.value.code == "model_not_found"
            await sdk.close()


# --- fall-back


@pytest.mark.parametrize("tools", [None, [TOOL]])
@pytest.mark.parametrize("status", [429, 503, 529])
async def test_a_busy_upstream_is_passed_over(status: int, tools: list[Any] | None, proxies: Proxies) -> None:
    busy, free = TextBackend(lambda _body: Refusal(status, {"error": {"message": "busy"}})), says("free")
    more: dict[str, Any] = {"tools": tools} if tools else {}
    async with (
        serving(busy) as first,
        serving(free) as second,
        proxies.running(table(f"{first}/v1", name="a"), table(f"{second}/v1", name="b")) as client,
    ):
        answers = [await ask(client, **more, stream=False) for _ in range(2)]
    assert [text_of(answer) for answer in answers] == ["free", "free"]
    # The second request asked the one that answers first.
    assert (len(busy.seen), len(free.seen)) == (1, 2)


async def test_an_upstream_that_is_not_there_is_passed_over_also_for_a_stream(
    proxies: Proxies, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tables = table(closed_port(), name="down")
    async with (
        serving(says("free")) as second,
        proxies.running(tables, table(f"{second}/v1", name="up"), access_log="json") as client,
    ):
        answer = await ask(client, stream=True, tools=[TOOL])
    (line,) = (json.loads(one.getMessage()) for one in caplog.records if one.name == "toolcall_middleware.access")
    assert (line["upstream"], line["status"], line["error"]) == ("up", 200, None)
    assert answer.status_code == 200
    assert answer.text.endswith("data: [DONE]\n\n")
    assert "The upstream down refused or was not reached" in caplog.text


async def test_no_other_refusal_is_passed_over_and_the_last_one_is_told(proxies: Proxies) -> None:
    def refusing(status: int) -> TextBackend:
        return TextBackend(lambda _body: Refusal(status, {"message": f"status {status}"}, {"retry-after": "77"}))

    wrong, busy, other = refusing(400), refusing(429), refusing(503)
    async with serving(wrong) as first, serving(busy) as second, serving(other) as third:
        tables = [
            table(f"{first}/v1", name="a", models=["x"]),
            table(f"{second}/v1", name="b"),
            table(f"{third}/v1", name="c"),
        ]
        async with proxies.running(*tables) as client:
            refused, last = await ask(client, "x"), await ask(client, "y")
    assert (refused.status_code, error_of(refused)["message"]) == (400, "status 400")
    assert (last.status_code, error_of(last)["message"], last.headers["retry-after"]) == (503, "status 503", "77")
    assert (len(busy.seen), len(other.seen)) == (1, 1)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["anthropic", "google"])
async def test_a_provider_with_another_api_is_passed_over_too(api: str, proxies: Proxies, *, stream: bool) -> None:
    overloaded = Backend(b'{"error": {"message": "Overloaded"}}', status=503, headers=[JSON_TYPE])
    async with serving(overloaded) as first, serving(says("free")) as second:
        tables = (
            table(first, name="a", api=api, key="sk-provider"),
            table(closed_port(), name="b", api=api, key="sk-provider"),
            table(f"{second}/v1", name="c"),
        )
        async with proxies.running(*tables) as client:
            answer = await ask(client, tools=[TOOL], stream=stream)
    assert answer.status_code == 200
    assert (said(answer), len(overloaded.scopes)) == ("free", 1)


async def test_what_breaks_off_after_its_first_byte_is_not_begun_again(proxies: Proxies) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"9\r\ndata: 1\n\n\r\n")
        await writer.drain()

    other = says("other")
    async with (
        raw_upstream(talk) as first,
        serving(other) as second,
        proxies.running(table(first, name="a"), table(f"{second}/v1", name="b")) as client,
    ):
        answer = await ask(client, stream=True)
    assert answer.text.startswith("data: 1\n\n")
    assert '"code":"upstream_error"' in answer.text
    assert not other.seen


def routes(*weights: float | None) -> list[Upstream]:
    settings = Settings(upstream_url="http://up.example/v1")
    return [
        Upstream(UpstreamConfig(str(at), ("*",), settings, weight=weight), forward_authorization=True)
        for at, weight in enumerate(weights)
    ]


def test_weights_share_the_load_and_the_rest_is_asked_in_order() -> None:
    made = routes(3, None, 1, None, 0)
    drawn = random.Random(7)
    orders = [tuple(upstream.config.name for upstream in in_turn(made, drawn)) for _ in range(4000)]
    assert set(orders) == {("0", "2", "4", "1", "3"), ("2", "0", "4", "1", "3")}
    share = Counter(order[0] for order in orders)["0"] / len(orders)
    assert 0.72 < share < 0.78


def test_what_refused_a_moment_ago_is_asked_last() -> None:
    made = routes(None, None, None)
    made[0].rest(None)
    assert [upstream.config.name for upstream in in_turn(made, random.Random(1))] == ["1", "2", "0"]
    made[0].rest(0.0)
    assert [upstream.config.name for upstream in in_turn(made, random.Random(1))] == ["0", "1", "2"]


# --- the list of models


async def test_the_models_are_those_that_can_be_asked_for(proxies: Proxies) -> None:
    many = says("x", "qwen-a", "qwen-b", "llama", "deploy-1")
    async with serving(many) as first:
        tables = (
            table(
                f"{first}/v1",
                name="many",
                models=["qwen*", "exact"],
                rename={"fast": "llama", "azure/*": "deploy-*"},
            ),
            table(closed_port(), name="down", models=["named", "glob-*", "qwen-a"]),
        )
        async with proxies.running(*tables) as client:
            listed = (await client.get("/v1/models")).json()
            bare = (await client.get("/models")).json()
            one = (await client.get("/v1/models/azure/1")).json()
            guess = (await client.get("/v1/models/glob-7")).json()
            none = await client.get("/v1/models/llama")
    owners = {entry["id"]: entry["owned_by"] for entry in listed["data"]}
    assert listed["object"] == "list"
    assert listed == bare
    assert owners == {
        "exact": "many", "fast": "fake", "azure/1": "fake", "qwen-a": "fake", "qwen-b": "fake", "named": "down",
    }  # fmt: skip
    assert (one["id"], one["object"], one["owned_by"]) == ("azure/1", "model", "fake")
    assert guess["owned_by"] == "down"  # it cannot be asked what it has
    assert (none.status_code, error_of(none)["code"]) == (404, "model_not_found")


async def test_a_list_is_kept_for_the_client_whose_key_asked_for_it(proxies: Proxies) -> None:
    def models(request: Request) -> JSONResponse:
        return JSONResponse({"data": [{"id": f"of-{request.headers['authorization'][-1]}"}]})

    app = Starlette(routes=[Route("/v1/models", models)])
    async with serving(app) as address, proxies.running(table(f"{address}/v1")) as client:
        listed = [
            (await client.get("/v1/models", headers={"authorization": f"Bearer {key}"})).json()["data"][0]["id"]
            for key in ("a", "b", "a")
        ]
    assert listed == ["of-a", "of-b", "of-a"]


async def test_an_upstreams_list_is_asked_for_once_and_odd_entries_are_left_out(proxies: Proxies) -> None:
    app = Backend(b'{"data": [{"id": "a"}, {"no": "id"}, 3]}', headers=[JSON_TYPE])
    async with serving(app) as address, proxies.running(table(f"{address}/v1")) as client:
        for _ in range(2):
            assert [entry["id"] for entry in (await client.get("/v1/models")).json()["data"]] == ["a"]
    assert len(app.scopes) == 1


async def test_a_list_that_an_upstream_refuses_is_asked_for_again_soon_and_after_a_reload(
    proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_list, "_FAILED", 0.0)
    app = Backend(b'{"data": [{"id": "a"}]}', headers=[JSON_TYPE], status=500)
    async with serving(app) as address:
        proxies.write(table(f"{address}/v1"))
        router = Router(Settings(upstreams_file=str(proxies.path)))

        async def names() -> list[str]:
            answer = await drive(router, scope_of("/v1/models"))
            return [entry["id"] for entry in json.loads(answer.body)["data"]]

        assert (await names(), len(app.scopes)) == ([], 1)
        app.status = 200
        assert [await names(), await names(), len(app.scopes)] == [["a"], ["a"], 2]
        assert router.reload()
        assert (await names(), len(app.scopes)) == (["a"], 3)
        await router.aclose()


# --- bounds


async def test_a_body_that_is_too_large_is_a_413(proxies: Proxies) -> None:
    app = proxies.build(table("http://up.example/v1"), max_request_bytes="1KiB")
    answer = await drive(app, scope_of("/v1/embeddings", method="POST"), b"x" * 1000, b"x" * 1000)
    assert answer.status == 413
    assert b"max_request_bytes (1024)" in answer.body


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m1","tools":[{}],"messages":',
        b'{"model":"m1","model":"m1","tools":[{}],"messages":[],}',
        b'{"model":"m1","tools":[{}],"messages":"\xff"',
        b'[{"model":"m1","tools":[]}]',
    ],
)
async def test_a_broken_body_is_the_same_error_however_many_upstreams_there_are(
    body: bytes, proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (table(f"http://{name}.example/v1", models=[name]) for name in ("m1", "m2"))
    scope = scope_of("/v1/chat/completions", method="POST", headers=[(b"content-type", b"application/json")])
    many = await drive(proxies.build(first, second), scope, body)
    monkeypatch.delenv("TOOLCALL_UPSTREAMS_FILE")
    monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", "http://m1.example/v1")
    one = await drive(create_proxy(), scope, body)
    assert (many.status, json.loads(many.body)) == (one.status, json.loads(one.body))
    error = json.loads(many.body)["error"]
    assert (many.status, error["code"], error["param"]) == (400, "invalid_json", None)


async def test_a_long_name_is_not_repeated_whole(proxies: Proxies) -> None:
    async with proxies.running(table("http://up.example/v1", models=["a"])) as client:
        answer = await ask(client, "x" * 5000)
    assert len(answer.content) < 400


async def test_call_ids_get_the_form_that_the_upstream_demands(proxies: Proxies) -> None:
    backend = says("done")
    history = [
        {"role": "user", "content": "1+1"},
        {"role": "assistant", "content": None, "tool_calls": [_call("call_abc-long")]},
        {"role": "tool", "tool_call_id": "call_abc-long", "content": "2"},
    ]
    async with (
        serving(backend) as address,
        proxies.running(table(f"{address}/v1", mode="native", ids="mistral")) as client,
    ):
        answer = await client.post("/v1/chat/completions", json=chat(messages=history, tools=[TOOL]))
    assert answer.status_code == 200
    _, assistant, result = backend.last.body["messages"]
    (sent,) = assistant["tool_calls"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", sent["id"])
    assert result["tool_call_id"] == sent["id"]


def _call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "add", "arguments": "{}"}}


async def test_a_reload_keeps_what_has_not_changed_and_closes_the_rest_when_it_is_idle(proxies: Proxies) -> None:
    closed, go_on = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await go_on.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await reader.read()
        closed.set()

    async with raw_upstream(talk) as address, asyncio.timeout(PATIENCE):
        kept = table("http://up.example/v1", name="kept", models=["k"])
        proxies.write(table(address, name="old"), kept)
        router = Router(Settings(upstreams_file=str(proxies.path)))
        body = json.dumps(chat()).encode()
        asked = asyncio.create_task(drive(router, scope_of("/v1/chat/completions", method="POST"), body))
        await asyncio.sleep(0.05)
        before = list(router._upstreams)
        proxies.write(kept, table(address, name="old", timeout=9))
        assert router.reload()
        after = list(router._upstreams)
        assert after[0] is before[1]
        assert after[1] is not before[0]
        await asyncio.sleep(0.05)
        assert not closed.is_set()  # a request is under way there
        go_on.set()
        assert (await asked).body == b"{}"
        await closed.wait()
        proxies.path.write_text("nonsense", "utf-8")
        assert not router.reload()
        assert router._upstreams == after
        await router.aclose()
