"""What a check finds out. Values only; how they are shown is table.py's business."""

from __future__ import annotations

import enum
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any


class Verdict(enum.Enum):
    """The answer to one question about a backend."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `key` is stable, for programs; `detail` is for people and may quote the backend."""

    key: str
    what: str
    verdict: Verdict
    detail: str = ""


@dataclass(slots=True)
class Score:
    """How the calls of one mode, format and `tool_choice` came out, in numbers of prompts."""

    mode: str
    format: str
    tool_choice: str
    constrain: str = "off"
    asked: int = 0
    """Those that were answered at all."""
    valid: int = 0
    """An offered tool was called, with arguments that fit."""
    right: int = 0
    """The tool was the one that was meant."""
    repaired: int = 0
    """The answer is right, and the middleware had to repair a call of it."""
    late: int = 0
    """No answer came in time."""
    faults: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of each answer, to its end."""
    prompt_tokens: list[int] = field(default_factory=list)
    """Of each answer that says so."""
    completion_tokens: int = 0
    """Of all answers."""

    @property
    def latency(self) -> dict[str, float] | None:
        """The median and the longest time to an answer, in seconds; None where there is no answer."""
        if not self.seconds:
            return None
        return {"median": round(statistics.median(self.seconds), 3), "longest": round(max(self.seconds), 3)}

    @property
    def tokens(self) -> dict[str, float | None]:
        """Of an answer on average, where it is known."""
        return {
            "prompt": round(statistics.fmean(self.prompt_tokens), 1) if self.prompt_tokens else None,
            "completion": round(self.completion_tokens / self.asked, 1) if self.asked else None,
        }

    def as_json(self) -> dict[str, Any]:
        """The score as JSON values, with figures for its lists."""
        sums = {"seconds", "prompt_tokens", "completion_tokens"}
        kept = {name: value for name, value in asdict(self).items() if name not in sums}
        return {**kept, "latency": self.latency, "tokens": self.tokens}


@dataclass(slots=True)
class Report:
    """All of it. `complete` is false where time or tokens were used up before everything was asked."""

    upstream: str
    model: str
    models: list[str]
    backend: str = ""
    """What the backend is, for readers who must not know its address."""
    api: str = "chat"
    source: str = "built-in"
    questions: list[str] = field(default_factory=list)
    """The labels of the prompts for calls."""
    template: str | None = None
    """The setting that was tried."""
    findings: list[Finding] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    requests: int = 0
    tokens: int = 0
    seconds: float = 0.0
    complete: bool = True

    def verdict(self, key: str) -> Verdict:
        """The verdict of a finding; UNKNOWN where it was not asked."""
        return next((finding.verdict for finding in self.findings if finding.key == key), Verdict.UNKNOWN)

    @property
    def calls_come_right(self) -> bool:
        """Whether there is any way in which a call came out right."""
        return any(score.right for score in self.scores)

    @property
    def calls_were_tried(self) -> bool:
        """Whether any prompt for a call was answered at all."""
        return any(score.asked for score in self.scores)

    def as_json(self) -> dict[str, Any]:
        """The whole report as JSON values."""
        return {
            "upstream": self.upstream,
            "backend": self.backend,
            "model": self.model,
            "models": self.models,
            "findings": [
                {"key": one.key, "what": one.what, "verdict": one.verdict.value, "detail": one.detail}
                for one in self.findings
            ],
            "calls": [score.as_json() for score in self.scores],
            "settings": self.settings,
            "requests": self.requests,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
            "complete": self.complete,
        }
