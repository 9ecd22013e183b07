"""One marker, several families: what follows it tells which."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..patterns import WHITE_SPACE
from ..sink import Body, Sink

_MAX_GAP = 256
_MAX_AGAIN = 4

Branch = tuple[re.Pattern[str], Callable[[Sink], Body]]


class Fork:
    """Looks at the first characters behind the marker (white space aside) and lets the branch that matches read.

    `undecided` matches text that ends before the branches can be told apart. again: the marker, which a model may write
    more than once.
    """

    __slots__ = ("_again", "_body", "_branches", "_failed", "_left", "_sink", "_undecided")

    def __init__(self, sink: Sink, branches: Sequence[Branch], undecided: re.Pattern[str], again: str = "") -> None:
        self._sink = sink
        self._again = again
        self._left = _MAX_AGAIN if again else 0
        self._branches = branches
        self._undecided = undecided
        self._body: Body | None = None
        self._failed = False

    @property
    def done(self) -> bool:
        """See `Body`."""
        return self._body is not None and self._body.done

    @property
    def failed(self) -> bool:
        """See `Body`."""
        return self._failed or (self._body is not None and self._body.failed)

    def step(self, s: str, i: int, /, *, last: bool) -> int:
        """See `Body.step`."""
        if self._body is None:
            while True:
                j = WHITE_SPACE.match(s, i, i + _MAX_GAP).end()
                if not last and len(s) - i <= _MAX_GAP and self._undecided.fullmatch(s, j):
                    return i
                if not self._left or not s.startswith(self._again, j):
                    break
                self._left -= 1
                i = j + len(self._again)
            for pattern, make in self._branches:
                if pattern.match(s, j):
                    self._body = make(self._sink)
                    break
            else:
                self._failed = True
                return i
        return self._body.step(s, i, last=last)

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        if self._body is not None:
            self._body.finish(cut=cut)


class Nothing:
    """Behind a marker that is no text and belongs to no call: nothing follows it."""

    def __init__(self, sink: Sink) -> None:
        sink.accept()
        self.done = True
        self.failed = False

    def step(self, s: str, i: int, /, *, last: bool) -> int:  # noqa: ARG002 - the protocol's
        """See `Body.step`."""
        return i

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""


class Refused:
    """Behind a marker that does not count where it stands: it is text."""

    done = False
    failed = True

    def step(self, s: str, i: int, /, *, last: bool) -> int:  # noqa: ARG002 - the protocol's
        """See `Body.step`."""
        return i

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
