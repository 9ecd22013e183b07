"""Calls whose arguments are literals: Python's `[f(x=1, y='a'), g()]`, in a list or one a line, and Gemma's
`call:f{x:<escape>v<escape>,n:[1,2]}`, whose strings are between two equal markers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..cursor import Cursor, NotACall, Steps, TextOver
from ..patterns import WHITE_SPACE, half_of
from ..values.literal_reader import LiteralReader, Notation

_NAME = re.compile(r"(?:\d{1,8}(?=[^\W\d]))?[^\W\d][\w.\-/:]{0,255}")
_DIGITS = re.compile(r"\d{1,8}\Z")
_KEYWORD = re.compile(r"[^\W\d]\w{0,255}[ \t\r\n]{0,64}(?:=(?!=)|\Z)")
_NAMED = re.compile(rf"(?P<name>{_NAME.pattern})[ \t\r\n]{{0,512}}\(")
_ANOTHER = re.compile(rf"\[[ \t\r\n]{{0,64}}(?P<name>{_NAME.pattern})[ \t\r\n]{{0,64}}\(")
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


def read_python(c: Cursor, syntax: PythonicSyntax) -> Steps[None]:
    """Read list after list of calls, or call after call."""
    mark = "["
    while mark == "[":
        listed = yield from c.ask(_opens_list, c, syntax)
        notation = Notation(
            quotes=('"""', "'''", '"', "'"),
            keywords=True,
            ends=syntax.close,
            listed=listed,
            wrapped=bool(syntax.wrapper),
        )
        mark = ","
        while mark == ",":
            wrapped = syntax.wrapper and (yield from c.marker((f"{syntax.wrapper}(",), _MAX_GAP))
            name = yield from c.ask(_name, c, syntax, listed=listed)
            if name == "]":  # after a comma
                mark = name
                break
            yield from _call(c, name, notation, "(")
            if wrapped:
                yield from c.marker((")",), _MAX_GAP)
            mark = yield from c.ask(_after_call, c, syntax, listed=listed)
        if mark == "]":
            mark = yield from c.ask(_after_list, c, syntax)
    if mark and syntax.echoed:
        yield from c.ask(_skip_echo, c, syntax)


def _opens_list(c: Cursor, syntax: PythonicSyntax) -> bool:
    """Go to the first call. Returns whether the calls are in a list. Raises NotACall where none can follow."""
    k = c.ahead(_MAX_GAP, needed=True)
    listed = k >= 0 and c.s[k] == "["
    if k < 0 or (syntax.brackets and not listed):
        raise NotACall
    c.i = k + listed
    return listed


def _name(c: Cursor, syntax: PythonicSyntax, *, listed: bool) -> str:
    """Read a name, up to its parenthesis; `]` at the end of the list. Raises NotACall where neither is here."""
    sink, k = c.sink, c.ahead(_MAX_GAP, needed=True)
    m = c.found(_NAMED, k) if k >= 0 else None
    if m is None:
        if k >= 0 and c.s[k] == "]" and listed and sink.committed:
            c.i = k + 1
            return "]"
        raise NotACall
    name = m["name"]
    if syntax.prefix and not sink.offered(name):
        name = name.removeprefix(syntax.prefix)
    if syntax.bare and not sink.committed and not _fits(c, name, m.end()):
        raise NotACall
    c.i = m.end() - 1
    return name if sink.offered(name) or not sink.offered(name.removesuffix(_METHOD)) else name.removesuffix(_METHOD)


def _fits(c: Cursor, name: str, k: int) -> bool:
    """Whether text that may be a call without a marker is one; `k` is after its parenthesis."""
    s = c.s
    if not c.sink.offered(name):
        return False
    k = WHITE_SPACE.match(s, k, k + _MAX_HOLD).end()
    c.wait(k == len(s))
    if k == len(s):
        return False
    keyword = _KEYWORD.match(s, k)
    c.wait(keyword is not None and keyword.end() == len(s))
    known = c.sink.schema(name) is not None
    return (
        s[k] == ")" or (keyword is not None and s[keyword.end() - 1] == "=") or (known and s[k] in "\"'{[-0123456789*")
    )


