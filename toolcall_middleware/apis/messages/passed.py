"""A whole answer that is received and sent as Messages, and a client's request for an upstream of its API.

The upstream's blocks pass as far as the exchange emits the same content. Content that the exchange changed is rewritten
in place.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from ...answer.operations import Arguments, CallClosed, CallOpened, Content, Finished
from ...wire import openai
from ..passage import Passage
from .client.messages import MARK
from .client.writer import as_input

_REASONS = {"length": "max_tokens", "content_filter": "refusal"}
_log = logging.getLogger("toolcall_middleware")


def passed_body(body: bytes) -> bytes:
    """A client's request for Anthropic: the same bytes, but without thoughts that this package signed.

    Such thoughts come from another model or a translated answer. Anthropic does not know their signature.
    """
    if MARK.encode() not in body:
        return body
    fields = openai.read_object(body) or {}
    messages = openai.read_objects(fields.get("messages"))
    if messages is None:
        return body
    kept = [made for message in messages if (made := _without_own_thoughts(message)) is not None]
    return openai.encode({**fields, "messages": kept})


def _without_own_thoughts(message: openai.Fields) -> dict[str, Any] | None:
    blocks = openai.read_objects(message.get("content"))
    if blocks is None:
        return message
    kept = [block for block in blocks if not (openai.read_text(block.get("signature")) or "").startswith(MARK)]
    if len(kept) == len(blocks):
        return message
    return {**message, "content": kept} if kept else None


class Run:
    """Text that the exchange emitted in one or more steps. call: the index of a call whose arguments it is, if any.

    size: the number of characters that are not skipped yet.
    """

    __slots__ = ("_at", "_parts", "_text", "call", "size")

    def __init__(self, call: int | None) -> None:
        self.call = call
        self.size = 0
        self._text = ""
        self._at = 0
        self._parts: list[str] = []  # more of the text, which is joined once it is looked at

    def add(self, text: str) -> None:
        self.size += len(text)
        self._parts.append(text)

    def has(self, piece: str) -> bool | None:
        """Whether the rest begins with this piece; None if the rest is only a prefix of it."""
        if self._parts:
            self._text, self._at = self.rest(), 0
            self._parts.clear()
        if self.size >= len(piece):
            return self._text.startswith(piece, self._at)
        return None if piece.startswith(self._text[self._at :]) else False

    def skip(self, piece: str) -> None:
        self._at += len(piece)
        self.size -= len(piece)

    def rest(self) -> str:
        """The text that is not skipped yet."""
        return self._text[self._at :] + "".join(self._parts)

    def as_step(self) -> Content | Arguments:
        """The rest as one step."""
        return Content(self.rest()) if self.call is None else Arguments(self.call, self.rest())


Said = Run | CallOpened | CallClosed | Finished
"""What the exchange emitted, as far as an answer that passes depends on it."""


def passed_whole(passage: Passage, said: Iterable[Said]) -> bytes:
    """The upstream's whole answer. said: what the exchange emits of it."""
    assert passage.whole is not None  # noqa: S101 - the answer has come
    own = passage.whole[1]
    fields = openai.read_object(own) or {}
    blocks = openai.read_objects(fields.get("content")) or []
    emitted = _Emitted(said)
    written = emitted.instead_of(blocks)
    own_reason = openai.read_text(fields.get("stop_reason"))
    reason = stop_reason(own_reason, emitted.reason, emitted.sent)
    if written == blocks and reason == own_reason:
        return own
    _log.info("messages: the upstream's answer was changed on its way")
    return openai.encode({**fields, "content": written, "stop_reason": reason})


class _Emitted:
    """The content of a whole answer that the exchange emits, and the part that is not written yet."""

    def __init__(self, said: Iterable[Said]) -> None:
        self.reason = "stop"
        self.sent = 0
        self._text = ""
        opened: dict[int, CallOpened] = {}
        arguments: dict[int | None, str] = {}
        for step in said:
            match step:
                case Run(call=None):
                    self._text += step.rest()
                case Run(call=call):
                    arguments[call] = arguments.get(call, "") + step.rest()
                case CallOpened(index):
                    opened[index] = step
                case Finished(reason):
                    self.reason = reason
        # Names and arguments by their ids.
        self._calls = {
            call.id: (call.name, msgspec.Raw(as_input(arguments.get(index, "")))) for index, call in opened.items()
        }

    def instead_of(self, blocks: list[openai.Fields]) -> list[Any]:
        """The upstream's blocks that the exchange emits unchanged, and new blocks in place of the others.

        Calls are matched by id. Text that is in none of the upstream's blocks was made of a call.
        """
        texts = [openai.read_text(block.get("text")) or "" for block in blocks if _is(block, "text")]
        whole = "".join(texts)
        same = self._text.startswith(whole)
        if same:
            self._text = self._text[len(whole) :]
        written: list[Any] = []
        for block in blocks:
            if _is(block, "tool_use"):
                written += self._call(block)
            elif same or not _is(block, "text"):
                written.append(block)
            else:
                written += self._rest()
        written += self._rest()
        for call_id, (name, given) in self._calls.items():
            self.sent += 1
            written.append({"type": "tool_use", "id": call_id, "name": name, "input": given})
        return written

    def _call(self, block: openai.Fields) -> list[Any]:
        """The blocks to send for the block of a call."""
        call = self._calls.pop(openai.read_text(block.get("id")) or "", None)
        if call is None:
            return self._rest()
        self.sent += 1
        name, given = call
        if openai.read_text(block.get("name")) != name:
            block = {**block, "name": openai.raw(name)}
        if openai.read_value(block.get("input")) != openai.read_value(given):
            block = {**block, "input": given}
        return [block]

    def _rest(self) -> list[Any]:
        """The text that is not written yet, as a block. White space is dropped: the API refuses it in requests."""
        text, self._text = self._text, ""
        return [{"type": "text", "text": text}] if text.strip() else []


def _is(block: openai.Fields, kind: str) -> bool:
    return openai.read_text(block.get("type")) == kind


def stop_reason(own: Any, reason: str, calls: int) -> str:
    """The `stop_reason`. own: the upstream's. reason: the chat answer's `finish_reason`. calls: how many were sent."""
    if isinstance(own, str) and own not in {"end_turn", "tool_use"}:
        return own
    return _REASONS.get(reason) or ("tool_use" if calls else "end_turn")
