"""Limits of requests and of tokens in a time: what counts, what is sent, and who is told apart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.asgi_client import Client, Headers
from tests.helpers.fakes import Refusal, TextBackend
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.hosts.middleware import tenants

from ..proxy.proxy_servers import serving
from ..proxy.routing import Proxies, http, table
from .redis_server import RedisServer
from .test_rate_limit import ask, close_rates, post

TOKENS = 1 + 3  # the prompt is a word in "hi"; the answer three deltas
FACES = ("chat", "messages", "responses")


@pytest.fixture(autouse=True)
def _fresh_memory() -> None:
    tenants._memory.clear()


def said(body: dict[str, Any]) -> str | Refusal:
    return "abcdefghijkl" if "messages" in body else Refusal()


async def backend(scope: Any, receive: Any, send: Any) -> None:
    """Answers chat completions with three deltas; embeddings and what else is not read with a usage."""
    if scope["path"].endswith("/chat/completions"):
        await TextBackend(said)(scope, receive, send)
        return
    await receive()
    body = b'{"data": [], "usage": {"prompt_tokens": 7, "total_tokens": 7}}'
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def limited(app: Any = backend, **options: Any) -> ToolCallMiddleware:
    return ToolCallMiddleware(app, settings=Settings(**{"format": "hermes", "faces": FACES, **options}))


def plain(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


MESSAGES = plain(max_tokens=10)
RESPONSES = json.dumps({"model": "m", "input": "hi"}).encode()
KINDS: dict[str, tuple[str, bytes]] = {
    "tools": ("/v1/chat/completions", ask(0)),
    "no tools": ("/v1/chat/completions", plain()),
    "a stream": ("/v1/chat/completions", plain(stream=True)),
    "no chat completion": ("/v1/chat/completions", b'{"model": "m"}'),
    "a refused one": ("/v1/chat/completions", ask(0, tool_choice="nonsense")),
    "messages": ("/v1/messages", MESSAGES),
    "a count": ("/v1/messages/count_tokens", plain()),
    "responses": ("/v1/responses", RESPONSES),
    "unread": ("/v1/embeddings", b'{"model": "m", "input": "hi"}'),
}


async def send(app: Any, path: str, body: bytes, key: str = "a", method: str = "POST") -> Client:
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"authorization", f"Bearer {key}".encode()),
        (b"accept-encoding", b"gzip"),
    ]
    return await Client(body, path=path, headers=headers, method=method).run_with_others(app)


def left(client: Client, unit: str) -> int:
    return int(client.headers[f"x-ratelimit-remaining-{unit}"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["prompt", "off"])
async def test_each_request_counts_one_whatever_it_is(kind: str, mode: str) -> None:
    app = limited(request_limit="2/hour", mode=mode)
    path, body = KINDS[kind]
    statuses = [(await send(app, path, body)).status for _ in range(2)]
    assert 429 not in statuses
    refused = await send(app, path, body)
    assert refused.status == 429
    assert 3590 <= int(refused.headers["retry-after"]) <= 3600
    assert "No requests are left: request_limit is 2/hour." in refused.json["error"]["message"]
    if refused.json.get("type") != "error":
        assert refused.json["error"]["code"] == "rate_limit_exceeded"
    assert (refused.headers["x-ratelimit-limit-requests"], left(refused, "requests")) == ("2", 0)
    assert (await send(app, path, body, "b")).status != 429


async def test_what_only_looks_is_no_request() -> None:
    app = limited(request_limit="1/hour")
    for _ in range(3):
        assert (await send(app, "/v1/models", b"", method="GET")).status == 200
    assert (await send(app, *KINDS["tools"])).status == 200


async def test_requests_at_once_are_admitted_exactly() -> None:
    app = limited(request_limit="7/hour")
    answers = await asyncio.gather(*(post(app, body) for body in [ask(0), plain()] * 15))
    assert sorted(client.status for client in answers) == [200] * 7 + [429] * 23


@pytest.mark.parametrize("setting", ["request_limit", "token_limit"])
async def test_a_request_does_not_loosen_a_limit(setting: str) -> None:
    refused = await post(limited(**{setting: "1/hour"}), ask(0, toolcall={setting: "9/hour"}))
    assert (refused.status, refused.json["error"]["param"]) == (400, f"toolcall.{setting}")


@pytest.mark.parametrize("kind", ["tools", "no tools", "a stream", "messages", "responses"])
@pytest.mark.parametrize("usage", [True, False])
async def test_an_answer_costs_the_tokens_that_a_client_is_told(kind: str, usage: bool) -> None:
    """Also where the client does not ask for them, and where the backend does not give any."""
    path, body = KINDS[kind]
    asked = json.loads(body)
    if kind == "a stream":
        asked["stream_options"] = {"include_usage": True}
    chat = TextBackend(lambda _body: "abcdefghijkl", usage=usage)
    app = limited(chat, token_limit="100000/hour", usage="auto")
    told = _usage(await send(app, path, json.dumps(asked).encode(), "asks"))
    assert told == TOKENS or kind == "tools" or not usage
    first = await send(app, path, body)
    assert left(first, "tokens") == 100000
    assert left(await send(app, path, body), "tokens") == 100000 - told
    if kind == "a stream":
        assert b"usage" not in first.body


def _usage(client: Client) -> int:
    """The tokens that the client is told, of prompt and answer."""
    events = [json.loads(line[6:]) for line in client.body.splitlines() if line.startswith(b"data: {")]
    value = events[-1] if events else client.json
    return sum(value["usage"].get(name, 0) for name in _COUNTS)


_COUNTS = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")


async def test_while_the_tokens_are_spent_nothing_is_asked() -> None:
    chat = TextBackend(lambda _body: "abcdefghijkl")
    app = limited(chat, token_limit=f"{TOKENS + 1}/hour")
    assert [(await post(app, plain(stream=stream))).status for stream in (True, False)] == [200, 200]
    for path, body in KINDS.values():
        refused = await send(app, path, body)
        assert refused.status == 429
        assert f"No tokens are left: token_limit is {TOKENS + 1}/hour." in refused.json["error"]["message"]
        assert int(refused.headers["retry-after"]) > 3590
    assert len(chat.bodies) == 2


async def test_a_spent_window_charges_no_request() -> None:
    app = limited(token_limit="1/hour", request_limit="5/hour")
    assert left(await post(app, plain()), "requests") == 4
    for _ in range(3):
        assert "token_limit" in (await post(app, plain())).json["error"]["message"]
    app = limited(request_limit="5/hour")
    assert left(await post(app, plain()), "requests") == 3


async def test_an_unread_answer_costs_what_it_states() -> None:
    app = limited(token_limit="8/hour")
    answers = [await send(app, *KINDS["unread"]) for _ in range(3)]
    assert [client.status for client in answers] == [200, 200, 429]
    assert [left(client, "tokens") for client in answers] == [8, 1, 0]


@pytest.mark.parametrize("tools", [True, False])
async def test_a_backends_refusal_costs_nothing(tools: bool) -> None:
    app = limited(TextBackend(lambda _body: Refusal(400, {"error": {"message": "no"}})), token_limit="1/hour")
    for _ in range(3):
        assert (await post(app, ask(0) if tools else plain())).status == 400


@pytest.mark.parametrize("tools", [True, False])
async def test_a_client_that_leaves_pays_for_what_was_written(tools: bool) -> None:
    app = limited(endless, token_limit="10000/hour")
    body = ask(0, stream=True) if tools else plain(stream=True)
    await Client(body, leave_after=40).run_with_others(app)
    app.app = backend
    assert 10000 - 400 < left(await post(app, ask(0), None), "tokens") < 10000 - 40


async def test_a_request_that_is_cancelled_pays_for_what_was_written() -> None:
    app = limited(endless, token_limit="10000/hour")
    client = Client(plain(stream=True))
    running = asyncio.ensure_future(client.run_with_others(app))

    async def cancel(_message: object) -> None:
        if len(client.got) == 40:
            running.cancel()

    client.on_send = cancel
    with pytest.raises(asyncio.CancelledError):
        await running
    app.app = backend
    assert left(await post(app, ask(0), None), "tokens") < 10000 - 40


async def endless(_scope: Any, receive: Any, send: Any) -> None:
    """Writes fifty words, and then nothing until the client leaves."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for number in range(50):
        chunk = {"choices": [{"index": 0, "delta": {"content": f"word{number} "}, "finish_reason": None}]}
        await send({"type": "http.response.body", "body": f"data: {json.dumps(chunk)}\n\n".encode(), "more_body": True})
    await receive()


