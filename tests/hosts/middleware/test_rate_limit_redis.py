"""Rates counted in a real Redis: by two uvicorn workers together, and while it is stopped and started."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from toolcall_middleware import Settings, ToolCallMiddleware

from .rated_app import app as rated_app
from .redis_server import RedisServer
from .test_rate_limit import ask, close_rates, limited, post, remaining

ROOT = Path(__file__).parent.parent.parent.parent
RATE = 100_000


@pytest.fixture
def workers(redis: RedisServer) -> Iterator[str]:
    """Two uvicorn workers, which share nothing but the Redis."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCALL_")}
    environ |= {"TOOLCALL_RATE_LIMIT": f"{RATE}/day", "TOOLCALL_RATE_LIMIT_STORAGE": redis.uri}
    # On a busy machine a worker is not to be taken for dead, nor a connection for idle.
    patience = ["--timeout-worker-healthcheck", "60", "--timeout-keep-alive", "60"]
    options = ["--factory", "--workers", "2", "--port", str(port), "--log-level", "warning", *patience]
    command = [sys.executable, "-m", "uvicorn", "tests.hosts.middleware.rated_app:create", *options]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 40
        seen: set[str] = set()
        while len(seen) < 2:
            assert time.monotonic() < deadline, f"only workers {seen} answer"
            try:
                seen.add(httpx.get(f"{address}/pid", timeout=5).text)
            except httpx.TransportError:
                time.sleep(0.1)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


async def test_two_workers_count_the_bursts_of_200_tenants_exactly(workers: str, redis: RedisServer) -> None:
    """Before the Redis stops, and after it has started again. In between, nobody waits or is refused."""
    seeded = random.Random(7)
    jobs = [
        (f"tenant-{number}", seeded.randint(0, 5), seeded.random() < 0.5) for number in range(200) for _ in range(3)
    ]
    seeded.shuffle(jobs)
    spent: Counter[str] = Counter()
    crowd = asyncio.Semaphore(16)

    async def request(client: httpx.AsyncClient, tenant: str, calls: int, stream: bool) -> httpx.Response:
        body, key = ask(calls, stream=stream), {"authorization": f"Bearer {tenant}"}
        async with crowd:
            return await client.post("/v1/chat/completions", content=body, headers=key)

    async def burst(client: httpx.AsyncClient, number: int) -> list[httpx.Response]:
        answers = await asyncio.gather(*(request(client, *job) for job in jobs[:number]))
        assert [answer.status_code for answer in answers] == [200] * number
        return answers

    def counted() -> int:
        script = "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do n = n + redis.call('GET', k) end return n"
        return int(redis.ask("EVAL", script, "0").strip(":\r\n"))

    async with httpx.AsyncClient(base_url=workers, timeout=30, limits=httpx.Limits(max_connections=16)) as client:
        await burst(client, len(jobs))
        for tenant, calls, _ in jobs:
            spent[tenant] += calls
        asked = [await request(client, f"tenant-{number}", 0, stream=False) for number in range(0, 200, 10)]
        assert [RATE - int(answer.headers["x-ratelimit-remaining"]) for answer in asked] == [
            spent[f"tenant-{number}"] for number in range(0, 200, 10)
        ]
        # All of them, in the Redis itself; and no secret there.
        assert counted() == sum(spent.values())
        assert "tenant-" not in redis.ask("KEYS", "*")
        redis.stop()
        start = time.monotonic()
        assert not any("x-ratelimit-remaining" in answer.headers for answer in await burst(client, 60))
        assert time.monotonic() - start < 15
        redis.start()
        await burst(client, 60)
        assert counted() == sum(calls for _, calls, _ in jobs[:60])


