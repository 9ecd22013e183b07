"""Emits a chat stream: content and tool_call deltas, finish reasons, one `[DONE]`. An `Emitter` (stream.py).

An operation on the client's message is a delta: today's `tool_calls`, or the deprecated form. A chunk in which nothing
is to be changed leaves with its own bytes. What is changed keeps its unknown fields: those of the chunk stay on each
chunk made from it, those of its choice (logprobs, token ids) and of its delta leave once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..answer.operations import Arguments, CallOpened, Content, Op, ReasoningText
from ..errors import ToolCallError
from ..usage.meter import UsageMeter, usage_chunk
from ..usage.text_chunk import TypedChoice
from ..wire import openai
from ..wire.openai import Fields, Shell
from ..wire.sse import DONE, ServerEvent
from .chunk import Choice, Part, is_plain
from .release_gate import Gate
from .templates import Template

_encode = msgspec.json.encode
_OWN_FIELDS = frozenset({"index", "delta", "finish_reason"})
_ASSISTANT = openai.raw("assistant")
_MOST_HELD = 64  # chunks without a word at the beginning of an answer


class DeltaWriter:
    """Operations in, the JSON of deltas out.

    legacy: calls leave as the deprecated `function_call`. as_object: arguments are a JSON object, not a string.
    reasoning_field: where reasoning goes that was found in the text; `usage` is told of it.
    """

    __slots__ = ("_as_object", "_legacy", "_reasoning_field", "_usage")

    def __init__(self, usage: UsageMeter, *, legacy: bool, as_object: bool, reasoning_field: str | None) -> None:
        self._usage = usage
        self._legacy = legacy
        self._as_object = as_object
        self._reasoning_field = reasoning_field or "reasoning"

    def _around_arguments(self, op: Arguments) -> tuple[bytes, bytes]:
        """The JSON before and after a piece of a call's arguments, which is a JSON string."""
        if self._legacy:
            return b'{"function_call":{"arguments":', b"}}"
        if op.custom:
            return b'{"tool_calls":[{"index":%d,"custom":{"input":' % op.index, b"}}]}"
        return b'{"tool_calls":[{"index":%d,"function":{"arguments":' % op.index, b"}}]}"

    def frame(self, op: Op) -> tuple[bytes, bytes] | None:
        """The JSON before and after the text of `op`, where that is written as a JSON string."""
        if type(op) is Content:
            return b'{"content":', b"}"
        if type(op) is Arguments and not op.custom and not self._as_object:
            return self._around_arguments(op)
        return None

    def parts(self, op: Op) -> tuple[bytes, ...]:
        """The parts of a delta's JSON."""
        match op:
            case Arguments(_, text):
                before, after = self._around_arguments(op)
                if self._as_object and not op.custom:
                    # They are complete: a call leaves at its end then. A lone surrogate stays an escape.
                    return before, openai.one_line(text.encode("utf-8", "backslashreplace")), after
                return before, openai.encode(text), after
            case Content(text):
                return b'{"content":', openai.encode(text), b"}"
            case ReasoningText(text, names):
                if not names:  # else it is counted
                    self._usage.thought(text)
                return (openai.encode(dict.fromkeys(names or (self._reasoning_field,), text)),)
            case CallOpened(index, call_id, name, custom, extra):
                if self._legacy:
                    return (openai.encode({"function_call": {"name": name, "arguments": ""}}),)
                kind, key = ("custom", "input") if custom else ("function", "arguments")
                call = {"index": index, "id": call_id, "type": kind, kind: {"name": name, key: ""}, **(extra or {})}
                return (openai.encode({"tool_calls": [call]}),)