def _after_call(c: Cursor, syntax: PythonicSyntax, *, listed: bool) -> str:
    """Go to another call (`,`), or past the end of the list (`]`) or a closing marker. Empty where none is here."""
    if (k := c.ahead(_MAX_GAP)) < 0:
        return ""
    if marker := c.take(syntax.close, k):
        return marker
    char, lined = c.s[k], not (listed or syntax.brackets)
    if char in ",;" and (listed or lined):
        c.i = k + 1
        return ","
    if char == "]" and listed:
        c.i = k + 1
        return char
    if lined and _NAME.match(c.s, k):
        c.i = k
        return ","
    c.wait((lined and _DIGITS.match(c.s, k)) or c.begins(syntax.close, k))
    return ""


def _after_list(c: Cursor, syntax: PythonicSyntax) -> str:
    """Go to another list (`[`), or past a closing marker. Empty where neither is here."""
    if (k := c.ahead(_MAX_GAP)) < 0:
        return ""
    if marker := c.take(syntax.close, k):
        return marker
    m = c.found(_ANOTHER, k)
    if m is not None and syntax.brackets and (not syntax.bare or _fits(c, m["name"], m.end())):
        c.i = k
        return "["
    c.wait(c.begins(syntax.close, k))
    return ""


def _skip_echo(c: Cursor, syntax: PythonicSyntax) -> None:
    """Skip a copy of the calls after the closing marker, up to another closing marker."""
    s, i = c.s, c.i
    c.wait(i == len(s))
    if not s.startswith("[", i):
        return
    end = min([k + len(m) for m in syntax.close if (k := s.find(m, i, i + _MAX_ECHO)) >= 0], default=-1)
    another = _ANOTHER.match(s, i)
    c.wait(end < 0 and len(s) < i + _MAX_ECHO and (another or half_of(_ANOTHER).match(s, i)))
    if another and end >= 0:
        c.i = end


# -- Gemma -------------------------------------------------------------------------------------------------------------

# In `call:` the word may be missing or follow a colon; under load the brackets are sometimes Python's.
# A name may have namespaces (`google:mcp:create-pdf`).
_GEMMA_NAME = r"[^\s{}()<>\[\]\"'`,:]"
_HEAD = re.compile(
    rf"(?::?call)?[ \t]{{0,32}}:[ \t]{{0,32}}(?P<name>(?:{_GEMMA_NAME}{{1,64}}:){{0,8}}{_GEMMA_NAME}{{1,256}})"
    r"[ \t\r\n]{0,32}(?P<bracket>[{(])"
)


def read_gemma(c: Cursor, notation: Notation) -> Steps[None]:
    """Read `call:…{…}`, repeated, and the closing marker."""
    sink = c.sink
    first = True
    while first or not (yield from c.marker(notation.ends, _MAX_HOLD)):
        m = yield from c.match(_HEAD, _MAX_HOLD)
        if m is None or not (first or m.group().startswith("call")):
            if first:
                raise NotACall
            return
        first = False
        c.i = m.start("bracket")
        name = m["name"]
        if not sink.offered(name) and sink.offered(bare := name.rpartition(":")[2]):
            name = bare
        yield from _call(c, name, notation, m["bracket"])


def _call(c: Cursor, name: str, notation: Notation, opening: str) -> Steps[None]:
    """Read a call from its opening bracket on. Repairs are also reported for a call that was cut off."""
    sink = c.sink
    arguments = LiteralReader(notation, opening, sink.schema(name), sink.offered)
    c.start(name)
    sink.args("{")
    c.i += 1  # the bracket: it is part of the arguments
    try:
        yield from c.copy(arguments)
    except TextOver:
        said = "" if c.cut else arguments.close()
        c.end(said, complete=not c.cut, repaired=arguments.repaired, closing=())
    else:
        c.end(closing=())
