"""A backend's own tool calls, repaired: its deltas in, the events of a parser out.

Engines' streaming parsers forget `index`, `id` or `type`, split, repeat or cut the name, send arguments as an object,
twice, encoded twice, or not at all, interleave calls, and forget the last brace. Each fault has a test that names the
engine's issue. Correct calls pass unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..formats.base import ParserOptions
from ..model import ToolSet
from ..parsing.calls.call_arguments import CallArguments
from ..parsing.calls.named_calls import FENCE
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Text, UnknownCall
from ..tool_names import meant_by
from ..wire import openai

_OWN_FIELDS = frozenset({"index", "id", "type", "function", "custom", "name", "arguments"})
_MAX_FENCE = 32  # characters of a fence's first line
_MIN_REPEATED = 8  # characters of arguments; a repetition this long is not chance
_MAX_COMPARED = 4096  # characters of arguments that are compared to find a repetition
_OPENINGS = frozenset({"{", '{"'})  # an object begins with either twice only where a key is a brace
_NAMESPACE = "functions."
_FORWARD = ParserOptions(unknown_tool="forward")


@dataclass(slots=True)
class _Call:
    """A call of the backend."""

    key: Any
    """Its index, or a unique object where its first delta has no index."""
    number: int = 0
    """Its place among the calls of the choice."""
    id: str | None = None
    name: str = ""
    started: bool = False
    """Its start was emitted, or it was refused."""
    refused: bool = False
    unreadable: bool = False
    """It was refused because its arguments are not an object."""
    size: int = 0
    """Bytes of its arguments."""
    oversized: bool = False
    """Its arguments are too large, and are not read further."""
    garbled: bool = False
    """Text follows its arguments that is not a repetition of them."""
    cumulative: bool = False
    """Each delta repeats all arguments so far."""
    sofar: str = ""
    """The beginning of its arguments, compared to find repetitions."""
    written: list[str] = field(default_factory=list)
    """Its arguments as the backend wrote them."""
    waiting: list[str] = field(default_factory=list)
    """Arguments that were read and cannot be emitted yet."""
    lead: str = ""
    """The beginning of its arguments while it may be a code fence, which is removed."""
    reader: CallArguments | None = None
    """Reads its arguments, once they have begun."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Unknown fields of its deltas."""

    empty: bool = False  # its arguments began with `{}`: all of them, or how Anthropic's blocks begin

    @property
    def done(self) -> bool:
        """Whether its arguments are complete."""
        return self.empty or (self.reader is not None and self.reader.done)


