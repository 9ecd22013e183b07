"""Which product files a warm request enters, in order: `python -m tests.entered` prints them as JSON, for two kinds.

The fewer there are, the sooner a newcomer has read the way of a request. `tests/house/test_house.py` holds the counts.
The profiler of a whole process is used, so callers run this as a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import toolcall_middleware
from tests.helpers.asgi_client import JSON_TYPE, App, Client
from tests.helpers.fakes import TextBackend, serve
from toolcall_middleware import ToolCallMiddleware, create_proxy

PACKAGE = f"{Path(toolcall_middleware.__file__).parent}/"
TEXT = 'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "The weather in a city.", "parameters": SCHEMA}
CHAT = {
    "model": "qwen2.5",
    "stream": True,
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [{"type": "function", "function": TOOL}],
}
# The parts of a request of Claude Code: a system prompt in blocks, tools, a stream.
MESSAGES = {
    "model": "Qwen/Qwen3-8B",
    "max_tokens": 512,
    "stream": True,
    "system": [{"type": "text", "text": "You are a coding agent."}],
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [{"name": TOOL["name"], "description": TOOL["description"], "input_schema": SCHEMA}],
}


def in_an_app() -> list[str]:
    """The files that a streamed chat completion with a Hermes call enters in an app."""
    return asyncio.run(_warm(ToolCallMiddleware(TextBackend(lambda _body: TEXT), format="hermes"), CHAT))


def in_the_proxy() -> list[str]:
    """The files that a streamed Messages request with a Hermes call enters in the proxy."""
    with serve(TextBackend(lambda _body: TEXT)) as address, pytest.MonkeyPatch.context() as environment:
        environment.setenv("TOOLCALL_UPSTREAM_URL", f"{address}/v1")
        environment.setenv("TOOLCALL_ACCESS_LOG", "off")
        return asyncio.run(_warm(create_proxy(), MESSAGES, "/v1/messages"))


async def _warm(app: App, body: dict[str, Any], path: str = "/v1/chat/completions") -> list[str]:
    """The files that the third of three equal requests enters, each once, in order."""
    await _ask(app, body, path)
    await _ask(app, body, path)
    files: dict[str, None] = {}
    ours = threading.get_ident()

    def entered(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE) and threading.get_ident() == ours:
            files[name.removeprefix(PACKAGE)] = None

    before = sys.getprofile()
    sys.setprofile(entered)
    try:
        await _ask(app, body, path)
    finally:
        sys.setprofile(before)
    return list(files)


async def _ask(app: App, body: dict[str, Any], path: str) -> None:
    content = json.dumps(body).encode()
    headers = [
        (b"host", b"127.0.0.1"),
        JSON_TYPE,
        (b"content-length", str(len(content)).encode()),
        (b"authorization", b"Bearer key"),
    ]
    if path.endswith("/messages"):
        headers.append((b"anthropic-version", b"2023-06-01"))
    client = await Client(content, path=path, headers=headers).run(app)
    answer = b"".join(message.get("body", b"") for message in client.got)
    assert b'"get_weather"' in answer
    assert b"<tool_call>" not in answer


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "files that a chat stream enters in an app": in_an_app(),
                "files that a Messages stream enters in the proxy": in_the_proxy(),
            },
            indent=2,
        )
    )
