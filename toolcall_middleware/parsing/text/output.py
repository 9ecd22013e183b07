"""The text of an answer that leaves, and what of it is held back.

Prose leaves at once. White space at the start and behind calls waits: it belongs to the markup unless text follows.
"""

from __future__ import annotations

from collections import deque

from ..events import Event, Reasoning, Text

TAIL = 64  # pieces of text, and characters, that are remembered
_MAX_GAP = 1 << 14


class Output:
    """Turns text into events, in order. It knows whether the text is reasoning, and what was written before it."""

    __slots__ = ("_gap_size", "at_start", "carry", "events", "gap", "in_gap", "reasoning", "recent")

    def __init__(self) -> None:
        self.events: list[Event] = []
        """Those of the piece of text that is being read."""
        self.carry = ""
        """Text that cannot be told yet: it is read again with the next piece behind it."""
        self.reasoning: str | None = None
        """The tag that ends the reasoning at hand."""
        self.at_start = True
        """Whether nothing of the answer has left: then a call may begin without a marker."""
        self.in_gap = True
        """Whether the white space that comes next may stand beside a call."""
        self.gap: list[str] = []
        """White space that waits."""
        self._gap_size = 0
        self.recent: deque[str] = deque(maxlen=TAIL)
        """The last of the text that has left."""

    def emit(self, text: str) -> None:
        """Text, or reasoning where it stands in it, leaves."""
        if self.reasoning is not None:
            if self.gap:  # white space behind a call in a fence
                text = self.take_gap() + text
            self.events.append(Reasoning(text))
            return
        self.recent.append(text[-TAIL:])
        if self.in_gap:
            if text.isspace():
                self.hold_gap(text)
                return
            if self.gap:
                text = self.take_gap() + text
            self._gap_size = 0
            self.in_gap = False
            self.at_start = False
        self.events.append(Text(text))

    def emit_reasoning(self, text: str) -> None:
        """Reasoning leaves, whatever waits."""
        if text:
            self.events.append(Reasoning(text))

    def hold_gap(self, text: str) -> None:
        """White space beside calls waits, unless it is more than anybody puts there."""
        self.gap.append(text)
        self._gap_size += len(text)
        if self._gap_size > _MAX_GAP:
            self.events.append(Text("".join(self.gap)))
            self.gap = []

    def take_gap(self) -> str:
        """The white space that waits; it waits no longer."""
        text = "".join(self.gap)
        if text:
            self.gap = []
        return text

    def close_gap(self) -> None:
        """What waited is settled: the next gap may be as long again."""
        self._gap_size = 0

    def call_began(self) -> str:
        """A call is emitted: no text precedes what follows. Returns the white space before the call."""
        self.recent.clear()
        gap = self.take_gap()
        self._gap_size = 0
        self.in_gap = True
        self.at_start = False
        return gap

    def open_reasoning(self, opening: str, close: str) -> None:
        """The tag `opening` leaves. What follows is reasoning, up to `close`."""
        self.reasoning = close
        self.at_start = False  # what only opens an answer does not open in reasoning
        if self.gap:
            self.events.append(Reasoning(self.take_gap(), markup=True))
        self.events.append(Reasoning(opening, markup=True))

    def end_reasoning(self, close: str) -> None:
        """The tag `close` leaves. Behind it the answer begins anew."""
        self.reasoning = None
        self.gap = []  # white space behind a call in the reasoning
        self.events.append(Reasoning(close, markup=True))
        self.restart()

    def restart(self) -> None:
        """What follows is the start of the answer."""
        self.in_gap = True
        self.at_start = True
        self.recent.clear()
