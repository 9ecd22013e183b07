"""Calls in Gemma's own notation: `call:f{x:<escape>v<escape>,n:[1,2]}`. Strings stand between two equal markers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..cursor import Cursor, NotACall, Steps
from ..values.literal_reader import Notation
from .call_arguments import literal_call

# Of `call:` the word may be missing, or a colon stands before it; under load the brackets are sometimes Python's.
# A name may have namespaces (`google:mcp:create-pdf`).
_NAME = r"[^\s{}()<>\[\]\"'`,:]"
_HEAD = re.compile(
    rf"(?::?call)?[ \t]{{0,32}}:[ \t]{{0,32}}(?P<name>(?:{_NAME}{{1,64}}:){{0,8}}{_NAME}{{1,256}})"
    r"[ \t\r\n]{0,32}(?P<bracket>[{(])"
)
_HEAD_PART = re.compile(
    rf"(?::?(?:c|ca|cal|call))?[ \t]{{0,32}}"
    rf"(?::[ \t]{{0,32}}(?:{_NAME}{{1,64}}:){{0,8}}{_NAME}{{0,256}}[ \t\r\n]{{0,32}})?\Z"
)
_MAX_GAP = 512


@dataclass(frozen=True, slots=True)
class GemmaSyntax:
    """How such calls are written."""

    close: str
    """The marker behind a call."""
    quote: str
    """What strings stand between."""
    inner: str = ""
    """What it stands for in a string."""
    notation: Notation = field(init=False)

    def __post_init__(self) -> None:
        notation = Notation(
            # Inside lists and objects the models fall back to JSON's and Python's quotes.
            quotes=(self.quote, '"', "'"),
            verbatim=frozenset({self.quote}),
            inner=self.inner,
            ends=(self.close,),
        )
        object.__setattr__(self, "notation", notation)


def read_gemma(cursor: Cursor, syntax: GemmaSyntax) -> Steps[None]:
    """Read `call:…{…}`, repeated, and the closing marker."""
    sink = cursor.sink
    close = (syntax.close,)
    first = True
    while True:
        k = cursor.behind_space(_MAX_GAP)
        if not first:
            if cursor.take(close, k):
                return
            if not cursor.last and cursor.begins(close, k):
                yield from cursor.more()
                continue
        m = _HEAD.match(cursor.s, k)
        if m is not None and (first or cursor.s.startswith("call", k)):
            first = False
            cursor.i = m.start("bracket")
            name = m["name"]
            if not sink.offered(name) and sink.offered(bare := name.rpartition(":")[2]):
                name = bare
            yield from literal_call(cursor, name, syntax.notation, m["bracket"])
        elif not cursor.last and _HEAD_PART.match(cursor.s, k):
            yield from cursor.more()
        else:
            if first:
                raise NotACall
            return
