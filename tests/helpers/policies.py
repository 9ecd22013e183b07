"""What a test needs to read one answer: the policy of a choice from keywords, and a whole answer as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcall_middleware.answer.writer import AnswerWriter
from toolcall_middleware.request.parse import unread_request
from toolcall_middleware.response.answer_form import AnswerForm, read_whole
from toolcall_middleware.response.choice import AnswerOutcome, ChoiceAnswer
from toolcall_middleware.response.message import AnswerPolicy
from toolcall_middleware.settings import OPTIONS, Settings
from toolcall_middleware.usage.meter import UsageMeter


def policy(**given: Any) -> AnswerPolicy:
    """A policy with these fields. What is the name of a setting is that of its settings."""
    options = {name: given.pop(name) for name in list(given) if name in OPTIONS}
    return AnswerPolicy(settings=Settings(**options), **given)


def written_whole(
    data: bytes,
    make_choice: Callable[[], ChoiceAnswer],
    usage: UsageMeter | None = None,
    *,
    writer: AnswerWriter | None = None,
    legacy: bool = False,
    **options: Any,
) -> tuple[bytes, AnswerOutcome] | None:
    """The client's body for a backend's whole answer, and its outcome. options: settings."""
    answer = read_whole(data, make_choice, usage or UsageMeter())
    if answer is None:
        return None
    chat = replace(unread_request(b"", "m"), legacy=legacy)
    return AnswerForm(chat, Settings(**options), writer).whole(answer, {}), answer.outcome
