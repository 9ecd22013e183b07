"""The published form of a check: what is in it, and what is kept out of it.

It says nothing of where the backend is: no address, no path on a disk, no key. Of prompts it has the built-in ones.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final, Literal

import msgspec

from .... import __version__
from ..findings import Report, Score
from ..table import shown
from ..trials import written_by

KIND: Final = "toolcall-middleware check 1"
"""Marks the files; the number rises when a field changes its meaning."""
_MOST_TEXT = 300
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]+", re.IGNORECASE)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from a request to the end of its answer."""

    median: float
    longest: float


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Of one answer, on average; None where the backend does not say."""

    prompt: float | None = None
    completion: float | None = None


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """How one way of asking came out. `right`, `repaired` and `wrong` add up to `asked`.

    writes: the format that the prompt teaches; empty for `native`. right: as it should be, without our help. repaired:
    the same, once the middleware had repaired it. wrong: the rest. late: prompts without an answer in time, not in
    `asked`.
    """

    mode: str
    format: str
    writes: str
    tool_choice: str
    constrain: str
    asked: int
    right: int
    repaired: int
    wrong: int
    late: int
    latency: Latency | None = None
    tokens: Tokens = Tokens()
    faults: tuple[str, ...] = ()

    @property
    def way(self) -> str:
        """The way in words, without the counts."""
        constrained = "" if self.constrain == "off" else f" by {self.constrain}"
        return f"{self.mode}{' ' if self.format else ''}{self.format}, {self.tool_choice}{constrained}"

    @property
    def score(self) -> tuple[float, float]:
        """The share of calls that came out right, then the share that needed no repair. Times differ by themselves."""
        asked = max(self.asked, 1)
        return (self.right + self.repaired) / asked, self.right / asked


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the backend can do or not."""

    key: str
    what: str
    verdict: Literal["yes", "partly", "no", "unknown"]
    detail: str = ""


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked. `digest` is the same for the same questions. `prompts`: in full, for the built-in ones only."""

    source: str
    asked: int
    digest: str
    prompts: tuple[str, ...] = ()


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One check of one model on one backend."""

    kind: Literal["toolcall-middleware check 1"]
    version: str
    date: str
    model: str
    backend: str
    api: str
    questions: Questions
    calls: tuple[Calls, ...]
    findings: tuple[Found, ...]
    settings: dict[str, str]
    requests: int
    tokens: int
    seconds: float
    complete: bool


def document(report: Report, *, today: dt.date) -> Document:
    """What of `report` may be published."""
    tidy = _Tidy(report.model)
    built_in = report.source == "built-in"
    labels = tuple(report.questions)
    digest = hashlib.sha256("\n".join((report.source, *labels)).encode()).hexdigest()[:16]
    return Document(
        kind=KIND,
        version=__version__,
        date=today.isoformat(),
        model=tidy.model,
        backend=tidy(report.backend),
        api=report.api,
        questions=Questions(
            source=tidy(report.source), asked=len(labels), digest=digest, prompts=labels if built_in else ()
        ),
        calls=tuple(_calls(score, report, tidy) for score in report.scores),
        findings=tuple(
            Found(key=one.key, what=one.what, verdict=one.verdict.value, detail=tidy(one.detail))
            for one in report.findings
        ),
        settings=report.settings,
        requests=report.requests,
        tokens=report.tokens,
        seconds=round(report.seconds, 1),
        complete=report.complete,
    )


def _calls(score: Score, report: Report, tidy: _Tidy) -> Calls:
    latency = score.latency
    return Calls(
        mode=score.mode,
        format=score.format,
        writes=written_by(report.model, score.format, report.template) if score.format else "",
        tool_choice=score.tool_choice,
        constrain=score.constrain,
        asked=score.asked,
        right=score.right - score.repaired,
        repaired=score.repaired,
        wrong=score.asked - score.right,
        late=score.late,
        latency=None if latency is None else Latency(**latency),
        tokens=Tokens(**score.tokens),
        faults=tuple(map(tidy, score.faults)),
    )


class _Tidy:
    """Makes text of a backend or model fit to be published: one short line without addresses and paths."""

    def __init__(self, model: str) -> None:
        self._path = model
        # llama.cpp names a model by the path of its file.
        is_path = model.startswith(("/", "~", ".")) or re.match(r"[A-Za-z]:[\\/]", model)
        name = PureWindowsPath(model).name if "\\" in model else PurePosixPath(model).name
        self.model = _short(shown(name if is_path and name else model))

    def __call__(self, text: str) -> str:
        text = text.replace(self._path, self.model)
        return _short(shown(_ADDRESS.sub("(address)", text)))


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
