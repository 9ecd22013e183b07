"""Writes an answer that an Anthropic upstream gave as Messages: the upstream's own events, while the exchange agrees.

The exchange reads the same answer as chat chunks and emits its steps. An event of text or of a call is sent once the
steps say the same. From the first event that the exchange changed (a call was refused or coerced, prose was dropped),
`MessageWriter` writes text and calls from the steps, and only the other blocks (thoughts, server tools) are sent as
they came.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from ...answer.operations import Arguments, CallClosed, CallOpened, Content, Finished, Step
from ...errors import ToolCallError
from ..passage import DELTAS, Block, Passage, Taped
from .client.request import Asked
from .client.writer import PING, Errors, MessageWriter, event, usage_of
from .passed import Run, Said, passed_whole, stop_reason

_log = logging.getLogger("toolcall_middleware")


class PassedWriter:
    """Writes one answer (`AnswerWriter`). plain: writes all of it if the upstream got a translated request."""

    def __init__(self, passage: Passage, plain: MessageWriter, errors: Errors, asked: Asked) -> None:
        self.in_use = False
        self._passage = passage
        self._plain = plain
        self._errors = errors
        self._asked = asked
        # Steps that the exchange emitted and the client does not have: text, and in `_said` calls and the end. Text may
        # overtake the end of a call. Once the answer is changed, `_said` holds all of them.
        self._text = Run(None)
        self._said: deque[Said] = deque()
        self._later: list[Said] = []  # steps that wait for the end of the upstream's open call
        self._out: list[bytes] = []
        self._open: Block | None = None  # the upstream's block whose start was sent to the client
        self._count = 0  # blocks sent as they came
        self._calls = 0
        self._reason = ""
        self._changed = False  # `plain` writes text and calls
        self._begun = False
        self._end_sent = False  # `message_delta` is sent
        self._ended = False
        self._taken = False  # a step was taken since events were last sent; without one they must wait

    @property
    def over(self) -> bool:
        return self._ended or self._plain.over

    def begin(self) -> None:
        """Write the first events now. Those of the upstream are then left out."""
        if not self._begun:
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
                if not isinstance(last, Run) or last.call != call:
                    last = Run(call)
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
        if self.over or not self._asked.stream:
            return
        self._release()
        if self._ended:
            return
        self._change()
        self._passage.calls.clear()
        self._close()
        self._ended = True
        if not self._end_sent:
            delta = {"stop_reason": stop_reason(None, self._reason, self._calls), "stop_sequence": None}
            counts = usage_of(usage, input_estimate=self._asked.estimate, output_estimate=1)
            self._out.append(event("message_delta", {"delta": delta, "usage": counts}))
        self._out.append(event("message_stop", {}))

    def fail(self, error: ToolCallError, /) -> None:
        """The last event of a stream that fails, after the text before it. Nothing more of a call is sent."""
        if not self._passage.used:
            self._plain.fail(error)
        elif not self.over:
            waiting = self._passage.tape
            while waiting and not self._changed and not waiting[0].is_call and self._passes():
                self._passage.done()
            own = waiting[-1] if waiting else None
            is_error = own is not None and own.kind == "error"
            self._out.append(own.raw if own is not None and is_error else self._errors.event(error))
            self._ended = True

    def alive(self) -> None:
        if not self._passage.used:
            self._plain.alive()
        elif (self._begun or self._plain.begun) and not self.over:
            self._out.append(PING)

    def leaving(self) -> bytes:
        if self._taken and not self.over:
            self._taken = False
            self._release()
        out = self._plain.leaving() + b"".join(self._out)
        self._out.clear()
        return out

    def whole(self) -> bytes:
        return passed_whole(self._passage, [self._text, *self._said]) if self._passage.used else self._plain.whole()

    # -- events as they came ---------------------------------------------------------------------------------------

    def _release(self) -> None:
        """Send the events up to the first one that the steps have not reached."""
        while self._passage.tape and not self._ended:
            passes = None if self._changed else self._passes()
            if passes is False:
                self._change()
            if self._changed:
                self._say()
                passes = self._writes()
            if not passes:
                break
            self._passage.done()
        if self._changed:
            self._say()

    def _passes(self) -> bool | None:
        """Send the next event unchanged. None while the steps have not reached it, False if they differ from it."""
        item = self._passage.tape[0]
        block, kind = item.block, item.kind
        head = self._said[0] if self._said else None
        if kind in {"message_delta", "message_stop", "error"} and not self._reason:
            if not isinstance(head, Finished) or self._text.size:
                return None if head is None or kind == "error" else False
            self._reason = head.reason
        if kind == "message_delta":
            self._send_end(item)
        elif kind == "message_start":
            if not self._plain.begun:
                self._out.append(item.raw)
            self._begun = True
        elif kind == "error":
            pass  # after a complete answer an error changes nothing
        elif block is None:
            self._ended = kind == "message_stop"
            self._out.append(item.raw)
        else:
            passes = self._call_passes(item, block) if block.kind == "tool_use" else self._text_passes(item, block)
            if not passes:
                return passes
            if kind == "content_block_start":
                self._open, block.at = block, self._count
                self._count += 1
            elif kind == "content_block_stop":
                self._open = None
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
        needed: list[type] = [Run] if block.waits else []
        if kind == "content_block_start":
            needed.insert(0, CallOpened)
        elif kind == "content_block_stop":
            needed.append(CallClosed)
        for step, wanted in zip(said, needed, strict=False):
            if not isinstance(step, wanted):
                return False
            if isinstance(step, Run) and step.size < block.waits:
                return None if step is said[-1] else False
        if len(said) < len(needed):
            return None
        if kind == "content_block_start":
            return self._call_begins(item, block)
        if item.piece:
            run = said[0]
            if not isinstance(run, Run) or not run.has(item.piece):
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
            _log.info("messages: a call of the upstream's stream was renamed")
            renamed = {**block.content, "name": head.name}
            item.raw = event("content_block_start", {**item.value, "content_block": renamed})
        self._said.popleft()
        block.call = head.index
        self._calls += 1
        return True

    # -- after the first change ------------------------------------------------------------------------------------

    def _change(self) -> None:
        """Let `plain` write text and calls from here on. A call that has begun goes on in its block."""
        if self._changed:
            return
        self._changed = True
        _log.info("messages: the upstream's stream was changed on its way")
        self._out.insert(0, self._plain.leaving())
        if self._text.size:
            self._said.appendleft(self._text)
        if self._begun:
            self._plain.begin()
        for _ in range(self._count):
            self._plain.place()
        self._plain.leaving()  # the client has all of it
        if self._open is not None and self._open.kind == "text":
            self._stop_open()

    def _say(self) -> None:
        """Write the pending steps, up to a call whose upstream events are still on the tape: blocks before it go first.

        The steps wait while an upstream block other than a call is open.
        """
        while self._said:
            step, block = self._said[0], self._open
            if block is not None and block.kind != "tool_use":
                break
            if isinstance(step, CallOpened) and step.id in self._passage.calls and block is None:
                break
            self._said.popleft()
            if block is not None and isinstance(step, Run):
                if step.call == block.call:
                    delta = {"type": "input_json_delta", "partial_json": step.rest()}
                    self._out.append(event("content_block_delta", {"index": block.at, "delta": delta}))
                else:
                    self._later.append(step)
                continue
            if block is not None:
                self._stop_open()
                self._said.extendleft(reversed([*self._later, step]))
                self._later.clear()
                continue
            if isinstance(step, Finished):
                self._reason = step.reason
                continue
            self._calls += isinstance(step, CallOpened)
            self._plain.take(step.as_step() if isinstance(step, Run) else step)
            self._out.append(self._plain.leaving())

    def _writes(self) -> bool:
        """Handle the next event: text and calls are left out. False while an open call must be finished first."""
        item = self._passage.tape[0]
        block, kind = item.block, item.kind
        if kind in {"message_delta", "message_stop", "error"}:
            if not self._reason:
                return False
            self._close()
            if kind == "message_delta":
                self._send_end(item)
            elif kind == "message_stop":
                self._ended = True
                self._out.append(item.raw)
        elif block is None:
            self._out.append(item.raw)
        elif block is self._open and block.kind not in DELTAS:
            self._out.append(_numbered(item, block.at))
            if kind == "content_block_stop":
                self._open = None
        elif kind == "content_block_start" and block.kind not in DELTAS and (block.ended or not self._reason):
            if not self._reason and (self._open is not None or self._plain.is_in_call):
                return False
            self._close()
            self._open, block.at = block, self._plain.place()
            self._out += (self._plain.leaving(), _numbered(item, block.at))
        return True

    def _close(self) -> None:
        """End the open block, after the pending steps."""
        if self._open is not None and self._open.kind != "tool_use":
            self._stop_open()
        self._say()
        self._plain.close_block()
        self._out.append(self._plain.leaving())
        if self._open is not None:
            self._stop_open()

    def _stop_open(self) -> None:
        assert self._open is not None  # noqa: S101 - the caller has looked
        self._out.append(event("content_block_stop", {"index": self._open.at}))
        self._open = None

    def _send_end(self, item: Taped) -> None:
        """Send `message_delta` with the upstream's stop reason, unless the client's answer ends for another reason."""
        self._end_sent = True
        delta = item.value.get("delta")
        own = delta.get("stop_reason") if isinstance(delta, dict) else None
        reason = stop_reason(own, self._reason, self._calls)
        if own is None or reason == own or not isinstance(delta, dict):
            self._out.append(item.raw)
        else:
            self._out.append(event("message_delta", {**item.value, "delta": {**delta, "stop_reason": reason}}))


def _numbered(item: Taped, at: int | None) -> bytes:
    """The bytes of an event, with another index where the client counts the block differently."""
    return item.raw if item.value.get("index") == at else event(item.kind, {**item.value, "index": at})
