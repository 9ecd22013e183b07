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

from collections.abc import Mapping
from typing import Any

import msgspec

from ...json_schema.pointer import Scope
from ...json_schema.types import ALL, STRING, TypeReader
from .json_reader import JsonReader
from .json_spelling import NUMBER, WORDS, decode, quoted, repaired_number

_LITERALS = frozenset({"number", "boolean", "null"})
_MAX_NUMBER = 1024  # characters
_MAX_ENCODED = 4  # strings in strings
_MAX_OPTIONS = 64
_MAX_REFERENCES = 8
_MAX_READ = 256  # schemas read to expand one: nested alternatives have no limit of their own
_ELSEWHERE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "patternProperties"})  # may say more of a key
_MAX_LOOKUPS = 4096  # for one call
_MAX_KNOWN = 256  # look-ups of one call that are remembered

Place = tuple[tuple[Any, Scope], ...] | None
"""The schemas one of which a value must fit; None where none is known."""

# -- what may be here ------------------------------------------------------------------------------------------------


def types_at(place: Place, reader: TypeReader | None = None) -> frozenset[str]:
    """The JSON types that are admitted. reader: of the same document, which keeps what it has read."""
    if place is None:
        return ALL
    types = (reader or TypeReader()).types
    return frozenset().union(*(types(schema, scope) for schema, scope in place))


class ArgumentTypes:
    """The types that are admitted for the parameters of a tool, looked up for one call.

    The schemas of the whole object are looked for once, and each of the others is read once: a model may write any
    number of keys.
    """

    def __init__(self, parameters: Mapping[str, Any] | None) -> None:
        self._root: Place = None if parameters is None else ((parameters, Scope(parameters)),)
        self._reader = TypeReader()
        self._holders: Place = None
        self._is_read = False

    def of(self, name: str) -> frozenset[str]:
        """The types of the parameter `name`."""
        if not self._is_read:
            self._is_read = True
            self._holders = _holders(self._root, "object", self._reader)
        return types_at(_member(self._holders, name), self._reader)


def argument_types(parameters: Mapping[str, Any] | None, name: str) -> frozenset[str]:
    """The types that are admitted for one parameter of a tool."""
    return ArgumentTypes(parameters).of(name)


def _holders(place: Place, kind: str, reader: TypeReader) -> Place:
    """The schemas of a value of this kind, an array or an object; None where none is known."""
    found: list[tuple[Any, Scope]] = []
    for schema, scope in place or ():
        options = expanded(schema, scope)
        if options is None:
            return None
        found += [(option, at) for option, at in options if kind in reader.types(option, at)]
    return tuple(found) or None


def _member(holders: Place, key: str | None) -> Place:
    """The schemas of the value of `key` in an object, or of an array's items (`key` is None)."""
    found: list[tuple[Any, Scope]] = []
    for option, at in holders or ():
        value = _items(option) if key is None else _property(option, key)
        if value is None:
            return None
        found.append((value, at))
    return tuple(found[:_MAX_OPTIONS]) or None


class Places:
    """Looks up inner places for one call. It remembers some, because the rows of a table ask for the same ones."""

    def __init__(self) -> None:
        self._lookups = 0
        self._reader = TypeReader()
        # Each entry keeps the place whose identity is its key.
        self._known: dict[tuple[int, str | None], tuple[Place, Place]] = {}

    def inner(self, place: Place, key: str | None) -> Place:
        """The schemas of the value of `key` in an object, or of an array's items. Also None after `_MAX_LOOKUPS`."""
        asked = id(place), key
        if place is None or asked in self._known:
            return None if place is None else self._known[asked][1]
        self._lookups += 1
        kind = "array" if key is None else "object"
        found = None if self._lookups > _MAX_LOOKUPS else _member(_holders(place, kind, self._reader), key)
        if len(self._known) < _MAX_KNOWN:
            self._known[asked] = place, found
        return found

    def types(self, place: Place) -> frozenset[str]:
        """The JSON types that are admitted there."""
        return types_at(place, self._reader)


def _items(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or "prefixItems" in schema:
        return None
    items = schema.get("items")
    return items if isinstance(items, Mapping) else None


def _property(schema: Any, key: str) -> Any:
    if not isinstance(schema, Mapping):
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        value = properties[key]
    else:
        value = None if _ELSEWHERE & schema.keys() else schema.get("additionalProperties")
    return value if isinstance(value, Mapping) else None


def expanded(schema: Any, scope: Scope) -> Place:
    """`schema` with references and alternatives resolved; None where that is impossible or exceeds a limit."""
    found: list[tuple[Any, Scope]] = []
    waiting, read = [(schema, 0)], 0
    while waiting:
        part, depth = waiting.pop()
        read += 1
        if not isinstance(part, Mapping) or depth > _MAX_REFERENCES or read > _MAX_READ or len(found) > _MAX_OPTIONS:
            return None
        options = next((part[word] for word in ("anyOf", "oneOf") if isinstance(part.get(word), list)), None)
        whole = part.get("allOf")
        if "properties" in part or "items" in part:
            found.append((part, scope))  # what else it says can only admit less
        elif "$ref" in part:
            waiting.append((scope.find(part["$ref"]), depth + 1))
        elif options is not None:
            waiting += [(option, depth + 1) for option in reversed(options[:_MAX_OPTIONS])]
        elif not isinstance(whole, list):
            found.append((part, scope))
        elif len(whole) == 1:
            waiting.append((whole[0], depth + 1))
        else:
            return None
    return tuple(found)


def choices_at(place: Place) -> list[Any] | None:
    """The values of `enum` and `const`, where each schema that admits a string has them; else None."""
    found: list[Any] = []
    reader = TypeReader()
    for schema, scope in place or ():
        options = expanded(schema, scope)
        if options is None:
            return None
        for option, at in options:
            if isinstance(option.get("enum"), list):
                found += option["enum"]
            elif "const" in option:
                found.append(option["const"])
            elif "string" in (types := reader.types(option, at)):
                return None
            elif "null" in types:
                found.append(None)
    return found or None


def _admits_fractions(place: Place) -> bool:
    """Whether the place admits a number that is not an integer."""
    for schema, scope in place or ():
        options = expanded(schema, scope)
        if options is None or any(_says_number(option) for option, _ in options):
            return True
    return False


def _says_number(schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind == "number" or (isinstance(kind, list) and "number" in kind) or not isinstance(kind, str | list)


# -- which reading of a text fits --------------------------------------------------------------------------------------


def reading(text: str, place: Place) -> str | None:
    """The JSON that a string's `text` means at `place`; None where it stays a string.

    A declared string is opened where its `enum` or `const` does not admit it and admits what it holds as JSON.
    """
    types, bare = types_at(place), text.strip()
    if "string" in types:
        return _choice(text, choices_at(place))
    if not bare:
        return "null" if "null" in types else None
    made = of_types(bare, types)
    if made is not None and made[0] in "-0123456789" and not _is_whole(made) and not _admits_fractions(place):
        return None
    return made


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
    if types >= ALL:
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
    return json_of(word, types if "string" in types and not types >= ALL else _LITERALS)


def of_types(bare: str, types: frozenset[str]) -> str | None:
    """`bare` as JSON of one of the types other than string; None if it is of none of them."""
    word = WORDS.get(bare)
    if word == "null":
        return word if "null" in types and (bare == word or "string" not in types) else None
    if word is not None:
        return word if "boolean" in types else None
    if "number" in types:
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
