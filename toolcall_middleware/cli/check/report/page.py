"""The page over all reports of a folder: one HTML file that loads nothing, runs nothing, and reads well in the dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from ...command import many
from ..table import shown
from .document import Calls, Document

GENERATOR = "toolcall-middleware check"
"""Says in the page's head whose it is."""
# A second lock behind the escaping: nothing can be loaded, run or sent, whatever stands in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_LEGEND = (
    '<p class="dim">Made by <code>toolcall-middleware check --report</code>. Right: the call that was meant, with '
    "arguments that fit, as the model or backend wrote it. Repaired: the same, once the middleware had repaired it. "
    "Latency is from a request to the end of its answer; tokens are of one answer, on average.</p>\n"
    '<p class="dim"><span class="key right"></span>right<span class="key repaired"></span>repaired'
    '<span class="key wrong"></span>wrong</p>'
)


def page(documents: Sequence[Document]) -> str:
    """The page as HTML. What it shows of a backend or model is text, never markup."""
    style = resources.files(__package__).joinpath("style.css").read_text("utf-8")
    lines = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f'<meta name="generator" content="{GENERATOR}">',
        f"<title>Tool calls: {many(len(documents), 'check')}</title>\n<style>\n{style}</style>\n</head>\n<body>",
        "<h1>Tool calls by model, backend, mode and format</h1>",
        _LEGEND,
    ]
    if len(documents) > 1:
        lines.append(_overview(documents))
    lines += [_section(number, one) for number, one in enumerate(documents)]
    return "\n".join([*lines, "</body>\n</html>", ""])


def _overview(documents: Sequence[Document]) -> str:
    rows = []
    for number, one in enumerate(documents):
        best = max((calls for calls in one.calls if calls.asked), key=lambda calls: calls.score, default=None)
        way = "nothing was tried" if best is None else best.way
        counts = ["", "", ""] if best is None else _counts(best)
        rows.append([f'<a href="#report-{number}">{_text(one.model)}</a>', _text(one.backend), _text(way), *counts])
    heads = ["Model", "Backend", "Best way", "", ">Right", ">Median"]
    return f"<section>\n<h2>Overview</h2>\n{_table(heads, rows)}\n</section>"


def _counts(calls: Calls) -> list[str]:
    came = calls.right + calls.repaired
    latency = calls.latency
    return [_bar(calls), f"{came}/{calls.asked}", "" if latency is None else _seconds(latency.median)]


def _section(number: int, one: Document) -> str:
    asked = f"{many(one.questions.asked, 'prompt')} ({one.questions.source})"
    facts = [one.date, f"version {one.version}", f"API {one.api}", asked]
    facts += [many(one.requests, "request"), f"{one.tokens} tokens written", f"{one.seconds:g} s"]
    lines = [
        f'<section id="report-{number}">\n<h2>{_text(one.model)} on {_text(one.backend)}</h2>',
        f'<p class="dim">{_text(" · ".join(facts))}</p>',
    ]
    if not one.complete:
        lines.append("<p><strong>Not everything was asked</strong>, for lack of time or tokens.</p>")
    lines.append(_calls(one.calls) if one.calls else "<p>No calls were asked for.</p>")
    if one.settings:
        variables = "\n".join(_text(f"{name}={value}") for name, value in one.settings.items())
        lines.append(f"<h3>Settings that fit</h3>\n<pre>{variables}</pre>")
    rows = [
        [f'<span class="{one.verdict}">{one.verdict}</span>', _text(one.what), _text(one.detail)]
        for one in one.findings
    ]
    if rows:
        inner = _table(["", "What", "Detail"], rows)
        lines.append(f"<details>\n<summary>What the backend can do</summary>\n{inner}\n</details>")
    faults = [[_text(calls.way), _text(fault)] for calls in one.calls for fault in calls.faults]
    if faults:
        lines.append(f"<details>\n<summary>What went wrong</summary>\n{_table(['Way', 'Fault'], faults)}\n</details>")
    if one.questions.prompts:
        items = "".join(f"<li>{_text(prompt)}</li>" for prompt in one.questions.prompts)
        lines.append(f"<details>\n<summary>The prompts</summary>\n<ol>{items}</ol>\n</details>")
    return "\n".join([*lines, "</section>"])


def _calls(calls: Iterable[Calls]) -> str:
    rows = []
    for one in calls:
        fmt = one.format + (f" (writes {one.writes})" if one.writes and one.writes != one.format else "")
        row = [
            _text(cell) for cell in (one.mode, fmt, one.tool_choice, "" if one.constrain == "off" else one.constrain)
        ]
        if one.asked:
            row += [_bar(one), str(one.right), str(one.repaired), str(one.wrong)]
        else:
            row += ["slow" if one.late else "not asked", "", "", ""]
        latency, tokens = one.latency, one.tokens
        row += ["", ""] if latency is None else [_seconds(latency.median), _seconds(latency.longest)]
        row += ["" if count is None else f"{count:g}" for count in (tokens.prompt, tokens.completion)]
        rows.append(row)
    heads = ["Mode", "Format", "tool_choice", "Constraint", "", ">Right", ">Repaired", ">Wrong", ">Median", ">Longest"]
    return _table([*heads, ">Tokens in", ">Tokens out"], rows)


def _bar(calls: Calls) -> str:
    parts = (("right", calls.right), ("repaired", calls.repaired), ("wrong", calls.wrong))
    inner = "".join(
        f'<i class="{name}" style="width:{100 * count / max(calls.asked, 1):.1f}%"></i>'
        for name, count in parts
        if count
    )
    told = ", ".join(f"{count} {name}" for name, count in parts)
    return f'<span class="bar" role="img" aria-label="{told}" title="{told}">{inner}</span>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """`>` before a head: its column holds numbers. The cells are HTML already."""
    numbers = [' class="number"' if head.startswith(">") else "" for head in heads]
    names = "".join(
        f"<th{number}>{escape(head.removeprefix('>'))}</th>" for head, number in zip(heads, numbers, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(f"<td{number}>{cell}</td>" for cell, number in zip(row, numbers, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _text(text: str) -> str:
    """Text as HTML, in one line; what cannot be seen or turns the writing round is written out."""
    return escape(shown(text))


def _seconds(value: float) -> str:
    return f"{value:.2f} s"
