"""How the begin of a family's calls is written down: a marker, and the reader of what follows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...parsing.calls.fork import Branch, read_fork, read_nothing
from ...parsing.calls.json_calls import JsonCallSyntax, read_json
from ...parsing.calls.literal_calls import PythonicSyntax, read_python
from ...parsing.cursor import Make
from ...parsing.text.grammar import Opener, Where, beginnings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedOpener(Opener):
    """An opener whose marker another family has too: where both are known, what follows the marker tells them apart."""

    make: Make
    follow: str
    """Pattern of what follows the marker (white space aside) in this family; empty: all that no other family claims."""
    undecided: str
    """Pattern of a text that ends before it can be told."""


def opener(
    marker: str,
    make: Make,
    *,
    where: Where = Where.ANYWHERE,
    consume: bool = True,
    special: bool = False,
    as_last: tuple[Opener, ...] = (),
) -> Opener:
    """A marker behind which what `make` makes reads. consume: false where it is part of a call."""
    return Opener(marker=marker, body=make, where=where, consume=consume, special=special, as_last=as_last)


def shared(
    marker: str,
    make: Make,
    follow: str,
    *,
    close: str = "",
    undecided: str = "",
    where: Where = Where.ANYWHERE,
    consume: bool = True,
    as_last: tuple[Opener, ...] = (),
) -> SharedOpener:
    """A marker that other families have too. See SharedOpener.

    close: the marker behind calls in JSON, which are read where no other family is known.
    """
    json = [(r"\{", json_calls(close=(close,)))] if close else []
    alone = fork(*json, ("", make), again=marker) if consume else make
    return SharedOpener(
        marker=marker,
        body=alone,
        where=where,
        consume=consume,
        make=make,
        follow=follow,
        undecided=undecided,
        as_last=as_last,
    )


def json_calls(**syntax: object) -> Make:
    """A reader of JSON call objects; `syntax` is JsonCallSyntax's."""
    made = JsonCallSyntax(**syntax)  # type: ignore[arg-type]
    return lambda c: read_json(c, made)


def pythonic_calls(**syntax: object) -> Make:
    """A reader of calls in Python; `syntax` is PythonicSyntax's."""
    made = PythonicSyntax(**syntax)  # type: ignore[arg-type]
    return lambda c: read_python(c, made)


def ignored(marker: str) -> Opener:
    """A marker that belongs to no call and is no text."""
    return Opener(marker=marker, body=read_nothing)


def bare_call(*parts: str) -> Opener:
    """An object that begins with `parts`, in either kind of quotes, where calls need no marker."""
    atoms = [re.escape(part).replace('"', "[\"']") for part in ("{", *parts)]
    return Opener(
        pattern=r"[ \t\r\n]{0,32}".join(atoms),
        partial=beginnings("{", *parts).replace('"', "[\"']"),
        consume=False,
        body=lambda c: read_json(c, JsonCallSyntax(bare=True)),
        not_behind=('":', "=", "(", "[", ",", ">"),  # a part of other data, or of a session
    )


def fork(*branches: tuple[str, Make], undecided: str = "", again: str = "") -> Make:
    """The reader of the first of `branches` that fits what follows; `undecided`: what may still become one of them.
    again: see `read_fork`.
    """
    compiled: tuple[Branch, ...] = tuple((re.compile(pattern), make) for pattern, make in branches)
    waits = re.compile(f"{undecided}|{beginnings(again)}" if again else undecided)
    return lambda c: read_fork(c, compiled, waits, again)
