"""What has to be known of an answer before any of it may leave for the client."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Generic, TypeVar

from ..answer.operations import Arguments, Content, Image, ReasoningText, Refusal, Step
from ..errors import ToolCallError
from ..request.parse import ChatRequest
from ..settings import Settings

_Held = TypeVar("_Held")
_SIZE = 64  # bytes that a step takes besides its text, about


class Hold(enum.Enum):
    """What has to come before anything leaves: an answer that is refused or retried before has not begun."""

    NOTHING = "nothing"
    SPEECH = "speech"  # something to show: more than a role
    END = "end"  # the end of the answer: any of its calls may be refused, and then all of it is tried again
    CALL = "call"  # a call in each choice
    CALLED = "called"  # both


_FOR_CALLS = frozenset({Hold.CALL, Hold.CALLED})


def hold_for(
    chat: ChatRequest, settings: Settings, *, must_call: bool = False, checked: bool = False, refuses: bool = False
) -> Hold:
    """What the client's stream waits for: whatever may still be tried again, or refused with a status of its own.

    must_call: the answer is only good with a call, whatever `tool_choice` says. checked: its text is checked at its end
    and may be tried again. refuses: calls of strict tools are checked before they are emitted.
    """
    # Where no tools are offered no call can come that is refused.
    retries = checked or (settings.validate_arguments == "retry" and chat.offers_tools)
    if chat.choice.must_call or must_call:
        return Hold.CALLED if retries else Hold.CALL
    if retries:
        return Hold.END
    policies = (settings.malformed_arguments, settings.unknown_tool, settings.allowlist_mode)
    strict = settings.validate_arguments == "error" or not {"error", "enforce"}.isdisjoint(policies)
    strict = strict or refuses or settings.arguments_as_object  # what is no object is refused
    return Hold.SPEECH if strict else Hold.NOTHING


def size_of(step: Step) -> int:
    """How many bytes a step takes that is kept, about."""
    if isinstance(step, Image):
        return _SIZE + len(step.url)
    return _SIZE + (len(step.text) if isinstance(step, Content | ReasoningText | Refusal | Arguments) else 0)


class Gate(Generic[_Held]):
    """Keeps what is made for the client until it may leave: bytes of a chat stream, or steps for a writer.

    limit: the most bytes that are kept. size: counts the bytes of an item.
    said: something that a client shows has come. is_open: all leaves at once.
    needs_words: an answer without a word or a call is not let go: it may be asked for again, or `release`d.
    """

    __slots__ = (
        "_hold",
        "_kept",
        "_limit",
        "_mark",
        "_size",
        "_size_of",
        "is_open",
        "needs_words",
        "said",
        "waits_for_speech",
    )

    def __init__(self, hold: Hold, limit: int | None, size: Callable[[_Held], int]) -> None:
        self._hold = hold
        self.needs_words = False
        self._limit = limit
        self._size_of = size
        self._kept: list[_Held] = []
        self._size = self._mark = 0
        self.is_open = hold is Hold.NOTHING
        self.said = False
        self.waits_for_speech = False

    def wait(self) -> None:
        """Let nothing more leave before something is said. `waits_for_speech`: else all would leave at once."""
        if self.is_open:
            self._hold, self.is_open, self.waits_for_speech = Hold.SPEECH, False, True

    @property
    def outlasts_end(self) -> bool:
        """Whether the end of an answer opens it no more than its beginning."""
        return not self.is_open and (self._hold in _FOR_CALLS or (self.needs_words and not self.said))

    def release(self) -> list[_Held]:
        """All that was kept: the answer is the one to give."""
        kept, self._kept, self.is_open = self._kept, [], True
        return kept

    def mark(self) -> None:
        """What is kept so far belongs to the answer, whatever becomes of its rest."""
        self._mark = len(self._kept)

    def rewind(self) -> None:
        """The rest of the answer begins, perhaps once more."""
        del self._kept[self._mark :]

    def keep(self, out: list[_Held]) -> None:
        """More that was made. Raises ToolCallError when it is too much."""
        self._kept += out
        self._size += sum(map(self._size_of, out))
        if self._limit is not None and self._size > self._limit:
            message = f"What is held of the answer exceeds max_response_bytes ({self._limit})."
            raise ToolCallError("upstream_error", message)

    def take(self, *, over: bool, all_there: bool, all_called: bool) -> list[_Held]:
        """What may leave now: all that was kept, or nothing.

        over: the stream came to its end. all_there: each choice that was asked for has begun. all_called: each that
        has begun has a call.
        """
        if self.needs_words and not self.said:
            return []
        match self._hold:
            case Hold.NOTHING:
                self.is_open = True
            case Hold.SPEECH:
                self.is_open = self.said or (all_there and over)
            case Hold.END:
                self.is_open = over
            case Hold.CALL:
                self.is_open = all_there and all_called
            case Hold.CALLED:
                self.is_open = over and all_called
        return self.release() if self.is_open else []
