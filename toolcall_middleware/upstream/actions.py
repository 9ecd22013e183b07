"""What an exchange and its host tell each other: events go in, actions come out, and the states between them.

An event is what has happened at the host; an action is what the host is to do, in order. None of them does I/O, and
none of them says more than its fields: a host knows no more of an answer than these.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ..errors import ToolCallError
from ..usage.meter import UsageMeter

if TYPE_CHECKING:
    from .backend_memory import PendingProof
    from .raw_prompt import PendingPrompt

Headers = list[tuple[bytes, bytes]]


class State(enum.Enum):
    """Where an exchange is."""

    NEW = "new"  # no request has come
    LEARNING = "learning"  # evidence is looked for before the backend is asked
    WAITING = "waiting"  # the backend is asked, and has not answered
    SNIFFING = "sniffing"  # its first bytes will tell whether it streams
    COLLECTING = "collecting"  # its answer is kept until it is complete
    STREAMING = "streaming"  # its stream is rewritten piece by piece
    TAPPING = "tapping"  # its stream goes on as it is, and is counted
    PASSING = "passing"  # its answer goes on unread
    COUNTING = "counting"  # the end of the answer waits for a count of tokens
    ENDED = "ended"  # nothing more leaves


# -- events ----------------------------------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True, gc=False):
    """The client's request has come. `body` is all of it."""

    body: bytes


class Learned(msgspec.Struct, frozen=True, gc=False):
    """What `Learn` asked for is done."""


class Head(msgspec.Struct, frozen=True):
    """The backend begins to answer."""

    status: int
    headers: Headers


class Body(msgspec.Struct, frozen=True, gc=False):
    """More of the backend's answer, decoded. `last`: that was all."""

    data: bytes
    last: bool = False


class BrokenOff(msgspec.Struct, frozen=True, gc=False):
    """The backend is gone in the middle of its answer. `raised`: with an exception that a server will see."""

    raised: bool = False


class Failed(msgspec.Struct, frozen=True):
    """The backend failed, and says what the client is to be told. No action: this answer is none of ours."""

    error: ToolCallError


class Undecodable(msgspec.Struct, frozen=True):
    """The backend's content coding cannot be undone."""

    error: ToolCallError


class Counted(msgspec.Struct, frozen=True, gc=False):
    """What `Count` asked for is done."""


Event = Request | Learned | Head | Body | BrokenOff | Failed | Undecodable | Counted


# -- actions ---------------------------------------------------------------------------------------------------------


class Pass(msgspec.Struct, frozen=True, gc=False):
    """The request is none of ours: hand it on as it came, and its answer too. No event follows."""


class Learn(msgspec.Struct, frozen=True):
    """Ask the backend's questions of the proof, let it learn from the answers, and tell `Learned`."""

    proof: PendingProof


class Ask(msgspec.Struct, frozen=True, gc=False):
    """Ask the backend with this body, once the answer at hand is over.

    prompt: it is to be written first, and the backend asked for a text completion.
    """

    body: bytes
    prompt: PendingPrompt | None = None


class Decode(msgspec.Struct, frozen=True, gc=False):
    """Undo this content coding of what comes, up to so many bytes."""

    coding: str
    max_bytes: int | None


class Start(msgspec.Struct, frozen=True):
    """Begin the client's answer. headers: they replace the backend's; None leaves its head as it came.

    status: None for the backend's.
    """

    headers: dict[str, str] | None
    status: int | None = None


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send this to the client. `last`: then its answer is complete."""

    data: bytes
    last: bool = False


class Forward(msgspec.Struct, frozen=True, gc=False):
    """Send the data of the `Body` at hand to the client, as it came: nearly every chunk of an answer in text."""


class Count(msgspec.Struct, frozen=True):
    """Count tokens, which takes time, and tell `Counted`."""

    pending: UsageMeter


class StopUpstream(msgspec.Struct, frozen=True, gc=False):
    """Nothing more of the backend's answer is read. `early`: it may not know yet, and its generation is to end."""

    early: bool


class Fail(msgspec.Struct, frozen=True):
    """Answer the client with this error. Nothing has left before."""

    error: ToolCallError


Action = Pass | Learn | Ask | Decode | Start | Send | Forward | Count | StopUpstream | Fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a request so far."""

    usage: UsageMeter
    mode: str
    """`prompt`, `native`, or `pass` where there are no tools."""
    model: str = ""
    stream: bool = False
    format: str | None = None
    constraint: str | None = None
    """The kind of constrained decoding that is asked for."""
    why: str = "first"
    """What led to the attempt at hand."""
    outcomes: tuple[str, ...] = ()
    """Of each finished call."""
    no_call: str | None = None
    """Why the answer holds no call, where tools were offered."""
    decisions: Sequence[tuple[str, str, str]] = ()
    """What was decided on the way, its value, and why."""
    error: ToolCallError | None = None
    """What the answer ended in."""
