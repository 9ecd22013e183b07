"""One call written as a JSON object, `{"name": …, "arguments": …}`, or an object that wraps a list of them.

Accepted everywhere: keys in any order, `parameters` and the like for `arguments`, an id, OpenAI's `function` wrapper,
arguments as an object or as a JSON string holding one (decoded as it arrives), and what `JsonReader` repairs.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from ...patterns import WHITE_SPACE, anywhere
from ...sink import Sink
from ...values.json_spelling import decode
from .arguments import CallArguments
from .call_list import CallList
from .call_value import MAX_NAME, SimpleValue, arguments_beside, text_beside
from .syntax import JsonCallSyntax

_BARE_KEY = anywhere(r"[A-Za-z_$][A-Za-z0-9_$-]*|")
# Arguments that begin like a JSON Schema: behind no marker, that is how a tool is defined, not called.
_SCHEMA = re.compile(r'\{\s{0,32}"type"\s{0,8}:\s{0,8}"object"')
_SCHEMA_BEGUN = re.compile(r'\{\s{0,32}"type"\s{0,8}:\s{0,8}(?:"(?:o(?:b(?:j(?:e(?:ct?)?)?)?)?)?)?\Z')
_MAX_EARLY_ARGS = 1 << 20
# How a value begins, and a key, name or id that is half there: a call's keys are words, names and ids have no spaces.
_VALUE_BEGINS = re.compile(r"[\w\"'{\[+.-]")
_HALF_KEY, _HALF_NAME = re.compile(r"\w*"), re.compile(r"[^\s<>{}\[\]]*")

# Where the reader of one call object stands.
_OPEN, _KEY, _COLON, _VALUE, _NAME, _ID, _ARGS, _SKIP, _NEXT, _LIST, _OVER = range(11)
_SIMPLE = frozenset({_NAME, _ID, _SKIP})


class CallReader:
    """Reads one call object, or an object that wraps a list of them, from `{` to its `}`."""

    __slots__ = (
        "_args", "_args_ended", "_beside", "_cut", "_early", "_early_size", "_hopeless", "_id", "_key", "_level",
        "_list", "_name", "_sink", "_started", "_state", "_syntax", "_unsettled", "_value",
        "done", "failed", "lost", "repaired",
    )  # fmt: skip

    def __init__(self, syntax: JsonCallSyntax, sink: Sink) -> None:
        self.done = self.failed = self.repaired = False
        self.lost = False  # the object broke off behind its name: its markup may go on
        self._syntax = syntax
        self._sink = sink
        self._state = _OPEN
        self._level = 0
        self._key = ""
        self._name: str | None = None
        self._id: str | None = None
        self._started = False
        self._hopeless = False  # a value begins as none does
        self._args_ended = False
        self._cut = False  # the arguments have ended in a value
        self._args: CallArguments | None = None
        self._early: list[str] | None = None  # arguments that came before the name
        self._early_size = 0
        self._unsettled: list[str] | None = None  # a bare call's first characters of arguments
        self._value: SimpleValue | None = None  # a key, a name, an id, or what is skipped
        self._list: CallList | None = None
        self._beside: dict[str, str] = {}  # members that say nothing of a call, as JSON

    def feed(self, s: str, i: int, *, last: bool) -> int:  # noqa: C901, PLR0911, PLR0912, PLR0915 - a table of states
        """Read from `s[i]`; see `Body.step`."""
        n = len(s)
        while True:
            state = self._state
            if state == _ARGS:
                i = self._feed_arguments(s, i, last=last)
                if self._sink.changed or self.failed or self._state == state:
                    return i
                continue
            if state in _SIMPLE or state == _KEY:
                if state == _KEY and self._value is None:
                    i = WHITE_SPACE.match(s, i).end()
                    if i == n:
                        return i
                    if s[i] == "}":
                        self._state = _NEXT
                        continue
                    if s[i] == ",":
                        i += 1
                        continue
                    if s[i] not in "\"'":
                        end = _BARE_KEY.match(s, i).end()
                        if end == i or end - i > MAX_NAME:
                            self._break()
                            return i
                        if end == n:
                            return i
                        self.repaired = True
                        self._set_key(s[i:end])
                        if self.failed:
                            return i
                        i = end
                        continue
                    self._value = SimpleValue(short=True)
                value = self._value
                assert value is not None  # noqa: S101 - set with the state
                i = value.feed(s, i)
                if value.too_long:
                    self._break()
                    return i
                if not value.over:
                    return i
                self._simple_value(state, value)
                if self._sink.changed or self.failed:
                    return i
                continue
            if state == _OVER:
                self._end(complete=True)
                return i
            if state == _LIST:
                i = self._read_list(s, i, last=last)
                if self.failed or self._sink.changed or self._state == state:
                    return i
                continue
            i = WHITE_SPACE.match(s, i).end()
            if i == n:
                return i
            c = s[i]
            if state == _OPEN:
                if c != "{":
                    self.failed = True
                    return i
                i += 1
                self._state = _KEY
            elif state == _COLON:
                if c in ":=":
                    i += 1
                elif c in "{[" and self._key in self._syntax.arguments:
                    self.repaired = True  # the colon is missing
                else:
                    self._break()
                    return i
                self._state = _VALUE
            elif state == _VALUE:
                i = self._open_value(c, i)
                if self.failed or self._sink.changed:
                    return i
            elif state == _NEXT:
                i = self._next(c, i)
                if self.done or self.failed or self._sink.changed:
                    return i

    def finish(self, *, cut: bool) -> None:
        """The text is over. An open call is closed: repaired when the model ended by itself, left as it is when cut.

        Without one, `failed` says that what is there could not become one.
        """
        if self._list is not None and self._state == _LIST:
            self._list.finish(cut=cut)
            self.failed = self._list.failed
            return
        if not self._started:
            # Without a name, a value may have swallowed the rest of the answer, in a string that nothing closes.
            nameless = not cut and (self._early is not None or self._state == _SKIP)
            self.failed = self._hopeless or nameless or not self._half_word()
        if self.done or not self._started:
            return
        if self._state == _ARGS:
            assert self._args is not None  # noqa: S101 - set with the state
            if cut:
                self._sink.args(self._args.release())
                self._end(complete=False)
                return
            self._put(self._args.close(), settled=True)
            self._cut = self._args.cut
            self._args_ended = True
        self.repaired = True
        # Where a key or a value was to come, it may have been that of the arguments.
        self._end(complete=not cut and (self._args_ended or self._state == _NEXT))

    def _read_list(self, s: str, i: int, *, last: bool) -> int:
        calls = self._list
        assert calls is not None  # noqa: S101 - set with the state
        i = calls.feed(s, i, last=last)
        self.failed = calls.failed
        if calls.done:
            self.repaired = self.repaired or calls.repaired
            self._state = _NEXT
        return i

    def _simple_value(self, state: int, read: SimpleValue) -> None:
        """A key, a name, an id or a skipped value is complete."""
        self._value = None
        text, repaired = read.end()
        self.repaired = self.repaired or repaired
        if state in {_SKIP, _ID}:
            self._beside[self._key] = text
        if state == _SKIP:
            self._state = _NEXT
            return
        try:
            value = decode(text)
        except ValueError:
            self._break()
            return
        if state == _KEY:
            self._set_key(value if isinstance(value, str) else str(value))
            return
        self._state = _NEXT
        if state == _ID:
            if isinstance(value, (str, int)) and not isinstance(value, bool):
                self._id = str(value)
            return
        if not isinstance(value, str) or not value:
            self.failed = True
            return
        self._set_name(value)

    def _half_word(self) -> bool:
        """Whether the key, name or id at hand, if there is one, can still become one of a call."""
        half = _HALF_NAME if self._state != _KEY or (self._syntax.keyed and self._name is None) else _HALF_KEY
        value = None if self._state == _SKIP else self._value
        return value is None or half.fullmatch(value.so_far[1:]) is not None

    def _set_key(self, key: str) -> None:
        self._key = key
        self._state = _COLON
        begun = self._started or self._list is not None
        self.failed = not self._syntax.takes(key, outer=self._level == 0, begun=begun, beside=self._beside)

    def _set_name(self, value: str) -> None:
        if self._name is not None:
            return  # `function` after `name`: the first stands
        self._name = value
        definition = self._early is not None and _SCHEMA.match("".join(self._early)) is not None
        if self._syntax.bare and (definition or not self._sink.offered(value)):
            self.failed = True
        elif not self._syntax.bare or self._early is not None:
            self._start()

    def _start(self) -> None:
        assert self._name is not None  # noqa: S101 - checked by the callers
        self._started = True
        self._sink.start(self._name, self._id)
        if self._early is not None:
            self._sink.args("".join(self._early))
            self._early = None

    def _open_value(self, c: str, i: int) -> int:
        """The first character of a value tells how it is read."""
        syntax, key = self._syntax, self._key
        self._hopeless = self._hopeless or _VALUE_BEGINS.match(c) is None
        if self._level == 0 and key in syntax.wrappers and self._name is None and not syntax.keyed:
            if c not in "[{":
                self.failed = True
                return i
            self._state = _LIST
            self._list = CallList(self._sink, functools.partial(_entry, syntax, self._sink))
            return i
        if syntax.keyed and self._name is None and not (key in syntax.names and c in "\"'"):
            self._set_name(key)
            self._open_arguments(c)
            return i
        if key == "function" and c == "{" and self._level == 0:
            self._level = 1
            self._state = _KEY
            return i + 1
        if key in syntax.names and self._name is None and c in "\"'":
            self._state = _NAME
        elif key in syntax.ids and c in "\"'":
            self._state = _ID
        elif key in syntax.arguments and not self._args_ended and not (key in syntax.names and c in "\"'"):
            self._open_arguments(c)
            return i
        else:
            self._state = _SKIP
        self._value = SimpleValue(short=self._state != _SKIP)
        return i

    def _open_arguments(self, c: str) -> None:
        if self._syntax.bare and c not in "{\"'nN":
            self.failed = True  # `"args": ["-v"]` is data
            return
        if self._name is None:
            self._early = []
        elif not self._started:
            self._unsettled = []
        self._state = _ARGS
        self._args = CallArguments(c, self._syntax.close, self._sink.arguments)

    def _feed_arguments(self, s: str, i: int, *, last: bool) -> int:
        args = self._args
        assert args is not None  # noqa: S101 - set with the state
        i, out = args.feed(s, i)
        if self._unsettled is not None and args.doubtful:
            self.failed = True  # without a marker, what looks like no JSON is no call
            return i
        if args.stuck:
            close = self._syntax.close
            if not last and any(len(marker) > len(s) - i and marker.startswith(s[i:]) for marker in close):
                self._put(out, settled=args.settled)
                return i
            out += args.close(marked=s.startswith(close, i))
        if self._syntax.bare and not self._started and args.done:
            self.failed = args.is_data
        self._put(out, settled=args.settled)
        if args.done:
            self.repaired = self.repaired or args.repaired
            self._cut = args.cut
            self._args = None
            self._args_ended = True
            self._state = _NEXT
        elif i == len(s) and args.streams is not None and self._early is None and self._unsettled is None:
            self._sink.flows(args.streams)
        return i

    def _put(self, out: str, *, settled: bool) -> None:
        if self._unsettled is not None:
            self._unsettled.append(out)
            if settled and not self.failed:
                early = "".join(self._unsettled)
                self.failed = _SCHEMA.match(early) is not None
                if not self.failed and _SCHEMA_BEGUN.match(early) is None:
                    self._unsettled = None
                    self._start()
                    self._sink.args(early)
        elif self._early is not None:
            self._early.append(out)
            self._early_size += len(out)
            if self._early_size > _MAX_EARLY_ARGS:
                self.failed = True
        else:
            self._sink.args(out)

    def _next(self, c: str, i: int) -> int:
        """Behind a value: a comma, the end of the object, or something that is neither."""
        if c == ",":
            self._state = _KEY
            return i + 1
        if c == "}":
            if self._level == 1:
                self._level = 0
                return i + 1
            return self._object_end(i + 1)
        if c in "\"'":
            self.repaired = True  # a comma is missing
            self._state = _KEY
            return i
        if self._started:
            # The last brace is missing: what follows is not ours, or no JSON.
            self._break()
            return i
        self.failed = True
        return i

    def _object_end(self, i: int) -> int:
        if self._name is None:
            self.done = self._list is not None
            self.failed = not self.done
            if self.done and (said := text_beside(self._beside)):
                self._sink.says(said)
            return i
        if not self._started:
            # A bare call without arguments.
            if self._syntax.bare and not self._args_ended:
                self.failed = True
                return i
            self._start()
            self._state = _OVER
            return i
        self._end(complete=True)
        return i

    def _break(self) -> None:
        """The object's own syntax ends here. A call that was told is over; without one this is none."""
        if not self._started:
            self.failed = True
            return
        self.lost = self.repaired = True
        self._end(complete=True)

    def _end(self, *, complete: bool) -> None:
        if complete and not self._args_ended:
            beside = arguments_beside(self._beside, self._sink.schema(self._name or ""))
            self.repaired = self.repaired or beside != ""
            self._sink.args(beside or "{}")
        self.done = True
        self._sink.end(complete=complete and not self._cut, repaired=self.repaired)


def _entry(syntax: JsonCallSyntax, sink: Sink) -> CallReader:
    """Reads an entry of the list. It needs no further proof that it is a call."""
    return CallReader(replace(syntax, bare=False, wrappers=frozenset(), wrapper_only=False), sink)
