"""An answer that came as Messages and leaves so: its steps say which events of the upstream pass."""

from __future__ import annotations

from typing import Any

from ...answer.operations import Arguments, CallClosed, CallOpened, Content, Finished, Step
from ...errors import ToolCallError
from ..passage import Passage
from .chat_so_far import ChatSoFar
from .client.errors import Errors
from .client.request import Asked
from .client.writer import PING, MessageWriter, usage_of
from .passed import passed_whole
from .passed_events import PassedEvents


class PassedWriter:
    """Writes one answer (`AnswerWriter`). plain: writes it where the upstream got a translated request after all."""

    def __init__(self, passage: Passage, plain: MessageWriter, errors: Errors, asked: Asked) -> None:
        self.in_use = False
        self._passage = passage
        self._plain = plain
        self._errors = errors
        self._asked = asked
        self._chat = ChatSoFar()
        self._events = PassedEvents(passage.tape, self._chat)
        self._out: list[bytes] = []
        self._told = False  # a step was taken since events were released: without one they are not to leave
        self._failed = False

    @property
    def over(self) -> bool:
        return self._events.ended or self._failed or self._plain.over

    def begin(self) -> None:
        """Write the first events before the upstream's own, which are not repeated then."""
        if not self._events.begun:
            self._events.headless = True
            self._plain.begin()

    def take(self, step: Step, /) -> None:
        if not self._passage.used:
            self._plain.take(step)
            return
        self._told = True
        match step:
            case _ if self.over:
                return
            case Content(text):
                self._chat.text.add(text)
            case CallOpened(index, call_id, name):
                self._events.find(self._chat.open(index, call_id, name))
            case Arguments(index, text):
                self._chat.calls[index].add(text)
            case CallClosed(index, complete):
                self._chat.calls[index].close(complete=complete)
            case Finished(reason):
                self._chat.reason = reason
            case _:
                pass  # the upstream's own events have it

    def say(self, op: Content | Arguments, /) -> bytes:
        self.take(op)
        return self.leaving()

    def end(self, usage: Any, remarks: dict[str, Any], /) -> None:
        if not self._passage.used:
            self._plain.end(usage, remarks)
        elif not self.over and self._asked.stream:
            told = usage_of(usage, input_estimate=self._asked.estimate, output_estimate=1)
            self._out.append(self._events.end(told))

    def fail(self, error: ToolCallError, /) -> None:
        """The last event of a stream that fails, after what passes of it."""
        if not self._passage.used:
            self._plain.fail(error)
        elif not self.over:
            tape = self._passage.tape
            self._out.append(self._events.release_text())
            own = bool(tape) and tape[-1].value.get("type") == "error"  # the upstream's own words
            self._out.append(tape[-1].raw if own else self._errors.event(error))
            self._failed = True

    def alive(self) -> None:
        if not self._passage.used:
            self._plain.alive()
        elif (self._events.begun or self._plain.begun) and not self.over:
            self._out.append(PING)

    def leaving(self) -> bytes:
        if self._told and not self.over:
            self._told = False
            self._out.append(self._events.release())
        out = self._plain.leaving() + b"".join(self._out)
        self._out.clear()
        return out

    def whole(self) -> bytes:
        return passed_whole(self._passage, self._chat) if self._passage.used else self._plain.whole()
