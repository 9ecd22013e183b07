"""What calls written as tags consist of, as data for their reader."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaggedSyntax:
    """How a family writes such calls behind its opening marker. Compared by identity: its patterns are kept."""

    call: re.Pattern[str]
    """A call's opening tag, with the group `name`, and `empty` where the tag closes itself."""
    call_heads: tuple[str, ...]
    """How such a tag begins."""
    call_part: re.Pattern[str] = _NEVER
    """What can still become one."""
    parameter: re.Pattern[str]
    """A parameter's opening tag, with the group `key`, and `kind` where the tag says the type ("true" or "string": a
    string, anything else: JSON)."""
    parameter_heads: tuple[str, ...]
    parameter_part: re.Pattern[str] = _NEVER
    joined: re.Pattern[str] = _NEVER
    """A call's name and its first key, between which the key's opening tag is missing: the group `joined`."""
    key_close: str = ""
    value_open: str = ""
    """Tags that stand between key and value, and may be doubled or missing."""
    value_close: str
    call_close: str
    close: str = ""
    """Closing tags of a value, a call and all calls; `close` may be missing."""
    call_ends: tuple[str, ...] = ()
    """What else closes a call."""
    open_end: bool = False
    """What closes a call is a token that engines leave out of the text: behind a value, the text's end closes it."""
    noise: tuple[str, ...] = ()
    """Markers that may stand between, and say nothing."""
    reopen: tuple[str, ...] = ()
    """What else begins the next call."""
    tails: tuple[str, ...] = ()
    """Tokens that end the turn."""
    newlines: bool = True
    """One newline on each side of a value is markup."""
    bare_name: bool = False
    """The call's name follows the marker without a tag."""
    xml: bool = False
    """CDATA sections and entities mean what they mean in XML."""
    entities: bool = False
    """Entities in names and keys mean what they mean in XML."""

    @property
    def behind_call(self) -> tuple[str, ...]:
        """What can follow a call, besides the end."""
        return tuple(tag for tag in (self.close, *self.call_heads, *self.reopen, *self.tails) if tag)
