"""What a test needs to read one answer: the policy of a choice from keywords, and a whole answer as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcall_middleware.answer.operations import AnswerWriter
from toolcall_middleware.model import ChoiceMode, ToolChoice
from toolcall_middleware.request.parse import ChatRequest, unread_request
from toolcall_middleware.response.answer_form import AnswerForm, read_whole
from toolcall_middleware.response.choice import AnswerOutcome, ChoiceAnswer
from toolcall_middleware.response.message import AnswerPolicy
from toolcall_middleware.settings import OPTIONS, Settings
from toolcall_middleware.usage.meter import UsageMeter

CHAT = unread_request(b"", "m")


def policy(
    *, may_call: bool = False, hold_prose: bool = False, one_call: bool = False, hold_later: bool = False, **given: Any
) -> AnswerPolicy:
    """A policy with these fields. What is the name of a setting is that of its settings, of a request's field that of
    its request.

    may_call: tools are offered. hold_prose: one must be called. hold_later: and the backend writes nothing else.
    one_call: once.
    """
    options = {name: given.pop(name) for name in list(given) if name in OPTIONS}
    fields = {name: given.pop(name) for name in list(given) if name in ChatRequest.__slots__}
    mode = ChoiceMode.REQUIRED if hold_prose or hold_later else ChoiceMode.AUTO if may_call else ChoiceMode.NONE
    chat = replace(CHAT, choice=ToolChoice(mode, parallel=not one_call), **fields)
    return AnswerPolicy(chat=chat, settings=Settings(**options), constrained=hold_later, **given)


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
    chat = replace(CHAT, legacy=legacy)
    return AnswerForm(chat, Settings(**options), writer).whole(answer, {}), answer.outcome