class ChunkWriter:
    """Parts of chunks in, whole events out.

    top: the fields of the chunk at hand, and of the last one later. unread: a later one, that left as it came.
    """

    __slots__ = ("_deltas", "top", "unread")

    def __init__(self, deltas: DeltaWriter) -> None:
        self._deltas = deltas
        self.top: Fields = {}
        self.unread = b""

    def head(self) -> Fields:
        """The fields of the last chunk."""
        if self.unread:
            self.top, self.unread = openai.read_object(self.unread) or self.top, b""
        return self.top

    def turn_to(self, top: Fields) -> bool:
        """Keep the head of this chunk. True when it holds something that the last one did not."""
        last = self.head()
        self.top = top
        return last is not top and any(
            name not in openai.HEAD
            and name not in {"choices", "usage"}
            and not openai.is_null(value)
            and last.get(name) != value
            for name, value in top.items()
        )

    def frame(self, shell: Shell, op: Op) -> tuple[bytes, bytes] | None:
        """The bytes around the text of `op` in an event of this shell, where that is written as a JSON string."""
        frame = self._deltas.frame(op)
        return None if frame is None else (shell.before + frame[0], frame[1] + shell.after)

    def rewritten(self, choice: Choice, index: int, data: bytes, text: str, ops: list[Op]) -> bytes:
        """The chunks for `data`, of which only its text was read, now that it cannot leave as it came."""
        top = openai.read_object(data) or {}
        fields = (openai.read_objects(top.get("choices")) or [{}])[0]
        delta = openai.read_object(fields.get("delta")) or {}
        chunks: list[bytes] = []
        part = Part(choice, fields, delta, text, ops, None, unchanged=False, index=index)
        self.put(part, chunks, news=self.turn_to(top))
        return b"".join(chunks)

    def put(self, part: Part, out: list[bytes], *, shell: Shell | None = None, news: bool = False) -> None:
        """Chunks for what a part has become. `shell`: of its fields. `news`: its chunk's own fields must leave."""
        choice, fields, reason = part.choice, part.fields, part.reason
        top = self.head()
        rest = {name: value for name, value in part.delta.items() if name != "content" or not part.text}
        if choice.has_role:
            rest.pop("role", None)
        else:
            rest["role"] = _ASSISTANT
            choice.has_role = True
        bare = {"index": fields["index"]}
        if shell is None:
            # A finish_reason has a chunk of its own, and what stands beside it goes there.
            shell = Shell(top, bare if reason is not None else fields)
        for number, op in enumerate(part.ops):
            delta = self._deltas.parts(op)
            if number == 0 and rest:
                made = openai.read_object(b"".join(delta)) or {}
                if any(name in made and not openai.is_null(rest.get(name)) for name in openai.REASONING_FIELDS):
                    # The backend's own reasoning, before a thought in its text.
                    out.append(shell.around(_encode(rest)))
                    shell = Shell(top, bare)
                else:
                    delta = (_encode({**rest, **made}),)
            elif number == 1:
                shell = Shell(top, bare)
            # In parts: a whole call may be long, and is joined once.
            out += (shell.before, *delta, shell.after)
        if not part.ops:
            extras = reason is None and says_beside(fields)
            if extras or any(not openai.is_null(value) for value in rest.values()) or (news and reason is None):
                out.append(shell.around(_encode(rest)))
        if reason is not None:
            out.append(self._finish_chunk(fields, reason, choice))

    def _finish_chunk(self, fields: Fields, reason: str, choice: Choice) -> bytes:
        """An empty delta with the finish_reason."""
        delta = {"content": ""} if choice.owes_content and not choice.answer.calls else {}
        last = {**fields, "delta": delta, "finish_reason": reason, **choice.answer.stop_reason}
        body = {name: value for name, value in self.top.items() if name != "usage"}
        return openai.event(openai.encode({**body, "choices": [last], **choice.answer.extras}))


class Opening:
    """The chunk that opens an answer with a role and empty content: held until it shows whether that is text.

    An answer of calls alone has `content: null`, streamed or whole; one of text keeps the bytes of its first chunk.
    `is_held`: it waits for what is said first, and so does all that is behind it. Not for ever: an answer that goes on
    to say nothing leaves as it comes.
    """

    __slots__ = ("_as_it_is", "_choice", "_gate", "_null", "_writer")

    def __init__(self, writer: ChunkWriter, gate: Gate[bytes]) -> None:
        self._writer = writer
        self._gate = gate
        self._choice: Choice | None = None
        self._as_it_is: list[bytes] = []
        self._null: list[bytes] = []

    @property
    def is_held(self) -> bool:
        """Whether anything waits."""
        return self._choice is not None

    def holds(self, event: ServerEvent, part: Part) -> bool:
        """Whether `event`, of which `part` was read, is kept. Only what comes before all else is."""
        choice = part.choice
        if not part.opens or (choice.has_role and not self.is_held):
            return False
        if len(self._as_it_is) >= _MOST_HELD:
            self._gate.said = True
            return False
        if not self.is_held:
            self._writer.put(msgspec.structs.replace(part, delta={**part.delta, "content": openai.NULL}), self._null)
            choice.has_role = False
        if part.unchanged:
            self._as_it_is.append(event.raw)
            choice.has_role = True
        else:
            self._writer.put(part, self._as_it_is)
        self._choice = choice
        self._gate.wait()
        return True

    def take(self) -> list[bytes]:
        """What was kept, now that it may leave."""
        choice, self._choice = self._choice, None
        return self._null if choice is not None and choice.answer.calls else self._as_it_is