class NativeCalls:
    """The calls of one choice, in the order of their first delta; they are emitted one at a time.

    free: any name may be called, because the request has no tools to choose from. waits: a call ends only when no more
    input for it can follow its arguments.
    """

    __slots__ = (
        "_by_id", "_by_key", "_calls", "_current", "_free", "_last_read", "_most", "_options", "_tools", "_waits",
        "oversized",
    )  # fmt: skip

    def __init__(
        self,
        tools: ToolSet,
        options: ParserOptions = _FORWARD,
        *,
        free: bool = False,
        waits: bool = False,
        max_arguments_bytes: int | None = None,
    ) -> None:
        self._options = options
        self._free = free
        self._waits = waits
        self._most = max_arguments_bytes
        self.oversized: str | None = None  # the name of a call whose arguments are too large to hold
        self._tools = tools
        self._calls: list[_Call] = []
        # The last call of each index and of each id: a search of all calls for each delta would be quadratic.
        self._by_key: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._last_read = -1  # the number of the last call whose arguments have begun
        self._current = 0  # the number of the call whose events are emitted

    @property
    def seen(self) -> list[tuple[str, str]]:
        """The calls that the backend has begun: the name of each, and its arguments so far."""
        return [(call.name, "".join(call.written)) for call in self._calls]

    @property
    def named(self) -> bool:
        """Whether it has named a tool, offered or not."""
        return any(call.name for call in self._calls)

    @property
    def unfinished(self) -> bool:
        """Whether the last call's arguments have begun and are not complete."""
        return bool(self._calls) and self._calls[-1].reader is not None and not self._calls[-1].done

    def feed(self, deltas: list[Any]) -> list[Event]:
        """Read the entries of one `delta.tool_calls` (or of a message's `tool_calls`)."""
        named = False  # an entry of this list has a name: another name is another call's
        for delta in deltas:
            if isinstance(delta, dict):
                named = self._delta(delta, named=named)
        return self._leave(over=False)

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The choice is over: open calls are closed, and repaired unless the answer was cut.

        Nothing is emitted after a call that was cut off: a client could take it for the end of that call.
        """
        events = self._leave(over=True)
        for call in self._calls[self._current :]:
            if call.oversized:
                break
            self._start(call, events, cut=cut)
            self._pass(call, events)
            self._end(call, events, complete=not cut or call.done)
            if cut and not call.done and not call.refused:
                break
        self._current = len(self._calls)
        return events

    # -- deltas in -----------------------------------------------------------------------------------------------

    def _delta(self, delta: dict[str, Any], *, named: bool) -> bool:
        function = delta.get("function")
        if not isinstance(function, dict):
            function = delta if "name" in delta or "arguments" in delta else {}
        name = _text(function.get("name")) or ""
        call_id = _text(delta.get("id"))
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = openai.encode(arguments).decode()
        if not name and not call_id and not arguments and not self._calls:
            return named  # nothing at all
        call = self._find(delta.get("index"), call_id, name, arguments or "", named=named)
        if call.id is None:
            call.id = call_id
            if call_id is not None and self._by_id.get(call_id, call).number <= call.number:
                self._by_id[call_id] = call
        if not call.started and not delta.keys() <= _OWN_FIELDS:
            call.extra |= {key: value for key, value in delta.items() if key not in _OWN_FIELDS and value is not None}
        if name and not call.started:
            self._name(call, name)
        if arguments:
            self._arguments(call, arguments, opens=bool(name))
        return named or bool(name)

    def _find(self, index: Any, call_id: str | None, name: str, arguments: str, *, named: bool) -> _Call:
        """The call that a delta belongs to, created where it is new."""
        last = self._calls[-1] if self._calls else None
        found: _Call | None
        if isinstance(index, int):
            found = self._by_key.get(index)
            # Some engines give every call the index 0.
            if found is not None and name and self._is_another(found, call_id, name, arguments):
                found = None
        else:
            found = last if call_id is None else self._by_id.get(call_id, last)
            if found is not None and found.id != call_id and call_id and found.id:
                found = None
            elif found is not None and name and call_id is not None and found.id == call_id:
                if found.done and (named or self._is_another(found, call_id, name, arguments)):
                    found = None
            elif found is not None and name:
                # Without an index, a delta with a name begins a call, unless it continues one that has just opened.
                begun = found.sofar or named
                grows = found.name + name in self._tools.by_name or name.startswith(found.name)
                if found.done or (name != found.name if begun and not named else begun or not grows):
                    found = None
        if found is None:
            found = _Call(index if isinstance(index, int) else object(), len(self._calls))
            self._calls.append(found)
            if isinstance(index, int):
                self._by_key[index] = found
        return found

    def _is_another(self, found: _Call, call_id: str | None, name: str, arguments: str) -> bool:
        """Whether a delta with a name and the index of `found` still belongs to another call."""
        if call_id and found.id and (call_id != found.id or not found.done):
            return call_id != found.id
        if not found.done:
            names = self._tools.by_name
            return found.name in names and name in names and not name.startswith(found.name)
        if arguments == found.sofar:
            return False  # the whole call repeated
        return arguments.lstrip().startswith("{") if arguments else name != found.name

    def _name(self, call: _Call, name: str) -> None:
        if name == call.name:
            return  # repeated
        if call.name and name.startswith(call.name):
            call.name = name  # grows with each delta
        else:
            call.name += name  # comes in pieces

    def _arguments(self, call: _Call, text: str, *, opens: bool) -> None:
        if opens and call.reader is None and text.startswith("{}") and text[2:].strip()[:1] in {"", "{"}:
            text, call.empty, call.sofar, call.written = text[2:].strip(), True, "{}", ["{}"]
        if call.empty:
            if not text.lstrip().startswith("{"):
                return
            call.empty, call.sofar, call.written = False, "", []
        sofar = call.sofar
        if call.cumulative or len(sofar) >= _MIN_REPEATED or sofar in _OPENINGS or _is_unique(sofar):
            unfinished = not call.cumulative and (sofar.rstrip().endswith(":") or _closes_a_key(sofar, text))
            if sofar and text.startswith(sofar) and not unfinished:
                text = text[len(sofar) :]  # all arguments so far, repeated, and the new ones
                call.cumulative = True
        if len(sofar) < _MAX_COMPARED:
            call.sofar = sofar + text
        if not text:
            return
        call.written.append(text)
        call.size += len(text.encode("utf-8", "surrogatepass"))
        if self._most is not None and call.size > self._most * 8 and self.oversized is None:
            # They may be doubly encoded, with escapes; the exact limit applies to emitted arguments.
            self.oversized = call.name
            call.oversized = True
            return
        reader = call.reader
        if reader is None:
            text = (call.lead + text).lstrip()
            fence = FENCE.match(text)
            if fence is None or fence.end() == len(text):
                call.lead = text if text.startswith("`") and len(text) < _MAX_FENCE else ""
                text = "" if call.lead else text
            else:
                text = text[fence.end() :].lstrip()
                call.lead, call.garbled = "", True
                if not text:
                    call.lead = fence.group()
            if not text:
                return
            reader = call.reader = CallArguments(text[0])
            self._last_read = max(self._last_read, call.number)
        was_done = reader.done
        end, out = (0, "") if was_done else reader.feed(text, 0)
        ends = was_done or (reader.done and not reader.stuck)
        if ends and (rest := text[end:].strip()) and not _begins(call.written, rest):
            call.garbled = True  # text that is not a second copy follows the last brace
        if out:
            call.waiting.append(out)

    # -- events out ----------------------------------------------------------------------------------------------

    def _leave(self, *, over: bool) -> list[Event]:
        """Return the events that may be emitted now: the current call's, and later calls' once it is over."""
        events: list[Event] = []
        while self._current < len(self._calls):
            call = self._calls[self._current]
            if call.oversized:
                break
            later = self._current + 1 < len(self._calls)
            # It will have no arguments where those of a later call have begun.
            ends = (later and not isinstance(call.key, int)) or (call.reader is None and self._last_read > call.number)
            if not call.started:
                if not (over or ends or call.waiting or call.empty or self._takes_any(call.name)):
                    break  # the name is held until the arguments show what they are
                ready = call.done if self._is_part(call.name) else bool(call.waiting) or self._is_whole(call.name)
                is_part = self._is_part(call.name) and not (call.done or over)
                if is_part or not call.name or not (ready or later or over):
                    break
                self._start(call, events)
            self._pass(call, events)
            # Deltas with an index arrive in any order; without one, the start of the next call ends this one.
            is_done = call.done and (later or over or not (self._waits or call.empty))
            if is_done or ends:
                self._end(call, events)
            else:
                break
            self._current += 1
        return events

    def _is_whole(self, name: str) -> bool:
        """Whether the name cannot grow into another tool's."""
        names = self._tools.by_name
        return name in names and not any(other != name and other.startswith(name) for other in names)

    def _is_part(self, name: str) -> bool:
        """Whether the name is a proper prefix of a tool's name, and not itself a tool's."""
        names = self._tools.by_name
        return bool(name) and name not in names and any(other.startswith(name) for other in names)

    def _offered(self, call: _Call) -> str:
        """The name of the tool that the call means: an engine may drop the end of the name, or all of it."""
        names = self._tools.by_name
        bare = call.name.removeprefix(_NAMESPACE)
        if call.name in names or bare in names:
            return call.name if call.name in names else bare
        if self._options.repair_names and (meant := meant_by(call.name, names)) is not None:
            return meant
        given = openai.read_value("".join(call.written).encode("utf-8", "replace"))
        fitting = [
            name
            for name, tool in names.items()
            if name.startswith(call.name) and isinstance(given, dict) and _fits(given, tool.parameters)
        ]
        return fitting[0] if len(fitting) == 1 else call.name

    def _takes_any(self, name: str) -> bool:
        """Whether a call of this name may have any JSON as arguments."""
        free = self._options.any_arguments
        return free is None or name in free

    def _is_unreadable(self, call: _Call, *, cut: bool) -> bool:
        """Whether the arguments of a call that starts are known not to be an object."""
        first, reader = "".join(call.waiting), call.reader
        if reader is not None and reader.done and not first:
            return True  # no value can begin with their first character
        if reader is not None and not (first or reader.done):
            if cut:
                return reader.is_data
            if first := reader.close():
                call.waiting.append(first)
        return bool(call.lead) or not (not first or first.startswith("{"))

    def _start(self, call: _Call, events: list[Event], *, cut: bool = False) -> None:
        if call.started:
            return
        call.started = True
        written = call.name
        call.name = self._offered(call)
        unknown = not self._free and call.name not in self._tools.by_name
        call.refused = not call.name or (unknown and self._options.unknown_tool != "forward")
        if not (call.refused or self._takes_any(call.name)):
            call.refused = call.unreadable = self._is_unreadable(call, cut=cut)
        if not call.refused:
            events.append(CallStart(call.name, call.id, call.extra or None, None if call.name == written else written))

    def _pass(self, call: _Call, events: list[Event]) -> None:
        if call.waiting and not call.refused:
            events.append(CallArgs("".join(call.waiting)))
        call.waiting.clear()

    def _end(self, call: _Call, events: list[Event], *, complete: bool = True) -> None:
        repaired = False
        if call.refused:
            self._refuse(call, events)
            return
        if call.reader is None:
            if complete:
                events.append(CallArgs("{}"))
        elif not call.reader.done:
            out = call.reader.close() if complete else call.reader.release()
            complete = complete and not call.reader.cut
            repaired = complete
            if out:
                events.append(CallArgs(out))
        else:
            repaired = call.reader.repaired or call.garbled
            complete = not call.reader.cut
        written = "".join(call.written) if self._waits else ""
        events.append(CallEnd(complete, repaired, _written(call), written=written))

    def _refuse(self, call: _Call, events: list[Event]) -> None:
        """Refuse a call of an unknown tool, or one whose arguments are not an object, which becomes text."""
        if not call.name and not call.written:
            return  # an empty entry
        raw = _written(call)
        if call.unreadable:
            events += [UnknownCall(call.name, malformed=True), Text(raw)]
            return
        if self._options.unknown_tool == "error":
            events.append(Malformed(raw, "unknown_tool", call.name))
        elif self._options.tell_unknown:
            events.append(UnknownCall(call.name))
        if self._options.unknown_tool != "drop":
            events.append(Text(raw))


