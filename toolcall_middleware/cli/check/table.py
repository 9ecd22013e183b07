"""A report as text: what the backend can do, calls by mode and format, the settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ...errors import on_one_line
from .._console import console, line
from ..command import cut, many, shown
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
_MEASURES = ("right", "repaired", "wrong", "median s", "longest s", "tokens in", "tokens out")


def show(report: Report, page: Console | None = None) -> None:
    """Prints the whole report: the settings to use, what they rest on, then each finding. page: standard output.

    A published report has more to print: when it was made and, for each way to get calls, every count and fault.
    """
    page = page or console()
    asked, published = report.questions, report.upstream is None
    if published:
        facts = report.date, f"version {report.version}", f"API {report.api}", many(asked.asked, "prompt"), asked.source
        line(page, shown(" · ".join(facts)))
    else:
        line(page, "", label=f"{report.upstream}, model {shown(report.model)}")
    if len(report.models) > 1:
        line(page, f"The backend lists {len(report.models)} models; --model checks another.")
    line(page, "", label="\nSettings")
    for setting in _settings(report):
        line(page, setting)
    if report.calls:
        source = "" if asked.source == "built-in" else f" of {shown(asked.source)}"
        line(page, "", label=f"\nRight calls of {asked.asked} prompts{source} (valid ones, where that differs)")
        rows: dict[str, dict[str, str]] = {}
        for score in report.calls:
            rows.setdefault(score.title, {})[_column(score)] = _cell(score)
        _grid(page, _COLUMNS, ((title, [cells.get(name, "-") for name in _COLUMNS]) for title, cells in rows.items()))
    if published:
        line(page, "", label="\nEach way to get calls")
        _grid(page, _MEASURES, ((_way(score), _measures(score)) for score in report.calls))
        for title, lines in (
            ("What went wrong", [f"{_way(score)}: {fault}" for score in report.calls for fault in score.faults]),
            ("The prompts", asked.prompts),
        ):
            if lines:
                line(page, "", label=f"\n{title}")
            for text in lines:
                line(page, f"  {shown(text)}")
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


def _grid(page: Console, heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Rows of a title and a cell below each head. A narrow terminal loses no column."""
    table = Table.grid(padding=_GAP)
    for name in ("", *heads):
        table.add_column(overflow="fold", justify="right" if name else "left")
    table.add_row("", *heads)
    for title, cells in rows:
        table.add_row(shown(title), *map(shown, cells))
    page.print(Padding(table, (0, 0, 0, 2), expand=False))


def _column(score: Score) -> str:
    if score.constrain == "off":
        return score.tool_choice
    return f"{score.tool_choice}, {'choose' if score.choose else 'constrained'}"


def _cell(score: Score) -> str:
    if not score.asked:
        return "slow" if score.late else "not asked"
    valid = f" ({score.valid})" if score.valid != score.came else ""
    return f"{score.came}/{score.asked}{valid}" + ("" if score.constrain == "off" else f" by {score.constrain}")


def _way(score: Score) -> str:
    return f"{score.title}, {_column(score)}" + ("" if score.constrain == "off" else f" by {score.constrain}")


def _measures(score: Score) -> list[str]:
    """The cells of a row of `_MEASURES`."""
    if not score.asked:
        return [_cell(score), *("" for _ in _MEASURES[1:])]
    latency, tokens = score.latency, score.tokens
    seconds = ["", ""] if latency is None else [f"{latency.median:.2f}", f"{latency.longest:.2f}"]
    written = ["" if count is None else f"{count:g}" for count in (tokens.prompt, tokens.completion)]
    return [str(score.right), str(score.repaired), str(score.wrong), *seconds, *written]


def _settings(report: Report) -> Sequence[str]:
    if not any(score.came for score in report.calls):
        return [
            "  none to recommend: no call came out right in any way" if report.calls else "  none: nothing was tried"
        ]
    lines = {name: on_one_line(f"{name}={value}") for name, value in report.settings.items()}
    wide = max(map(len, lines.values()), default=0)
    return [f"  {line:<{wide}}  # {shown(report.reasons.get(name, ''))}" for name, line in lines.items()]
