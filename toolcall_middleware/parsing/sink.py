"""Collects the events that the readers of call syntax report, and keeps, emits or drops the raw text they consume.

Text that arrives in pieces is collected by `Gathered`, and cut before a client's stop string by `StopFinder`.
"""

from __future__ import annotations

import enum
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Text, UnknownCall

_MANY = 1024


class Gathered:
    """Collects text. It takes about as many bytes as the text has characters of ASCII: a piece of four characters takes
    sixty bytes in a list.
    """

    __slots__ = ("_joined", "_small")

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._small: list[str] = []

    def write(self, text: str) -> None:
        """Append `text`."""
        self._small.append(text)
        if len(self._small) == _MANY:
            self._joined.append("".join(self._small))
            self._small.clear()

    def take(self) -> str:
        """Return all of the text and clear it."""
        text = "".join([*self._joined, *self._small])
        self._joined.clear()
        self._small.clear()
        return text


@dataclass(slots=True, eq=False)
class _State:
    """What the text ends with: the beginning of a stop string, `depth` characters of it.

    `found`: the length of the longest stop string that ends here, 0 for none. `shorter`: the state of the longest end
    of this one that also begins a stop string.
    """

    depth: int
    ways: dict[str, _State] = field(default_factory=dict)
    found: int = 0
    shorter: _State | None = None


class StopFinder:
    """Cuts text before the first stop string. Holds back the longest end that may be the beginning of one.

    One automaton for all of them (Aho and Corasick, 1975): a character costs the same, however many there are.
    """

    __slots__ = ("_begin", "_carry", "_root", "_state", "found")

    def __init__(self, stops: tuple[str, ...]) -> None:
        stops = tuple(stop for stop in stops if stop)
        self._root = self._state = _automaton(stops)
        firsts = "".join(map(re.escape, sorted({stop[0] for stop in stops})))
        self._begin = re.compile(f"[{firsts}]" if firsts else r"(?!)")
        self._carry = ""
        self.found: str | None = None

    def feed(self, text: str) -> str:
        """Return the text that is safe to emit. Returns nothing once `found` is set."""
        if self.found is not None:
            return ""
        root, state, begin = self._root, self._state, self._begin
        at, size = 0, len(text)
        while at < size:
            if state is root:
                begins = begin.search(text, at)
                if begins is None:
                    break
                at = begins.start()
            char = text[at]
            at += 1
            way = state.ways.get(char)
            while way is None and state.shorter is not None:
                state = state.shorter
                way = state.ways.get(char)
            state = way or root
            if state.found:
                return self._cut(text, at, state.found)
        self._state = state
        text = self._carry + text
        keep = len(text) - state.depth
        self._carry = text[keep:]
        return text[:keep]

    def _cut(self, text: str, end: int, length: int) -> str:
        # The one that is complete first, as the model writes; of two that end together the longer.
        whole = self._carry + text[:end]
        self.found = whole[-length:]
        self._carry = ""
        return whole[:-length]

    def flush(self) -> str:
        """Return the text held back: something other than text follows."""
        text, self._carry = self._carry, ""
        self._state = self._root
        return text


def _automaton(stops: tuple[str, ...]) -> _State:
    root = _State(0)
    for stop in stops:
        at = root
        for char in stop:
            at = at.ways.setdefault(char, _State(at.depth + 1))
        at.found = len(stop)
    queue = deque([root])
    while queue:
        state = queue.popleft()
        for char, way in state.ways.items():
            before = state.shorter
            while before is not None and char not in before.ways:
                before = before.shorter
            way.shorter = root if before is None else before.ways[char]
            way.found = way.found or way.shorter.found
            queue.append(way)
    return root


Flow = Callable[[str], str | None]
"""Takes the next text within a long string of the arguments, and returns the JSON to emit. None: the text may hold more
than that, nothing of it was read, and the reader of the calls reads it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """How a reader treats text that may be no call. Filled from the settings of the same names."""

    unknown_tool: str = "text"
    """A call of a name that is not offered: `text`, `drop`, `forward` or `error` (a `Malformed` event is added)."""
    parse_reasoning: bool = False
    in_thought: bool = False
    """Whether all of the text is a thought: what only opens an answer may be the thought's last lines, too."""
    keep_raw: bool = False
    """Whether `CallEnd.raw` is filled."""
    keep_complete: bool = True
    """Whether it is filled for calls that are complete, too."""
    keep_arguments: bool = False
    """Whether `CallEnd.written` is filled."""
    any_arguments: frozenset[str] | None = frozenset()
    """Tools whose calls may have any JSON as arguments; None: all. Others are text where theirs is no object."""
    tell_unknown: bool = False
    """Whether the parser reports calls of tools not offered (`UnknownCall`): these are emitted as text, or dropped."""


DEFAULTS = ReaderOptions()


