"""Rates of tool calls through the whole middleware, counted in memory: what costs, what is said, who is told apart."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from limits import WindowStats

from tests.helpers.answers import HISTORIC, NativeBackend
from tests.helpers.asgi_client import Backend, Client, Headers
from tests.helpers.fakes import Refusal, TextBackend
from toolcall_middleware import Settings, SettingsError, ToolCallMiddleware
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.hosts.http.request_record import record_of
from toolcall_middleware.hosts.middleware import tenants
from toolcall_middleware.hosts.middleware.tenants import TENANT_KEY, refuse_workers_that_count_alone
from toolcall_middleware.settings import OPTIONS
from toolcall_middleware.settings.tenants_file import without_file

from ..proxy.proxy_servers import PATIENCE, serving
from ..proxy.routing import Proxies, http, table
from .rated_app import app as rated_app
from .rated_app import model
from .redis_server import RedisServer

TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture(autouse=True)
def _fresh_memory() -> None:
    tenants._memory.clear()


def ask(calls: int, *, stream: bool = False, **fields: Any) -> bytes:
    messages = [{"role": "user", "content": f"{calls} calls"}]
    return json.dumps({"model": "m", "messages": messages, "tools": [TOOL], "stream": stream, **fields}).encode()


def limited(rate: str | None = "10/hour", app: Any = rated_app, **options: Any) -> ToolCallMiddleware:
    return ToolCallMiddleware(app, settings=Settings(rate_limit=rate, **options))


async def post(
    app: Any, body: bytes, key: str | None = "Bearer a", more: Headers | None = None, **scope: Any
) -> Client:
    headers: Headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if key is not None:
        headers.append((b"authorization", key.encode()))
    return await Client(body, headers=[*headers, *(more or [])], **scope).run_with_others(app)


async def one_call(app: Any, *headers: tuple[bytes, bytes]) -> Client:
    """A request for one call that says by these headers alone who asks."""
    return await post(app, ask(1), None, list(headers))


async def close_rates(*apps: ToolCallMiddleware) -> None:
    for app in apps:
        assert app._rates is not None
        await app._rates.aclose()


def remaining(client: Client) -> tuple[int, int, int]:
    """(limit, remaining, reset) of the headers."""
    numbers = [int(client.headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining", "reset")]
    return numbers[0], numbers[1], numbers[2]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_with_five_calls_costs_five(stream: bool) -> None:
    app = limited()
    first = await post(app, ask(5, stream=stream))
    assert first.status == 200
    second = await post(app, ask(3, stream=stream))
    # A stream's headers are sent with its first call, which is counted by then.
    assert [remaining(client)[1] for client in (first, second)] == ([9, 4] if stream else [5, 2])
    # The first call opens the window.
    assert [remaining(client)[2] > 3590 for client in (first, second)] == [True, True]
    # The last answer of a window may hold more than was left, and counts in full.
    assert (await post(app, ask(5, stream=stream))).status == 200
    refused = await post(app, ask(1, stream=stream))
    assert refused.status == 429
    assert refused.json["error"]["code"] == "rate_limit_exceeded"
    assert "10/hour" in refused.json["error"]["message"]
    assert remaining(refused)[:2] == (10, 0)
    assert 3590 <= remaining(refused)[2] == int(refused.headers["retry-after"]) <= 3600


async def test_a_refused_request_never_reaches_the_backend() -> None:
    backend = TextBackend(model)
    app = limited("1/hour", backend)
    assert [(await post(app, ask(1))).status for _ in range(3)] == [200, 429, 429]
    assert len(backend.bodies) == 1


async def test_what_holds_no_calls_costs_nothing() -> None:
    app = limited("2/hour")
    for _ in range(3):
        assert remaining(await post(app, ask(0)))[1] == 2
        refused = await post(app, ask(1, tool_choice="nonsense"))
        assert refused.status == 400
        stranger = await post(app, ask(1), extra=1, key="Bearer refused")
        assert (stranger.status, remaining(stranger)[1]) == (401, 2)
    plain = await post(app, ask(1, tools=None))
    assert "x-ratelimit-limit" not in plain.headers
    without = await post(app, ask(1, tool_choice="none"))
    assert "x-ratelimit-limit" not in without.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_that_a_backend_makes_without_being_offered_tools_cost_as_others(stream: bool) -> None:
    own = {"index": 0, "id": "b2", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    app = limited("2/hour", NativeBackend({"tool_calls": [own]}))
    asked = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [HISTORIC]}]
    history = [*asked, {"role": "tool", "tool_call_id": HISTORIC["id"], "content": "1"}]
    unasked = ask(1, stream=stream, tools=None, messages=history)
    # Who offers no tools is never refused: what the backend then does is not the client's choice.
    for _ in range(2):
        client = await post(app, unasked)
        assert (client.status, "x-ratelimit-limit" in client.headers) == (200, False)
        assert b'"tool_calls":[' in client.body
    assert (await post(app, ask(1, stream=stream))).status == 429
    assert (await post(app, unasked)).status == 200


async def test_tenants_have_budgets_of_their_own() -> None:
    app = limited("1/hour")
    for key in ("Bearer a", "Bearer b", None):
        assert (await post(app, ask(1), key)).status == 200
    for key in ("Bearer a", "bearer  a", None):
        assert (await post(app, ask(1), key)).status == 429
    # The name of an API key counts before the header.
    named: dict[str, Any] = {TENANT_KEY: "team"}
    assert (await post(app, ask(1), "Bearer a", **named)).status == 200
    assert (await post(app, ask(1), "Bearer c", **named)).status == 429


async def test_another_header_can_tell_tenants_apart() -> None:
    app = limited("1/hour", tenant_header="X-Team")
    teams = [await one_call(app, (b"x-team", name)) for name in (b"a", b"b", b"a")]
    assert [client.status for client in teams] == [200, 200, 429]


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_a_key_is_the_same_in_either_header(header: str) -> None:
    app = limited("1/hour", tenant_header=header)
    for name, value, status in (
        (b"authorization", b"Bearer k", 200),
        (b"x-api-key", b"k", 429),
        (b"x-api-key", b"other", 200),
        (b"authorization", b"bearer other", 429),
        (b"authorization", b"Basic k", 200),
    ):
        assert (await one_call(app, (name, value))).status == status


async def test_middlewares_of_one_process_share_its_memory() -> None:
    """As those of several upstreams do, so that no tenant has a budget for each."""
    assert (await post(limited("2/hour"), ask(2))).status == 200
    refused = await post(limited("2/hour"), ask(1))
    assert refused.status == 429
    record = record_of(refused.scope)
    assert (record.refused, record.error) == (True, "rate_limit_exceeded")


async def test_who_asks_is_not_told_in_two_ways() -> None:
    """Else a second header would give a new budget, or another tenant's settings, where the app takes the first."""
    one, two = (b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")
    assert (await one_call(limited("1/hour"), one, one)).status == 200
    refused = await one_call(limited("1/hour"), one, two)
    assert (refused.status, refused.json["error"]["code"]) == (400, "invalid_request")
    assert "authorization" in refused.json["error"]["message"]


async def test_who_is_refused_as_a_window_ends_waits_a_second() -> None:
    class Ended(tenants.RateLimiter):
        async def look(self, *_: Any) -> Any:
            return False, WindowStats(reset_time=time.time() - 1, remaining=0)

    settings = Settings(rate_limit="1/second")
    budget = tenants.Budget(Ended("memory://", "open"), without_file(settings).find(None, b"a"))
    with pytest.raises(ToolCallError) as refused:
        await budget.admit("rate_limit")
    assert (refused.value.headers["retry-after"], refused.value.headers["x-ratelimit-reset"]) == ("1", "0")


async def test_a_window_ends() -> None:
    app = limited("1/second")
    assert [(await post(app, ask(1))).status, (await post(app, ask(1))).status] == [200, 429]
    await asyncio.sleep(1.1)
    assert (await post(app, ask(1))).status == 200


async def test_units_are_counted_exactly_under_concurrency() -> None:
    app = limited("100000/hour")
    counts = [number % 6 for number in range(120)]
    answers = await asyncio.gather(*(post(app, ask(n, stream=n % 2 == 0), f"Bearer {n % 3}") for n in counts))
    assert all(client.status == 200 for client in answers)
    for tenant in range(3):
        left = remaining(await post(app, ask(0), f"Bearer {tenant}"))[1]
        assert left == 100000 - sum(n for n in counts if n % 3 == tenant)


async def test_what_runs_at_once_is_admitted_while_units_are_left_and_counted_all_the_same() -> None:
    """Nothing is reserved: nobody knows how many calls a request will make. What comes after finds them used up."""
    app = limited("4/hour")
    answers = await asyncio.gather(*(post(app, ask(3)) for _ in range(5)))
    admitted = [client.status for client in answers].count(200)
    assert admitted >= 2
    late = await post(app, ask(0))
    assert (late.status, remaining(late)[1]) == (429, 0)


async def test_calls_that_left_are_charged_when_the_client_leaves() -> None:
    class Endless:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
            )
            texts = ['<tool_call>{"name": "f", "arguments": {}}</tool_call>'] * 2 + ["<tool_call>"] + ["x"] * 50
            for text in texts:
                chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
                await send(
                    {"type": "http.response.body", "body": f"data: {json.dumps(chunk)}\n\n".encode(), "more_body": True}
                )
            await receive()

    app = limited("10/hour", Endless(), format="hermes")
    body = ask(0, stream=True)
    await Client(body, leave_after=4).run_with_others(app)
    app.app = rated_app
    assert remaining(await post(app, ask(0), None))[1] == 8


