"""An exchange that is observed: what goes through it is timed and noted for the request's report.

Made in place of a plain one only where there are observers, so that other requests do not pay for it.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...answer.operations import AnswerWriter, Arguments, CallOpened, Content, Finished, ReasoningText, Refusal, Step
from ...exchange import Action, Ask, Body, Event, Exchange, Fail, Forward, Head, Request, Send
from ...observe.report import Attempt, Recorder, Report
from ...settings import OPTIONS, Settings
from ...upstream.actions import Facts
from ...upstream.backend_memory import BackendMemory
from ..http.head import values_of

# Quotes inside of a string have a backslash, so that no text can look like these.
_CONTENT = re.compile(rb'(?<!\\)"content": ?"[^"]')
_REASON = re.compile(rb'(?<!\\)"finish_reason": ?"([a-z_]{1,32})"')
_MAX_REASONS = 128


@functools.lru_cache(maxsize=64)
def _recorded(settings: Settings) -> dict[str, str]:
    """What is no default, as it would be written in variables, without secrets: a trace is shown to others."""
    return {
        name: shown for name, shown, source in settings.explain() if source != "default" and not OPTIONS[name].secret
    }


class ExchangeNotes:
    """What goes through one exchange, noted in a request's report. settings, memory: what the exchange begins with."""

    def __init__(self, report: Report, settings: Settings, memory: BackendMemory) -> None:
        self._report = report
        self._settings = settings
        self._memory = memory
        self._decided = 0
        self._answering = False  # the attempt at hand has its first byte
        self._steps: list[Step] = []  # emitted since the last event, where a recorder wants them

    def add(self, exchange: Exchange, event: Event, actions: Sequence[Action], begin: float, now: float) -> None:
        """An event came at `begin`, and led to `actions` by `now` (seconds of `time.perf_counter`)."""
        report, recorder, facts = self._report, self._report.recorder, exchange.facts
        report.own += now - begin
        cause = -1 if recorder is None else self._record(recorder, event, facts, begin)
        if type(event) is Body:
            if not self._answering and report.attempts:
                self._answering = True
                report.attempts[-1].first_byte = begin
        elif type(event) is Head and report.attempts:
            report.attempts[-1].status = event.status
        if recorder is not None and actions:
            self._record_decisions(recorder, facts, now)  # all that is decided leads to what is done now
            self._record_steps(recorder, cause, now)
        for action in actions:
            match action:
                case Send(data):
                    self._note_sent(data, exchange, cause, now)
                case Forward() if type(event) is Body:
                    self._note_sent(event.data, exchange, cause, now)
                case Ask(body, prompt):
                    self._answering = False
                    report.attempts.append(Attempt("first" if facts is None else facts.why, now))
                    if prompt is not None:  # the template writes it first, in a thread
                        prompt.on_body = partial(self._on_body, now)
                    elif recorder is not None:
                        recorder.data("ask", body, now)
                case Fail(error):
                    report.error = str(error.code)
                    if recorder is not None:
                        recorder.note("error", now, code=error.code, message=error.message)
                case _:
                    pass

    def _on_body(self, begin: float, data: bytes) -> None:
        """The prompt is written: that was work of ours since `begin`, and only now the backend is asked."""
        report, now = self._report, time.perf_counter()
        report.own += now - begin
        report.attempts[-1].began = now
        if report.recorder is not None:
            report.recorder.data("ask", data, now)

    def step(self, step: Step) -> None:
        """A step is emitted to the writer of another API's answer."""
        report = self._report
        if report.recorder is not None:
            self._steps.append(step)
        match step:
            case CallOpened() if report.first_call is None:
                report.first_call = time.perf_counter()
            case Content(text) if report.first_content is None and text:
                report.first_content = time.perf_counter()
            case Finished(reason) if len(report.finish_reasons) < _MAX_REASONS:
                report.finish_reasons.append(reason)
            case _:
                pass

    def _note_sent(self, data: bytes, exchange: Exchange, cause: int, now: float) -> None:
        report, writer = self._report, exchange.writer
        stepped = writer is not None and writer.in_use  # its steps are recorded
        if report.recorder is not None and data and not stepped:
            report.recorder.data("client", data, now, of=cause)
        if writer is not None:  # its steps are noted: see `WatchedWriter`
            return
        if report.first_call is None and exchange.emitted_calls > 0 and b"_call" in data:
            report.first_call = now
        if report.first_content is None and _CONTENT.search(data):
            report.first_content = now
        if b'"finish_reason":"' in data or b'"finish_reason": "' in data:
            room = _MAX_REASONS - len(report.finish_reasons)
            report.finish_reasons += [found.decode() for found in _REASON.findall(data)[:room]]

    def _record(self, recorder: Recorder, event: Event, facts: Facts | None, begin: float) -> int:
        """Record an event. The number of its row, -1 for none."""
        match event:
            case Request(body):
                row = recorder.data("request", body, begin)
                if facts is not None:
                    known = self._memory.facts(facts.model)
                    recorder.note("settings", begin, values=_recorded(self._settings), known=known)
                return row
            case Head(status, headers):
                kind = next(iter(values_of(headers, b"content-type")), b"")
                return recorder.note("head", begin, status=status, content_type=kind.decode("latin-1")[:128])
            case Body(data):
                return recorder.data("backend", data, begin) if data else -1
            case _:
                return recorder.note("event", begin, what=type(event).__name__)

    def _record_steps(self, recorder: Recorder, cause: int, now: float) -> None:
        for step in self._steps:
            if (said := _row_of(step)) is not None:
                recorder.note("client", now, of=cause, **said)
        self._steps.clear()

    def _record_decisions(self, recorder: Recorder, facts: Facts | None, now: float) -> None:
        decisions = () if facts is None else facts.decisions
        for what, value, why in decisions[self._decided :]:
            recorder.note("decision", now, what=what, value=value, why=why)
        self._decided = len(decisions)


