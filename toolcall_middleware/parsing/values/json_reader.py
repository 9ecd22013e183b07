"""Copies one JSON value out of a text that arrives in pieces, and mends it on the way.

What is valid JSON (RFC 8259) comes out as it was written, to the character: white space, number spelling, key order
and escapes included. What is not is mended by the rules below, so that the copy is always valid JSON once `done`:

- `'…'` strings and unquoted keys or words become `"…"`; Python's and JavaScript's True, None, undefined, NaN … become
  JSON's literals; other spellings of numbers (`+1`, `.5`, `0x10`, `1_000`) become JSON numbers;
- a raw control character in a string is escaped, an unknown escape keeps its backslash as data, an unescaped quote
  inside a string (the next character could not follow a string's end) is escaped;
- comments are dropped, and a string in triple quotes becomes one (json_loose.py);
- a trailing, doubled or missing comma, a missing colon, value, quote or closing bracket is dropped or added.

This is the only place in the package where JSON is mended. It works in linear time and never raises. Beyond what it
must see to decide (a comma waits for the next character, a number for its end, an escape for its last digit), it
holds nothing back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .json_spelling import BEGUN, NUMBER_THERE
from .json_strings import SPACE, WHITE, TextReader
from .json_table import (
    AFTER,
    COLON,
    COMMA,
    DONE,
    ESCAPE,
    FIRST_ITEM,
    FIRST_KEY,
    KEY,
    OPENED,
    QUOTE,
    SLASH,
    STRING,
    VALUE,
    WORD,
    WORDS,
)


class JsonReader(TextReader):
    """Reads one value. `feed` until `done`; `close` to end it early.

    done: the value is complete, and what was put out is valid JSON.
    repaired: something was mended.
    settled: enough was seen to say that this is meant as JSON: a first key with its colon, or the end.
    doubtful: a key had no colon before anything was settled.
    lane: what goes through as it is, where a whole piece just was in a string.
    """

    __slots__ = ("done",)

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    @property
    def in_string(self) -> bool:
        """Whether the next character is inside a string, where nothing is markup."""
        return self._state in (STRING, ESCAPE) or self._in_triple

    @property
    def wants_string(self) -> bool:
        """Whether a quote could open a string here, or close one that a bare quote opened."""
        return self._state in (VALUE, FIRST_ITEM, FIRST_KEY, KEY, COMMA, STRING) or self._state > DONE

    @property
    def depth(self) -> int:
        """How many containers are open."""
        return len(self._stack)

    @property
    def amid(self) -> bool:
        """Whether a value is to come: behind a key, a colon or a comma, or in a key."""
        state = self._back if self._state >= SLASH else self._state
        if not self._stack or state in (FIRST_KEY, FIRST_ITEM):
            return False
        return state in (KEY, COLON, VALUE, COMMA) or (self._is_key and state in (STRING, ESCAPE))

    def leave(self, text: str) -> tuple[str, str]:
        """What leaves for `text`, and what is left of it."""
        out: list[str] = []
        i = self.feed(text, 0, out)
        return out[0] if len(out) == 1 else "".join(out), text[i:]

    def feed(self, s: str, i: int, out: list[str]) -> int:
        """Read `s` from index `i`; append what leaves to `out`; return the index behind what was read.

        The index is below `len(s)` when the value is done, or when `stuck`: at this place stands a character that
        cannot belong to JSON and that the caller may know (a closing tag); `close` ends the value there.
        """
        # Only a piece that is read from its start: a long text is offered again and again.
        if not i and (said := self.run(s)) is not None:
            if said:
                out.append(said)
            return len(s)
        self._row = self.lane = None
        before = 0
        if self._state == ESCAPE:  # read the escape again, with more behind it
            held = "".join(self._held)
            before = i - len(held)
            s, i, self._state, self._held = held + s[i:], 0, STRING, []
        n = len(s)
        self._easy = not i and "\\" not in s and s.isprintable()
        if self._easy and self._state == STRING and '"' not in s and self._quote == '"':
            out.append(s)
            return n
        reads = self.reads
        mark = i  # s[mark:i] is read and leaves as it is
        self.stuck = False
        while i < n and not self.stuck:
            state = self._state
            if state < STRING and s[i] in SPACE:
                i = WHITE.match(s, i).end()  # type: ignore[union-attr]
                if i == n and state != COMMA:
                    break
            if state > DONE:
                i, self._state = self._loose(s, i, state, out)
                mark = i
            elif state == DONE:
                break
            else:
                i, mark = reads[state](self, s, i, mark, out)
        if i > mark:
            out.append(s[mark:i])
        if self._state == DONE:
            self.done = self.settled = True
        return i + before

    # -- outside of strings and words: the next character is no white space ----------------------------------------

    def _value(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """A value is expected."""
        c = s[i]
        if c == '"' or c == "'":
            return self._open_string(s, i, mark, out)
        if c == "{":
            self._stack.append("{")
            self._objects += 1
            self._state = FIRST_KEY
            return i + 1, mark
        if c == "[":
            self._stack.append("[")
            self._state = FIRST_ITEM
            return i + 1, mark
        if c == "/" and self._stack:
            return self._comment_at(s, i, mark, out)
        if c not in "]},:<>;":
            return self._open_word(s, i, mark, out)
        if c == "]" and self._state == FIRST_ITEM:
            self._state = AFTER
        elif c == ">" and self._held == ["="]:
            out.append(s[mark:i])
            self._held = []
            return i + 1, i + 1
        elif not self._stack or c in "<>;":
            self.stuck = True
        elif c == ":" or (c == "," and self._stack[-1] == "["):
            out.append(s[mark:i])
            self.repaired = True
            return i + 1, i + 1
        else:
            out.append(s[mark:i] + "null")
            self.repaired = True
            self._state = AFTER
            return i, i
        return i, mark

    def _open_string(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        c = s[i]
        if c == "'":
            out.append(s[mark:i] + '"')
            mark = i + 1
            self.repaired = True
        i += 1
        self._quote = c
        self._is_key = self._state in (KEY, FIRST_KEY)
        self._state = STRING
        if not self._is_key and (i == len(s) or s[i] == c) and self._stack:
            out.append(s[mark:i])
            mark = i
            self._state = OPENED
        return i, mark

    def _open_word(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        self._held = []
        is_key = self._state in (KEY, FIRST_KEY)
        if not is_key and s[i] in "-0123456789" and self._stack:
            number = NUMBER_THERE.match(s, i)
            if number is not None:
                self._state = AFTER
                return number.end(), mark
        if i > mark:
            out.append(s[mark:i])
        self._is_key = is_key
        self._state = WORD
        return i, i

    def _comment_at(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        out.append(s[mark:i])
        self._state = self._begin_comment(s[i], self._state)
        return i + 1, i + 1

    def _key(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """A key is expected, or the object's end."""
        c = s[i]
        if c == '"' or c == "'":
            return self._open_string(s, i, mark, out)
        if c == "}":
            if self._state == KEY:  # `{"a":1,:}`: the comma has left
                out.append(s[mark:i] + '"":null')
                mark = i
                self.repaired = True
            self._state = AFTER
        elif c in ",:" or (c == "{" and self._state == FIRST_KEY):  # `{{`: braces doubled as for a template
            out.append(s[mark:i])
            self.repaired = True
            return i + 1, i + 1
        elif c == "/" or c == "#":
            return self._comment_at(s, i, mark, out)
        elif c in "]{[<>;":
            self.stuck = True
        else:
            return self._open_word(s, i, mark, out)
        return i, mark

    def _colon(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        c = s[i]
        if c == "<":
            self.stuck = True
            return i, mark
        if c == ":":
            i += 1
        elif c == "=":
            out.append(s[mark:i] + ":")
            self._held = [c]  # `>` may follow
            i += 1
            mark = i
            self.repaired = True
        else:
            missing = c in ",}]"
            out.append(s[mark:i] + (":null" if missing else ":"))
            mark = i
            self.repaired = True
            self.doubtful = not self.settled
            if missing:
                self._state = AFTER
                return i, mark
        self._state = VALUE
        if not self.settled:
            self.settled = not self.doubtful
        return i, mark

    def _after(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """Behind a value in a container."""
        c = s[i]
        if c == ",":
            return self._comma_at(s, i, mark, out)
        if c in "}]":
            return self._bracket(s, i, mark, out)
        if c.isalnum() or c in "\"'{[_+-.$":
            out.append(s[mark:i] + ",")
            self.repaired = True
            self._state = KEY if self._stack[-1] == "{" else VALUE
            return i, i
        if c == "/" or c == "#":
            return self._comment_at(s, i, mark, out)
        self.stuck = True
        return i, mark

    def _comma_at(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        j, n = i + 1, len(s)
        if j < n and s[j] in SPACE:
            j = WHITE.match(s, j).end()  # type: ignore[union-attr]
        if j == n or s[j] in "/#":
            if i > mark:
                out.append(s[mark:i])
            self._held = [s[i:j]]
            self._state = COMMA
            return j, j
        if s[j] in "}],<":
            out.append(s[mark:i])
            self.repaired = True
            if s[j] == ",":
                self._held = []
                # The next comma stands for both.
            return j, j
        self._state = KEY if self._stack[-1] == "{" else VALUE
        return j, mark

    def _bracket(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """A closing bracket behind a value: of this container, of one further out, or of none."""
        wanted = "{" if s[i] == "}" else "["
        objects, depth = self._objects, len(self._stack)
        if self._stack[-1] == wanted:
            self._stack.pop()
            if wanted == "{":
                self._objects = objects - 1
        elif objects if wanted == "{" else depth > objects:
            out.append(s[mark:i])
            while self._stack[-1] != wanted:
                out.append("}" if self._stack.pop() == "{" else "]")
            self._stack.pop()
            self._objects = objects - 1 if wanted == "{" else objects - (depth - len(self._stack) - 1)
            mark = i
            self.repaired = True
        else:
            out.append(s[mark:i])
            mark = i + 1
            self.repaired = True
        if not self._stack:
            self._state = DONE
        return i + 1, mark

    def _comma(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """Behind a comma that is held."""
        if i == len(s):
            self._held.append(s[mark:])
            return i, i
        c = s[i]
        if c == "/" or (c == "#" and self._stack[-1] == "{"):
            self._held.append(s[mark:i])
            self._state = self._begin_comment(c, COMMA)
            return i + 1, i + 1
        if c == ",":
            self.repaired = True  # of several the last one stays
            self._held = [","]
            return i + 1, i + 1
        if c in "}]<":
            self.repaired = True
            self._held = []
            self._state = AFTER
            return i, i
        out.append("".join(self._held))
        self._held = []
        self._state = KEY if self._stack[-1] == "{" else VALUE
        return i, mark

    reads: ClassVar[dict[int, Callable[[Any, str, int, int, list[str]], tuple[int, int]]]] = {
        **TextReader.reads,
        VALUE: _value,
        FIRST_ITEM: _value,
        FIRST_KEY: _key,
        KEY: _key,
        COLON: _colon,
        AFTER: _after,
        COMMA: _comma,
    }
    """What reads on in each state, outside of comments and triple quotes."""

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self, out: list[str]) -> None:
        """End the value here: what is missing is added. Nothing happens when it is done."""
        if self.done:
            return
        self.repaired = True
        state = self._state
        if state > DONE:
            state = self._end_loose(state, out)
        held = "".join(self._held)
        self._held = []
        if state == WORD:
            state = self._end_word(out, held)
        elif state == QUOTE:
            out.append('"' + held[1:])
            state = self._after_string()
        elif state in (STRING, ESCAPE, WORDS):
            # A half escape at the very end is dropped: there is no telling what it would have been.
            out.append('"')
            state = self._after_string()
        if state == COLON:
            out.append(":null")
        elif state == VALUE:
            out.append("null")
        elif state == KEY:
            out.append('"":null')
        while self._stack:
            out.append("}" if self._stack.pop() == "{" else "]")
        self._state = DONE
        self.done = self.settled = True

    def release(self, out: list[str]) -> None:
        """Put out what is held, as far as JSON can begin with it: the text ended here and the value stays open."""
        held = "".join(self._held)
        if self._state > DONE:
            self._held = []  # nothing that JSON could begin with
        elif self._state == QUOTE:
            out.append('"' + held[1:])
        elif self._state == ESCAPE or (self._state == WORD and not self._is_key and BEGUN.fullmatch(held)):
            out.append(held)
        self._held = []