async def test_a_refused_tenant_is_no_refusal_of_the_upstream(
    proxies: Proxies, caplog: pytest.LogCaptureFixture
) -> None:
    """Two upstreams, two keys: who has used up a budget is not sent to the other upstream, and others are served."""
    one, two = TextBackend(model), TextBackend(model)
    own: dict[str, str] = {"rate_limit": "2/hour", "api_keys": "team=k1,other=k2", "format": "hermes"}
    async with serving(http(one)) as first, serving(http(two)) as second:
        tables = table(f"{first}/v1", name="one", weight=1), table(f"{second}/v1", name="two")
        async with proxies.running(*tables, **own) as client:

            async def status(key: str) -> tuple[int, str]:
                headers = {"authorization": f"Bearer {key}"}
                answer = await client.post("/v1/chat/completions", content=ask(2), headers=headers)
                return answer.status_code, answer.headers.get("x-ratelimit-remaining", "")

            assert [await status(key) for key in ("k1", "k1", "k1", "k2", "k2")] == [
                (200, "0"),
                (429, "0"),
                (429, "0"),
                (200, "0"),
                (429, "0"),
            ]
    assert (len(one.bodies), len(two.bodies)) == (2, 0)
    assert "the next one is asked" not in caplog.text


# --- tenants of a file


