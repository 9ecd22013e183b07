"""Reads the arguments of a call in Python's or Gemma's notation, `x=1, y='a')` or `x:<|"|>a<|"|>}`: one generator.

They are emitted as the members of one JSON object: strings as they arrive, words when they are complete. Where no
string is declared, the text of a string is typed like a word.

Models often forget to escape a quote, so a quote ends a string only where the text after it can follow a value: the
next key, or closing brackets with nothing odd after them. To decide, a reader looks ahead, at most `_MAX_LOOK`
characters. What is not decided stays unread, and is given again with more text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..cursor import Steps, Undecided
from ..patterns import WHITE_SPACE, anywhere, half_of
from .json_reader import LITERALS, Brackets, quoted, repaired_number
from .typing import ALL, Places, json_of, literal

_T = TypeVar("_T")

_KEY, _COLON, _VALUE, _STRING, _WORD, _AFTER = range(6)
"""What is expected next, or is open."""
_MAX_LOOK = 512
_MAX_KEY = 256
_MAX_ITEM = 400
_PREFIX = anywhere(r"(?:[rRbBfFuU]{1,2}(?=['\"]))?")
_IN_WORD = anywhere(r"[^,()\[\]{}\"'<]*")
_LOST_KEY = re.compile(rf"[^,()\[\]{{}}\"'<]{{1,{_MAX_KEY}}}")
_PLAIN = {"'": anywhere(r"[^'\\]*"), '"': anywhere(r'[^"\\]*')}
# A key and what is between it and its value. Python's keywords have no spaces in them; Gemma's keys may.
_NAMED = re.compile(r"([^{}\[\](),:=<>\"'`\n]{1,256}?)[ \t]{0,64}(:|=(?!=))")
_QUOTED_KEY = re.compile(r"(?:\"((?:[^\"\\\n]|\\.){0,256})\"|'((?:[^'\\\n]|\\.){0,256})')[ \t]{0,64}[:=]")
_KEY_PART = re.compile(
    r"(?:\"(?:[^\"\\\n]|\\.){0,256}\\?\"?|'(?:[^'\\\n]|\\.){0,256}\\?'?|[^{}\[\](),:=<>\"'`\n]{0,256})"
    r"[ \t]{0,64}[:=]?\Z"
)
_NEXT_CALL = re.compile(r"([^\W\d][\w.\-]{0,255})[ \t]{0,64}\(")
_NEXT_CALL_PART = half_of(_NEXT_CALL)
_VALUES = frozenset("0123456789-.[{(TFNtfn")  # the first characters of Python's other values
# The first item of a set, or key of a dict, and the character after it. A quote within it is data.
_IN_QUOTES = "|".join(
    f"{quote}(?:[^{quote}\\\\\\n]|\\\\.|{quote}(?![ \\t\\r\\n]{{0,64}}[,:}}])){{0,256}}{quote}" for quote in "'\""
)
_ITEM = rf"[ \t\r\n]{{0,64}}(?:[rRbBfFuU]{{0,2}}(?:{_IN_QUOTES})|[^'\"(){{}}\[\],:]{{1,64}})[ \t\r\n]{{0,64}}"
_FIRST_ITEM = re.compile(rf"{_ITEM}([,:}}])")

_SET, _MEMBERS = "<*"
"""Among the open brackets: that of a set in Python's notation (`{'a', 'b'}`); `**{…}`, whose members are the call's."""
_LISTS = f"[({_SET}"
_OPEN = {"{": "{", "[": "[", "(": "[", _SET: "["}
_SHUT = {"{": "}", "[": "]", "(": "]", _SET: "]", _MEMBERS: ""}
_CLOSERS = {"{": "}", "[": "]", "(": ")", _SET: "}", _MEMBERS: "}"}
_MATES = {"}": f"{{{_MEMBERS}{_SET}", "]": "[", ")": "("}
# An escape in Python's notation, and what may become one with more text.
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([ntrbf\\\"'av/\n]))")
_HALF_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-7]{1,2})?\Z")
_MEANINGS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'", "a": "\a",
             "v": "\v", "/": "/", "\n": ""}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Notation:
    """How arguments are written.

    quotes: what is around strings, the longest first. verbatim: those in which a backslash is no escape.
    inner: what such a quote means where it does not end the string, if not itself.
    keywords: as in Python, an argument may have no name, a string may have a prefix, and a comma ends every literal.
    ends: the markers after all calls, which may be missing. listed: the calls are in a list; else one may follow
    directly upon another. wrapped: another parenthesis may close around it.
    """

    quotes: tuple[str, ...]
    verbatim: frozenset[str] = frozenset()
    inner: str = ""
    keywords: bool = False
    ends: tuple[str, ...] = ()
    listed: bool = False
    wrapped: bool = False


class LiteralReader:
    """Reads the arguments of one call after their opening bracket, and emits JSON after the object's first brace."""

    __slots__ = (
        "_steps", "by_position", "closer", "cut", "declared", "done", "empty", "held", "i", "in_text", "inner",
        "is_key", "last", "notation", "offered", "out", "parts", "places", "positional", "quote", "raw", "repaired",
        "s", "stack", "state", "types",
    )  # fmt: skip
    stuck = False

    def __init__(
        self, notation: Notation, opening: str, schema: Mapping[str, Any] | None, offered: Callable[[str], bool]
    ) -> None:
        """opening: the bracket that opened the call. offered: whether a name is that of a tool of the request."""
        self.done = False
        """Whether the closing bracket was read."""
        self.cut = False
        """Whether they ended in a value, or before one. What was emitted is a beginning, and is never completed."""
        self.repaired = False
        """Whether the text was not valid in the notation."""
        self.notation = notation
        self.closer = _CLOSERS[opening]  # the bracket that ends the call
        self.places = Places(schema)
        properties = schema.get("properties") if schema else None
        self.declared: list[str] = list(properties) if isinstance(properties, Mapping) else []
        self.offered = offered
        self.s, self.i = "", 0  # the current text, and the index up to which it is read
        self.last = False  # no more text follows
        self.out: list[str] = []
        self.state = _KEY
        self.stack = Brackets()  # without the call's own brackets
        self.empty = True  # nothing is in the innermost container yet
        self.positional = 0  # how many parameters of the call were read: the next one without a name is this one
        self.types = ALL  # of the next value
        self.quote, self.is_key = "", False  # of the current string
        self.raw = False  # a backslash in it is no escape
        self.held: list[str] | None = None  # its text, if it is a key or may be another value
        self.inner = False  # it holds a quote, so it may hold code
        self.parts: list[str] = []  # the current word
        self.in_text = False  # the word can only be a string
        self.by_position = False  # the value has no name
        self._steps = _read(self)  # over, and no longer in a cycle with this, when they are

    def within(self, text: str) -> str | None:
        """See `Flow`."""
        if self.state != _STRING or self.plain(text, 0) < len(text):
            return None
        self.say(text)
        return self.said()

    def feed(self, s: str, i: int, /, *, last: bool) -> tuple[int, str]:
        """Read from `s[i]`: (index after what was read, what is emitted).

        The index is below `len(s)` when they are done, or when more text must be seen.
        """
        self.s, self.i, self.last = s, i, last
        next(self._steps, None)
        return self.i, self.said()

    def close(self) -> str:
        """End the arguments here: missing brackets are emitted, unless they end in a value (`cut`)."""
        if not self.done:
            self.end(marked=False)
            self._steps.close()
        return self.said()

    def release(self) -> str:
        """Emit nothing: what is held cannot be emitted as it is."""
        return ""

    def said(self) -> str:
        """The JSON to emit."""
        out, self.out = self.out, []
        return out[0] if len(out) == 1 else "".join(out)

    # -- for the steps -------------------------------------------------------------------------------------------------

    @property
    def in_list(self) -> bool:
        """Whether values have no keys here."""
        return bool(self.stack) and self.stack[-1] in _LISTS

    def asked(self, ask: Callable[[LiteralReader, int], _T], offset: int = 0) -> Steps[_T]:
        """The answer of `ask` for the text at `offset`. Waits for more text while it is undecided."""
        while True:
            try:
                return ask(self, self.i + offset)
            except Undecided:
                yield

    def char(self, k: int) -> str:
        """The character at `k`, for an `ask`; empty where the text is over."""
        if k == len(self.s) and not self.last:
            raise Undecided
        return self.s[k : k + 1]

    def take(self, end: int) -> None:
        """The text up to `end` is part of the word."""
        self.parts.append(self.s[self.i : end])
        self.i = end

    def say(self, text: str) -> None:
        """`text` is part of the string."""
        # A surrogate, as Python's escapes can write it, stays an escape: alone it has no bytes.
        made = f"\\u{ord(text):04x}" if len(text) == 1 and "\ud800" <= text <= "\udfff" else quoted(text)
        if self.held is not None:
            self.held.append(made)
        if self.held is None or self.is_key:
            self.out.append(made)

    def plain(self, s: str, i: int) -> int:
        """The end of the text from `i` on that is plain text of the string."""
        quote = self.quote[0]
        if not self.raw:
            return _PLAIN[quote].match(s, i).end()
        end = s.find(quote, i)
        return end if end >= 0 else len(s)

    def named(self, key: str) -> None:
        """A key is complete."""
        self.state = _COLON
        self.types, self.by_position = ALL, False
        if not self.stack or self.stack == [_MEMBERS]:
            self.types = self.places.argument(key)
            self.positional += 1

    def put_key(self, key: str) -> None:
        """Emit a key that has no quotes."""
        self.out.append(f'{"" if self.empty else ", "}"{quoted(key)}"')
        self.empty = False
        self.named(key)

    def end(self, *, marked: bool) -> None:
        """End the arguments here: missing brackets are added, unless they end in a value (`cut`).

        marked: a marker or bracket that ends the call is here.
        """
        state, in_word = self.state, self.state == _WORD
        self.done = self.repaired = True
        # Before a marker, a comma is superfluous; where the text ends, a value was to follow.
        due = state == _COLON or (state == _VALUE and not self.in_list) or (state in (_KEY, _VALUE) and not marked)
        self.cut = due or state == _STRING or (in_word and "".join(self.parts).strip() not in LITERALS)
        if self.cut:
            return
        if in_word:
            _end_word(self)
        while self.stack:
            self.out.append(_SHUT[self.stack.pop()])
        self.out.append("}")


