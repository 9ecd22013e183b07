"""The operations that an answer consists of: text, reasoning, a call, more of its arguments.

response/choice.py emits them. response/answer_form.py writes them as deltas or as one message.
`Arguments` follow their `CallOpened`, and precede its `CallClosed`. A chat stream has nothing for the last.

An `AnswerWriter` also takes steps for what a chat chunk says outside of operations: the beginning and the
end of the answer, and fields of the backend's own (response/said.py).
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from ..errors import ToolCallError
from ..parsing.events import Text

Content = Text  # what the parser says is text is what the client gets for `content`, as the same value


class ReasoningText(msgspec.Struct, frozen=True, gc=False):
    """Text for the reasoning field. `names` are the fields that it came in, where it is the backend's own."""

    text: str
    names: tuple[str, ...] = ()


class CallOpened(msgspec.Struct, frozen=True, gc=False):
    """A call begins. `extra` are fields of the backend's call that are passed on unread."""

    index: int
    id: str
    name: str
    custom: bool = False
    extra: dict[str, Any] | None = None


class Arguments(msgspec.Struct, frozen=True, gc=False):
    """A piece of the open call's arguments."""

    index: int
    text: str
    custom: bool = False


class CallClosed(msgspec.Struct, frozen=True, gc=False):
    """No more arguments follow for this call. complete: False where the text ended inside of them."""

    index: int
    complete: bool = True


Op = Content | ReasoningText | CallOpened | Arguments | CallClosed


class Opened(msgspec.Struct, frozen=True, gc=False):
    """The answer begins. model, created: as the backend's first chunk says, where it does."""

    model: str | None = None
    created: int | None = None


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Text of the `refusal` field."""

    text: str


class Image(msgspec.Struct, frozen=True, gc=False):
    """An image that the model has drawn. url: a data URL, or an address."""

    url: str


class Signed(msgspec.Struct, frozen=True):
    """What an upstream wants back with its reasoning: items of `reasoning_details`."""

    details: list[dict[str, Any]]


class Alive(msgspec.Struct, frozen=True, gc=False):
    """A comment of the backend's stream: the answer is still being made."""


class Finished(msgspec.Struct, frozen=True):
    """The model has stopped. matched: what the backend says ended it. remarks: fields of the whole answer."""

    reason: str
    matched: Any = None
    remarks: dict[str, Any] = {}


Step = Op | Opened | Refusal | Image | Signed | Alive | Finished
"""What an `AnswerWriter` takes."""


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
