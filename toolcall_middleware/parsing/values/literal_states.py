"""The table by which small pieces of lists and objects in Python's or Gemma's notation are read: a look-up a character.

A row for each place where a reader can stand. `row[char]` is the next row and what leaves for the character, or an act
and None where there is more to do; a character that is not there is left to `Arguments`, as is all that is seldom.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

from .json_spelling import quoted
from .literal_position import AFTER, COLON, IN_WORD, KEY, STRING, VALUE
from .notation import SIMPLE, Notation

MARK, OPEN, CLOSE = range(3)
"""Acts, as `(act, row, before, after)`. MARK: `before` leaves, and `after` is the first of what waits. OPEN: `before`
leaves, and the container `after` begins. CLOSE: one ends; `row` gives the next row by the bracket that is open then."""

AT, HOLDS = "at", "holds"
"""Under these names a row has its `Place`, and what of the made text waits in it. None: nothing. "": a word or key. A
character: what stands behind the last of them in the text, for what is before it may go on."""

Row = dict[str, Any]

PLAIN: Final = {"True": "true", "true": "true", "False": "false", "false": "false", "None": "null", "null": "null"}

_KINDS: Final = ("{", "[")
_SHUT: Final = {"{": "}", "[": "]"}
_SPACE: Final = " \t\r\n"
_CHARS: Final = "".join(map(chr, range(0x20, 0x7F))) + "\t\r\n"
_DIGITS: Final = "0123456789"
_NAME: Final = "".join(filter(str.isalnum, _CHARS)) + "_-.$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The state of an `Arguments` that stands where a row does.

    empty: nothing stands in the container. tail: text that is not decided on. word: a literal so far, as written.
    ahead: the quote or comma with which text begins that is not decided on.
    """

    state: int
    empty: bool = False
    quote: str = ""
    is_key: bool = False
    tail: str = ""
    word: str = ""
    ahead: str = ""


def _row(place: Place, holds: str | None = None, stays: str = "") -> Row:
    row: Row = {AT: place, HOLDS: holds}
    row.update(dict.fromkeys(stays, (row, "")))
    return row


