"""A client's request to an upstream that speaks the client's API, which gets the request unchanged.

The request is turned into a chat completion, which guards and limits read, and which the exchange sends. If the
exchange changes nothing in it, the upstream gets the client's own bytes instead. The answer is turned into a chat
completion, too, for the same guards. Its original bytes are kept here (`tape`, `whole`), and the face sends them as far
as the exchange lets their calls pass.

A host passes on the passage under `PASSAGE` in the scope of the chat completion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..errors import ToolCallError
from ..model import DEFERRED_FIELD
from ..wire import openai
from .offered_tools import Tool

PASSAGE = "toolcall.passage"
_NOT_COMPARED = frozenset({"stream_options", "toolcall", "request_options", DEFERRED_FIELD})
"""Fields about the form of chunks, and fields that are meant for the exchange alone."""
_LAST = frozenset({"message_delta", "message_stop", "error"})


class Block(msgspec.Struct):
    """A content block of the upstream's answer.

    spelled: its content as it was received. number: of a call in the chat completion. ended: its last event was
    received. begun: there is a delta of its arguments, given: the arguments that its first event holds.

    The writer's own: at is its index for the client, None if it is left out; call its index in the exchange's steps;
    waits the number of characters of arguments that were received and are not sent.
    """

    kind: str
    content: Mapping[str, Any]
    spelled: Mapping[str, Any]
    number: int | None = None
    ended: bool = False
    begun: bool = False
    given: str = ""
    thinking: list[str] = msgspec.field(default_factory=list)
    size: int = 0
    signature: str = ""
    at: int | None = None
    call: int | None = None
    waits: int = 0


class Taped(msgspec.Struct):
    """An event of the upstream's answer. raw: all its bytes. value: its data.

    piece: text or arguments that it adds; None for an event that adds neither. is_last: it comes after all blocks.
    """

    raw: bytes
    value: Mapping[str, Any]
    kind: str
    block: Block | None = None
    piece: str | None = None

    @property
    def is_call(self) -> bool:
        """Whether it is an event of a call's block."""
        return self.block is not None and self.block.kind == "tool_use"

    @property
    def is_last(self) -> bool:
        return self.kind in _LAST


@dataclass(slots=True)
class Passage:
    """One request and the bytes of its answer.

    path: where the request goes, from the root of the API. body: what the client sent. chat: the chat completion that
    it became. unreadable: the error if it cannot be translated. foreign: names of the tools that the upstream runs
    itself. servers: paths of MCP servers, whose tools it may call. unoffered: the tools that are not in the chat
    completion. query, headers: those parts of the client's that are about the API. keeps_ids: calls keep the upstream's
    ids, by which they are matched with its answer.

    used: the upstream got the client's bytes, in the last request to it. ran: how many calls it has made by itself, of
    MCP servers. tape: the events of its answer that are not sent to the client yet. calls: those that begin in them, by
    id: their blocks as they were received. whole: status and body of an answer that is not a stream. Its blocks are on
    the tape, too.
    """

    path: str
    body: bytes
    chat: bytes
    unreadable: ToolCallError | None
    foreign: Collection[str]
    servers: Sequence[str]
    unoffered: Sequence[Tool]
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    keeps_ids: bool = True
    used: bool = False
    ran: int = 0
    tape: deque[Taped] = field(default_factory=deque)
    calls: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    whole: tuple[int, bytes] | None = None

    @property
    def counts(self) -> bool:
        """Whether the request only counts the prompt's tokens."""
        return self.path.endswith("/count_tokens")

    def add(self, item: Taped) -> None:
        """Add an event of the upstream's answer to the tape, before its chunks are made."""
        self.tape.append(item)
        if item.kind == "content_block_start" and item.block is not None:
            self.ran += item.block.kind == "mcp_tool_use"
            if item.is_call:
                self.calls[str(item.block.content.get("id"))] = item.block.spelled

    def done(self) -> None:
        """Remove the first event of the tape, which is sent or left out."""
        item = self.tape.popleft()
        if item.block is not None and item.is_call and item.kind == "content_block_start":
            self.calls.pop(str(item.block.content.get("id")), None)

    def take(self, asked: bytes) -> bool:
        """Begin an answer. Return whether the upstream gets the client's bytes in place of the exchange's `asked`."""
        self.tape.clear()
        self.calls.clear()
        self.whole = None
        self.used = (self.keeps_ids or self.counts) and _same(self.chat, asked)
        return self.used

    def translatable(self, asked: bytes) -> bytes:
        """`asked` as it can be translated: without the tools that the upstream runs itself.

        Raises ToolCallError for a request with content that no chat completion can hold.
        """
        if self.unreadable is not None:
            raise self.unreadable
        fields = openai.read_object(asked)
        tools = openai.read_value(fields.get("tools")) if fields is not None else None
        if fields is None or not self.foreign or not isinstance(tools, list):
            return asked
        kept = [tool for tool in tools if tool.get("function", {}).get("name") not in self.foreign]
        made: dict[str, Any] = {**fields, "tools": kept}
        if not kept:
            del made["tools"]
            made.pop("tool_choice", None)
        return openai.encode(made)


def _same(chat: bytes, asked: bytes) -> bool:
    """Whether both are the same chat completion."""
    one, other = openai.read_object(chat), openai.read_object(asked)
    if one is None or other is None:
        return False
    names = (one.keys() | other.keys()) - _NOT_COMPARED
    return all(name in one and name in other and _equal(one[name], other[name]) for name in names)


def _equal(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    return bytes(one) == bytes(other) or openai.read_value(one) == openai.read_value(other)
