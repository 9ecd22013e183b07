"""The folder of reports: one JSON file for each model and backend, and a page over all of them."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import os
import re
from pathlib import Path

import msgspec

from ...command import UsageError
from ..findings import Report
from .document import Document, document
from .page import GENERATOR, page

_MOST_BYTES = 8 << 20
"""Of one file: a report has some ten thousand."""
_MOST_FILES = 500
_INDEX = "index.html"
_HEAD = 2000
"""Characters of a page in which it says whose it is."""
_DECODER = msgspec.json.Decoder(Document)


def prepare(folder: Path) -> None:
    """Makes the folder where there is none. Raises UsageError where it cannot be, or holds a page
    of somebody else: before a check, not after it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, "it cannot be written")
        index = folder / _INDEX
        if index.exists() and GENERATOR not in index.read_text("utf-8", "replace")[:_HEAD]:
            raise UsageError(f"--report {folder}: the {_INDEX} there is not ours; give another folder.")
    except OSError as error:
        raise UsageError(f"--report {folder}: {error.strerror or error}") from None


def publish(report: Report, folder: Path) -> Path:
    """Adds `report` to the folder in place of an earlier one of the same model and backend. The page's path.

    Raises UsageError where that cannot be written.
    """
    made = document(report, today=dt.datetime.now(dt.UTC).date())
    index = folder / _INDEX
    try:
        _write(folder / f"{_name(made)}.json", msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n")
        _write(index, page(read_folder(folder)))
    except OSError as error:
        raise UsageError(f"--report {folder}: {error.strerror or error}") from None
    return index


def read_folder(folder: Path) -> list[Document]:
    """The reports in a folder, by backend and model. Files that are none are passed over."""
    found = []
    for path in sorted(folder.glob("*.json"))[:_MOST_FILES]:
        try:
            found.append(_read(path))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            continue
    return sorted(found, key=lambda one: (one.backend.lower(), one.model.lower(), one.api, one.questions.source))


def _read(path: Path) -> Document:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is longer than {_MOST_BYTES >> 20} MiB")
    return _DECODER.decode(data)


def _name(made: Document) -> str:
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