def _row_of(step: Step) -> dict[str, Any] | None:
    """The fields of a step's row in a recording; None for a step that has no row."""
    match step:
        case Content(text):
            return {"step": "text", "text": text}
        case ReasoningText(text):
            return {"step": "reasoning", "text": text}
        case Refusal(text):
            return {"step": "refusal", "text": text}
        case CallOpened(index, call_id, name):
            return {"step": "call", "index": index, "id": call_id, "name": name}
        case Arguments(index, text):
            return {"step": "arguments", "index": index, "text": text}
        case Finished(reason):
            return {"step": "finish", "reason": reason}
        case _:
            return None


class WatchedWriter:
    """An `AnswerWriter` whose steps are noted."""

    def __init__(self, writer: AnswerWriter, notes: ExchangeNotes) -> None:
        self._writer = writer
        self._note = notes.step
        self.end, self.fail, self.alive = writer.end, writer.fail, writer.alive
        self.begin, self.leaving, self.whole = writer.begin, writer.leaving, writer.whole

    @property
    def over(self) -> bool:
        return self._writer.over

    @property
    def in_use(self) -> bool:
        return self._writer.in_use

    @in_use.setter
    def in_use(self, value: bool) -> None:
        self._writer.in_use = value

    def say(self, op: Content | Arguments, /) -> bytes:
        self._note(op)
        return self._writer.say(op)

    def take(self, step: Step, /) -> None:
        self._note(step)
        self._writer.take(step)


class ObservedExchange(Exchange):
    """An exchange whose events and actions are noted in a report."""

    def __init__(self, settings: Settings, memory: BackendMemory, report: Report, *, always: bool) -> None:
        super().__init__(settings, memory, defer=True, always=always)
        self.notes = ExchangeNotes(report, settings, memory)

    def receive(self, event: Event) -> Sequence[Action]:
        """See `Exchange`."""
        begin = time.perf_counter()
        actions = super().receive(event)
        self.notes.add(self, event, actions, begin, time.perf_counter())
        return actions
