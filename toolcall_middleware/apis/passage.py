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
from typing import Any

import msgspec

from ..errors import ToolCallError
from ..model import DEFERRED_FIELD
from ..wire import openai
from .offered_tools import Tool

PASSAGE = "toolcall.passage"
_NOT_COMPARED = frozenset({"stream_options", "toolcall", "request_options", DEFERRED_FIELD})
"""Fields about the form of chunks, and fields that are meant for the exchange alone."""
DELTAS = {"text": ("text_delta", "text"), "tool_use": ("input_json_delta", "partial_json")}
"""The deltas of the blocks that the exchange reads: their type, and the field that holds the added text."""


_LAST = frozenset({"message_delta", "message_stop", "error"})


class Block(msgspec.Struct):
    """A content block of the upstream's answer. ended: its last event was received. at: its index for the client, None
    if it is left out.

    spelled: its content as it was received. Of a call: call is its index in the exchange's steps, waits the number of
    characters of arguments that were received and are not sent, begun whether there is a delta of them, given the
    arguments that its first event holds.
    """

    kind: str
    content: Mapping[str, Any]
    spelled: Mapping[str, Any]
    ended: bool = False
    at: int | None = None
    call: int | None = None
    waits: int = 0
    begun: bool = False
    given: str = ""


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


class Passage:
    """One request and the bytes of its answer.

    chat: the chat completion that the request became. unreadable: the error if it cannot be translated. foreign: names
    of the tools that the upstream runs itself. servers: paths of MCP servers, whose tools it may call. unoffered: the
    tools that are not in the chat completion.
    """

    def __init__(
        self,
        path: str,
        body: bytes,
        chat: bytes,
        unreadable: ToolCallError | None,
        *,
        foreign: Collection[str],
        servers: Sequence[str],
        unoffered: Sequence[Tool],
    ) -> None:
        self.path = path
        """Where the request goes, from the root of the API."""
        self.body = body
        """What the client sent."""
        self.foreign = foreign
        self.servers = servers
        self.unoffered = unoffered
        self.ran = 0
        """How many calls the upstream has made by itself, of MCP servers."""
        self.query = b""
        """The part of the client's query that is about the API."""
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        """The client's headers that are about the API."""
        self.keeps_ids = True
        """Calls keep the upstream's ids, by which they are matched with its answer."""
        self.used = False
        """The upstream got the client's bytes, in the last request to it."""
        self.tape: deque[Taped] = deque()
        """The events of the upstream's answer that are not sent to the client yet."""
        self.calls: dict[str, Mapping[str, Any]] = {}
        """The calls that begin in them, by id: their blocks as they were received."""
        self._blocks: dict[int | None, Block] = {}  # by the upstream's index
        self.whole: tuple[int, bytes] | None = None
        """Status and body of the upstream's answer, if it is not a stream. Its blocks are on the tape, too."""
        self._chat = chat
        self._unreadable = unreadable

    @property
    def counts(self) -> bool:
        """Whether the request only counts the prompt's tokens."""
        return self.path.endswith("/count_tokens")

    def note(self, raw: bytes, value: Mapping[str, Any], spelled: Mapping[str, Any] | None = None) -> None:
        """Add an event of the upstream's answer to the tape, before its chunks are made.

        spelled: the content of a block that begins, where it is not that of `value`.
        """
        kind, index = str(value.get("type")), value.get("index")
        index = index if isinstance(index, int) else None
        made = Taped(raw, value, kind)
        if kind == "content_block_start":
            content = value.get("content_block")
            content = content if isinstance(content, dict) else {}
            made.block = self._blocks[index] = block = Block(str(content.get("type")), content, spelled or content)
            self.ran += block.kind == "mcp_tool_use"
            if block.kind == "text":
                made.piece = str(content.get("text") or "")
            elif block.kind == "tool_use":
                self.calls[str(content.get("id"))] = block.spelled
                if content.get("input"):
                    block.given = openai.encode(content["input"]).decode()
                    block.waits = len(block.given)
        elif kind == "content_block_delta" and index in self._blocks:
            made.block = block = self._blocks[index]
            made.piece = _added(block.kind, value.get("delta"))
            if made.piece and block.kind == "tool_use":
                block.begun = True
                block.waits += len(made.piece)
        elif kind == "content_block_stop" and index in self._blocks:
            made.block = block = self._blocks[index]
            block.ended = True
            if block.kind == "tool_use" and not block.begun:
                made.piece = block.given or "{}"
                block.waits = len(made.piece)
        self.tape.append(made)

    def done(self) -> None:
        """Remove the first event of the tape, which is sent or left out."""
        item = self.tape.popleft()
        if item.is_call and item.kind == "content_block_start":
            self.calls.pop(str(item.value["content_block"].get("id")), None)

    def take(self, asked: bytes) -> bool:
        """Begin an answer. Return whether the upstream gets the client's bytes in place of the exchange's `asked`."""
        self.tape.clear()
        self.calls.clear()
        self._blocks.clear()
        self.whole = None
        self.used = (self.keeps_ids or self.counts) and _same(self._chat, asked)
        return self.used

    def translatable(self, asked: bytes) -> bytes:
        """`asked` as it can be translated: without the tools that the upstream runs itself.

        Raises ToolCallError for a request with content that no chat completion can hold.
        """
        if self._unreadable is not None:
            raise self._unreadable
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


def _added(kind: str, delta: Any) -> str | None:
    """The text or arguments that a delta adds to a block of this kind."""
    name, field = DELTAS.get(kind, ("", ""))
    if not isinstance(delta, dict) or delta.get("type") != name:
        return None
    text = delta.get(field)
    return text if isinstance(text, str) else ""
