"""The outcome of each call that a model finished. Only this module decides it.

Code that changes or refuses a call notes it (`OpenCall.note`); of several notes the weightiest is the outcome.
"""

from __future__ import annotations

import enum
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..formats.base import ToolFormat
from ..formats.near_misses import MAX_LOOKED_AT, NoCall, places, unknown_name
from ..model import ToolSet
from ..observe.json_log import log_event
from ..parsing.events import CallEnd
from ..parsing.sink import Gathered
from ..parsing.values.json_reader import decoded
from ..parsing.values.typing import Coercion

_log = logging.getLogger("toolcall_middleware")
_MAX_NAME = 256  # characters in a log
_ESCAPE = 6
"""Characters of the longest escape of JSON, `\\u0041`."""
_MAX_REFUSED = 128
"""Refused calls of one choice that are kept: they are emitted as text, and no other limit counts them."""
_PIECES = 512
"""The most last pieces of a choice's text that are kept: about 2,200 characters of a token stream, in 28 KiB."""
LONGEST_PIECE = 64
"""The most characters of a kept piece; `CallOutcomes.see_text` divides longer ones."""
_MAX_LOGGED = 4
"""The most near misses that are logged per answer."""


CURES = {
    NoCall.UNKNOWN_TOOL: "offer the tool that it names, or leave it out of the conversation",
    NoCall.CUT: "raise max_tokens, or the server's context",
    NoCall.THOUGHT: "set reasoning=parse, or raise max_tokens so that the model ends its thought",
    NoCall.EXAMPLE: "tell the model to call tools outside of code fences, or set tool_choice to required",
    NoCall.OTHER_FORMAT: "set format to what the model writes: see toolcall-middleware formats",
    NoCall.EMPTY: "start the server without its own tool parser, or set format=json",
}
"""The remedy for each reason. An answer in prose needs none."""


class CallOutcome(enum.StrEnum):
    """From the lightest to the weightiest."""

    CLEAN = "clean"
    RENAMED = "renamed"
    """Its name was another spelling of an offered tool's."""
    COERCED = "coerced"
    """A value was given the type that the schema asks for."""
    REPAIRED = "repaired"
    """Its arguments were not valid JSON as written."""
    IN_REASONING = "in_reasoning"
    """It was read in the model's reasoning. In a closed thought it is a call only with `reasoning=parse`."""
    RETRIED = "retried"
    """It came after the model was asked again."""
    INVALID = "invalid"
    """Its arguments do not fit the tool's schema."""
    MALFORMED = "malformed"
    """It was refused because its arguments are not a JSON object."""
    CUT = "cut"
    """The text ended inside of it."""
    UNKNOWN_TOOL = "unknown_tool"
    """The request does not offer a tool of its name."""


_WEIGHT = {outcome: weight for weight, outcome in enumerate(CallOutcome)}


class FinishedCall(msgspec.Struct, frozen=True, gc=False):
    """A finished call. `path`: where its fault is, such as `arguments.days`; empty where no place can be named."""

    name: str
    outcome: CallOutcome
    path: str = ""


@dataclass(slots=True)
class OpenCall:
    """A call that has not ended."""

    name: str
    id: str | None
    room: float
    """Bytes that its arguments may still take."""
    held: bool = False
    """It is emitted at its end."""
    kept: Gathered | None = None
    """The arguments so far of a call that is held, or that streams and is also checked at its end."""
    extra: dict[str, Any] | None = None
    coercion: Coercion | None = None
    begun: bool = False
    """Its arguments have begun an object."""
    outcome: CallOutcome = CallOutcome.CLEAN
    path: str = ""

    def note(self, outcome: CallOutcome, path: str = "") -> None:
        """Note an outcome, and the place of its cause."""
        if _WEIGHT[outcome] > _WEIGHT[self.outcome]:
            self.outcome, self.path = outcome, path


def place_of(path: str) -> str:
    """A place in a call's arguments, such as `arguments.days`. path: as in a fault of `ArgumentChecker`."""
    return "arguments" if path == "(root)" else f"arguments{'' if path[:1] == '[' else '.'}{path}"


def malformed_text(event: CallEnd, made: str) -> str:
    """The arguments of a finished call as the model wrote them, where they are malformed; else an empty string.

    made: the repaired arguments. A JSON string that holds the arguments, as in OpenAI's API, is decoded.
    """
    if event.complete and not event.repaired and made.lstrip().startswith("{"):
        return ""
    written = event.written
    value = decoded(written)
    if value is None and not event.complete:
        value = _read_cut_string(written)
    if isinstance(value, str):
        written = value
        value = decoded(value)
    # A valid object needed no repair: the fault was around it.
    return "" if event.complete and isinstance(value, dict) else written


def _read_cut_string(text: str) -> Any:
    """The value of the beginning of a JSON string, without a partial escape at its end; None for other text."""
    if not text.startswith('"'):
        return None
    return next(filter(None, (decoded(f'{text[: len(text) - cut]}"') for cut in range(_ESCAPE))), None)


class CallReport:
    """The finished calls of one request, over all its attempts, in the order of their ends. Each is logged at INFO.

    model: as the client names it. how: the mode and format of the backend's request. no_call: why the last attempt's
    answer holds no call.
    """

    __slots__ = ("calls", "how", "model", "no_call")

    def __init__(self, model: str) -> None:
        self.calls: list[FinishedCall] = []
        self.model = model
        self.how = ""
        self.no_call: NoCall | None = None

    def add(self, call: FinishedCall) -> None:
        """Add a finished call and log it. The line has neither its arguments nor the prompt."""
        self.calls.append(call)
        fields = {"tool": call.name[:_MAX_NAME], "outcome": call.outcome.value, "path": call.path[:_MAX_NAME]}
        self.log(logging.INFO, "call", fields)

    def near_miss(self, why: str) -> None:
        """Text looked like a call but was not one. why: the reason."""
        self.log(logging.DEBUG, "no call", {"why": why})

    def log(self, level: int, event: str, fields: Mapping[str, str]) -> None:
        """Log an event of this request, with its model, mode and format."""
        how = (pair.partition("=") for pair in self.how.split("; ") if pair)
        known = {"model": self.model[:_MAX_NAME], **{name: value for name, _, value in how}}
        log_event(_log, level, event, {**known, **fields})


