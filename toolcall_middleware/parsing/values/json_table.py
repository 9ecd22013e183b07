"""Reads small pieces of clean JSON by a table, one look-up a character: for arguments of many short values.

What is not clean, or more than the table knows (an escape of digits, the end of the value), is left to the other parts
of a `JsonReader`.
"""

from __future__ import annotations

from typing import Any, Final

from .json_states import (
    AFTER,
    COLON,
    COMMA,
    ESCAPE,
    FIRST_ITEM,
    FIRST_KEY,
    KEY,
    OPENED,
    QUOTE,
    STRING,
    VALUE,
    WORD,
    Position,
)

Row = dict[str, Any]
"""The next row by the next character, for one state; None for what is not clean there, and for brackets. What more
there is to know of the state stands under the names below, which are no characters."""

_CLOSES, _OPENS, _END = "closes", "opens", "end"
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_SPACE: Final = " \t\r\n"
_DIGITS: Final = "0123456789"
_WORD_CHARS: Final = "+-.eE" + _DIGITS + "abcdefghijklmnopqrstuvwxyz"
_HELD: Final = {COMMA: ",", QUOTE: '"', ESCAPE: "", WORD: _WORD_CHARS}
SMALL = 24  # characters: in longer ones a search beats the table
_MAX_DEPTH = 2048  # open brackets: each piece may copy them all


def _row(state: int, *, closes: str = "", opens: bool = False, is_key: bool = False) -> Row:
    """closes: the bracket that may end the container here. opens: whether a container may begin."""
    # How a piece ends here: the state, whether in a key, and what is held then: from the last of these characters.
    end = state, is_key, _HELD.get(state)
    about = {_CLOSES: closes, _OPENS: opens, _END: end}
    return dict.fromkeys(_PRINTABLE + _SPACE) | about


def _build(close: str) -> dict[int, Row]:
    """The rows for the inside of an object (`close` is `}`) or a list, by what they stand for."""
    in_object = close == "}"
    colon, key, first_key = _row(COLON), _row(KEY), _row(FIRST_KEY, closes="}")
    value, first_item = _row(VALUE, opens=True), _row(FIRST_ITEM, closes="]", opens=True)
    after, quote = _row(AFTER, closes=close), _row(QUOTE, closes=close)
    comma = _row(COMMA, opens=not in_object)
    in_key, in_value = _row(STRING, is_key=True), _row(STRING)
    opened = _row(OPENED)  # a quote that follows at once may be the second of three
    for row in (colon, key, first_key, value, first_item, after, quote, comma):
        row.update(dict.fromkeys(_SPACE, row))
    for string, end in ((in_key, colon), (in_value, quote)):
        escape = _row(ESCAPE, is_key=string is in_key)
        string.update(dict.fromkeys(_PRINTABLE, string))
        string.update({"\\": escape, '"': end})
        escape.update(dict.fromkeys('"\\/bfnrt', string))
    opened.update({**in_value, _END: opened[_END], '"': None})
    for row in (key, first_key, comma) if in_object else (key, first_key):
        row['"'] = in_key
    for row in (value, first_item) if in_object else (value, first_item, comma):
        row['"'] = opened
        _add_words(row, close, after, comma)
    colon[":"] = value
    after[","] = quote[","] = comma
    rows = (value, first_item, first_key, key, colon, after, comma, in_value, opened, quote)
    return {row[_END][0]: row for row in rows}


def _add_words(begin: Row, close: str, after: Row, comma: Row) -> None:
    """Numbers and literals that begin where `begin` stands, spelled as RFC 8259 has them."""

    def whole() -> Row:
        """A word that may end here."""
        row = _row(WORD, closes=close)
        row.update({",": comma, **dict.fromkeys(_SPACE, after)})
        return row

    minus, point, exponent, sign = (_row(WORD) for _ in range(4))
    zero, digits, fraction, power = (whole() for _ in range(4))
    for row, following in ((digits, digits), (point, fraction), (fraction, fraction), (power, power)):
        row.update(dict.fromkeys(_DIGITS, following))
    for row in (begin, minus):
        row.update({"0": zero, **dict.fromkeys("123456789", digits)})
    for row in (exponent, sign):
        row.update(dict.fromkeys(_DIGITS, power))
    begin["-"] = minus
    exponent.update({"+": sign, "-": sign})
    zero["."] = digits["."] = point
    for row in (zero, digits, fraction):
        row.update({"e": exponent, "E": exponent})
    for word in ("true", "false", "null"):
        row = begin
        for char in word[:-1]:
            row[char] = following = _row(WORD)
            row = following
        row[word[-1]] = whole()


_ROWS: Final = {"{": _build("}"), "[": _build("]")}


class CleanJson:
    """The part of a `JsonReader` that reads small pieces by the table."""

    __slots__ = ("_at", "_row")

    def __init__(self, at: Position) -> None:
        self._at = at
        self._row: Row | None = None  # where the last piece ended, if it was read here

    def forget(self) -> None:
        """Another part reads on: where the table stood is an old place."""
        self._row = None

    def read(self, s: str) -> str | None:  # noqa: C901 - the loop, and its end by state
        """Read all of `s`; returns what leaves. None: this piece is not for the table, nothing was read."""
        at = self._at
        if not at.settled:
            return None
        if at.state == STRING and at.quote == '"' and '"' not in s and "\\" not in s and s.isprintable():
            return s
        row = self._row
        if len(s) > SMALL or len(at.stack) > _MAX_DEPTH or (row is None and (row := self._find_row()) is None):
            return None
        stack, objects = at.stack, at.objects
        try:
            for char in s:
                following = row[char]
                if following is not None:
                    row = following
                    continue
                if stack is at.stack:
                    stack = stack.copy()
                if char == row[_CLOSES]:
                    objects -= stack.pop() == "{"
                    if not stack:
                        return None  # the end
                    row = _ROWS[stack[-1]][AFTER]
                elif row[_OPENS] and (char == "{" or char == "["):
                    stack.append(char)
                    objects += char == "{"
                    row = _ROWS[char][FIRST_KEY if char == "{" else FIRST_ITEM]
                else:
                    return None
        except KeyError:
            return None  # no printable ASCII
        at.stack, at.objects = stack, objects
        self._row = row
        held, was = at.held, at.state
        at.state, at.is_key, holds = row[_END]
        # What is held now stands at the end of `s`, or `s` goes on with what was held.
        if holds is None:
            if not held:
                return s
            held.append(s)
            return at.take_held()
        if holds is _WORD_CHARS:
            cut = len(s.rstrip(_WORD_CHARS))
            if not cut and was == WORD:
                cut = -1
        else:
            cut = s.rfind(holds) if holds else len(s) - 1
        if cut < 0:
            held.append(s)
            return ""
        at.held = [s[cut:]]
        if not held:
            return s[:cut]
        held.append(s[:cut])
        return "".join(held)

    def _find_row(self) -> Row | None:
        """The row for what the other parts have read; None where the table has none."""
        at = self._at
        state = at.state
        if not at.stack or at.quote != '"' or (at.is_key and state >= STRING):
            return None
        if at.held and state not in {COMMA, QUOTE, WORD}:
            return None
        rows = _ROWS[at.stack[-1]]
        if state != WORD:
            return rows.get(state)
        row: Row | None = rows[VALUE]
        for char in "".join(at.held):
            row = None if row is None else row.get(char)
        return row