# -- structure -----------------------------------------------------------------------------------------------------


def _read(at: LiteralReader) -> Steps[None]:
    """All arguments."""
    while not at.done:
        at.i = WHITE_SPACE.match(at.s, at.i).end()
        if at.i == len(at.s):
            yield
            continue
        c = at.s[at.i]
        if (yield from at.asked(_is_end)):
            at.end(marked=True)
        elif at.state == _COLON:
            at.out.append(": ")
            at.state = _VALUE
            at.repaired = at.repaired or c not in ":="
            at.i += c in ":="
        elif at.state == _VALUE and not at.in_list and (c == "," or _closes(at, c)):
            at.out.append("null")
            at.repaired = True
            at.state = _AFTER
        elif _closes(at, c):
            _shut(at, c)
        elif at.state == _AFTER:
            at.repaired = at.repaired or c != ","
            at.i += c in ",;)<"  # else a comma is missing
            at.state = _AFTER if c in ")<" else _VALUE if at.in_list else _KEY
        elif at.state == _KEY:
            yield from _key(at, c)
        else:
            yield from _value(at, c)


def _closes(at: LiteralReader, c: str) -> bool:
    """Whether `c` is a closing bracket of the notation. Where braces are around the call, `)` may be text."""
    return c in "}])" and (c != ")" or at.closer == ")" or "(" in at.stack)