async def test_tenants_have_limits_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text('[default]\nrequest_limit = "1/hour"\n[tenants.big]\nrequest_limit = "3/hour"\n')
    app = limited(tenants_file=str(path))

    async def statuses(**scope: Any) -> list[int]:
        return [(await post(app, plain(), **scope)).status for _ in range(4)]

    assert await statuses() == [200, 429, 429, 429]
    assert await statuses(**{"toolcall.tenant": "big"}) == [200, 200, 200, 429]


async def test_an_upstream_that_is_asked_instead_does_not_count_again(proxies: Proxies) -> None:
    """And a request that is refused by a limit says nothing about an upstream."""
    busy, good = TextBackend(lambda _body: Refusal(503, {})), TextBackend(lambda _body: "hello")
    own = {"request_limit": "2/hour", "format": "hermes"}
    async with serving(http(busy)) as first, serving(http(good)) as second:
        tables = table(f"{first}/v1", name="one"), table(f"{second}/v1", name="two")
        async with proxies.running(*tables, **own) as client:
            for path, body in (KINDS["tools"], KINDS["no tools"]):
                assert (await client.post(path, content=body)).status_code == 200
            for path, body in (*KINDS.values(),):
                assert (await client.post(path, content=body)).status_code == 429
    assert (len(busy.bodies), len(good.bodies)) == (1, 2)


async def test_a_redis_counts_for_all_workers(redis: RedisServer) -> None:
    options = {"rate_limit_storage": redis.uri, "request_limit": "6/hour", "token_limit": "1000/hour"}
    apps = [limited(**options), limited(**options)]
    answers = await asyncio.gather(*(post(apps[number % 2], plain()) for number in range(10)))
    assert sorted(client.status for client in answers) == [200] * 6 + [429] * 4
    keys = redis.ask("KEYS", "*")
    assert "/request/" in keys
    assert "/token/" in keys
    assert "Bearer" not in keys
    await close_rates(*apps)
    later = limited(rate_limit_storage=redis.uri, token_limit="1000/hour")
    assert left(await post(later, plain()), "tokens") == 1000 - 6 * TOKENS
    await close_rates(later)
