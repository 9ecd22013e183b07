"""Rates that workers count together without a Redis: exactly, and by `rate_limit_failure` where nobody counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import stat
import threading
from pathlib import Path

import httpx
import pytest

from tests.helpers.fakes import TextBackend, serve
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.hosts.middleware import rate_limit
from toolcall_middleware.hosts.middleware.shared_rates import WorkersStorage, count_here

from ..proxy.test_lifetime import PATIENCE
from ..proxy.test_lifetime import serving as serving_process
from .rated_app import model
from .test_rate_limit import ask, limited, post, remaining

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets")


@pytest.fixture(autouse=True)
def _fresh_memory() -> None:
    rate_limit._memory.clear()


async def ended(*apps: ToolCallMiddleware) -> None:
    """As at the end of their lifespan."""
    for app in apps:
        await app._limiter().aclose()


async def test_what_one_worker_charges_the_other_counts() -> None:
    address = count_here()
    one, other = (limited("100/hour", rate_limit_storage=address) for _ in range(2))
    answers = await asyncio.gather(*(post(app, ask(2)) for app in (one, other) for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert remaining(await post(one, ask(0)))[:2] == remaining(await post(other, ask(0)))[:2] == (100, 20)
    assert remaining(await post(other, ask(0), "Bearer b"))[1] == 100  # another tenant
    await ended(one, other)


async def test_the_last_unit_that_one_worker_spends_is_gone_for_the_other() -> None:
    address = count_here()
    one, other = (limited("3/minute", rate_limit_storage=address) for _ in range(2))
    assert (await post(one, ask(3))).status == 200
    refused = await post(other, ask(1))
    assert refused.status == 429
    assert json.loads(refused.body)["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    await ended(one, other)


@pytest.mark.parametrize(("failure", "status"), [("open", 200), ("closed", 503)])
async def test_without_who_counts_the_failure_policy_holds(failure: str, status: int, tmp_path: Path) -> None:
    app = limited(rate_limit_storage=f"workers://{tmp_path}/nobody", rate_limit_failure=failure)
    assert (await post(app, ask(1))).status == status


async def test_an_answer_that_was_given_up_is_not_taken_for_the_next_one(tmp_path: Path) -> None:
    late = asyncio.Event()
    talks: list[asyncio.Task[None] | None] = []

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.append(asyncio.current_task())
        with contextlib.suppress(OSError):  # the first one is gone by then
            while line := await reader.readline():
                key = json.loads(line)[1]
                if key == "slow":
                    await late.wait()
                writer.write(b"1\n" if key == "slow" else b"2\n")
        writer.close()

    server = await asyncio.start_unix_server(slowly, str(tmp_path / "s"))
    storage = WorkersStorage(f"workers://{tmp_path}/s")
    async with server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await storage.get("slow")
        late.set()
        assert await storage.get("quick") == 2
        await storage.aclose()
        await asyncio.gather(*(talk for talk in talks if talk is not None))


async def test_only_this_user_may_ask_and_a_wrong_question_ends_its_connection_alone() -> None:
    path = count_here().partition("://")[2]
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
    for wrong in (b"nonsense\n", b'["reset"]\n', b'["get"]\n', b"[]\n", b'["get", "' + b"x" * 100_000 + b'"]\n'):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(wrong)
        assert await reader.read() == b""
        writer.close()
    storage = WorkersStorage(f"workers://{path}")
    assert [await storage.incr("k", 60, 2), await storage.incr("k", 60), await storage.get("k")] == [2, 3, 3]
    assert await storage.check()
    await storage.clear("k")
    assert await storage.get("k") == 0
    await storage.aclose()


def test_workers_of_serve_count_together() -> None:
    """Forty calls by way of two processes, of thirty that are allowed: the last answer may exceed it, no more."""
    with serve(TextBackend(model)) as url:
        options = ["--upstream", f"{url}/v1", "--workers", "2", "--format", "hermes", "--set", "rate_limit=30/hour"]
        with serving_process(*options) as proxy:
            proxy.wait_for("startup complete", 2)
            statuses = []
            for _ in range(40):  # a connection each, so that both are asked
                answer = httpx.post(
                    f"{proxy.base}/v1/chat/completions", content=ask(1), trust_env=False, timeout=PATIENCE
                )
                statuses.append(answer.status_code)
            assert statuses == [200] * 30 + [429] * 10
            assert "workers: 2, each with its own connections" in "".join(proxy.written)
            assert "times the rate" not in "".join(proxy.written)


def test_counting_ends_with_the_process() -> None:
    before = threading.active_count()
    count_here()
    new = [thread for thread in threading.enumerate() if thread.name == "toolcall-middleware rates"]
    assert new
    assert threading.active_count() > before
    assert all(thread.daemon for thread in new)
