"""What a check finds out: a report, which is also the JSON that `--json` prints and `--report` writes."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec


class Verdict(enum.Enum):
    """The answer to one question about a backend."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    UNKNOWN = "unknown"


class Finding(msgspec.Struct, frozen=True):
    """One line. `key` is stable, for programs; `detail` is for people and may quote the backend."""

    key: str
    what: str
    verdict: Verdict
    detail: str = ""


class Latency(msgspec.Struct, frozen=True):
    """Seconds from a request to the end of its answer."""

    median: float
    longest: float


class Tokens(msgspec.Struct, frozen=True):
    """Of one answer, on average; None where the backend does not say."""

    prompt: float | None = None
    completion: float | None = None


class Score(msgspec.Struct):
    """How the calls of one mode, format and `tool_choice` came out, in numbers of prompts.

    writes: the format that the prompt teaches; empty for `native`. choose: with the setting of that name. asked: those
    that were answered at all. valid: an offered tool was called, with arguments that fit. right: the tool was the one
    that was meant, without our help. repaired: the same, once the middleware had repaired it. wrong: the rest of those
    asked. late: no answer came in time.
    """

    mode: str
    format: str
    tool_choice: str
    constrain: str = "off"
    writes: str = ""
    choose: bool = False
    asked: int = 0
    valid: int = 0
    right: int = 0
    repaired: int = 0
    wrong: int = 0
    late: int = 0
    latency: Latency | None = None
    tokens: Tokens = Tokens()
    faults: list[str] = []

    @property
    def came(self) -> int:
        """The calls that a client gets as they were meant."""
        return self.right + self.repaired

    @property
    def title(self) -> str:
        """Mode and format in words."""
        if not self.format:
            return self.mode
        return f"{self.mode}, format={self.format}" + (f" (writes {self.writes})" * (self.writes != self.format))


class Questions(msgspec.Struct, frozen=True):
    """What was asked for calls. `prompts`: only the built-in ones."""

    source: str = "built-in"
    asked: int = 0
    prompts: tuple[str, ...] = ()


class Report(msgspec.Struct, kw_only=True):
    """One check of one model on one backend.

    kind: marks the files; its number rises when a field changes its meaning. upstream, models, template: None or empty
    in a report that is published. backend: what it is, for readers who must not know its address. reasons: by setting.
    complete: false where time or tokens were used up before everything was asked.
    """

    kind: Literal["toolcall-middleware check 1"] = "toolcall-middleware check 1"
    version: str
    date: str
    upstream: str | None = None
    model: str
    models: list[str] = []
    backend: str
    api: str = "chat"
    questions: Questions = Questions()
    template: str | None = None
    calls: list[Score] = []
    findings: list[Finding] = []
    settings: dict[str, str] = {}
    reasons: dict[str, str] = {}
    requests: int = 0
    tokens: int = 0
    seconds: float = 0.0
    complete: bool = True

    def verdict(self, key: str) -> Verdict:
        """The verdict of a finding; UNKNOWN where it was not asked."""
        return next((finding.verdict for finding in self.findings if finding.key == key), Verdict.UNKNOWN)
