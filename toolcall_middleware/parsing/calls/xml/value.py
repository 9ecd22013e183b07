"""One value between tags, as JSON: a string leaves as it arrives, anything else when it is whole."""

from __future__ import annotations

import re

from ....json_schema.types import STRING
from ...values.json_spelling import quoted
from ...values.typed_text import is_json, json_of
from .syntax import TaggedSyntax

_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
_ENTITY = re.compile("|".join(_ENTITIES))
_ENTITY_PART = re.compile(r"&[a-z]{0,4}\Z")
_LOOK = 64
_OR_NULL = frozenset({"string", "null"})


def without_entities(text: str) -> str:
    """`text` with the characters that XML's entities stand for."""
    return _ENTITY.sub(lambda found: _ENTITIES[found.group()], text)


class TagValue:
    """The values of a reader, one after another. Reads on as `sink.ArgumentsReader` does, while one streams.

    streams: what is read leaves as a JSON string whose first quote has left.
    lined: a newline has opened the value. nested: how many parameters' tags are open in its text.
    """

    done = False
    tail = ""
    __slots__ = (
        "_begun", "_crlf", "_held", "_last", "_newlines", "_parts", "_quoted", "_syntax", "_types", "_whole",
        "lined", "nested", "streams",
    )  # fmt: skip

    def __init__(self, syntax: TaggedSyntax) -> None:
        self._syntax = syntax
        self.streams = False

    def open(self, types: frozenset[str], kind: str | None, *, whole: bool) -> None:
        """A value follows. types: those declared. kind: what its tag says. whole: its text is asked for at its end."""
        # Said to be JSON where a string is declared: its quotes are markup.
        self._quoted = kind == "false" and types == STRING
        self._types = STRING if kind in {"true", "string"} else types
        self._newlines = self._syntax.newlines and kind is None  # who writes the type writes the value as it is
        self._whole = whole
        self.streams = self._types == STRING and not self._quoted and not whole
        self._parts: list[str] = []
        self._held = ""  # what is not known to belong to the value: a newline at its end, half an entity
        self._begun = False
        self.lined = False
        self.nested = 0
        self._crlf = False  # that newline is of two characters
        self._last = ""

    def begin(self, s: str, i: int, *, last: bool) -> int:
        """The index behind the newline that opens the value, where one does; -1 while there is no telling."""
        if self._begun:
            return i
        if s[i] == "\r" and i + 1 == len(s) and not last:
            return -1
        self._begun = True
        start = i
        if self._newlines:
            self._crlf = s.startswith("\r\n", i)
            start += 2 if self._crlf else s[i] == "\n"
            self.lined = start > i
        self._last = "\n" if self.lined else ""
        return start

    def begin_untagged(self) -> None:
        """The value's opening tag is missing: what follows begins it, as it would begin a line."""
        self._begun = True
        self._last = "\n"

    def own_line(self, s: str, k: int, start: int) -> bool:
        """Whether what stands at `s[k]` begins a line. start: where in `s` the value begins or goes on."""
        return (s[k - 1] if k > start else self._last) == "\n"

    def pass_tag(self, s: str, k: int) -> int:
        """The tag that begins at `s[k]` belongs to the value's text; returns the index behind its first character."""
        if s.startswith(self._syntax.parameter_heads, k):
            self.nested += 1
        elif self.nested and s.startswith(self._syntax.value_close, k):
            self.nested -= 1
        return k + 1

    def take(self, text: str) -> str:
        """More of the value; returns what leaves. A newline at its end waits: it may be markup."""
        self._last = text[-1:] or self._last
        text = self._held + text
        self._held = ""
        if self._syntax.xml and "&" in text:
            m = _ENTITY_PART.search(text, max(0, len(text) - 5))
            self._held = text[m.start() :] if m else ""
            text = without_entities(text[: len(text) - len(self._held)])
        if not self._held:
            self._held = "\r\n" if text.endswith("\r\n") else text[-1:] if text.endswith(("\n", "\r")) else ""
            if self._held:
                text = text[: -len(self._held)]
        return self._say(text)

    def take_section(self, text: str, *, closed: bool) -> str:
        """More of the value, from a CDATA section: nothing in it is markup. closed: the section ends here."""
        self._held, held = "", self._held
        self.lined = self._crlf = closed and self._newlines
        return self._say(held + text)

    def end(self, *, closed: bool) -> str:
        """The value is over, by its closing tag or without. Returns what leaves, with the quote if it streams."""
        held, self._held = self._held, ""
        left = ""
        if held not in ("\n", "\r\n") or (closed and not self.lined):
            left = self._say(held)
        elif held == "\r\n" and closed and not self._crlf:
            left = self._say("\r")  # the line that opened the value ended without one
        return left + '"' if self.streams else left

    def text(self) -> str:
        """All of a value that does not stream, as it was written."""
        return "".join(self._parts)

    def json(self) -> str:
        """All of a value that does not stream, as JSON of a declared type."""
        text = self.text()
        return text.strip() if self._quoted and is_json(text, str) else json_of(text, self._types)

    def _say(self, text: str) -> str:
        """What leaves for `text` of the value."""
        if self.streams:
            return quoted(text)
        if text:
            self._parts.append(text)
            if self._types == _OR_NULL and not self._quoted and not self._whole:
                # A string as soon as it cannot be null.
                value = "".join(self._parts)
                if len(value) > _LOOK or not "null".startswith(value.strip()):
                    self.streams = True
                    return '"' + quoted(value)
        return ""

    # -- a value that goes on: see `ArgumentsReader` -----------------------------------------------------------------

    def run(self, text: str) -> str | None:
        """What leaves for more of the value; None where a tag may stand in it."""
        return self.take(text) if "<" not in text else None

    def leave(self, text: str) -> tuple[str, str]:
        """Where a tag may stand, the value may end: the reader of the tags reads it."""
        return "", text
