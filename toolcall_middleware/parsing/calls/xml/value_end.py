"""Where the values of calls written as tags end: a tag counts as one only where what follows it fits."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from ...patterns import WHITE_SPACE
from ...trie import Trie, chars_of
from .syntax import TaggedSyntax

CDATA, CDATA_END = "<![CDATA[", "]]>"
MAX_TAG = 512  # characters of a tag, and of white space that is looked through
_LOOK = 64


class TagEnds:
    """What a reader looks for behind values and calls, of one syntax.

    behind_call, behind_value: literals that can follow. closing: those that close a value, a call or all calls.
    end: a `<` that may end a value. tag: the first character of what may follow a value. The other patterns match the
    beginning of a tag, up to the end of the text: `half` of one behind a value, `half_behind` of one behind a call,
    `half_tail` of a token that ends the turn.
    """

    __slots__ = (
        "_syntax",
        "behind_call",
        "behind_value",
        "closing",
        "end",
        "half",
        "half_behind",
        "half_tail",
        "over",
        "tag",
    )

    def __init__(self, syntax: TaggedSyntax) -> None:
        self._syntax = syntax
        self.behind_call = syntax.behind_call
        own = (syntax.call_close, *syntax.call_ends)
        self.behind_value = (*syntax.parameter_heads, *own, *syntax.noise, *self.behind_call)
        self.over = (*self.behind_call, *syntax.noise)
        self.closing = tuple(dict.fromkeys(filter(None, (syntax.value_close, syntax.call_close, syntax.close))))
        self.tag = re.compile(chars_of({tag[0] for tag in (*self.behind_value, "<")}))
        ends = {syntax.value_close, syntax.call_close, syntax.close, *syntax.tails, *syntax.parameter_heads}
        if syntax.xml:
            ends.add(CDATA)
        self.end = re.compile("<" + Trie.of(filter(None, ends)).ways["<"].ahead(3))
        self.half = _half(self.behind_value)
        self.half_behind = _half(self.over)
        self.half_tail = _half(syntax.tails)

    def fits(self, s: str, k: int, *, last: bool, nested: bool) -> int | None:
        """Whether what stands at `k` can follow a value's closing tag: an index to go on from, -1 where not, None where
        it may.

        nested: a parameter's tag has opened in the value. Else the tag may be doubled, as Qwen 3.6 writes it.
        """
        syntax = self._syntax
        j = WHITE_SPACE.match(s, k, k + MAX_TAG).end()
        if not nested and s.startswith(syntax.value_close, j):
            return self.fits(s, j + len(syntax.value_close), last=last, nested=True)
        if j == len(s):
            return k if last else None
        if j == k + MAX_TAG:
            return k
        if syntax.close and s.startswith(syntax.call_close, j) and syntax.call_close != syntax.close:
            # In a value that explains this very syntax the value's closing tag comes once more.
            j = WHITE_SPACE.match(s, j + len(syntax.call_close), k + MAX_TAG).end()
            rest = s[j : j + _LOOK]
            if not last and syntax.value_close.startswith(rest):
                return None
            return -1 if rest.startswith(syntax.value_close) else k
        if s.startswith(self.behind_value, j):
            return k
        if not (last or nested) and syntax.value_close.startswith(s[j : j + _LOOK]):
            return None
        return None if not last and self.half.match(s, j) else -1

    def ends_there(self, s: str, k: int, *, last: bool, tail: bool) -> bool | None:
        """Whether nothing stands at `k` but what can follow a call (behind the turn's end: nothing at all)."""
        j = WHITE_SPACE.match(s, k, k + MAX_TAG).end()
        if j == len(s):
            return True if last else None
        if s.startswith(self._syntax.tails if tail else self.over, j):
            return True
        half = self.half_tail if tail else self.half_behind
        return None if not last and half.match(s, j) else False


@functools.lru_cache(maxsize=64)
def tag_ends(syntax: TaggedSyntax) -> TagEnds:
    """Those of `syntax`."""
    return TagEnds(syntax)


def _half(tags: Iterable[str]) -> re.Pattern[str]:
    """A tag that the text ends in, or with."""
    ways = [*Trie.of(f"{tag}\0" for tag in tags).beginnings().values(), "(?!)"]
    return re.compile(f"(?:{'|'.join(ways)})\\Z")
