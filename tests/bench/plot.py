"""A table's ratios as horizontal bars, in SVG that is readable on a light page and on a dark one.

`python -m tests.bench.plot` draws the plots again from the tables in README.md, without measuring anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

from .report import README, Row, Table

PLOTS = {"chunks.svg": ("Time a chunk", False), "parsers.svg": ("Parsers: a call", True)}
"""Which table is drawn in which file, by the beginning of its title, and whether on a logarithmic scale."""

_ROW, _LEFT, _WIDTH = 22, 430, 380
# An image is its own page: it has a ground of its own, whatever it is shown on.
_STYLE = """text { font: 12px sans-serif; fill: #1d2026 }
.title { font-weight: bold } .dim { fill: #5c626d }
.ground { fill: #ffffff } .goal { fill: #2a6f97 } .bar { fill: #8fb8cf }
@media (prefers-color-scheme: dark) {
text { fill: #dfe2ea } .dim { fill: #9aa1b0 }
.ground { fill: #1a1c22 } .goal { fill: #6fb3dc } .bar { fill: #3c6a85 }
}"""


def bars(table: Table, *, log: bool = False, note: str = "") -> str:
    """An image of all rows whose ratio is a number above zero. log: a bar grows with the logarithm of its ratio.
    note: the line below; where it was measured, say.
    """
    rows = [(row.what, float(row.ratio), row.goal) for row in table.rows if _number(row.ratio) > 0]
    most = max((value for _, value, _ in rows), default=1.0)

    def length(value: float) -> float:
        if not log:
            return _WIDTH * value / most
        return _WIDTH * math.log10(max(value, 1) * 1.1) / math.log10(most * 1.1)

    wide, height = _LEFT + _WIDTH + 80, _ROW * len(rows) + 50 + (_ROW if note else 0)
    title = f"{table.title}: {table.heads[1]}{' (logarithmic)' if log else ''}"
    size = f'width="{wide}" height="{height}" viewBox="0 0 {wide} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        '<rect class="ground" width="100%" height="100%" rx="8"/>',
        f'<text class="title" x="10" y="20">{escape(title)}</text>',
    ]
    for number, (what, value, goal) in enumerate(rows):
        top = 34 + number * _ROW
        long, kind = max(1, length(value)), "goal" if goal else "bar"
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(what)}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{top + 2}" width="{long:.1f}" height="{_ROW - 7}" rx="2"/>',
            f'<text x="{_LEFT + long + 6:.1f}" y="{top + 13}">{value:g}</text>',
        ]
    if note:
        lines.append(f'<text class="dim" x="10" y="{height - 12}">{escape(note)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def draw(tables: Iterable[Table], note: str) -> dict[str, str]:
    """The images of PLOTS, by the names of their files. Raises StopIteration where a table is missing."""
    known = list(tables)
    images = {}
    for name, (title, log) in PLOTS.items():
        table = next(table for table in known if table.title.startswith(title))
        images[name] = bars(table, log=log, note=note)
    return images


def read_tables(text: str) -> list[Table]:
    """The tables of a README that PLOTS names; each has four columns: what, figure, ratio, wanted."""
    tables = []
    for title, block in re.findall(r"^### (.+)\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        if title.startswith(tuple(wanted for wanted, _ in PLOTS.values())):
            head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines())
            tables.append(Table(title, (head[1], head[2]), [Row(*row) for row in rows]))
    return tables


def read_note(text: str) -> str:
    """Where the tables of a README were measured."""
    found = re.search(r"^Measured on: .*$", text, re.MULTILINE)
    return "" if found is None else found.group()


def main(folder: Path = README.parent) -> None:
    """Draws all plots from README.md into `folder`."""
    text = README.read_text("utf-8")
    for name, image in draw(read_tables(text), read_note(text)).items():
        (folder / name).write_text(image, "utf-8")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


if __name__ == "__main__":
    main()
