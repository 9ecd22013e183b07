"""Chat answers as the exchange gives them, and requests of Messages, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.apis.fed import MessagesFace

DATA = Path(__file__).parent.parent / "data"
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
READ = {
    "name": "Read",
    "description": "Reads.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}


def recorded(name: str) -> bytes:
    return (DATA / f"{name}.json").read_bytes()


def body(**fields: Any) -> bytes:
    """A request; a field that is None is left out."""
    whole = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **fields}
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


def asked(**fields: Any) -> MessagesFace:
    """A face that has read a request."""
    face = MessagesFace()
    face.request(body(**fields))
    return face


def chat_of(request: bytes | None = None, **fields: Any) -> dict[str, Any]:
    """The chat completion for a request."""
    made = MessagesFace().request(request or body(**fields))
    chat: dict[str, Any] = json.loads(made.body)
    return chat


def messages_of(*messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chat_of(messages=list(messages), **fields)["messages"]
    return found


def event(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def chunk(delta: dict[str, Any], reason: str | None = None, **choice: Any) -> bytes:
    return event({**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": reason, **choice}]})


def opening(index: int, call_id: str, name: str, arguments: str = "") -> bytes:
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})


def more(index: int, arguments: str) -> bytes:
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def end(reason: str, usage: dict[str, Any] | None = None, **choice: Any) -> bytes:
    numbers = usage or {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    return chunk({}, reason, **choice) + event({**HEAD, "choices": [], "usage": numbers}) + b"data: [DONE]\n\n"


def whole(
    message: dict[str, Any], reason: str = "stop", *, usage: dict[str, Any] | None = None, **choice: Any
) -> bytes:
    numbers = usage or {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    said = {"role": "assistant", "content": None, **message}
    choices = [{"index": 0, "message": said, "finish_reason": reason, **choice}]
    return json.dumps({**HEAD, "object": "chat.completion", "choices": choices, "usage": numbers}).encode()


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
