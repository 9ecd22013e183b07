"""`python -m tests.bench [--smoke] [--write] [NAME...]`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from . import chunks, delay, flood, hostile, imports, parsers, plot, report, requests
from .report import Table

BENCHMARKS: dict[str, Callable[..., Table]] = {
    "chunks": chunks.run,
    "faces": chunks.faces,
    "formats": chunks.formats,
    "parsers": parsers.run,
    "growth": flood.growth,
    "delay": delay.run,
    "first-call": delay.first_call,
    "requests": requests.run,
    "hostile": flood.hostile,
    "hostile-requests": hostile.run,
    "import": imports.run,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="What the middleware costs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--smoke", action="store_true", help="small and quick: shows that all of it works, no figures")
    parser.add_argument("--write", action="store_true", help="draw the plots, and put their tables into README.md")
    given = parser.parse_args(arguments)
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    if given.write and (given.smoke or given.names):
        parser.error("--write is for a whole run")
    report.only_defaults()
    tables = []
    for name in given.names or BENCHMARKS:
        table = BENCHMARKS[name](smoke=given.smoke)
        print(table.markdown(), flush=True)
        tables.append(table)
    print(f"Measured on: {report.machine()}." if not given.smoke else "It works. No figures: this was a smoke run.")
    if given.write:
        plotted = tuple(title for title, _ in plot.PLOTS.values())
        report.write(report.figures(table for table in tables if table.title.startswith(plotted)))
        plot.main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
