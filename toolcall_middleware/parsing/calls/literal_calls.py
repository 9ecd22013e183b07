"""Calls whose arguments are literals: Python's `[f(x=1, y='a'), g()]`, in a list or one a line, and Gemma's
`call:f{x:<escape>v<escape>,n:[1,2]}`, whose strings are between two equal markers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..cursor import Cursor, NotACall, Steps, TextOver
from ..patterns import WHITE_SPACE, half_of
from ..values.literal_reader import LiteralReader, Notation

_NAME = re.compile(r"(?:\d{1,8}(?=[^\W\d]))?[^\W\d][\w.\-/:]{0,255}")
_DIGITS = re.compile(r"\d{1,8}\Z")
_KEYWORD = re.compile(r"[^\W\d]\w{0,255}[ \t\r\n]{0,64}(?:=(?!=)|\Z)")
_ANOTHER = re.compile(rf"\[[ \t\r\n]{{0,64}}({_NAME.pattern})[ \t\r\n]{{0,64}}\(")
_ANOTHER_PART = half_of(_ANOTHER)
_METHOD = ".call"  # `f.call(x=1)`: Llama 3.1's way to call what it was trained on
_MAX_HOLD = 512
_MAX_GAP = _MAX_HOLD - 1
_MAX_ECHO = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonicSyntax:
    """How such calls are written."""

    brackets: bool = True
    """The calls are in `[…]`; else one a line."""
    close: tuple[str, ...] = ()
    """Closing markers, which may be missing."""
    bare: bool = False
    """No marker precedes the calls: the name must be offered, and `)` or a keyword must follow the parenthesis (or a
    literal, where the tool is known)."""
    wrapper: str = ""
    """A function that may enclose each call, as in `print(f(x=1))`; it is not a call itself."""
    prefix: str = ""
    """A prefix that a name may have, as in `default_api.f(x=1)`."""
    echoed: bool = False
    """The calls and the marker may be repeated directly after the closing marker: the copy is dropped."""


def read_python(cursor: Cursor, syntax: PythonicSyntax) -> Steps[None]:
    """Read list after list of calls, or call after call."""
    while True:
        listed = yield from _open(cursor, syntax)
        notation = Notation(
            quotes=('"""', "'''", '"', "'"),
            keywords=True,
            ends=syntax.close,
            listed=listed,
            wrapped=bool(syntax.wrapper),
        )
        another: bool | None = True
        while another:
            wrapped = syntax.wrapper and (yield from cursor.marker((f"{syntax.wrapper}(",), _MAX_GAP))
            name = yield from _name(cursor, syntax, listed=listed)
            if name == "]":  # after a comma
                break
            yield from _call(cursor, name, notation, "(")
            if wrapped:
                yield from cursor.marker((")",), _MAX_GAP)
            another = yield from _another(cursor, syntax, listed=listed)
            if another is None:
                return
        if not (yield from _another_list(cursor, syntax)):
            return


def _open(cursor: Cursor, syntax: PythonicSyntax) -> Steps[bool]:
    """Go to the first call. Returns whether the calls are in a list. Raises NotACall where none can follow."""
    k = yield from cursor.ahead(_MAX_GAP, needed=True)
    if k >= 0 and cursor.s[k] == "[":
        cursor.i = k + 1
        return True
    if k < 0 or syntax.brackets:
        raise NotACall
    cursor.i = k
    return False


def _name(cursor: Cursor, syntax: PythonicSyntax, *, listed: bool) -> Steps[str]:
    """Read a name, up to its parenthesis; `]` at the end of the list. Raises NotACall where neither is here."""
    sink = cursor.sink
    while True:
        k = yield from cursor.ahead(_MAX_GAP, needed=True)
        if k < 0:
            break
        s = cursor.s
        m = _NAME.match(s, k)
        if m is None and not cursor.last and _DIGITS.match(s, k):
            yield from cursor.more()  # a name may begin with digits
            continue
        j = k if m is None else WHITE_SPACE.match(s, m.end(), m.end() + _MAX_HOLD).end()
        if m is not None and j == len(s) and not cursor.last:
            yield from cursor.more()
            continue
        if s[k] == "]" and listed and sink.committed:
            cursor.i = k + 1
            return "]"
        if m is None or not s.startswith("(", j):
            break
        name = m.group()
        if syntax.prefix and not sink.offered(name):
            name = name.removeprefix(syntax.prefix)
        if syntax.bare and not sink.committed:
            fits = _fits(cursor, name, j + 1)
            if fits is None:
                yield from cursor.more()
                continue
            if not fits:
                break
        cursor.i = j
        if not sink.offered(name) and sink.offered(name.removesuffix(_METHOD)):
            name = name.removesuffix(_METHOD)
        return name
    raise NotACall


def _fits(cursor: Cursor, name: str, k: int) -> bool | None:
    """Whether text that may be a call without a marker is one; None where more text is needed."""
    s = cursor.s
    if not cursor.sink.offered(name):
        return False
    k = WHITE_SPACE.match(s, k, k + _MAX_HOLD).end()
    if k == len(s):
        return False if cursor.last else None
    keyword = _KEYWORD.match(s, k)
    if keyword is not None and keyword.end() == len(s) and not cursor.last:
        return None
    known = cursor.sink.schema(name) is not None
    return (
        s[k] == ")" or (keyword is not None and s[keyword.end() - 1] == "=") or (known and s[k] in "\"'{[-0123456789*")
    )


