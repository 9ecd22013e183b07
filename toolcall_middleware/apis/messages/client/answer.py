"""A whole chat completion as a message."""

from __future__ import annotations

from typing import Any

import msgspec

from ....errors import ToolCallError
from ....wire import openai
from ....wire.openai import Fields
from ...extension import ExtensionCopy
from .blocks import Blocks, as_input, text_of
from .chunks import arguments_of, thoughts_of
from .request import Asked
from .thinking import Thinking, write_signature
from .writer import stop_of, usage_of

_BYTES_A_TOKEN = 4


class _Content:
    """The sink that collects blocks."""

    def __init__(self, thinking: Thinking) -> None:
        self.blocks: list[dict[str, Any]] = []
        self._thinking = thinking
        self._inner: list[bytes] = []

    def open_text(self) -> None:
        self.blocks.append({"type": "text", "text": ""})

    def open_thinking(self) -> None:
        self.blocks.append({"type": "thinking", "thinking": "", "signature": ""})

    def open_call(self, call_id: str, name: str) -> None:
        self.blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": {}})

    def add(self, inner: bytes) -> None:
        self._inner.append(inner)

    def close(self) -> None:
        inner = b"".join(self._inner)
        self._inner.clear()
        block = self.blocks[-1]
        match block["type"]:
            case "text":
                block["text"] = _raw_string(inner)
            case "thinking" if self._thinking.omitted:
                block["signature"] = write_signature(text_of(inner))
            case "thinking":
                block["thinking"] = _raw_string(inner)
                block["signature"] = write_signature(None)
            case _:
                block["input"] = msgspec.Raw(as_input(text_of(inner)))


def _raw_string(inner: bytes) -> msgspec.Raw:
    return msgspec.Raw(b'"%b"' % inner)


def message_of(data: bytes, asked: Asked, message_id: str, extension: ExtensionCopy) -> bytes:
    """The Messages answer for the chat completion `data`. extension: takes the operator's field out of it.

    Raises ToolCallError if `data` is no chat completion.
    """
    top = openai.read_object(data)
    choices = openai.read_objects(top.get("choices")) if top is not None else None
    said = openai.read_object(choices[0].get("message")) if choices else None
    if top is None or not choices or said is None:
        raise ToolCallError("upstream_error", "The answer is no chat completion.")
    sink = _Content(asked.thinking)
    blocks = Blocks(sink, asked.thinking, asked.call_ids)
    for thought in thoughts_of(_text(said, "reasoning_content"), _text(said, "reasoning")):
        blocks.thought(thought)
    if content := _text(said, "content"):
        blocks.text(content)
    refusal = _text(said, "refusal")
    if refusal:
        blocks.text(refusal)
    for number, call in enumerate(openai.read_objects(said.get("tool_calls")) or ()):
        function = openai.read_object(call.get("function")) or {}
        arguments = arguments_of(function.get("arguments", openai.NULL))
        blocks.call(number, openai.read_text(call.get("id")), openai.read_text(function.get("name")), arguments)
    blocks.finish()
    matched = openai.read_value(choices[0].get("stop_reason") or choices[0].get("matched_stop"))
    reason, sequence = stop_of(
        openai.read_text(choices[0].get("finish_reason")) or "stop",
        calls=blocks.calls,
        refused=bool(refusal),
        matched=matched,
        stops=asked.stops,
    )
    usage = usage_of(
        openai.read_value(top.get("usage")),
        input_estimate=asked.estimate,
        output_estimate=blocks.size // _BYTES_A_TOKEN,
    )
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": sink.blocks,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": usage,
    }
    extension.read(data)
    return openai.encode(extension.beside(message))


def _text(fields: Fields, name: str) -> bytes:
    """A field that is a JSON string and says something; a list of parts is their text."""
    raw = fields.get(name)
    if raw is None:
        return b""
    data = bytes(raw)
    if data.startswith(b'"'):
        return data if len(data) > 2 else b""
    value = openai.read_value(raw)
    if not isinstance(value, list):
        return b""
    texts = [part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return openai.encode("".join(texts)) if any(texts) else b""
