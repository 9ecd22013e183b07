"""Reasoning that a client carries from one request to the next, so that nobody has to remember it.

`encrypted_content` of our items holds the text itself, marked and with a checksum. It hides nothing: the client may
read what its model thought. It only tells our text from what another provider has really encrypted.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

_MARK = "tcr1_"
_SUM = 4


def carried(text: str) -> str:
    """The `encrypted_content` of a reasoning item with this text."""
    data = text.encode("utf-8", "replace")
    return _MARK + base64.urlsafe_b64encode(zlib.crc32(data).to_bytes(_SUM, "big") + data).decode("ascii")


def read_carried(value: Any) -> str | None:
    """The text in an `encrypted_content` of ours; None for any other value."""
    if not isinstance(value, str) or not value.startswith(_MARK):
        return None
    try:
        data = base64.b64decode(value[len(_MARK) :].encode("ascii"), altchars=b"-_", validate=True)
        if zlib.crc32(data[_SUM:]).to_bytes(_SUM, "big") != data[:_SUM]:
            return None
        return data[_SUM:].decode()
    except (binascii.Error, UnicodeError):
        return None


def reasoning_of(item: dict[str, Any]) -> str:
    """The text of a reasoning item of a client's input: what we gave, or its plain `content`. Empty for what another
    provider encrypted. Its `summary` tells the user what the model thought; it is not what the model thought.
    """
    text = read_carried(item.get("encrypted_content"))
    if text is not None:
        return text
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
