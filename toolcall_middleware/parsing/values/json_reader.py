"""Copies one JSON value out of a text that arrives in pieces, and repairs it on the way.

What is valid JSON (RFC 8259) comes out as it was written, to the character: white space, number spelling, key order
and escapes included. What is not is repaired by the rules below, so that the copy is always valid JSON once `done`:

- `'…'` strings and unquoted keys or words become `"…"`; Python's and JavaScript's True, None, undefined, NaN … become
  JSON's literals; other spellings of numbers (`+1`, `.5`, `0x10`, `1_000`) become JSON numbers;
- a raw control character in a string is escaped, an unknown escape keeps its backslash as data, an unescaped quote
  inside a string (the next character could not follow a string's end) is escaped;
- comments are dropped, and a string in triple quotes becomes one (json_extensions.py);
- a trailing, doubled or missing comma, a missing colon, value, quote or closing bracket is dropped or added.

This is the only place in the package where JSON is repaired. It works in linear time and never raises. Beyond what it
must see to decide (a comma waits for the next character, a number for its end, an escape for its last digit), it
holds nothing back.
"""

from __future__ import annotations

from ..patterns import WHITE_SPACE
from .json_extensions import Comments, TripleQuotes
from .json_spelling import BEGUN, LITERALS
from .json_states import (
    AFTER,
    BACKSLASH,
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
    Position,
)
from .json_strings import SPACE, Strings, end_word, read_word, read_words
from .json_structure import Structure
from .json_table import CleanJson


class JsonReader:
    """Reads one value. `feed` until `done`; `close` to end it early.

    A state machine: each part reads the states that are its own, and all move one `Position`.
    """

    tail = ""
    __slots__ = ("_at", "_comments", "_strings", "_structure", "_table", "_triple_quotes", "done", "run")

    def __init__(self, ends: tuple[str, ...] = ()) -> None:
        """ends: markers that end a call, also in a comment behind a value that nobody closed."""
        at = self._at = Position()
        comments = self._comments = Comments(at, ends)
        self._structure = Structure(at, comments)
        self._strings = Strings(at, comments)
        self._triple_quotes = TripleQuotes(at)
        self._table = CleanJson(at)
        self.run = self._table.read
        """See `ArgumentsReader.run`."""
        self.done = False
        """The value is complete, and what was put out is valid JSON."""

    @property
    def repaired(self) -> bool:
        """Something was no JSON as it was written."""
        return self._at.repaired

    @property
    def stuck(self) -> bool:
        """The last piece was read up to a character that cannot belong to JSON: see `feed`."""
        return self._at.stuck

    @property
    def settled(self) -> bool:
        """Enough was seen to say that this is meant as JSON: a first key with its colon, or the end."""
        return self._at.settled

    @property
    def doubtful(self) -> bool:
        """A key had no colon before anything was settled."""
        return self._at.doubtful

    @property
    def in_string(self) -> bool:
        """Whether the next character is inside a string, where nothing is markup."""
        state = self._at.state
        return state in (STRING, ESCAPE) or OPENED <= state <= BACKSLASH

    @property
    def wants_string(self) -> bool:
        """Whether a quote could open a string here, or close one that a bare quote opened."""
        state = self._at.state
        return state in (VALUE, FIRST_ITEM, FIRST_KEY, KEY, COMMA, STRING) or state > DONE

    @property
    def depth(self) -> int:
        """How many containers are open."""
        return len(self._at.stack)

    @property
    def cut(self) -> bool:
        """Whether more than closing brackets is missing: the text stops in a string, a number or a word, or before a
        value. A literal that is complete is a value.
        """
        at = self._at
        state = self._comments.back if at.state >= SLASH else at.state
        if state > DONE:
            return not self._triple_quotes.is_over(state)
        if state == WORD:
            return at.is_key or (bool(at.stack) and "".join(at.held) not in LITERALS)
        return state not in (AFTER, QUOTE, DONE)

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands in the innermost container."""
        return self._at.state in (FIRST_KEY, FIRST_ITEM)

    def leave(self, text: str) -> tuple[str, str]:
        """What leaves for `text`, and what is left of it."""
        out: list[str] = []
        i = self.feed(text, 0, out)
        return out[0] if len(out) == 1 else "".join(out), text[i:]

    def feed(self, s: str, i: int, out: list[str]) -> int:
        """Read `s` from index `i`; append what leaves to `out`; return the index behind what was read.

        The index is below `len(s)` when the value is done, or when `stuck`: at this place stands a character that
        cannot belong to JSON and that the caller may know (a closing tag); `close` ends the value there. Or what
        stands there may become one of `ends`: then it is given again with more behind it.
        """
        # Only a piece that is read from its start: a long text is offered again and again.
        if not i and (said := self._table.read(s)) is not None:
            if said:
                out.append(said)
            return len(s)
        self._table.forget()
        at, strings = self._at, self._strings
        before = 0
        if at.state == ESCAPE:  # read the escape again, with more behind it
            held = at.take_held()
            before = i - len(held)
            s, i, at.state = held + s[i:], 0, STRING
        n = len(s)
        easy = strings.easy = not i and "\\" not in s and s.isprintable()
        if easy and at.state == STRING and '"' not in s and at.quote == '"':
            out.append(s)
            return n
        mark = i  # s[mark:i] is read and leaves as it is
        at.stuck = at.waits = False
        while i < n and not at.stuck and not at.waits:
            state = at.state
            if state < STRING:
                if s[i] in SPACE:
                    i = WHITE_SPACE.match(s, i).end()
                    if i == n and state != COMMA:
                        break
                i, mark = Structure.reads[state](self._structure, s, i, mark, out)
            elif state == STRING:
                i, mark = strings.read(s, i, mark, out)
            elif state == QUOTE:
                i, mark = strings.read_behind_quote(s, i, out)
            elif state == WORD:
                i, mark = read_word(at, s, i, out)
            elif state == WORDS:
                i, mark = read_words(at, s, i, mark, out)
            elif state == DONE:
                break
            else:
                part = self._comments if state >= SLASH else self._triple_quotes
                i, at.state = part.read(s, i, state, out)
                mark = i
        if i > mark:
            out.append(s[mark:i])
        if at.state == DONE:
            self.done = at.settled = True
        return i + before

    def close(self, out: list[str]) -> None:
        """End the value here: what is missing is added. Nothing happens when it is done."""
        if self.done:
            return
        at = self._at
        at.repaired = True
        state = at.state
        if state >= SLASH:
            state = self._comments.back
        elif state > DONE:
            state = self._triple_quotes.end(state, out)
        held = at.take_held()
        if state == WORD:
            state = end_word(at, out, held)
        elif state == QUOTE:
            out.append('"' + held[1:])
            state = at.after_string()
        elif state in (STRING, ESCAPE, WORDS):
            # A half escape at the very end is dropped: there is no telling what it would have been.
            out.append('"')
            state = at.after_string()
        if state == COLON:
            out.append(":null")
        elif state == VALUE:
            out.append("null")
        elif state == KEY:
            out.append('"":null')
        while at.stack:
            out.append("}" if at.stack.pop() == "{" else "]")
        at.state = DONE
        self.done = at.settled = True

    def release(self, out: list[str]) -> None:
        """Put out what is held, as far as JSON can begin with it: the text ended here and the value stays open."""
        at = self._at
        held = at.take_held()
        if at.state > DONE:
            return  # nothing that JSON could begin with
        if at.state == QUOTE:
            out.append('"' + held[1:])
        elif at.state == ESCAPE or (at.state == WORD and not at.is_key and BEGUN.fullmatch(held)):
            out.append(held)
