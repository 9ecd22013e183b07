"""What an exchange and its host tell each other: events go in, actions come out, and the states between them.

An event is what has happened at the host; an action is what the host is to do, in order. None of them does I/O, and
none of them says more than its fields: a host knows no more of an answer than these.

`Conversation` is what an exchange asks of each kind of request: tool_answer.py with tools, the other two without.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from ..errors import ToolCallError
from ..response.answer_form import Reply
from ..response.outcome import FinishedCall
from ..response.stream import StreamRewriter
from ..usage.meter import UsageMeter

if TYPE_CHECKING:
    from .raw_prompt import PendingPrompt
    from .tool_support import PendingProof

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


class Conversation(Protocol):
    """One kind of request: how it is put to the backend and how its answers are read. Keeps no state of the wire."""

    error: ToolCallError | None
    """What the client is told instead of an answer, or at the end of one."""

    @property
    def native(self) -> bool:
        """Whether the tools go to the backend."""

    @property
    def offers_tools(self) -> bool:
        """Whether the answer may hold calls."""

    @property
    def calls(self) -> int:
        """How many calls the answer has so far."""

    @property
    def report(self) -> Sequence[FinishedCall]:
        """The finished calls of all attempts."""

    @property
    def stream(self) -> StreamRewriter | None:
        """What rewrites the stream, where it is STREAMING."""

    @property
    def prompt(self) -> PendingPrompt | None:
        """What is to be written for the body that `first` or `take_next` gave."""

    @property
    def facts(self) -> Facts:
        """What observers are told."""

    def let_go(self) -> None:
        """Free what was read of the request, in steps. It is over."""

    def first(self) -> bytes:
        """The body for the backend."""

    def take_next(self) -> bytes | None:
        """The body to ask the backend again with, once."""

    def begin(self, status: int, headers: Mapping[bytes, bytes]) -> State:
        """A response begins: what becomes of it."""

    def sniff(self, data: bytes) -> State:
        """What a body is that begins with `data`; SNIFFING where more must be seen."""

    def headers(self) -> dict[str, str]:
        """Headers for a streamed answer; they replace the backend's."""

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the stream; what leaves. Never raises."""

    def finish(self, *, cut: bool, left: bool) -> bytes:
        """The stream is over. Raises ToolCallError where the client is to be told of an error, and nothing has left."""

    def broken(self, error: ToolCallError, *, streaming: bool) -> bytes:
        """The last bytes of an answer that has begun and fails. streaming: its stream is being read."""

    def whole(self, data: bytes) -> Reply | None:
        """A collected response. None: ask again. Raises ToolCallError as `finish` does."""

    def pending(self) -> UsageMeter | None:
        """What the end waits for."""

    def counted(self) -> bytes:
        """The rest of a stream that waited."""

    def counted_in(self, reply: Reply) -> Reply:
        """A whole answer that waited."""
