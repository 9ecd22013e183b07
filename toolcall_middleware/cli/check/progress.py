"""How far a check is: one line that is written over in a terminal, else a plain line now and then."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator

_EVERY = 5.0  # seconds between plain lines
_SURE = 3  # steps before an estimate

Step = Callable[[str], None]
"""Called before each step with its name."""


@contextlib.contextmanager
def progress(total: int, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Step]:
    """Shows `total` steps on stderr, with an estimate of the seconds left; stdout is the result's alone."""
    shown = _Progress(total, clock)
    try:
        yield shown
    finally:
        shown.end()


class _Progress:
    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self._total = total
        self._clock = clock
        self._begun = self._told = clock()
        self._step = 0
        self._terminal = sys.stderr.isatty()

    def __call__(self, name: str) -> None:
        self._step += 1
        now = self._clock()
        line = f"check: {self._step}/{self._total} {name}{self._left(now)}"
        if self._terminal:
            columns = shutil.get_terminal_size().columns - 1
            print(f"\r{line[:columns]:<{columns}}", end="", file=sys.stderr, flush=True)
        elif self._step == 1 or now - self._told >= _EVERY:
            self._told = now
            print(line, file=sys.stderr, flush=True)

    def _left(self, now: float) -> str:
        """The time that is left, if the steps to come take as long as those before; at most all of them are asked."""
        done = self._step - 1
        if done < _SURE:
            return ""
        seconds = (now - self._begun) / done * (self._total - done)
        return f", at most {seconds:.0f} s left" if seconds < 90 else f", at most {seconds / 60:.0f} min left"

    def end(self) -> None:
        """Leave an empty line for the result."""
        if self._terminal:
            print(f"\r{'':<{shutil.get_terminal_size().columns - 1}}\r", end="", file=sys.stderr, flush=True)
