"""What stands between the strings and words of a JSON value: brackets, colons and commas, and where values begin.

A method for each state, as in `json_strings`; the next character is no white space.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..patterns import WHITE_SPACE
from .json_extensions import Comments
from .json_spelling import NUMBER_THERE
from .json_states import AFTER, COLON, COMMA, DONE, FIRST_ITEM, FIRST_KEY, KEY, OPENED, STRING, VALUE, WORD, Position
from .json_strings import SPACE


class Structure:
    """The part of a `JsonReader` that reads outside of strings and words, and adds or drops what is wrong there."""

    __slots__ = ("_at", "_comments")

    def __init__(self, at: Position, comments: Comments) -> None:
        self._at = at
        self._comments = comments

    def _value(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """A value is expected."""
        at = self._at
        c = s[i]
        if c == '"' or c == "'":
            return self._open_string(s, i, mark, out)
        if c == "{":
            at.stack.append("{")
            at.objects += 1
            at.state = FIRST_KEY
            return i + 1, mark
        if c == "[":
            at.stack.append("[")
            at.state = FIRST_ITEM
            return i + 1, mark
        if c == "/" and at.stack:
            return self._comment_at(s, i, mark, out)
        if c not in "]},:<>;":
            return self._open_word(s, i, mark, out)
        if c == "]" and at.state == FIRST_ITEM:
            at.state = AFTER
        elif c == ">" and at.held == ["="]:
            out.append(s[mark:i])
            at.held = []
            return i + 1, i + 1
        elif not at.stack or c in "<>;":
            at.stuck = True
        elif c == ":" or (c == "," and at.stack[-1] == "["):
            out.append(s[mark:i])
            at.repaired = True
            return i + 1, i + 1
        else:
            out.append(s[mark:i] + "null")
            at.repaired = True
            at.state = AFTER
            return i, i
        return i, mark

    def _open_string(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        at = self._at
        c = s[i]
        if c == "'":
            out.append(s[mark:i] + '"')
            mark = i + 1
            at.repaired = True
        i += 1
        at.quote = c
        at.is_key = at.state in (KEY, FIRST_KEY)
        at.state = STRING
        if not at.is_key and (i == len(s) or s[i] == c) and at.stack:
            out.append(s[mark:i])
            mark = i
            at.state = OPENED
        return i, mark

    def _open_word(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        at = self._at
        at.held = []
        is_key = at.state in (KEY, FIRST_KEY)
        if not is_key and s[i] in "-0123456789" and at.stack:
            number = NUMBER_THERE.match(s, i)
            if number is not None:
                at.state = AFTER
                return number.end(), mark
        if i > mark:
            out.append(s[mark:i])
        at.is_key = is_key
        at.state = WORD
        return i, i

    def _comment_at(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        at = self._at
        out.append(s[mark:i])
        at.state = self._comments.begin(s[i], at.state)
        return i + 1, i + 1

    def _key(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """A key is expected, or the object's end."""
        at = self._at
        c = s[i]
        if c == '"' or c == "'":
            return self._open_string(s, i, mark, out)
        if c == "}":
            if at.state == KEY:  # `{"a":1,:}`: the comma has left
                out.append(s[mark:i] + '"":null')
                mark = i
                at.repaired = True
            at.state = AFTER
        elif c in ",:" or (c == "{" and at.state == FIRST_KEY):  # `{{`: braces doubled as for a template
            out.append(s[mark:i])
            at.repaired = True
            return i + 1, i + 1
        elif c == "/" or c == "#":
            return self._comment_at(s, i, mark, out)
        elif c in "]{[<>;":
            at.stuck = True
        else:
            return self._open_word(s, i, mark, out)
        return i, mark

    def _colon(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        at = self._at
        c = s[i]
        if c == "<":
            at.stuck = True
            return i, mark
        if c == ":":
            i += 1
        elif c == "=":
            out.append(s[mark:i] + ":")
            at.held = [c]  # `>` may follow
            i += 1
            mark = i
            at.repaired = True
        else:
            missing = c in ",}]"
            out.append(s[mark:i] + (":null" if missing else ":"))
            mark = i
            at.repaired = True
            at.doubtful = not at.settled
            if missing:
                at.state = AFTER
                return i, mark
        at.state = VALUE
        if not at.settled:
            at.settled = not at.doubtful
        return i, mark

    def _after(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """Behind a value in a container."""
        at = self._at
        c = s[i]
        if c == ",":
            return self._comma_at(s, i, mark, out)
        if c in "}]":
            return self._bracket(s, i, mark, out)
        if (c.isalnum() or c in "\"'{[_+-.$") and not self._begins_no_key(c):
            out.append(s[mark:i] + ",")
            at.repaired = True
            at.state = at.after_comma()
            return i, i
        if c == "/" or c == "#":
            return self._comment_at(s, i, mark, out)
        at.stuck = True
        return i, mark

    def _begins_no_key(self, c: str) -> bool:
        """Whether a key was to come, and there is a container: the one at hand was to end before it."""
        return c in "{[" and self._at.stack[-1] == "{"

    def _comma_at(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        at = self._at
        j, n = i + 1, len(s)
        if j < n and s[j] in SPACE:
            j = WHITE_SPACE.match(s, j).end()
        if j == n or s[j] in "/#":
            if i > mark:
                out.append(s[mark:i])
            at.hold(s[i:j], COMMA)
            return j, j
        if s[j] in "}],<" or self._begins_no_key(s[j]):
            out.append(s[mark:i])
            at.repaired = True
            if s[j] == ",":
                at.held = []
                # The next comma stands for both.
            return j, j
        at.state = at.after_comma()
        return j, mark

    def _bracket(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """A closing bracket behind a value: of this container, of one further out, or of none."""
        at = self._at
        wanted = "{" if s[i] == "}" else "["
        objects, depth = at.objects, len(at.stack)
        if at.stack[-1] == wanted:
            at.stack.pop()
            if wanted == "{":
                at.objects = objects - 1
        elif objects if wanted == "{" else depth > objects:
            out.append(s[mark:i])
            while at.stack[-1] != wanted:
                out.append("}" if at.stack.pop() == "{" else "]")
            at.stack.pop()
            at.objects = objects - 1 if wanted == "{" else objects - (depth - len(at.stack) - 1)
            mark = i
            at.repaired = True
        else:
            out.append(s[mark:i])
            mark = i + 1
            at.repaired = True
        if not at.stack:
            at.state = DONE
        return i + 1, mark

    def _comma(self, s: str, i: int, mark: int, out: list[str]) -> tuple[int, int]:
        """Behind a comma that is held."""
        at = self._at
        if i == len(s):
            at.held.append(s[mark:])
            return i, i
        c = s[i]
        if c == "/" or (c == "#" and at.stack[-1] == "{"):
            at.held.append(s[mark:i])
            at.state = self._comments.begin(c, COMMA)
            return i + 1, i + 1
        if c == ",":
            at.repaired = True  # of several the last one stays
            at.held = [","]
            return i + 1, i + 1
        if c in "}]<" or self._begins_no_key(c):
            at.repaired = True
            at.held = []
            at.state = AFTER
            return i, i
        out.append(at.take_held())
        at.state = at.after_comma()
        return i, mark

    reads: ClassVar[dict[int, Callable[[Any, str, int, int, list[str]], tuple[int, int]]]] = {
        VALUE: _value,
        FIRST_ITEM: _value,
        FIRST_KEY: _key,
        KEY: _key,
        COLON: _colon,
        AFTER: _after,
        COMMA: _comma,
    }
    """What reads on in each state."""
