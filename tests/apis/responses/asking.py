"""Requests to the face, and its answers."""

from __future__ import annotations

import json
from typing import Any

from tests.apis.fed import ResponsesFace, however_cut
from toolcall_middleware.apis.face import FaceRequest

MARK = "0123456789abcdef"
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files. This is a FREEFORM tool, so do not wrap the patch in JSON.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: LINE+"},
}
CODES: dict[str, Any] = {
    "type": "namespace",
    "name": "mcp__codes",
    "description": "Codes.",
    "tools": [{"type": "function", "name": "lookup_code", "parameters": {"type": "object", "properties": {}}}],
}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def asked(**fields: Any) -> tuple[ResponsesFace, FaceRequest]:
    face = ResponsesFace(mark=MARK)
    return face, face.request(body(**fields))


def chat_of(**fields: Any) -> dict[str, Any]:
    """The chat completion that a request becomes."""
    made: dict[str, Any] = json.loads(asked(**fields)[1].body)
    return made


def messages_of(*items: Any, **fields: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = chat_of(input=list(items), **fields)["messages"]
    return messages


def streamed(data: bytes, **fields: Any) -> bytes:
    return however_cut(lambda: asked(stream=True, **fields)[0], data)
