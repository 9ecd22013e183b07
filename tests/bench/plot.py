"""A table's ratios as horizontal bars, in SVG."""

from __future__ import annotations

import math
from html import escape

from .report import Table

_ROW, _LEFT, _WIDTH = 22, 430, 380


def bars(table: Table, *, log: bool = False) -> str:
    """An image of all rows whose ratio is a number above zero. log: each grid line is ten times the one before."""
    rows = [(row.what, float(row.ratio), row.goal) for row in table.rows if _number(row.ratio) > 0]
    most = max((value for _, value, _ in rows), default=1.0)

    def length(value: float) -> float:
        if not log:
            return _WIDTH * value / most
        return _WIDTH * math.log10(max(value, 1) * 1.1) / math.log10(most * 1.1)

    height = _ROW * len(rows) + 50
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 80}" height="{height}">',
        "<style>text { font: 12px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="10" y="20" style="font-weight: bold">{escape(table.title)}: {escape(table.heads[1])}</text>',
    ]
    for number, (what, value, goal) in enumerate(rows):
        top = 34 + number * _ROW
        wide = max(1, length(value))
        colour = "#2a6f97" if goal else "#8fb8cf"
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(what)}</text>',
            f'<rect x="{_LEFT}" y="{top + 2}" width="{wide:.1f}" height="{_ROW - 7}" fill="{colour}"/>',
            f'<text x="{_LEFT + wide + 6:.1f}" y="{top + 13}">{value:g}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
