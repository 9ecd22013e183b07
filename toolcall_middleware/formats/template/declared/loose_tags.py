r"""Tags whose declared patterns leave room for other attributes: `<invoke\b[^>]*?\bname="(?P<name>[^"]+)">`.

A declared pattern is never run. It is taken apart into texts, white space and gaps, and a pattern of our own is made of
these, in which each has a bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...syntax.openers import opener
from ...syntax.slots import ATTRIBUTE, slot_calls
from ...syntax.xml import Tags, TagWriter
from ..json_syntax import Syntax, unmistakable

_ATOM = re.compile(
    r"(?P<space>(?:\\s|\\n| )(?:[*+?]\??)?)|(?P<edge>\\b)|(?P<gap>(?:\[\^\\?[^\]\\]\]|\.)[*+]\??)"
    r"|(?P<text>(?:\\[^\w\s]|[^\\.^$*+?{}\[\]()|\s])(?![*+?{]))"
)
_GAP = r"[^<>\n]{0,64}?"
_SPACE = r"[ \t\r\n]{0,64}"
_NAME = r"(?P<{}>[^\"'<>\n]{{1,256}}?)"
_MAX_GAPS = 3
_WORD = re.compile(r"<[\w:.-]{4,}")

Atom = tuple[str, str]


class TooLooseError(ValueError):
    """The pattern has more in it than texts, white space and gaps."""


def of_attributes(
    call: tuple[str, str], parameter: tuple[str, str], value_end: str, close: str, *, stripped: bool
) -> Syntax:
    """The syntax of such calls. Raises TooLooseError.

    call: the patterns before and behind a call's name. parameter: those before and behind a key. value_end, close:
    texts. stripped: white space around a value is none of it.
    """
    before, behind = map(_atoms, call)
    left, right = map(_atoms, parameter)
    head, inner = _head(before), _head(left)
    read = slot_calls(
        call=re.compile(_pattern(before) + _NAME.format("name") + _pattern(behind)),
        call_heads=(head,),
        call_begun=re.compile(rf"{re.escape(head)}[^<>\n]{{0,300}}"),
        slot=re.compile(_pattern(left) + _NAME.format("key") + _pattern(right)),
        slot_heads=(inner,),
        slot_begun=re.compile(rf"{re.escape(inner)}[^<>\n]{{0,300}}"),
        value_close=value_end,
        call_close=close,
        newlines=stripped,
    )
    openers = (opener(head, read, consume=False),)
    tags = Tags(
        between="\n",
        call=f"{_written(before)}{{name}}{_written(behind)}",
        call_end=close,
        parameter=f"{_written(left)}{{key}}{_written(right)}",
        parameter_end=value_end,
        gap="",
        key=ATTRIBUTE,
        exact=not stripped,
    )
    return Syntax(f"a tag for each argument behind {head}", openers, TagWriter(tags, openers))


def _atoms(pattern: str) -> list[Atom]:
    found: list[Atom] = []
    at = 0
    while at < len(pattern):
        atom = _ATOM.match(pattern, at)
        if atom is None or atom.lastgroup is None:
            raise TooLooseError(f"the pattern {pattern[:60]}")
        found.append((atom.lastgroup, atom[0].removeprefix("\\") if atom.lastgroup == "text" else ""))
        at = atom.end()
    if sum(kind == "gap" for kind, _ in found) > _MAX_GAPS:
        raise TooLooseError(f"the pattern {pattern[:60]}")
    return found


def _pattern(atoms: Sequence[Atom]) -> str:
    ours = {"space": _SPACE, "edge": r"\b", "gap": _GAP}
    return "".join(ours.get(kind) or re.escape(text) for kind, text in atoms)


def _written(atoms: Sequence[Atom]) -> str:
    """The text that a model writes where nothing else stands in the gaps."""
    text, apart = "", False
    for kind, char in atoms:
        if kind == "text":
            text += " " + char if apart and re.fullmatch(r"\w\w", text[-1:] + char) else char
        apart = kind != "text"
    return text


def _head(atoms: Sequence[Atom]) -> str:
    """How the tag begins."""
    head = ""
    for kind, char in atoms:
        if kind != "text":
            break
        head += char
    if not head.startswith("<") or not (_WORD.fullmatch(head) or unmistakable(head)):
        raise TooLooseError(f"the tag {head[:60]}")
    return head
