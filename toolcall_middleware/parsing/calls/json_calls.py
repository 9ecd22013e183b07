"""Calls written as JSON objects: alone, in a list, one after another, or under a key such as `tool_calls`.

Keys come in any order; `parameters` and the like are `arguments`; OpenAI's `function` wrapper, ids, arguments as an
object or as a JSON string that holds one, and what `JsonReader` repairs are read everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..cursor import MAX_GAP, Cursor, NotACall, Steps, TextOver, Undecided, Unreadable
from ..patterns import WHITE_SPACE
from ..values.json_reader import JsonReader, decode, decoded
from .call_arguments import CallArguments

_MAX_NAME = 512  # characters of a key, a name or an id
_MAX_OTHER = 1 << 20  # characters of another member
_BARE_KEY = re.compile(rf"[A-Za-z_$][A-Za-z0-9_$-]{{0,{_MAX_NAME}}}")
# Without a marker, arguments that begin like a JSON Schema define a tool and do not call it.
_SCHEMA = re.compile(r'\{\s{0,32}"type"\s{0,8}:\s{0,8}"object"')
_VALUE_BEGINS = re.compile(r"[\w\"'{\[+.-]")
_HALF_KEY, _HALF_NAME = re.compile(r"\w*"), re.compile(r"[^\s<>{}\[\]]*")
_TOO_MANY = re.compile(r"\}[}\s]{0,64}(?=\]|,\s{0,64}\{)")
_BRACKET = re.compile(r"[{\[\]]")
_BRACKET_OR_FENCE = re.compile(_BRACKET.pattern + r"|`{3,8}[A-Za-z_]{0,24}[ \t]{0,8}\r?\n")
_PROSE = re.compile(r"[ \t]{0,255}[^\W_]")
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

    def takes(self, key: str, *, outer: bool, begun: bool, siblings: Mapping[str, str]) -> bool:
        """Whether an object with this key may be a call: without a marker its keys must be those of one, or of an
        assistant's message that holds some.

        outer: it is not within another. begun: calls have been read in it. beside: its members so far, as JSON.
        """
        if not self.bare or (begun and not self.no_other_keys) or (outer and key in self.wrappers):
            return True
        of_message = key in _OF_MESSAGE
        by_assistant = siblings.get("role") == '"assistant"'
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
        char = yield from c.ask(_after_call, c, syntax, in_list=in_list)
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
        m = yield from c.match(_BRACKET if syntax.bare else _BRACKET_OR_FENCE, MAX_GAP)
        if m is None:
            if not (c.last and c.sink.committed) or c.after_space() < len(c.s):
                raise NotACall
            c.i = len(c.s)
            return "", in_list
        char = m.group()
        if char == "{" or (char == "]" and in_list):
            c.i = m.start()
            return char, in_list
        if char in "[]":
            if char == "]" or in_list:
                raise NotACall
            in_list = True
        c.i = m.end()


def _after_call(c: Cursor, syntax: JsonCallSyntax, *, in_list: bool) -> str:
    """Go to the next call's brace, past the comma before a list's next entry, or to the list's end: that character.

    The cursor stays before any other character: a tail follows. Empty where the calls are over.
    """
    while (j := c.ahead()) >= 0:
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
            k = WHITE_SPACE.match(c.s, j + 1, j + 1 + MAX_GAP).end()
            c.wait(k == len(c.s))
            if c.s[k : k + 1] != "{":
                break
            c.i, char = k, "{"
        elif char == "}" and not any(marker.startswith("}") for marker in syntax.close):
            c.i = j + 1  # models miscount: the call has all of its braces
            continue
        elif char in "{]":
            char = "}"  # not of a list
        return char
    return ""


def _near(close: tuple[str, ...]) -> re.Pattern[str]:
    """A closing marker, or the beginning of a call (the group `head`)."""
    return re.compile("|".join((f"(?P<head>{_HEAD})", *map(re.escape, close))))


def _find_back(c: Cursor, close: tuple[str, ...], *, in_list: bool) -> Steps[bool]:
    """After a call that broke off: its closing marker, or the list's next call, shows that it was all markup."""
    m = yield from c.ask(c.near, _near(close))
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
    while (j := (yield from c.ask(c.ahead))) >= 0 and c.s[j] == "}":
        c.i = j + 1


