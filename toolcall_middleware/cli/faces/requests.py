"""Requests of the three APIs: a chat completion in the words of each, and of which API a body is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...apis.face import Face
from ...apis.messages.client.face import MessagesFace
from ...apis.responses.face import ResponsesFace

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
HEADERS: dict[str, dict[str, str]] = {"chat": {}, "messages": {"anthropic-version": "2023-06-01"}, "responses": {}}
"""What a request of each API has beside its body."""
_TOKENS = 1024
_OF_MESSAGES = frozenset({"system", "stop_sequences", "thinking", "output_config", "context_management"})
"""Fields that a request of Anthropic's Messages has, and a chat completion has not."""


def request_body(api: str, chat: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion `chat` (text, tools, calls and their results) as a request of `api`."""
    match api:
        case "messages":
            return _as_messages(chat)
        case "responses":
            return _as_responses(chat)
    return dict(chat)


def _as_messages(chat: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {**_shared(chat), "max_tokens": _limit(chat) or _TOKENS}
    if system := [message["content"] for message in chat["messages"] if message["role"] == "system"]:
        body["system"] = "\n\n".join(system)
    body["messages"] = [_message(message) for message in chat["messages"] if message["role"] != "system"]
    if tools := chat.get("tools"):
        body["tools"] = [
            {
                "name": tool["function"]["name"],
                "description": tool["function"].get("description", ""),
                "input_schema": tool["function"].get("parameters") or {"type": "object"},
            }
            for tool in tools
        ]
    if name := _named(chat):
        body["tool_choice"] = {"type": "tool", "name": name}
    elif choice := chat.get("tool_choice"):
        body["tool_choice"] = {"type": "any" if choice == "required" else choice}
    return body


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [result]}
    blocks: list[dict[str, Any]] = [{"type": "text", "text": message["content"]}] if message.get("content") else []
    for call in message.get("tool_calls") or ():
        given = json.loads(call["function"]["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given})
    return {"role": message["role"], "content": blocks}


def _as_responses(chat: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {**_shared(chat), "store": False}
    if limit := _limit(chat):
        body["max_output_tokens"] = limit
    body["input"] = [item for message in chat["messages"] for item in _items(message)]
    if tools := chat.get("tools"):
        body["tools"] = [{"type": "function", "strict": False, **tool["function"]} for tool in tools]
    if choice := chat.get("tool_choice"):
        body["tool_choice"] = {"type": "function", "name": name} if (name := _named(chat)) else choice
    return body


def _items(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        return
    if message.get("content"):
        yield {"role": message["role"], "content": message["content"]}
    for call in message.get("tool_calls") or ():
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def _shared(chat: Mapping[str, Any]) -> dict[str, Any]:
    return {name: chat[name] for name in ("model", "stream", "temperature", "top_p") if name in chat}


def _named(chat: Mapping[str, Any]) -> str | None:
    """The tool that `tool_choice` names."""
    choice = chat.get("tool_choice")
    return choice["function"]["name"] if isinstance(choice, dict) else None


def _limit(chat: Mapping[str, Any]) -> int | None:
    return next((chat[name] for name in ("max_completion_tokens", "max_tokens") if name in chat), None)


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
