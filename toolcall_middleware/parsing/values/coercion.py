"""Converts strings to the types that a tool's schema asks for: `"2"` becomes `2` for a number.

The input is JSON text of a call's arguments; the output does not depend on how it is cut. A string is held to its end
where the schema admits no string, or only the values of an enum; all else is emitted as it arrives. The value that the
string means there (`Places.reading`) is emitted in its place, or the string as written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .json_reader import decode
from .typing import Place, Places

_OUTSIDE = re.compile(r"[\"{}\[\],]")
_PLAIN = re.compile(r"(?:[^\"\\]++|\\.)*+", re.DOTALL)
_FLAT = re.compile(r"[^\"{}\[\]]*+(?:\"(?:[^\"\\]++|\\.)*+\"[^\"{}\[\]]*+)*+", re.DOTALL)
# The same of a piece that begins outside of a string or in one. It may end in a string, which is the group.
_FLAT_PIECE = re.compile(_FLAT.pattern + r"(\"(?:[^\"\\]++|\\.)*+)?", re.DOTALL)
_FLAT_INSIDE = re.compile(r"(?:[^\"\\]++|\\.)*+\"" + _FLAT_PIECE.pattern, re.DOTALL)
_INSIDE = re.compile(r"(?:[^\"\\]+|\\.)*", re.DOTALL)
_MAX_DEPTH = 64  # levels of values that are looked at
_MAX_ENCODED = 4  # strings in strings
_MAX_KEY = 1024  # characters


class Coercion:
    """The arguments of one call of a tool with the schema `parameters`.

    place: that of the text, where it is a value inside of `encoded` strings.
    `feed` takes a piece and returns text to emit; `finish` returns the rest of a text that broke off. `coerced`: a
    value was given another type; `path`: the path of the first such value, as `days` or `tags[0]`.
    """

    def __init__(self, parameters: Mapping[str, Any] | Places, place: Place = None, *, encoded: int = 0) -> None:
        self._places = parameters if isinstance(parameters, Places) else Places(parameters)
        self._root = self._places.root if place is None else place
        self._encoded = encoded
        self.coerced = False
        self.path = ""
        self._stack: list[_Frame] = []
        self._held: list[str] | None = None  # a string that may be converted
        self._place: Place = None  # the schemas that apply to that string
        self._key: list[str] | None = None  # an object's key that is being read
        self._key_size = 0
        self._in_string = False
        self._escaped = False
        self._unknown = 0  # open levels of values without a known schema: they are emitted unchanged

    def feed(self, text: str) -> str:
        """Take the next piece; returns the text to emit."""
        # Most pieces need no work: the middle of a long string, or of values without a known schema.
        inside = self._in_string
        if inside and '"' not in text and ("\\" not in text or _PLAIN.fullmatch(text)):
            if self._held is None and self._key is None and not self._escaped:
                return text
        elif self._unknown:
            found = (_FLAT_INSIDE if inside else _FLAT_PIECE).fullmatch(text)
            if found is not None and not self._escaped:
                self._in_string = found.lastindex is not None
                return text
        elif not inside and _OUTSIDE.search(text) is None:
            return text
        out: list[str] = []
        at, size = 0, len(text)
        while at < size:
            at = self._string(text, at, out) if self._in_string else self._structure(text, at, out)
        return "".join(out)

    def finish(self) -> str:
        """End the text; returns what is held, as written."""
        held, self._held = self._held, None
        return "".join(held or ())

    # -- text ----------------------------------------------------------------------------------------------------

    def _structure(self, text: str, at: int, out: list[str]) -> int:
        if self._unknown:
            return self._skip(text, at, out)
        found = _OUTSIDE.search(text, at)
        if found is None:
            out.append(text[at:])
            return len(text)
        char, end = found.group(), found.end()
        if char != '"':
            out.append(text[at:end])
            self._bracket(char)
            return end
        out.append(text[at : end - 1])
        self._in_string = True
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.wants_key:
            self._key, self._key_size = [], 0
            frame.wants_key = False
            out.append('"')
            return end
        place = self._next_place()
        if self._places.is_open(place):
            out.append('"')
        else:
            self._held, self._place = ['"'], place
        return end

    def _skip(self, text: str, at: int, out: list[str]) -> int:
        """Skip values without a known schema, up to their next bracket or unfinished string."""
        found = _FLAT.match(text, at)
        end = at if found is None else found.end()
        if end < len(text):
            char = text[end]
            end += 1
            if char == '"':
                self._in_string = True
            else:
                self._unknown += 1 if char in "{[" else -1
        out.append(text[at:end])
        return end

    def _string(self, text: str, at: int, out: list[str]) -> int:
        begin = at
        if self._escaped:
            self._escaped = False
            at += 1
        found = _INSIDE.match(text, at)
        at = at if found is None else found.end()
        if at < len(text) and text[at] == "\\":  # the last character
            self._escaped = True
            at += 1
        closed = at < len(text)
        at += closed
        piece = text[begin:at]
        if self._held is not None:
            self._held.append(piece)
        else:
            out.append(piece)
            if self._key is not None and self._key_size <= _MAX_KEY:
                self._key.append(piece)
                self._key_size += len(piece)
        if closed:
            self._close_string(out)
        return at

    def _close_string(self, out: list[str]) -> None:
        self._in_string = False
        if self._key is not None:
            key, self._key = '"' + "".join(self._key), None
            self._stack[-1].key = _decoded(key) if self._key_size <= _MAX_KEY else None
        elif self._held is not None:
            held, self._held = "".join(self._held), None
            read = self._reading(held)
            if read is not None and not self.coerced:
                self.coerced, self.path = True, self._path()
            out.append(held if read is None else read)

    def _reading(self, held: str) -> str | None:
        """The value that a held string means; None where it stays a string."""
        text = _decoded(held)
        read = None if text is None else self._places.reading(text, self._place)
        if read is None or read[0] not in "{[":
            return read
        if self._encoded >= _MAX_ENCODED:
            return None
        inner = Coercion(self._places, self._place, encoded=self._encoded + 1)
        return inner.feed(read) + inner.finish()

    def _bracket(self, char: str) -> None:
        stack = self._stack
        if char in "{[":
            place = self._next_place()
            if place is None:
                self._unknown = 1
            else:
                stack.append(_Frame(is_object=char == "{", place=place))
        elif char == ",":
            if stack:
                stack[-1].next()
        elif stack:
            stack.pop()

    # -- the schema ----------------------------------------------------------------------------------------------

    def _next_place(self) -> Place:
        """The schemas of the value that begins."""
        if not self._stack:
            return self._root
        frame = self._stack[-1]
        if len(self._stack) > _MAX_DEPTH or (frame.is_object and frame.key is None):
            return None
        return self._places.inner(frame.place, frame.key if frame.is_object else None)

    def _path(self) -> str:
        steps = (f".{frame.key}" if frame.is_object else f"[{frame.index}]" for frame in self._stack)
        return "".join(steps).removeprefix(".")


class _Frame:
    """An object or array that is open."""

    __slots__ = ("index", "is_object", "key", "place", "wants_key")

    def __init__(self, *, is_object: bool, place: Place) -> None:
        self.is_object = is_object
        self.place = place
        self.wants_key = is_object
        self.key: str | None = None
        self.index = 0

    def next(self) -> None:
        """A comma."""
        self.wants_key = self.is_object
        self.index += 1


def _decoded(text: str) -> str | None:
    try:
        value = decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None