def tenants_file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


async def test_a_tenants_settings_hold_for_its_requests_only(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"Bearer a").hexdigest()
    text = f"""
[tenants.small]
header_sha256 = "{digest}"
max_messages = 1
rate_limit = "2/hour"
max_request_bytes = 400
allowlist = ["g*"]
"""
    app = ToolCallMiddleware(rated_app, tenants_file=tenants_file(tmp_path / "t.toml", text))
    long = ask(1, messages=[{"role": "user", "content": "1 calls"}] * 2)
    assert (await post(app, long)).json["error"]["message"].startswith("max_messages is 1")
    assert (await post(app, long, "Bearer b")).status == 200
    assert (await post(app, ask(1, user="x" * 400))).status == 413
    assert (await post(app, ask(1))).status == 403
    allowed: dict[str, Any] = {"tools": [{"type": "function", "function": {"name": "get"}}]}
    assert (await post(app, ask(1, **allowed, unknown_tool=1))).headers["x-ratelimit-limit"] == "2"
    assert "x-ratelimit-limit" not in (await post(app, ask(1), "Bearer b")).headers
    # A request tightens what the tenant has, and does not loosen it.
    assert (await post(app, ask(1, toolcall={"max_messages": 2}))).json["error"]["param"] == "toolcall.max_messages"


async def test_a_changed_file_is_read_again_and_a_bad_one_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("toolcall_middleware.hosts.middleware.tenants._SECONDS", 0)
    path = tmp_path / "t.toml"
    app = ToolCallMiddleware(rated_app, tenants_file=tenants_file(path, "[default]\nmax_tools = 1"))
    two: dict[str, Any] = {"tools": [TOOL, {"type": "function", "function": {"name": "g"}}]}
    assert (await post(app, ask(1, **two))).status == 400
    path.write_text("[default]\nmax_tools = 22")
    assert (await post(app, ask(1, **two))).status == 200
    for text in ("[default]\nmax_tools = 'x y'", "[default", "[defaults]\nmax_tools = 1"):
        path.write_text(text)
        assert (await post(app, ask(1, **two))).status == 200
        assert (await post(app, ask(1, **two))).status == 200
    path.unlink()
    assert (await post(app, ask(1, **two))).status == 200
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 4  # each once
    assert all(str(path) in message and message.endswith("The tenants stay as they were.") for message in messages)
    path.write_text("[default]\nmax_tools = 1")
    assert (await post(app, ask(1, **two))).status == 400


