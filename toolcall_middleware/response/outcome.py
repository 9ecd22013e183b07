"""What became of each call that a model finished: one outcome a call, decided here and nowhere else.

Whoever changes or refuses a call notes it (`CallOutcomes.note`); of several notes the weightiest is the outcome.
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..formats.near_misses import MAX_LOOKED_AT
from ..log_lines import log_event
from ..parsing.events import CallEnd
from ..parsing.text_buffer import Gathered
from ..parsing.values.coercion import Coercion
from ..parsing.values.json_spelling import decode

_log = logging.getLogger("toolcall_middleware")
FindNearMisses = Callable[[str, Sequence[tuple[int, int]]], list[str]]
"""Why a text is no call, for each place that looks like one; it is told where thoughts stand."""
_MAX_NAME = 256  # characters in a log
_ESCAPE = 6
"""Characters of the longest escape of JSON, `\\u0041`."""
_MAX_REFUSED = 128
"""Refused calls of one choice that are kept: they leave as text, and no other limit counts them."""


class CallOutcome(enum.StrEnum):
    """From the lightest to the weightiest."""

    CLEAN = "clean"
    RENAMED = "renamed"
    """Its name was another spelling of an offered tool's."""
    COERCED = "coerced"
    """A value was given the type that the schema asks for."""
    REPAIRED = "repaired"
    """Its arguments were no valid JSON as written."""
    IN_REASONING = "in_reasoning"
    """It was read in the model's reasoning. It is a call where the answer ended in that; in a closed thought it is not.
    """
    RETRIED = "retried"
    """It came after the model was asked again."""
    INVALID = "invalid"
    """Its arguments do not fit the tool's schema."""
    MALFORMED = "malformed"
    """Its arguments are no JSON object, and it was refused for that."""
    CUT = "cut"
    """The text ended inside of it."""
    UNKNOWN_TOOL = "unknown_tool"
    """The request does not offer a tool of its name."""


_WEIGHT = {outcome: weight for weight, outcome in enumerate(CallOutcome)}


class FinishedCall(msgspec.Struct, frozen=True, gc=False):
    """A call that is over. `path`: where its fault is, such as `arguments.days`; empty where there is none to name."""

    name: str
    outcome: CallOutcome
    path: str = ""


@dataclass(slots=True)
class OpenCall:
    """A call whose end has not come."""

    name: str
    id: str | None
    room: float
    """Bytes that its arguments may still take."""
    parts: Gathered | None = None
    """The arguments of a call that waits for its end."""
    extra: dict[str, Any] | None = None
    coercion: Coercion | None = None
    passed: Gathered | None = None
    """The arguments of a call that streams and is checked all the same."""
    begun: bool = False
    """An object has begun in its arguments."""


def place_of(path: str) -> str:
    """A place in a call's arguments, such as `arguments.days`. path: as in a fault of `ArgumentChecker`."""
    return "arguments" if path == "(root)" else f"arguments{'' if path[:1] == '[' else '.'}{path}"


def malformed_text(event: CallEnd, made: str) -> str:
    """The arguments of a call that is over as the model wrote them, where they are malformed; else nothing.

    made: what was made of them. A JSON string that holds them, as OpenAI has it, is read.
    """
    if event.complete and not event.repaired and made.lstrip().startswith("{"):
        return ""
    written = event.written
    value = _read(written)
    if value is None and not event.complete:
        value = _read_cut_string(written)
    if isinstance(value, str):
        written = value
        value = _read(value)
    # An object needs no repair: what did was around it.
    return "" if event.complete and isinstance(value, dict) else written


def _read(text: str) -> Any:
    """`text` as JSON; None where it is none."""
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return None


def _read_cut_string(text: str) -> Any:
    """What the beginning of a JSON string says: half an escape at its end says nothing. None where it is no string."""
    if not text.startswith('"'):
        return None
    return next(filter(None, (_read(f'{text[: len(text) - cut]}"') for cut in range(_ESCAPE))), None)


class CallReport:
    """The finished calls of one request, over all its attempts, in the order of their ends. Each is logged at INFO.

    model: as the client names it. how: in which mode and format the backend is asked.
    """

    __slots__ = ("calls", "how", "model")

    def __init__(self, model: str) -> None:
        self.calls: list[FinishedCall] = []
        self.model = model
        self.how = ""

    def add(self, call: FinishedCall) -> None:
        """A call is over. The line has neither its arguments nor the prompt."""
        self.calls.append(call)
        fields = {
            **self._known, "tool": call.name[:_MAX_NAME], "outcome": call.outcome.value, "path": call.path[:_MAX_NAME],
        }  # fmt: skip
        log_event(_log, logging.INFO, "call", fields)

    def near_miss(self, why: str) -> None:
        """Text looked like a call but was not one. why: the reason."""
        log_event(_log, logging.DEBUG, "no call", {**self._known, "why": why})

    @property
    def _known(self) -> dict[str, str]:
        """The request's fields in each line."""
        how = (pair.partition("=") for pair in self.how.split("; ") if pair)
        return {"model": self.model[:_MAX_NAME], **{name: value for name, _, value in how}}


