"""What the proxy answers about itself: metrics, readiness, and one line for an upstream that is down."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from starlette.types import ASGIApp

from tests.formats.template import templates
from tests.helpers.asgi_client import HOST, JSON_TYPE, TOOL, Backend, Client, ask, close
from tests.helpers.fakes import TextBackend, serve, write_calls
from tests.helpers.processes import running
from toolcall_middleware import ToolCallMiddleware, create_proxy, metrics_app
from toolcall_middleware.hosts.proxy import model_list
from toolcall_middleware.hosts.proxy.inspector.store import Store
from toolcall_middleware.hosts.proxy.upstream.client import free_port
from toolcall_middleware.observe.metrics import Metrics
from toolcall_middleware.observe.traces import TraceFiles

from .proxy_servers import raw_upstream, says, serving
from .routing import Proxies, table
from .routing import ask as ask_model

parser = pytest.importorskip("prometheus_client.parser")

KEY = (b"authorization", b"Bearer right")
CALL = write_calls("hermes", ("weather", {"city": "Paris"}))


@pytest.fixture
def backend() -> Iterator[tuple[TextBackend, str]]:
    app = TextBackend([CALL] * 50)
    with serve(app) as base:
        yield app, base


@pytest_asyncio.fixture
async def proxy(backend: tuple[TextBackend, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    made: list[ASGIApp] = []

    def make(**settings: str) -> ASGIApp:
        values = {
            "upstream_url": f"{backend[1].removesuffix('/v1')}/v1",
            "mode": "prompt",
            "format": "hermes",
            **settings,
        }
        for name, value in values.items():
            monkeypatch.setenv(f"TOOLCALL_{name.upper()}", value)
        made.append(create_proxy())
        return made[-1]

    yield make
    for app in made:
        await close(app)


async def get(app: ASGIApp, path: str, *headers: tuple[bytes, bytes], method: str = "GET") -> Client:
    return await Client(
        path=path,
        method=method,
        headers=[*headers] if any(name == b"host" for name, _ in headers) else [HOST, *headers],
    ).run_with_others(app)


# -- metrics


async def test_metrics_are_the_proxys_own_and_never_forwarded(proxy: Any, backend: Any) -> None:
    app = proxy(metrics="on")
    await Client(ask()).run_with_others(app)
    answer = await get(app, "/metrics")
    assert answer.status == 200
    names = {family.name for family in parser.text_string_to_metric_families(answer.body.decode())}
    assert {"toolcall_requests", "toolcall_calls", "toolcall_added_latency_seconds", "toolcall_upstream_up"} <= names
    assert re.search(rb'toolcall_calls_total{format="hermes",model="[^"]+",outcome="clean"}', answer.body)
    assert all(seen.path.endswith("/chat/completions") for seen in backend[0].seen)


@pytest.mark.parametrize(
    ("settings", "asked", "status"),
    [
        ({}, {"path": "/metrics"}, 404),  # off: it is the upstream's path
        ({"metrics": "/internal/metrics"}, {"path": "/internal/metrics"}, 200),
        ({"metrics": "/internal/metrics"}, {"path": "/metrics"}, 404),
        ({"metrics": "on", "api_keys": "right"}, {"path": "/metrics"}, 401),
        ({"metrics": "on", "api_keys": "right"}, {"path": "/metrics", "headers": [HOST, KEY]}, 200),
        ({"metrics": "on", "api_keys": "right", "metrics_open": "true"}, {"path": "/metrics"}, 200),
        ({"metrics": "on"}, {"path": "/metrics", "method": "POST"}, 405),
    ],
)
async def test_where_the_metrics_are_and_who_reads_them(
    proxy: Any, settings: dict[str, str], asked: dict[str, Any], status: int
) -> None:
    made = await Client(**{"method": "GET", "headers": [HOST], **asked}).run_with_others(proxy(**settings))
    assert made.status == status


async def test_who_looks_after_the_proxy_is_not_counted(proxy: Any) -> None:
    app = proxy(metrics="on")

    async def counted() -> list[bytes]:
        lines = (await get(app, "/metrics")).body.splitlines()
        return [line for line in lines if line.startswith(b"toolcall_requests_total")]

    await Client(ask()).run_with_others(app)
    before = await counted()
    for path in ("/healthz", "/readyz", "/metrics", "/metrics/", "/readyz/"):
        await get(app, path)
    assert await counted() == before != []


async def test_an_app_can_mount_the_metrics() -> None:
    answer = await get(metrics_app(), "/")
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"toolcall_running_requests" in answer.body
    assert answer.headers["cache-control"] == "no-store"
    head = await get(metrics_app(), "/", method="HEAD")
    assert (head.status, head.body, int(head.headers["content-length"]) > 1000) == (200, b"", True)
    refused = await get(metrics_app(), "/", method="DELETE")
    assert (refused.status, refused.headers["allow"], "GET" in refused.json["error"]["message"]) == (
        405,
        "GET, HEAD",
        True,
    )


@pytest.mark.server
@pytest.mark.slow
def test_metrics_of_all_workers_are_added_up(backend: Any) -> None:
    port = free_port("127.0.0.1")
    serve = ("-m", "toolcall_middleware", "serve", "--upstream", f"{backend[1].removesuffix('/v1')}/v1")
    options = ("--port", str(port), "--workers", "2", "--mode", "prompt", "--format", "hermes", "--set", "metrics=on")
    body = json.loads(ask(stream=False))
    with running(*serve, *options, port=port) as base:
        for _ in range(12):
            # A connection each, so that both workers get some.
            assert httpx.post(f"{base}/v1/chat/completions", json=body, timeout=20).status_code == 200
        end = time.monotonic() + 20
        while _requests(httpx.get(f"{base}/metrics").text) < 12 and time.monotonic() < end:
            time.sleep(0.05)  # a request is counted behind its answer
        counted = {_requests(httpx.get(f"{base}/metrics").text) for _ in range(6)}
    assert counted == {12.0}


def _requests(text: str) -> float:
    families = parser.text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    return sum(
        float(one.value) for one in samples if one.name == "toolcall_requests_total" and one.labels["api"] == "chat"
    )


# -- health


async def test_ready_is_who_has_an_upstream_that_answers(
    proxy: Any, backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await get(proxy(api_keys="right"), "/readyz")
    (name,) = answer.json["upstreams"]
    assert (answer.status, answer.json) == (200, {"status": "ready", "upstreams": {name: True}})
    app = proxy(upstream_url=f"http://127.0.0.1:{free_port('127.0.0.1')}/v1", upstream_retries="0")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):  # its upstream is asked once in some seconds
            answer = await get(app, "/readyz")
            assert (answer.status, answer.json["status"]) == (503, "unready")
            assert list(answer.json["upstreams"].values()) == [False]
    assert len([record for record in caplog.records if record.name == "toolcall_middleware.proxy"]) == 1


@pytest.mark.parametrize(("status", "ready"), [(200, 200), (401, 200), (404, 200), (499, 200), (500, 503), (503, 503)])
async def test_any_answer_below_500_is_one_of_an_upstream_that_is_there(proxy: Any, status: int, ready: int) -> None:
    async with serving(Backend(b"{}", status=status, headers=[JSON_TYPE])) as address:
        assert (await get(proxy(upstream_url=f"{address}/v1"), "/readyz")).status == ready


async def test_an_upstream_that_says_nothing_is_not_ready_and_lists_nothing(
    proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_list, "_PATIENCE", 0.05)
    async with raw_upstream(says(stalls=True)) as address:
        app = proxy(upstream_url=f"{address}/v1", model_aliases="mine=theirs")
        ready, listed = await get(app, "/readyz"), await get(app, "/v1/models")
    assert (ready.status, ready.json["status"]) == (503, "unready")
    assert (listed.status, listed.json["data"]) == (200, [])


async def test_an_upstream_that_is_down_is_one_line(proxy: Any, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port("127.0.0.1")
    app = proxy(upstream_url=f"http://127.0.0.1:{port}/v1", upstream_retries="2")
    with caplog.at_level(logging.WARNING):
        answer = await Client(ask(), headers=[HOST, (b"x-request-id", b"mine")]).run_with_others(app)
    assert answer.status == 502
    lines = [record.getMessage() for record in caplog.records if record.name == "toolcall_middleware.proxy"]
    assert len(lines) == 1
    assert re.fullmatch(rf"The upstream .* cannot be reached: .* id=mine upstream=127\.0\.0\.1:{port}", lines[0])


# -- the access log


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "toolcall_middleware.access"]


async def test_a_streams_line_tells_its_calls_outcome_mode_and_format(
    proxy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = proxy(access_log="json")
    with caplog.at_level(logging.INFO):
        await Client(ask()).run_with_others(app)
    (line,) = lines(caplog)
    told = {name: line[name] for name in ("calls", "outcome", "mode", "format")}
    assert told == {"calls": 1, "outcome": "clean", "mode": "prompt", "format": "hermes"}


async def test_a_clients_trace_is_in_its_line(proxy: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = proxy(access_log="json")
    trace = "0af7651916cd43dd8448eb211c80319c"
    with caplog.at_level(logging.INFO):
        for value in (f"00-{trace}-b7ad6b7169203331-01", "nonsense\x1b"):
            await Client(ask(), headers=[HOST, (b"traceparent", value.encode())]).run_with_others(app)
    assert [line["trace"] for line in lines(caplog)] == [trace, None]


# -- what a tool is to the one who looks


async def test_every_face_of_a_setting_can_be_on_at_once(proxy: Any, tmp_path: Path) -> None:
    app = proxy(metrics="on", trace_dir=str(tmp_path), inspector="abcdefghijklmnop")
    answer = await Client(ask(tools=[TOOL])).run_with_others(app)
    assert b'"tool_calls"' in answer.body
    for _ in range(250):
        if written(tmp_path):
            break
        await asyncio.sleep(0.02)
    assert len(written(tmp_path)) == 1


async def test_the_page_reads_calls_by_the_template_that_the_proxy_has(proxy: Any, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(templates.JSON)
    text = '<acme_call>{"tool": "weather", "input": {"city": "Paris"}}</acme_call>'
    with serve(TextBackend([text])) as base:
        made = {"format": "template", "template": str(tmp_path), "inspector": "abcdefghijklmnop"}
        app = proxy(upstream_url=f"{base}/v1", **made)
        await Client(ask(stream=True)).run_with_others(app)
    local = (b"host", b"127.0.0.1:8080")
    page = "/inspect/abcdefghijklmnop/api/exchanges/1"
    explained = (await get(app, page, local)).json["explained"]
    assert [call["name"] for call in explained["calls"]] == ["weather"]


async def test_of_two_hundred_streams_at_once_nothing_is_lost(tmp_path: Path) -> None:
    store, metrics = Store(), Metrics()
    files = TraceFiles(tmp_path, sample=1, max_bytes=1 << 20)
    app = ToolCallMiddleware(TextBackend([f"Hm. {CALL}"] * 200, pause=0), mode="prompt", format="hermes")
    app._observers = [store, metrics, files]
    clients = await asyncio.gather(*(Client(ask()).run_with_others(app) for _ in range(200)))
    files.flush()
    assert all(b'"finish_reason":"tool_calls"' in client.body for client in clients)
    assert len(written(tmp_path)) == 200
    assert [entry.summary["outcomes"] for entry in store.entries.values()] == [["clean"]] * 200
    text = metrics.render()[0]
    assert re.search(rb'toolcall_calls_total{format="hermes",model="[^"]+",outcome="clean"} 200.0', text)
    assert b"toolcall_running_requests 0.0" in text
    assert all(b'"kind":"cut"' not in path.read_bytes() for path in written(tmp_path))


def written(folder: Path) -> list[Path]:
    return list(folder.glob("*.jsonl"))


async def test_a_models_label_is_one_that_an_upstream_lists_or_that_answered(
    proxies: Proxies,
) -> None:
    backend = TextBackend(lambda _body: "hello", models=("listed-1",))
    with serve(backend) as base:
        tables = [
            table(f"{base.removesuffix('/v1')}/v1", models=["answers-*"], name="up"),
            table("http://127.0.0.1:1/v1", models=["down-*"], rename={"named-1": "x"}, name="down"),
        ]
        async with proxies.running(*tables, metrics="on", upstream_retries="0") as client:
            for model in ("refused-1", "answers-1", "down-1", "named-1"):
                await ask_model(client, model)
            text = (await client.get("/metrics")).text
    labels = set(re.findall(r'toolcall_requests_total{[^}]*model="([^"]+)"', text))
    assert {"answers-1", "named-1"} <= labels
    assert not {"refused-1", "down-1"} & labels
