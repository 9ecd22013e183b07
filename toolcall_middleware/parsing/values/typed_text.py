"""Values written as bare text, typed by what the tool's schema declares.

The rule: a declared string stays the text it is. Where other types are declared, text that reads as one of them becomes
it, a JSON string that holds one is opened, and text that does not fit any stays a string if strings are allowed. An
object or array is repaired where it is one to its end. Whatever is left, and text without any declaration, is read as
JSON, and is a string where it is none.

In notations that quote their strings (Python's, Gemma's) an unquoted word is a literal: None is null whatever is
declared, and a number is a string only where nothing but strings is declared.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...json_schema.types import ALL, STRING
from .json_reader import JsonReader
from .json_spelling import NUMBER, quoted

_LITERALS = frozenset({"number", "boolean", "null"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_NULL = frozenset({"null", "None", "NULL", "none", "nil"})


def json_of(text: str, types: frozenset[str]) -> str:
    """The JSON for a value written as `text`, where `types` are declared."""
    if types == STRING:
        return f'"{quoted(text)}"'
    bare = text.strip()
    if types >= ALL:
        return bare if is_json(bare) else f'"{quoted(text)}"'
    made = _of_types(bare, types)
    if made is not None:
        return made
    if not bare and "null" in types and "string" not in types:
        return "null"
    if "string" in types or not bare:
        return f'"{quoted(text)}"'
    if bare[0] == '"' and is_json(bare):
        # Encoded twice by the model: what the string holds is what it meant.
        made = _of_types(msgspec.json.decode(bare).strip(), types)
        return bare if made is None else made
    return bare if is_json(bare) else f'"{quoted(text)}"'


def literal(word: str, types: frozenset[str]) -> str:
    """The JSON for an unquoted word of a notation that quotes its strings."""
    if word in _NULL:
        return "null"
    return json_of(word, types if "string" in types and not types >= ALL else _LITERALS)


def _of_types(bare: str, types: frozenset[str]) -> str | None:
    """`bare` as JSON of one of the types other than string; None if it is of none of them."""
    if "null" in types and (bare == "null" or (bare in _NULL and "string" not in types)):
        return "null"
    if "boolean" in types and bare in _TRUE | _FALSE:
        return "true" if bare in _TRUE else "false"
    if "number" in types:
        if NUMBER.fullmatch(bare):
            return bare
        # Where a string may stand too, `007` is one.
        number = _number(bare) if "string" not in types else None
        if number is not None:
            return number
    if ("object" in types and bare.startswith("{")) or ("array" in types and bare.startswith("[")):
        if is_json(bare):
            return bare
        if "string" not in types:
            return repaired_json(bare)
    return None


def repaired_json(text: str) -> str | None:
    """`text`, which begins like an object or array, as JSON, repaired where necessary.

    None where it is no JSON to its end: `[urgent] fix it`, `["a", "b`.
    """
    out: list[str] = []
    reader = JsonReader()
    end = reader.feed(text, 0, out)
    return "".join(out) if reader.done and not text[end:].strip() else None


def _number(text: str) -> str | None:
    out: list[str] = []
    if not text or text[0] not in "+-.0123456789" or any(char in text for char in "\"'{}[],: \n"):
        return None
    reader = JsonReader()
    reader.feed(text, 0, out)
    reader.close(out)
    made = "".join(out)
    return None if made.startswith('"') or made == "null" else made


def is_json(text: str, kind: Any = Any) -> bool:
    """Whether `text` is JSON (of this type)."""
    try:
        msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True
