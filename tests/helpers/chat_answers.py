"""A chat answer as engines write it, whole or streamed as the request asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def chat_answer(
    body: Mapping[str, Any], message: Mapping[str, Any], *, finish: str = "stop", usage: Any = None, step: int = 5
) -> tuple[str, bytes]:
    """(content type, body) of the answer to `body`. step: characters of text in a delta.

    usage: None for an engine that does not count. A stream has it where it is asked for.
    """
    head: dict[str, Any] = {"id": "c", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        counted: dict[str, Any] = {} if usage is None else {"usage": usage}
        whole: dict[str, Any] = {**head, "object": "chat.completion", "choices": [choice], **counted}
        return "application/json", json.dumps(whole).encode()
    head["object"] = "chat.completion.chunk"
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in _deltas(message, step)
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks: list[dict[str, Any]] = [{**head, "choices": [choice]} for choice in choices]
    if usage is not None and (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    return "text/event-stream", "".join(
        [*(f"data: {json.dumps(one)}\n\n" for one in chunks), "data: [DONE]\n\n"]
    ).encode()


def _deltas(message: Mapping[str, Any], step: int) -> Iterator[dict[str, Any]]:
    text = message.get("content") or ""
    yield {"role": "assistant", "content": ""}
    for at in range(0, len(text), step):
        yield {"content": text[at : at + step]}
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": index, "function": {"name": function["name"]}}]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]}


def error_body(message: str, **fields: Any) -> bytes:
    """An error in OpenAI's envelope. fields: its type and code."""
    return json.dumps({"error": {"message": message, "param": None, "code": None, **fields}}).encode()
