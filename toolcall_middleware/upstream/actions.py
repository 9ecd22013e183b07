"""The messages between an exchange and its host: events go in, actions come out. Also the states of an exchange.

An event is what has happened at the host; an action is what the host is to do, in order. None of them does I/O. The
fields of the actions are all that a host knows of an answer.
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
    from .raw_prompt import RawPrompt

Headers = list[tuple[bytes, bytes]]


class State(enum.Enum):
    """Where an exchange is."""

    NEW = "new"  # no request has arrived
    LEARNING = "learning"  # the backend is probed before the request is sent to it
    WAITING = "waiting"  # the request is sent, and the backend has not answered
    SNIFFING = "sniffing"  # the first bytes of the answer decide whether it is a stream
    COLLECTING = "collecting"  # the answer is buffered until it is complete
    STREAMING = "streaming"  # the stream is rewritten piece by piece
    TAPPING = "tapping"  # the stream is forwarded unchanged, and its tokens are counted
    PASSING = "passing"  # the answer is forwarded unread
    COUNTING = "counting"  # the end of the answer waits for a count of tokens
    ENDED = "ended"  # nothing more is sent


# -- events ----------------------------------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True, gc=False):
    """The client's request has arrived. `body` is all of it."""

    body: bytes


class Head(msgspec.Struct, frozen=True):
    """The backend begins to answer."""

    status: int
    headers: Headers


class Body(msgspec.Struct, frozen=True, gc=False):
    """More of the backend's answer, decoded. `last`: the answer is complete."""

    data: bytes
    last: bool = False


class BrokenOff(msgspec.Struct, frozen=True, gc=False):
    """The backend broke off in the middle of its answer. `raised`: with an exception that a server will see."""

    raised: bool = False


class Failed(msgspec.Struct, frozen=True):
    """The backend failed with this error for the client, or its content coding cannot be undone. No action follows if
    the answer is only forwarded.
    """

    error: ToolCallError


class Done(msgspec.Struct, frozen=True, gc=False):
    """What `Learn` or `Count` asked for is done."""


Event = Request | Head | Body | BrokenOff | Failed | Done


# -- actions ---------------------------------------------------------------------------------------------------------


class Pass(msgspec.Struct, frozen=True, gc=False):
    """The exchange does not handle the request: forward it and its answer unchanged. No event follows."""


class Learn(msgspec.Struct, frozen=True):
    """Ask the backend the questions of the proof, let it learn from the answers, and send the event `Done`."""

    proof: PendingProof


class Ask(msgspec.Struct, frozen=True, gc=False):
    """Ask the backend with this body, once the answer at hand is over.

    prompt: a prompt to write first; the backend is then asked for a text completion.
    """

    body: bytes
    prompt: RawPrompt | None = None


class Start(msgspec.Struct, frozen=True):
    """Begin the client's answer. headers: they replace the backend's; None keeps the backend's head unchanged.

    status: None for the backend's.
    """

    headers: dict[str, str] | None
    status: int | None = None


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send this to the client. `last`: the answer is complete with it."""

    data: bytes
    last: bool = False


class Forward(msgspec.Struct, frozen=True, gc=False):
    """Send the data of the current `Body` to the client unchanged, as for nearly every chunk of an answer in text."""


class Count(msgspec.Struct, frozen=True):
    """Count tokens, which takes time, and send the event `Done`."""

    pending: UsageMeter


class StopUpstream(msgspec.Struct, frozen=True, gc=False):
    """Stop reading the backend's answer. `early`: the backend may still generate, and is to be stopped."""

    early: bool


class Fail(msgspec.Struct, frozen=True):
    """Answer the client with this error. Nothing was sent before."""

    error: ToolCallError


Action = Pass | Learn | Ask | Start | Send | Forward | Count | StopUpstream | Fail


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
    """The kind of constrained decoding that is requested."""
    why: str = "first"
    """The reason for the current attempt."""
    outcomes: tuple[str, ...] = ()
    """The outcome of each finished call."""
    no_call: str | None = None
    """Why the answer holds no call, where tools were offered."""
    decisions: Sequence[tuple[str, str, str]] = ()
    """(what was decided, its value, the reason) for each decision."""
    error: ToolCallError | None = None
    """The error that ended the answer."""
