"""Templates of chunks: most of an answer's chunks repeat an earlier one of their choice to the byte, but for the text.

A chunk that fits a template needs no JSON decoder but for its text, and what leaves for it is put between bytes that
were made once. Every other chunk goes the full way (stream.py).
"""

from __future__ import annotations

import msgspec

from ..answer.operations import Arguments, Content, Op
from ..usage.text_chunk import MAX_UNLIKE, TypedChoice, read_by_type
from ..wire import openai
from ..wire.openai import Fields, Shape, Shell
from ..wire.sse import ServerEvent
from .chunk import Part

MAX_TEMPLATES = 16
"""Choices of one stream that have a template. Those of more choices are read in full: nothing grows with them."""

Frame = tuple[bytes, bytes]
"""The bytes of an event before and after a JSON string in it."""

_read_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode


class Template:
    """A chunk that others may resemble in all but their text.

    part: what it says of its choice. shell: the event that leaves, around its delta. met: another one fitted.
    silent: no event leaves for a chunk of whose text nothing leaves yet. written: the JSON string that `text_of` read
    last.
    """

    __slots__ = (
        "_arguments_frame", "_arguments_index", "_text_frame", "answer", "around", "choice", "index", "met", "middle",
        "part", "shell", "silent", "top", "written",
    )  # fmt: skip

    def __init__(self, shape: Shape, part: Part, top: Fields) -> None:
        self.around = shape.around
        self.middle = shape.middle
        self.part = part
        self.choice = part.choice
        self.answer = part.choice.answer
        self.index = part.index
        self.top = top
        self.shell = Shell(top, part.fields)
        self.met = False
        self.silent = False
        self.written = b""
        self._text_frame: Frame | None = None
        self._arguments_frame: Frame = (b"", b"")
        self._arguments_index = -1

    def text_of(self, raw: bytes) -> str | None:
        """The text of an event that fits, else None."""
        written = raw[self.middle]
        if written.join(self.around) != raw:  # quicker than to look at both ends
            return None
        self.written = written
        try:
            return _read_text(written)
        except openai.FAILURES:
            return None

    def filled(self, op: Op, read: str) -> bytes | None:
        """The event for a piece of text or of a call's arguments, where a chunk of this template became one before.

        read: what `text_of` read last. A piece that is all of it leaves as it was written.
        """
        if type(op) is Arguments and op.index == self._arguments_index:
            before, after = self._arguments_frame
        elif type(op) is Content and self._text_frame is not None:
            before, after = self._text_frame
        else:
            return None
        text = op.text
        if text is read:
            return before + self.written + after
        return before + (_encode(text) if text.isascii() else openai.encode(text)) + after

    def expect(self, op: Op, frame: Frame | None, *, silent: bool) -> None:
        """Remember the frame of an operation: more chunks become one like it. silent: nothing stands beside it."""
        if frame is None or not self.part.delta.keys() <= {"content", "role"}:
            return
        if type(op) is Content:
            self._text_frame = frame
        elif type(op) is Arguments:
            self._text_frame = None
            self._arguments_frame, self._arguments_index = frame, op.index
            self.silent = self.silent or silent


class Templates:
    """The templates of one stream, at most one a choice. `last`: the one that fitted last."""

    __slots__ = ("_by_choice", "_unlike", "_untyped", "last")

    def __init__(self) -> None:
        self._by_choice: dict[int, Template] = {}
        self.last: Template | None = None
        self._unlike = 0  # chunks in a row that no template fitted, although their choice had one
        self._untyped = 0  # those of them that could not be read by their type either

    def find(self, raw: bytes) -> tuple[Template, str] | None:
        """The template that the event `raw` fits, and its text."""
        last = self.last
        if last is None:
            return None
        text = last.text_of(raw)
        if text is not None:
            return last, text
        if len(self._by_choice) > 1:  # choices take turns
            for template in self._by_choice.values():
                if template is not last and (text := template.text_of(raw)) is not None:
                    self.last = template
                    return template, text
        return None

    @property
    def are_several(self) -> bool:
        """Whether choices take turns."""
        return len(self._by_choice) > 1

    @property
    def are_useless(self) -> bool:
        """Whether no two chunks of this stream are alike. They are told by their type then, while that goes."""
        return self._unlike >= MAX_UNLIKE and self._untyped < MAX_UNLIKE

    def read_typed(self, data: bytes) -> TypedChoice | None:
        """The choice of a chunk that holds text alone, told by its type; None for any other."""
        try:
            choice = read_by_type(data).choices[0]
        except openai.FAILURES:
            self._untyped += 1
            return None
        return choice

    def note_typed(self) -> None:
        """A chunk was told by its type."""
        self._untyped = 0

    def learn(self, event: ServerEvent, part: Part, top: Fields) -> None:
        """Remember the chunk of `event` as the template of its choice: more of the answer looks like it."""
        index = part.index
        template = self._by_choice.get(index)
        if template is not None:
            self._unlike = 0 if template.met else self._unlike + 1
        if self._unlike >= MAX_UNLIKE:
            self.clear()
            return
        content, data = part.delta.get("content"), event.data
        if not part.text or part.reason is not None or content is None or data is None:
            return
        shape = Shape.of(data, content)
        shape = None if shape is None else shape.in_event(event.raw, data)
        if shape is None or (template is None and len(self._by_choice) >= MAX_TEMPLATES):
            self.forget(index)
            return
        self.last = self._by_choice[index] = Template(shape, part, self._shared(top))

    def _shared(self, top: Fields) -> Fields:
        """The top of another template where it is the same: whether it changed is asked of each chunk."""
        items = _of_answer(top)
        return next((other.top for other in self._by_choice.values() if _of_answer(other.top) == items), top)

    def forget(self, index: int) -> None:
        """What comes next of a choice is not to be taken for more of the same."""
        if self._by_choice.pop(index, None) is self.last:
            self.last = next(iter(self._by_choice.values()), None)

    def clear(self) -> None:
        """Forget all of them."""
        self._by_choice.clear()
        self.last = None


def _of_answer(top: Fields) -> list[tuple[str, msgspec.Raw | None]]:
    """The fields of a chunk, but for what its choices are."""
    return [(name, None if name == "choices" else value) for name, value in top.items()]