def _another(cursor: Cursor, syntax: PythonicSyntax, *, listed: bool) -> Steps[bool | None]:
    """After a call: whether another one follows, or the end of the list (False); None where all calls are over."""
    while True:
        k = yield from cursor.ahead(_MAX_GAP)
        if k < 0 or (yield from _closed(cursor, syntax, k)):
            return None
        c = cursor.s[k : k + 1]
        if listed:
            if c and c in ",;]":
                cursor.i = k + 1
                return c != "]"
        elif not syntax.brackets and c and (c in ",;" or _NAME.match(cursor.s, k)):
            cursor.i = k + 1 if c in ",;" else k
            return True
        name_begun = not listed and not syntax.brackets and _DIGITS.match(cursor.s, k)
        if cursor.last or not (name_begun or cursor.begins(syntax.close, k)):
            return None
        yield from cursor.more()


def _another_list(cursor: Cursor, syntax: PythonicSyntax) -> Steps[bool]:
    """After a list: whether another one follows."""
    while True:
        k = yield from cursor.ahead(_MAX_GAP)
        if k < 0 or (yield from _closed(cursor, syntax, k)):
            return False
        m = _ANOTHER.match(cursor.s, k) if syntax.brackets else None
        if m is not None:
            fits = _fits(cursor, m.group(1), m.end()) if syntax.bare else True
            if fits:
                cursor.i = k
                return True
            wait = fits is None
        else:
            wait = not cursor.last and _ANOTHER_PART.match(cursor.s, k) is not None
        if not wait and (cursor.last or not cursor.begins(syntax.close, k)):
            return False
        yield from cursor.more()


def _closed(cursor: Cursor, syntax: PythonicSyntax, k: int) -> Steps[bool]:
    """Go past a closing marker at `k`, after which all calls are over. Returns whether one is there."""
    if not cursor.take(syntax.close, k):
        return False
    if syntax.echoed:
        yield from _echo(cursor, syntax)
    return True


def _echo(cursor: Cursor, syntax: PythonicSyntax) -> Steps[None]:
    """Skip a copy of the calls after the closing marker, up to another closing marker."""
    while True:
        s, i = cursor.s, cursor.i
        if i == len(s) and not cursor.last:
            yield from cursor.more()
            continue
        if not s.startswith("[", i):
            return
        another = _ANOTHER.match(s, i)
        end = min([k + len(m) for m in syntax.close if (k := s.find(m, i, i + _MAX_ECHO)) >= 0], default=-1)
        if end >= 0 or cursor.last or len(s) >= i + _MAX_ECHO or not (another or _ANOTHER_PART.match(s, i)):
            if another and end >= 0:
                cursor.i = end
            return
        yield from cursor.more()


# -- Gemma -------------------------------------------------------------------------------------------------------------

# In `call:` the word may be missing or follow a colon; under load the brackets are sometimes Python's.
# A name may have namespaces (`google:mcp:create-pdf`).
_GEMMA_NAME = r"[^\s{}()<>\[\]\"'`,:]"
_HEAD = re.compile(
    rf"(?::?call)?[ \t]{{0,32}}:[ \t]{{0,32}}(?P<name>(?:{_GEMMA_NAME}{{1,64}}:){{0,8}}{_GEMMA_NAME}{{1,256}})"
    r"[ \t\r\n]{0,32}(?P<bracket>[{(])"
)
_HEAD_PART = half_of(_HEAD)


@dataclass(frozen=True, slots=True)
class GemmaSyntax:
    """How such calls are written."""

    close: str
    """The marker after a call."""
    quote: str
    """The marker before and after a string."""
    inner: str = ""
    """The meaning of that marker inside a string."""
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
    first = True
    while first or not (yield from cursor.marker((syntax.close,), _MAX_HOLD)):
        m = yield from cursor.match(_HEAD, _HEAD_PART, _MAX_HOLD)
        if m is None or not (first or m.group().startswith("call")):
            if first:
                raise NotACall
            return
        first = False
        cursor.i = m.start("bracket")
        name = m["name"]
        if not sink.offered(name) and sink.offered(bare := name.rpartition(":")[2]):
            name = bare
        yield from _call(cursor, name, syntax.notation, m["bracket"])


def _call(cursor: Cursor, name: str, notation: Notation, opening: str) -> Steps[None]:
    """Read a call from its opening bracket on. Repairs are also reported for a call that was cut off."""
    sink = cursor.sink
    arguments = LiteralReader(notation, opening, sink.schema(name), sink.offered)
    cursor.start(name)
    sink.args("{")
    cursor.i += 1  # the bracket: it is part of the arguments
    try:
        yield from cursor.copy(arguments)
    except TextOver:
        said = "" if cursor.cut else arguments.close()
        cursor.end(said, complete=not cursor.cut, repaired=arguments.repaired, closing=())
    else:
        cursor.end(closing=())
