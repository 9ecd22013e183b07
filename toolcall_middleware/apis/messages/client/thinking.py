"""Thoughts as Messages has them: a block with a signature, which comes back in the next request.

Nothing is remembered here. A client that asked for `display: omitted` gets the block without its text, as from the API,
and the signature carries the text, so that a family whose template wants its thoughts back can have them.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from ....wire.json_reader import Reader

MARK = "toolcall-v1."
"""What a signature of this package begins with."""
MOST_CARRIED = 1 << 20
"""Bytes of thoughts that one signature carries. The client sends them again in each request."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """What the client wants of thoughts. wanted: it gets blocks. omitted: their text stays empty."""

    wanted: bool = False
    omitted: bool = False


def read_thinking(request: Reader) -> Thinking:
    """The request's `thinking`. Kinds that are not known yet ask for it: only `disabled` and none at all do not."""
    config = request.inner("thinking")
    if config is None:
        return Thinking()
    return Thinking(wanted=config.required("type") != "disabled", omitted=config.value("display") == "omitted")


def write_signature(text: str | None) -> str:
    """A signature that `read_signature` knows again. `text`: what it carries, where the block does not show it."""
    if not text:
        return MARK
    data = text.encode("utf-8", "replace")
    return MARK + base64.b64encode(data).decode("ascii") if len(data) <= MOST_CARRIED else MARK


def read_signature(signature: str) -> str:
    """The text that a signature of ours carries; empty where it carries none, or is another's."""
    if not signature.startswith(MARK):
        return ""
    try:
        return base64.b64decode(signature[len(MARK) :], validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


def read_block(block: Reader) -> str:
    """The text of a `thinking` block of the history. Empty if neither the block nor its signature has one."""
    text, signature = block.value("thinking"), block.value("signature")
    if isinstance(text, str) and text:
        return text
    return read_signature(signature) if isinstance(signature, str) else ""
