"""Reasoning that a client carries from one request to the next, so that nobody has to remember it.

`encrypted_content` of our items holds the thought itself, marked and with a checksum. It hides nothing: the client may
read what its model thought. It only tells our own from what another provider has really encrypted. Beside the text it
has what an upstream signed and wants back: `reasoning_details`, and the `extra_content` of calls.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

import msgspec

from ...wire import openai
from ...wire.json_reader import Reader

_TEXT_MARK = "tcr1_"  # the text alone: what 0.3.0 wrote, and conversations still hold
_MARK = "tcr2_"
_SUM = 4


class Carried(msgspec.Struct, omit_defaults=True):
    """What one reasoning item carries. details: items of `reasoning_details`. calls: `extra_content` by the call's id.

    False where it carries nothing.
    """

    text: str = ""
    details: list[dict[str, Any]] = []
    calls: dict[str, dict[str, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self.text or self.details or self.calls)


_decode = msgspec.json.Decoder(Carried).decode


def write_carried(thought: Carried) -> str:
    """The `encrypted_content` of a reasoning item."""
    data = openai.encode(thought)
    return _MARK + base64.urlsafe_b64encode(zlib.crc32(data).to_bytes(_SUM, "big") + data).decode("ascii")


def read_carried(value: Any) -> Carried | None:
    """What an `encrypted_content` of ours carries; None for any other value."""
    if not isinstance(value, str) or not value.startswith((_MARK, _TEXT_MARK)):
        return None
    try:
        data = base64.b64decode(value[len(_MARK) :].encode("ascii"), altchars=b"-_", validate=True)
        if zlib.crc32(data[_SUM:]).to_bytes(_SUM, "big") != data[:_SUM]:
            return None
        return _decode(data[_SUM:]) if value.startswith(_MARK) else Carried(data[_SUM:].decode())
    except (binascii.Error, UnicodeError, msgspec.MsgspecError, RecursionError):
        return None


def thought_of(item: Reader) -> Carried:
    """What a reasoning item of a client's input says: what we gave, or its plain `content`. Nothing for what another
    provider encrypted. Its `summary` tells the user what the model thought; it is not what the model thought.
    """
    carried = read_carried(item.value("encrypted_content"))
    if carried is not None:
        return carried
    content = item.value("content")
    if isinstance(content, str):
        return Carried(content)
    parts = content if isinstance(content, list) else []
    texts = (part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
    return Carried("".join(texts))