def _shut(at: LiteralReader, c: str) -> None:
    """A closing bracket. One that nothing has opened is dropped."""
    at.state = _AFTER
    mates = _MATES[c]
    if not any(mate in at.stack for mate in mates):
        if c == "]" and at.notation.listed:
            at.end(marked=True)  # the call's own bracket is missing
            return
        if c != at.closer:
            at.repaired = True
            at.i += 1
            return
    at.i += 1
    while at.stack:
        opened = at.stack.pop()
        at.out.append(_SHUT[opened])
        at.empty = at.empty and opened == _MEMBERS
        if opened in mates:
            return
        at.repaired = True
    at.out.append("}")
    at.done = True


def _key(at: LiteralReader, c: str) -> Steps[None]:
    keywords = at.notation.keywords
    holds_all = c == "{" and at.empty and not at.stack and at.closer == ")" and not keywords
    if holds_all:
        at.stack.append(_MEMBERS)  # an object in the call's parentheses
    if holds_all or c in ",;:=":
        at.repaired = at.repaired or c != ","
        at.i += 1
        return
    quote = yield from at.asked(_opens)
    named = keywords and not at.stack
    if named and c == "*":
        while len(at.s) - at.i < 3 and not at.last:
            yield
        if at.s.startswith("**{", at.i):
            at.stack.append(_MEMBERS)
            at.i += 3
        else:
            at.repaired = True
            at.i += 1
        return
    while True:
        s, i = at.s, at.i
        if quote and (not named or _QUOTED_KEY.match(s, i) is not None):
            at.out.append('"' if at.empty else ', "')
            at.i += len(quote)
            yield from _string(at, quote, is_key=True)
            return
        m = None if quote else _NAMED.match(s, i)
        if m is not None and (m.group(2) == ":" or m.end() < len(s) or at.last):
            at.put_key(m.group(1))
            at.i = m.start(2)
            return
        if at.last or _KEY_PART.match(s, i) is None:
            break
        yield
    at.repaired = True
    if named:  # a value without a name is the parameter at its position
        number = at.positional
        at.put_key(at.declared[number] if number < len(at.declared) else f"arg{number}")
        at.out.append(": ")
        at.state, at.by_position = _VALUE, True
    else:
        yield from _lost_key(at)


