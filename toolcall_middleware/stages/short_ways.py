"""Ways on which a chunk need not be read by all that stands in its way: past the parser, or right to what it asks.

`StreamRewriter.feed` takes them; here is when they open, and what is told when they close.
"""

from __future__ import annotations

import msgspec

from ..parsing.lane import Way
from ..wire import openai
from .alike import Flow, Known, Past
from .usage import UsageMeter

MAX_PASSED = 32  # pieces, and bytes of one, that go past the parser before it is told
MAX_PIECE = 1024
_MAX_FLOWED = 1 << 14
_STRINGS = 2  # so many pieces of a string in a row, and more are likely
_encode = msgspec.json.encode


class ShortWays:
    """The part of a `StreamRewriter` that opens and closes them.

    stopped: nothing that the backend could still send is wanted.
    """

    def __init__(self, usage: UsageMeter, *, counts: bool) -> None:
        self._usage = usage
        self._counts = counts  # whether it is told of text
        self._known: Known | None = None
        self._past: Past | None = None  # what needs no parser just now
        self._flow: Flow | None = None  # ... and what needs but a reader of arguments
        self._over = False  # the backend said [DONE], or failed
        self.stopped = False

    def _open_past(self, known: Known) -> None:
        """Let the next chunks go past the parser, if its state allows it."""
        answer = known.part.choice.answer
        lane = answer.lane
        if lane is None or self._over or self.stopped or known is not self._known:
            return
        index = answer.calls - 1 if lane.way is Way.ARGUMENTS else -1
        past = known.past
        if past is None or past.lane is not lane or past.index != index:
            frame = known.frames.get(index) if lane.way is Way.ARGUMENTS else None
            if frame is None and lane.way is Way.ARGUMENTS:
                return
            past = known.past = Past(known, lane, index, frame)
        self._past = past

    def _open_flow(self, known: Known) -> bool:
        """Let the next chunks go to what reads the arguments at hand, without a question on the way."""
        answer = known.part.choice.answer
        run, index = answer.run, answer.calls - 1
        if run is None or not known.silent or known is not self._known or index not in known.frames:
            return False
        flow = known.flow
        if flow is None or flow.index != index or flow.run != run:
            flow = known.flow = Flow(known, run, index)
        self._flow = flow
        return True

    def _flowed(self, flow: Flow, text: str, said: str) -> bytes:
        """What leaves for a chunk of `text`, of which `said` are arguments."""
        if self._counts:
            self._usage.wrote(text, flow.known.part.index)
        if not said:
            return b""
        if said.isascii():
            written = _encode(said)
            flow.size += len(said)
        else:
            written = openai.encode(said)
            flow.size += len(said.encode("utf-8", "surrogatepass"))
        if said == text:
            flow.strings += 1
            if flow.strings >= _STRINGS:
                flow.strings = 0
                self._open_past(flow.known)
        else:
            flow.strings = 0
        if flow.size > _MAX_FLOWED:
            self._close_flow()
        return b"".join((flow.head, written, flow.foot))

    def _close_flow(self) -> None:
        """Tell the choice how much has left."""
        flow, self._flow = self._flow, None
        if flow is not None:
            flow.known.part.choice.answer.ran(flow.size)
            flow.size = flow.strings = 0

    def _close_past(self) -> None:
        """Tell the parser of what has gone past it."""
        past, self._past = self._past, None
        if past is not None and past.passed:
            text: str = openai.read_text(b'"' + b"".join(past.passed) + b'"') or ""
            past.passed.clear()
            part = past.known.part
            if self._counts:
                self._usage.wrote(text, part.index)
            part.choice.answer.went_by(past.lane, text)
