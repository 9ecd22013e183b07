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

import re

from .json_clean import (
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
)  # fmt: skip
from .json_loose import LooseReader
from .json_words import BEGUN, CONTROL, ESCAPES, LITERALS, NUMBER, NUMBER_THERE, mend_number, quoted

_SPACE = " \t\r\n"
_SIMPLE = '"\\/bfnrt'  # escapes of one character
_WS = re.compile(r"[ \t\r\n]*")
_IN_DOUBLE = re.compile(r'[^"\\\x00-\x1f]*')
_IN_SINGLE = re.compile(r"[^'\"\\\x00-\x1f]*")
_IN_WORDS = re.compile(r'[^,{}\[\]"\\\x00-\x1f<]*')
_TOKEN = re.compile(r"[^\s,:{}\[\]\"'<>;]*")
_HEX = re.compile(r"[0-9a-fA-F]{0,4}")

_ENDS_STRING = frozenset(",}]\"'<")


class JsonReader(LooseReader):
    """Reads one value. `feed` until `done`; `close` to end it early.

    done: the value is complete, and what was put out is valid JSON.
    repaired: something was mended.
    settled: enough was seen to say that this is meant as JSON: a first key with its colon, or the end.
    doubtful: a key had no colon before anything was settled.
    lane: what goes through as it is, where a whole piece just was in a string.
    """

    __slots__ = ("done", "doubtful")

    def __init__(self) -> None:
        super().__init__()
        self.done = False
        self.doubtful = False

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

    def feed(self, s: str, i: int, out: list[str]) -> int:  # noqa: C901, PLR0912, PLR0915 - one table of states
        """Read `s` from index `i`; append what leaves to `out`; return the index behind what was read.

        The index is below `len(s)` when the value is done, or when `stuck`: at this place stands a character that
        cannot belong to JSON and that the caller may know (a closing tag); `close` ends the value there.
        """
        state = self._state
        # Only a piece that is read from its start: a long text is offered again and again.
        if not i and (said := self.run(s)) is not None:
            if said:
                out.append(said)
            return len(s)
        self._row = self.lane = None
        before = 0
        if state == ESCAPE:  # read the escape again, with more behind it
            held = "".join(self._held)
            before = i - len(held)
            s, i, state, self._held = held + s[i:], 0, STRING, []
        n = len(s)
        easy = not i and "\\" not in s and s.isprintable()
        if easy and state == STRING and '"' not in s and self._quote == '"':
            out.append(s)
            return n
        mark = i  # s[mark:i] is read and leaves as it is
        self.stuck = False
        while i < n:
            if state == STRING:
                if easy and self._quote == '"':
                    i = s.find('"', i)
                    if i < 0:
                        i = n
                elif self._quote == '"':
                    i = _IN_DOUBLE.match(s, i).end()  # type: ignore[union-attr]
                elif self._quote == "'":
                    i = _IN_SINGLE.match(s, i).end()  # type: ignore[union-attr]
                if i == n:
                    break
                c = s[i]
                if c == "\\":
                    if i + 1 < n and s[i + 1] in _SIMPLE:
                        i += 2
                        continue
                    end, mended = self._escape(s, i)
                    if mended == "":
                        i = end
                        continue
                    if i > mark:
                        out.append(s[mark:i])
                    if mended is None:
                        state = ESCAPE
                        self._held = [s[i:]]
                        mark = i = n
                    else:
                        out.append(mended)
                        mark = i = end
                        self.repaired = True
                elif c == self._quote:
                    j = i + 1
                    if not self._is_key and self._stack:
                        if j < n and s[j] in _SPACE:
                            j = _WS.match(s, j).end()  # type: ignore[union-attr]
                        if j == n:
                            if i > mark:
                                out.append(s[mark:i])
                            self._held = [s[i:]]
                            mark = i = n
                            state = QUOTE
                            continue
                        if s[j] == "/" and j > i + 1:  # perhaps a comment
                            out.append(s[mark:i])
                            self._held = [s[i:j]]
                            self._back = QUOTE
                            state = SLASH
                            mark = i = j + 1
                            continue
                        if s[j] not in _ENDS_STRING and not (s[j] == "`" and "\n" in s[i:j]):
                            out.append(s[mark:i] + ('\\"' if c == '"' else "'"))
                            self.repaired = True
                            i += 1
                            mark = i
                            continue
                    if c != '"':
                        out.append(s[mark:i] + '"')
                        self.repaired = True
                        i += 1
                        mark = i
                    else:
                        i = j
                    if self._is_key:
                        state = COLON
                        if i < n and s[i] == ":":
                            i += 1
                            state = VALUE
                            self.settled = self.settled or not self.doubtful
                    elif self._stack:
                        state = AFTER
                    else:
                        state = DONE
                        break
                elif c == '"':
                    out.append(s[mark:i] + '\\"')
                    i += 1
                    mark = i
                else:
                    out.append(s[mark:i] + (CONTROL.get(c) or f"\\u{ord(c):04x}"))
                    self.repaired = True
                    i += 1
                    mark = i
                continue

            if state > STRING:  # something is held
                if state > DONE:
                    i, state = self._loose(s, i, state, out)
                    mark = i
                    if self.stuck:
                        break
                    continue

                if state == QUOTE:
                    j = _WS.match(s, i).end()  # type: ignore[union-attr]
                    if j == n:
                        self._held.append(s[i:])
                        mark = i = n
                        break
                    held = "".join(self._held)
                    if s[j] == "/" and (j > i or len(held) > 1):
                        self._held.append(s[i:j])
                        self._back = QUOTE
                        state = SLASH
                        mark = i = j + 1
                        continue
                    if s[j] in _ENDS_STRING or (s[j] == "`" and ("\n" in held or "\n" in s[i:j])):
                        self.repaired = self.repaired or self._quote != '"'
                        out.append('"' + held[1:])
                        state = AFTER
                    else:
                        self.repaired = True
                        out.append(('\\"' if self._quote == '"' else "'") + held[1:].translate(ESCAPES))
                        state = STRING
                    mark = i
                    if state == STRING:
                        continue
                    i = j
                    continue

                if state == WORD:
                    if s[i] not in ",]}":
                        j = _TOKEN.match(s, i).end()  # type: ignore[union-attr]
                        self._held.append(s[i:j])
                        mark = i = j
                        if j == n:
                            break
                    state = self._word(out, s[i])
                    if state == DONE:
                        break
                    continue

                if state == WORDS:
                    i = _IN_WORDS.match(s, i).end()  # type: ignore[union-attr]
                    if i > mark:
                        out.append(s[mark:i])
                        mark = i
                    if i == n:
                        break
                    c = s[i]
                    if c in '"\\':
                        out.append("\\" + c)
                        i += 1
                        mark = i
                    elif c < " " and c not in "\r\n":
                        out.append(CONTROL.get(c) or f"\\u{ord(c):04x}")
                        i += 1
                        mark = i
                    else:
                        out.append('"')
                        state = self._after_string()
                        if state == DONE:
                            break
                    continue

            # Everything below stands outside of strings and words.
            if s[i] in _SPACE:
                i += 1
                if i < n and s[i] in _SPACE:
                    i = _WS.match(s, i).end()  # type: ignore[union-attr]
            if state == COMMA:
                if i == n:
                    self._held.append(s[mark:])
                    mark = n
                    break
                c = s[i]
                if c == "/" or (c == "#" and self._stack[-1] == "{"):
                    self._held.append(s[mark:i])
                    state = self._begin_comment(c, state)
                    i += 1
                    mark = i
                    continue
                if c in "}]," or c == "<":
                    self.repaired = True  # a trailing or doubled comma is dropped
                    mark = i
                    state = AFTER if c != "," else COMMA
                    self._held = []
                    if c == ",":
                        i += 1
                        mark = i
                        self._held = [","]
                    continue
                out.append("".join(self._held))
                self._held = []
                state = KEY if self._stack[-1] == "{" else VALUE
            if i == n:
                break
            c = s[i]

            if state == AFTER:
                if c == ",":
                    j = i + 1
                    if j < n and s[j] in _SPACE:
                        j = _WS.match(s, j).end()  # type: ignore[union-attr]
                    if j == n or s[j] in "/#":
                        if i > mark:
                            out.append(s[mark:i])
                        self._held = [s[i:j]]
                        mark = i = j
                        state = COMMA
                    elif s[j] in "}],<":
                        out.append(s[mark:i])
                        self.repaired = True
                        mark = i = j
                        if s[j] == ",":
                            self._held = []
                            # The next comma stands for both.
                    else:
                        i = j
                        state = KEY if self._stack[-1] == "{" else VALUE
                elif c in "}]":
                    wanted = "{" if c == "}" else "["
                    objects, depth = self._objects, len(self._stack)
                    if self._stack[-1] == wanted:
                        i += 1
                        self._stack.pop()
                        if c == "}":
                            self._objects = objects - 1
                    elif objects if wanted == "{" else depth > objects:
                        out.append(s[mark:i])
                        while self._stack[-1] != wanted:
                            out.append("}" if self._stack.pop() == "{" else "]")
                        self._stack.pop()
                        self._objects = objects - 1 if wanted == "{" else objects - (depth - len(self._stack) - 1)
                        mark = i
                        i += 1
                        self.repaired = True
                    else:
                        out.append(s[mark:i])
                        i += 1
                        mark = i
                        self.repaired = True
                        continue
                    if not self._stack:
                        state = DONE
                        break
                elif c.isalnum() or c in "\"'{[_+-.$":
                    out.append(s[mark:i] + ",")
                    mark = i
                    self.repaired = True
                    state = KEY if self._stack[-1] == "{" else VALUE
                elif c == "/" or c == "#":
                    out.append(s[mark:i])
                    i += 1
                    mark = i
                    state = self._begin_comment(c, state)
                else:
                    self.stuck = True
                    break
                continue

            if state == COLON:
                if c == ":":
                    i += 1
                elif c == "=":
                    out.append(s[mark:i] + ":")
                    self._held = [c]  # `>` may follow
                    i += 1
                    mark = i
                    self.repaired = True
                elif c in ",}]":
                    out.append(s[mark:i] + ":null")
                    mark = i
                    self.repaired = True
                    self.doubtful = not self.settled
                    state = AFTER
                    continue
                elif c == "<":
                    self.stuck = True
                    break
                else:
                    out.append(s[mark:i] + ":")
                    mark = i
                    self.repaired = True
                    self.doubtful = not self.settled
                state = VALUE
                if not self.settled:
                    self.settled = not self.doubtful
                continue

            if state == KEY or state == FIRST_KEY:
                if c == '"' or c == "'":
                    if c == "'":
                        out.append(s[mark:i] + '"')
                        mark = i + 1
                        self.repaired = True
                    i += 1
                    self._quote = c
                    self._is_key = True
                    state = STRING
                elif c == "}":
                    if state == KEY:  # `{"a":1,:}`: the comma has left
                        out.append(s[mark:i] + '"":null')
                        mark = i
                        self.repaired = True
                    state = AFTER
                elif c in ",:":
                    out.append(s[mark:i])
                    i += 1
                    mark = i
                    self.repaired = True
                elif c == "{" and state == FIRST_KEY:
                    out.append(s[mark:i])  # `{{`: braces doubled as for a template
                    i += 1
                    mark = i
                    self.repaired = True
                elif c == "/" or c == "#":
                    out.append(s[mark:i])
                    i += 1
                    mark = i
                    state = self._begin_comment(c, state)
                elif c in "]{[<>;":
                    self.stuck = True
                    break
                else:
                    if i > mark:
                        out.append(s[mark:i])
                    mark = i
                    self._held = []
                    self._is_key = True
                    state = WORD
                continue

            # A value is expected.
            if c == '"' or c == "'":
                if c == "'":
                    out.append(s[mark:i] + '"')
                    mark = i + 1
                    self.repaired = True
                i += 1
                self._quote = c
                self._is_key = False
                state = STRING
                if (i == n or s[i] == c) and self._stack:
                    out.append(s[mark:i])
                    mark = i
                    state = OPENED
            elif c == "/" and self._stack:
                out.append(s[mark:i])
                i += 1
                mark = i
                state = self._begin_comment(c, state)
            elif c not in "{[]},:<>;":
                number = NUMBER_THERE.match(s, i) if c in "-0123456789" and self._stack else None
                self._held = []
                if number is not None:
                    i = number.end()
                    state = AFTER
                    continue
                if i > mark:
                    out.append(s[mark:i])
                mark = i
                self._is_key = False
                state = WORD
            elif c == "{":
                i += 1
                self._stack.append("{")
                self._objects += 1
                state = FIRST_KEY
            elif c == "[":
                i += 1
                self._stack.append("[")
                state = FIRST_ITEM
            elif c == "]" and state == FIRST_ITEM:
                state = AFTER
            elif c in "}]":
                if not self._stack:
                    self.stuck = True
                    break
                out.append(s[mark:i] + "null")
                mark = i
                self.repaired = True
                state = AFTER
            elif c in ",:":
                if not self._stack or (c == "," and self._stack[-1] == "{"):
                    if not self._stack:
                        self.stuck = True
                        break
                    out.append(s[mark:i] + "null")
                    mark = i
                    state = AFTER
                else:
                    out.append(s[mark:i])
                    i += 1
                    mark = i
                self.repaired = True
            elif c == ">" and self._held == ["="]:
                out.append(s[mark:i])
                self._held = []
                i += 1
                mark = i
            else:
                self.stuck = True
                break
        if i > mark:
            out.append(s[mark:i])
        self._state = state
        if state == DONE:
            self.done = self.settled = True
        return i + before

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

    def _after_string(self) -> int:
        if self._is_key:
            return COLON
        return AFTER if self._stack else DONE

    def _escape(self, s: str, i: int) -> tuple[int, str | None]:
        """The escape at `s[i]`: (index behind it, "" when it stays, its mended form, or None when it is cut off)."""
        if i + 1 >= len(s):
            return i, None
        c = s[i + 1]
        if c in '"\\/bfnrt':
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

    def _word(self, out: list[str], c: str) -> int:
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
