"""What a client of Anthropic's API makes of an answer: its SDK's own types and accumulator, and the rules of the wire.

message = read_stream(events)          # a BetaMessage-like `Message` of the SDK
message = read_whole(body)
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_FRAME = re.compile(rb"event: ([a-z_]+)\ndata: ([^\n]*)\n\n")
_ID = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass
class Received:
    """A message, and the events that it came in."""

    message: Any
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def content(self) -> list[dict[str, Any]]:
        return [block.to_dict() for block in self.message.content]

    @property
    def calls(self) -> list[tuple[str, Any]]:
        return [(block["name"], block["input"]) for block in self.content if block["type"] == "tool_use"]

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def thinking(self) -> str:
        return "".join(block["thinking"] for block in self.content if block["type"] == "thinking")

    @property
    def usage(self) -> dict[str, Any]:
        usage: dict[str, Any] = self.message.usage.to_dict()
        return usage

    def fragments(self, index: int = 0) -> list[str]:
        """The pieces in which a block came."""
        deltas = [
            event["delta"]
            for event in self.events
            if event["type"] == "content_block_delta" and event["index"] == index
        ]
        return [delta.get("partial_json", delta.get("text", delta.get("thinking"))) for delta in deltas]


def frames(body: bytes) -> list[dict[str, Any]]:
    """The data of each event; the body must hold nothing else."""
    events: list[dict[str, Any]] = []
    at = 0
    while at < len(body):
        found = _FRAME.match(body, at)
        assert found is not None, f"no event: {body[at : at + 80]!r}"
        data = json.loads(found[2])
        assert data["type"] == found[1].decode()
        events.append(data)
        at = found.end()
    return events


def read_stream(body: bytes) -> Received:
    """A stream that ends as it should."""
    events = frames(body)
    assert events[0]["type"] == "message_start"
    assert events[1]["type"] == "ping"
    snapshot: Any = None
    bufs: dict[int, bytes] = {}
    open_block: dict[str, Any] | None = None
    index = 0
    for event in events:
        kind = event["type"]
        if kind == "ping":
            continue
        checked = _EVENT.validate_python(event)
        match kind:
            case "content_block_start":
                assert open_block is None, "one block at a time"
                open_block = event["content_block"]
                assert event["index"] == index
                assert open_block["type"] in {"text", "tool_use", "thinking"}
            case "content_block_delta":
                assert open_block is not None
                assert event["index"] == index
            case "content_block_stop":
                assert event["index"] == index
                open_block = None
                index += 1
            case "message_delta":
                assert open_block is None
                _check_usage(event["usage"])
        snapshot = accumulate_event(event=checked, current_snapshot=snapshot, json_bufs=bufs)
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("message_start") == kinds.count("message_delta") == kinds.count("message_stop") == 1
    received = Received(snapshot, events)
    _check(received)
    return received


def read_whole(body: bytes) -> Received:
    """A whole answer."""
    value = json.loads(body)
    received = Received(Message.model_validate(value))
    _check_usage(value["usage"])
    _check(received)
    return received


def _check_usage(usage: dict[str, Any]) -> None:
    for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
        assert isinstance(usage[name], int), name
        assert usage[name] >= 0, name


def _check(received: Received) -> None:
    message = received.message
    assert message.id.startswith("msg_")
    assert message.role == "assistant"
    ids = []
    for block in received.content:
        match block["type"]:
            case "text":
                assert block["text"].strip(), "no empty text"
            case "thinking":
                assert block["signature"]
            case "tool_use":
                assert isinstance(block["input"], dict)
                assert _ID.fullmatch(block["id"])
                ids.append(block["id"])
    assert len(set(ids)) == len(ids)
    if message.stop_reason == "tool_use":
        assert ids
    if ids:
        assert message.stop_reason not in {"end_turn", "stop_sequence"}


def error_of(body: bytes) -> dict[str, Any]:
    """The error that a body is, or that ends a stream."""
    event = json.loads(body) if body.startswith(b"{") else frames(body)[-1]
    assert event["type"] == "error"
    assert event["request_id"].startswith("req_")
    error: dict[str, Any] = event["error"]
    assert isinstance(error["message"], str)
    return error
