"""The exchanges that the page can show, bounded in count and bytes; the oldest go first. Also what a row of the list
says of an exchange, and which conversation it belongs to.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ....observe.content import answers_of
from ....observe.report import IN_PIECES, MAX_BYTES, MAX_HELD, Report, Room, Row
from ....observe.traces import Trace, summary_of
from ....wire.openai import encode

MAX_EXCHANGES = 1000


@dataclass(slots=True)
class Entry:
    """One exchange: a trace that is over, or a report whose request runs. rows: all that was said so far."""

    number: int
    rows: list[Row]
    trace: Trace | None = None
    report: Report | None = None
    size: int = 0
    _asked: Asked | None = None
    _title: str | None = None

    @property
    def summary(self) -> dict[str, Any]:
        """What the list shows."""
        if self.trace is not None:
            found = self.trace.summary
        else:
            assert self.report is not None  # noqa: S101 - one of the two is there
            found = summary_of(self.report)
        rows = self.rows
        if self._asked is None and rows:
            self._asked = asked(rows)
        known = self._asked or Asked()
        if self.trace is not None and self._title is None:
            self._title = title(known, rows)
        return {
            **found,
            "number": self.number,
            "running": self.report is not None,
            "title": known.words if self._title is None else self._title,
            "conversation": known.conversation,
            "messages": known.messages,
        }

    def holds(self, words: Sequence[str]) -> bool:
        """Whether each of the words, in lower case, is in what was asked, answered or decided."""
        rows = self.rows
        values = (value for row in rows if row["kind"] not in IN_PIECES for value in row.values())
        said = [value for value in values if isinstance(value, str)]
        said.append(encode(answers_of(rows)).decode())  # a word may be cut between two pieces
        text = "\n".join(said).lower()
        return all(word in text for word in words)

    @property
    def version(self) -> str:
        """Changes when there is more to show."""
        return f"{len(self.rows)}{'+' if self.report is not None else ''}"


class Store(Room):
    """An observer that keeps exchanges. `changed` is set at each change, for those that wait in the event loop.

    An exchange that runs counts as it grows. Those that have ended make room for it, the oldest first.
    """

    wants_content = True

    def __init__(self, max_exchanges: int = MAX_EXCHANGES, max_bytes: int = MAX_HELD) -> None:
        super().__init__(max_bytes)
        self.entries: OrderedDict[int, Entry] = OrderedDict()
        self.version = 0
        self._max_exchanges = max_exchanges
        self._next = 1
        self._running: dict[int, Entry] = {}
        self._waiting: set[asyncio.Event] = set()
        self.closed = False

    def add(self, trace: Trace) -> Entry:
        """An exchange that is over."""
        entry = self._new(trace.rows)
        entry.trace = trace
        entry.size = sum(len(row.get("data", "")) + 96 for row in trace.rows)
        self.take(entry.size)
        self._make_room(0, entry)
        self._changed()
        return entry

    def begin(self, report: Report, headers: Mapping[str, str]) -> None:  # noqa: ARG002 - as an observer
        """One begins."""
        entry = self._new(report.record(MAX_BYTES, self).rows)
        entry.report = report
        self._running[id(report)] = entry
        self._changed()

    def end(self, report: Report) -> None:
        """It has ended."""
        entry = self._running.pop(id(report), None)
        if entry is None or report.recorder is None:
            return
        entry.size = report.recorder.held
        entry.trace, entry.report = Trace(summary_of(report), entry.rows), None
        if entry.number not in self.entries:
            self.take(-entry.size)
        self._changed()

    def fits(self, size: int) -> bool:
        """Whether there is room, once enough of those that have ended are dropped."""
        self._make_room(size)
        return super().fits(size)

    def _new(self, rows: list[Row]) -> Entry:
        entry = self.entries[self._next] = Entry(self._next, rows)
        self._next += 1
        while len(self.entries) > self._max_exchanges:
            self._drop(next(iter(self.entries.values())))
        return entry

    def _make_room(self, size: int, spared: Entry | None = None) -> None:
        while self.taken + size > self.most:
            ended = (entry for entry in self.entries.values() if entry.trace is not None and entry is not spared)
            oldest = next(ended, None)
            if oldest is None:
                return
            self._drop(oldest)

    def _drop(self, entry: Entry) -> None:
        del self.entries[entry.number]
        self.take(-entry.size)  # of one that runs: nothing yet, because its recorder still holds it

    def _changed(self) -> None:
        self.version += 1
        for event in self._waiting:
            event.set()

    def close(self) -> None:
        """Let those who wait go: the process is about to end, and an open page must not hold it."""
        self.closed = True
        self._changed()

    async def wait(self, version: int, at_most: float) -> int:
        """The version, once it is not `version` any more, or after `at_most` seconds."""
        if self.version == version:
            event = asyncio.Event()
            self._waiting.add(event)
            try:
                async with asyncio.timeout(at_most):
                    await event.wait()
            except TimeoutError:
                pass
            finally:
                self._waiting.discard(event)
        return self.version


_LONGEST = 120  # characters of a title
_VALUE = 60  # of an argument in it
_LONGEST_PATH = 1024
_PATH = re.compile(r"(?:~|[A-Za-z]:)?[/\\]\S*[/\\](\S+)")
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"


class _Message(msgspec.Struct):
    role: Any = None
    content: Any = None


class _Asked(msgspec.Struct):
    messages: list[_Message] = []


_ASKED = msgspec.json.Decoder(_Asked)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request tells. conversation: the same for the requests of one, by how it begins."""

    words: str = ""
    conversation: str = ""
    messages: int = 0
    is_agent_step: bool = False
    """Its last message is none of the user's: an agent sends a tool's result."""


def asked(rows: Sequence[Row]) -> Asked:
    """What the request among an exchange's rows tells; nothing where it has none that can be read."""
    body = next((str(row.get("data", "")) for row in rows if row["kind"] == "request"), "")
    try:
        messages = _ASKED.decode(body).messages
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Asked()
    said = [_text(message.content) for message in messages if message.role == "user"]
    if not said:
        return Asked(messages=len(messages))
    begin = hashlib.sha256(said[0].encode("utf-8", "replace")).hexdigest()[:16]
    return Asked(_short(_without_reminders(said[-1])), begin, len(messages), messages[-1].role != "user")


def title(known: Asked, rows: Sequence[Row]) -> str:
    """The user's last words; where an agent goes on, the call that the answer makes: `read greet.py`."""
    if not known.is_agent_step:
        return known.words
    parts = (part for message in answers_of(rows) for part in message["parts"])
    call = next((part for part in parts if part["type"] == "tool_call"), None)
    if call is None:
        return known.words
    arguments = call["arguments"]
    values = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
    shown = next((value for value in values if isinstance(value, str)), "")
    if path := _PATH.fullmatch(shown[:_LONGEST_PATH]):
        shown = path[1]
    return _short(f"{call['name']} {shown[:_VALUE]}")


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        # Agents put reminders before what the user wrote.
        return next((part for part in reversed(parts) if isinstance(part, str)), "")
    return content if isinstance(content, str) else ""


def _without_reminders(text: str) -> str:
    """What a user wrote, without what Claude Code puts before and after it. All of it where nothing else is there."""
    own, at = "", 0
    while (begin := text.find(_REMINDER, at)) >= 0 and (end := text.find(_REMINDER_END, begin)) >= 0:
        own += text[at:begin]
        at = end + len(_REMINDER_END)
    own += text[at:]
    return own if own.strip() else text


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