async def test_a_file_is_looked_at_once_a_second(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    app = ToolCallMiddleware(rated_app, tenants_file=tenants_file(path, "[default]\nmax_tools = 1"))
    path.write_text("[default]\nmax_tools = 22")
    two: dict[str, Any] = {"tools": [TOOL, {"type": "function", "function": {"name": "g"}}]}
    assert (await post(app, ask(1, **two))).status == 400
    await asyncio.sleep(1.05)
    assert (await post(app, ask(1, **two))).status == 200


async def test_a_file_that_has_not_changed_needs_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of the event loop may all be writing prompts, or answering in the app."""
    monkeypatch.setattr("toolcall_middleware.hosts.middleware.tenants._SECONDS", 0)
    app = ToolCallMiddleware(rated_app, tenants_file=tenants_file(tmp_path / "t.toml", "[default]\nmax_tools = 1"))
    loop, done = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, done.wait)
    try:
        async with asyncio.timeout(PATIENCE):
            assert (await post(app, ask(1))).status == 200
    finally:
        done.set()
        await busy


async def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.toml"
    app = ToolCallMiddleware(rated_app, tenants_file=tenants_file(path, "[default]\nmax_tools = 1"))
    assert app._tenancy is not None
    monkeypatch.setattr(app._tenancy, "_looked", -1e9)
    path.write_text("[default]\nmax_tools = 2")  # of 22
    two: dict[str, Any] = {"tools": [TOOL, {"type": "function", "function": {"name": "g"}}]}
    assert (await post(app, ask(1, **two))).status == 400
    path.write_text("[default]\nmax_tools = 22")
    os.utime(path, (time.time() - 5, time.time() - 5))
    monkeypatch.setattr(app._tenancy, "_looked", -1e9)
    assert (await post(app, ask(1, **two))).status == 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tenants.a]\nmax_tool = 1", "line 2: tenants.a.max_tool:"),
        ('[tenants.a]\nrequests_limit = "1/hour"', r"line 2: tenants.a.requests_limit: .*did you mean request_limit\?"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_is_refused_at_start(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "t.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=says):
        ToolCallMiddleware(rated_app, tenants_file=str(path))


def test_a_tenants_file_is_a_regular_file_of_a_bounded_size(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is no file"):
        ToolCallMiddleware(rated_app, tenants_file=str(tmp_path))
    with (large := tmp_path / "large").open("wb") as file:
        file.truncate(tenants._MAX_BYTES + 1)
    with pytest.raises(SettingsError, match="is larger than"):
        ToolCallMiddleware(rated_app, tenants_file=str(large))


# --- what is missing


@pytest.mark.parametrize(
    ("module", "storage", "says"), [("limits", "memory://", r"\[limits\]"), ("redis", "redis://x", r"\[redis\]")]
)
def test_a_missing_library_is_named_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, storage: str, says: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingsError, match=says):
        limited(rate_limit_storage=storage)
    ToolCallMiddleware(rated_app, rate_limit_storage=storage)  # nobody's rate is limited


@pytest.mark.parametrize("storage", ["nosuch://x", "redis://me:hunter2@host:port/0"])
def test_a_storage_that_is_none_is_refused_without_its_login(storage: str) -> None:
    with pytest.raises(SettingsError, match=r"^rate_limit_storage: ") as raised:
        limited(rate_limit_storage=storage)
    assert "hunter2" not in str(raised.value)
    assert "use memory://" in str(raised.value)
    assert "async+" not in str(raised.value)


def test_the_address_that_is_advised_can_be_used() -> None:
    advised = re.search(r"redis://\S+", OPTIONS["rate_limit_storage"].allowed)
    assert advised is not None
    limited(rate_limit_storage=advised[0].replace("HOST", "cache").replace("PORT", "6379"))


# -- several workers


@pytest.mark.parametrize("setting", ["rate_limit", "request_limit", "token_limit"])
@pytest.mark.parametrize("of_a_tenant", [True, False])
@pytest.mark.parametrize("storage", ["memory://", "async+memory://"])
def test_workers_that_would_count_alone_are_refused(
    setting: str, of_a_tenant: bool, storage: str, tmp_path: Path
) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(f'[tenants.a]\n{setting} = "1/day"\n')
    rate: dict[str, Any] = {"tenants_file": str(path)} if of_a_tenant else {setting: "5/minute"}
    with pytest.raises(SettingsError, match="redis://"):
        refuse_workers_that_count_alone(Settings(rate_limit_storage=storage, **rate), 2)
    refuse_workers_that_count_alone(Settings(rate_limit_storage=storage, **rate), 1)
    refuse_workers_that_count_alone(Settings(rate_limit_storage="redis://cache:6379", **rate), 2)


def test_workers_without_a_rate_need_no_redis(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text("[tenants.a]\nmax_tools = 2\n")
    refuse_workers_that_count_alone(Settings(), 2)
    refuse_workers_that_count_alone(Settings(tenants_file=str(path)), 2)


# --- limits of requests and of tokens

TOKENS = 1 + 3  # the prompt is a word in "hi"; the answer three deltas
FACES = ("chat", "messages", "responses")


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


def limited_by(app: Any = backend, **options: Any) -> ToolCallMiddleware:
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
    app = limited_by(request_limit="2/hour", mode=mode)
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


async def test_an_apps_own_headers_of_the_same_names_are_replaced() -> None:
    own: Headers = [(b"X-RateLimit-Limit-Requests", b"999"), (b"x-ratelimit-limit-tokens", b"7")]
    made = await send(limited_by(Backend(b"{}", headers=own), request_limit="2/hour"), *KINDS["unread"])
    names = [name.lower() for name, _ in made.got[0]["headers"]]
    assert names.count(b"x-ratelimit-limit-requests") == 1
    assert (made.headers["x-ratelimit-limit-requests"], made.headers["x-ratelimit-limit-tokens"]) == ("2", "7")


async def test_what_only_looks_is_no_request() -> None:
    app = limited_by(request_limit="1/hour")
    for _ in range(3):
        assert (await send(app, "/v1/models", b"", method="GET")).status == 200
    assert (await send(app, *KINDS["tools"])).status == 200


async def test_requests_at_once_are_admitted_exactly() -> None:
    app = limited_by(request_limit="7/hour")
    answers = await asyncio.gather(*(post(app, body) for body in [ask(0), plain()] * 15))
    assert sorted(client.status for client in answers) == [200] * 7 + [429] * 23


@pytest.mark.parametrize("setting", ["request_limit", "token_limit"])
async def test_a_request_does_not_loosen_a_limit(setting: str) -> None:
    refused = await post(limited_by(**{setting: "1/hour"}), ask(0, toolcall={setting: "9/hour"}))
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
    app = limited_by(chat, token_limit="100000/hour", usage="auto")
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
    app = limited_by(chat, token_limit=f"{TOKENS + 1}/hour")
    assert [(await post(app, plain(stream=stream))).status for stream in (True, False)] == [200, 200]
    for path, body in KINDS.values():
        refused = await send(app, path, body)
        assert refused.status == 429
        assert f"No tokens are left: token_limit is {TOKENS + 1}/hour." in refused.json["error"]["message"]
        assert int(refused.headers["retry-after"]) > 3590
    assert len(chat.bodies) == 2


async def test_a_spent_window_charges_no_request() -> None:
    app = limited_by(token_limit="1/hour", request_limit="5/hour")
    assert left(await post(app, plain()), "requests") == 4
    for _ in range(3):
        assert "token_limit" in (await post(app, plain())).json["error"]["message"]
    app = limited_by(request_limit="5/hour")
    assert left(await post(app, plain()), "requests") == 3


async def test_an_unread_answer_costs_what_it_states() -> None:
    app = limited_by(token_limit="8/hour")
    answers = [await send(app, *KINDS["unread"]) for _ in range(3)]
    assert [client.status for client in answers] == [200, 200, 429]
    assert [left(client, "tokens") for client in answers] == [8, 1, 0]


@pytest.mark.parametrize("tools", [True, False])
async def test_a_backends_refusal_costs_nothing(tools: bool) -> None:
    app = limited_by(TextBackend(lambda _body: Refusal(400, {"error": {"message": "no"}})), token_limit="1/hour")
    for _ in range(3):
        assert (await post(app, ask(0) if tools else plain())).status == 400


@pytest.mark.parametrize("tools", [True, False])
async def test_a_client_that_leaves_pays_for_what_was_written(tools: bool) -> None:
    app = limited_by(endless, token_limit="10000/hour")
    body = ask(0, stream=True) if tools else plain(stream=True)
    await Client(body, leave_after=40).run_with_others(app)
    app.app = backend
    assert 10000 - 400 < left(await post(app, ask(0), None), "tokens") < 10000 - 40


async def test_a_request_that_is_cancelled_pays_for_what_was_written() -> None:
    app = limited_by(endless, token_limit="10000/hour")
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
    app = limited_by(tenants_file=str(path))

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
    apps = [limited_by(**options), limited_by(**options)]
    answers = await asyncio.gather(*(post(apps[number % 2], plain()) for number in range(10)))
    assert sorted(client.status for client in answers) == [200] * 6 + [429] * 4
    keys = redis.ask("KEYS", "*")
    assert "/request/" in keys
    assert "/token/" in keys
    assert "Bearer" not in keys
    await close_rates(*apps)
    later = limited_by(rate_limit_storage=redis.uri, token_limit="1000/hour")
    assert left(await post(later, plain()), "tokens") == 1000 - 6 * TOKENS
    await close_rates(later)
