"""A whole proxy over a file of upstreams, each of them a real server."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from toolcall_middleware import create_proxy

from .proxy_servers import client_of, serving

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


def http(app: ASGIApp) -> ASGIApp:
    """An app that speaks HTTP alone, with a lifespan."""
    return Starlette(routes=[Mount("/", app)])


def table(url: str, **values: Any) -> str:
    """One `[[upstream]]`; JSON's strings, numbers and lists are TOML's too."""
    lines = [f"url = {json.dumps(url)}"]
    for key, value in values.items():
        if isinstance(value, dict):
            pairs = ", ".join(f"{json.dumps(name)} = {json.dumps(item)}" for name, item in value.items())
            lines.append(f"{key} = {{ {pairs} }}")
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "[[upstream]]\n" + "\n".join(lines) + "\n"


class Proxies:
    """Makes proxies whose upstreams are in a file; the environment is theirs alone."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "upstreams.toml"
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("TOOLCALL_UPSTREAMS_FILE", str(self.path))

    def write(self, *tables: str) -> None:
        self.path.write_text("\n".join(tables), "utf-8")

    def build(self, *tables: str, **settings: str) -> ASGIApp:
        """The app. `settings` are variables without their prefix, in lower case."""
        self.write(*tables)
        for name, value in settings.items():
            self._monkeypatch.setenv(f"TOOLCALL_{name.upper()}", value)
        return create_proxy()

    @contextlib.asynccontextmanager
    async def running(self, *tables: str, **settings: str) -> AsyncIterator[httpx.AsyncClient]:
        async with serving(self.build(*tables, **settings)) as address, client_of(address) as client:
            yield client


def chat(model: str = "m", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "1+1"}], **more}


async def ask(client: httpx.AsyncClient, model: str = "m", **more: Any) -> httpx.Response:
    """A chat completion."""
    return await client.post("/v1/chat/completions", json=chat(model, **more))


def said(answer: httpx.Response) -> str:
    """The text of a whole answer or of a stream, however its deltas are cut."""
    return "".join(re.findall(r'"(?:content|text)": ?"((?:[^"\\]|\\.)*)"', answer.text))


def error_of(answer: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    return error
