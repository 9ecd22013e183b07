"""The id of a call that has none: `call_` and random letters and digits."""

from __future__ import annotations

import secrets
import string

ALPHABET = string.digits + string.ascii_letters
PREFIX = "call_"
_LENGTH = 24
# A random byte is a character of the alphabet; those above its last multiple are left out, or some were likelier.
_FAIR = 256 - 256 % len(ALPHABET)
_CHARACTERS = bytes(ord(ALPHABET[byte % len(ALPHABET)]) for byte in range(256))
_UNFAIR = bytes(range(_FAIR, 256))


def new_call_id() -> str:
    """`call_` and 24 random characters."""
    characters = b""
    while len(characters) < _LENGTH:
        # At once: `secrets.choice` asks the system for each character, and a call begins with this.
        characters += secrets.token_bytes(2 * _LENGTH).translate(_CHARACTERS, _UNFAIR)
    return PREFIX + characters[:_LENGTH].decode("ascii")
