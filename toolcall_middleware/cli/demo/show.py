"""The demo's page: plain text, with a few colours in a terminal.

What a model wrote is shown with control characters made visible: it cannot move the cursor or forge a verdict.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from ...errors import on_one_line
from .._console import console, line
from .checks import Check

_LABEL = 20
_STYLES = ("bold red", "green")


class Screen:
    """Where the demo writes."""

    def __init__(self, *, plain: bool) -> None:
        self.page = console(plain=plain)
        try:
            "✓✗".encode(sys.stdout.encoding or "ascii")
            self._marks = ("✗", "✓")
        except (UnicodeEncodeError, LookupError):
            self._marks = ("FAIL", "ok")

    def heading(self, text: str, note: str = "") -> None:
        """A part's title, and what there is to know of it."""
        line(self.page, "", label=f"\n{text}")
        if note:
            self.page.print(note)

    def rows(self, rows: Iterable[tuple[str, str]], *, most: int) -> None:
        """What happened, a label and at most `most` lines each."""
        table = Table.grid()
        table.add_column(style="bold", width=_LABEL, no_wrap=True)
        table.add_column(overflow="fold")
        for label, text in rows:
            whole = Text(on_one_line(text, keep="\n").strip("\n"), overflow="fold")
            lines = [*whole.wrap(self.page, self.page.width - _LABEL)]
            if len(lines) > most:
                lines = [*lines[: most - 1], Text(f"… {len(lines) - most + 1} more lines")]
            table.add_row(label, Text("\n").join(lines))
        self.page.print("", table)

    def checks(self, checks: Iterable[Check]) -> None:
        """A line each."""
        for check in checks:
            table = Table.grid()
            table.add_column(style=_STYLES[check.ok], no_wrap=True)
            table.add_column(overflow="fold")
            text = on_one_line(check.what + (f": {check.why}" if check.why else ""))
            table.add_row(f"  {self._marks[check.ok]} ", text)
            self.page.print(table)

    def end(self, text: str, *, ok: bool) -> None:
        """The verdict over all."""
        line(self.page, "", label=f"\n{self._marks[ok]} {text}", style=_STYLES[ok])
