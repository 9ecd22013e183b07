"""What calls written as tags consist of, as data for the reader in tagged.py."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaggedSyntax:
    """How a family writes such calls behind its opening marker. Compared by identity: its patterns are kept.

    call: pattern of a call's opening tag, with the group `name`, and `empty` where the tag closes itself. parameter:
    pattern of a parameter's opening tag, with the group `key`, and `kind` where the tag says the type ("true" or
    "string": a string, anything else: JSON). call_part, parameter_part: what can still become such a tag; call_heads,
    parameter_heads: how they begin. key_close, value_open: tags that stand between key and value, and may be doubled or
    missing.
    value_close, call_close, close: closing tags of a value, a call and all calls; `close` may be missing.
    noise: markers that may stand between, and say nothing. reopen: what else begins the next call. tails: tokens that
    end the turn. newlines: one newline on each side of a value is markup. bare_name: the call's name follows the
    marker without a tag. xml: CDATA sections and entities mean what they mean in XML; entities: those in names and keys
    do.
    """

    call: re.Pattern[str]
    call_heads: tuple[str, ...]
    call_part: re.Pattern[str] = _NEVER
    parameter: re.Pattern[str]
    parameter_heads: tuple[str, ...]
    parameter_part: re.Pattern[str] = _NEVER
    key_close: str = ""
    value_open: str = ""
    value_close: str
    call_close: str
    close: str = ""
    noise: tuple[str, ...] = ()
    reopen: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    newlines: bool = True
    bare_name: bool = False
    xml: bool = False
    entities: bool = False

    @property
    def behind_call(self) -> tuple[str, ...]:
        """What can follow a call, besides the end."""
        return tuple(tag for tag in (self.close, *self.call_heads, *self.reopen, *self.tails) if tag)