class Mode(enum.Enum):
    """What happens to the raw text that a body consumes."""

    HOLD = 0  # kept until it is known whether it was markup
    CALL = 1  # the markup of a call that is emitted
    TEXT = 2  # a refused call: emitted as text
    DROP = 3  # a refused call: dropped
    REFUSED = 4  # a refused call: reported as malformed when it is complete


# A member by its name costs a call of Python code (up to 3.11), and these are asked of each chunk.
_HOLD, _CALL, _TEXT, _DROP, _REFUSED = Mode


@dataclass(slots=True, eq=False)
class WrittenArguments:
    """What a model wrote for a call's arguments, where that is kept for clients that repair arguments themselves.

    Where a syntax has JSON for them, they are that text: the reader of the JSON adds it to `value`. In any other syntax
    they are all text between the call's opening and its closing marker: brackets and their content (`(x=1, y=)` of
    Python, `{x:1` of Gemma), elements (`<parameter=x>1`), or a message's text. No reader gathers that: the sink does.
    """

    value: list[str] = field(default_factory=list)
    _after_name: list[str] = field(default_factory=list)

    def forget(self) -> None:
        """Drop the text gathered so far: it was not part of a call."""
        self.value.clear()

    def passes(self, raw: str) -> None:
        """Add text of the call that follows its name."""
        self._after_name.append(raw)

    def take(self, closing: tuple[str, ...] | None) -> str:
        """Return the text and clear it: the call is over.

        closing: markers, one of which may end the call; None where the text after its name is not known to be its
        arguments, or needs no repair.
        """
        text = "".join(self.value)
        if not text and closing is not None:
            text = "".join(self._after_name).lstrip()
            marker = next((marker for marker in closing if marker and text.endswith(marker)), "")
            if marker:
                text = text[: -len(marker)].rstrip()  # the line break before it is layout
        self.value.clear()
        self._after_name.clear()
        return text


