"""The interface of a writer of answers in an API other than chat completions: operations in, that API's bytes out.

One writer serves one request over all of its attempts. It takes only what is emitted: steps that the release gate holds
back, or that a retry discards, never reach it. A writer does no I/O and reads no settings.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..errors import ToolCallError
from .operations import Arguments, Content, Step


class AnswerWriter(Protocol):
    """The answer to one request: `begin`, `take` … `end`, or `fail`; `leaving` after any of them, or `whole` at last.

    in_use: this writer writes the current response. The exchange sets it, and the host reads it when the response
    starts: the host translates responses that the exchange does not write (refusals, redirects).
    over: the last event is written; further steps are ignored.
    """

    in_use: bool

    @property
    def over(self) -> bool: ...

    def begin(self) -> None:
        """Write the first events, once, as `Opened` does. A host calls it when the backend is slow to answer."""

    def take(self, step: Step, /) -> None:
        """Write the next step. Raises ToolCallError when the rest of the answer cannot be written."""

    def say(self, op: Content | Arguments, /) -> bytes:
        """`take` and `leaving` in one call, for the usual chunk: one piece of text or of a call's arguments."""

    def end(self, usage: Any, remarks: dict[str, Any], /) -> None:
        """The answer is complete. usage: as a chat completion has it, or None. remarks: fields beside the API's."""

    def fail(self, error: ToolCallError, /) -> None:
        """Write the events of an answer that fails."""

    def alive(self) -> None:
        """Write an event that keeps the connection alive, if the answer has begun and is not over."""

    def leaving(self) -> bytes:
        """Return the events written since the last call."""

    def whole(self) -> bytes:
        """Return the body of a non-streaming answer, after `end`."""
