"""How JSON spells what others spell differently: literals, numbers, and characters in strings."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
BEGUN = re.compile(
    r"t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|n(?:u(?:ll?)?)?"
    r"|-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?)?"
)
_LOOSE_NUMBER = re.compile(r"([+-]?)0*([0-9][0-9_]*)?(\.[0-9_]*)?([eE][+-]?[0-9]+)?")
WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), "true"),
    **dict.fromkeys(("false", "False", "FALSE"), "false"),
    **dict.fromkeys(("null", "None", "NULL", "none", "nil"), "null"),
}
"""The words for true, false and null, with JSON's spelling."""
LITERALS = WORDS | dict.fromkeys(("undefined", "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"), "null")
"""Words that are no strings where JSON has no quotes."""
CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
ESCAPES = {ord(char): text for char, text in CONTROL.items()} | {ord('"'): '\\"', ord("\\"): "\\\\"}
for _code in range(0x20):
    ESCAPES.setdefault(_code, f"\\u{_code:04x}")


def decode(text: str) -> Any:
    """What JSON `text` says. Raises ValueError where it is none, RecursionError where it is too deep.

    msgspec, which takes no text with half of a surrogate pair in it; a model's text may hold one.
    """
    try:
        return msgspec.json.decode(text)
    except UnicodeEncodeError:
        return json.loads(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def quoted(text: str) -> str:
    """`text` as it stands between the quotes of a JSON string: quotes, backslashes and controls are escaped."""
    return text.translate(ESCAPES)


def repaired_number(word: str) -> str | None:
    """JSON's spelling of a number that JSON does not know as written, or None when `word` is none."""
    if not word or word[0] not in "+-.0123456789":
        return None
    low = word.lower().lstrip("+-")
    if low.startswith(("0x", "0o", "0b")):
        try:
            return str(int(word.replace("_", ""), 0)) if len(word) < 64 else None
        except ValueError:
            return None
    match = _LOOSE_NUMBER.fullmatch(word)
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups()
    whole = (whole or "").replace("_", "").lstrip("0")
    fraction = (fraction or "").replace("_", "")
    if not whole and len(fraction) < 2 and "0" not in word:
        return None
    whole = whole or "0"
    return ("-" if sign == "-" else "") + whole + (fraction if len(fraction) > 1 else "") + (exponent or "")
