"""A backend's own tool calls, mended: its deltas in, the events of a parser out.

Engines' streaming parsers forget `index`, `id` or `type`, split or repeat the name, send arguments as an object,
twice, encoded twice, or not at all, interleave calls, and forget the last brace. Each fault has a test that names the
engine's issue. What is right passes as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..model import ToolSet
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Text
from ..parsing.named import ArgumentsReader

_OWN_FIELDS = frozenset({"index", "id", "type", "function", "custom", "name", "arguments"})
_MIN_REPEATED = 8  # characters of arguments that are too many to be repeated by chance


@dataclass(slots=True)
class _Call:
    """A call of the backend. `waiting` are arguments that cannot leave yet."""

    key: Any
    id: str | None = None
    name: str = ""
    started: bool = False
    refused: bool = False
    ended: bool = False
    arguments: str = ""
    size: int = 0  # bytes of them
    waiting: list[str] = field(default_factory=list)
    reader: ArgumentsReader | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class NativeCalls:
    """The calls of one choice, in the order of their first delta; one leaves at a time."""

    __slots__ = ("_calls", "_current", "_most", "_tools", "_unknown", "oversized")

    def __init__(self, tools: ToolSet, *, unknown: str = "forward", max_arguments_bytes: int | None = None) -> None:
        self._most = max_arguments_bytes
        self.oversized: str | None = None  # the name of a call whose arguments are too large to wait
        self._tools = tools
        self._unknown = unknown  # what becomes of a call of a name that is not among `tools`
        self._calls: list[_Call] = []
        self._current = 0  # the call whose events leave

    @property
    def seen(self) -> bool:
        """Whether the backend has written any call."""
        return bool(self._calls)

    def feed(self, deltas: list[Any]) -> list[Event]:
        """The entries of one `delta.tool_calls` (or of a message's `tool_calls`)."""
        for delta in deltas:
            if isinstance(delta, dict):
                self._delta(delta)
        return self._leave(over=False)

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The choice is over: open calls are closed, and mended unless the answer was cut."""
        events = self._leave(over=False)
        for number in range(self._current, len(self._calls)):
            call = self._calls[number]
            if not call.name:
                continue
            self._start(call, events)
            self._pass(call, events)
            self._end(call, events, complete=not cut or (call.reader is not None and call.reader.done))
        self._current = len(self._calls)
        return events

    def _delta(self, delta: dict[str, Any]) -> None:
        function = delta.get("function")
        if not isinstance(function, dict):
            function = delta if "name" in delta or "arguments" in delta else {}
        name = _text(function.get("name")) or ""
        call_id = _text(delta.get("id"))
        call = self._find(delta.get("index"), call_id, name)
        if call.id is None:
            call.id = call_id
        if not call.started and not delta.keys() <= _OWN_FIELDS:
            call.extra |= {key: value for key, value in delta.items() if key not in _OWN_FIELDS and value is not None}
        if name and not call.started:
            self._name(call, name)
        arguments = function.get("arguments")
        if arguments is None:
            return
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        self._arguments(call, arguments)

    def _find(self, index: Any, call_id: str | None, name: str) -> _Call:
        """The call that a delta belongs to; a new one where it must be."""
        last = self._calls[-1] if self._calls else None
        if isinstance(index, int):
            found = next((call for call in reversed(self._calls) if call.key == index), None)
            # Some engines give every call the index 0: another id, with a name, is another call.
            if found is not None and not (call_id and found.id and call_id != found.id and name):
                return found
        elif last is not None and not (call_id and last.id and call_id != last.id):
            # Without an index: a delta that names a tool begins a call, unless it repeats the last one's opening.
            if not name or call_id == last.id or not last.arguments:
                goes_on = last.name + name in self._tools.by_name or name.startswith(last.name)
                if not name or goes_on or (call_id is not None and call_id == last.id):
                    return last
        call = _Call(index if isinstance(index, int) else object())
        self._calls.append(call)
        return call

    def _name(self, call: _Call, name: str) -> None:
        if name == call.name:
            return  # repeated
        if call.name and name.startswith(call.name):
            call.name = name  # grows with each delta
        else:
            call.name += name  # comes in pieces

    def _arguments(self, call: _Call, text: str) -> None:
        if not text:
            return
        sofar = call.arguments
        if len(sofar) >= _MIN_REPEATED and text.startswith(sofar):
            text = text[len(sofar) :]  # all arguments so far again, with what is new
        call.arguments = sofar + text if len(sofar) < 4096 else sofar
        call.size += len(text.encode("utf-8", "surrogatepass"))
        if self._most is not None and call.size > self._most * 8 and self.oversized is None:
            # They may come as a string in a string, with escapes; what leaves is counted exactly.
            self.oversized = call.name
        elif text:
            call.waiting.append(text)

    def _leave(self, *, over: bool) -> list[Event]:
        """What may leave now: the current call's, and those behind it once it is over."""
        events: list[Event] = []
        while self._current < len(self._calls):
            call = self._calls[self._current]
            later = self._current + 1 < len(self._calls)
            if not call.started:
                if not call.name or not (call.waiting or later or over or self._whole_name(call.name)):
                    break
                self._start(call, events)
            self._pass(call, events)
            if call.reader is not None and call.reader.done:
                self._end(call, events)
            elif later and self._calls[self._current + 1].started is False and not self._interleaved(call):
                # The next call has begun: this one gets no more.
                self._end(call, events)
            else:
                break
            self._current += 1
        return events

    def _interleaved(self, call: _Call) -> bool:
        """Whether the backend may still go on with this call: deltas with an index can come in any order."""
        return isinstance(call.key, int)

    def _whole_name(self, name: str) -> bool:
        """Whether the name cannot grow into another tool's."""
        names = self._tools.by_name
        return name in names and not any(other != name and other.startswith(name) for other in names)

    def _start(self, call: _Call, events: list[Event]) -> None:
        if call.started:
            return
        call.started = True
        call.refused = bool(self._tools.by_name) and self._unknown != "forward" and call.name not in self._tools.by_name
        if not call.refused:
            events.append(CallStart(call.name, call.id, call.extra or None))

    def _pass(self, call: _Call, events: list[Event]) -> None:
        for text in call.waiting:
            piece = text
            if call.reader is None:
                piece = text.lstrip()
                if not piece:
                    continue
                call.reader = ArgumentsReader(piece[0])
            if call.reader.done:
                continue  # a second copy, or garbage behind the last brace
            _, out = call.reader.feed(piece, 0)
            if call.reader.stuck:
                out += call.reader.close()
            if out and not call.refused:
                events.append(CallArgs(out))
        call.waiting.clear()

    def _end(self, call: _Call, events: list[Event], *, complete: bool = True) -> None:
        if call.ended:
            return
        call.ended = True
        repaired = False
        if call.refused:
            self._refuse(call, events)
            return
        if call.reader is None:
            if complete:
                events.append(CallArgs("{}"))
        elif not call.reader.done:
            out = call.reader.close() if complete else call.reader.release()
            repaired = complete
            if out:
                events.append(CallArgs(out))
        else:
            repaired = call.reader.repaired
        events.append(CallEnd(complete, repaired, _written(call)))

    def _refuse(self, call: _Call, events: list[Event]) -> None:
        """A call of a name that is not offered."""
        raw = _written(call)
        if self._unknown == "error":
            events.append(Malformed(raw, "unknown_tool", call.name))
        if self._unknown != "drop":
            events.append(Text(raw))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _written(call: _Call) -> str:
    """The call as text; the backend has parsed away how the model wrote it."""
    arguments = call.arguments.encode("utf-8", "replace").decode()
    return msgspec.json.encode({"name": call.name, "arguments": arguments}).decode()
