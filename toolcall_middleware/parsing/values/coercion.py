"""Values of the types that a tool's schema asks for: `"2"` becomes `2` where no string may stand, but a number may.

JSON text of a call's arguments in, the same text out, whatever its cuts. A string is held to its end where the schema
admits none in its place; all else leaves as it comes. What the string holds leaves instead where it is JSON (or a
value as Python writes it) of a type that is admitted there; else the string leaves as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...json_schema.pointer import Scope
from ...json_schema.types import ALL, types_of
from .json_spelling import NUMBER, decode

_OUTSIDE = re.compile(r"[\"{}\[\],]")
_PLAIN = re.compile(r"(?:[^\"\\]++|\\.)*+", re.DOTALL)
_FLAT = re.compile(r"[^\"{}\[\]]*+(?:\"(?:[^\"\\]++|\\.)*+\"[^\"{}\[\]]*+)*+", re.DOTALL)
# The same of a piece that begins outside of a string or in one. It may end in a string, which is the group.
_FLAT_PIECE = re.compile(_FLAT.pattern + r"(\"(?:[^\"\\]++|\\.)*+)?", re.DOTALL)
_FLAT_INSIDE = re.compile(r"(?:[^\"\\]++|\\.)*+\"" + _FLAT_PIECE.pattern, re.DOTALL)
_INSIDE = re.compile(r"(?:[^\"\\]+|\\.)*", re.DOTALL)
_LITERALS = {
    "true": ("boolean", "true"), "false": ("boolean", "false"), "null": ("null", "null"),
    "True": ("boolean", "true"), "False": ("boolean", "false"), "None": ("null", "null"),
    "TRUE": ("boolean", "true"), "FALSE": ("boolean", "false"), "NULL": ("null", "null"),
}  # fmt: skip
# What Python writes otherwise than JSON. A string that does not end is the rest of the text.
_PYTHON = re.compile(
    r"\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|'(?P<text>(?:[^'\\]|\\.)*+)(?:'|\\?\Z)"
    r"|\b(?:True|False|None)\b|,(?=\s*+[\]}])",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\.|\"", re.DOTALL)
_MARKS = {"\\'": "'", '"': '\\"'}
_INSIDE_OF = frozenset({"properties", "items", "additionalProperties"})
_MAX_DEPTH = 64  # levels of values that are looked at
_MAX_ENCODED = 4  # strings in strings
_MAX_KEY = 1024  # characters
_MAX_OPTIONS = 64
_MAX_REFERENCES = 8
_MAX_PLACES = 4096  # look-ups for one call
_MAX_KNOWN = 256  # look-ups of one call that are remembered

Place = tuple[tuple[Any, Scope], ...] | None
"""The schemas one of which a value must fit; None where nothing is known of it."""


def needs_coercion(parameters: Mapping[str, Any]) -> bool:
    """Whether any parameter of the tool is such that a string could be another value's."""
    places = _expanded(parameters, Scope.of(parameters), 0)
    if places is None:
        return False
    for schema, scope in places:
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        values = list(properties.values()) if isinstance(properties, Mapping) else []
        extra = schema.get("additionalProperties") if isinstance(schema, Mapping) else None
        values += [extra] if isinstance(extra, Mapping) else []
        if any("string" not in types_of(value, scope) or _says_more(value, scope) for value in values):
            return True
    return False


def _says_more(schema: Any, scope: Scope) -> bool:
    """Whether something is declared of what stands inside of a value."""
    options = _expanded(schema, scope, 0) or ()
    return any(isinstance(option, Mapping) and not _INSIDE_OF.isdisjoint(option) for option, _ in options)


class Coercion:
    """The arguments of one call of a tool with the schema `parameters`.

    place: what may stand at the root instead, where the text is a value inside of `encoded` strings.
    `feed` takes a piece and gives what may leave; `finish` gives the rest of a text that broke off. `coerced`: a value
    was given another type; `path`: of the first, such as `days` or `tags[0]`.
    """

    def __init__(self, parameters: Mapping[str, Any], *, place: Place = None, encoded: int = 0) -> None:
        self._root: Place = ((parameters, Scope.of(parameters)),) if place is None else place
        self._encoded = encoded
        self.coerced = False
        self.path = ""
        self._stack: list[_Frame] = []
        self._held: list[str] | None = None  # a string that may be another value's
        self._place: Place = None  # what may stand in the place of that string
        self._key: list[str] | None = None  # an object's key that is being read
        self._key_size = 0
        self._in_string = False
        self._escaped = False
        self._unknown = 0  # levels of values that are open and of which nothing is known: they pass
        self._places = 0
        # What was looked up, as rows of a table ask for the same again and again. Each entry keeps the place whose
        # identity is its key.
        self._known: dict[tuple[int, str | None], tuple[Place, Place]] = {}

    def feed(self, text: str) -> str:
        """The next piece; what may leave."""
        # Most pieces bring nothing to look at: the middle of a long string, or of values of which nothing is known.
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
        """The text ends here: what is held leaves as it was written."""
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
        if place is None or "string" in _types(place):
            out.append('"')
        else:
            self._held, self._place = ['"'], place
        return end

    def _skip(self, text: str, at: int, out: list[str]) -> int:
        """Pass over values of which nothing is known, up to their next bracket or unfinished string."""
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
            read = _reading(held, self._place, self._encoded)
            if read is not None and not self.coerced:
                self.coerced, self.path = True, self._path()
            out.append(held if read is None else read)

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
        """What is known of the value that begins."""
        if not self._stack:
            return self._root
        frame = self._stack[-1]
        if len(self._stack) > _MAX_DEPTH or (frame.is_object and frame.key is None):
            return None
        return self._inner(frame, frame.key if frame.is_object else None)

    def _inner(self, frame: _Frame, key: str | None) -> Place:
        asked = id(frame.place), key
        if asked in self._known:
            return self._known[asked][1]
        self._places += 1
        place = None if self._places > _MAX_PLACES else _inner(frame.place, key)
        if len(self._known) < _MAX_KNOWN:
            self._known[asked] = frame.place, place
        return place

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