def _begins(pieces: list[str], text: str) -> bool:
    """Whether the joined `pieces` begin with `text`."""
    at = 0
    for piece in pieces:
        if at >= len(text):
            break
        if not piece.startswith(text[at : at + len(piece)]):
            return False
        at += len(piece)
    return at >= len(text)


def _closes_a_key(sofar: str, text: str) -> bool:
    """Whether `text` after `{"` is the rest of a key that is a brace: `{": 1`."""
    return sofar == '{"' and text[2:].lstrip().startswith(":")


def _is_unique(sofar: str) -> bool:
    """Whether valid arguments that begin like this cannot continue with the same characters repeated."""
    # An object can appear only where a value is expected, and in a string its quotes have backslashes.
    return sofar.startswith('{"') and sofar.rstrip()[-1] not in ":[,"


def _fits(given: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether the given names fit the properties of the tool's schema."""
    properties, required = schema.get("properties"), schema.get("required")
    known = isinstance(properties, dict) and given.keys() <= properties.keys()
    return known and (not isinstance(required, list) or all(name in given for name in required))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _written(call: _Call) -> str:
    """The call as JSON text: the backend's parser discarded the text that the model wrote."""
    arguments = "".join(call.written).encode("utf-8", "replace").decode()
    return openai.encode({"name": call.name, "arguments": arguments}).decode()
