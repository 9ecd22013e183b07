"""Errors of the middleware's own have CORS headers where the app's layer for them stands inside of it."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware

from tests.helpers.asgi_client import Client
from tests.helpers.fakes import TextBackend
from toolcall_middleware import ToolCallMiddleware

BAD = b'{"model": "m", "messages": [], "tools": [5]}'
PAGE = b"https://page.example"


def app(**settings: Any) -> ToolCallMiddleware:
    inner = Starlette()
    inner.mount("/", TextBackend(["Hello."]))
    return ToolCallMiddleware(CORSMiddleware(inner, allow_origins=[PAGE.decode()]), **settings)


@pytest.mark.parametrize(("origin", "told"), [(PAGE, PAGE.decode()), (b"https://evil.example", None)])
async def test_an_error_of_ours_tells_the_page_that_may_ask(origin: bytes, told: str | None) -> None:
    headers = [(b"content-type", b"application/json"), (b"origin", origin)]
    made = await Client(BAD, headers=headers).run(app(cors_origins=PAGE.decode()))
    assert made.status == 400
    assert made.headers.get("access-control-allow-origin") == told


async def test_without_the_setting_there_are_none() -> None:
    headers = [(b"content-type", b"application/json"), (b"origin", PAGE)]
    made = await Client(BAD, headers=headers).run(app())
    assert made.status == 400
    assert "access-control-allow-origin" not in made.headers