def _lost_key(at: LiteralReader) -> Steps[None]:
    """A key without a colon. One character that cannot belong to a key is dropped."""
    while (word := _LOST_KEY.match(at.s, at.i)) is not None:
        if word.end() < len(at.s) or at.last or word.end() - at.i >= _MAX_KEY:
            at.put_key(word.group().strip())
            at.i = word.end()
            return
        yield
    at.i += 1


def _value(at: LiteralReader, c: str) -> Steps[None]:
    if c == ",":  # a doubled one in a list
        at.repaired = True
        at.i += 1
        return
    prefix = ""
    keywords = at.notation.keywords
    if keywords and c in "rRbBfFuU":
        while len(at.s) - at.i < 3 and not at.last:
            yield
        prefix = _PREFIX.match(at.s, at.i).group()
    quote = yield from at.asked(_opens, len(prefix))
    is_set = c == "{" and keywords and (yield from at.asked(_is_set, 1))
    if at.in_list and not at.empty:
        at.out.append(", ")
    at.empty = False
    if quote:
        at.i += len(prefix) + len(quote)
        yield from _string(at, quote, is_key=False, raw="r" in prefix.lower())
    elif c in "{[(":
        bracket = _SET if is_set else c
        at.out.append(_OPEN[bracket])
        at.stack.append(bracket)
        at.empty = True
        at.types = ALL
        at.state = _KEY if bracket == "{" else _VALUE
        at.i += 1
    else:
        yield from _word(at)


# -- strings -------------------------------------------------------------------------------------------------------


def _string(at: LiteralReader, quote: str, *, is_key: bool, raw: bool = False) -> Steps[None]:
    """Read a string after its opening `quote`. Where no string is declared, its text decides its type."""
    at.empty = at.inner = at.in_text = False
    at.state = _STRING
    at.quote, at.is_key, at.raw = quote, is_key, raw or quote in at.notation.verbatim
    at.held = [] if is_key or "string" not in at.types else None
    if at.held is None:
        at.out.append('"')
    while True:
        s, i = at.s, at.i
        if i == len(s):
            yield
        elif (end := at.plain(s, i)) > i:
            at.say(s[i:end])
            at.i = end
        elif s[i] == "\\" and not at.raw:
            yield from _escape(at)
        elif s.startswith(quote, i):
            if (yield from _is_end_of_string(at)):
                break
        elif not at.last and len(s) - i < len(quote) and quote.startswith(s[i:]):
            yield
        else:
            at.say(s[i])
            at.i += 1
    at.state = _AFTER
    if at.held is None:
        at.out.append('"')
        return
    held = f'"{"".join(at.held)}"'
    if is_key:
        at.out.append('"')
        at.named(json.loads(held))
    else:
        made = json_of(json.loads(held), at.types)
        at.out.append(held if made.startswith('"') else made)


def _is_end_of_string(at: LiteralReader) -> Steps[bool]:
    """Read the quote here; whether it ends the string."""
    notation, quote, size = at.notation, at.quote, len(at.quote)
    ends, stray = True, ""
    if not at.is_key and quote not in ('"""', "'''"):
        if notation.verbatim and not at.raw:
            # A model that began with JSON's quote may end the string with that and its own.
            found = yield from at.asked(_opens, size)
            stray = found if found in notation.verbatim else ""
        ends = yield from at.asked(_follows, size + len(stray))
    at.i += size + (len(stray) if ends else 0)
    at.repaired = at.repaired or not ends or bool(stray)
    if not ends:
        at.inner = True
        at.say(notation.inner or quote)
    return ends