class Rows:
    """The rows for one notation."""

    def __init__(self, quotes: tuple[str, ...], verbatim: frozenset[str], *, keywords: bool) -> None:
        self._keywords = keywords
        self._quotes = [quote for quote in quotes if len(quote) == 1]
        self._after = {kind: _row(Place(state=AFTER), None, _SPACE) for kind in _KINDS}
        self._colon = _row(Place(state=COLON), None, _SPACE)
        self._value = {kind: _row(Place(state=VALUE), None, _SPACE) for kind in _KINDS}  # behind a colon, or a comma
        self._next = {"{": _row(Place(state=KEY), None, _SPACE), "[": self._value["["]}  # behind a comma
        self._first = {
            "{": _row(Place(state=KEY, empty=True), None, _SPACE),
            "[": _row(Place(state=VALUE, empty=True), None, _SPACE),
        }
        self._keys: dict[str, Row] = {}  # the inside of a quoted key, by its quote
        # The inside of a string that is a value, by its quote and its container ("": any container).
        self._strings: dict[tuple[str, str], Row] = {}
        for kind in _KINDS:
            shut = (CLOSE, self._after, "", ""), None
            self._after[kind].update({",": (self._next[kind], ""), _SHUT[kind]: shut})
            self._first[kind][_SHUT[kind]] = shut
        self._colon[":"] = self._colon["="] = self._value["{"], ": "
        for row, before in ((self._first["{"], ""), (self._next["{"], ", ")):
            self._add_keys(row, before)
        values = (("{", self._value["{"], ""), ("[", self._first["["], ""), ("[", self._value["["], ", "))
        for quote in (*self._quotes, *sorted(verbatim)):
            self._add_strings(quote, verbatim=quote in verbatim)
            for kind, row, before in values:
                self._add_opening(row, before, quote, self._strings[quote, kind])
        for kind in _KINDS:
            self._add_words([(row, before) for of, row, before in values if of == kind], kind)
        for _, row, before in values:
            # A brace may open one of Python's sets: what follows it tells.
            opens = "[" if keywords else _KINDS
            row.update({kind: ((OPEN, self._first[kind], before + kind, kind), None) for kind in opens})

    def find(self, kind: str, state: int, quote: str, *, empty: bool, is_key: bool) -> Row | None:
        """The row for a reader with nothing undecided. kind: the bracket that is open, "" for none of the table's."""
        if state == STRING:
            if is_key:
                return self._keys.get(quote) if kind == "{" else None
            return self._strings.get((quote, kind))
        if state == IN_WORD or kind not in self._after or (kind == "[" and state in {KEY, COLON}):
            return None
        if state == AFTER:
            return None if empty else self._after[kind]  # empty: a stray bracket stood there
        if state == COLON:
            return self._colon
        if state == KEY:
            return (self._first if empty else self._next)["{"]
        return self._first["["] if empty and kind == "[" else self._value[kind]

    # -- keys --------------------------------------------------------------------------------------------------------

    def _add_keys(self, row: Row, before: str) -> None:
        """Keys may begin in `row`: quoted, or as a name, of which nothing leaves before its colon."""
        name = self._name(Place(state=KEY), "")
        row.update({char: ((MARK, name, "", f'{before}"{char}'), None) for char in _NAME})
        for quote in self._quotes:
            if quote not in self._keys:
                self._keys[quote] = self._string(quote, self._colon, is_key=True)
            self._add_opening(row, before, quote, self._keys[quote])

    def _name(self, place: Place, holds: str) -> Row:
        row = _row(place, holds)
        row.update({char: (row, char) for char in _NAME})
        row[":"] = self._value["{"], '": '
        return row

    def _key_ahead(self, place: Place, holds: str) -> Row:
        """Behind a comma, where only a key says that what stands before the comma is over."""
        row = _row(place, holds, _SPACE)
        name = self._name(place, holds)
        row.update({char: (name, f', "{char}') for char in _NAME})
        row.update({quote: self._next["{"][quote] for quote in self._quotes})
        return row

    # -- strings -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _string(quote: str, behind: Row | None, *, is_key: bool = False) -> Row:
        """The inside of a string with escapes. Behind a key's stands its colon, behind a value's `behind` waits."""
        row = _row(Place(state=STRING, quote=quote, is_key=is_key))
        escape = _row(Place(state=STRING, quote=quote, is_key=is_key, tail="\\"))
        row.update({char: (row, quoted(char)) for char in _CHARS})
        row["\\"] = escape, ""
        escape.update({char: (row, quoted(text)) for char, text in SIMPLE.items()})
        del row[quote]
        if behind is not None:
            row[quote] = (behind, '"') if is_key else ((MARK, behind, "", '"'), None)
        return row

    @staticmethod
    def _verbatim(quote: str, behind: Row | None) -> Row:
        row = _row(Place(state=STRING, quote=quote))
        row.update({char: (row, quoted(char)) for char in _CHARS})
        part = row
        for n, char in enumerate(quote[:-1], 1):
            following = _row(Place(state=STRING, quote=quote, tail=quote[:n]))
            part[char] = following, ""
            part = following
        if behind is not None:
            part[quote[-1]] = (MARK, behind, "", '"'), None
        return row

    def _add_strings(self, quote: str, *, verbatim: bool) -> None:
        """Values between `quote`s. The closing one waits: what follows tells whether it is one."""
        place, holds = Place(state=STRING, quote=quote, ahead=quote), quote[-1]
        behind = {kind: _row(place, holds, _SPACE) for kind in _KINDS}
        behind["{"][","] = self._key_ahead(place, holds), ""
        behind["["][","] = self._value["["], ""
        for kind in _KINDS:
            behind[kind][_SHUT[kind]] = (CLOSE, behind, "", ""), None
        make = self._verbatim if verbatim else self._string
        self._strings.update({(quote, kind): make(quote, behind.get(kind)) for kind in ("", *_KINDS)})

    @staticmethod
    def _add_opening(row: Row, before: str, quote: str, string: Row) -> None:
        """`string` may begin in `row`. Two quotes of one character may be half of three, and are left alone."""
        at: Place = row[AT]
        part = row
        for n, char in enumerate(quote[:-1], 1):
            following = _row(Place(state=at.state, empty=at.empty, tail=quote[:n]))
            part[char] = following, ""
            part = following
        if len(quote) > 1:
            part[quote[-1]] = string, before + '"'
            return
        opened = _row(Place(state=at.state, empty=at.empty, tail=quote))
        row[quote] = opened, ""
        begun = before + '"'
        opened.update({char: (string[char][0], begun + string[char][1]) for char in _CHARS if char != quote})

    # -- words -------------------------------------------------------------------------------------------------------

    def _add_words(self, begins: list[tuple[Row, str]], kind: str) -> None:
        """Numbers as RFC 8259 has them, and literals: words that begin in rows of `begins`, each with what leaves."""
        comma = self._next[kind]
        if kind == "{" and not self._keywords:
            comma = self._key_ahead(Place(state=IN_WORD, ahead=","), ",")
        ends = {",": (comma, ""), _SHUT[kind]: ((CLOSE, self._after, "", ""), None)}
        place = Place(state=IN_WORD)
        minus, point, exponent, sign = (_row(place, "") for _ in range(4))
        zero, digits, fraction, power = (_row(place, "") | ends for _ in range(4))
        for row, following in ((digits, digits), (point, fraction), (fraction, fraction), (power, power)):
            row.update({char: (following, char) for char in _DIGITS})
        starts = {"0": zero} | dict.fromkeys("123456789", digits)
        minus.update({char: (following, char) for char, following in starts.items()})
        for row in (exponent, sign):
            row.update({char: (power, char) for char in _DIGITS})
        exponent.update({char: (sign, char) for char in "+-"})
        zero["."] = digits["."] = point, "."
        for row in (zero, digits, fraction):
            row.update({char: (exponent, char) for char in "eE"})
        for row, before in begins:
            for char, following in (starts | {"-": minus}).items():
                row[char] = (MARK, following, before, char), None
        for word, said in PLAIN.items():
            if self._keywords or word == said:
                self._add_literal(begins, word, said, ends)

    @staticmethod
    def _add_literal(begins: list[tuple[Row, str]], word: str, said: str, ends: Row) -> None:
        """Nothing leaves before the second character: `f` may also stand before a string."""
        parts = [_row(Place(state=IN_WORD, word=word[:n]), "") for n in range(2, len(word) + 1)]
        parts[-1].update(ends)
        for part, following, char in zip(parts, parts[1:], word[2:], strict=False):
            part[char] = following, said if following is parts[-1] else ""
        for row, before in begins:
            at: Place = row[AT]
            first = _row(Place(state=at.state, empty=at.empty, tail=word[0]))
            first[word[1]] = (MARK, parts[0], before, ""), None
            row[word[0]] = first, ""


@functools.lru_cache(maxsize=16)
def _rows(quotes: tuple[str, ...], verbatim: frozenset[str], *, keywords: bool) -> Rows:
    return Rows(quotes, verbatim, keywords=keywords)


def rows_of(notation: Notation) -> Rows | None:
    """The rows for a notation. None where what ends its calls begins like something in them."""
    if notation.end_firsts - {"<"}:
        return None
    return _rows(notation.quotes, notation.verbatim, keywords=notation.keywords)
