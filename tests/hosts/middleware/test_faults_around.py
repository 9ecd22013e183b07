"""Faults where other middlewares and frameworks stand around or within: the same answers as without them."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Any

import fastapi
import pytest
from starlette.responses import StreamingResponse

from tests.helpers.asgi_client import BLOCK, JSON_TYPE, App, Backend, Client, ask, middleware
from tests.helpers.stream_rules import Answered, check_error, check_stream

from ..proxy.test_any_await import cancel, in_app, interrupted_at_any_turn, leave
from ..proxy.test_any_byte import EngineDiedError
from ..proxy.test_faults import BEGUN, HTML, broken
from .test_asgi import ACCEPTING, WRAPPERS

NAMES = [*WRAPPERS, "fastapi"]


def around(name: str, app: App, *, outside: bool) -> Any:
    """The middleware with another one `outside` of it or within."""
    if name != "fastapi":
        wrap = WRAPPERS[name]
        return wrap(middleware(app)) if outside else middleware(wrap(app))
    inner = fastapi.FastAPI()
    if outside:
        inner.mount("/", middleware(app))
        return inner
    inner.mount("/", app)
    return middleware(inner)


def body_of(made: Client) -> bytes:
    if made.headers.get("content-encoding") != "gzip":
        return made.body
    # An answer that broke off is not closed by its coding.
    return zlib.decompressobj(31).decompress(made.body)


def has(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether the exception is this one, or a group that holds nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(has(one, kind) for one in error.exceptions)
    return isinstance(error, kind)


def failed(made: Client) -> Answered:
    answer = check_stream(body_of(made), error=True)
    assert answer.error is not None
    assert answer.error["code"] == "upstream_error"
    return answer


@pytest.mark.parametrize("outside", [True, False], ids=["around", "within"])
@pytest.mark.parametrize("name", NAMES)
async def test_an_app_that_raises_in_its_stream_is_told_to_client_and_server(name: str, outside: bool) -> None:
    made = Client(ask(), headers=ACCEPTING)
    with pytest.raises(Exception) as raised:
        await made.run(around(name, broken(*BEGUN, error=EngineDiedError()), outside=outside))
    assert has(raised.value, EngineDiedError)
    answer = failed(made)
    assert "Hi ```json\n".startswith(answer.only.content or "")
    # Who compresses may keep what it had not yet written; all others have let everything pass.
    assert name == "gzip" or answer.only.content == "Hi ```json\n"


@pytest.mark.parametrize("stream_it", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("outside", [True, False], ids=["around", "within"])
@pytest.mark.parametrize("name", NAMES)
async def test_an_app_that_raises_before_its_answer_is_the_servers_matter(
    name: str, outside: bool, stream_it: bool
) -> None:
    made = Client(ask(stream=stream_it), headers=ACCEPTING)
    with pytest.raises(Exception) as raised:
        await made.run(around(name, broken(start=False, error=EngineDiedError()), outside=outside))
    assert has(raised.value, EngineDiedError)
    assert not made.started or made.status == 500


@pytest.mark.parametrize("outside", [True, False], ids=["around", "within"])
@pytest.mark.parametrize("name", NAMES)
async def test_html_and_refusals_are_told(name: str, outside: bool) -> None:
    for status, seen in ((200, 502), (503, 503), (404, 404)):
        app = around(name, Backend(HTML, status=status, headers=[(b"content-type", b"text/html")]), outside=outside)
        made = await Client(ask(), headers=ACCEPTING).run(app)
        assert made.status == seen
        check_error(body_of(made))


@pytest.mark.parametrize("interrupt", [cancel, leave])
@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
@pytest.mark.parametrize("outside", [True, False], ids=["around", "within"])
@pytest.mark.parametrize("name", NAMES)
async def test_who_is_cancelled_or_leaves_at_any_turn_leaves_nothing(
    name: str, outside: bool, spec_version: str, interrupt: Any
) -> None:
    start = in_app(f"Hi {BLOCK}", wrap=lambda app: around(name, app, outside=outside))
    scope = {"spec_version": spec_version, "headers": ACCEPTING}
    await interrupted_at_any_turn(start, ask(), interrupt, every=3, **scope)


@pytest.mark.parametrize("stream_it", [True, False])
async def test_fastapi_says_what_a_generator_raised(stream_it: bool) -> None:
    app = fastapi.FastAPI()

    async def generate() -> AsyncIterator[bytes]:
        for part in BEGUN:
            yield part
        raise EngineDiedError

    @app.post("/v1/chat/completions")
    async def chat(request: fastapi.Request) -> Any:
        await request.json()
        return StreamingResponse(generate(), media_type="text/event-stream")

    app.add_middleware(middleware_class())
    made = Client(ask(stream=stream_it), headers=[JSON_TYPE])
    with pytest.raises(Exception) as raised:
        await made.run(app)
    assert has(raised.value, EngineDiedError)
    if stream_it:
        assert failed(made).only.content == "Hi ```json\n"
    else:
        assert made.status == 500


def middleware_class() -> Any:
    from toolcall_middleware import ToolCallMiddleware

    return ToolCallMiddleware