class CallOutcomes:
    """The outcomes of one choice's calls, and the last part of its text without its thoughts, which shows why it holds
    no call.

    tools: those that may be called. syntax: the format in which their calls are read; None where no call is possible,
    and then no text is kept. report: also receives each finished call.
    `see` takes a piece of text of at most `LONGEST_PIECE` characters: it is called for each chunk of an answer, so it
    is the method of a deque.
    """

    __slots__ = ("_pieces", "_report", "_syntax", "_tools", "finished", "ignored", "refused", "see")

    def __init__(
        self, tools: ToolSet | None = None, syntax: ToolFormat | None = None, report: CallReport | None = None
    ) -> None:
        self._tools = tools or ToolSet()
        self._syntax = syntax
        self._report = report
        self._pieces = deque[str](maxlen=0 if syntax is None else _PIECES)
        self.see: Callable[[str], None] = self._pieces.append
        self.finished: list[FinishedCall] = []
        self.refused = 0  # calls that were refused for their names
        self.ignored = 0  # calls in thoughts that were closed

    def end(self, call: OpenCall) -> None:
        """A call is over."""
        self._add(FinishedCall(call.name, call.outcome, call.path))

    def refuse(self, name: str, outcome: CallOutcome = CallOutcome.UNKNOWN_TOOL, path: str = "name") -> None:
        """Add a refused call: its tool is not offered, or its arguments are not an object."""
        self.refused += 1
        if self.refused <= _MAX_REFUSED:
            self._add(FinishedCall(name, outcome, path))
            # The search for a similar name takes time.
            if outcome is CallOutcome.UNKNOWN_TOOL and self._report is not None and _log.isEnabledFor(logging.DEBUG):
                self._report.near_miss(unknown_name(name, self._tools.by_name))

    def ignore(self, name: str) -> None:
        """Add a call in a thought that was closed. It is reported, and is not emitted as a call."""
        self.ignored += 1
        if self.ignored <= _MAX_REFUSED:
            self._add(FinishedCall(name, CallOutcome.IN_REASONING))
            if self._report is not None:
                self._report.near_miss(f"looked like a call: `{name[:_MAX_NAME]}` is called in the model's reasoning")

    def _add(self, call: FinishedCall) -> None:
        self.finished.append(call)
        if self._report is not None:
            self._report.add(call)

    def see_text(self, text: str) -> None:
        """See text of any length."""
        for at in range(max(len(text) - MAX_LOOKED_AT, 0), len(text), LONGEST_PIECE):
            self._pieces.append(text[at : at + LONGEST_PIECE])

    def why_no_call(self, *, called: bool, cut: bool, thinks: bool) -> NoCall | None:
        """Return why the finished answer holds no call; None where it holds one (`called`), or no call is possible.

        cut: the answer was cut off. thinks: it holds reasoning. Near misses are logged at DEBUG, unless a refused call
        was reported.
        """
        report = self._report
        logs = report is not None and _log.isEnabledFor(logging.DEBUG) and not self.refused
        if self._syntax is None or (called and not logs):
            return None
        if not called and any(call.outcome is CallOutcome.UNKNOWN_TOOL for call in self.finished):
            return NoCall.UNKNOWN_TOOL
        text = "".join(self._pieces)[-MAX_LOOKED_AT:]
        found = places(text, tools=self._tools, syntax=self._syntax, explains=logs)
        if logs and report is not None:
            for why in list(dict.fromkeys(place.why for place in found))[:_MAX_LOGGED]:
                report.near_miss(why)
        if called:
            return None
        kinds = {place.kind for place in found}
        if cut:
            kinds.add(NoCall.CUT)
        if self.ignored or (thinks and not text.strip()):
            kinds.add(NoCall.THOUGHT)
        if self.refused:
            kinds.add(NoCall.OTHER_FORMAT)
        kinds.add(NoCall.PROSE if text.strip() else NoCall.EMPTY)
        return first_of(kinds)


def log_no_call(report: CallReport, reason: NoCall) -> None:
    """Log a reason at INFO, with its remedy and the page that explains it. `prose` is not logged."""
    if reason in CURES:
        see = f"docs/how-to/no-calls.md#{reason.value}"
        report.log(logging.INFO, "no call", {"no_call": reason.value, "cure": CURES[reason], "see": see})


def first_of(reasons: Collection[NoCall | None]) -> NoCall | None:
    """The first of several reasons, in the order of `NoCall`; None where there are no reasons."""
    return next((reason for reason in NoCall if reason in reasons), None)


def counted(calls: Iterable[FinishedCall]) -> dict[str, int]:
    """How many calls have each outcome that is not `clean`, in the order of `CallOutcome`."""
    counts = Counter(call.outcome for call in calls)
    return {outcome.value: counts[outcome] for outcome in CallOutcome if outcome in counts and outcome != "clean"}


def as_header(calls: Collection[FinishedCall]) -> str:
    """The same for `x-toolcall`: `; coerced=1; repaired=2`."""
    return "".join(f"; {outcome}={count}" for outcome, count in counted(calls).items())
