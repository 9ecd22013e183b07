"""The values that a schema admits at a place, and the JSON that a text means there.

One rule for JSON strings, tags, and words in Python's and Gemma's notation. A string that is declared stays the text it
is. Where other types are declared, text that reads as one of them becomes it: `none`, `nil` and the empty string are
null, `+5`, `007`, `1_000` and `0x10` are numbers, `{a: 1}` is an object. A JSON string that holds such a text is
opened. Text that fits none of the types stays a string. Text without a declaration is read as JSON, and is a string
where it is not.

In notations that quote their strings an unquoted word is a literal: None is null whatever is declared, and a number is
a string only where nothing but strings is declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from ...json_schema.pointer import Scope
from .json_reader import NUMBER, WORDS, JsonReader, decode, decoded, quoted, repaired_number

ALL = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
"""The JSON types. A schema that admits any number has `integer` beside `number`."""
STRING = frozenset({"string"})
_NUMBERS = frozenset({"number", "integer"})
_LITERALS = frozenset({"boolean", "null"}) | _NUMBERS
_ANY = ALL - {"number"}
_MAX_NUMBER = 1024  # characters
_MAX_ENCODED = 4  # strings in strings
_MAX_OPTIONS = 64
_MAX_DEPTH = 8  # references and alternatives in each other
_MAX_READ = 256  # schemas read to expand one: nested alternatives have no limit of their own
_MAX_SCHEMAS = 2048  # whose types are read for one call, at about 1 us each
_MAX_LOOKUPS = 4096  # for one call
_MAX_KNOWN = 256  # look-ups of one call that are remembered
_OUTSIDE = re.compile(r"[\"{}\[\],]")
_PLAIN = re.compile(r"(?:[^\"\\]++|\\.)*+", re.DOTALL)
_INSIDE = re.compile(r"(?:[^\"\\]+|\\.)*", re.DOTALL)
_MAX_LEVELS = 64  # levels of values that are looked at
_MAX_KEY = 1024  # characters
_ELSEWHERE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "patternProperties"})  # may say more of a key

Place = tuple[Any, ...] | None
"""The schemas one of which a value must fit; None where none is known."""

# -- what may be here ------------------------------------------------------------------------------------------------


class Places:
    """What the schema of a tool's arguments admits where, for one call.

    Schemas are hostile: how deep and how far one is read is bounded, and what is beyond declares nothing. Each is read
    once, and some look-ups are remembered, because the rows of a table ask for the same ones.
    """

    def __init__(self, parameters: Mapping[str, Any] | None) -> None:
        self.root: Place = None if parameters is None else (parameters,)
        self._parameters = parameters
        self._types: dict[tuple[int, int], frozenset[str]] = {}
        self._lookups = 0
        # Each entry keeps the place whose identity is its key.
        self._known: dict[tuple[int, str | None], tuple[Place, Place]] = {}

    def argument(self, name: str) -> frozenset[str]:
        """The types of the parameter `name`; a call may have any number of them."""
        return self.types(_member(self._arguments, name))

    @cached_property
    def _scope(self) -> Scope:
        return Scope(self._parameters)

    @cached_property
    def _arguments(self) -> Place:
        return self._holders(self.root, "object")

    def inner(self, place: Place, key: str | None) -> Place:
        """The schemas of the value of `key` in an object, or of an array's items. Also None after `_MAX_LOOKUPS`."""
        asked = id(place), key
        if place is None or asked in self._known:
            return None if place is None else self._known[asked][1]
        self._lookups += 1
        kind = "array" if key is None else "object"
        found = None if self._lookups > _MAX_LOOKUPS else _member(self._holders(place, kind), key)
        if len(self._known) < _MAX_KNOWN:
            self._known[asked] = place, found
        return found

    def _holders(self, place: Place, kind: str) -> Place:
        """The schemas of a value of this kind, an array or an object; None where none is known."""
        found: list[Any] = []
        for schema in place or ():
            options = self._expanded(schema)
            if options is None:
                return None
            found += [option for option in options if kind in self._types_of(option)]
        return tuple(found) or None

    def _expanded(self, schema: Any) -> Place:
        """`schema` with references and alternatives resolved; None where that is impossible or exceeds a limit."""
        found: list[Any] = []
        waiting, read = [(schema, 0)], 0
        while waiting:
            part, depth = waiting.pop()
            read += 1
            if not isinstance(part, Mapping) or depth > _MAX_DEPTH or read > _MAX_READ or len(found) > _MAX_OPTIONS:
                return None
            options = next((part[word] for word in ("anyOf", "oneOf") if isinstance(part.get(word), list)), None)
            whole = part.get("allOf")
            if "properties" in part or "items" in part:
                found.append(part)  # what else it says can only admit less
            elif "$ref" in part:
                waiting.append((self._scope.find(part["$ref"]), depth + 1))
            elif options is not None:
                waiting += [(option, depth + 1) for option in reversed(options[:_MAX_OPTIONS])]
            elif not isinstance(whole, list):
                found.append(part)
            elif len(whole) == 1:
                waiting.append((whole[0], depth + 1))
            else:
                return None
        return tuple(found)

    def types(self, place: Place) -> frozenset[str]:
        """The JSON types that are admitted; ALL where the schemas do not say.

        By `type`, also as a list, `anyOf`, `oneOf`, `allOf`, `enum`, `const`, `nullable`, or a `$ref` inside the
        document.
        """
        return ALL if place is None else frozenset().union(*map(self._types_of, place))

    def _types_of(self, schema: Any, depth: int = 0) -> frozenset[str]:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return ALL
        key = id(schema), depth
        found = self._types.get(key)
        if found is None:
            if len(self._types) >= _MAX_SCHEMAS:
                return ALL
            self._types[key] = ALL  # counted, and of no use to itself: it is a level up
            found = self._types[key] = self._read_types(schema, depth + 1) or ALL
        return found

    def _read_types(self, schema: Mapping[str, Any], below: int) -> frozenset[str]:
        found = _own_types(schema)
        parts = [self._scope.find(schema["$ref"])] if "$ref" in schema else []
        for key in ("anyOf", "oneOf"):
            options = schema.get(key)
            if isinstance(options, list) and options:
                found &= frozenset().union(*(self._types_of(option, below) for option in options[:_MAX_OPTIONS]))
        if isinstance(schema.get("allOf"), list):
            parts += schema["allOf"][:_MAX_OPTIONS]
        for part in parts:
            found &= self._types_of(part, below)
        return found | {"null"} if schema.get("nullable") is True else found  # OpenAPI's way to say it

    def _choices(self, place: Place) -> list[Any] | None:
        """The values of `enum` and `const`, where each schema that admits a string has them; else None."""
        found: list[Any] = []
        for schema in place or ():
            options = self._expanded(schema)
            if options is None:
                return None
            for option in options:
                if isinstance(option.get("enum"), list):
                    found += option["enum"]
                elif "const" in option:
                    found.append(option["const"])
                elif "string" in (types := self._types_of(option)):
                    return None
                elif "null" in types:
                    found.append(None)
        return found or None

    def is_open(self, place: Place) -> bool:
        """Whether a JSON string at `place` is a string whatever its text is."""
        return place is None or ("string" in self.types(place) and self._choices(place) is None)

    def reading(self, text: str, place: Place) -> str | None:
        """The JSON that a string's `text` means at `place`; None where it stays a string.

        A declared string is opened where its `enum` or `const` does not admit it and admits what it holds as JSON.
        """
        types, bare = self.types(place), text.strip()
        if "string" in types:
            return _choice(text, self._choices(place))
        if not bare:
            return "null" if "null" in types else None
        made = of_types(bare, types)
        if made is not None and made[0] in "-0123456789" and "number" not in types and not _is_whole(made):
            return None
        return made


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """What a schema says itself, without the schemas in it."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return _named(kind)
    if isinstance(kind, list):
        return frozenset().union(*(_named(item) for item in kind if isinstance(item, str)))
    if isinstance(schema.get("enum"), list):
        return frozenset().union(*map(_type_of, schema["enum"])) or ALL
    if "const" in schema:
        return _type_of(schema["const"])
    return frozenset({"object"}) if "properties" in schema else ALL


def _named(kind: str) -> frozenset[str]:
    return _NUMBERS if kind == "number" else frozenset({kind}) & ALL or ALL


def _type_of(value: Any) -> frozenset[str]:
    match value:
        case bool():
            return frozenset({"boolean"})
        case None:
            return frozenset({"null"})
        case int() | float():
            return _NUMBERS
        case str():
            return STRING
        case list():
            return frozenset({"array"})
    return frozenset({"object"})


def _member(holders: Place, key: str | None) -> Place:
    """The schemas of the value of `key` in an object, or of an array's items (`key` is None)."""
    found = [_items(holder) if key is None else _property(holder, key) for holder in holders or ()]
    return None if not all(isinstance(value, Mapping) for value in found) else tuple(found[:_MAX_OPTIONS]) or None


