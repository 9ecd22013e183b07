"""How far a check is: a bar by rich where it is installed and stderr is a terminal, else a plain line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

_EVERY = 5.0  # seconds between plain lines

Step = Callable[[str], None]
"""Called before each step with its name."""


@contextlib.contextmanager
def progress(total: int, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Step]:
    """Shows `total` steps on stderr; stdout is the result's alone."""
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        except ImportError:
            pass
        else:
            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
            )
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("", total=total)
                begun = False

                def advance(name: str) -> None:
                    nonlocal begun
                    bar.update(task, description=name, advance=1 if begun else 0)
                    begun = True

                yield advance
            return
    yield _Lines(total, clock)


class _Lines:
    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self._total = total
        self._clock = clock
        self._done = 0
        self._told = clock()

    def __call__(self, name: str) -> None:
        self._done += 1
        now = self._clock()
        if self._done == 1 or now - self._told >= _EVERY:
            self._told = now
            print(f"check: {self._done}/{self._total} {name}", file=sys.stderr, flush=True)
