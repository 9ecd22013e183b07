"""Rows into a Markdown table, and the table into README.md."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

README = Path(__file__).parent / "README.md"
_BEGIN = "<!-- figures: written by `python -m tests.bench --write` -->"
_END = "<!-- /figures -->"


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what was measured, the figure, the figure as a ratio, and what is wanted of it."""

    what: str
    figure: str
    ratio: str = ""
    goal: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The result of one benchmark. `heads` are those of `figure` and `ratio`."""

    title: str
    heads: tuple[str, str]
    rows: list[Row] = field(default_factory=list)

    def add(self, what: str, figure: str, ratio: str = "", goal: str = "") -> None:
        self.rows.append(Row(what, figure, ratio, goal))

    def markdown(self) -> str:
        cells = [("", *self.heads, "wanted"), *((row.what, row.figure, row.ratio, row.goal) for row in self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(4)]
        used = [column for column in range(4) if column == 0 or any(line[column] for line in cells[1:])]
        lines = []
        for number, line in enumerate(cells):
            padded = (
                line[column].ljust(widths[column]) if column == 0 else line[column].rjust(widths[column])
                for column in used
            )
            lines.append("| " + " | ".join(padded) + " |")
            if number == 0:
                marks = ("-" * widths[column] if column == 0 else "-" * (widths[column] - 1) + ":" for column in used)
                lines.append("| " + " | ".join(marks) + " |")
        return f"### {self.title}\n\n" + "\n".join(lines) + "\n"


def parser(program: str, about: str | None) -> argparse.ArgumentParser:
    """The options of `python -m tests.bench.PROGRAM`. about: its docstring, whose first line is shown."""
    return argparse.ArgumentParser(prog=f"python -m tests.bench.{program}", description=(about or "").split("\n")[0])


def only_defaults() -> None:
    """Takes this shell's settings out of the environment: what is measured are the defaults."""
    for name in [name for name in os.environ if name.startswith("TOOLCALL_")]:
        del os.environ[name]


def machine() -> str:
    """The machine and what runs on it, in one line."""
    cores = os.cpu_count() or 1
    return (
        f"{_processor()}, {cores} core{'s' if cores > 1 else ''}, {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}, msgspec {version('msgspec')}"
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if sys.platform == "linux" and cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def figures(tables: Iterable[Table]) -> str:
    return f"Measured on: {machine()}.\n\n" + "\n".join(table.markdown() for table in tables)


def write(text: str, path: Path = README, *, begin: str = _BEGIN, end: str = _END) -> None:
    """Put `text` between the marks. Raises ValueError where there are none."""
    before, found, rest = path.read_text("utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{path} has no marks for the figures")
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", "utf-8")
