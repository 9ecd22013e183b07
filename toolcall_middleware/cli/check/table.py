"""The report on stdout: what the backend can do, calls by mode and format, the settings."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ...errors import on_one_line
from .findings import Finding, Report, Score

_WIDTH = 118
_MOST_DETAIL = 200
# By the first part of a finding's key.
_SECTIONS = {
    "": "Chat",
    "native": "Tools of its own",
    "constrain": "Constraints, by what they make of a plain question",
    "history": "What a history may hold",
}
_COLOURS = {"yes": "32", "partly": "33", "no": "31"}
_COLUMNS = ("auto", "auto, choose", "required", "required, constrained")


def shown(text: str) -> str:
    """Text of a backend as one line that no terminal obeys."""
    return on_one_line(" ".join(text.split()))


def text(report: Report, *, colours: bool = False) -> str:
    """The whole report, ending in a line end: the settings to use, what they rest on, then each finding.

    colours: titles bold, verdicts in colours, for a terminal.
    """

    def title(line: str) -> str:
        return f"\033[1m{line}\033[0m" if colours else line

    lines = [title(f"{report.upstream}, model {shown(report.model)}")]
    if len(report.models) > 1:
        lines.append(f"The backend lists {len(report.models)} models; --model checks another.")
    lines += ["", title("Settings"), *_settings(report)]
    if report.calls:
        source = "" if report.questions.source == "built-in" else f" of {shown(report.questions.source)}"
        heading = f"Right calls of {report.questions.asked} prompts{source} (valid ones, where that differs)"
        lines += ["", title(heading), *_calls(report.calls)]
    wide = max((len(one.what) for one in report.findings), default=0)
    for area, name in _SECTIONS.items():
        found = [one for one in report.findings if _area(one) == area]
        if found:
            lines += ["", title(name), *(line for one in found for line in _finding(one, wide, colours=colours))]
    incomplete = "; not everything was asked, for lack of time or tokens (--seconds, --tokens)"
    counts = f"{report.requests} requests, {report.tokens} tokens written, {report.seconds:.0f} s"
    return "\n".join([*lines, "", counts + ("" if report.complete else incomplete), ""])


def _area(finding: Finding) -> str:
    area = finding.key.partition(".")[0]
    return area if area in _SECTIONS else ""


def _finding(one: Finding, wide: int, *, colours: bool) -> list[str]:
    start = f"  {one.verdict.value:<7}  {shown(one.what):<{wide}}  "
    detail = shown(one.detail)
    detail = detail if len(detail) <= _MOST_DETAIL else detail[: _MOST_DETAIL - 1] + "…"
    lines = textwrap.wrap(detail, _WIDTH - len(start), break_on_hyphens=False) or [""]
    lines = [(" " * len(start) if number else start) + line for number, line in enumerate(lines)]
    colour = _COLOURS.get(one.verdict.value)
    if colours and colour is not None:
        lines[0] = lines[0].replace(one.verdict.value, f"\033[{colour}m{one.verdict.value}\033[0m", 1)
    return [line.rstrip() for line in lines]


def _calls(scores: Sequence[Score]) -> list[str]:
    rows: dict[str, dict[str, str]] = {}
    for score in scores:
        column = score.tool_choice
        if score.constrain != "off":
            column += ", choose" if score.choose else ", constrained"
        rows.setdefault(score.title, {})[column] = _cell(score)
    wide = max(map(len, rows))
    widths = {column: max(len(column), *(len(cells.get(column, "")) for cells in rows.values())) for column in _COLUMNS}
    lines = [("", dict(zip(_COLUMNS, _COLUMNS, strict=True))), *rows.items()]
    return [
        f"  {name:<{wide}}  " + "  ".join(f"{cells.get(column, '-'):>{widths[column]}}" for column in _COLUMNS)
        for name, cells in lines
    ]


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
