"""The report on stdout: what the backend can do, calls by mode and format, the settings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .._console import console, line
from ..command import cut, shown
from .findings import Report, Score

_MOST_DETAIL = 200
_GAP = (0, 2, 0, 0)
# By the first part of a finding's key.
_SECTIONS = {
    "": "Chat",
    "native": "Tools of its own",
    "constrain": "Constraints, by what they make of a plain question",
    "history": "What a history may hold",
}
_STYLES = {"yes": "green", "partly": "yellow", "no": "red"}
_COLUMNS = ("auto", "auto, choose", "required", "required, constrained")


def show(report: Report) -> None:
    """Prints the whole report: the settings to use, what they rest on, then each finding."""
    page = console()
    line(page, "", label=f"{report.upstream}, model {shown(report.model)}")
    if len(report.models) > 1:
        line(page, f"The backend lists {len(report.models)} models; --model checks another.")
    line(page, "", label="\nSettings")
    for setting in _settings(report):
        line(page, setting)
    if report.calls:
        source = "" if report.questions.source == "built-in" else f" of {shown(report.questions.source)}"
        heading = f"Right calls of {report.questions.asked} prompts{source} (valid ones, where that differs)"
        line(page, "", label=f"\n{heading}")
        rows: dict[str, dict[str, str]] = {}
        for score in report.calls:
            rows.setdefault(score.title, {})[_column(score)] = _cell(score)
        table = Table.grid(padding=_GAP)
        for name in ("", *_COLUMNS):
            table.add_column(overflow="fold", justify="right" if name else "left")  # a narrow terminal loses no column
        table.add_row("", *_COLUMNS)
        for title, cells in rows.items():
            table.add_row(title, *(cells.get(name, "-") for name in _COLUMNS))
        page.print(Padding(table, (0, 0, 0, 2), expand=False))
    wide = max((len(one.what) for one in report.findings), default=0)
    for area, name in _SECTIONS.items():
        table = Table.grid(padding=_GAP)
        for width in (max(map(len, _STYLES)) + 1, min(wide, page.width // 2), None):
            table.add_column(width=width, overflow="fold")
        for one in report.findings:
            part = one.key.partition(".")[0]
            if (part if part in _SECTIONS else "") == area:
                verdict, detail = one.verdict.value, cut(shown(one.detail), _MOST_DETAIL)
                table.add_row(Text(verdict, _STYLES.get(verdict, "")), Text(shown(one.what)), Text(detail))
        if table.row_count:
            line(page, "", label=f"\n{name}")
            page.print(Padding(table, (0, 0, 0, 2), expand=False))
    incomplete = "; not everything was asked, for lack of time or tokens (--seconds, --tokens)"
    counts = f"\n{report.requests} requests, {report.tokens} tokens written, {report.seconds:.0f} s"
    line(page, counts + ("" if report.complete else incomplete))


def _column(score: Score) -> str:
    if score.constrain == "off":
        return score.tool_choice
    return f"{score.tool_choice}, {'choose' if score.choose else 'constrained'}"


def _cell(score: Score) -> str:
    if not score.asked:
        return "slow" if score.late else "not asked"
    valid = f" ({score.valid})" if score.valid != score.came else ""
    return f"{score.came}/{score.asked}{valid}" + ("" if score.constrain == "off" else f" by {score.constrain}")


def _settings(report: Report) -> Sequence[str]:
    if not any(score.came for score in report.calls):
        return [
            "  none to recommend: no call came out right in any way" if report.calls else "  none: nothing was tried"
        ]
    lines = {name: f"{name}={value}" for name, value in report.settings.items()}
    wide = max(map(len, lines.values()))
    return [f"  {line:<{wide}}  # {report.reasons[name]}" for name, line in lines.items()]
