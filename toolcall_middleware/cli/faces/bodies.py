"""Requests in files: of which of the three APIs they are."""

from __future__ import annotations

from typing import Any

from ...apis.face import Face
from ...apis.messages.client.face import MessagesFace
from ...apis.responses import ResponsesFace

_OF_MESSAGES = frozenset({"system", "stop_sequences", "thinking", "output_config", "context_management"})
"""Fields that a request of Anthropic's Messages has, and a chat completion has not."""


def face_of(body: Any, api: str | None = None) -> Face | None:
    """What reads a request of Messages or Responses; None for a chat completion. api: which it is; None looks at it."""
    match api or _api_of(body):
        case "messages":
            return MessagesFace(inline_tools=True)
        case "responses":
            return ResponsesFace()
    return None


def _api_of(body: Any) -> str:
    if not isinstance(body, dict):
        return "chat"
    if "input" in body and "messages" not in body:
        return "responses"
    tools = body.get("tools")
    own = any(isinstance(tool, dict) and "input_schema" in tool for tool in tools) if isinstance(tools, list) else False
    return "messages" if own or not _OF_MESSAGES.isdisjoint(body) else "chat"
