"""Strings and words of a JSON value that arrives in pieces: what they are, where they end, and how they are mended.

A method for each state (`JsonReader.feed` calls it): it reads `s` from `i`, appends to `out` what does not leave as it
stands there, sets the next state, and returns where it is and from where `s` is read but has not left.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from .json_extensions import LooseReader
from .json_spelling import CONTROL, ESCAPES, LITERALS, NUMBER, mend_number, quoted
from .json_table import AFTER, COLON, DONE, ESCAPE, QUOTE, SLASH, STRING, VALUE, WORD, WORDS

SPACE = " \t\r\n"
WHITE = re.compile(r"[ \t\r\n]*")
_SIMPLE = '"\\/bfnrt'  # escapes of one character
_IN_DOUBLE = re.compile(r'[^"\\\x00-\x1f]*')
_IN_SINGLE = re.compile(r"[^'\"\\\x00-\x1f]*")
_IN_WORDS = re.compile(r'[^,{}\[\]"\\\x00-\x1f<]*')
_TOKEN = re.compile(r"[^\s,:{}\[\]\"'<>;]*")
_HEX = re.compile(r"[0-9a-fA-F]{0,4}")
_ENDS_STRING = frozenset(",}]\"'<")


class TextReader(LooseReader):
    """The part of a `JsonReader` that reads strings and words.

    doubtful: as there.
    """

    __slots__ = ("_easy", "doubtful")

    def __init__(self) -> None:
        super().__init__()
        self.doubtful = False
        self._easy = False  # nothing in the piece at hand is special in a string but a quote

    # -- strings -------------------------------------------------------------------------------------------------

    def _string(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """In a string: up to the next character of it that is not plain, and what that one means."""
        n = len(s)
        if self._easy and self._quote == '"':
            i = s.find('"', i)
            if i < 0:
                i = n
        elif self._quote == '"':
            i = _IN_DOUBLE.match(s, i).end()  # type: ignore[union-attr]
        elif self._quote == "'":
            i = _IN_SINGLE.match(s, i).end()  # type: ignore[union-attr]
        if i == n:
            return i, mark
        c = s[i]
        if c == self._quote:
            return self._quoted(s, i, mark, out)
        if c == "\\":
            if i + 1 < n and s[i + 1] in _SIMPLE:
                return i + 2, mark
            end, mended = self._escape(s, i)
            if mended == "":
                return end, mark
            if i > mark:
                out.append(s[mark:i])
            if mended is None:
                self._held = [s[i:]]
                self._state = ESCAPE
                return n, n
            out.append(mended)
            self.repaired = True
            return end, end
        if c == '"':
            out.append(s[mark:i] + '\\"')
        else:
            out.append(s[mark:i] + (CONTROL.get(c) or f"\\u{ord(c):04x}"))
            self.repaired = True
        return i + 1, i + 1

    def _quoted(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """`s[i]` is the quote that may end the string."""
        c, n = s[i], len(s)
        j = i + 1
        if not self._is_key and self._stack:
            if j < n and s[j] in SPACE:
                j = WHITE.match(s, j).end()  # type: ignore[union-attr]
            if j == n:
                if i > mark:
                    out.append(s[mark:i])
                self._held = [s[i:]]
                self._state = QUOTE
                return n, n
            if s[j] == "/" and j > i + 1:  # perhaps a comment
                out.append(s[mark:i])
                self._held = [s[i:j]]
                self._back = QUOTE
                self._state = SLASH
                return j + 1, j + 1
            if s[j] not in _ENDS_STRING and not (s[j] == "`" and "\n" in s[i:j]):
                out.append(s[mark:i] + ('\\"' if c == '"' else "'"))
                self.repaired = True
                return i + 1, i + 1
        if c != '"':
            out.append(s[mark:i] + '"')
            self.repaired = True
            i += 1
            mark = i
        else:
            i = j
        self._state = self._after_string()
        if self._state == COLON and i < n and s[i] == ":":
            i += 1
            self._state = VALUE
            self.settled = self.settled or not self.doubtful
        return i, mark

    def _held_quote(self, s: str, i: int, _mark: int, out: list[str]) -> tuple[int, int]:
        """Behind a quote that is held: whether it ended the string."""
        j = WHITE.match(s, i).end()  # type: ignore[union-attr]
        if j == len(s):
            self._held.append(s[i:])
            return j, j
        held = "".join(self._held)
        if s[j] == "/" and (j > i or len(held) > 1):
            self._held.append(s[i:j])
            self._back = QUOTE
            self._state = SLASH
            return j + 1, j + 1
        if s[j] in _ENDS_STRING or (s[j] == "`" and ("\n" in held or "\n" in s[i:j])):
            self.repaired = self.repaired or self._quote != '"'
            out.append('"' + held[1:])
            self._state = AFTER
            return j, i
        self.repaired = True
        out.append(('\\"' if self._quote == '"' else "'") + held[1:].translate(ESCAPES))
        self._state = STRING
        return i, i

    def _after_string(self) -> int:
        if self._is_key:
            return COLON
        return AFTER if self._stack else DONE

    def _escape(self, s: str, i: int) -> tuple[int, str | None]:
        """The escape at `s[i]`: (index behind it, "" when it stays, its mended form, or None when it is cut off)."""
        if i + 1 >= len(s):
            return i, None
        c = s[i + 1]
        if c in _SIMPLE:
            return i + 2, ""
        if c == "u":
            digits = _HEX.match(s, i + 2).end()  # type: ignore[union-attr]
            if digits == i + 6:
                return digits, ""
            return (i, None) if digits == len(s) else (i + 1, "\\\\")
        if c == "'":
            return i + 2, "'"
        if c == "\n":
            return i + 2, "\\n"
        return i + 1, "\\\\"

    # -- words ---------------------------------------------------------------------------------------------------

    def _word(self, s: str, i: int, _mark: int, out: list[str]) -> tuple[int, int]:
        """In a number, a literal or an unquoted word, which is held until its end."""
        if s[i] not in ",]}":
            j = _TOKEN.match(s, i).end()  # type: ignore[union-attr]
            self._held.append(s[i:j])
            i = j
            if j == len(s):
                return j, j
        self._state = self._put_word(out, s[i])
        return i, i

    def _words(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """In an unquoted string that has begun to leave."""
        i = _IN_WORDS.match(s, i).end()  # type: ignore[union-attr]
        if i > mark:
            out.append(s[mark:i])
        if i == len(s):
            return i, i
        c = s[i]
        if c in '"\\':
            out.append("\\" + c)
        elif c < " " and c not in "\r\n":
            out.append(CONTROL.get(c) or f"\\u{ord(c):04x}")
        else:
            out.append('"')
            self._state = self._after_string()
            return i, i
        return i + 1, i + 1

    def _put_word(self, out: list[str], c: str) -> int:
        """A word has ended before `c`: put it out, and say what comes next."""
        word = "".join(self._held)
        self._held = []
        if self._is_key:
            return self._end_word(out, word)
        mended = word if NUMBER.fullmatch(word) else LITERALS.get(word)
        if mended is None:
            mended = mend_number(word)
        if mended is not None:
            out.append(mended)
            if mended != word:
                self.repaired = True
            return AFTER if self._stack else DONE
        self.repaired = True
        if not word:
            # A character that starts nothing: keep it as an unquoted string of its own.
            out.append('"')
            return WORDS
        out.append('"' + quoted(word))
        return WORDS if c not in ",}]\n\r" else self._close_words(out)

    def _close_words(self, out: list[str]) -> int:
        out.append('"')
        return AFTER if self._stack else DONE

    def _end_word(self, out: list[str], word: str) -> int:
        if self._is_key:
            self.repaired = True
            out.append('"' + quoted(word) + '"')
            return COLON
        mended = LITERALS.get(word) or (word if NUMBER.fullmatch(word) else mend_number(word))
        if mended is None:
            # Half a literal (`tru`) or number (`1.`) at the end of the text.
            begun = (name for name in ("true", "false", "null") if word and name.startswith(word))
            mended = next(begun, None)
        out.append(mended if mended is not None else '"' + quoted(word) + '"')
        return AFTER if self._stack else DONE

    reads: ClassVar[dict[int, Callable[[Any, str, int, int, list[str]], tuple[int, int]]]] = {
        STRING: _string,
        QUOTE: _held_quote,
        WORD: _word,
        WORDS: _words,
    }
    """What reads on in each of these states."""