def _items(schema: Mapping[str, Any]) -> Any:
    return None if "prefixItems" in schema else schema.get("items")


def _property(schema: Mapping[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    return None if _ELSEWHERE & schema.keys() else schema.get("additionalProperties")


# -- which reading of a text fits --------------------------------------------------------------------------------------


def _choice(text: str, choices: list[Any] | None) -> str | None:
    if choices is None or text in choices:
        return None
    value: Any = text
    for _ in range(_MAX_ENCODED):
        try:
            value = decode(value.strip())
        except (ValueError, RecursionError):
            return None
        if any(value == choice and type(value) is type(choice) for choice in choices):
            return msgspec.json.encode(value).decode()
        if not isinstance(value, str):
            break
    return None


def _is_whole(number: str) -> bool:
    return "e" not in number.lower() and not number.partition(".")[2].strip("0")


def json_of(text: str, types: frozenset[str]) -> str:
    """The JSON for a value written as `text`, where `types` are declared."""
    if types == STRING:
        return f'"{quoted(text)}"'
    bare = text.strip()
    if types >= _ANY:
        return bare if is_json(bare) else f'"{quoted(text)}"'
    made = of_types(bare, types)
    if made is not None:
        return made
    if not bare and "null" in types and "string" not in types:
        return "null"
    if "string" in types or not bare:
        return f'"{quoted(text)}"'
    if bare[0] == '"' and is_json(bare):
        # The model encoded it twice: the content of the string is the value.
        made = of_types(msgspec.json.decode(bare).strip(), types)
        return bare if made is None else made
    return bare if is_json(bare) else f'"{quoted(text)}"'


def literal(word: str, types: frozenset[str]) -> str:
    """The JSON for an unquoted word of a notation that quotes its strings."""
    if WORDS.get(word) == "null":
        return "null"
    return json_of(word, types if "string" in types and not types >= _ANY else _LITERALS)


def of_types(bare: str, types: frozenset[str]) -> str | None:
    """`bare` as JSON of one of the types other than string; None if it is of none of them."""
    word = WORDS.get(bare)
    if word == "null":
        return word if "null" in types and (bare == word or "string" not in types) else None
    if word is not None:
        return word if "boolean" in types else None
    if not types.isdisjoint(_NUMBERS):
        if NUMBER.fullmatch(bare):
            return bare
        # Where a string is admitted too, `007` is a string.
        number = _number(bare) if "string" not in types else None
        if number is not None:
            return number
    if ("object" in types and bare.startswith("{")) or ("array" in types and bare.startswith("[")):
        if is_json(bare):
            return bare
        if "string" not in types:
            return repaired_json(bare, guess=False)
    return None


def repaired_json(text: str, *, guess: bool = True) -> str | None:
    """`text`, which begins like an object or array, as JSON, repaired where necessary.

    None where it is not JSON to its end: `[urgent] fix it`, `["a", "b`. guess: values may be missing or lack their
    quotes (`[see there]`).
    """
    out: list[str] = []
    reader = JsonReader()
    end = reader.feed(text, 0, out)
    whole = reader.done and not text[end:].strip() and (guess or not reader.guessed)
    return "".join(out) if whole else None


def _number(text: str) -> str | None:
    return repaired_number(text) if len(text) <= _MAX_NUMBER else None


def is_json(text: str, kind: Any = Any) -> bool:
    """Whether `text` is JSON (of this type)."""
    try:
        msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


# -- the arguments of a call ------------------------------------------------------------------------------------------


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
        # Most pieces need no work: the middle of a long string.
        inside = self._in_string
        if inside and '"' not in text and ("\\" not in text or _PLAIN.fullmatch(text)):
            if self._held is None and self._key is None and not self._escaped:
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
        frame = self._stack[-1] if self._stack and not self._unknown else None
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
            self._stack[-1].key = _text_of(key) if self._key_size <= _MAX_KEY else None
        elif self._held is not None:
            held, self._held = "".join(self._held), None
            read = self._reading(held)
            if read is not None and not self.coerced:
                self.coerced, self.path = True, self._path()
            out.append(held if read is None else read)

    def _reading(self, held: str) -> str | None:
        """The value that a held string means; None where it stays a string."""
        text = _text_of(held)
        read = None if text is None else self._places.reading(text, self._place)
        if read is None or read[0] not in "{[":
            return read
        if self._encoded >= _MAX_ENCODED:
            return None
        inner = Coercion(self._places, self._place, encoded=self._encoded + 1)
        return inner.feed(read) + inner.finish()

    def _bracket(self, char: str) -> None:
        stack = self._stack
        if self._unknown:
            self._unknown += (char in "{[") - (char in "}]")
        elif char in "{[":
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
        if self._unknown:
            return None
        if not self._stack:
            return self._root
        frame = self._stack[-1]
        if len(self._stack) > _MAX_LEVELS or (frame.is_object and frame.key is None):
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


def _text_of(text: str) -> str | None:
    value = decoded(text)
    return value if isinstance(value, str) else None
