"""Chat completions as the exchange writes them, for the tests of the Responses face."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

HEAD = {"id": "chatcmpl-1", "created": 1_790_000_000, "model": "backend-model"}
USAGE = {
    "prompt_tokens": 116,
    "completion_tokens": 70,
    "total_tokens": 186,
    "prompt_tokens_details": {"cached_tokens": 100},
    "completion_tokens_details": {"reasoning_tokens": 9},
}

Delta = dict[str, Any]


def chunk(delta: Delta, reason: str | None = None) -> bytes:
    body = {
        **HEAD,
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
    }
    return event(body)


def event(body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def stream(deltas: Iterable[Delta], reason: str | None = "stop", *, usage: Any = USAGE, done: bool = True) -> bytes:
    """A whole stream: role, deltas, finish_reason, usage, `[DONE]`."""
    made = [chunk({"role": "assistant", "content": ""}), *(chunk(delta) for delta in deltas)]
    if reason is not None:
        made.append(chunk({}, reason))
    if usage is not None:
        made.append(event({**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": usage}))
    return b"".join(made) + (b"data: [DONE]\n\n" if done else b"")


def text(*pieces: str) -> list[Delta]:
    return [{"content": piece} for piece in pieces]


def thought(*pieces: str) -> list[Delta]:
    return [{"reasoning": piece} for piece in pieces]


def call(index: int, name: str, *fragments: str, call_id: str = "") -> list[Delta]:
    call_id = call_id or f"call_{index:024d}"
    opened = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
    pieces = [{"index": index, "function": {"arguments": piece}} for piece in fragments]
    return [{"tool_calls": [entry]} for entry in (opened, *pieces)]


def whole(
    content: str | None = None,
    calls: Sequence[tuple[str, str]] = (),
    reason: str = "stop",
    *,
    usage: Any = USAGE,
    **message: Any,
) -> bytes:
    """A whole answer."""
    said: dict[str, Any] = {"role": "assistant", "content": content, **message}
    if calls:
        said["tool_calls"] = [
            {"id": f"call_{at:024d}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(calls)
        ]
    choice = {"index": 0, "message": said, "finish_reason": reason}
    return json.dumps({**HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def pieces_of(deltas: Iterable[Delta], reason: str) -> dict[str, Any]:
    """The message that deltas make when they are joined, with its finish_reason: the whole answer of the same model."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: list[dict[str, Any]] = []
    for delta in deltas:
        for name in ("content", "reasoning", "refusal"):
            if delta.get(name):
                message[name] = (message.get(name) or "") + delta[name]
        for entry in delta.get("tool_calls", ()):
            if "id" in entry:
                calls.append({"id": entry["id"], "type": "function", "function": dict(entry["function"])})
            else:
                calls[-1]["function"]["arguments"] += entry["function"]["arguments"]
    if calls:
        message["tool_calls"] = calls
    return {**HEAD, "object": "chat.completion", "usage": USAGE,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}]}  # fmt: skip
