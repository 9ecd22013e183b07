"""Calls written as tags, values as bare text: `<function=f><parameter=x>1</parameter></function>` and its relatives.

A string stands there as it is, anything else as JSON; the reader types it by the tool's schema. Without a schema (and
but for DSML, which names the type) a string that reads as JSON comes back as what it reads as: the syntax cannot tell.

What the syntax has no way to write is a value that reads as the markup around it (a closing tag that the next tag
follows, a parameter's tag at the start of a line), and a key with a quote or a line break. What looks like such a value
is read back; a turn with a call that does not come back is written in JSON.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ...model import ToolCall
from ...parsing.text.grammar import Opener
from .. import markup
from .round_trip import comes_back

_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STEM = re.compile(r"</?[^\s=>{]+")
_ENTITY = re.compile("&(?:lt|gt|amp|quot|apos);")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """How a family writes calls. `{name}`, `{number}` (from 1), `{key}`, `{kind}` (`true` for a string) and `{type}`
    (JSON's name of it) stand in the opening tags, `{name}` and `{key}` in the closing ones.
    """

    opening: str = ""
    """Before all calls of a turn."""
    closing: str = ""
    """Behind them."""
    between: str = "\n"
    """Between two calls."""
    call: str
    """Opens a call."""
    call_end: str
    """Closes a call."""
    tail: str = ""
    """Follows `call_end`."""
    parameter: str
    """Opens a value."""
    parameter_end: str
    """Closes a value."""
    gap: str = "\n"
    """Follows `parameter_end`."""
    key: str
    """Pattern of what a key may consist of."""
    name: str = r"[^\s<>{}\[\]\"'`]{1,256}"
    """Pattern of what a name may consist of."""
    more: tuple[str, ...] = ()
    """Other tags that mean something to the reader."""
    lines: bool = False
    """A value stands on lines of its own."""
    exact: bool = False
    """A line break at a value's end is its own; else one at each end is markup."""
    xml: bool = False
    """Entities mean what they mean in XML."""


class TagWriter:
    """Writes the calls of one turn, or None. `openers` are those of the family's parser."""

    def __init__(self, tags: Tags, openers: tuple[Opener, ...]) -> None:
        self.tags = tags
        self.openers = openers
        self.key = re.compile(tags.key)
        self.name = re.compile(tags.name)

    @functools.cached_property
    def suspicious(self) -> re.Pattern[str]:
        """What a value can hold that the reader may take for markup. Every family's turn markers are among it."""
        tags = self.tags
        own = (tags.closing, tags.call, tags.call_end, tags.tail, tags.parameter, tags.parameter_end, *tags.more)
        known = {stem for tag in own for stem in _STEM.findall(tag)} | set(markup.turn_markers())
        return re.compile("|".join(map(re.escape, sorted(known))))

    def __call__(self, calls: Sequence[ToolCall]) -> str | None:
        tags = self.tags
        written: list[str] = []
        for number, call in enumerate(calls, start=1):
            text = self.call(call, number)
            if text is None:
                return None
            written.append(text)
        return tags.opening + tags.between.join(written) + tags.closing

    def call(self, call: ToolCall, number: int) -> str | None:
        tags = self.tags
        try:
            arguments = {key: bytes(raw) for key, raw in _ARGUMENTS.decode(call.arguments.strip() or "{}").items()}
            values = {key: _text(raw) for key, raw in arguments.items()}
        except (msgspec.DecodeError, RecursionError):
            return None
        if not self.name.fullmatch(call.name):
            return None
        if any(key != key.strip() or not self.key.fullmatch(key) for key in values):
            return None
        parts = [tags.call.replace("{number}", str(number)).replace("{name}", call.name)]
        for key, value in values.items():
            kind = "true" if arguments[key].startswith(b'"') else "false"
            opening = tags.parameter.replace("{kind}", kind).replace("{type}", _type(arguments[key]))
            opening = opening.replace("{key}", key)
            closing = tags.parameter_end.replace("{key}", key)
            parts.append(f"{opening}{self.value(value)}{closing}{tags.gap}")
        written = "".join([*parts, tags.call_end.replace("{name}", call.name), tags.tail])
        if not any(map(self.suspicious.search, values.values())):
            return written
        return written if comes_back(f"{tags.opening}{written}{tags.closing}", call, self.openers) else None

    def value(self, text: str) -> str:
        """The value with the line breaks and the entities that its reader takes away again."""
        tags = self.tags
        if tags.xml and (_ENTITY.search(text) or self.suspicious.search(text) or "<![CDATA[" in text):
            text = text.replace("&", "&amp;").replace("<", "&lt;")
        if tags.exact or not (tags.lines or text.startswith(("\n", "\r\n"))):
            return text
        return f"\n{text}\n"


def token_writer(mark: str, openers: tuple[Opener, ...], **tags: Any) -> TagWriter:
    """For tags that are tokens of their own, all of which begin with `mark`: a value between two is exactly what it is.

    `tags` are the others of Tags.
    """
    return TagWriter(Tags(more=(mark,), exact=True, **tags), openers)


_TYPES = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


def _type(raw: bytes) -> str:
    return _TYPES.get(chr(raw[0]), "number")


def _text(raw: bytes) -> str:
    return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()
