"""Strings and words of a JSON value that arrives in pieces: what they are, where they end, and how they are repaired.

A method or function for each state: it reads `s` from `i`, appends to `out` what does not leave as it stands there,
sets the next state, and returns where it is and from where `s` is read but has not left.
"""

from __future__ import annotations

from ..patterns import WHITE_SPACE, anywhere
from .json_extensions import Comments
from .json_spelling import CONTROL, ESCAPES, LITERALS, NUMBER, quoted, repaired_number
from .json_states import AFTER, COLON, ESCAPE, QUOTE, STRING, VALUE, WORDS, Position

SPACE = " \t\r\n"
_SIMPLE = '"\\/bfnrt'  # escapes of one character
_IN_DOUBLE = anywhere(r'[^"\\\x00-\x1f]*')
_IN_SINGLE = anywhere(r"[^'\"\\\x00-\x1f]*")
_IN_WORDS = anywhere(r'[^,{}\[\]"\\\x00-\x1f<]*')
_TOKEN = anywhere(r"[^\s,:{}\[\]\"'<>;]*")
_HEX = anywhere(r"[0-9a-fA-F]{0,4}")
_ENDS_STRING = frozenset(",}]\"'<")


class Strings:
    """The part of a `JsonReader` that reads strings in one pair of quotes.

    easy: nothing in the piece at hand is special in a string but a quote.
    """

    __slots__ = ("_at", "_comments", "easy")

    def __init__(self, at: Position, comments: Comments) -> None:
        self.easy = False
        self._at = at
        self._comments = comments

    def read(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """In a string: up to the next character of it that is not plain, and what that one means."""
        n = len(s)
        quote = self._at.quote
        if self.easy and quote == '"':
            i = s.find('"', i)
            if i < 0:
                i = n
        elif quote == '"':
            i = _IN_DOUBLE.match(s, i).end()
        elif quote == "'":
            i = _IN_SINGLE.match(s, i).end()
        if i == n:
            return i, mark
        c = s[i]
        if c == quote:
            return self._quote(s, i, mark, out)
        if c == "\\":
            return self._backslash(s, i, mark, out)
        if c == '"':
            out.append(s[mark:i] + '\\"')
        else:
            out.append(s[mark:i] + _control(c))
            self._at.repaired = True
        return i + 1, i + 1

    def _quote(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """`s[i]` is the quote that may end the string."""
        at = self._at
        c, n = s[i], len(s)
        j = i + 1
        if not at.is_key and at.stack:
            if j < n and s[j] in SPACE:
                j = WHITE_SPACE.match(s, j).end()
            if j == n:
                if i > mark:
                    out.append(s[mark:i])
                at.hold(s[i:], QUOTE)
                return n, n
            if s[j] == "/" and j > i + 1:  # perhaps a comment
                out.append(s[mark:i])
                at.hold(s[i:j], self._comments.begin("/", QUOTE))
                return j + 1, j + 1
            if s[j] not in _ENDS_STRING and not (s[j] == "`" and "\n" in s[i:j]):
                out.append(s[mark:i] + ('\\"' if c == '"' else "'"))
                at.repaired = True
                return i + 1, i + 1
        if c != '"':
            out.append(s[mark:i] + '"')
            at.repaired = True
            i += 1
            mark = i
        else:
            i = j
        at.state = at.after_string()
        if at.state == COLON and i < n and s[i] == ":":
            i += 1
            at.state = VALUE
            at.settled = at.settled or not at.doubtful
        return i, mark

    def read_behind_quote(self, s: str, i: int, out: list[str]) -> tuple[int, int]:
        """Behind a quote that is held: whether it ended the string."""
        at = self._at
        j = WHITE_SPACE.match(s, i).end()
        if j == len(s):
            at.held.append(s[i:])
            return j, j
        held = "".join(at.held)
        if s[j] == "/" and (j > i or len(held) > 1):
            at.held.append(s[i:j])
            at.state = self._comments.begin("/", QUOTE)
            return j + 1, j + 1
        if s[j] in _ENDS_STRING or (s[j] == "`" and ("\n" in held or "\n" in s[i:j])):
            at.repaired = at.repaired or at.quote != '"'
            out.append('"' + held[1:])
            at.state = AFTER
            return j, i
        at.repaired = True
        out.append(at.escaped_quote() + held[1:].translate(ESCAPES))
        at.state = STRING
        return i, i

    def _backslash(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        if i + 1 < len(s) and s[i + 1] in _SIMPLE:
            return i + 2, mark
        end, repaired = _escape(s, i)
        if repaired == "":
            return end, mark
        if i > mark:
            out.append(s[mark:i])
        if repaired is None:
            self._at.hold(s[i:], ESCAPE)
            return len(s), len(s)
        out.append(repaired)
        self._at.repaired = True
        return end, end


def _control(c: str) -> str:
    return CONTROL.get(c) or f"\\u{ord(c):04x}"


def _escape(s: str, i: int) -> tuple[int, str | None]:
    """The escape at `s[i]`: (index behind it, "" when it stays, its repaired form, or None when it is cut off)."""
    if i + 1 >= len(s):
        return i, None
    c = s[i + 1]
    if c == "u":
        digits = _HEX.match(s, i + 2).end()
        if digits == i + 6:
            return digits, ""
        return (i, None) if digits == len(s) else (i + 1, "\\\\")
    if c == "'":
        return i + 2, "'"
    if c == "\n":
        return i + 2, "\\n"
    return i + 1, "\\\\"


# -- words -------------------------------------------------------------------------------------------------------------


def read_word(at: Position, s: str, i: int, out: list[str]) -> tuple[int, int]:
    """In a number, a literal or an unquoted word, which is held until its end."""
    if s[i] not in ",]}":
        j = _TOKEN.match(s, i).end()
        at.held.append(s[i:j])
        i = j
        if j == len(s):
            return j, j
    at.state = _put_word(at, out, s[i])
    return i, i


def read_words(at: Position, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
    """In an unquoted string that has begun to leave."""
    i = _IN_WORDS.match(s, i).end()
    if i > mark:
        out.append(s[mark:i])
    if i == len(s):
        return i, i
    c = s[i]
    if c in '"\\':
        out.append("\\" + c)
    elif c < " " and c not in "\r\n":
        out.append(_control(c))
    else:
        out.append('"')
        at.state = at.after_string()
        return i, i
    return i + 1, i + 1


def _put_word(at: Position, out: list[str], c: str) -> int:
    """A word has ended before `c`: put it out, and say what comes next."""
    word = at.take_held()
    if at.is_key:
        return end_word(at, out, word)
    made = word if NUMBER.fullmatch(word) else LITERALS.get(word)
    if made is None:
        made = repaired_number(word)
    if made is not None and (c != ":" or not at.stack):  # `15:30` is no number
        out.append(made)
        if made != word:
            at.repaired = True
        return at.after_value()
    at.repaired = True
    if not word:
        # A character that starts nothing: keep it as an unquoted string of its own.
        out.append('"')
        return WORDS
    out.append('"' + quoted(word))
    if c not in ",}]\n\r":
        return WORDS
    out.append('"')
    return at.after_value()


def end_word(at: Position, out: list[str], word: str) -> int:
    """Put out a key, or a word that ends with the text; the next state."""
    if at.is_key:
        at.repaired = True
        out.append('"' + quoted(word) + '"')
        return COLON
    made = LITERALS.get(word) or (word if NUMBER.fullmatch(word) else repaired_number(word))
    if made is None:
        # Half a literal (`tru`) or number (`1.`) at the end of the text.
        begun = (name for name in ("true", "false", "null") if word and name.startswith(word))
        made = next(begun, None)
    out.append(made if made is not None else '"' + quoted(word) + '"')
    return at.after_value()
