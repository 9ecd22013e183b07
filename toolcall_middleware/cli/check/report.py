"""A check as something that can be published: a folder with a JSON file for each model and backend, and a page.

What is published says nothing of where the backend is: no address, no path on a disk, no key.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec

from ..command import UsageError, cut, many, shown
from .findings import Finding, Report, Score

_MOST_TEXT = 300
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]+", re.IGNORECASE)
_MOST_BYTES = 8 << 20
"""Of one file: a report has some ten thousand."""
_MOST_FILES = 500
_INDEX = "index.html"
_HEAD = 2000
"""Characters of a page in which it says whose it is."""
_GENERATOR = "toolcall-middleware check"
_DECODER = msgspec.json.Decoder(Report)


def prepare(folder: Path) -> None:
    """Creates the folder if it is missing. Raises UsageError where it cannot, or where the folder has another program's
    page. Called before a check, so that its result is not lost.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, "it cannot be written")
        index = folder / _INDEX
        if index.exists() and _GENERATOR not in index.read_text("utf-8", "replace")[:_HEAD]:
            raise UsageError(f"--report {folder}: the {_INDEX} there is not ours; give another folder.")
    except OSError as error:
        raise UsageError(f"--report {folder}: {error.strerror or error}") from None


def publish(report: Report, folder: Path) -> Path:
    """Adds `report` to the folder in place of an earlier one of the same model and backend. The page's path.

    Raises UsageError where that cannot be written.
    """
    made = document(report)
    try:
        _write(folder / f"{_name(made)}.json", msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n")
        _write(folder / _INDEX, page(read_folder(folder)))
    except OSError as error:
        raise UsageError(f"--report {folder}: {error.strerror or error}") from None
    return folder / _INDEX


def document(report: Report) -> Report:
    """What of `report` may be published."""
    names = {path: _name_of(path) for path in (report.model, report.template) if path}

    def tidy(text: str) -> str:
        """Text of a backend or model as one short line without addresses and paths."""
        for path, name in names.items():
            text = text.replace(path, name)
        return cut(shown(_ADDRESS.sub("(address)", text)), _MOST_TEXT)

    return msgspec.structs.replace(
        report,
        upstream=None,
        models=[],
        template=None,
        model=tidy(report.model),
        backend=tidy(report.backend),
        questions=msgspec.structs.replace(report.questions, source=tidy(report.questions.source)),
        calls=[msgspec.structs.replace(one, faults=[*map(tidy, one.faults)]) for one in report.calls],
        findings=[msgspec.structs.replace(one, detail=tidy(one.detail)) for one in report.findings],
        settings={name: tidy(value) for name, value in report.settings.items()},
    )


def _name_of(path: str) -> str:
    """A model's name without folders: llama.cpp names a model by the path of its file."""
    if not (path.startswith(("/", "~", ".")) or re.match(r"[A-Za-z]:[\\/]", path)):
        return path
    return (PureWindowsPath(path) if "\\" in path else PurePosixPath(path)).name or path


def read_folder(folder: Path) -> list[Report]:
    """The reports in a folder, by backend and model. Files that are none are passed over."""
    found = []
    for path in sorted(folder.glob("*.json"))[:_MOST_FILES]:
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            if len(data) <= _MOST_BYTES:
                found.append(_DECODER.decode(data))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return sorted(found, key=lambda one: (one.backend.lower(), one.model.lower(), one.api, one.questions.source))


def _name(made: Report) -> str:
    """The name of a report's file: readable, and another one for whatever is not the same check."""
    parts = [made.backend, made.model]
    parts += [made.api] if made.api != "chat" else []
    parts += [made.questions.source] if made.questions.source != "built-in" else []
    readable = "-".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.")[:60] or "x" for part in parts)
    return f"{readable}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:8]}"


def _write(path: Path, text: str) -> None:
    """As a whole or not at all: a page that is being served is never half a page."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, "utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


# The page: one HTML file that loads nothing, runs nothing, and reads well in the dark. The policy is a second lock
# after the escaping: nothing can be loaded, run or sent, whatever is in the page.

_HEADER = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="{generator}">
<title>Tool calls: {checks}</title>
<style>
{style}</style>
</head>
<body>
<h1>Tool calls by model, backend, mode and format</h1>
<p class="dim">Made by <code>toolcall-middleware check --report</code>. Right: the call that was meant, with arguments \
that fit, as the model or backend wrote it. Repaired: the same, once the middleware had repaired it. Latency is from a \
request to the end of its answer; tokens are of one answer, on average.</p>
<p class="dim"><span class="key right"></span>right<span class="key repaired"></span>repaired\
<span class="key wrong"></span>wrong</p>"""  # noqa: E501


def page(reports: Sequence[Report]) -> str:
    """The page as HTML. What it shows of a backend or model is text, never markup."""
    style = resources.files(__package__).joinpath("style.css").read_text("utf-8")
    lines = [_HEADER.format(generator=_GENERATOR, checks=many(len(reports), "check"), style=style)]
    if len(reports) > 1:
        rows = [_overview(number, one) for number, one in enumerate(reports)]
        table = _table(["Model", "Backend", "Best way", "", ">Right", ">Median"], rows)
        lines.append(f"<section>\n<h2>Overview</h2>\n{table}\n</section>")
    lines += [_section(number, one) for number, one in enumerate(reports)]
    return "\n".join([*lines, "</body>\n</html>", ""])


def _overview(number: int, one: Report) -> list[str]:
    tried = [score for score in one.calls if score.asked]
    best = max(tried, key=lambda score: (score.came / score.asked, score.right / score.asked), default=None)
    start = [f'<a href="#report-{number}">{_text(one.model)}</a>', _text(one.backend)]
    if best is None:
        return [*start, "nothing was tried", "", "", ""]
    median = "" if best.latency is None else _seconds(best.latency.median)
    return [*start, _text(_way(best)), _bar(best), f"{best.came}/{best.asked}", median]


def _way(score: Score) -> str:
    """The way in words, without the counts."""
    constrained = "" if score.constrain == "off" else f"{' with choose' * score.choose} by {score.constrain}"
    return f"{score.mode} {score.format}".rstrip() + f", {score.tool_choice}{constrained}"


def _section(number: int, one: Report) -> str:
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
    faults = [[_text(_way(score)), _text(fault)] for score in one.calls for fault in score.faults]
    for summary, heads, rows in (
        ("What the backend can do", ["", "What", "Detail"], [_finding(found) for found in one.findings]),
        ("What went wrong", ["Way", "Fault"], faults),
        ("The prompts", ["Prompt"], [[_text(prompt)] for prompt in one.questions.prompts]),
    ):
        if rows:
            lines.append(f"<details>\n<summary>{summary}</summary>\n{_table(heads, rows)}\n</details>")
    return "\n".join([*lines, "</section>"])


def _finding(one: Finding) -> list[str]:
    verdict = one.verdict.value
    return [f'<span class="{verdict}">{verdict}</span>', _text(one.what), _text(one.detail)]


def _calls(scores: Iterable[Score]) -> str:
    rows = []
    for one in scores:
        fmt = one.format + (f" (writes {one.writes})" if one.writes and one.writes != one.format else "")
        choice = f"{one.tool_choice}{', choose' * one.choose}"
        row = [*map(_text, (one.mode, fmt, choice, "" if one.constrain == "off" else one.constrain))]
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


def _bar(score: Score) -> str:
    parts = {"right": score.right, "repaired": score.repaired, "wrong": score.wrong}
    inner = "".join(
        f'<i class="{name}" style="width:{100 * count / max(score.asked, 1):.1f}%"></i>'
        for name, count in parts.items()
        if count
    )
    told = ", ".join(f"{count} {name}" for name, count in parts.items())
    return f'<span class="bar" role="img" aria-label="{told}" title="{told}">{inner}</span>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """`>` before a head: its column holds numbers. The cells are HTML already."""
    numbers = [' class="number"' if head.startswith(">") else "" for head in heads]

    def row(tag: str, cells: Sequence[str]) -> str:
        return "".join(f"<{tag}{number}>{cell}</{tag}>" for cell, number in zip(cells, numbers, strict=True))

    names = row("th", [escape(head.removeprefix(">")) for head in heads])
    body = "\n".join(f"<tr>{row('td', cells)}</tr>" for cells in rows)
    return f'<div class="wide"><table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _text(text: str) -> str:
    """Text as HTML, in one line; what cannot be seen or turns the writing round is written out."""
    return escape(shown(text))


def _seconds(value: float) -> str:
    return f"{value:.2f} s"
