"""Copies one JSON value out of a text that arrives in pieces, and repairs it on the way: one generator.

Valid JSON (RFC 8259) is copied as it is written, to the character: white space, number spelling, key order and escapes
included. Anything else is repaired, so that the copy is always valid JSON once `done`:

- `'…'` strings and unquoted keys or words become `"…"`; Python's and JavaScript's True, None, undefined, NaN … become
  JSON's literals; other spellings of numbers (`+1`, `.5`, `0x10`, `1_000`) become JSON numbers;
- a raw control character in a string is escaped, an unknown escape keeps its backslash as data, an unescaped quote
  inside a string (the next character could not follow a string's end) is escaped;
- a string in three quotes, as Python has it, becomes one; comments (`// …`, `/* … */`, and `# …` where no value can
  be) are dropped;
- a trailing, doubled or missing comma, a missing colon, value, quote or closing bracket is dropped or added.

This is the only place in the package where JSON is repaired. Time is linear, and nothing raises. Nesting is a stack.
What must be seen to decide is held back: a comma up to the next character, a number or word up to its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, SupportsIndex

import msgspec

from ..cursor import Steps
from ..patterns import WHITE_SPACE, anywhere

# -- spellings -----------------------------------------------------------------------------------------------------

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BEGUN = re.compile(
    r"t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|n(?:u(?:ll?)?)?"
    r"|-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?)?"
)
_LOOSE_NUMBER = re.compile(r"([+-]?)0*([0-9][0-9_]*)?(\.[0-9_]*)?([eE][+-]?[0-9]+)?")
WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), "true"),
    **dict.fromkeys(("false", "False", "FALSE"), "false"),
    **dict.fromkeys(("null", "None", "NULL", "none", "nil"), "null"),
}
"""The words for true, false and null, with JSON's spelling."""
LITERALS = WORDS | dict.fromkeys(("undefined", "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"), "null")
"""Unquoted words that are not strings, with JSON's spelling."""
_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_ESCAPES = {ord(char): text for char, text in _CONTROL.items()} | {ord('"'): '\\"', ord("\\"): "\\\\"}
for _code in range(0x20):
    _ESCAPES.setdefault(_code, f"\\u{_code:04x}")


def decode(text: str) -> Any:
    """The value of the JSON `text`. Raises ValueError where it is not JSON, RecursionError where it is too deep.

    msgspec decodes it, or `json` where it holds half of a surrogate pair, as a model's text may.
    """
    try:
        return msgspec.json.decode(text)
    except UnicodeEncodeError:
        return json.loads(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def decoded(text: str) -> Any:
    """The value of the JSON `text`; None where it is not JSON, or too deep."""
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return None


def quoted(text: str) -> str:
    """`text` as the content of a JSON string: quotes, backslashes and control characters are escaped."""
    return text.translate(_ESCAPES)


def repaired_number(word: str) -> str | None:
    """JSON's spelling of the number `word`, which is not valid JSON; None where `word` is not a number."""
    if not word or word[0] not in "+-.0123456789":
        return None
    low = word.lower().lstrip("+-")
    if low.startswith(("0x", "0o", "0b")):
        try:
            return str(int(word.replace("_", ""), 0)) if len(word) < 64 else None
        except ValueError:
            return None
    match = _LOOSE_NUMBER.fullmatch(word)
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups()
    whole = (whole or "").replace("_", "").lstrip("0")
    fraction = (fraction or "").replace("_", "")
    if not whole and len(fraction) < 2 and "0" not in word:
        return None
    whole = whole or "0"
    return ("-" if sign == "-" else "") + whole + (fraction if len(fraction) > 1 else "") + (exponent or "")


# -- the reader ----------------------------------------------------------------------------------------------------

_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _AFTER, _COMMA, _OPENED, _STRING, _QUOTE, _WORD, _WORDS, _DONE = range(
    13
)
"""What is expected next, and what is open. _OPENED: quotes that may be three of them."""

_PLAIN = {'"': anywhere(r'[^"\\\x00-\x1f]*'), "'": anywhere(r"[^'\"\\\x00-\x1f]*")}
_RUN = anywhere(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt])*+')  # escapes that are complete
_SHORT = 256
_TOKEN = anywhere(r"[^\s,:{}\[\]\"'<>;]*")
_IN_WORDS = anywhere(r'[^,{}\[\]"\\\x00-\x1f<]*')
_HEX = anywhere(r"[0-9a-fA-F]{0,4}")
_IN_LINE = anywhere(r"[^\n\r<]*")
_IN_BLOCK = anywhere(r"[^*<]*")
_ENDS_STRING = frozenset(",}]\"'<")
_CLOSING = {"{": "}", "[": "]"}
_MISSING = {_COLON: ":null", _VALUE: "null", _KEY: '"":null'}