class ChatEmitter:
    """Writes the chunks of a chat answer. See `Emitter`.

    include_usage: the client asked for the usage chunk. legacy, as_object, reasoning_field: see `DeltaWriter`.
    """

    def __init__(
        self,
        usage: UsageMeter,
        gate: Gate[bytes],
        *,
        include_usage: bool,
        legacy: bool = False,
        as_object: bool = False,
        reasoning_field: str | None = None,
    ) -> None:
        self.gate = gate
        self.opens = False
        self.fault: ToolCallError | None = None
        self._usage = usage
        self._include_usage = include_usage
        self._usage_event = b""  # the backend's own, if it can go to the client as it is
        self._writer = ChunkWriter(
            DeltaWriter(usage, legacy=legacy, as_object=as_object, reasoning_field=reasoning_field)
        )
        self._opening = Opening(self._writer, gate)
        self.head = self._writer.head
        self.turn_to = self._writer.turn_to

    @property
    def top(self) -> Fields:
        return self._writer.top

    def usual(self, raw: bytes, template: Template, text: str, ops: list[Op]) -> bytes:
        if len(ops) == 1:
            op = ops[0]
            if type(op) is Content and op.text == text:
                return raw
            if (filled := template.filled(op, text)) is not None:
                return filled
        out: list[bytes] = []
        self.repeated(raw, template, text, ops, out)
        return b"".join(out)

    def repeated(
        self, raw: bytes, template: Template, text: str, ops: list[Op], out: list[bytes], *, news: bool = False
    ) -> None:
        if not template.answer.message.stopped:
            if len(ops) == 1:
                op = ops[0]
                if type(op) is Content and op.text == text:
                    out.append(raw)
                    return
                if (filled := template.filled(op, text)) is not None:
                    out.append(filled)
                    return
            elif not ops and text and template.silent and not news:
                return
        if is_plain(ops, text):
            if text or not template.answer.calls:  # nothing is no content after calls
                out.append(raw)
            return
        part, writer = template.part, self._writer
        part.text, part.ops = text, ops
        before = len(out)
        writer.put(part, out, shell=template.shell, news=news)
        if ops:
            op = ops[-1]
            template.expect(op, writer.frame(template.shell, op), silent=not says_beside(part.fields))
        else:
            template.silent = len(out) == before
        ops.clear()

    def typed(
        self, raw: bytes, data: bytes, typed: TypedChoice, choice: Choice, ops: list[Op], out: list[bytes], /
    ) -> None:
        text = typed.delta.content or ""
        if len(ops) == 1 and type(only := ops[0]) is Content and only.text == text:
            self._writer.unread = data
            out.append(raw)
        else:
            out.append(self._writer.rewritten(choice, typed.index, data, text, ops))

    def holds(self, event: ServerEvent, part: Part) -> bool:
        return self._opening.holds(event, part)

    def chunk(self, raw: bytes | None, parts: list[Part], out: list[bytes], *, news: bool) -> bool:
        if raw is not None and all(part.unchanged for part in parts):
            out.append(raw)
            for part in parts:
                part.choice.has_role = True
            return True
        for part in parts:
            self._writer.put(part, out, news=news)
            news = False
        return True

    def rest(self, part: Part, out: list[bytes]) -> None:
        self._writer.put(part, out)

    def comment(self, raw: bytes, out: list[bytes]) -> None:
        out.append(raw)

    beside = odd = comment

    def counted(self, raw: bytes, usage: Any, top: Fields) -> None:  # noqa: ARG002 - the bytes have it
        self._usage_event = raw
        self._writer.top = self._writer.head() or top

    def opening(self) -> list[bytes]:
        return self._opening.take() if self._opening.is_held else []

    def joined(self, out: list[bytes]) -> bytes:
        return out[0] if len(out) == 1 else b"".join(out)

    def end(self) -> bytes:
        if not self._include_usage:
            return DONE
        return (self._usage_event or usage_chunk(self._writer.head(), self._usage)) + DONE


def says_beside(fields: Fields) -> bool:
    """Whether a chunk's choice says something beside its delta."""
    return any(name not in _OWN_FIELDS and not openai.is_null(value) for name, value in fields.items())
