"""JSON Schemas of the files that hold settings, for editors that complete and check TOML: derived from the types of
readers.py. They list what people should write; the readers take some more, such as other cases of a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from .options import OPTIONS, Option
from .tenants_file import ALLOWED, HASHES

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SIZE = {"type": "string", "pattern": "^[0-9]+ ?[kKmM]([iI]?[bB])?$"}
_HASH = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}


def of_option(option: Option) -> dict[str, Any]:
    """The values of one setting in TOML, which has no null: `none` stands for it."""
    found = msgspec.json.schema(option.reader.kind)
    forms = [one for one in found.pop("anyOf", [found]) if one.get("type") != "null"]
    forms = [one | {"pattern": "^[^\r\n]*$"} if one == {"type": "string"} else one for one in forms]
    if any(one.get("type") == "integer" for one in forms):
        forms.append(_SIZE)
    if any(one.get("type") == "array" for one in forms):
        forms.append({"type": "string"})  # names with commas, or none
    elif "None" in option.reader.type:
        forms.append({"const": "none"})
    about = {"description": f"{option.help} Allowed: {option.allowed}."}
    return about | (forms[0] if len(forms) == 1 else {"anyOf": forms})


def of_table(names: Iterable[str], more: dict[str, Any]) -> dict[str, Any]:
    """A table of these settings, by their own names, and of other keys with their schemas."""
    properties = more | {name: of_option(OPTIONS[name]) for name in names}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def of_tenants_file() -> dict[str, Any]:
    """The schema of `tenants_file`."""
    hashes = {
        "description": "SHA-256 of the tenant header's value, as 64 hex digits; or a list of such.",
        "anyOf": [_HASH, {"type": "array", "items": _HASH}],
    }
    names = sorted(ALLOWED)
    return {
        "$schema": DRAFT,
        "title": "tenants_file of toolcall-middleware",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {
            "default": of_table(names, {}) | {"description": "For everybody; a tenant's own table wins."},
            "tenants": {"type": "object", "additionalProperties": of_table(names, {HASHES: hashes})},
        },
    }
