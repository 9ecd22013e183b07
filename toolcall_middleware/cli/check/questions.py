"""What is asked for calls, and how an answer's calls are judged: our own prompts here, the user's in bfcl/."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...model import ToolCall
from .tools import PROMPTS, TOOLS, fault_of

_TOKENS = 160


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of an answer's calls. fault: None where they are valid. right: they are those that were meant."""

    fault: str | None
    right: bool


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt. `label` names it in a fault, and may be published; `tokens` is how many its answer may have."""

    label: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    judge: Callable[[Sequence[ToolCall]], Judgement]
    tokens: int = _TOKENS


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """All prompts of a check. `source` says where they are from; two checks of the same `labels` can be compared.

    choices: the values of `tool_choice` to try. constrained: whether constrained decoding is tried, too.
    """

    source: str
    questions: list[Question]
    choices: tuple[str, ...] = ("auto", "required")
    constrained: bool = True
    labels: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", [question.label for question in self.questions])


def built_in() -> QuestionSet:
    """PROMPTS with TOOLS."""
    asked = [
        Question(prompt, [{"role": "user", "content": prompt}], TOOLS, partial(_judge, wanted))
        for prompt, wanted in PROMPTS
    ]
    return QuestionSet("built-in", asked)


def _judge(wanted: str, calls: Sequence[ToolCall]) -> Judgement:
    fault = fault_of(calls)
    return Judgement(fault, fault is None and {call.name for call in calls} == {wanted})