@dataclass(slots=True, eq=False)
class Sink:
    """Collects the events of one parser.

    The cursor accounts for the raw text up to a start or an end before it reports it: the two never mix.
    """

    offered: Callable[[str], bool]  # whether the request offers this name
    schema: Callable[[str], Mapping[str, Any] | None]  # a tool's `parameters` by its name
    emit_text: Callable[[str], None]
    options: ReaderOptions = DEFAULTS
    meant: Callable[[str], str] = str  # the offered name for one that is another spelling of it
    call_began: Callable[[], str] = str  # takes the white space before a call that is emitted
    arguments: WrittenArguments | None = field(init=False)  # those of the open call, where they are kept
    keep_raw: bool = field(init=False)
    events: list[Event] = field(default_factory=list)
    mode: Mode = _HOLD
    held: list[str] = field(default_factory=list)
    opening: int = 0  # characters of `held` that opened the body
    calls: int = 0  # calls started in this answer
    committed: bool = False  # whether the body at hand has decided that there is a call
    message_follows: bool = False  # after this markup the text of a message begins, which is parsed as any other text
    in_messages: bool = False  # the answer consists of messages with headers (harmony)
    flow: Flow | None = None  # takes the next text: see `flows`
    written: str | None = None  # the name of the call at hand as the model wrote it, if it was another
    in_reasoning: bool = False
    learned: tuple[str, ...] = ()  # spellings of the model's own that a family has met in this answer
    stopped_at: str | None = None  # the marker of another role's turn, after a call
    coerced: bool = False  # a value of the open call was given the type that the schema asks for
    _unknown_name: str = ""  # the name of the call at hand, which is not offered
    _refused: bool = False  # the last call of this body was emitted as text
    _kept: Gathered = field(default_factory=Gathered)
    # Where raw text is kept, a call's end is held back until its closing marker, which follows the arguments, has been
    # read.
    _ended: CallEnd | str | None = None  # without its raw text; or the name that is not offered
    _ended_at: int = 0  # where it belongs in `events`

    def __post_init__(self) -> None:
        self.arguments = WrittenArguments() if self.options.keep_arguments else None
        self.keep_raw = self.options.keep_raw

    def takes_any(self, name: str) -> bool:
        """Whether a call of this name may have any JSON as arguments, or is refused for its name."""
        if self.options.any_arguments is None or not (self.offered(name) or self.options.unknown_tool == "forward"):
            return True
        return self.meant(name) in self.options.any_arguments

    def tell_unreadable(self, name: str) -> None:
        """A call of this name is text, because its arguments are no object."""
        if self.options.tell_unknown:
            self.events.append(UnknownCall(self.meant(name), malformed=True))

    def start(self, name: str, call_id: str | None = None) -> None:
        """A call's name is complete. The text that was consumed since the last decision belongs to it."""
        self.report_end()
        self.coerced = self._refused = False
        raw = "".join(self.held)
        self.held = []
        self.opening = 0
        if (meant := self.meant(name)) != name:
            name, self.written = meant, name
        if self.offered(name) or (name and self.options.unknown_tool == "forward"):
            self.calls += 1
            self.committed = True
            self.mode = _CALL
            gap = self.call_began()
            if self.keep_raw:
                self._kept.write(gap + raw)
            self.events.append(CallStart(name, call_id, None, self.written, self.in_reasoning))
            return
        if self.options.tell_unknown and self.options.unknown_tool != "error":
            self._unknown_name = name
        if self.options.unknown_tool == "drop":
            self.mode = _DROP
            self.committed = True
            return
        if self.options.unknown_tool == "error":
            if self.keep_raw:
                self.mode = _REFUSED
                self.committed = True
                self._kept.write(raw)
                self._ended = name
                return
            self.events.append(Malformed(raw, "unknown_tool", name))
        self.mode = _TEXT
        if raw:
            self.emit_text(raw)

    def args(self, text: str) -> None:
        """A piece of the open call's arguments."""
        if text and self.mode is _CALL:
            self.events.append(CallArgs(text))

    def flows(self, flow: Flow) -> None:
        """All text was read, and `flow` may be given the next text of the open call's arguments directly."""
        if self.mode is _CALL and not self.keep_raw and self.arguments is None:
            self.flow = flow

    def end(self, *, complete: bool = True, repaired: bool = False, closing: tuple[str, ...] | None = None) -> None:
        """The open call is over. closing: see `WrittenArguments.take`."""
        written = "" if self.arguments is None else self.arguments.take(closing)
        if self.mode is _CALL:
            end = CallEnd(complete, repaired, coerced=self.coerced, written=written)
            if self.keep_raw:
                self._ended = end
            else:
                self.events.append(end)
            self.written = None
        elif self._unknown_name:
            self.events.append(UnknownCall(self._unknown_name))
            self._unknown_name = ""
        self._ended_at = len(self.events)
        self._refused = self.mode is _TEXT
        self.mode = _HOLD

    def skip(self, raw: str) -> None:
        """`raw` follows a call that broke off: it is the call's markup, or text where the call is refused."""
        if not self._refused:
            self.consumed(raw)
        elif raw:
            self.emit_text(raw)

    def close(self) -> None:
        """The text after the last call ends what holds the calls. After a refused call its owner is not known."""
        if self.committed and not self._refused:
            self.ends_with("".join(self.held))
            self.held = []

    def accept(self) -> None:
        """All text consumed, before and after this, is markup, with or without a call; `emit_text` emits text."""
        self.committed = True
        self.held = []
        self.opening = 0
        self.mode = _DROP

    def hold(self) -> None:
        """The text that is consumed from here on may be a call once more."""
        self.mode = _HOLD

    def says(self, text: str) -> None:
        """Emit text that the syntax of the calls holds after them, unless the last call was refused."""
        if self.committed and not self._refused:
            self.emit_text(text)

    def emit_reasoning(self, text: str) -> None:
        """Text of a reasoning channel."""
        if text:
            self.events.append(Reasoning(text, channel=True))

    def end_reasoning(self) -> None:
        """The text of that channel is over."""
        self.events.append(Reasoning("", markup=True, channel=True))

    def consumed(self, raw: str) -> None:
        """Take raw text that the body has consumed without a decision."""
        if self.mode is _CALL or self.mode is _REFUSED:
            if self.keep_raw:
                self._kept.write(raw)
            if self.arguments is not None:
                self.arguments.passes(raw)
        elif self.mode is _HOLD:
            self.held.append(raw)
        elif self.mode is _TEXT and raw:
            self.emit_text(raw)

    # -- the raw text of a call, where it is kept ------------------------------------------------------------------

    def ends_with(self, text: str) -> None:
        """Add markup to the call whose end is held back."""
        if self._ended is not None:
            if self.mode is _REFUSED:
                self._ended_at = len(self.events)  # the call has broken off: its end follows this text
            self._kept.write(text)

    def resume(self) -> None:
        """The parser has handed out its events: a new list takes the next ones."""
        self._ended_at = 0

    def report_end(self, *, others: bool = False) -> None:
        """Report the end that is held back, if any; `others`: only if another event was reported since."""
        ended = self._ended
        if ended is None or (others and (len(self.events) == self._ended_at or self.mode is _REFUSED)):
            return
        self._ended = None
        if not isinstance(ended, str) and ended.complete and not self.options.keep_complete:
            self._kept = Gathered()
        raw = self._kept.take()
        if isinstance(ended, CallEnd):
            self.events.insert(self._ended_at, msgspec.structs.replace(ended, raw=raw))
        else:
            self.events.insert(self._ended_at, Malformed(raw, "unknown_tool", ended))
            self.events.insert(self._ended_at + 1, Text(raw))
