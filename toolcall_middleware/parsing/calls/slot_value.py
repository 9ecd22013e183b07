"""One value between tags: emits JSON for its text, and decides which tag ends it.

A string is emitted as it arrives, any other value when it is complete.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..cursor import Cursor, Undecided
from ..patterns import WHITE_SPACE
from ..values.json_reader import quoted
from ..values.typing import STRING, is_json, json_of
from .slot_layout import CDATA, MAX_TAG, Layout, follows

_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
_ENTITY = re.compile("|".join(_ENTITIES))
_ENTITY_PART = re.compile(r"&[a-z]{0,4}\Z")
_OR_NULL = frozenset({"string", "null"})
_LOOK = 64


def without_entities(text: str) -> str:
    """`text` with XML's entities decoded."""
    return _ENTITY.sub(lambda found: _ENTITIES[found.group()], text)


def name_of(layout: Layout, m: re.Match[str], group: str) -> str:
    """The name or key that a tag holds."""
    written = m.group(group).strip()
    return without_entities(written) if layout.entities else written


def declared_in(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The tool's parameters, where its schema says."""
    properties = (schema or {}).get("properties")
    return properties if isinstance(properties, Mapping) else {}


class SlotValue:
    """The values of a reader, one after another.

    streams: text is emitted as a JSON string whose first quote was emitted.
    lined: a newline has opened the value. nested: how many parameters' tags are open in its text.
    """

    __slots__ = (
        "_begun",
        "_crlf",
        "_held",
        "_last",
        "_layout",
        "_markup",
        "_newlines",
        "_parts",
        "_quoted",
        "_types",
        "_whole",
        "calls",
        "lined",
        "nested",
        "streams",
    )  # fmt: skip

    def __init__(self, layout: Layout, types: frozenset[str], kind: str | None, *, whole: bool) -> None:
        """types: the declared ones. kind: the type that the tag says. whole: the caller reads `text` at the end."""
        self._layout = layout
        # Said to be JSON where a string is declared: its quotes are markup.
        self._quoted = kind == "false" and types == STRING
        self._types = STRING if kind in {"true", "string"} else types
        self._newlines = layout.newlines and kind is None  # who writes the type writes the value as it is
        self._whole = whole
        self.streams = self._types == STRING and not self._quoted and not whole
        self._parts: list[str] = []
        self._held = ""  # text that may not belong to the value: a newline at its end, half an entity
        self._begun = False
        self.lined = False
        self._markup: bool | None = None  # whether the value begins with a tag
        self.nested = self.calls = 0
        self._crlf = False  # that newline has two characters
        self._last = ""

    def begin(self, s: str, i: int, *, last: bool) -> int:
        """The index after the newline that opens the value, if one does; -1 where more text is needed."""
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
        """Whether `s[k]` begins a line. start: where in `s` the value begins or goes on."""
        return (s[k - 1] if k > start else self._last) == "\n"

    def is_markup(self, more: str) -> bool:
        """Whether the value begins with a tag; `more` is text that was not taken yet."""
        if self._markup is None and (bare := more.lstrip()):
            self._markup = bare[0] == "<"
        return bool(self._markup)

    def pass_tag(self, s: str, k: int) -> int:
        """Count the tag at `s[k]`, which is part of the value's text. Returns the index after its first character."""
        layout = self._layout
        if layout.opens_value.match(s, k):
            self.nested += 1
        elif s.startswith(layout.opens_call, k):
            self.calls += 1
        elif self.nested and s.startswith(layout.value_close, k):
            self.nested -= 1
        elif self.calls and s.startswith(layout.call_close, k):
            self.calls -= 1
        return k + 1

    def take(self, text: str) -> str:
        """Take more of the value; returns the JSON to emit. A newline at its end is held back: it may be markup."""
        self._last = text[-1:] or self._last
        self.is_markup(text)
        text = self._held + text
        self._held = ""
        if self._layout.xml and "&" in text:
            m = _ENTITY_PART.search(text, max(0, len(text) - 5))
            self._held = text[m.start() :] if m else ""
            text = without_entities(text[: len(text) - len(self._held)])
        if not self._held:
            self._held = "\r\n" if text.endswith("\r\n") else text[-1:] if text.endswith(("\n", "\r")) else ""
            if self._held:
                text = text[: -len(self._held)]
        return self._say(text)

    def take_section(self, text: str, *, closed: bool) -> str:
        """Take more of the value, from a CDATA section: nothing in it is markup. closed: the section ends here."""
        self._held, held = "", self._held
        self.lined = self._crlf = closed and self._newlines
        return self._say(held + text)

    def end(self, *, closed: bool) -> str:
        """End the value, with or without its closing tag. Returns the JSON to emit, with the quote if it streams."""
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
        """The JSON to emit for `text` of the value."""
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

    def within(self, text: str) -> str | None:
        """See `Flow`."""
        return None if "<" in text else self.take(text)


class ValueEnd:
    """Decides which tag ends a value. `damaged`: that tag is not the value's closing tag as it should be.

    Each answer is an index to go on from where the tag ends the value, and -1 where it does not. Each raises Undecided.
    """

    __slots__ = ("c", "damaged", "declared", "layout", "own", "seen", "value")

    def __init__(
        self, c: Cursor, layout: Layout, value: SlotValue, key: str, declared: Mapping[str, Any], seen: set[str]
    ) -> None:
        """declared: the tool's parameters. seen: those that the call has had."""
        self.c, self.layout, self.value = c, layout, value
        self.declared, self.seen = declared, seen
        self.own = f"</{key}>"
        self.damaged = False

    def at(self, s: str, k: int, start: int) -> int:
        """The answer for the `<` at `s[k]`. start: where in `s` the value begins or goes on."""
        layout, rest = self.layout, s[k : k + MAX_TAG]
        if rest.startswith(layout.value_close):
            return self._closing(s, k + len(layout.value_close))
        if layout.xml and rest.startswith(CDATA):
            return k + len(CDATA)
        if not self.c.last and (layout.half_close.match(s, k) or (layout.xml and CDATA.startswith(rest))):
            raise Undecided
        if (end := self._odd_close(s, k, start)) >= 0:
            self.damaged = True
            return end
        if self._call_ends(s, k, start) or self._slot_begins(s, k, start):
            self.damaged = True
            return k
        return -1

    def _closing(self, s: str, k: int) -> int:
        """The answer for the value's own closing tag, which ends at `k`.

        Where tags in the value are open, it ends the value if another declared slot follows, or the end of all calls.
        """
        layout, last = self.layout, self.c.last
        if not self.value.nested:
            return layout.fits(s, k, last=last)
        j = WHITE_SPACE.match(s, k, k + MAX_TAG).end()
        m = layout.slot.match(s, j)
        if m is not None:
            key = name_of(layout, m, "key")
            return k if key in self.declared and key not in self.seen else -1
        if not last and layout.may_go_on(s, j):
            raise Undecided
        return k if self._all_over(s, j) else -1

    def _odd_close(self, s: str, k: int, start: int) -> int:
        """The answer for a closing tag such as `</parameter/>`, or one with the slot's key."""
        layout = self.layout
        m = layout.odd_close.match(s, k)
        if m is None and (not s.startswith(self.own, k) or self.value.is_markup(s[start:k])):
            return -1
        return layout.fits(s, k + len(self.own) if m is None else m.end(), last=self.c.last, doubled=False)

    def _all_over(self, s: str, k: int) -> bool:
        """Whether nothing but closing tags, the turn's end or the next call is at `k`."""
        layout, last = self.layout, self.c.last
        for tag in (layout.call_close, layout.close if layout.close != layout.call_close else ""):
            k = WHITE_SPACE.match(s, k, k + MAX_TAG).end()
            if tag and s.startswith(tag, k):
                k += len(tag)
            elif tag and not last and tag.startswith(s[k : k + _LOOK]):
                raise Undecided
            elif tag == layout.call_close and k < len(s):
                return False
        tags = (*layout.tails, *layout.opens_call, *layout.reopen)
        return follows(s, k, tags, (*layout.after_call, *layout.noise), last=last)

    def _call_ends(self, s: str, k: int, start: int) -> bool:
        """Whether the tag ends the call: the value's closing tag may be missing."""
        layout, value, last, rest = self.layout, self.value, self.c.last, s[k : k + MAX_TAG]
        for tag in layout.call_end_tags:
            if not rest.startswith(tag):
                if tag.startswith(rest) and not last:
                    raise Undecided
                continue
            if value.calls and tag == layout.call_close and not self._all_over(s, k):
                return False
            after = layout.tails if tag in layout.tails else (*layout.after_call, *layout.noise)
            ends = follows(s, k + len(tag), after, last=last)
            if ends or (tag == layout.call_close and not layout.close and value.own_line(s, k, start)):
                return True
        return False

    def _slot_begins(self, s: str, k: int, start: int) -> bool:
        """Whether the tag opens a declared slot, on its own line."""
        layout, value, last, rest = self.layout, self.value, self.c.last, s[k : k + MAX_TAG]
        if not last and any(head.startswith(rest) for head in layout.openings):
            raise Undecided  # where it opens no slot, it is one within the value: `nested`
        own_line = value.own_line(s, k, start)
        if value.lined and not own_line:
            return False
        m = layout.slot.match(s, k)
        if m is None:
            if not last and len(rest) < MAX_TAG and layout.slot_begun.fullmatch(rest):
                raise Undecided
            return False
        key = name_of(layout, m, "key")
        return key not in self.seen and (key in self.declared or (own_line and not self.declared))
