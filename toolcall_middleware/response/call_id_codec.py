"""Encodes a backend's own call ids so that they can be decoded without stored state.

A rewritten id holds the backend's id, four random bytes that make it unique where a backend gives every call the same
id, and a checksum that distinguishes it from other ids, all as letters and digits after the prefix `call_`.
"""

from __future__ import annotations

import secrets
import zlib

from ..wire.openai import ALPHABET, PREFIX, new_call_id

_VALUES = {char: value for value, char in enumerate(ALPHABET)}
_MARK = "x"  # other ids may begin with it, too: the checksum decides
_SALT = 4
_SUM = 4
_LONGEST = 256  # bytes of an id; no engine has longer ones, and these get a new id
_LONGEST_WRITTEN = 400


def write_id(own: str) -> str:
    """An id of the form `call_[a-zA-Z0-9]+` for a backend's `own`; `read_id` gives that back."""
    raw = own.encode("utf-8", "surrogatepass")
    if len(raw) > _LONGEST:
        return new_call_id()
    body = secrets.token_bytes(_SALT) + raw
    # A leading 1 preserves the zeros after it.
    number = int.from_bytes(b"\x01" + body + zlib.crc32(body).to_bytes(_SUM, "big"), "big")
    digits: list[str] = []
    while number:
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return PREFIX + _MARK + "".join(reversed(digits))


def read_id(written: str) -> str | None:
    """The backend's id in an id that `write_id` made; None for any other. Its time is bounded for any input."""
    start = PREFIX + _MARK
    if not written.startswith(start) or len(written) > _LONGEST_WRITTEN:
        return None
    number = 0
    for char in written[len(start) :]:
        value = _VALUES.get(char)
        if value is None:
            return None
        number = number * len(ALPHABET) + value
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if len(raw) < 1 + _SALT + _SUM or raw[0] != 1:
        return None
    body, check = raw[1:-_SUM], raw[-_SUM:]
    if zlib.crc32(body).to_bytes(_SUM, "big") != check:
        return None
    try:
        return body[_SALT:].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