class ShownText:
    """A choice's text so far, which is looked at for near misses when it is over, and where thoughts stand in it."""

    __slots__ = ("_find", "_parts", "_report", "_size", "_thoughts")

    def __init__(self, find: FindNearMisses, report: CallReport) -> None:
        self._find = find
        self._report = report
        self._parts: list[str] = []
        self._size = 0
        self._thoughts: list[tuple[int, int]] = []

    @classmethod
    def of(cls, find: FindNearMisses | None, report: CallReport | None) -> ShownText | None:
        """None where nothing is looked for, or nobody is told."""
        return None if find is None or report is None else cls(find, report)

    def add(self, text: str, *, thought: bool) -> None:
        """More of it. thought: it stands in the model's reasoning, where no calls are read."""
        if self._size >= MAX_LOOKED_AT:
            return
        begin, self._size = self._size, self._size + len(text)
        self._parts.append(text)
        if thought:
            if self._thoughts and self._thoughts[-1][1] == begin:
                begin, _ = self._thoughts.pop()
            self._thoughts.append((begin, self._size))

    def tell(self, *, but_last_thought: bool) -> None:
        """The text is over: what looks like a call in it is reported, and it is let go."""
        text = "".join(self._parts)
        if but_last_thought and self._thoughts:
            text = text[: self._thoughts[-1][0]]
        self._parts.clear()
        for why in self._find(text, self._thoughts):
            self._report.near_miss(why)


def tells_near_misses() -> bool:
    """Whether they are logged."""
    return _log.isEnabledFor(logging.DEBUG)


class CallOutcomes:
    """The outcomes of one choice's calls. One call is open at a time.

    retried: the model was asked again, and this answer is the last. report: who else is told.
    """

    __slots__ = ("_ignored", "_outcome", "_path", "_report", "_retried", "finished", "refused")

    def __init__(self, *, retried: bool = False, report: CallReport | None = None) -> None:
        self.finished: list[FinishedCall] = []
        self._report = report
        self._retried = retried
        self.refused = 0  # calls that were refused for their names
        self._ignored = 0  # calls in thoughts that were closed
        self._outcome = CallOutcome.CLEAN
        self._path = ""

    def begin(self) -> None:
        """A call begins."""
        self._outcome, self._path = CallOutcome.CLEAN, ""
        if self._retried:
            self.note(CallOutcome.RETRIED)

    def note(self, outcome: CallOutcome, path: str = "") -> None:
        """Something happened to the open call."""
        if _WEIGHT[outcome] > _WEIGHT[self._outcome]:
            self._outcome, self._path = outcome, path

    def end(self, name: str) -> None:
        """The open call is over."""
        self._add(FinishedCall(name, self._outcome, self._path))

    def refuse(self, name: str, outcome: CallOutcome = CallOutcome.UNKNOWN_TOOL, path: str = "name") -> None:
        """A call that is text was finished: its tool is not offered, or its arguments are no object."""
        self.refused += 1
        if self.refused <= _MAX_REFUSED:
            self._add(FinishedCall(name, outcome, path))

    def ignore(self, name: str) -> None:
        """A call stands in a thought that was closed. It is reported, and does not reach the client."""
        self._ignored += 1
        if self._ignored <= _MAX_REFUSED:
            self._add(FinishedCall(name, CallOutcome.IN_REASONING))

    def _add(self, call: FinishedCall) -> None:
        self.finished.append(call)
        if self._report is not None:
            self._report.add(call)


def counted(calls: Iterable[FinishedCall]) -> dict[str, int]:
    """How many calls have each outcome that is not `clean`, in the order of `CallOutcome`."""
    counts = Counter(call.outcome for call in calls)
    return {outcome.value: counts[outcome] for outcome in CallOutcome if outcome in counts and outcome != "clean"}


def as_header(calls: Collection[FinishedCall]) -> str:
    """The same for `x-toolcall`: `; coerced=1; repaired=2`."""
    return "".join(f"; {outcome}={count}" for outcome, count in counted(calls).items())
