"""Calls in Gemma's own notation: `call:f{x:<escape>v<escape>,n:[1,2]}`. Strings stand between two equal markers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..sink import Sink
from ..values.literal_reader import Arguments
from ..values.notation import Notation

_WS = re.compile(r"[ \t\r\n]*")
# Of `call:` the word may be missing; under load the brackets are sometimes Python's.
_HEAD = re.compile(
    r"(?:call)?[ \t]{0,32}:[ \t]{0,32}(?P<name>[^\s{}()<>\[\]\"'`,:]{1,256})[ \t\r\n]{0,32}(?P<bracket>[{(])"
)
_HEAD_PART = re.compile(r"(?:c|ca|cal|call)?[ \t]{0,32}(?::[ \t]{0,32}[^\s{}()<>\[\]\"'`,:]{0,256}[ \t\r\n]{0,32})?\Z")
_MAX_GAP = 512


@dataclass(frozen=True, slots=True)
class GemmaSyntax:
    """close: the marker behind a call. quote: what strings stand between. inner: what it stands for in a string."""

    close: str
    quote: str
    inner: str = ""
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


_CALL, _ARGUMENTS, _CLOSE = range(3)


class GemmaCalls:
    """Reads `call:…{…}`, repeated, and the closing marker. See `Body`."""

    __slots__ = ("_args", "_sink", "_state", "_syntax", "done", "failed")

    def __init__(self, sink: Sink, syntax: GemmaSyntax) -> None:
        self.done = False
        self.failed = False
        self._sink = sink
        self._syntax = syntax
        self._state = _CALL
        self._args: Arguments | None = None

    def step(self, s: str, i: int, /, *, last: bool) -> int:
        """See `Body.step`."""
        if self._state == _ARGUMENTS:
            return self._arguments(s, i, last=last)
        k = _WS.match(s, i, i + _MAX_GAP).end()  # type: ignore[union-attr]
        close = self._syntax.close
        if self._state == _CLOSE:
            if s.startswith(close, k):
                self.done = True
                return k + len(close)
            if not last and close.startswith(s[k:]):
                return i
        m = _HEAD.match(s, k)
        if m is not None and (self._state == _CALL or s.startswith("call", k)):
            self._state = _ARGUMENTS
            name = m.group("name")
            self._args = Arguments(
                self._syntax.notation, m.group("bracket"), self._sink.schema(name), self._sink.offered
            )
            self._sink.start(name)
            self._sink.args("{")
            return m.end()
        if not last and _HEAD_PART.match(s, k):
            return i
        self.done = self._state == _CLOSE
        self.failed = not self.done
        return i

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        args = self._args
        if args is None:
            return
        self._args = None
        out: list[str] = []
        if not cut:
            args.close(out)
            out.append("}")
        self._sink.args("".join(out))
        self._sink.end(complete=not cut, repaired=args.repaired)

    def _arguments(self, s: str, i: int, *, last: bool) -> int:
        args = self._args
        assert args is not None  # noqa: S101 - set with the state
        out: list[str] = []
        i = args.feed(s, i, out, last=last)
        if args.done:
            out.append("}")
            self._args = None
            self._state = _CLOSE
        self._sink.args("".join(out))
        if args.done:
            self._sink.end(repaired=args.repaired)
        elif i == len(s):
            self._sink.flows(args)
        return i
