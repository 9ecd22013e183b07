"""Requests of the three APIs: a chat completion in the words of each, its tools, and of which API a body is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...apis.face import Face
from ...apis.messages.client.face import MessagesFace
from ...apis.messages.upstream.translation import AnthropicTranslation
from ...apis.responses.face import ResponsesFace
from ...wire import openai

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
HEADERS: dict[str, dict[str, str]] = {"chat": {}, "messages": {"anthropic-version": "2023-06-01"}, "responses": {}}
"""What a request of each API has beside its body."""
_TOKENS = 1024
_OF_MESSAGES = frozenset({"system", "stop_sequences", "thinking", "output_config", "context_management"})
"""Fields that a request of Anthropic's Messages has, and a chat completion has not."""


def tool(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    """A tool as an OpenAI client offers it."""
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def request_body(api: str, chat: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion `chat` (text, tools, calls and their results) as a request of `api`."""
    match api:
        case "messages":
            made = AnthropicTranslation(default_max_tokens=_TOKENS).request(openai.encode(chat))
            body: dict[str, Any] = json.loads(made.body)
            return body
        case "responses":
            return _as_responses(chat)
    return dict(chat)


def _as_responses(chat: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"store": False}
    body |= {name: chat[name] for name in ("model", "stream", "temperature", "top_p") if name in chat}
    if limit := chat.get("max_completion_tokens", chat.get("max_tokens")):
        body["max_output_tokens"] = limit
    body["input"] = [item for message in chat["messages"] for item in _items(message)]
    if tools := chat.get("tools"):
        body["tools"] = [{"type": "function", "strict": False, **tool["function"]} for tool in tools]
    if choice := chat.get("tool_choice"):
        named = isinstance(choice, dict)
        body["tool_choice"] = {"type": "function", "name": choice["function"]["name"]} if named else choice
    return body


def _items(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        return
    if message.get("content"):
        yield {"role": message["role"], "content": message["content"]}
    for call in message.get("tool_calls") or ():
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def face_of(body: Any, api: str | None = None) -> Face | None:
    """What reads a request of Messages or Responses; None for a chat completion. api: which it is; None looks at it."""
    match api or _api_of(body):
        case "messages":
            return MessagesFace()
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
