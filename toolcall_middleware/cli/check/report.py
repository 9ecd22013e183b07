"""A check as something that can be published: a folder with a JSON file for each model and backend, and a page.

What is published does not show where the backend is: no address, no path on a disk, no key.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec

from .._console import console
from ..command import UsageError, cut, many, read_file, shown
from .findings import Report
from .table import show

_MOST_TEXT = 300
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]+", re.IGNORECASE)
_MOST_FILES = 500
_INDEX = "index.html"
_COLUMNS = 140
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
    """What may be published of the reports in a folder, by backend and model: `check --json` may have written one.
    Other files are passed over.
    """
    found = []
    for path in sorted(folder.glob("*.json"))[:_MOST_FILES]:
        with contextlib.suppress(UsageError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found.append(document(_DECODER.decode(read_file(str(path)))))
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


# The page: one HTML file that loads nothing and runs nothing. The policy is a second lock after the escaping: nothing
# can be loaded, run or sent, whatever is in the page.

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
:root {{ color-scheme: light dark; }}
body {{ margin: 0 auto; max-width: 1180px; padding: 24px 16px; font-family: system-ui, sans-serif; }}
pre {{ overflow-x: auto; }}
</style>
</head>
<body>
<h1>Tool calls by model, backend, mode and format</h1>
<p>Made by <code>toolcall-middleware check --report</code>. Right: the call that was meant, with arguments that fit, as \
the model or backend wrote it. Repaired: the same, once the middleware had repaired it. Seconds are from a request to the \
end of its answer; tokens are of one answer, on average.</p>
"""  # noqa: E501


def page(reports: Sequence[Report]) -> str:
    """The page as HTML: each report as the terminal shows it. Text of a backend or model is never markup."""
    lines = [_HEADER.format(generator=_GENERATOR, checks=many(len(reports), "check"))]
    for one in reports:
        written = io.StringIO()
        show(one, console(written, width=_COLUMNS))
        lines.append(
            f"<h2>{escape(shown(f'{one.model} on {one.backend}'))}</h2>\n<pre>{escape(written.getvalue())}</pre>\n"
        )
    return "".join([*lines, "</body>\n</html>\n"])
