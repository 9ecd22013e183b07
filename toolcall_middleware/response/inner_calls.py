"""Calls that the middleware answers itself, taken out of what a parser reads: no client sees them.

`find_tools` and `respond` are such (upstream/tool_budget.py). Another is a call of a client's tool whose definition the
model has not seen, where its arguments do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from ..formats.base import StreamParser
from ..parsing.calls.call_arguments import FirstString
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Stop, Text

_STOP = Stop("")
MOST_HELD = 1 << 18
"""Characters of the text before a call, and of the arguments of a call, that are kept for the model's next turn."""


class Asked(NamedTuple):
    """A call whose result the model gets within the same exchange."""

    name: str
    arguments: str
    faults: str
    """What is wrong with the call of a client's tool; empty for a tool of the middleware."""
    said: str
    """The text before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerTools:
    """The calls that are taken out of one answer.

    find: the name of the tool that the middleware answers. answers: it does; else such a call ends the answer.
    respond: the name of the tool whose text is the answer's.
    unshown: tools whose calls wait for their end and are checked. faults: what is wrong with the arguments, given a
    tool's name and them.
    """

    find: str = ""
    answers: bool = True
    respond: str = ""
    unshown: Collection[str] = ()
    faults: Callable[[str, str], list[str]] | None = None


_NONE = InnerTools()


class InnerCalls:
    """The state of one choice. asked: the call that the model waits for, before which none was the client's."""

    def __init__(self, tools: InnerTools | None = None) -> None:
        self.tools = tools or _NONE
        self.asked: Asked | None = None
        self.calls = 0
        self._said: list[str] = []
        self._room = MOST_HELD

    def say(self, text: str) -> None:
        """Record emitted text. Its beginning is repeated to the model if an inner call follows."""
        if self._room > 0:
            self._said.append(text[: self._room])
            self._room -= len(text)

    def ask(self, name: str, arguments: str, faults: str = "") -> None:
        """The model waits for this call's result."""
        self.asked = Asked(name, arguments, faults, "".join(self._said))


class OuterEvents:
    """Removes inner calls from the events of one source. It is a parser of text where it is made with one."""

    def __init__(self, state: InnerCalls, parser: StreamParser | None = None) -> None:
        self._state = state
        self._parser = parser
        self._held: list[Event] | None = None  # the events of a call that may still be an inner one
        self._room = 0  # characters of its arguments that may still be held
        self._text: FirstString | None = None  # reads an open call of `respond`
        self._over = False

    def feed(self, text: str, /) -> list[Event]:
        """The events of more text, without inner calls."""
        return [] if self._parser is None else self.take(self._parser.feed(text))

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The last events, without inner calls."""
        return [] if self._parser is None else self.take(self._parser.finish(cut=cut), cut=cut)

    def take(self, events: list[Event], *, cut: bool = False) -> list[Event]:
        """The events without inner calls. cut: the text ended at a limit."""
        out: list[Event] = []
        for event in events:
            if self._over:
                break
            if self._text is not None:
                self._respond(event, self._text, out, cut=cut)
            elif self._held is not None:
                self._hold(event, self._held, out, cut=cut)
            elif type(event) is CallStart and event.name and event.name == self._state.tools.respond:
                self._text = FirstString()
            elif type(event) is CallStart and self._is_inner(event.name):
                self._held, self._room = [event], MOST_HELD
            else:
                if type(event) is CallStart:
                    self._state.calls += 1
                elif type(event) is Text:
                    self._state.say(event.text)
                out.append(event)
        return out

    def _is_inner(self, name: str) -> bool:
        tools = self._state.tools
        return (bool(name) and name == tools.find) or (name in tools.unshown and not self._state.calls)

    def _hold(self, event: Event, held: list[Event], out: list[Event], *, cut: bool) -> None:
        """More of a call that may be the middleware's. One whose arguments are too long to be held is the client's."""
        held.append(event)
        if type(event) is CallEnd:
            self._end(held, out, cut=cut)
        elif isinstance(event, CallArgs):
            self._room -= len(event.text)
            if self._room < 0 and not self._is_find(held):
                self._state.calls += 1
                self._held = None
                out += held
            elif self._room < 0:
                held.pop()  # a query is no longer than that

    def _is_find(self, held: list[Event]) -> bool:
        return isinstance(held[0], CallStart) and held[0].name == self._state.tools.find

    def _respond(self, event: Event, reader: FirstString, out: list[Event], *, cut: bool) -> None:
        """More of the answer's text, after which the answer ends. After a client's call it is dropped."""
        if isinstance(event, CallArgs):
            if (text := reader.feed(event.text)) and not self._state.calls:
                out.append(Text(text))
        elif isinstance(event, CallEnd):
            self._text, self._over = None, not cut
            if not cut:
                out.append(_STOP)

    def _end(self, held: list[Event], out: list[Event], *, cut: bool) -> None:
        """A call is over: the middleware's own ends the answer, and so does one that does not fit."""
        state, self._held = self._state, None
        start = held[0]
        name = start.name if isinstance(start, CallStart) else ""
        arguments = "".join(event.text for event in held if isinstance(event, CallArgs))
        if name != state.tools.find:
            check = state.tools.faults
            faults = "; ".join(check(name, arguments)) if check is not None and not cut else ""
            if not faults:
                state.calls += 1
                out += held
                return
            state.ask(name, arguments, faults)
        elif cut:
            return
        elif state.tools.answers and not state.calls:
            state.ask(name, arguments)
        self._over = True
        out.append(_STOP)
