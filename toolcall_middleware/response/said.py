"""Turns a chat delta or message into steps for an `AnswerWriter`.

Operations hold what was read in the text. Here the fields are read that a chat answer passes through as they are:
reasoning in the backend's own fields, a refusal, signed thoughts, the reason it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..answer.operations import (
    Alive,
    AnswerWriter,
    Arguments,
    CallOpened,
    Content,
    Finished,
    Image,
    Op,
    Opened,
    ReasoningText,
    Refusal,
    Signed,
    Step,
)
from ..errors import ToolCallError
from ..usage.meter import UsageMeter, remarks_of
from ..wire import openai
from ..wire.openai import Fields
from ..wire.sse import ServerEvent
from .choice import ChoiceAnswer
from .chunk import Part, Template
from .stream import Emitter, Gate

_PIECES = frozenset({Content, Arguments})
_LATEST = 1 << 40  # seconds since 1970: a larger number is not a time


def opened(top: Fields) -> Opened:
    """The first step of an answer whose first chunk, or whole body, has these fields."""
    created = openai.read_value(top.get("created"))
    known = isinstance(created, int | float) and not isinstance(created, bool) and 0 < created < _LATEST
    return Opened(openai.read_text(top.get("model")), int(created) if known else None)


def say(fields: Fields, ops: list[Op], out: list[Step]) -> bool:
    """Add the steps for a delta or message of which `ops` were read, and for its other fields. Return whether these
    others say nothing.
    """
    before = len(out)
    own, read = text_of(fields.get("reasoning_content")), text_of(fields.get("reasoning"))
    if own and read and not read.startswith(own):
        out.append(ReasoningText(own, ("reasoning_content",)))
    if own or read:  # some backends send the same under both names
        out.append(ReasoningText(read or own, ("reasoning",)))
    details = openai.read_value(fields.get("reasoning_details"))
    if isinstance(details, list) and (signed := [one for one in details if isinstance(one, dict)]):
        out.append(Signed(signed))
    refusal = text_of(fields.get("refusal"))
    between: list[Step] = [Refusal(refusal)] if refusal else []
    between += images_of(fields)
    first = next((at for at, op in enumerate(ops) if type(op) is CallOpened), len(ops)) if between else len(ops)
    out += ops[:first]
    out += between
    out += ops[first:]
    return len(out) == before + len(ops)


def images_of(fields: Fields) -> Iterator[Image]:
    """The images of a delta or message: parts of its content, or of another list (OpenRouter, LiteLLM)."""
    for name in ("content", "images"):
        raw = fields.get(name)
        for part in openai.read_value(raw) if raw is not None and bytes(raw).startswith(b"[") else ():
            match part:
                case {"image_url": {"url": str(url)}}:
                    yield Image(url)


def finished(answer: ChoiceAnswer, fields: Fields, reason: str) -> Finished:
    """The last step of a choice with these fields."""
    matched: Any = answer.stop_reason.get("stop_reason")
    if matched is None:
        matched = openai.read_value(fields.get("stop_reason") or fields.get("matched_stop"))
    return Finished(reason, matched, answer.message.extras)


class StepEmitter(Emitter[Step]):
    """Gives an `AnswerWriter` the steps of an answer: those of its first choice."""

    def __init__(self, usage: UsageMeter, gate: Gate[Step], writer: AnswerWriter) -> None:
        super().__init__(usage, gate)
        self._writer = writer
        self._own_usage: Any = None  # the backend's, as a value
        self._opened = False

    def turn_to(self, top: Fields, /) -> bool:
        self.top = top
        return False

    def usual(self, raw: bytes, template: Template, text: str, ops: list[Op], /) -> bytes | None:
        if not ops or template.index != 0:
            return b""
        if len(ops) == 1 and self._opened and type(op := ops[0]) in _PIECES and op.text:  # type: ignore[union-attr]
            try:
                return self._writer.say(op)  # type: ignore[arg-type]
            except ToolCallError as error:
                self.fault = error
                return None
        out: list[Step] = []
        self.repeated(raw, template, text, ops, out)
        return self.joined(out)

    def repeated(self, _raw: bytes, template: Template, _text: str, ops: list[Op], out: list[Step], /) -> None:
        self._put(template.index, ops, out)

    def holds(self, _event: ServerEvent, part: Part, /) -> bool:
        """Hold a chunk with a role alone, so that an error before the first text is still an HTTP response."""
        self.opens = self.opens or (part.opens and not self._opened)
        return part.opens and not self._opened

    def chunk(self, _raw: bytes | None, parts: list[Part], out: list[Step], /, *, news: bool) -> bool:
        del news
        repeats = False
        for part in parts:
            steps: list[Step] = []
            repeats = say(part.delta, part.ops, steps)
            if part.reason is not None:
                steps.append(finished(part.choice, part.fields, part.reason))
            self._put(part.index, steps, out, begins=not openai.is_null(part.delta.get("role")))
        return repeats

    def unread(self, _raw: bytes, out: list[Step], /, *, comment: bool = False) -> None:
        if comment:
            out.append(Alive())

    def odd(self, _raw: bytes, _out: list[Step], /) -> None:
        self.fault = ToolCallError("upstream_error", "A chunk of the answer is no JSON.")

    def counted(self, _raw: bytes, usage: Any, _top: Fields, /) -> None:
        self._own_usage = usage

    def joined(self, out: list[Step], /) -> bytes:
        try:
            for step in out:
                self._writer.take(step)
        except ToolCallError as error:
            self.fault = error
        return self._writer.leaving()

    def end(self) -> bytes:
        own = self._own_usage
        self._writer.end(own or self._usage.total(), {} if own else remarks_of(self._usage))
        return self._writer.leaving()

    def _put(self, index: int, steps: Sequence[Step], out: list[Step], *, begins: bool = False) -> None:
        """Emit the steps of a choice. begins: begin the answer even without steps."""
        if index != 0:
            return
        for step in steps:
            if type(step) is ReasoningText and not step.names:  # else it is counted
                self._usage.thought(step.text, index)
        if (steps or begins) and not self._opened:
            self._opened = True
            out.append(opened(self.top))
        out += steps


def text_of(raw: Any) -> str:
    """A field that is a string, or a list of parts with text."""
    if raw is None:
        return ""
    value = openai.read_value(raw)
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return value if isinstance(value, str) else ""
