"""Calls written as JSON objects: alone, in a list, one after another, or under a key such as `tool_calls`.

Keys come in any order; `parameters` and the like are `arguments`; OpenAI's `function` wrapper, ids, arguments as an
object or as a JSON string that holds one, and what `JsonReader` repairs are read everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..cursor import MAX_GAP, Cursor, NotACall, Steps, TextOver, Unreadable
from ..patterns import WHITE_SPACE
from ..values.json_reader import JsonReader, decode, decoded
from .call_arguments import CallArguments

_MAX_NAME = 512  # characters of a key, a name or an id
_MAX_OTHER = _MAX_EARLY = 1 << 20  # characters of another member, and of arguments before the name
_MAX_FENCE = 32
_SHORT = re.compile(r"""(["'])[^"'\\]*\1""")  # a string that ends at its next quote
_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
# Without a marker, arguments that begin like a JSON Schema define a tool and do not call it.
_SCHEMA = re.compile(r'\{\s{0,32}"type"\s{0,8}:\s{0,8}"object"')
_SCHEMA_BEGUN = re.compile(r'\{\s{0,32}"type"\s{0,8}:\s{0,8}(?:"(?:o(?:b(?:j(?:e(?:ct?)?)?)?)?)?)?\Z')
_VALUE_BEGINS = re.compile(r"[\w\"'{\[+.-]")
_HALF_KEY, _HALF_NAME = re.compile(r"\w*"), re.compile(r"[^\s<>{}\[\]]*")
_TOO_MANY = re.compile(r"\}[}\s]{0,64}(?:(?=\]|,\s{0,64}\{)|(?P<open>(?:,\s{0,64})?\Z))")
_FENCE = re.compile(r"`{3,}[A-Za-z_]*[ \t]*\r?\n")
_FENCE_BEGUN = re.compile(r"`+[A-Za-z_]*[ \t]*\r?\Z")
_HEAD = r"\{[ \t\r\n]*[\"'](?:name|function|type|id|tool_name|tool_call_id)[\"'][ \t\r\n]*:"


_OF_MESSAGE = frozenset({"role", "content"})  # what an assistant's message holds besides its calls


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCallSyntax:
    """How a family writes JSON calls after its opening marker."""

    close: tuple[str, ...] = ()
    """Markers that end it, each optional at the end of the text."""
    keyed: bool = False
    """`{"f": {…}}`: the name is the key."""
    bare: bool = False
    """No marker precedes a call, so only known keys keep an object a candidate, and the call starts when its
    arguments are plainly JSON."""
    no_other_keys: bool = False
    """A key that calls do not have refuses the object, also after its arguments. Only a reader that reports nothing
    before the call ends can withdraw it then."""
    wrappers: frozenset[str] = frozenset({"tool_calls"})
    """Keys whose value may be a list of calls, or one call (`tool_calls`), unless keys are names."""
    message: bool = False
    """The opening has shown an assistant's message, which holds such a list."""
    wrapper_only: bool = False
    """Nothing but that list is a call."""
    separators: str = ",;"
    """Characters that may separate two calls outside of a list."""
    in_list: bool = False
    """The marker has opened the list."""
    names: frozenset[str] = frozenset({"name", "tool_name", "function", "tool", "recipient_name", "action"})
    arguments: frozenset[str] = frozenset(
        {"arguments", "parameters", "args", "input", "params", "tool_input", "kwargs", "action_input"}
    )
    ids: frozenset[str] = frozenset({"id", "tool_call_id", "call_id"})

    def takes(self, key: str, *, outer: bool, begun: bool, beside: Mapping[str, str]) -> bool:
        """Whether an object with this key may be a call: without a marker its keys must be those of one, or of an
        assistant's message that holds some.

        outer: it is not within another. begun: calls have been read in it. beside: its members so far, as JSON.
        """
        if not self.bare or (begun and not self.no_other_keys) or (outer and key in self.wrappers):
            return True
        of_message = key in _OF_MESSAGE
        by_assistant = beside.get("role") == '"assistant"'
        if outer and self.wrappers and (of_message or by_assistant):
            return of_message and (self.message or by_assistant or key == "role")
        known = key == "type" or key in self.names or key in self.arguments or key in self.ids
        return known and not self.wrapper_only


class _Broken(Exception):
    """The object's own syntax ends here."""


def read_json(c: Cursor, syntax: JsonCallSyntax) -> Steps[None]:
    """Read call after call, and the list, fence and closing marker around them."""
    char, in_list = yield from _before_call(c, syntax, in_list=syntax.in_list)
    while char == "{":
        proven = syntax.bare and in_list and c.sink.committed  # after a call, a list's entries need no further proof
        call = _Call(c, replace(syntax, bare=False) if proven else syntax)
        yield from call.read()
        if call.lost and (syntax.close or in_list) and (yield from _find_back(c, syntax.close, in_list=in_list)):
            return
        char = yield from _behind_call(c, syntax, in_list=in_list)
        if char == ",":
            char, in_list = yield from _before_call(c, syntax, in_list=in_list)
    if char:
        if char == "]":
            c.i += 1
        yield from _tail(c, syntax.close)


def _before_call(c: Cursor, syntax: JsonCallSyntax, *, in_list: bool) -> Steps[tuple[str, bool]]:
    """Go to a call's brace, or to the bracket that ends the list: (that character, whether calls are in a list).

    The character is empty where only white space remains.
    """
    while True:
        if (j := (yield from c.ahead())) < 0:
            if c.behind_space() < len(c.s) or not c.sink.committed:
                raise NotACall
            c.i = len(c.s)
            return "", in_list
        char = c.s[j]
        if char == "{" or (char == "]" and in_list):
            c.i = j
            return char, in_list
        if char == "[" and not in_list:
            in_list, c.i = True, j + 1
            continue
        if char != "`" or syntax.bare:
            raise NotACall
        fence = _FENCE.match(c.s, j)
        if fence is not None:
            c.i = fence.end()
        elif c.last or len(c.s) - j >= _MAX_FENCE or not _FENCE_BEGUN.match(c.s, j):
            raise NotACall
        else:
            yield from c.more()


def _behind_call(c: Cursor, syntax: JsonCallSyntax, *, in_list: bool) -> Steps[str]:
    """Go to the next call's brace, past the comma before a list's next entry, or to the list's end: that character.

    The cursor stays before any other character: a tail follows. Empty where the calls are over.
    """
    while True:
        if (j := (yield from c.ahead())) < 0:
            return ""
        char = c.s[j]
        if char == "{" or (in_list and char == "]"):
            c.i = j
        elif in_list and char == ",":
            c.i = j + 1
        elif not in_list and char in syntax.separators:
            if not syntax.bare:
                c.i = j + 1
                continue
            # Without markers, `; ` belongs to the calls only where a call follows.
            k = WHITE_SPACE.match(c.s, j + 1).end()
            if k == len(c.s) and not c.last and k - c.i < MAX_GAP:
                yield from c.more()
                continue
            if c.s[k : k + 1] != "{":
                return ""
            c.i, char = k, "{"
        elif char == "}" and not any(marker.startswith("}") for marker in syntax.close):
            c.i = j + 1  # models miscount: the call has all of its braces
            continue
        elif char in "{]":
            char = "}"  # not of a list
        return char


def _no_prose(c: Cursor) -> Steps[None]:
    """After an object without arguments: prose on its line shows that it mentions a call. Raises NotACall."""
    while True:
        k = c.i
        while c.s[k : k + 1] in {" ", "\t"} and k - c.i < MAX_GAP:
            k += 1
        if k < len(c.s) or c.last:
            break
        yield from c.more()
    if c.s[k : k + 1].isalnum():
        raise NotACall


def _near(close: tuple[str, ...]) -> re.Pattern[str]:
    """A closing marker, or the beginning of a call (the group `head`)."""
    return re.compile("|".join((f"(?P<head>{_HEAD})", *map(re.escape, close))))


def _find_back(c: Cursor, close: tuple[str, ...], *, in_list: bool) -> Steps[bool]:
    """After a call that broke off: its closing marker, or the list's next call, shows that it was all markup."""
    m = yield from c.near(_near(close))
    if m is None or (m["head"] and not in_list):
        yield from _tail(c, close)
        return True
    c.skip_to(m.start() if m["head"] else m.end())
    return not m["head"]


def _tail(c: Cursor, close: tuple[str, ...]) -> Steps[None]:
    """Skip the closing marker, or stray braces where the syntax has no marker."""
    if close:
        yield from c.closer(close)
        return
    while (j := (yield from c.ahead())) >= 0 and c.s[j] == "}":
        c.i = j + 1


class _Call:
    """One call object, or an object that wraps a list of them, while it is read."""

    __slots__ = (
        "args", "args_ended", "beside", "c", "cut", "due", "half", "held", "held_size", "hopeless", "id", "is_list",
        "lost", "name", "repaired", "started", "syntax", "wraps",
    )  # fmt: skip

    def __init__(self, c: Cursor, syntax: JsonCallSyntax) -> None:
        self.c, self.syntax = c, syntax
        self.name: str | None = None
        self.id: str | None = None
        self.lost = self.repaired = self.started = self.hopeless = self.args_ended = self.cut = False
        self.is_list = self.wraps = False
        self.due = False  # a key or a value must follow
        self.args: CallArguments | None = None
        self.held: list[str] | None = None  # arguments before the name, or their first characters while it is held
        self.held_size = 0
        self.half: tuple[str, list[str]] | None = None  # the key, name, id or skipped value at hand
        self.beside: dict[str, str] = {}  # members that are not part of a call, as JSON

    def read(self) -> Steps[None]:
        """Read the object from its brace on."""
        try:
            yield from self._members(outer=True)
            if self.name is None:
                if not self.wraps:
                    raise NotACall
                if said := text_beside(self.beside):
                    self.c.sink.says(said)
                self.c.sink.consumed(self.c.taken())
                self.c.sink.close()
                return
            if not self.started:
                if self.syntax.bare and not self.args_ended:
                    raise NotACall
                if not self.args_ended and self.syntax.wrappers:
                    yield from _no_prose(self.c)
                self._start()
            self._end(complete=True)
        except _Broken:
            if not self.started:
                if self.syntax.bare or self.name is None:
                    raise NotACall from None
                if self.syntax.wrappers and (yield from self.c.near(_near(self.syntax.close))) is None:
                    raise NotACall from None  # a mention of the syntax
                self._start()  # the name was held, and no arguments have begun
            self.lost = self.repaired = True
            self._end(complete=True)
        except TextOver:
            self._text_over()
            raise

    def _text_over(self) -> None:
        """End the object with the text: an open call is closed, or cut. Raises NotACall where it cannot be a call."""
        cut = self.c.cut
        if self.is_list:
            return
        if not self.started and (self.syntax.bare or self.name is None):
            early = self.name is None and self.held is not None
            nameless = not cut and (early or (self.half is not None and self.half[0] == "skip"))
            if self.hopeless or nameless or not self._half_word():
                raise NotACall
            return
        args = None if self.args_ended else self.args
        in_args = args is not None
        if args is not None and cut:
            if not self.started and args.is_data:
                raise Unreadable(self.name or "")
            self._put(args.release(), settled=True)
        elif args is not None:
            self._put(args.close(), settled=True)
            self.cut = args.cut
            self.args_ended = True
        if not self.started:
            self._start()
        self.repaired = self.repaired or not (in_args and cut)
        ended = not cut and (self.args_ended or not self.due)
        self._end(complete=ended)

    def _half_word(self) -> bool:
        if self.half is None or self.half[0] == "skip":
            return True
        half = _HALF_NAME if self.half[0] != "key" or (self.syntax.keyed and self.name is None) else _HALF_KEY
        return half.fullmatch("".join(self.half[1])[1:]) is not None

    def _members(self, *, outer: bool) -> Steps[None]:
        c = self.c
        c.i += 1
        while (char := (yield from c.char())) != "}":
            self.due = True
            if char == ",":
                c.i += 1
                continue
            key = yield from self._key(char)
            begun = self.started or self.wraps
            if not self.syntax.takes(key, outer=outer, begun=begun, beside=self.beside):
                raise NotACall
            char = yield from c.char()
            if char in ":=":
                c.i += 1
            elif char in "{[" and key in self.syntax.arguments:
                self.repaired = True  # the colon is missing
            else:
                raise _Broken
            yield from self._value(key, (yield from c.char()), outer=outer)
            self.due = False
            char = yield from c.char()
            if char == ",":
                c.i += 1
                self.due = True
            elif char in "\"'":
                self.repaired = True  # a comma is missing
            elif char != "}":
                raise _Broken
        c.i += 1

    def _key(self, char: str) -> Steps[str]:
        c = self.c
        if char not in "\"'":
            while True:
                m = _BARE_KEY.match(c.s, c.i)
                if m is None or m.end() - c.i > _MAX_NAME:
                    raise _Broken
                if m.end() < len(c.s):
                    break
                yield from c.more()
            self.repaired = True
            c.i = m.end()
            return m.group()
        key = yield from self._decoded("key")
        return key if isinstance(key, str) else str(key)

    def _value(self, key: str, char: str, *, outer: bool) -> Steps[None]:
        """Read a value by its key and its first character."""
        syntax, quoted = self.syntax, char in "\"'"
        self.hopeless = self.hopeless or _VALUE_BEGINS.match(char) is None
        if outer and key in syntax.wrappers and self.name is None and not syntax.keyed:
            if char not in "[{":
                raise NotACall
            yield from self._entries()
        elif syntax.keyed and self.name is None and not (key in syntax.names and quoted):
            self._set_name(key)
            yield from self._arguments(char)
        elif key == "function" and char == "{" and outer:
            yield from self._members(outer=False)
        elif key in syntax.names and self.name is None and quoted:
            name = yield from self._decoded("name")
            if not isinstance(name, str) or not name:
                raise NotACall
            self._set_name(name)
        elif key in syntax.ids and quoted:
            value = yield from self._decoded("id", key)
            if isinstance(value, (str, int)) and not isinstance(value, bool):
                self.id = str(value)
        elif key in syntax.arguments and not self.args_ended and not (key in syntax.names and quoted):
            yield from self._arguments(char)
        else:
            self.beside[key] = yield from self._json("skip")

    def _json(self, kind: str) -> Steps[str]:
        """Read a value as JSON. A key, a name or an id has at most `_MAX_NAME` characters."""
        c, reader, read, skipped = self.c, JsonReader(), 0, False
        out: list[str] = []
        self.half = (kind, out)
        while True:
            if c.i == len(c.s):
                yield from c.more()
                continue
            s, begin, end = c.s, c.i, c.i + _MAX_NAME - read
            if kind != "skip" and end < len(s) and (read or not _SHORT.match(s, begin, end)):
                s = s[:end]
            c.i = reader.feed(s, begin, out)
            read += c.i - begin
            if reader.done or reader.stuck:
                break
            if kind == "skip" and read > _MAX_OTHER:
                out.clear()
                skipped = True
            elif kind != "skip" and read >= _MAX_NAME:
                raise _Broken
        reader.close(out)
        self.half = None
        self.repaired = self.repaired or reader.repaired
        return "" if skipped else "".join(out)

    def _decoded(self, kind: str, key: str = "") -> Steps[object]:
        text = yield from self._json(kind)
        if key:
            self.beside[key] = text
        try:
            return decode(text)
        except ValueError:
            raise _Broken from None

    def _set_name(self, name: str) -> None:
        self.name = name
        if self.syntax.bare:
            defines = self.held is not None and _SCHEMA.match("".join(self.held)) is not None
            if defines or not self.c.sink.offered(name):
                raise NotACall
        # Otherwise the name is held until the arguments show what they are.
        if self.held is not None or (not self.syntax.bare and self.c.sink.takes_any(name)):
            self._start()

    def _start(self) -> None:
        name, held = self.name or "", "".join(self.held or ())
        if held and not held.startswith("{") and not self.c.sink.takes_any(name):
            raise Unreadable(name)
        self.started = True
        self.held = None
        self.c.start(name, self.id)
        self.c.sink.args(held)

    def _arguments(self, char: str) -> Steps[None]:
        c, syntax = self.c, self.syntax
        if syntax.bare and char not in "{\"'nN":
            raise NotACall  # `"args": ["-v"]` is data
        if not self.started:
            self.held = []
        args = self.args = CallArguments(char, syntax.close, c.sink.arguments)
        while True:
            c.i, out = args.feed(c.s, c.i)
            if syntax.bare and self.name is not None and not self.started and args.doubtful:
                raise NotACall
            waits = args.stuck and not c.last and c.begins(syntax.close, c.i)
            if args.stuck and not waits:
                out += args.close(marked=c.s.startswith(syntax.close, c.i))
            if syntax.bare and not self.started and args.done and args.is_data:
                raise NotACall
            self._put(out, settled=args.settled)
            if args.done:
                break
            if not waits and c.i == len(c.s) and args.within and self.held is None:
                c.sink.flows(args.within)
            yield from c.more()
        self.repaired = self.repaired or args.repaired
        self.cut = args.cut
        self.args_ended = True

    def _put(self, out: str, *, settled: bool) -> None:
        """Emit a piece of the arguments, or hold it until the call starts."""
        if self.held is None:
            self.c.sink.args(out)
            return
        if out:  # a string is held whole, piece by piece, by its own reader
            self.held.append(out)
        if self.name is None:
            self.held_size += len(out)
            if self.held_size > _MAX_EARLY:
                raise NotACall
            return
        held = "".join(self.held)
        if not self.syntax.bare:
            settled = held != ""
            if settled and not held.startswith("{"):
                raise Unreadable(self.name)
        elif settled and _SCHEMA.match(held):
            raise NotACall
        if settled and (not self.syntax.bare or _SCHEMA_BEGUN.match(held) is None):
            self._start()

    def _entries(self) -> Steps[None]:
        """Read the list of calls that this object wraps, or the single call in its place."""
        c, inner = self.c, replace(self.syntax, bare=False, wrappers=frozenset(), wrapper_only=False)
        self.is_list = True
        behind = listed = alone = False
        while (char := (yield from c.char())) != "]":
            if char == "{":
                alone, behind = not listed, True
                entry = _Call(c, inner)
                yield from entry.read()
                self.repaired = self.repaired or entry.repaired
                continue
            if char == "," or (char == "[" and not behind):
                listed, behind = listed or char == "[", False
                c.i += 1
                continue
            if char == "}" and behind and listed and (braces := _TOO_MANY.match(c.s, c.i)) is not None:
                if braces["open"] is None:
                    c.i = braces.end()
                    continue
                if not c.last:
                    yield from c.more()
                    continue
            # The list's end may be missing: then the brace is the wrapper's. So is a key after a single call.
            if not ((char == "}" and behind) or (char in "\"'" and alone)):
                raise NotACall
            break
        else:
            c.i += 1
        self.is_list, self.wraps = False, True

    def _end(self, *, complete: bool) -> None:
        beside = ""
        if complete and not self.args_ended:
            beside = arguments_beside(self.beside, self.c.sink.schema(self.name or "")) or "{}"
            self.repaired = self.repaired or beside != "{}"
        self.c.end(beside, complete=complete and not self.cut, repaired=self.repaired)


def arguments_beside(members: Mapping[str, str], schema: Mapping[str, Any] | None) -> str:
    """The arguments, as JSON, of a call that has no key for them: those of its other `members` (JSON by key) that the
    tool's `schema` declares, or a member that holds such. Empty where there are none.
    """
    known = schema.get("properties") if schema is not None else None
    if not isinstance(known, Mapping):
        return ""
    found = [f"{json.dumps(key)}: {text}" for key, text in members.items() if key in known and text]
    if found:
        return "{" + ", ".join(found) + "}"
    for text in members.values():
        if text.startswith("{") and not known.keys().isdisjoint(decoded(text) or ()):
            return text
    return ""


def text_beside(members: Mapping[str, str]) -> str:
    """The text of an assistant's message that holds calls: its `content`, a string or parts that hold text."""
    said = decoded(members.get("content", ""))
    if isinstance(said, list):
        said = "".join(part["text"] for part in said if isinstance(part, dict) and isinstance(part.get("text"), str))
    return said if isinstance(said, str) else ""
