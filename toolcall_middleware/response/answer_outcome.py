"""What an answer came to, over all its choices: the same for a stream and a whole answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .choice import ChoiceAnswer
from .outcome import FinishedCall


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """`calls`: of all choices. `satisfied`: every choice has one. `text` is what was written instead of a call.

    read_markup: calls were read from text, and none was the backend's own. cut, lost: as of a ChoiceAnswer. warnings:
    what the checks let pass. finished: the calls that are over, refused ones too. silent: no choice says or calls
    anything; thought_bytes: how much it thinks, in UTF-8. opened: as of a ChoiceAnswer.
    """

    calls: int
    satisfied: bool
    text: str
    read_markup: bool
    cut: bool
    lost: bool
    warnings: tuple[str, ...]
    finished: tuple[FinishedCall, ...]
    silent: bool
    thought_bytes: int
    opened: bool | None = None

    @classmethod
    def of(cls, answers: Collection[ChoiceAnswer]) -> AnswerOutcome:
        """The outcome of an answer with these choices."""
        own = any(answer.native is not None and answer.native.seen for answer in answers)
        return cls(
            calls=sum(answer.calls for answer in answers),
            satisfied=all_called(answers),
            text="\n".join(held for answer in answers if (held := answer.held_text)),
            read_markup=not own and any(answer.calls > answer.calls_in_reasoning for answer in answers),
            cut=any(answer.cut for answer in answers),
            lost=any(answer.lost for answer in answers),
            warnings=tuple(warning for answer in answers for warning in answer.warnings),
            finished=tuple(call for answer in answers for call in answer.outcomes),
            silent=not own and not any(answer.has_spoken for answer in answers),
            thought_bytes=sum(answer.thought_bytes for answer in answers),
            opened=max((answer.opened for answer in answers if answer.opened is not None), default=None),
        )


def all_called(answers: Collection[ChoiceAnswer]) -> bool:
    """Whether there are choices, and each has a call."""
    return bool(answers) and all(answer.calls for answer in answers)
