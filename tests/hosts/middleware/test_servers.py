"""Other servers and frameworks than the one the middleware is developed with."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import litestar
import litestar.response
import pytest
import quart

from tests.helpers.asgi_client import BLOCK, JSON_TYPE, Client, ask, middleware
from tests.helpers.fakes import TextBackend
from tests.helpers.processes import free_port, running
from tests.helpers.stream_rules import check_error, check_stream, check_whole
from toolcall_middleware import ToolCallMiddleware

from ...response.streams import completion

TEXT = "The weather: " + BLOCK
ENDLESS = [{"role": "user", "content": "endless"}]


@pytest.fixture(scope="module", params=["uvicorn", "hypercorn", "granian"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    port = free_port()
    with running("-m", "tests.helpers.served", request.param, str(port), port=port) as address:
        yield address


@pytest.mark.parametrize("stream", [True, False])
def test_calls_come_through_every_server(server: str, *, stream: bool) -> None:
    made = httpx.post(f"{server}/v1/chat/completions", content=ask(stream=stream), timeout=20)
    answer = check_stream(made.content) if stream else check_whole(made.content)
    assert answer.only.content == "The weather: "
    assert [call.parsed for call in answer.only.calls] == [{"city": "Paris"}]
    assert made.headers["x-toolcall"].startswith("mode=prompt")


def test_requests_without_tools_pass_through_every_server(server: str) -> None:
    made = httpx.post(f"{server}/v1/chat/completions", content=ask(tools=None, stream=False), timeout=20)
    assert made.json()["choices"][0]["message"]["content"] == TEXT
    assert "x-toolcall" not in made.headers


def test_a_client_that_leaves_ends_the_generation_in_every_server(server: str) -> None:
    body = ask(messages=ENDLESS)
    with (
        httpx.Client(base_url=server, timeout=20) as client,
        client.stream("POST", "/v1/chat/completions", content=body) as made,
    ):
        parts = made.iter_raw()
        while b"so on" not in next(parts):
            pass
        assert httpx.get(f"{server}/running").json() == 1
    for _ in range(100):
        if httpx.get(f"{server}/running").json() == 0:
            return
        time.sleep(0.05)
    pytest.fail("the app still writes for a client that has left")


def test_an_app_that_raises_in_its_stream_ends_in_an_error_event_in_every_server(server: str) -> None:
    body = ask(messages=[{"role": "user", "content": "dies"}])
    with httpx.Client(base_url=server, timeout=20) as client:
        made = client.post("/v1/chat/completions", content=body)
        answer = check_stream(made.content, error=True)
        assert (answer.only.content, answer.only.finish_reason) == ("The weather:", None)
        assert answer.error is not None
        assert answer.error["code"] == "upstream_error"
        assert httpx.get(f"{server}/running").json() == 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("what", "status"), [("html", 502), ("teapot", 418)])
def test_refusals_and_nonsense_are_told_in_every_server(server: str, what: str, status: int, *, stream: bool) -> None:
    body = ask(messages=[{"role": "user", "content": what}], stream=stream)
    made = httpx.post(f"{server}/v1/chat/completions", content=body, timeout=20)
    assert made.status_code == status
    check_error(made.content)


def test_an_app_that_raises_before_its_answer_is_the_servers_500(server: str) -> None:
    body = ask(messages=[{"role": "user", "content": "dies"}], stream=False)
    made = httpx.post(f"{server}/v1/chat/completions", content=body, timeout=20)
    assert made.status_code == 500
    assert httpx.get(f"{server}/running").json() == 0


async def _events() -> AsyncIterator[bytes]:
    """What the fake backend writes for the text."""
    made = await Client(ask(tools=None)).run(TextBackend([TEXT]))
    for line in made.body.splitlines(keepends=True):
        yield line


def _litestar() -> Any:
    @litestar.post("/v1/chat/completions", status_code=200)
    async def chat(request: litestar.Request[Any, Any, Any]) -> Any:
        if (await request.json()).get("stream"):
            return litestar.response.Stream(_events(), media_type="text/event-stream")
        return json.loads(completion(TEXT))

    def within(app: Any) -> Any:
        return ToolCallMiddleware(app)

    return litestar.Litestar([chat], middleware=[within])


def _quart() -> Any:
    app = quart.Quart(__name__)

    @app.post("/v1/chat/completions")
    async def chat() -> Any:
        if (await quart.request.get_json()).get("stream"):
            return quart.Response(_events(), content_type="text/event-stream")
        return json.loads(completion(TEXT))

    app.asgi_app = middleware(app.asgi_app)  # type: ignore[method-assign,assignment,arg-type]
    return app


@pytest.mark.parametrize("make", [_litestar, _quart])
@pytest.mark.parametrize("stream", [True, False])
async def test_calls_come_out_of_every_framework(make: Any, *, stream: bool) -> None:
    made = await Client(ask(stream=stream), headers=[JSON_TYPE]).run(make())
    answer = check_stream(made.body) if stream else check_whole(made.body)
    assert answer.only.content == "The weather: "
    assert [call.parsed for call in answer.only.calls] == [{"city": "Paris"}]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_app_that_waits_for_its_client_to_leave_is_asked_again(*, stream: bool) -> None:
    backend = TextBackend(["no call here", BLOCK])

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        await backend(scope, receive, send)
        # Litestar's streams do so; a server says it once the response is complete.
        while (await receive())["type"] != "http.disconnect":
            pass

    made = await Client(ask(stream=stream, tool_choice="required")).run(middleware(waits))
    answer = check_stream(made.body, must_call=True) if stream else check_whole(made.body, must_call=True)
    assert len(answer.only.calls) == 1
    assert len(backend.seen) == 2
