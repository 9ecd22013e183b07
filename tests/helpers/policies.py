"""The policy of one choice of an answer, from keywords."""

from __future__ import annotations

from typing import Any

from toolcall_middleware.response.message import AnswerPolicy
from toolcall_middleware.settings import OPTIONS, Settings


def policy(**given: Any) -> AnswerPolicy:
    """A policy with these fields. What is the name of a setting is that of its settings."""
    options = {name: given.pop(name) for name in list(given) if name in OPTIONS}
    return AnswerPolicy(settings=Settings(**options), **given)
