"""What a backend's stream has come to so far: its choices, and whether and how it is over."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ToolCallError
from .choice import ChoiceAnswer
from .chunk import Choice
from .outcome import Outcome, all_called


class StreamState:
    """The part of a `StreamRewriter` that the exchange asks.

    make_choice: a new ChoiceAnswer. expected: how many choices were asked for. stopped: nothing that the backend could
    still send is wanted. failed: why the answer cannot go on.
    """

    def __init__(self, make_choice: Callable[[], ChoiceAnswer], expected: int) -> None:
        self._make_choice = make_choice
        self._expected = expected
        self._choices: dict[int, Choice] = {}
        self._over = False  # the backend said [DONE], or failed
        self.stopped = False
        self.failed: ToolCallError | None = None

    @property
    def outcome(self) -> Outcome:
        """What all choices came to so far."""
        return Outcome.of(self._answers)

    @property
    def _answers(self) -> list[ChoiceAnswer]:
        return [choice.answer for choice in self._choices.values()]

    @property
    def calls(self) -> int:
        """The calls of all choices so far."""
        return sum(choice.answer.calls for choice in self._choices.values())

    @property
    def begun(self) -> bool:
        """Whether the backend has answered at all."""
        return bool(self._choices)

    @property
    def complete(self) -> bool:
        """Whether the backend's stream came to its own end."""
        return self.done or (self.begun and self.failed is None and self._all_finished)

    @property
    def done(self) -> bool:
        """Whether the backend said `[DONE]` behind an answer: however its stream ends then, nothing is missing."""
        return self.begun and self.failed is None and self._over

    @property
    def _all_finished(self) -> bool:
        return all(choice.finished for choice in self._choices.values())

    @property
    def _all_there(self) -> bool:
        return len(self._choices) >= self._expected

    @property
    def _all_called(self) -> bool:
        return all_called(self._answers)

    def _see_stop(self) -> None:
        choices = self._choices.values()
        if any(choice.answer.stopped for choice in choices):
            self.stopped = self._all_there and all(choice.answer.stopped or choice.finished for choice in choices)

    def _end_events(self) -> None:
        """Whatever else the backend sends is not read."""
        self._over = True

    def _fail(self, error: ToolCallError) -> None:
        self.failed = error
        self._end_events()

    def _blame(self, choice: Choice) -> None:
        """A fault of the model that a setting makes an error ends the whole answer."""
        if choice.answer.fault is not None:
            self._fail(choice.answer.fault)