@dataclass(slots=True, eq=False)
class _Call:
    """One call object, or an object that wraps a list of them, while it is read."""

    c: Cursor
    syntax: JsonCallSyntax
    name: str | None = None
    id: str | None = None
    args_ended: bool = False
    lost: bool = False  # the object is not JSON
    repaired: bool = False
    hopeless: bool = False  # a value begins as none does
    is_list: bool = False  # the list that it wraps is being read
    wraps: bool = False
    due: bool = False  # a key or a value must follow
    half: tuple[re.Pattern[str] | None, list[str]] | None = None
    """What a key, name or id may begin with (None: another member's value is read), and what was read of it."""
    siblings: dict[str, str] = field(default_factory=dict)  # members that are not part of a call, as JSON

    def read(self) -> Steps[None]:
        """Read the object from its brace on."""
        c, syntax = self.c, self.syntax
        c.early, c.arguments = [], None
        try:
            yield from self._members(outer=True)
            if self.name is None:
                if not self.wraps:
                    raise NotACall
                if said := message_text(self.siblings):
                    c.sink.says(said)
                c.sink.consumed(c.taken())
                c.sink.close()
                return
            if not (c.is_open or self.args_ended):
                if syntax.bare or (syntax.wrappers and (yield from c.match(_PROSE)) is not None):
                    raise NotACall  # prose on its line shows that it mentions a call
            self._end(complete=True)
        except _Broken:
            if not c.is_open:
                if syntax.bare or self.name is None:
                    raise NotACall from None
                if syntax.wrappers and (yield from c.ask(c.near, _near(syntax.close))) is None:
                    raise NotACall from None  # a mention of the syntax
            self.lost = self.repaired = True
            self._end(complete=True)
        except TextOver:
            self._text_over()
            raise

    def _text_over(self) -> None:
        """End the object with the text: an open call is closed, or cut. Raises NotACall where it cannot be a call."""
        c, cut = self.c, self.c.cut
        if self.is_list:
            return
        args = c.arguments if isinstance(c.arguments, CallArguments) and not self.args_ended else None
        if not c.is_open and (self.syntax.bare or self.name is None):
            c.named = None
            early = self.name is None and c.arguments is not None
            nameless = not cut and (early or (self.half is not None and self.half[0] is None))
            pattern, read = self.half or (None, [])
            if self.hopeless or nameless or (pattern is not None and not pattern.fullmatch("".join(read)[1:])):
                raise NotACall
            return
        if args is not None and cut:
            if not c.is_open and args.is_data:
                raise Unreadable(self.name or "")
            c.say(args.release())
        elif args is not None:
            c.say(args.close())
            self.args_ended = True
        self.repaired = self.repaired or args is None or not cut
        self._end(complete=not cut and (self.args_ended or not self.due))

    def _members(self, *, outer: bool) -> Steps[None]:
        c = self.c
        c.i += 1
        while (char := (yield from c.char())) != "}":
            self.due = True
            if char == ",":
                c.i += 1
                continue
            key = yield from self._key(char)
            begun = c.is_open or self.wraps
            if not self.syntax.takes(key, outer=outer, begun=begun, siblings=self.siblings):
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
            key = yield from c.ask(_bare_key, c)
            self.repaired = True
            return key
        half = _HALF_NAME if self.syntax.keyed and self.name is None else _HALF_KEY
        return str((yield from self._decoded(half)))

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
            name = yield from self._decoded(_HALF_NAME)
            if not isinstance(name, str) or not name:
                raise NotACall
            self._set_name(name)
        elif key in syntax.ids and quoted:
            value = yield from self._decoded(_HALF_NAME, key)
            if isinstance(value, (str, int)) and not isinstance(value, bool):
                self.id = str(value)
        elif key in syntax.arguments and not self.args_ended and not (key in syntax.names and quoted):
            yield from self._arguments(char)
        else:
            self.siblings[key] = yield from self._json(None)

    def _json(self, half: re.Pattern[str] | None) -> Steps[str]:
        """Read a value as JSON. A key, a name or an id (`half` is what it may begin with) is short."""
        c, reader, read, skipped = self.c, JsonReader(), 0, False
        out: list[str] = []
        self.half = half, out
        while not (reader.done or reader.stuck):
            if c.i == len(c.s):
                yield from c.some()
            s, begin = (c.s, c.i) if half is None else (c.s[c.i : c.i + _MAX_NAME - read], 0)
            passed = reader.feed(s, begin, out) - begin
            c.i += passed
            read += passed
            if half is None and read > _MAX_OTHER:
                out.clear()
                skipped = True
            elif half is not None and read >= _MAX_NAME and not (reader.done or reader.stuck):
                raise _Broken
        reader.close(out)
        self.half = None
        self.repaired = self.repaired or reader.repaired
        return "" if skipped else "".join(out)

    def _decoded(self, half: re.Pattern[str], key: str = "") -> Steps[object]:
        text = yield from self._json(half)
        if key:
            self.siblings[key] = text
        try:
            return decode(text)
        except ValueError:
            raise _Broken from None

    def _set_name(self, name: str) -> None:
        self.name, c = name, self.c
        if self.syntax.bare and (not c.sink.offered(name) or _SCHEMA.match("".join(c.early))):
            raise NotACall
        # Otherwise the name is held until the arguments show what they are.
        if self.args_ended or (not self.syntax.bare and c.sink.takes_any(name)):
            c.start(name, self.id)

    def _arguments(self, char: str) -> Steps[None]:
        c, bare = self.c, self.syntax.bare
        if bare and char not in "{\"'nN":
            raise NotACall  # `"args": ["-v"]` is data
        refused = None
        if self.name is not None and not c.is_open:
            c.named = self.name, self.id
            refused = _SCHEMA if bare else None
        close = self.syntax.close
        args = CallArguments(char, close, c.sink.arguments, closers=close, refused=refused)
        yield from c.copy(args)
        if bare and not c.is_open and args.is_data:
            raise NotACall
        c.named = None
        self.repaired = self.repaired or args.repaired
        self.args_ended = True

    def _entries(self) -> Steps[None]:
        """Read the list of calls that this object wraps, or the single call in its place."""
        c, inner = self.c, replace(self.syntax, bare=False, wrappers=frozenset(), wrapper_only=False)
        self.is_list = True
        early, arguments = c.early, c.arguments
        after_entry = listed = alone = False
        while (char := (yield from c.char())) != "]":
            if char == "{":
                alone, after_entry = not listed, True
                entry = _Call(c, inner)
                yield from entry.read()
                self.repaired = self.repaired or entry.repaired
                continue
            if char == "," or (char == "[" and not after_entry):
                listed, after_entry = listed or char == "[", False
                c.i += 1
                continue
            if char == "}" and after_entry and listed and (braces := (yield from c.match(_TOO_MANY))) is not None:
                c.i = braces.end()
                continue
            # The list's end may be missing: then the brace is the wrapper's. So is a key after a single call.
            if not ((char == "}" and after_entry) or (char in "\"'" and alone)):
                raise NotACall
            break
        else:
            c.i += 1
        self.is_list, self.wraps = False, True
        c.early, c.arguments = early, arguments

    def _end(self, *, complete: bool) -> None:
        c, arguments = self.c, ""
        if not c.is_open:
            c.start(self.name or "", self.id)
        if complete and not self.args_ended:
            arguments = sibling_arguments(self.siblings, c.sink.schema(self.name or "")) or "{}"
            self.repaired = self.repaired or arguments != "{}"
        c.end(arguments, complete=complete, repaired=self.repaired)


def _bare_key(c: Cursor) -> str:
    """A key without quotes. The text cannot end in it."""
    m = _BARE_KEY.match(c.s, c.i)
    if m is None or m.end() - c.i > _MAX_NAME:
        raise _Broken
    if m.end() == len(c.s):
        raise Undecided
    c.i = m.end()
    return m.group()


def sibling_arguments(members: Mapping[str, str], schema: Mapping[str, Any] | None) -> str:
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


def message_text(members: Mapping[str, str]) -> str:
    """The text of an assistant's message that holds calls: its `content`, a string or parts that hold text."""
    said = decoded(members.get("content", ""))
    if isinstance(said, list):
        said = "".join(part["text"] for part in said if isinstance(part, dict) and isinstance(part.get("text"), str))
    return said if isinstance(said, str) else ""
