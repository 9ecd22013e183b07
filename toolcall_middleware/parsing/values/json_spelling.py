"""JSON's spellings of the literals, numbers and string characters of other notations."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ..patterns import anywhere

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
"""Unquoted words that are not strings, with JSON's spelling."""
CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
ESCAPES = {ord(char): text for char, text in CONTROL.items()} | {ord('"'): '\\"', ord("\\"): "\\\\"}
_HEX = anywhere(r"[0-9a-fA-F]*")
_OCTAL = re.compile(r"[0-7]{1,3}")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'", "a": "\a",
           "v": "\v", "/": "/", "\n": ""}  # fmt: skip
_LENGTHS = {"x": 2, "u": 4, "U": 8}
for _code in range(0x20):
    ESCAPES.setdefault(_code, f"\\u{_code:04x}")


def decode(text: str) -> Any:
    """The value of the JSON `text`. Raises ValueError where it is not JSON, RecursionError where it is too deep.

    msgspec decodes it, or `json` where it holds half of a surrogate pair, as a model's text may.
    """
    try:
        return msgspec.json.decode(text)
    except UnicodeEncodeError:
        return json.loads(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def quoted(text: str) -> str:
    """`text` as the content of a JSON string: quotes, backslashes and control characters are escaped."""
    return text.translate(ESCAPES)


def repaired_number(word: str) -> str | None:
    """JSON's spelling of the number `word`, which is not valid JSON; None where `word` is not a number."""
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


def python_escape(s: str, i: int) -> tuple[int, str] | None:
    """(index after the escape of a Python string at `i`, its meaning), or None when it is cut off."""
    if i + 1 >= len(s):
        return None
    c = s[i + 1]
    if c in _LENGTHS:
        end = i + 2 + _LENGTHS[c]
        digits = _HEX.match(s, i + 2, end).end()
        if digits == end:
            code = int(s[i + 2 : end], 16)
            return end, chr(code) if code < 0x110000 else "\ufffd"
        return None if digits == len(s) else (i + 1, "\\")
    if c in _SIMPLE:
        return i + 2, _SIMPLE[c]
    octal = _OCTAL.match(s, i + 1)
    if octal is None:
        return i + 1, "\\"
    if octal.end() == len(s) and octal.end() < i + 4:
        return None
    return octal.end(), chr(int(octal.group(), 8))