def _types(place: Place) -> frozenset[str]:
    if place is None:
        return ALL
    return frozenset().union(*(types_of(schema, scope) for schema, scope in place))


def _inner(place: Place, key: str | None) -> Place:
    """What is known of the value of `key` in an object, or of an array's items."""
    found: list[tuple[Any, Scope]] = []
    for schema, scope in place or ():
        options = _expanded(schema, scope, 0)
        if options is None:
            return None
        for option, at in options:
            kinds = types_of(option, at)
            if ("array" if key is None else "object") not in kinds:
                continue
            value = _items(option) if key is None else _property(option, key)
            if value is None:
                return None
            found.append((value, at))
    return tuple(found[:_MAX_OPTIONS]) or None


def _items(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or "prefixItems" in schema:
        return None
    items = schema.get("items")
    return items if isinstance(items, Mapping) else None


def _property(schema: Any, key: str) -> Any:
    if not isinstance(schema, Mapping) or "patternProperties" in schema or "allOf" in schema:
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        value = properties[key]
    else:
        value = schema.get("additionalProperties")
    return value if isinstance(value, Mapping) else None


def _expanded(schema: Any, scope: Scope, depth: int) -> Place:
    """The schemas behind references and alternatives; None where that is not plain."""
    if not isinstance(schema, Mapping) or depth > _MAX_REFERENCES:
        return None
    scope = scope.enter(schema)
    if "properties" in schema or "items" in schema:
        return None if {"$ref", "anyOf", "oneOf", "allOf"} & schema.keys() else ((schema, scope),)
    if "$ref" in schema:
        target = scope.find(schema["$ref"])
        return None if target is None else _expanded(target.schema, target.scope, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            found: list[tuple[Any, Scope]] = []
            for option in options[:_MAX_OPTIONS]:
                places = _expanded(option, scope, depth + 1)
                if places is None or len(found) > _MAX_OPTIONS:
                    return None
                found += places
            return tuple(found)
    options = schema.get("allOf")
    if isinstance(options, list):
        return _expanded(options[0], scope, depth + 1) if len(options) == 1 else None
    return ((schema, scope),)


# -- readings --------------------------------------------------------------------------------------------------------


def _decoded(text: str) -> str | None:
    try:
        value = decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _reading(written: str, place: Place, encoded: int) -> str | None:
    """The JSON that a string's text stands for, where its type is one that is admitted; None where it is none."""
    text = _decoded(written)
    if text is None:
        return None
    types, bare = _types(place), text.strip()
    if bare in _LITERALS:
        kind, literal = _LITERALS[bare]
        return literal if kind in types else None
    if "number" in types and NUMBER.fullmatch(bare) and len(bare) <= _MAX_KEY:
        whole = "." not in bare and "e" not in bare.lower()
        return bare if whole or _admits_fractions(place) else None
    kind = "object" if bare.startswith("{") else "array" if bare.startswith("[") else ""
    if kind not in types or encoded >= _MAX_ENCODED:
        return None
    found = bare if _is_json(bare) else _of_python(bare)
    if found is None:
        return None
    inner = Coercion({}, place=place, encoded=encoded + 1)
    return inner.feed(found) + inner.finish()


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _of_python(text: str) -> str | None:
    """The JSON of a list or dict that `text` is as Python writes it; None where it is none."""
    made = _PYTHON.sub(_as_json, text)
    return made if _is_json(made) else None


def _as_json(token: re.Match[str]) -> str:
    if (text := token["text"]) is not None:
        return '"' + _ESCAPED.sub(lambda mark: _MARKS.get(mark.group(), mark.group()), text) + '"'
    word = token.group()
    return "" if word == "," else _LITERALS[word][1] if word in _LITERALS else word


def _admits_fractions(place: Place) -> bool:
    """Whether a number that is no integer may stand there."""
    for schema, scope in place or ():
        options = _expanded(schema, scope, 0)
        if options is None or any(_says_number(option) for option, _ in options):
            return True
    return False


def _says_number(schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind == "number" or (isinstance(kind, list) and "number" in kind) or not isinstance(kind, str | list)
