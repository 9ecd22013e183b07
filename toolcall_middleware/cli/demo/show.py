"""The demo's page: plain text, with a few colours in a terminal.

What a model wrote is shown with control characters made visible: it cannot move the cursor or forge a verdict.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable

from ...errors import on_one_line
from ..command import has_colours
from .checks import Check

_LABEL = 20
_BOLD, _GREEN, _RED = "1", "32", "1;31"


class Screen:
    """Where the demo writes."""

    def __init__(self, *, plain: bool) -> None:
        self._coloured = not plain and has_colours()
        # Without a terminal there is no width: 100 reads well in a log, and COLUMNS overrules it.
        self._width = max(40, min(shutil.get_terminal_size((100, 24)).columns, 140))
        try:
            "✓✗".encode(sys.stdout.encoding or "ascii")
            self._marks = ("✗", "✓")
        except (UnicodeEncodeError, LookupError):
            self._marks = ("FAIL", "ok")

    def heading(self, text: str, note: str = "") -> None:
        """A part's title, and what there is to know of it."""
        self.line("", self._in(_BOLD, text), *([textwrap.fill(note, self._width)] if note else []))

    def rows(self, rows: Iterable[tuple[str, str]], *, most: int) -> None:
        """What happened, a label and at most `most` lines each."""
        self.line("")
        for label, text in rows:
            wide = self._width - _LABEL
            whole = on_one_line(text, keep="\n").strip("\n").split("\n")
            lines = [part for line in whole for part in textwrap.wrap(line, wide) or [""]]
            if len(lines) > most:
                lines = [*lines[: most - 1], f"… {len(lines) - most + 1} more lines"]
            first = self._in(_BOLD, f"{label:<{_LABEL}}")
            self.line(*(f"{' ' * _LABEL if number else first}{line}" for number, line in enumerate(lines)))

    def checks(self, checks: Iterable[Check]) -> None:
        """A line each."""
        for check in checks:
            mark = f"  {self._marks[check.ok]} "
            text = on_one_line(check.what + (f": {check.why}" if check.why else ""))
            filled = textwrap.fill(text, self._width, initial_indent=mark, subsequent_indent=" " * len(mark))
            self.line(self._in(_GREEN if check.ok else _RED, mark) + filled[len(mark) :])

    def end(self, text: str, *, ok: bool) -> None:
        """The verdict over all."""
        self.line("", self._in(_GREEN if ok else _RED, f"{self._marks[ok]} {text}"))

    def _in(self, colour: str, text: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._coloured else text

    def line(self, *lines: str) -> None:
        """Lines as they are: they may hold a command to copy."""
        encoding = sys.stdout.encoding or "ascii"
        for line in lines:
            # An output that cannot say a character gets a question mark, not a traceback.
            sys.stdout.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        sys.stdout.flush()