def _escape(at: LiteralReader) -> Steps[None]:
    while not at.last and _HALF_ESCAPE.match(at.s, at.i):
        yield
    m = _ESCAPE.match(at.s, at.i)
    if at.last and _HALF_ESCAPE.match(at.s, at.i):
        at.i, text = len(at.s), ""  # its meaning is not known
    elif m is None:
        at.i, text = at.i + 1, "\\"
    else:
        at.i = m.end()
        code = m[1] or m[2] or m[3]
        number = int(code, 16) if code else int(m[4], 8) if m[4] else 0
        text = _MEANINGS[m[5]] if m[5] else chr(number) if number < 0x110000 else "\ufffd"
    at.say(text)


# -- words ---------------------------------------------------------------------------------------------------------


def _word(at: LiteralReader) -> Steps[None]:
    """A number, a literal, an unquoted text or an expression, which is held up to its comma or bracket."""
    notation, deep = at.notation, 0  # open brackets
    at.state, at.parts, at.in_text = _WORD, [], False
    while True:
        at.take(_IN_WORD.match(at.s, at.i).end())
        if at.i == len(at.s):
            yield
            continue
        c = at.s[at.i]
        if not deep:
            if (yield from at.asked(_is_end_of_word)):
                _end_word(at)
                return
            quote = yield from at.asked(_opens)
            if quote in notation.verbatim:  # the quote that opens this string is missing
                closes = yield from at.asked(_follows, len(quote))
                at.repaired = True
                at.i += len(quote)
                if closes:
                    _end_word(at, as_string=True)
                    return
                at.parts.append(notation.inner or quote)
                continue
        at.take(at.i + 1)
        if c in "([{":
            deep += 1
        elif c in ")]}":
            deep -= deep > 0
        elif c in "\"'" and deep and notation.keywords:
            while (end := at.s.find(c, at.i)) < 0:
                at.take(len(at.s))
                yield
            at.take(end + 1)


def _is_end_of_word(at: LiteralReader, k: int) -> bool:
    c = at.s[k]
    if c == ",":
        keywords = at.notation.keywords
        if at.in_list or at.by_position:
            return True
        if not at.in_text and (keywords or "string" in at.types):
            word = "".join(at.parts).strip()
            at.in_text = word not in LITERALS and repaired_number(word) is None
        if keywords and not at.in_text:
            return True
        return _key_follows(at, k + 1)
    return _closes(at, c) or (c == "<" and _is_end(at, k))


def _end_word(at: LiteralReader, *, as_string: bool = False) -> None:
    """The word is complete: emit what it means."""
    word = "".join(at.parts).strip()
    at.parts = []
    at.state = _AFTER
    if as_string:
        at.out.append(f'"{quoted(word)}"' if "string" in at.types else json_of(word, at.types))
        return
    made = literal(word, at.types)
    at.repaired = at.repaired or made.startswith('"')
    at.out.append(made)


# -- looking ahead -------------------------------------------------------------------------------------------------


def _starts(at: LiteralReader, k: int, markers: tuple[str, ...]) -> str:
    """The first of `markers` that is at `k`; "" where none is."""
    s = at.s
    for marker in markers:
        if s.startswith(marker, k):
            return marker
        if not at.last and len(s) - k < len(marker) and marker.startswith(s[k:]):
            raise Undecided
    return ""


def _opens(at: LiteralReader, k: int) -> str:
    """The quote that opens a string at `k`; "" where none does."""
    return _starts(at, k, at.notation.quotes)


def _is_end(at: LiteralReader, k: int) -> bool:
    """Whether the marker after all calls is at `k`."""
    return bool(_starts(at, k, at.notation.ends))


def _follows(at: LiteralReader, k: int) -> bool:
    """Whether the text at `k` can follow the end of a string."""
    stack, depth, begin = at.stack, len(at.stack), k
    while True:
        k = _skip(at.s, k)
        if k - begin > _MAX_LOOK or not (c := at.char(k)) or _is_end(at, k):
            return True
        if c == ",":
            return (depth > 0 and stack[depth - 1] in _LISTS) or _key_follows(at, k + 1)
        if c != (_CLOSERS[stack[depth - 1]] if depth else at.closer):
            if c == "]" and at.notation.listed:
                return _list_ends(at, k + 1)  # the call's own bracket is missing
            return not depth and _known_key_follows(at, k)
        k += 1
        depth -= 1
        if depth < 0:
            return _call_ends(at, k)


