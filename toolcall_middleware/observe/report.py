"""The facts of one request while it is answered, and the interface of its observers.

A `Report` holds facts, no content. A `Recorder` keeps the content of the request and its answer in the order in which
it was received and sent, bounded in bytes, if an observer asks for it. Times are seconds of `time.perf_counter`.

A recorded row is a JSON object with `at` (milliseconds since the request arrived) and `kind`:
`request`, `settings` (`values` other than defaults, and what was `known` of the backend), `ask` (the body for the
backend), `head`, `backend` (a piece of its answer), `client` (a piece of ours; `of` is the row of the backend's
piece that caused it), `decision` (`what`, `value`, `why`), `error`, `cut`.
Where a client speaks another API than chat completions, `request` is the chat form of its request, and a `client` row
is a step of the answer: `step` is text, reasoning, refusal, call, arguments or finish. Two more kinds hold that API's
own bytes: `face_request` (`api` names the API) and `face` (a piece of the answer).
"""

from __future__ import annotations

import codecs
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..settings import Settings

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


Row = dict[str, Any]

MAX_BYTES = 16 << 20
_ROW = 96  # bytes of a row in a file beside its data, about
_ROW_HELD = 320  # the same in memory, measured
MAX_HELD = 256 << 20
IN_PIECES = frozenset({"backend", "client", "face"})
"""The kinds of rows whose data are pieces of an answer."""
_new_decoder = codecs.getincrementaldecoder("utf-8")


class Room:
    """Memory that exchanges hold together. Their recorders count it as they grow, also while the exchanges run.

    An observer gives it back when it lets go of an exchange, from whatever thread.
    """

    def __init__(self, most: int = MAX_HELD) -> None:
        self.most = most
        self.taken = 0
        self._lock = threading.Lock()

    def fits(self, size: int) -> bool:
        """Whether there is room for `size` bytes more."""
        return self.taken + size <= self.most

    def take(self, size: int) -> None:
        """Count `size` bytes, or give them back where it is negative."""
        with self._lock:
            self.taken += size


class Recorder:
    """The rows of one exchange. Past `max_bytes`, or where one of `rooms` is full, a row `cut` is the last one.

    began: `time.perf_counter` when the request came. hide: removes keys from the rows that follow; the code that asks
    an upstream with a key sets it, because upstreams quote keys.
    """

    __slots__ = ("_decoders", "began", "cut", "held", "hide", "max_bytes", "rooms", "rows", "size")

    def __init__(self, began: float, max_bytes: int = MAX_BYTES) -> None:
        self.began = began
        self.max_bytes = max_bytes
        self.rows: list[Row] = []
        self.size = 0
        self.rooms: list[Room] = []
        self.held = 0
        """Bytes of memory, as each of `rooms` counts them."""
        self.cut = False
        # For content in pieces, by kind of row: a piece may end within a character.
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self.hide: Callable[[bytes], bytes] | None = None

    def data(self, kind: str, data: bytes, at: float | None = None, **more: Any) -> int:
        """A row with content; returns its number. Bytes that are no UTF-8 are replaced. A character that is split
        between two pieces of a kind is whole in the second piece's row.
        """
        if self.size + len(data) + _ROW > self.max_bytes:
            self._cut(f"longer than {self.max_bytes} bytes")
            return len(self.rows) - 1
        if kind == "ask":
            self._decoders.pop("backend", None)  # another answer begins
        decoder = self._decoders.get(kind) or self._decoders.setdefault(kind, _new_decoder(errors="replace"))
        return self.note(kind, at, data=decoder.decode(data, final=kind not in IN_PIECES), **more)

    def note(self, kind: str, at: float | None = None, **more: Any) -> int:
        """A row; returns its number."""
        if self.cut:
            return len(self.rows) - 1
        if (hide := self.hide) is not None:
            more = {name: _without(value, hide) if isinstance(value, str) else value for name, value in more.items()}
        texts = [value for value in more.values() if isinstance(value, str)]
        size = _ROW + sum(map(len, texts))
        if self.size + size > self.max_bytes:
            self._cut(f"longer than {self.max_bytes} bytes")
            return len(self.rows) - 1
        held = _ROW_HELD + sum(map(sys.getsizeof, texts))
        if not all(room.fits(held) for room in self.rooms):
            self._cut("all exchanges that run hold too much")
            return len(self.rows) - 1
        for room in self.rooms:
            room.take(held)
        self.held += held
        self.size += size
        now = time.perf_counter() if at is None else at
        self.rows.append({"at": round((now - self.began) * 1000, 3), "kind": kind, **more})
        return len(self.rows) - 1

    def _cut(self, why: str) -> None:
        if not self.cut:
            self.cut = True
            at = round((time.perf_counter() - self.began) * 1000, 3)
            self.rows.append({"at": at, "kind": "cut", "why": why})


def _without(text: str, hide: Callable[[bytes], bytes]) -> str:
    return hide(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