class Brackets(list[str]):
    """Open brackets, with a count of each kind: a search through 100,000 of them for each closing one takes hours."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}

    def append(self, bracket: str) -> None:
        self._counts[bracket] = self._counts.get(bracket, 0) + 1
        super().append(bracket)

    def pop(self, index: SupportsIndex = -1) -> str:
        bracket = super().pop(index)
        self._counts[bracket] -= 1
        return bracket

    def __contains__(self, bracket: object) -> bool:
        return self._counts.get(str(bracket), 0) > 0


class JsonReader:
    """Reads one value. `feed` until `done`; `close` to end it early."""

    __slots__ = (
        "_steps", "done", "doubtful", "ends", "guessed", "half", "i", "is_key", "last", "mark", "out", "pending",
        "quote", "repaired", "s", "settled", "stack", "state", "stuck", "waits",
    )  # fmt: skip

    def __init__(self, ends: tuple[str, ...] = ()) -> None:
        """ends: markers that end a call, also in a comment after a value that is not closed."""
        self.done = False
        """Whether the value is complete, and the copy valid JSON."""
        self.repaired = False
        """Whether something was not JSON as it was written."""
        self.stuck = False
        """Whether the last piece was read up to a character that cannot belong to JSON: see `feed`."""
        self.settled = False
        """Whether enough was seen to say that this is meant as JSON: a first key with its colon, or the end."""
        self.doubtful = False
        """Whether a key had no colon before anything was settled."""
        self.guessed = False
        """Whether a value was missing or had no quotes, or a key had no colon."""
        self.ends = ends
        self.state = _VALUE
        self.stack = Brackets()
        self.is_key = False  # the current string or word is a key
        self.quote = '"'  # of the current string
        self.s, self.i = "", 0  # the current text, and the index up to which it is read
        self.mark = 0  # s[mark:i] is read and is emitted as it is
        self.last = False  # no more text follows
        self.out: list[str] = []
        self.half = ""  # up to seven characters that are read again with more text: half an escape, a slash
        self.pending: list[str] = []  # what was read of a comma, a quote or a word that is not decided on
        self.waits = False  # a marker of `ends` may begin at `i`
        self._steps = _read(self)  # over, and no longer in a cycle with this, when the value is

    @property
    def in_string(self) -> bool:
        """Whether the next character is inside a string, where nothing is markup."""
        return self.state in (_STRING, _OPENED)

    @property
    def wants_string(self) -> bool:
        """Whether a quote could open a string here, or close one that a bare quote opened."""
        return self.state in (_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COMMA, _STRING, _OPENED)

    @property
    def is_empty(self) -> bool:
        """Whether the innermost container is empty so far."""
        return self.state in (_FIRST_KEY, _FIRST_ITEM)

    @property
    def cut(self) -> bool:
        """Whether more than closing brackets is missing: the text stops in a string, a number or a word, or before a
        value. A literal that is complete is a value. A word that is all of the text is cut only where it begins `null`.
        """
        if self.state == _WORD:
            word = "".join(self.pending)
            return self.is_key or (word not in LITERALS and (bool(self.stack) or "null".startswith(word)))
        if self.state == _OPENED:
            return self.half != self.quote
        return self.state not in (_AFTER, _QUOTE, _DONE)

    def within(self, text: str) -> str | None:
        """See `Flow`: `text`, where it is the middle of a string, which is emitted as it is."""
        if self.state != _STRING or self.half or self.quote != '"' or self.is_key:
            return None
        if '"' not in text and "\\" not in text and text.isprintable():
            return text
        return text if len(text) < _SHORT and _RUN.fullmatch(text) else None

    def feed(self, s: str, i: int, out: list[str]) -> int:
        """Read `s` from index `i`; append what is emitted to `out`; return the index after what was read.

        The index is below `len(s)` when the value is done, or when `stuck`: at this place is a character that cannot
        belong to JSON and that the caller may know (a closing tag); `close` ends the value there. Or the text there
        may become one of `ends`: then it is given again with more text.
        """
        if self.state == _STRING and not i and self.within(s) is not None:
            out.append(s)
            return len(s)
        before = 0
        if self.half:
            before = i - len(self.half)
            s, i = self.half + s[i:], 0
        self._resume(s, i, out)
        if self.done or self.stuck or self.waits:
            self.half = ""
            return self.i + before
        self.half = s[self.i :]
        return len(s) + before

    def close(self, out: list[str]) -> None:
        """End the value here, and add what is missing. Does nothing when it is done."""
        if not self.done:
            self.repaired = self.last = True
            half, self.half = self.half, ""
            self._resume(half, 0, out)

    def release(self, out: list[str]) -> None:
        """Emit what is held back, as far as JSON can begin with it: the text is over and the value stays open."""
        held = "".join(self.pending)
        if self.state == _QUOTE:
            out.append('"' + held)
        elif self.state == _STRING and self.half[:1] == "\\":
            out.append(self.half)
        elif self.state == _WORD and not self.is_key and _BEGUN.fullmatch(held):
            out.append(held)

    def _resume(self, s: str, i: int, out: list[str]) -> None:
        self.s, self.i, self.mark, self.out = s, i, i, out
        self.stuck = self.waits = False
        next(self._steps, None)
        self.flush(self.i)
        self.out = []

    # -- for the steps -------------------------------------------------------------------------------------------------

    def flush(self, end: int) -> None:
        """Emit what was read and not emitted."""
        if end > self.mark:
            self.out.append(self.s[self.mark : end])
        self.mark = end

    def put(self, text: str, begin: int, end: int) -> None:
        """Emit `text` for `s[begin:end]`."""
        self.flush(begin)
        if text:
            self.out.append(text)
        self.i = self.mark = end
        self.repaired = True

    def hold(self, end: int) -> None:
        """Take the text up to `end` into what is pending."""
        self.flush(self.i)
        self.pending.append(self.s[self.i : end])
        self.i = self.mark = end

    def more(self) -> Steps[None]:
        """More text must be seen to decide on the text at `i`."""
        self.flush(self.i)
        yield

    def block(self) -> Steps[None]:
        """The character at `i` cannot belong to JSON."""
        self.stuck = True
        yield from self.more()


# -- structure -----------------------------------------------------------------------------------------------------


def _read(at: JsonReader) -> Steps[None]:
    """The whole value."""
    while at.state != _DONE:
        s = at.s
        i = at.i = WHITE_SPACE.match(s, at.i).end()
        if i == len(s):
            if at.last:
                break
            yield from at.more()
            continue
        if (yield from _comment(at)):
            continue
        c, state = at.s[at.i], at.state
        if state in (_FIRST_KEY, _KEY):
            yield from _key(at, c)
        elif state == _COLON:
            yield from _colon(at, c)
        elif state == _AFTER:
            yield from _after(at, c)
        else:
            yield from _value(at, c)
    at.flush(at.i)
    if at.state != _DONE:  # closed early
        at.out.append(_MISSING.get(at.state, ""))
        while at.stack:
            at.out.append(_CLOSING[at.stack.pop()])
        at.state = _DONE
    at.done = at.settled = True


def _value(at: JsonReader, c: str) -> Steps[None]:
    i, stack = at.i, at.stack
    if c in "\"'":
        yield from _string(at, c, is_key=False)
    elif c in "{[":
        stack.append(c)
        at.state = _FIRST_KEY if c == "{" else _FIRST_ITEM
        at.i += 1
    elif c not in "]},:<>;":
        yield from _word(at, is_key=False)
    elif c == "]" and at.state == _FIRST_ITEM:
        at.state = _AFTER
    elif not stack or c in "<>;":
        yield from at.block()
    elif c == ":" or (c == "," and stack[-1] == "["):
        at.put("", i, i + 1)
    else:
        at.put("null", i, i)
        at.guessed = True
        at.state = _AFTER


def _key(at: JsonReader, c: str) -> Steps[None]:
    i = at.i
    if c in "\"'":
        yield from _string(at, c, is_key=True)
    elif c == "}":
        if at.state == _KEY:
            at.put('"":null', i, i)
            at.guessed = True
        at.state = _AFTER
    elif c in ",:" or (c == "{" and at.state == _FIRST_KEY):
        at.put("", i, i + 1)
    elif c in "]{[<>;":
        yield from at.block()
    else:
        yield from _word(at, is_key=True)


def _colon(at: JsonReader, c: str) -> Steps[None]:
    if c == "<":
        yield from at.block()
        return
    if c == "=":
        while at.i + 1 == len(at.s) and not at.last:
            yield from at.more()
    i = at.i
    at.state = _VALUE
    if c == ":":
        at.i += 1
    elif c == "=":
        at.put(":", i, i + (2 if at.s.startswith("=>", i) else 1))
    else:
        at.doubtful = not at.settled
        at.guessed = True
        missing = c in ",}]"
        at.put(":null" if missing else ":", i, i)
        if missing:
            at.state = _AFTER
            return
    at.settled = at.settled or not at.doubtful


def _after(at: JsonReader, c: str) -> Steps[None]:
    i = at.i
    if c == ",":
        yield from _comma(at)
    elif c in "}]":
        _bracket(at, "{" if c == "}" else "[")
    elif (c.isalnum() or c in "\"'{[_+-.$") and not _is_no_key(at, c):
        at.put(",", i, i)
        at.state = _after_comma(at)
    elif c == "/":  # no comment: nothing more is read
        at.put("", i, i + 1)
        while not at.last:
            yield from at.block()
    else:
        yield from at.block()


def _is_no_key(at: JsonReader, c: str) -> bool:
    return c in "{[" and at.stack[-1] == "{"


def _after_comma(at: JsonReader) -> int:
    return _KEY if at.stack[-1] == "{" else _VALUE


def _comma(at: JsonReader) -> Steps[None]:
    """A comma is dropped before a bracket or another comma: of several the last one stays."""
    at.state, at.pending = _COMMA, []
    at.hold(at.i + 1)
    while True:
        at.hold(WHITE_SPACE.match(at.s, at.i).end())
        c = at.s[at.i : at.i + 1]
        if (not c and at.last) or at.state != _COMMA:
            break
        if not c:
            yield from at.more()
        elif not (yield from _comment(at)):
            c = at.s[at.i]
            break
    if not c or c in "}],<" or _is_no_key(at, c):
        at.state = _AFTER
        at.repaired = True
    else:
        at.state = _after_comma(at)
        at.out += at.pending


def _bracket(at: JsonReader, wanted: str) -> None:
    """A closing bracket: of this container, of an outer one (what is open inside is closed), or of none
    (dropped).
    """
    i, stack = at.i, at.stack
    if wanted not in stack:
        at.put("", i, i + 1)
        return
    inner: list[str] = []
    while stack[-1] != wanted:
        inner.append(_CLOSING[stack.pop()])
    if inner:
        at.put("".join(inner), i, i)
    stack.pop()
    at.i += 1
    at.state = _AFTER if stack else _DONE


def _comment(at: JsonReader) -> Steps[bool]:
    """Drop the comment at `_i`; whether one is there."""
    c, state = at.s[at.i], at.state
    if c == "/":
        if state == _COLON or not at.stack:
            return False
        while at.i + 1 == len(at.s):
            if at.last:  # half of what begins a comment
                at.put("", at.i, at.i + 1)
                return True
            yield from at.more()
        if not at.s.startswith(("//", "/*"), at.i):
            return False
    elif c != "#" or not (state in (_FIRST_KEY, _KEY, _AFTER) or (state == _COMMA and at.stack[-1] == "{")):
        return False
    block = at.s.startswith("/*", at.i)
    at.put("", at.i, at.i + (1 if c == "#" else 2))
    before = ""  # the last character that is not white space
    while True:
        s, i = at.s, at.i
        end = (_IN_BLOCK if block else _IN_LINE).match(s, i).end()
        before = s[i:end].rstrip()[-1:] or before
        at.put("", i, end)
        c = s[end : end + 1]
        if not c and at.last:
            return True
        if c == "<" and _is_end_of_call(at, before):
            yield from at.block()
            return True
        if not c or (c == "*" and end + 1 == len(s) and not at.last) or at.waits:
            yield from at.more()
            continue
        if c in "\n\r":
            return True
        if s.startswith("*/", end):
            at.put("", end, end + 2)
            return True
        before = c
        at.put("", end, end + 1)


def _is_end_of_call(at: JsonReader, before: str) -> bool:
    """Whether the tag at `_i` is no part of the comment, which ends in `before`: the line's end is missing, as in
    `{"a": 1 // why}</tool_call>`, or the call's closing marker is here.
    """
    if before and before in "}]":
        at.state = _AFTER if at.state == _COMMA else at.state
        return True
    if at.state != _AFTER:
        return False
    if at.s.startswith(at.ends, at.i):
        return True
    at.waits = not at.last and _ends_begin(at, at.i)
    return False


def _ends_begin(at: JsonReader, i: int) -> bool:
    """Whether the text ends inside of one of `ends`, which begins at `i`."""
    size = len(at.s) - i
    return any(len(end) > size and at.s.startswith(end[:size], i) for end in at.ends)


# -- strings -------------------------------------------------------------------------------------------------------


def _string(at: JsonReader, quote: str, *, is_key: bool) -> Steps[None]:
    i = at.i
    at.quote, at.is_key, at.state = quote, is_key, _OPENED
    if quote == "'":
        at.put('"', i, i + 1)
    else:
        at.i += 1
    if not is_key and at.stack:
        while not at.last and len(at.s) < at.i + 2 and (quote * 2).startswith(at.s[at.i :]):
            yield from at.more()
        if at.s.startswith(quote * 2, at.i):
            yield from _in_three_quotes(at, quote)
            at.state = _AFTER
            return
    at.state = _STRING
    yield from _in_quotes(at, quote, _is_end)
    at.state = _COLON if is_key else _AFTER if at.stack else _DONE


def _in_quotes(at: JsonReader, quote: str, is_end: Callable[[JsonReader, str], Steps[bool]]) -> Steps[None]:
    """Copy the text of a string. is_end: whether the string ends at the quote that is here."""
    plain = _PLAIN[quote]
    while True:
        s = at.s
        i = at.i = plain.match(s, at.i).end()
        c = s[i : i + 1]
        if not c:
            if at.last:
                at.put('"', i, i)
                return
            yield from at.more()
        elif c == quote:
            if (yield from is_end(at, quote)):
                return
        elif c == "\\":
            yield from _escape(at)
        else:
            at.put(_ESCAPES[ord(c)], i, i + 1)


def _is_end(at: JsonReader, quote: str) -> Steps[bool]:
    """Whether the quote at `_i` ends the string: only where the text after it can follow a string."""
    at.flush(at.i)
    at.i = at.mark = at.i + 1
    at.pending = []
    ends = at.is_key or not at.stack
    if not ends:
        at.state = _QUOTE
        while True:
            s = at.s
            at.hold(WHITE_SPACE.match(s, at.i).end())
            rest = s[at.i : at.i + 2]
            spaced = any(at.pending)
            if at.last or (rest and (rest != "/" or not spaced)):
                break
            yield from at.more()
        held = "".join(at.pending)
        c = rest[:1]
        ends = c in _ENDS_STRING or not c or (rest == "/" and at.last) or (c == "`" and "\n" in held)
        ends = ends or (spaced and rest in ("//", "/*"))
        at.state = _STRING
    if ends:
        at.out += ['"', *at.pending]
        at.repaired = at.repaired or quote == "'"
    else:
        at.out += ['\\"' if quote == '"' else "'", quoted("".join(at.pending))]
        at.repaired = True
    at.pending = []
    return ends


def _escape(at: JsonReader) -> Steps[None]:
    while True:
        s, i = at.s, at.i
        c = s[i + 1 : i + 2]
        digits = _HEX.match(s, i + 2).end() if c == "u" else 0
        half = not c or (c == "u" and digits == len(s) < i + 6)
        if not half or at.last:
            break
        yield from at.more()
    if half:
        at.put("", i, len(s))  # its meaning is not known
    elif c in '"\\/bfnrt' or (c == "u" and digits == i + 6):
        at.i = i + (6 if c == "u" else 2)
    elif c in "'\n":
        at.put(_CONTROL.get(c, c), i, i + 2)
    else:
        at.put("\\\\", i, i + 1)


def _in_three_quotes(at: JsonReader, quote: str) -> Steps[None]:
    """A string in three quotes: fewer of them in it are data. Before a comma or a bracket, they are a string of
    one quote that is not escaped.
    """
    while len(at.s) < at.i + 3 and not at.last:
        yield from at.more()
    i = at.i
    data = '\\"' if quote == '"' else "'"
    at.state = _STRING
    if not at.s[i + 2 : i + 3]:
        at.put('"', i, i + 1)  # an empty string, and a quote too many
        at.i = at.mark = i + 2
        return
    at.put(data + '"' if at.s[i + 2] in ",}]" else "", i, i + 2)
    if at.s[i + 2] in ",}]":
        return
    yield from _in_quotes(at, quote, _is_end_of_three)


def _is_end_of_three(at: JsonReader, quote: str) -> Steps[bool]:
    """Whether three quotes, or more, are at `_i`. The last three of them end the string."""
    data = '\\"' if quote == '"' else "'"
    count = 0
    while True:
        s, end = at.s, at.i
        while s.startswith(quote, end):
            end += 1
        count += end - at.i
        at.put("", at.i, end)
        at.state = _QUOTE if count >= 3 else _OPENED
        if end < len(s) or at.last:
            break
        yield from at.more()
    at.state = _STRING
    at.out.append(data * (count - 3) + '"' if count >= 3 else data * count)
    return count >= 3


# -- words ---------------------------------------------------------------------------------------------------------


def _word(at: JsonReader, *, is_key: bool) -> Steps[None]:
    """A number, a literal or an unquoted word, which is held up to its end."""
    at.state, at.is_key, at.pending = _WORD, is_key, []
    while True:
        at.hold(_TOKEN.match(at.s, at.i).end())
        c = at.s[at.i : at.i + 1]
        if c or at.last:
            break
        yield from at.more()
    word, at.pending = "".join(at.pending), []
    after = _COLON if is_key else _AFTER if at.stack else _DONE
    made = None if is_key else word if NUMBER.fullmatch(word) else LITERALS.get(word) or repaired_number(word)
    if c == ":" and at.stack:
        made = None  # `15:30` is not a number
    elif made is None and not c and not is_key:
        # Half a literal (`tru`) or number (`1.`) at the end of the text.
        made = next((name for name in ("true", "false", "null") if word and name.startswith(word)), None)
    at.repaired = at.repaired or made != word
    if made is not None:
        at.out.append(made)
    else:
        at.guessed = at.guessed or not is_key
        at.out.append('"' + quoted(word))
        if not is_key and c and (not word or c not in ",}]\n\r"):
            yield from _words(at)
        at.out.append('"')
    at.state = after


def _words(at: JsonReader) -> Steps[None]:
    """An unquoted string is emitted as it arrives, up to what may end it."""
    at.state = _WORDS
    while True:
        s = at.s
        i = at.i = _IN_WORDS.match(s, at.i).end()
        c = s[i : i + 1]
        if not c and not at.last:
            yield from at.more()
        elif c and c in '"\\':
            at.put("\\" + c, i, i + 1)
        elif c and c < " " and c not in "\r\n":
            at.put(_ESCAPES[ord(c)], i, i + 1)
        else:
            at.flush(i)
            return