def _known_key_follows(at: LiteralReader, k: int) -> bool:
    """Whether a declared key is at `k`: before it, a comma may be missing."""
    m = _NAMED.match(at.s, k)
    if m is None and not at.last:
        rest = len(at.s) - k  # the rest of a whole answer is not worth a copy
        if any(rest <= len(key) + 1 and f"{key}:".startswith(at.s[k:]) for key in at.declared):
            raise Undecided
    return m is not None and m.group(1) in at.declared


def _is_set(at: LiteralReader, k: int) -> bool:
    """Whether the brace before `k` opens a set: no colon is after its first item."""
    s = at.s
    m = _FIRST_ITEM.match(s, k)
    if m is not None:
        return m.group(1) != ":" and bool(s[k : m.start(1)].strip())
    first = s[WHITE_SPACE.match(s, k).end() :][:1]
    if not at.last and len(s) - k < _MAX_ITEM and (not first or first not in "{[(},"):
        raise Undecided
    return False


def _skip(s: str, k: int) -> int:
    """The index after the white space at `k`, within `_MAX_LOOK`."""
    return WHITE_SPACE.match(s, k, k + _MAX_LOOK).end()


def _key_follows(at: LiteralReader, k: int) -> bool:
    """Whether a key is at `k`, after a comma, and not more of a string or of a text without quotes."""
    s, notation = at.s, at.notation
    k = _skip(s, k)
    c = at.char(k)
    if not c or c in "}])," or s.startswith("**", k):
        return True
    quote = _opens(at, k)
    if quote and not at.inner and (at.stack or notation.keywords):
        return True
    if quote in notation.verbatim:
        end = s.find(quote, k + len(quote), k + _MAX_LOOK)
        if end < 0:
            if not at.last and len(s) < k + _MAX_LOOK:
                raise Undecided
            return False
        c = at.char(_skip(s, end + len(quote)))
        return c in {":", "="} and _may_be_key(at, s[k + len(quote) : end])
    m = _QUOTED_KEY.match(s, k) if quote else _NAMED.match(s, k)
    if m is None:
        if not at.last and _KEY_PART.match(s, k):
            raise Undecided
        # A value without a name.
        return notation.keywords and not at.stack and not (at.inner or at.in_text) and c in _VALUES
    if s[m.end() - 1] == "=":
        at.char(m.end())  # `==` may follow
    return _may_be_key(at, m.group(1) if m.group(1) is not None else m.group(2))


def _may_be_key(at: LiteralReader, key: str) -> bool:
    """Text without quotes, and code in a string that has some, holds commas and keys too: there only a key that is
    declared counts.
    """
    return not (at.inner or at.in_text) or not at.declared or bool(at.stack) or key in at.declared


def _list_ends(at: LiteralReader, k: int) -> bool:
    """Whether the text at `k` may follow the list of calls."""
    k = _skip(at.s, k)
    c = at.char(k)
    return not c or (_is_end(at, k) if at.notation.ends else c not in "'\")]},.;:")


def _call_ends(at: LiteralReader, k: int) -> bool:
    """Whether the bracket before `k` can be the call's own."""
    s, notation = at.s, at.notation
    k = _skip(s, k)
    c = at.char(k)
    if not c or _is_end(at, k):
        return True
    if c == ")" and notation.wrapped:
        k = _skip(s, k + 1)
        c = at.char(k)
    if not c or c == "<" or _starts(at, k, ("```",)):
        return True
    if c == "]" and notation.listed:
        return not at.inner or _list_ends(at, k + 1)
    if c in ",;" and notation.keywords:
        return not at.inner or _next_call(at, k + 1)
    if at.inner and (notation.listed or not notation.keywords):
        return False
    return _next_call(at, k) if at.inner else c.isalnum() or c in "_*#-"


def _next_call(at: LiteralReader, k: int) -> bool:
    k = _skip(at.s, k)
    m = _NEXT_CALL.match(at.s, k)
    if m is None and not at.last and _NEXT_CALL_PART.match(at.s, k):
        raise Undecided
    return m is not None and at.offered(m.group(1))
