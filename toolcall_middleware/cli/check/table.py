"""The report on stdout: what the backend can do, calls by mode and format, the settings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from ...errors import on_one_line
from .findings import Report, Score
from .trials import written_by

_WIDTH = 118
_MOST_DETAIL = 200

# By the first part of a finding's key.
_SECTIONS = {
    "native": "Tools of its own",
    "constrain": "Constraints, by what they make of a plain question",
    "history": "What a history may hold",
}


def shown(text: str) -> str:
    """Text of a backend as one line that no terminal obeys."""
    return on_one_line(" ".join(text.split()))


_COLOURS = {"yes": "32", "partly": "33", "no": "31"}
_VERDICT = re.compile(r"^  (\S+)(?= )")


def coloured(text: str) -> str:
    """The report for a terminal: titles bold, verdicts in colours."""
    lines = []
    for number, line in enumerate(text.splitlines()):
        if number == 0 or (line and not line.startswith(" ")):
            lines.append(f"\033[1m{line}\033[0m")
        else:
            lines.append(_VERDICT.sub(_in_colour, line))
    return "\n".join(lines) + "\n"


def _in_colour(found: re.Match[str]) -> str:
    colour = _COLOURS.get(found[1])
    return found[0] if colour is None else f"  \033[{colour}m{found[1]}\033[0m"


def text(report: Report) -> str:
    """The whole report, ending in a line end: the settings to use, what they rest on, then each finding."""
    lines = [f"{report.upstream}, model {shown(report.model)}"]
    if len(report.models) > 1:
        lines.append(f"The backend lists {len(report.models)} models; --model checks another.")
    lines += ["", "Settings", *_settings(report)]
    if report.scores:
        lines += ["", _heading(report), *_calls(report)]
    lines += [*_findings(report), ""]
    lines.append(
        f"{report.requests} requests, {report.tokens} tokens written, {report.seconds:.0f} s"
        + ("" if report.complete else "; not everything was asked, for lack of time or tokens (--seconds, --tokens)")
    )
    return "\n".join(lines) + "\n"


def _heading(report: Report) -> str:
    source = "" if report.source == "built-in" else f" of {shown(report.source)}"
    return f"Right calls of {len(report.questions)} prompts{source} (valid ones, where that differs)"


def _findings(report: Report) -> list[str]:
    wide = max((len(one.what) for one in report.findings), default=0)
    lines: list[str] = []
    section = ""
    # Chat first, whatever came in between.
    for one in sorted(
        report.findings, key=lambda one: [*_SECTIONS, ""].index(_area(one.key)) if _area(one.key) else -1
    ):
        title = _SECTIONS.get(_area(one.key), "Chat")
        if title != section:
            section = title
            lines += ["", title]
        start = f"  {one.verdict.value:<7}  {shown(one.what):<{wide}}"
        after = " " * (len(start) + 2)
        if one.detail:
            lines += textwrap.wrap(
                _cut(shown(one.detail)),
                _WIDTH,
                initial_indent=f"{start}  ",
                subsequent_indent=after,
                break_on_hyphens=False,
            )
        else:
            lines.append(start.rstrip())
    return lines


def _area(key: str) -> str:
    area = key.partition(".")[0]
    return area if area in _SECTIONS else ""


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_DETAIL else line[: _MOST_DETAIL - 1] + "…"


_COLUMNS = ("auto", "required", "required, constrained")


def _calls(report: Report) -> list[str]:
    rows: dict[str, dict[str, str]] = {}
    for score in report.scores:
        name = score.mode
        if score.format:
            writes = written_by(report.model, score.format, report.template)
            name += f", format={score.format}" + (f" (writes {writes})" if writes != score.format else "")
        column = _COLUMNS[2] if score.constrain != "off" else score.tool_choice
        rows.setdefault(name, {})[column] = _cell(score)
    wide = max(map(len, rows))
    widths = {column: max(len(column), *(len(cells.get(column, "")) for cells in rows.values())) for column in _COLUMNS}
    head = "  ".join(f"{column:>{widths[column]}}" for column in _COLUMNS)
    lines = [f"  {'':<{wide}}  {head}"]
    for name, cells in rows.items():
        row = "  ".join(f"{cells.get(column, '-'):>{widths[column]}}" for column in _COLUMNS)
        lines.append(f"  {name:<{wide}}  {row}".rstrip())
    return lines


def _cell(score: Score) -> str:
    if not score.asked:
        return "slow" if score.late else "not asked"
    cell = f"{score.right}/{score.asked}"
    if score.valid != score.right:
        cell += f" ({score.valid})"
    return cell if score.constrain == "off" else f"{cell} by {score.constrain}"


def _settings(report: Report) -> Sequence[str]:
    if not report.calls_come_right:
        return [
            "  none to recommend: no call came out right in any way" if report.scores else "  none: nothing was tried"
        ]
    lines = [f"{name}={value}" for name, value in report.settings.items()]
    wide = max(map(len, lines))
    reasons = report.reasons
    return [f"  {line:<{wide}}  # {reasons[line.partition('=')[0]]}" for line in lines]
