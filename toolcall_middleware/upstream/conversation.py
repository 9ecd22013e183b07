"""What an exchange asks of each kind of request: tool_answer.py with tools, the other two without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..errors import ToolCallError
from ..response.answer_form import Reply
from ..response.outcome import FinishedCall
from ..response.stream import StreamRewriter
from ..usage.meter import UsageMeter
from ..usage.pending_count import PendingCount
from .actions import State

if TYPE_CHECKING:
    from .completions.pending import PendingPrompt


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

    def pending(self) -> PendingCount | None:
        """What the end waits for."""

    def counted(self) -> bytes:
        """The rest of a stream that waited."""

    def counted_in(self, reply: Reply) -> Reply:
        """A whole answer that waited."""
