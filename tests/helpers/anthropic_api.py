"""Anthropic's side: its SDK's own types check what we send and make what we are sent; its documented rules besides."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pydantic
from anthropic.types import (
    InputJSONDelta,
    Message,
    MessageDeltaUsage,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawContentBlockStopEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
    RedactedThinkingBlock,
    SignatureDelta,
    StopReason,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
    Usage,
)
from anthropic.types.message_create_params import MessageCreateParams
from anthropic.types.raw_message_delta_event import Delta

# Older models take them; the newest SDK has no names for them any more.
SAMPLING = {"temperature", "top_p", "top_k"}
ID = re.compile(r"^[a-zA-Z0-9_-]+$")


@functools.cache
def _adapter() -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(MessageCreateParams)


def check_request(body: dict[str, Any]) -> None:
    """Fails where the SDK's types or the API's documented rules do not hold for a request."""
    typed = {name: value for name, value in body.items() if name not in SAMPLING}
    # Validation drops keys that the types do not know, so a difference is a field that we made up.
    assert plain(_adapter().validate_python(typed)) == typed
    assert body["max_tokens"] > 0
    _check_turns(body)
    for stop in body.get("stop_sequences", ()):
        assert stop.strip(), "each stop sequence must contain non-whitespace"
    if "temperature" in body:
        assert 0 <= body["temperature"] <= 1
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled":
        assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]
    if thinking.get("type", "disabled") != "disabled":
        assert not SAMPLING & body.keys()
        assert body.get("tool_choice", {}).get("type", "auto") in {"auto", "none"}
    if "tool_choice" in body:
        assert body["tools"], "tool_choice without tools"
        if body["tool_choice"]["type"] == "tool":
            assert body["tool_choice"]["name"] in {tool["name"] for tool in body["tools"]}
    for tool in body.get("tools", ()):
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"])
        assert tool["input_schema"]["type"] == "object"


def _check_turns(body: dict[str, Any]) -> None:
    roles = [message["role"] for message in body["messages"]]
    assert roles == [("user", "assistant")[number % 2] for number in range(len(roles))], "roles alternate"
    seen: set[str] = set()
    waiting: list[str] = []
    for message in body["messages"]:
        blocks = blocks_of(message)
        assert blocks, "all messages must have non-empty content"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(waiting), "each tool_use has one tool_result, in the next message"
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)]), "results come first"
        waiting = []
        for block in blocks:
            if block["type"] == "text":
                assert block["text"].strip(), "text content blocks must contain non-whitespace text"
            if block["type"] == "tool_use":
                assert ID.match(block["id"]), block["id"]
                assert block["id"] not in seen, "tool_use ids must be unique"
                seen.add(block["id"])
                waiting.append(block["id"])
                assert body["tools"], "tools must be declared where the history has calls"
        kinds = [block["type"] for block in blocks]
        assert message["role"] == "assistant" or not {"tool_use", "thinking"} & set(kinds)
    assert not waiting, "tool_use ids were found without tool_result blocks immediately after"
    last = blocks_of(body["messages"][-1])[-1]
    if roles[-1] == "assistant" and last["type"] == "text":
        assert last["text"] == last["text"].rstrip(), "final assistant content cannot end with trailing whitespace"


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def plain(value: Any) -> Any:
    """What validation gives, with its lazy lists read."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, str | bytes | int | float) or value is None:
        return value
    return [plain(item) for item in value]


# -- answers -------------------------------------------------------------------------------------------------------


def text(words: str) -> TextBlock:
    return TextBlock(type="text", text=words, citations=None)


def call(call_id: str, name: str, given: dict[str, object]) -> ToolUseBlock:
    return ToolUseBlock(type="tool_use", id=call_id, name=name, input=given)


def thought(words: str, signature: str = "c2ln") -> ThinkingBlock:
    return ThinkingBlock(type="thinking", thinking=words, signature=signature)


def hidden(data: str) -> RedactedThinkingBlock:
    return RedactedThinkingBlock(type="redacted_thinking", data=data)


def answer(*blocks: Any, stop_reason: StopReason = "end_turn", **fields: Any) -> Message:
    """A whole answer, checked by the SDK's types."""
    usage = fields.pop("usage", None) or Usage(
        input_tokens=10, cache_creation_input_tokens=3, cache_read_input_tokens=5, output_tokens=7
    )
    message = Message(
        id="msg_01XFDUDYJgAACzvnptvVoYEL",
        type="message",
        role="assistant",
        model="claude-sonnet-4-5",
        content=list(blocks),
        stop_reason=stop_reason,
        stop_sequence=None,
        usage=usage,
        **fields,
    )
    return Message.model_validate(message.model_dump())


def events(message: Message, *, size: int = 5) -> Iterator[pydantic.BaseModel]:
    """The events that stream `message`, in pieces of `size` characters."""
    usage = message.usage.model_copy(update={"output_tokens": 1})
    empty = message.model_copy(update={"content": [], "stop_reason": None, "usage": usage})
    yield RawMessageStartEvent(type="message_start", message=empty)
    for index, block in enumerate(message.content):
        start, deltas = _opened(block, size)
        yield RawContentBlockStartEvent(type="content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=delta)
        yield RawContentBlockStopEvent(type="content_block_stop", index=index)
    delta = Delta(stop_reason=message.stop_reason, stop_sequence=None, stop_details=message.stop_details)
    done = MessageDeltaUsage(
        output_tokens=message.usage.output_tokens, output_tokens_details=message.usage.output_tokens_details
    )
    yield RawMessageDeltaEvent(type="message_delta", delta=delta, usage=done)
    yield RawMessageStopEvent(type="message_stop")


def _opened(block: Any, size: int) -> tuple[Any, list[Any]]:
    match block:
        case TextBlock():
            return text(""), [TextDelta(type="text_delta", text=piece) for piece in _cut(block.text, size)]
        case ToolUseBlock():
            written = pydantic.TypeAdapter(dict[str, object]).dump_json(block.input).decode() if block.input else ""
            pieces = ["", *_cut(written, size)]
            return call(block.id, block.name, {}), [
                InputJSONDelta(type="input_json_delta", partial_json=piece) for piece in pieces
            ]
        case ThinkingBlock():
            deltas: list[Any] = [
                ThinkingDelta(type="thinking_delta", thinking=piece) for piece in _cut(block.thinking, size)
            ]
            deltas.append(SignatureDelta(type="signature_delta", signature=block.signature))
            return thought("", ""), deltas
        case _:
            return block, []


def _cut(words: str, size: int) -> list[str]:
    return [words[place : place + size] for place in range(0, len(words), size)]


def wire(items: Iterable[pydantic.BaseModel], *, ping: bool = True) -> bytes:
    """Events as the API writes them."""
    out = []
    for number, item in enumerate(items):
        kind = item.type  # type: ignore[attr-defined]
        out.append(f"event: {kind}\ndata: {item.model_dump_json(exclude_none=True)}\n\n")
        if ping and not number:
            out.append('event: ping\ndata: {"type": "ping"}\n\n')
    return "".join(out).encode()
