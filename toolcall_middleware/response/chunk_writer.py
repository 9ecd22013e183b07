"""Emits a chat stream: content and tool_call deltas, finish reasons, one `[DONE]`. An `Emitter` (stream.py).

An operation on the client's message becomes a delta, with `tool_calls` or the deprecated `function_call`. An unchanged
chunk is emitted with its own bytes. A changed chunk keeps its unknown fields: the chunk's own are on each chunk
made from it; those of its choice (logprobs, token ids) and of its delta are emitted once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..answer.operations import Arguments, CallClosed, CallOpened, Content, Op, ReasoningText
from ..errors import ToolCallError
from ..request.parse import ChatRequest
from ..settings import Settings
from ..usage.meter import UsageMeter, usage_chunk
from ..wire import openai
from ..wire.openai import Fields, Frame
from ..wire.sse import DONE, ServerEvent
from .chunk import Choice, Part, Template, says_beside
from .stream import Gate

_encode = msgspec.json.encode
_Written = Content | ReasoningText | CallOpened | Arguments
"""A chat stream does not say that a call is closed."""
_ASSISTANT = openai.raw("assistant")
_BEFORE_ARGUMENTS = b'{"tool_calls":[{"index":%d,"function":{"arguments":'
_MOST_HELD = 64  # chunks without a word at the beginning of an answer


class ChatEmitter:
    """Writes the chunks of a chat answer. See `Emitter`."""

    def __init__(self, chat: ChatRequest, settings: Settings, usage: UsageMeter, gate: Gate[bytes]) -> None:
        self.gate = gate
        self.opens = False
        self.fault: ToolCallError | None = None
        self._usage = usage
        self._include_usage = chat.include_usage
        self._usage_event = b""  # the backend's own, if it can be emitted unchanged
        self._legacy = chat.legacy
        self._as_object = settings.arguments_as_object
        self._reasoning_field = settings.reasoning_field or "reasoning"
        self.top: Fields = {}
        # The chunk that opens an answer with a role and empty content is held until the answer has text or a call. An
        # answer of calls alone has `content: null`, streamed or whole; one of text keeps the bytes of its first chunk.
        self._held_for: Choice | None = None  # it waits for text or a call, and so do all later chunks
        self._as_it_came: list[bytes] = []
        self._with_null: list[bytes] = []

    def usual(self, raw: bytes, template: Template, text: str, ops: list[Op]) -> bytes:
        left = self._repeated(raw, template, text, ops)
        if left is not None:
            return left
        out: list[bytes] = []
        self._changed(template, text, ops, out)
        return b"".join(out)

    def repeated(self, raw: bytes, template: Template, text: str, ops: list[Op], out: list[bytes]) -> None:
        left = self._repeated(raw, template, text, ops)
        if left is None:
            self._changed(template, text, ops, out)
            return
        self.top = template.top
        if left:
            out.append(left)

    def _repeated(self, raw: bytes, template: Template, text: str, ops: list[Op]) -> bytes | None:
        """The event for a chunk that fits a template; None where it must be put together."""
        if len(ops) > 1:
            ops = [op for op in ops if type(op) is not CallClosed]
        op = ops[0] if len(ops) == 1 else None
        if type(op) is Content and op.text == text:
            return raw
        if template.is_bare and (type(op) is Arguments or type(op) is Content or type(op) is ReasoningText):
            # A piece that is all of the text keeps its spelling.
            delta = self._delta(op, template.written if op.text is text else None)
            return b"".join(delta).join(template.frame)
        if not ops and not text:
            return b"" if template.answer.message.calls else raw  # empty content is not emitted after calls
        return b"" if not ops and template.is_silent and template.top is self.top else None

    def _changed(self, template: Template, text: str, ops: list[Op], out: list[bytes]) -> None:
        """Emit chunks for a chunk that fits a template, whose text gave other operations."""
        template.complete()
        part = template.part
        news = self.turn_to(template.top)
        part.text, part.ops = text, ops
        self.put(part, out, frame=template.frame, news=news)
        ops.clear()

    def holds(self, event: ServerEvent, part: Part) -> bool:
        choice, begins = part.choice, self._held_for is None
        if not part.opens or (choice.has_role and begins):
            return False
        if len(self._as_it_came) >= _MOST_HELD:  # such an answer is no longer held
            self.gate.said = True
            return False
        if begins:
            self.put(msgspec.structs.replace(part, delta={**part.delta, "content": openai.NULL}), self._with_null)
            choice.has_role = False
        if part.unchanged:
            self._as_it_came.append(event.raw)
            choice.has_role = True
        else:
            self.put(part, self._as_it_came)
        self._held_for = choice
        self.gate.wait()
        return True

    def chunk(self, raw: bytes | None, parts: list[Part], out: list[bytes], *, news: bool) -> bool:
        if raw is not None and all(part.unchanged for part in parts):
            out.append(raw)
            for part in parts:
                part.choice.has_role = True
            return True
        for part in parts:
            self.put(part, out, news=news)
            news = False
        return True

    def comment(self, raw: bytes, out: list[bytes]) -> None:
        out.append(raw)

    beside = odd = comment

    def counted(self, raw: bytes, usage: Any, top: Fields) -> None:  # noqa: ARG002 - the bytes have it
        self._usage_event = raw
        self.top = self.top or top

    def opening(self) -> list[bytes]:
        choice, self._held_for = self._held_for, None
        if choice is None:
            return []
        return self._with_null if choice.answer.message.calls else self._as_it_came

    def joined(self, out: list[bytes]) -> bytes:
        return out[0] if len(out) == 1 else b"".join(out)

    def end(self) -> bytes:
        if not self._include_usage:
            return DONE
        return (self._usage_event or usage_chunk(self.top, self._usage)) + DONE

    # -- chunks --------------------------------------------------------------------------------------------------

    def turn_to(self, top: Fields) -> bool:
        """Keep the head of this chunk. True when it holds something that the last one did not."""
        last, self.top = self.top, top
        return last is not top and any(
            name not in openai.HEAD
            and name not in {"choices", "usage"}
            and not openai.is_null(value)
            and last.get(name) != value
            for name, value in top.items()
        )

    def put(self, part: Part, out: list[bytes], *, frame: Frame | None = None, news: bool = False) -> None:
        """Emit chunks for a part. `frame`: of its fields. `news`: its chunk's own new fields must be emitted."""
        choice, fields, reason = part.choice, part.fields, part.reason
        top = self.top
        rest = {name: value for name, value in part.delta.items() if name != "content" or not part.text}
        if choice.has_role:
            rest.pop("role", None)
        else:
            rest["role"] = _ASSISTANT
            choice.has_role = True
        bare = {"index": fields["index"]}
        if frame is None:
            # A finish_reason has its own chunk, which also holds the other fields of the choice.
            frame = openai.frame_of_delta(top, bare if reason is not None else fields)
        ops = [op for op in part.ops if not isinstance(op, CallClosed)]
        for number, op in enumerate(ops):
            delta = self._delta(op)
            if number == 0 and rest:
                made = openai.read_object(b"".join(delta)) or {}
                if any(name in made and not openai.is_null(rest.get(name)) for name in openai.REASONING_FIELDS):
                    # The backend's own reasoning, before a thought in its text.
                    out.append(_encode(rest).join(frame))
                    frame = openai.frame_of_delta(top, bare)
                else:
                    delta = (_encode({**rest, **made}),)
            elif number == 1:
                frame = openai.frame_of_delta(top, bare)
            # In parts, because a whole call may be long: it is joined once.
            out += (frame[0], *delta, frame[1])
        if not ops:
            extras = reason is None and says_beside(fields)
            if extras or any(not openai.is_null(value) for value in rest.values()) or (news and reason is None):
                out.append(_encode(rest).join(frame))
        if reason is not None:
            out.append(self._finish_chunk(fields, reason, choice))

    def _finish_chunk(self, fields: Fields, reason: str, choice: Choice) -> bytes:
        """An empty delta with the finish_reason."""
        delta = {"content": ""} if choice.owes_content and not choice.answer.message.calls else {}
        last = {**fields, "delta": delta, "finish_reason": reason, **choice.answer.stop_reason}
        body = {name: value for name, value in self.top.items() if name != "usage"}
        return openai.event(openai.encode({**body, "choices": [last], **choice.answer.message.extras}))

    # -- deltas --------------------------------------------------------------------------------------------------

    def _delta(self, op: _Written, written: bytes | None = None) -> tuple[bytes, ...]:
        """The parts of a delta's JSON. written: the operation's text as a JSON string, where it is known."""
        if isinstance(op, Arguments):
            if self._as_object and not op.custom:
                # Such a call is emitted once complete, so this is all of it. A lone surrogate stays an escape.
                written = openai.one_line(op.text.encode("utf-8", "backslashreplace"))
            written = written or openai.encode(op.text)
            if self._legacy:
                return b'{"function_call":{"arguments":', written, b"}}"
            before = b'{"tool_calls":[{"index":%d,"custom":{"input":' if op.custom else _BEFORE_ARGUMENTS
            return before % op.index, written, b"}}]}"
        if isinstance(op, Content):
            return b'{"content":', openai.encode(op.text), b"}"
        if isinstance(op, ReasoningText):
            if not op.names:  # else it is counted
                self._usage.thought(op.text)
            return (openai.encode(dict.fromkeys(op.names or (self._reasoning_field,), op.text)),)
        if self._legacy:
            return (openai.encode({"function_call": {"name": op.name, "arguments": ""}}),)
        kind, key = ("custom", "input") if op.custom else ("function", "arguments")
        call = {"index": op.index, "id": op.id, "type": kind, kind: {"name": op.name, key: ""}, **(op.extra or {})}
        return (openai.encode({"tool_calls": [call]}),)
