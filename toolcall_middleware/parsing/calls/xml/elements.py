"""Values in tags that are named as their parameters, where the family has one tag for all of them.

    <function=f><city>Paris</city></function>

What stands between a call's tags is passed over; such a value was lost with it.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from .syntax import TaggedSyntax
from .value_end import TagEnds

_TAG = re.compile(r"<(?P<key>[\w.\-]{1,64})>")
_TAG_PART = re.compile(r"<[\w.\-]{0,64}\Z")


def element_at(s: str, i: int, *, last: bool) -> str | None:
    """The name in the opening tag at `i`; empty while one may come there, None where none does."""
    m = _TAG.match(s, i)
    if m is not None:
        return m["key"]
    return "" if not last and _TAG_PART.match(s, i) else None


@functools.lru_cache(maxsize=256)
def element_syntax(syntax: TaggedSyntax, key: str) -> tuple[TaggedSyntax, TagEnds]:
    """Those for a value in the tag of `key`: its closing tag says the name, too, so that any tag may follow."""
    own = replace(syntax, value_close=f"</{key}>", parameter_heads=(*syntax.parameter_heads, "<"))
    return own, TagEnds(own)
