"""One block at a time: the steps of an answer, put in the order in which an API of blocks or items can hold them.

Shared by the writers of Messages and Responses. Calls come one after another. Text and thoughts may come while a call
is open (a backend with calls of its own writes text between two pieces of one); they wait until it is closed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from ..answer.operations import Arguments, CallClosed, CallOpened, Content, Image, ReasoningText, Refusal, Signed, Step
from ..wire import openai


class Kind(enum.Enum):
    """What a block holds."""

    TEXT = "text"
    THOUGHT = "thought"
    CALL = "call"
    IMAGE = "image"


_KINDS = {Content: Kind.TEXT, Refusal: Kind.TEXT, ReasoningText: Kind.THOUGHT, Signed: Kind.THOUGHT, Image: Kind.IMAGE}


class Sink(Protocol):
    """What writes the blocks: one is open at a time."""

    def open(self, kind: Kind, call: CallOpened | None, /) -> None: ...
    def add(self, step: Step, /) -> None: ...
    def close(self, *, complete: bool) -> None: ...


class Serial:
    """Takes steps; opens, fills and closes the blocks of `sink`.

    blanks: whether white space alone makes a block; else it waits for more of its kind and is dropped without.
    kind: of the open block; None where none is. calls: how many there are.
    """

    __slots__ = ("_blank", "_blank_kind", "_blanks", "_call", "_complete", "_sink", "_waiting", "calls", "kind")

    def __init__(self, sink: Sink, *, blanks: bool) -> None:
        self._sink = sink
        self._blanks = blanks
        self._blank: list[Step] = []
        self._blank_kind: Kind | None = None
        self._call: int | None = None  # the call whose arguments may go on
        self._complete = False  # what is known of the call in the open block
        self._waiting: list[Step] = []
        self.calls = 0
        self.kind: Kind | None = None

    @property
    def call(self) -> int | None:
        """The call whose arguments may go on; text waits for it. None where there is none."""
        return self._call

    def take(self, step: Step) -> None:
        """The next step: text, thoughts, a call, more of its arguments, its end."""
        match step:
            case CallOpened():
                self._close_call()
                self._blank.clear()
                self._open(Kind.CALL, step)
                self._call, self._complete = step.index, False
                self.calls += 1
            case Arguments():
                if step.index == self._call and step.text:
                    self._sink.add(step)
            case CallClosed():
                # Behind a call that was cut nothing is emitted before the answer ends well.
                if step.index == self._call and step.complete:
                    self._close_call()
            case _ if self._call is not None:
                self._waiting.append(step)
            case _:
                self._say(step)

    def finish(self, *, complete: bool) -> None:
        """Nothing more comes. complete: the block that is open now has all of its text."""
        if self._call is not None:
            self._call, waiting, self._waiting = None, self._waiting, []
            for step in waiting:
                self._say(step)
        self._close(complete=complete)

    def _say(self, step: Step) -> None:
        kind = _KINDS[type(step)]
        if kind is not self.kind or kind is Kind.IMAGE:
            if not self._blanks and getattr(step, "text", "").isspace():
                if kind is not self._blank_kind:
                    self._blank.clear()
                self._blank_kind = kind
                self._blank.append(step)
                return
            held, self._blank = self._blank, []
            self._open(kind, None)
            for blank in held if kind is self._blank_kind else ():
                self._sink.add(blank)
        self._sink.add(step)

    def _close_call(self) -> None:
        """The arguments are over: what waited for that goes on. The block is closed by the next one, or the end."""
        if self._call is None:
            return
        self._call, self._complete = None, True
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            self._say(step)

    def _open(self, kind: Kind, call: CallOpened | None) -> None:
        self._close(complete=True)
        self.kind = kind
        self._sink.open(kind, call)

    def _close(self, *, complete: bool) -> None:
        if self.kind is not None:
            self._sink.close(complete=complete if self.kind is not Kind.CALL else self._complete)
            self.kind = None


# -- the token counts of a chat completion -----------------------------------------------------------------------------


class Tokens(NamedTuple):
    """prompt, written: None where the backend does not count them. cached, thought: parts of these."""

    prompt: int | None
    written: int | None
    cached: int
    thought: int
    total: int


def tokens_of(usage: Any) -> Tokens:
    """The counts in a usage object; none where it is no object."""
    numbers = usage if isinstance(usage, dict) else {}
    prompt, written = _count(numbers.get("prompt_tokens")), openai.output_tokens(numbers)
    written = _count(numbers.get("completion_tokens")) if written is None else written
    return Tokens(
        prompt,
        written,
        _detail(numbers, "prompt_tokens_details", "cached_tokens"),
        _detail(numbers, "completion_tokens_details", "reasoning_tokens"),
        _count(numbers.get("total_tokens")) or (prompt or 0) + (written or 0),
    )


def _detail(numbers: dict[str, Any], group: str, name: str) -> int:
    details = numbers.get(group)
    return (_count(details.get(name)) or 0) if isinstance(details, dict) else 0


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


# -- text that has bytes -----------------------------------------------------------------------------------------------

_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile(r"[\ud800-\udfff]")
# Characters that are looked at in one step, which no other thread can interrupt.
_PIECE = 16 * 1024


def whole_text(text: str) -> str:
    """The text without lone surrogates, which have no bytes: two that fit are joined, others are U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(_whole_pieces(text))
    return text


def _whole_pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = at + _PIECE
        if _PAIR.match(text, end - 1):
            end += 1
        yield _HALF.sub("\ufffd", _PAIR.sub(_joined, text[at:end]))
        at = end


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")
