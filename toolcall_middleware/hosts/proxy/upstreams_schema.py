"""The JSON Schema of `upstreams_file`, for editors."""

from __future__ import annotations

from typing import Any

from ...settings import OPTIONS
from ...settings.json_schema import DRAFT, of_option, of_table
from .upstreams_file import MAX_WEIGHT, PREFIXED, table_settings

_TEXT = {"type": "string", "minLength": 1}
_NAMES = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}


def of_upstreams_file() -> dict[str, Any]:
    """The schema; what upstreams_file.py reads and this leaves open are the limits between keys."""
    aliases = of_option(OPTIONS["model_aliases"])
    aliases["anyOf"] = [*aliases["anyOf"], {"type": "object", "additionalProperties": _TEXT}]
    own: dict[str, Any] = {
        "name": {
            "description": "What logs and metrics call it.",
            "type": "string",
            "pattern": "^[!-~]([ -~]{0,62}[!-~])?$",
        },
        "models": {"description": "Names or globs of models; `*` by default."} | _NAMES,
        "rename": {
            "description": 'What clients call a model, and what the upstream does: { fast = "Qwen/Qwen3-8B" }.',
            "type": "object",
            "additionalProperties": _TEXT,
        },
        "model_aliases": aliases,
        "headers": {
            "description": "Sent with every request to it.",
            "type": "object",
            "additionalProperties": {"type": "string"},
        },
        "key_env": {"description": "The variable that holds its key.", "type": "string", "minLength": 1},
        "weight": {
            "description": "Its share of the requests, beside others that serve the same model.",
            "type": "number",
            "minimum": 0,
            "maximum": MAX_WEIGHT,
        },
    }
    own |= {key: of_option(OPTIONS[f"upstream_{key}"]) for key in PREFIXED}
    return {
        "$schema": DRAFT,
        "title": "upstreams_file of toolcall-middleware",
        "type": "object",
        "required": ["upstream"],
        "additionalProperties": False,
        "properties": {
            "model_aliases": aliases,
            "upstream": {"type": "array", "minItems": 1, "items": of_table(table_settings(), own)},
        },
    }