@pytest.mark.parametrize("failure", ["open", "closed"])
async def test_a_redis_that_stops_and_starts_is_a_matter_of_policy(
    redis: RedisServer, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = limited("10/hour", rate_limit_storage=redis.uri, rate_limit_failure=failure)
    assert (await post(app, ask(3))).status == 200
    redis.stop()
    start = time.monotonic()
    for stream in (False, True):
        down = await post(app, ask(3, stream=stream))
        if failure == "open":
            assert down.status == 200
            assert "x-ratelimit-remaining" not in down.headers
        else:
            assert (down.status, down.headers["retry-after"]) == (503, "1")
            assert down.json["error"]["code"] == "rate_limit_unavailable"
    assert time.monotonic() - start < 5
    assert sum("rate_limit_storage cannot be reached" in record.getMessage() for record in caplog.records) == 1
    redis.start()
    assert remaining(await post(app, ask(4)))[1] == 6
    assert remaining(await post(app, ask(6)))[1] == 0
    assert (await post(app, ask(1))).status == 429
    assert "rate_limit_storage is back." in caplog.text
    await close_rates(app)


@pytest.mark.parametrize("failure", ["open", "closed"])
async def test_a_redis_that_stops_while_an_answer_is_written_costs_the_client_nothing(
    redis: RedisServer, failure: str
) -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        redis.stop()
        await rated_app(scope, receive, send)

    wrapped = limited("10/hour", app, rate_limit_storage=redis.uri, rate_limit_failure=failure)
    assert (await post(wrapped, ask(3))).status == 200
    await close_rates(wrapped)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failure", ["open", "closed"])
async def test_a_redis_that_answers_and_counts_nothing_is_down(
    redis: RedisServer, failure: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is full, a replica, or whose disk is: it can be read all the same."""
    app = limited("10/hour", rate_limit_storage=redis.uri, rate_limit_failure=failure)
    assert (await post(app, ask(3, stream=stream))).status == 200
    redis.ask("CONFIG", "SET", "maxmemory", "1")
    assert (await post(app, ask(3, stream=stream))).status == 200  # seen only when its calls are counted
    for _ in range(3):
        down = await post(app, ask(3, stream=stream))
        if failure == "open":
            assert down.status == 200
            assert "x-ratelimit-remaining" not in down.headers
        else:
            assert (down.status, down.json["error"]["code"]) == (503, "rate_limit_unavailable")
    assert sum("rate_limit_storage cannot be reached" in record.getMessage() for record in caplog.records) == 1
    assert "rate_limit_storage is back." not in caplog.text
    redis.ask("CONFIG", "SET", "maxmemory", "0")
    assert (await post(app, ask(0, stream=stream))).headers["x-ratelimit-remaining"] == "7"
    assert "rate_limit_storage is back." in caplog.text
    assert (await post(app, ask(7, stream=stream))).status == 200
    assert (await post(app, ask(1, stream=stream))).status == 429
    await close_rates(app)


async def test_a_redis_that_stops_answering_is_waited_for_once_an_answer(redis: RedisServer) -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        redis.ask("CLIENT", "PAUSE", "20000", "ALL")
        await rated_app(scope, receive, send)

    wrapped = limited("10/hour", app, rate_limit_storage=redis.uri)
    start = time.monotonic()
    assert (await post(wrapped, ask(5, stream=True))).status == 200
    assert time.monotonic() - start < 4
    await close_rates(wrapped)


async def test_a_redis_of_before_hello_counts(redis: RedisServer) -> None:
    """Redis 5, and proxies before a Redis: a client that greets them is refused."""
    redis.stop()
    redis.start("--rename-command", "HELLO", "")
    app = limited("10/hour", rate_limit_storage=redis.uri, rate_limit_failure="closed")
    assert remaining(await post(app, ask(4)))[1] == 6
    await close_rates(app)


async def test_the_connections_close_with_the_app(redis: RedisServer) -> None:
    app = limited("10/hour", rate_limit_storage=redis.uri)
    assert (await post(app, ask(1))).status == 200
    before = redis.ask("CLIENT", "LIST").count(" addr=")
    app.app = ended
    await app({"type": "lifespan", "asgi": {"version": "3.0"}}, never, never)
    assert redis.ask("CLIENT", "LIST").count(" addr=") == before - 1


async def ended(*_ignored: object) -> None:
    """An app whose lifespan is over."""


async def never(*_ignored: object) -> Any:
    raise AssertionError


@pytest.mark.parametrize("others", [{}, {"request_limit": "1/hour", "token_limit": "1/hour"}], ids=["one", "all"])
@pytest.mark.parametrize("failure", ["open", "closed"])
async def test_a_storage_that_never_answers_is_waited_for_once(failure: str, others: dict[str, str]) -> None:
    """A black hole: connections are taken, and nothing is ever said."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen()
        uri = f"redis://127.0.0.1:{hole.getsockname()[1]}"
        app = limited("10/hour", rate_limit_storage=uri, rate_limit_failure=failure, **others)
        start = time.monotonic()
        assert (await post(app, ask(3))).status == (200 if failure == "open" else 503)
        assert time.monotonic() - start < (3 if others else 4)
        await close_rates(app)


def test_a_redis_need_not_be_there_at_start() -> None:
    ToolCallMiddleware(rated_app, settings=Settings(rate_limit="1/hour", rate_limit_storage="redis://127.0.0.1:9"))
