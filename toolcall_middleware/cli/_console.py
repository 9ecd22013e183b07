"""Standard output for people, by rich: wraps texts, and has colours in a terminal.

What a backend or a model wrote is never read as markup. The callers write its control characters out first.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from typing import TextIO

from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

_WIDTH = 118
"""Columns where standard output is no terminal. The variable `COLUMNS` overrules it."""
_LEAST_WIDTH = 40


def console(file: TextIO | None = None, *, width: int = _WIDTH, plain: bool = False) -> Console:
    """Standard output, or a `file` of so many columns. plain: without colours, as `NO_COLOR` (no-color.org) and
    `TERM=dumb` ask for it.
    """
    if file is not None:
        return Console(file=file, width=width, color_system=None, markup=False, emoji=False, highlight=False)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a character that the output's encoding lacks becomes `?`
        sys.stdout.reconfigure(errors="replace")
    colours = not plain and sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Console(
        file=sys.stdout,
        width=max(_LEAST_WIDTH, shutil.get_terminal_size((width, 24)).columns),
        force_terminal=colours,
        color_system="standard" if colours else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def line(page: Console, text: str, *, label: str = "", style: str = "bold") -> None:
    """Prints one line, never wrapped: users copy it. label: the part before `text` that has the style."""
    page.print(Segments([Segment(label, Style.parse(style)), Segment(text), Segment.line()]), soft_wrap=True)
