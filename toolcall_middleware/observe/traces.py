"""Exchanges as files of JSON lines: one file a request, written when it has ended, and read again by `replay` and
`inspect`.

The first line is the head (`toolcall_trace` is the version of the form), then the recorder's rows, last the report.
Headers are not in it, so that no key is.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import random
import re
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..errors import SettingsError
from ..wire.json_input import without_lone_surrogates
from ..wire.openai import encode
from .report import Report, Room, Row

_log = logging.getLogger("toolcall_middleware")

VERSION = 1
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_OURS = re.compile(r"\d{8}T\d{6}-", re.ASCII)
_MAX_READ = 256 << 20
_MAX_WAITING = 64
_SUMMARY = (
    "id", "time", "api", "path", "tenant", "upstream", "model", "stream", "mode", "format", "constraint", "attempts",
    "calls", "outcomes", "no_call", "prompt_tokens", "completion_tokens", "estimated", "finish_reasons", "error",
    "status", "own", "first_content", "first_call", "ended", "end",
)  # fmt: skip
"""What a trace has of a report, in this order."""
_ENCODE = msgspec.json.Encoder().encode


class TraceError(ValueError):
    """A file that is not a trace. The message gives the reason."""


@dataclass(slots=True)
class Trace:
    """One exchange, finished or still running. `summary`: see `summary_of`."""

    summary: dict[str, Any]
    rows: list[Row] = field(default_factory=list)

    def encode(self) -> bytes:
        """As JSON lines."""
        head = {"toolcall_trace": VERSION, "id": self.summary.get("id"), "time": self.summary.get("time")}
        return b"".join(_line(row) for row in (head, *self.rows, {"kind": "end", **self.summary}))


def _line(row: Row) -> bytes:
    try:
        return _ENCODE(row) + b"\n"
    except UnicodeEncodeError:  # a step of the answer with half of a surrogate pair
        return without_lone_surrogates(encode(row)) + b"\n"


def summary_of(report: Report) -> dict[str, Any]:
    """A report as JSON: milliseconds since the request came."""

    def ms(at: float | None) -> float | None:
        return None if at is None else round((at - report.began) * 1000, 3)

    converted: dict[str, Any] = {name: ms(getattr(report, name)) for name in ("first_content", "first_call", "ended")}
    converted |= {"time": report.wall, "own": round(report.own * 1000, 3), "outcomes": list(report.outcomes)}
    converted["attempts"] = [
        {"why": one.why, "at": ms(one.began), "first_byte": ms(one.first_byte), "status": one.status}
        for one in report.attempts
    ]
    return {name: converted[name] if name in converted else getattr(report, name) for name in _SUMMARY}


def is_trace(data: bytes) -> bool:
    """Whether a file that begins with `data` is a trace."""
    return data.lstrip().startswith(b'{"toolcall_trace":')


def read_trace(data: bytes) -> Trace:
    """The trace in a file. Raises TraceError."""
    if len(data) > _MAX_READ:
        raise TraceError(f"longer than {_MAX_READ} bytes")
    if not is_trace(data):
        raise TraceError("no trace: its first line lacks `toolcall_trace`")
    rows: list[Row] = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = msgspec.json.decode(line) if line.strip() else None
        except (msgspec.DecodeError, RecursionError) as error:
            raise TraceError(f"line {number}: {error}") from None
        if isinstance(row, dict):
            rows.append(row)
    if rows[0]["toolcall_trace"] != VERSION:
        raise TraceError(f"a trace of the version {rows[0]['toolcall_trace']}; this is {VERSION}")
    summary = rows.pop() if rows[-1].get("kind") == "end" else dict(rows[0])
    summary.pop("kind", None)
    try:
        msgspec.convert(summary, _Summary)
    except msgspec.ValidationError as error:
        raise TraceError(f"the trace's summary: {error}") from None
    return Trace(summary, [row for row in rows[1:] if _makes_sense(row)])


class _Summary(msgspec.Struct):
    """The types of what is shown of a summary."""

    time: float | None = None
    outcomes: list[str] | None = None
    finish_reasons: list[str] | None = None
    completion_tokens: int | None = None


class _Row(msgspec.Struct):
    """The types of what is read of a row."""

    at: float
    kind: str
    data: str = ""
    step: str = ""
    index: int = 0
    text: str = ""


_NEEDED = {
    "request": {"data"}, "face_request": {"data"}, "decision": {"what", "value"}, "text": {"text"},
    "reasoning": {"text"}, "call": {"index", "id", "name"}, "arguments": {"index", "text"}, "finish": {"reason"},
}  # fmt: skip
"""What a row of a kind, or a step, cannot be without."""


def _makes_sense(row: Row) -> bool:
    """Whether a row is as a recorder writes it: the file may have been changed."""
    try:
        read = msgspec.convert(row, _Row)
    except msgspec.ValidationError:
        return False
    return row.keys() >= _NEEDED.get(read.step or read.kind, frozenset())


class TraceFiles:
    """An observer that writes a file for each request with content, or for a share of them (`sample`, 0 to 1).

    max_bytes: of one file. max_total: of the folder, whose oldest files make room. Raises SettingsError for a folder
    that cannot be written.
    """

    wants_content = True

    def __init__(self, folder: Path, *, sample: float, max_bytes: int, max_total: int | None = None) -> None:
        self._folder = folder
        self._max_total = max_total
        self._written = 0  # bytes, since the folder was looked at
        # Checked at start: a request would not fail later, and the missing traces would be noticed too late.
        try:
            self._make_folder()
        except OSError as error:
            why = "it is no folder" if folder.exists() else error.strerror
            raise SettingsError(f"trace_dir: {folder} cannot be written: {why}.") from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise SettingsError(f"trace_dir: {folder} cannot be written: {os.strerror(errno.EACCES)}.")
        for part in folder.glob("*.part"):  # of a process that ended in the middle of a file
            _remove(part)
        self._drop_oldest()
        self._sample = sample
        self._max_bytes = max_bytes
        self._random = random.Random()  # noqa: S311 - which ones are kept is no secret
        self._kept: set[int] = set()
        self._room = Room()
        self._writer = ThreadPoolExecutor(1, "toolcall-traces")
        self._writing: set[Future[None]] = set()

    def begin(self, report: Report, headers: Mapping[str, str]) -> None:  # noqa: ARG002 - as an observer
        """Decide whether this one is kept."""
        if self._sample < 1 and self._random.random() >= self._sample:
            return
        self._kept.add(id(report))
        report.record(self._max_bytes, self._room)

    def end(self, report: Report) -> None:
        """Write it, beside the event loop."""
        if id(report) not in self._kept:
            return
        self._kept.discard(id(report))
        recorder = report.recorder
        if recorder is None:
            return
        trace = Trace(summary_of(report), recorder.rows)
        if not recorder.rows or len(self._writing) >= _MAX_WAITING:  # the disk is slower than the model
            self._write(trace, recorder.held)
            return
        writing = self._writer.submit(self._write, trace, recorder.held)
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)

    def flush(self) -> None:
        """Wait for the traces that are being written."""
        wait(list(self._writing))

    def _make_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _write(self, trace: Trace, held: int) -> None:
        """Write a trace that has rows, and give back the memory that it held."""
        try:
            if trace.rows:
                self._write_file(trace)
        finally:
            self._room.take(-held)

    def _write_file(self, trace: Trace) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(trace.summary["time"]))
        name = _UNSAFE.sub("_", trace.summary["id"])[:96]
        path = self._folder / f"{stamp}-{name}.jsonl"
        try:
            self._make_folder()
            path, part = self._new(path)
            try:
                self._written += part.write_bytes(trace.encode())
                part.replace(path)
            except BaseException:
                _remove(part)
                raise
        except OSError as error:
            _log.warning("trace_dir: %s cannot be written: %s", path, error.strerror)
        if self._max_total is not None and self._written > self._max_total // 16:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Remove the oldest traces of the folder beyond its bound. Other workers may write there, and do the same.

        One that is written between two looks is counted at the next, so that the folder holds at most a sixteenth more
        for each worker.
        """
        self._written = 0
        if self._max_total is None:
            return
        left = self._max_total - self._max_total // 16
        # By name, which begins with the time. Files with other names are not traces.
        for path in sorted((path for path in self._folder.glob("*.jsonl") if _OURS.match(path.name)), reverse=True):
            try:
                left -= path.lstat().st_size
            except OSError:  # another worker has removed it
                continue
            if left < 0:
                _remove(path)

    def _new(self, path: Path) -> tuple[Path, Path]:
        """(`path`, or one with a number where it is taken, the file beside it to write first, which is ours alone).

        A client chooses its request's id, and may use one again in the same second. Raises OSError.
        """
        stem = path.stem
        for number in itertools.count(2):
            part = path.with_suffix(".part")
            if not os.path.lexists(path):
                with contextlib.suppress(FileExistsError):
                    part.touch(mode=0o600, exist_ok=False)  # it keeps the name: other workers write here, too
                    if not os.path.lexists(path):
                        break
                    part.unlink()
            path = path.with_name(f"{stem}-{number}.jsonl")
        return path, part


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("trace_dir: %s cannot be removed: %s", path, error.strerror)
