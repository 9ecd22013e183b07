"""Fast paths for chunks that repeat an earlier one: only their text is read, and what leaves around it is known."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..usage.meter import UsageMeter
from ..wire import openai
from ..wire.openai import Shape, Shell
from ..wire.sse import ServerEvent
from .choice import ChoiceAnswer
from .chunk import Part, is_plain
from .chunk_writer import ChunkWriter, says_beside
from .fast_path import MAX_UNLIKE, Known, read_by_type
from .operations import Arguments, Content, Op
from .stream_state import StreamState

_encode = msgspec.json.encode


class ShortWays(StreamState):
    """The part of a `StreamRewriter` that takes them."""

    def __init__(
        self,
        make_choice: Callable[[], ChoiceAnswer],
        usage: UsageMeter,
        writer: ChunkWriter,
        *,
        expected: int,
        counts: bool,
    ) -> None:
        super().__init__(make_choice, expected)
        self._usage = usage
        self._counts = counts  # whether it is told of text
        self._writer = writer
        self._known: Known | None = None
        self._unlike = 0  # chunks in a row
        self._untyped = 0  # ... that could not be told by their type either
        self._odd = b""  # an event that is no JSON, and waits for the next

    def _end_events(self) -> None:
        super()._end_events()
        self._known = None

    # -- chunks that are like another ----------------------------------------------------------------------------

    def _learn(self, event: ServerEvent, part: Part) -> None:
        """Remember this chunk: most of an answer looks like it."""
        content = part.delta.get("content")
        if self._known is not None:
            self._unlike = 0 if self._known.met else self._unlike + 1
        if self._unlike >= MAX_UNLIKE:
            self._known = None  # from here on they are told by their type
            return
        if not part.text:
            return
        if part.reason is None and content is not None and event.data is not None:
            shape = Shape.of(event.data, content)
            shape = None if shape is None else shape.in_event(event.raw, event.data)
            top = self._writer.top
            self._known = None if shape is None else Known(shape, part, top, Shell(top, part.fields))

    def _text_chunk(self, raw: bytes, known: Known, text: str) -> bytes:
        """What leaves for the event `raw`, which differs from an earlier one in its content alone."""
        news = self._writer.top is not known.top and self._writer.turn_to(known.top)
        part = known.part
        choice = part.choice
        known.met = True
        if choice.finished:
            return b""
        if self._counts:
            self._usage.wrote(text, part.index)
        answer = choice.answer
        said = answer.read(text)
        if isinstance(said, str):
            index = answer.calls - 1
            if said and (frame := known.frames.get(index)) is not None:
                return b"".join((frame[0], _encode(said) if said.isascii() else openai.encode(said), frame[1]))
            if not said and text and known.silent and not news:
                return b""
            ops: list[Op] = [Arguments(index, said)] if said else []
        else:
            ops = said
        if len(ops) == 1 and not answer.stopped:
            op = ops[0]
            if type(op) is Content:
                if op.text == text:
                    return raw
                if (frame := known.frames.get(-1)) is not None:
                    return b"".join((frame[0], openai.encode(op.text), frame[1]))
        elif not ops and not answer.stopped and text and known.silent and not news:
            return b""
        self._see_stop()
        if is_plain(ops, text):
            return raw
        part.text, part.ops = text, ops
        out: list[bytes] = []
        self._writer.put(part, out, shell=known.shell, news=news)
        self._expect(known, silent=not out)
        ops.clear()
        self._blame(choice)
        return b"".join(out)

    def _expect(self, known: Known, *, silent: bool) -> None:
        """Prepare for more chunks like this one: with no effect, or with one piece of text or arguments."""
        op = known.part.ops[-1] if known.part.ops else None
        if op is None:
            known.silent = silent
        else:
            self._frame(known, op)

    def _frame(self, known: Known, op: Op) -> None:
        """What stands around pieces like `op`, where chunks like this one become them."""
        if known.part.delta.keys() <= {"content", "role"}:
            frame = self._writer.frame(known.shell, op)
            if frame is not None and type(op) is Content:
                known.frames[-1] = frame
            elif frame is not None and type(op) is Arguments:
                known.frames = {op.index: frame}
                known.silent = known.silent or not says_beside(known.part.fields)

    def _typed_chunk(self, raw: bytes, data: bytes) -> bytes | None:
        """What leaves for the event `raw`, which says some text, and beside it what only the client reads.

        None: it says something else, and nothing of it has been read.
        """
        if self._odd or self._untyped >= MAX_UNLIKE:
            return None
        try:
            said = read_by_type(data).choices[0]
        except openai.FAILURES:
            self._untyped += 1
            return None
        index, text = said.index, said.delta.content
        choice = self._choices.get(index)
        if choice is None or choice.finished or not text:
            return None
        answer = choice.answer
        if answer.thinks:
            return None  # what comes in its reasoning field has to end first
        self._untyped = 0
        if self._counts:
            self._usage.wrote(text, index)
        ops = answer.feed(text)
        out = raw
        if len(ops) == 1 and type(only := ops[0]) is Content and only.text == text:
            self._writer.unread = data
        else:
            top = openai.read_object(data) or {}
            fields = (openai.read_objects(top.get("choices")) or [{}])[0]
            delta = openai.read_object(fields.get("delta")) or {}
            news = self._writer.turn_to(top)
            chunks: list[bytes] = []
            part = Part(choice, fields, delta, text, ops, None, unchanged=False, index=index)
            self._writer.put(part, chunks, news=news)
            out = b"".join(chunks)
        if answer.stopped:
            self._see_stop()
            self._blame(choice)
        return out
