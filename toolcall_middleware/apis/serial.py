"""One block at a time: the steps of an answer, put in the order in which an API of blocks or items can hold them.

Shared by the writers of Messages and Responses. Calls come one after another. Text and thoughts may come while a call
is open (a backend with calls of its own writes text between two pieces of one); they wait until it is closed.
"""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..answer.operations import (
    Arguments,
    CallClosed,
    CallOpened,
    Content,
    Finished,
    Image,
    ReasoningText,
    Refusal,
    Signed,
    Step,
)
from ..errors import ToolCallError
from ..parsing.calls.call_arguments import HALF_ESCAPE
from ..wire import openai

BROKEN_OFF = "The stream broke off before the answer was complete."


class Kind(enum.Enum):
    """What a block holds."""

    TEXT = "text"
    THOUGHT = "thought"
    CALL = "call"
    IMAGE = "image"


_KINDS = {Content: Kind.TEXT, Refusal: Kind.TEXT, ReasoningText: Kind.THOUGHT, Signed: Kind.THOUGHT, Image: Kind.IMAGE}


class BlockWriter(ABC):
    """Writes an answer as blocks, one open at a time: the part of an `AnswerWriter` that both APIs share.

    blanks: whether white space alone makes a block; else it is held back, and dropped if no text of its kind follows.
    kind: of the open block, None without one. call: the index of the open call, for whose end text waits. calls: the
    number of calls. begun: the first events are written.
    """

    def __init__(self, *, blanks: bool) -> None:
        self._blanks = blanks
        self._blank: list[Step] = []
        self._blank_kind: Kind | None = None
        self._complete = False  # whether the call in the open block is complete
        self._waiting: list[Step] = []
        self.call: int | None = None
        self.calls = 0
        self.kind: Kind | None = None
        self._out: list[bytes] = []
        self._plain: type | None = None  # every step of this type is a delta of the open block
        self._finished: Finished | None = None
        self._remarks: dict[str, Any] = {}
        self._whole: dict[str, Any] = {}
        self.begun = False
        self.over = False
        self.in_use = False
        self.dropped_images = 0

    @abstractmethod
    def _open(self, kind: Kind, call: CallOpened | None) -> None:
        """Begin a block."""

    @abstractmethod
    def _add(self, step: Step) -> None:
        """Add a step to the open block."""

    @abstractmethod
    def _close(self, *, complete: bool) -> None:
        """End the open block. complete: it has all of its text."""

    @abstractmethod
    def _end(self, finished: Finished, usage: Any) -> dict[str, Any]:
        """Write the last events; return the whole answer, to which `_remarks` are added."""

    @abstractmethod
    def fail(self, error: ToolCallError, /) -> None:
        """As `AnswerWriter.fail`."""

    def end(self, usage: Any, remarks: dict[str, Any], /) -> None:
        """As `AnswerWriter.end`."""
        if self.over:
            return
        if self._finished is None:
            self.fail(ToolCallError("upstream_error", BROKEN_OFF))
            return
        for name, said in remarks.items():
            self._remarks[name] = {**self._remarks.get(name, {}), **said}
        self.over, self._plain = True, None
        self._whole = self._end(self._finished, usage)

    def leaving(self) -> bytes:
        """As `AnswerWriter.leaving`."""
        out = b"".join(self._out)
        self._out.clear()
        return out

    def whole(self) -> bytes:
        """As `AnswerWriter.whole`."""
        self._out.clear()
        return openai.encode({**self._whole, **{n: v for n, v in self._remarks.items() if n not in self._whole}})

    def _block(self, step: Step) -> None:
        """Take the next step of a block: text, thoughts, a call, more of its arguments, its end."""
        match step:
            case CallOpened():
                self._close_call()
                self._blank.clear()
                self._begin_block(Kind.CALL, step)
                self.call, self._complete = step.index, False
                self.calls += 1
            case Arguments():
                if step.index == self.call and step.text:
                    self._add(step)
            case CallClosed():
                # After a call that was cut nothing is emitted until the answer ends without an error.
                if step.index == self.call and step.complete:
                    self._close_call()
            case _ if self.call is not None:
                self._waiting.append(step)
            case _:
                self._say(step)

    def _finish_blocks(self, *, complete: bool) -> None:
        """End the last block. complete: the block that is open now has all of its text."""
        self._close_call(complete=False)
        self._end_block(complete=complete)

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
            self._begin_block(kind, None)
            for blank in held if kind is self._blank_kind else ():
                self._add(blank)
        self._add(step)

    def _close_call(self, *, complete: bool = True) -> None:
        """End the call's arguments and take the steps that waited. The next block or the end closes its block."""
        if self.call is None:
            return
        self.call, self._complete = None, complete
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            self._say(step)

    def _begin_block(self, kind: Kind, call: CallOpened | None) -> None:
        self._end_block(complete=True)
        self.kind = kind
        self._open(kind, call)

    def _end_block(self, *, complete: bool) -> None:
        if self.kind is not None:
            self._close(complete=complete if self.kind is not Kind.CALL else self._complete)
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
    """The counts in a usage object; empty if it is not an object."""
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


# -- text as UTF-8 ----------------------------------------------------------------------------------------------------

_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile(r"[\ud800-\udfff]")
# Characters that are searched in one step, which no other thread can interrupt.
_PIECE = 16 * 1024


def whole_text(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode: pairs are joined, others become U+FFFD."""
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


# -- JSON in pieces without escapes of lone surrogates ----------------------------------------------------------------
# Models write `"\ud83d"` alone where a character is cut. JSON allows it, but the reader of Anthropic's SDK for Python
# does not, and the whole stream fails there. U+FFFD takes its place, as it does for one that is no escape.

_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rf"""(?P<open>{HALF_ESCAPE.pattern})
    | {_HIGH}\\u[dD][c-fC-F][0-9a-fA-F]{{2}} | (?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{{2}}) | \\.""",
    re.DOTALL | re.VERBOSE,
)
"""An escape that more text can complete, a pair, a lone surrogate, any other escape. Each has a bounded length."""


class WholePairs:
    """Reads one JSON text in pieces.

    holds: the text held back: at most one escape, or the first half of a pair with the beginning of the second.
    """

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds = ""

    def feed(self, text: str) -> str:
        """Return what can be emitted after the next piece: the piece itself if it has no escape of a surrogate."""
        if not text.isascii():
            text = whole_text(text)
        if not self.holds and "\\u" not in text and not text.endswith("\\"):
            return text
        text, self.holds = self.holds + text, ""
        return _ESCAPE.sub(self._one, text)

    def finish(self) -> str:
        """Return what was held back, now that the text is over."""
        held, self.holds = self.holds, ""
        return re.sub(_HIGH, "\\\\ufffd", held)

    def _one(self, match: re.Match[str]) -> str:
        if match["open"] is not None:
            self.holds = match["open"]
            return ""
        return "\\ufffd" if match["half"] else match[0]
