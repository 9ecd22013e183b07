"""What has to be known of an answer before any of it may leave for the client."""

from __future__ import annotations

import enum

from ..settings import Settings
from .validate import ChatRequest


class Hold(enum.Enum):
    """What has to come before anything leaves: an answer that is refused or retried before has not begun."""

    NOTHING = "nothing"
    SPEECH = "speech"  # something to show: more than a role
    END = "end"  # a call in each choice, or the end of the answer
    CALL = "call"  # a call in each choice


def hold_for(chat: ChatRequest, settings: Settings) -> Hold:
    """What the client's stream waits for: whatever may still be tried again, or refused with a status of its own."""
    if chat.choice.must_call:
        return Hold.CALL
    if settings.validate_arguments == "retry":
        return Hold.END
    policies = (settings.malformed_arguments, settings.unknown_tool, settings.allowlist_mode)
    strict = settings.validate_arguments == "error" or not {"error", "enforce"}.isdisjoint(policies)
    return Hold.SPEECH if strict else Hold.NOTHING
