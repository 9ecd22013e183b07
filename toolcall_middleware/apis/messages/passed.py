"""An answer that an Anthropic upstream gave as Messages, sent as it came while the exchange agrees.

The exchange reads the same answer as chat chunks and emits its steps. An event of text or of a call is sent once the
steps say the same. From the first event that the exchange changed (a call was refused or coerced, prose was dropped),
`MessageWriter` writes text and calls from the steps, and only the other blocks (thoughts, server tools) are sent as
they came. A whole answer is read as the events of its blocks.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...answer.operations import Arguments, CallClosed, CallOpened, Content, Finished, Step
from ...errors import ToolCallError, refusal
from ...wire import openai
from ...wire.tool_words import CARRIERS, SPEAKS_OF_TOOLS
from ..passage import Block, Passage, Taped
from .client.request import MARK
from .client.writer import PING, REASONS, MessageWriter, event, usage_of

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


class _Run:
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
            self._text, self._at = self._text[self._at :] + "".join(self._parts), 0
            self._parts.clear()
        if self.size >= len(piece):
            return self._text.startswith(piece, self._at)
        return None if piece.startswith(self._text[self._at :]) else False

    def skip(self, piece: str) -> None:
        self._at += len(piece)
        self.size -= len(piece)

    def as_step(self) -> Content | Arguments:
        """The text that is not skipped yet."""
        rest = self._text[self._at :] + "".join(self._parts)
        return Content(rest) if self.call is None else Arguments(self.call, rest)


class PassedWriter:
    """Writes one answer (`AnswerWriter`). plain: writes all of it if the upstream got a translated request."""

    def __init__(self, passage: Passage, plain: MessageWriter) -> None:
        self.in_use = False
        self._passage = passage
        self._plain = plain
        # Steps that the exchange emitted and the client does not have: text, and in `_said` calls and the end. Text may
        # overtake the end of a call. Once the answer is changed, `_said` holds all of them.
        self._text = _Run(None)
        self._said: deque[_Run | CallOpened | CallClosed | Finished] = deque()
        self._out: list[bytes] = []
        # The upstream's block whose start was sent to the client. Once the answer is changed, no call is one.
        self._open: Block | None = None
        self._calls = 0
        self._reason = ""
        self._changed = False  # `plain` writes text and calls
        self._written = frozenset({"text", "tool_use"})  # the kinds of blocks that it writes
        self._end_sent = False  # `message_delta` is sent
        self._ended = False
        self._taken = False  # a step was taken since events were last sent; without one they must wait

    @property
    def over(self) -> bool:
        return self._ended or self._plain.over

    def begin(self) -> None:
        """Write the first events now. Those of the upstream are then left out."""
        self._plain.begin()

    def take(self, step: Step, /) -> None:
        if not self._passage.used:
            self._plain.take(step)
            return
        self._taken = True
        match step:
            case Content(text) if text and not self._changed:
                self._text.add(text)
            case Content(text) | Arguments(text=text) if text:
                call = step.index if isinstance(step, Arguments) else None
                last = self._said[-1] if self._said else None
                if not isinstance(last, _Run) or last.call != call:
                    last = _Run(call)
                    self._said.append(last)
                last.add(text)
            case CallOpened() | CallClosed() | Finished():
                self._said.append(step)
            case _:
                pass  # the upstream's own events say it

    def say(self, op: Content | Arguments, /) -> bytes:
        self.take(op)
        return self.leaving()

    def end(self, usage: Any, remarks: dict[str, Any], /) -> None:
        if not self._passage.used:
            self._plain.end(usage, remarks)
            return
        if self.over:
            return
        self._release()
        if self._ended:
            return
        self._change()
        self._plain.spelled |= self._passage.calls
        self._passage.calls.clear()
        self._stop_open()
        self._say()
        self._close()
        self._ended = True
        if not self._end_sent:
            delta = {"stop_reason": self._stop_reason(None), "stop_sequence": None}
            counts = usage_of(usage, input_estimate=self._plain.asked.estimate, output_estimate=1)
            self._out.append(event("message_delta", {"delta": delta, "usage": counts}))
        self._out.append(event("message_stop", {}))

    def fail(self, error: ToolCallError, /) -> None:
        """The last event of a stream that fails, after the text before it. Nothing more of a call is sent."""
        if not self._passage.used:
            self._plain.fail(error)
        elif not self.over:
            waiting = self._passage.tape
            while waiting and not self._changed and not waiting[0].is_call and self._passes(waiting[0]):
                self._passage.done()
            is_error = bool(waiting) and waiting[-1].kind == "error"
            self._out.append(waiting[-1].raw if is_error else self._plain.errors.event(error))
            self._ended = True

    def alive(self) -> None:
        if not self._passage.used:
            self._plain.alive()
        elif self._plain.begun and not self.over:
            self._out.append(PING)

    def leaving(self) -> bytes:
        if self._taken and not self.over:
            self._taken = False
            self._release()
        out = self._plain.leaving() + b"".join(self._out)
        self._out.clear()
        return out

    def whole(self) -> bytes:
        if self._passage.whole is None or not self._passage.used:
            return self._plain.whole()
        own = self._passage.whole[1]
        fields = openai.read_object(own) or {}
        given = openai.read_text(fields.get("stop_reason"))
        reason = self._stop_reason(given)
        blocks = self._plain.content
        if reason == given and blocks == openai.read_objects(fields.get("content")):
            return own
        return openai.encode({**fields, "content": blocks, "stop_reason": reason})

    # -- events as they came ---------------------------------------------------------------------------------------

    def _release(self) -> None:
        """Send the events up to the first one that the steps have not reached."""
        passes: bool | None = True
        while passes and self._passage.tape and not self._ended:
            item = self._passage.tape[0]
            passes = None if self._changed else self._passes(item)
            if passes is False:
                self._change()
            if self._changed:
                self._say()
                passes = self._writes(item)
            if passes:
                self._passage.done()
        if self._changed:
            self._say()

    def _passes(self, item: Taped) -> bool | None:
        """Send the next event unchanged. None while the steps have not reached it, False if they differ from it."""
        block = item.block
        if block is not None:
            passes = self._call_passes(item, block) if block.kind == "tool_use" else self._text_passes(item, block)
            if not passes:
                return passes
            if item.kind == "content_block_start":
                self._open, block.at = block, self._plain.place(block.spelled)
            elif item.kind == "content_block_stop":
                self._open = None
            self._out.append(item.raw)
        elif item.is_last:
            head = self._said[0] if self._said else None
            if not self._reason:
                if not isinstance(head, Finished) or self._text.size:
                    return None if head is None or item.kind == "error" else False
                self._reason = head.reason
            self._send_last(item)
        elif item.kind == "message_start":
            if not self._plain.begun:
                self._out.append(item.raw)
            self._plain.begun = True
        else:
            self._out.append(item.raw)
        return True

    def _text_passes(self, item: Taped, block: Block) -> bool | None:
        """Whether an event of text passes, or of a block that the exchange does not read.

        A block of text begins once some of its text passes. If all of it is dropped there is no block.
        """
        finished = isinstance(self._said[0], Finished) if self._said else False
        if block.kind != "text":
            return not finished or block.ended or self._open is block
        piece = item.piece or ""
        if not piece and item.kind == "content_block_start":
            if len(self._passage.tape) == 1:
                return False if finished else None
            return self._has_text(self._passage.tape[1].piece or "")
        passes = self._has_text(piece)
        if passes:
            self._text.skip(piece)
        return passes

    def _has_text(self, piece: str) -> bool | None:
        """Whether the exchange emits this text; None while it has emitted only the beginning of it."""
        has = self._text.has(piece)
        gone_on = bool(self._said) and isinstance(self._said[0], CallOpened | Finished)
        return False if has is None and gone_on else has

    def _call_passes(self, item: Taped, block: Block) -> bool | None:
        """Whether an event of a call passes: True once the steps hold all arguments of the call that were received.

        So if arguments are refused, those before the fault in the same read are not sent either.
        """
        said, kind = self._said, item.kind
        needed: list[type] = [_Run] if block.waits else []
        if kind == "content_block_start":
            needed.insert(0, CallOpened)
        elif kind == "content_block_stop":
            needed.append(CallClosed)
        for step, wanted in zip(said, needed, strict=False):
            if not isinstance(step, wanted):
                return False
            if isinstance(step, _Run) and step.size < block.waits:
                return None if step is said[-1] else False
        if len(said) < len(needed):
            return None
        if kind == "content_block_start":
            return self._call_begins(item, block)
        if item.piece:
            run = said[0]
            if not isinstance(run, _Run) or not run.has(item.piece):
                return False
            run.skip(item.piece)
            if not run.size:
                said.popleft()
            block.waits -= len(item.piece)
        if kind == "content_block_stop":
            if not isinstance(said[0], CallClosed):
                return False
            said.popleft()
        return True

    def _call_begins(self, item: Taped, block: Block) -> bool:
        head = self._said[0]
        if not isinstance(head, CallOpened) or head.id != block.content.get("id") or (block.given and block.begun):
            return False
        if head.name != block.content.get("name"):
            _log.info("messages: a call of the upstream's answer was renamed")
            block.spelled = {**block.spelled, "name": openai.raw(head.name)}
            item.raw = event("content_block_start", {**item.value, "content_block": block.spelled})
        self._said.popleft()
        block.call = head.index
        self._calls += 1
        return True

    # -- after the first change ------------------------------------------------------------------------------------

    def _change(self) -> None:
        """Let `plain` write text and calls from here on. An open call continues in its block."""
        if self._changed:
            return
        self._changed = True
        _log.info("messages: the upstream's answer was changed on its way")
        self._out.insert(0, self._plain.leaving())
        if self._passage.whole is not None:
            # Text of its blocks that the exchange emits, too, stays in them.
            ahead = "".join(item.piece or "" for item in self._passage.tape if not item.is_call)
            if self._text.has(ahead):
                self._text.skip(ahead)
                self._written -= {"text"}
        else:
            self._place_text()
        block = self._open
        if block is not None and (call := block.call) is not None:
            self._open = None
            self._plain.go_on(call)
        elif block is not None and block.kind == "text":
            self._stop_open()

    def _place_text(self) -> None:
        """Write the text next. That of a whole answer waits for the first block that is replaced, or for the end."""
        if self._text.size:
            self._said.appendleft(self._text)
            self._text = _Run(None)

    def _stop_open(self) -> None:
        block, self._open = self._open, None
        if block is not None:
            self._out.append(event("content_block_stop", {"index": block.at}))
            block.at = None

    def _say(self) -> None:
        """Write the pending steps, up to a call that begins on the tape: blocks before it go first.

        They wait while a block is open that `plain` does not write.
        """
        while self._said and self._open is None:
            step = self._said[0]
            if isinstance(step, CallOpened) and step.id in self._passage.calls:
                self._close()
                break
            if isinstance(step, CallOpened) and step.id not in self._plain.spelled and self._text.size:
                self._place_text()  # the call was made of text
                continue
            self._said.popleft()
            if isinstance(step, Finished):
                self._reason = step.reason
                continue
            self._calls += isinstance(step, CallOpened)
            self._plain.take(step.as_step() if isinstance(step, _Run) else step)
            self._out.append(self._plain.leaving())

    def _writes(self, item: Taped) -> bool:
        """Handle the next event: text and calls are left out, any other block is sent. False if it has to wait."""
        block, begins = item.block, item.kind == "content_block_start"
        if item.is_last or (begins and block is not None and _replaced(block, self._written, self._said)):
            self._place_text()
            self._say()
        if item.is_last:
            if not self._reason:
                return False
            self._close()
            self._send_last(item)
        elif block is None:
            self._out.append(item.raw)
        elif block.kind not in self._written:
            if begins:
                if not self._reason and self._plain.is_in_call:
                    return False
                if block.ended or not self._reason:
                    self._close()
                    self._open, block.at = block, self._plain.place(block.spelled)
            if block.at is not None:
                same = item.value.get("index") == block.at
                self._out.append(item.raw if same else event(item.kind, {**item.value, "index": block.at}))
            if item.kind == "content_block_stop":
                self._open = None
        elif begins and item.is_call:
            self._plain.spelled[str(block.content.get("id"))] = block.spelled
        return True

    def _close(self) -> None:
        self._plain.close_block()
        self._out.append(self._plain.leaving())

    def _send_last(self, item: Taped) -> None:
        """Send `message_delta` or `message_stop`. After a complete answer an error changes nothing.

        The stop reason is the upstream's unless the client's answer ends for another reason.
        """
        if item.kind == "message_stop":
            self._ended = True
            self._out.append(item.raw)
        elif item.kind == "message_delta":
            self._end_sent = True
            delta = item.value.get("delta")
            own = delta.get("stop_reason") if isinstance(delta, dict) else None
            reason = self._stop_reason(own)
            raw = item.raw
            if own is not None and reason != own and isinstance(delta, dict):
                raw = event("message_delta", {**item.value, "delta": {**delta, "stop_reason": reason}})
            self._out.append(raw)

    def _stop_reason(self, own: Any) -> str:
        """The client's `stop_reason`. own: the upstream's."""
        if isinstance(own, str) and own not in {"end_turn", "tool_use"}:
            return own
        return REASONS.get(self._reason) or ("tool_use" if self._calls else "end_turn")


def _replaced(block: Block, written: Collection[str], said: Sequence[Any]) -> bool:
    """Whether other text is written in place of this block. written: kinds that are. said: the steps from here on."""
    own = bool(said) and isinstance(said[0], CallOpened) and said[0].id == block.content.get("id")
    return block.kind in written and not own


# -- parts of the request that are not read here, but may be tools to an upstream that gets it unchanged ---------------
# They are recognized by the names of members. The content of a call or a tool (`input`, a schema) is only data.


_CARRIERS = CARRIERS | {"definition", "input_schema"}
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_READ = frozenset({
    "text", "image", "document", "search_result", "thinking", "redacted_thinking", "compaction", "fallback",
    "container_upload", "mcp_tool_listing", "tool_result", "tool_reference", *_CALLS,
})  # fmt: skip
_CHANGES = frozenset({"tool_addition", "tool_removal"})
_LONGEST_PATH = 200
_OF_A_TOOL = frozenset({"input_schema", "input_examples", "configs"})


def refuse_unread(name: str, value: Any) -> None:
    """Refuse a request's field (`messages`, `tools` or `mcp_servers`) that holds tools where they are not read.

    Raises ToolCallError `tool_not_allowed`, whose `param` is the path of the member.
    """
    for number, item in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(item, dict):
            continue
        path = f"{name}.{number}"
        if name == "messages":
            _look(item, path, _carries, without={"content"})
            _blocks(item.get("content"), f"{path}.content", str(item.get("role")))
        else:
            _look(item, path, _carries, without=_OF_A_TOOL)


def _blocks(content: Any, path: str, role: str) -> None:
    for number, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, dict):
            continue
        where, kind = f"{path}.{number}", block.get("type")
        if role == "system" and kind in _CHANGES:
            _look(block, where, _carries, without={"tool"})
            tool = block.get("tool")
            definition = tool.get("definition") if isinstance(tool, dict) else None
            if isinstance(definition, dict):
                _look(definition, f"{where}.tool.definition", _carries, without=_OF_A_TOOL)
        elif kind in _READ or str(kind).endswith("_tool_result"):
            data = "input" if kind in _CALLS else "content" if kind == "tool_result" else ""
            _look(block, where, _carries, without={data})
            if kind == "tool_result":
                _blocks(block.get("content"), f"{where}.content", role)
        elif SPEAKS_OF_TOOLS.search(str(kind)):
            raise _refusal(f"{where}.type")
        else:
            _look(block, where, SPEAKS_OF_TOOLS.search)


def _look(
    holder: Mapping[str, Any],
    path: str,
    found: Callable[[str], object],
    *,
    without: frozenset[str] | set[str] = frozenset(),
) -> None:
    """Look through a value for a member whose name says that it holds tools. without: members of `holder`."""
    waiting = [(_within(path, name), name, value) for name, value in holder.items() if name not in without]
    while waiting:
        where, name, value = waiting.pop()
        if value and found(name):
            raise _refusal(where)
        if isinstance(value, dict):
            waiting += [(_within(where, inner), inner, item) for inner, item in value.items()]
        elif isinstance(value, list):
            waiting += [(_within(where, str(number)), "", item) for number, item in enumerate(value)]


def _within(path: str, name: str) -> str:
    """The path of a member, cut because names may be long and a member may hold many."""
    return f"{path}.{name[:_LONGEST_PATH]}"[:_LONGEST_PATH]


def _carries(name: str) -> bool:
    return name.casefold() in _CARRIERS


def _refusal(path: str) -> ToolCallError:
    message = f"Tools are guarded here, and {path} is not read: give tools in the request's own field tools."
    return refusal(path, message, "tool_not_allowed")
