"""The facts of one request while it is answered, and the interface of its observers.

A `Report` holds facts, no content: what a request and an answer say is a `Recorder`'s (recorder.py), kept only where an
observer asks for it. Times are seconds of `time.perf_counter`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..settings import Settings
from .recorder import Recorder, Room

_REFUSED = 400  # the least status of a refusal
_MODEL_FAULT = 422  # of an answer that is not what the request demands


@dataclass(slots=True)
class Attempt:
    """One request to the backend."""

    why: str
    """`first`, or the code of what led to it."""
    began: float
    first_byte: float | None = None
    """When the first byte of its answer arrived."""
    status: int | None = None


@dataclass(slots=True, kw_only=True)
class Report:
    """One request."""

    id: str = ""
    api: str = "chat"
    """`chat`, `messages`, `responses`, `google` or `other`."""
    path: str = ""
    began: float = field(default_factory=time.perf_counter)
    wall: float = field(default_factory=time.time)
    """When it began, in seconds since 1970."""
    tenant: str | None = None
    upstream: str | None = None
    unreached: list[str] = field(default_factory=list)
    """Upstreams before that one, which could not be reached or said nothing in time."""
    model: str | None = None
    model_listed: bool = False
    """An upstream lists the model."""
    stream: bool = False
    mode: str = "pass"
    """`prompt`, `native`, or `pass` for one that went on unread."""
    format: str | None = None
    constraint: str | None = None
    attempts: list[Attempt] = field(default_factory=list)
    calls: int = 0
    outcomes: tuple[str, ...] = ()
    """Of each finished call."""
    no_call: str | None = None
    """Why the answer holds no call, where tools were offered."""
    rate_units: int = 0
    """Calls that count against the tenant's rate."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    estimated: bool = False
    """Whether any of the numbers is a guess."""
    finish_reasons: list[str] = field(default_factory=list)
    error: str | None = None
    status: int | None = None
    own: float = 0.0
    """Seconds of our own work; the backend's time is not in it."""
    first_content: float | None = None
    first_call: float | None = None
    ended: float | None = None
    end: str = ""
    """`complete`, `gone` (the client left) or `error`; empty while it runs."""
    sent_on: dict[str, str] = field(default_factory=dict)
    """Headers that observers want the backend to get (`traceparent`)."""
    recorder: Recorder | None = None

    def record(self, max_bytes: int, room: Room) -> Recorder:
        """The recorder that all observers share: it keeps as much as one of them wants, within the room of each."""
        if self.recorder is None:
            self.recorder = Recorder(self.began, max_bytes)
        self.recorder.max_bytes = max(self.recorder.max_bytes, max_bytes)
        self.recorder.rooms.append(room)
        return self.recorder

    @property
    def model_answered(self) -> bool:
        """Whether the model wrote an answer, also one that was refused as the model's fault."""
        if self.attempts:
            return any(attempt.status is not None and attempt.status < _REFUSED for attempt in self.attempts)
        ours = self.mode != "pass" and self.status == _MODEL_FAULT  # an unread 422 is the backend's
        return ours or (self.status is not None and self.status < _REFUSED)

    @property
    def upstream_first_byte(self) -> float | None:
        """Seconds from the first question to the first byte of the backend's answer."""
        first = next((one for one in self.attempts if one.first_byte is not None), None)
        return None if first is None or first.first_byte is None else first.first_byte - first.began


class Observer(Protocol):
    """Observes requests. It must be quick, and it never raises."""

    wants_content: bool

    def begin(self, report: Report, headers: Mapping[str, str]) -> None:
        """A request arrived. `headers` are the client's, with names in lower case; they include keys."""

    def end(self, report: Report) -> None:
        """It has ended; the report does not change any more."""


def observers_of(settings: Settings, more: Sequence[Observer] = ()) -> Sequence[Observer]:
    """The observers that the settings ask for, after `more`.

    Raises SettingsError where the extra is not installed that a setting wants.
    """
    found = list(more)
    if settings.metrics != "off":
        from .metrics import shared_metrics

        found.append(shared_metrics())
    if settings.otel:
        from .spans import Spans

        found.append(Spans())
    if settings.trace_dir is not None:
        from .traces import TraceFiles

        found.append(
            TraceFiles(
                Path(settings.trace_dir),
                sample=settings.trace_sample,
                max_bytes=settings.trace_max_bytes,
                max_total=settings.trace_dir_max_bytes,
            )
        )
    return found
