"""Requests for the tests of the prompt, and what a text backend says of the bodies made from them."""

from __future__ import annotations

import json
from typing import Any

from tests.helpers.fakes import complaint
from toolcall_middleware.request.parse import ChatRequest, read_request
from toolcall_middleware.settings import Settings

Message = dict[str, Any]


def tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    """A tool whose properties are all required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


WEATHER = tool("weather", "The weather.", city={"type": "string"})
CLOCK = tool("clock", "The time.", zone={"type": "string", "enum": ["UTC", "CET"]})
HELLO: Message = {"role": "user", "content": "hello"}


def request(*messages: Message, tools: Any = (WEATHER, CLOCK), **fields: Any) -> ChatRequest:
    """A request as the exchange gets it, read from its bytes."""
    body = {"model": "m", "messages": list(messages), **({"tools": list(tools)} if tools else {}), **fields}
    return read(json.dumps(body).encode())


def read(body: bytes) -> ChatRequest:
    chat = read_request(body, Settings())
    assert isinstance(chat, ChatRequest)
    return chat


def calling(*calls: tuple[str, str, str], content: Any = None, **fields: Any) -> Message:
    """An assistant message with calls of (id, name, arguments)."""
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return {"role": "assistant", "content": content, "tool_calls": made, **fields}


def result(id_: str, content: Any, **fields: Any) -> Message:
    return {"role": "tool", "tool_call_id": id_, "content": content, **fields}


def refusal(body: dict[str, Any]) -> str | None:
    """What a text backend refuses, or None. Lists of parts are admitted where they hold more than text."""
    messages = body["messages"]
    for message in messages:
        if message.keys() != {"role", "content"}:
            return f"fields {sorted(message)}"
        content = message["content"]
        if isinstance(content, list) and all(part.get("type") == "text" for part in content):
            return "a list of text parts"
    flat = [{**m, "content": m["content"] if isinstance(m["content"], str) else "parts"} for m in messages]
    return complaint({**body, "messages": flat})
