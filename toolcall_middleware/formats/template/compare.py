"""Takes texts apart by what they have in common, without cutting a marker in two."""

from __future__ import annotations

import itertools
import re

_MARKER = re.compile(r"<[^<>\s][^<>\n]{0,80}>?|\[/?[A-Z][A-Z_]{1,40}\]?|[\w▁]+")
_TOKEN = re.compile(r"<[｜|/]?[^<>\n]{1,100}>|\[/?[A-Z][A-Z_]{1,40}\]")


def shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def common_start(a: str, b: str) -> str:
    """What both begin with, up to the end of a whole marker or word."""
    cut = shared(a, b)
    if len(a) == cut == len(b):
        return a
    return a[: min(_whole(a, cut, back=True), _whole(b, cut, back=True))]


def common_end(a: str, b: str) -> str:
    """What both end with, from the beginning of a whole marker or word."""
    cut = shared(a[::-1], b[::-1])
    if len(a) == cut == len(b):
        return a
    begins = (_whole(text, len(text) - cut, back=False) - len(text) for text in (a, b))
    keep = -max(begins)
    return a[len(a) - keep :] if keep else ""


def _whole(text: str, cut: int, *, back: bool) -> int:
    """`cut`, or the nearest place before (behind) it that is not inside of a marker or a word."""
    for found in _MARKER.finditer(text, max(0, cut - 100)):
        if found.start() >= cut:
            break
        if found.end() > cut:
            return found.start() if back else found.end()
    return cut


def tokens(text: str) -> list[str]:
    """The markers in a text: `<…>`, `<|…|>`, `[UPPER]`."""
    return _TOKEN.findall(text)
