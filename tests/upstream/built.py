"""What the first attempt of a request sends where nothing is constrained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcall_middleware.upstream.attempt import SentConversation
from toolcall_middleware.upstream.backend_memory import BackendMemory
from toolcall_middleware.upstream.tool_budget import ToolBudget

if TYPE_CHECKING:
    from toolcall_middleware.formats.base import ToolFormat
    from toolcall_middleware.request.parse import ChatRequest
    from toolcall_middleware.settings import Settings


def talk_of(chat: ChatRequest, fmt: ToolFormat, settings: Settings) -> SentConversation:
    talk = SentConversation(chat, settings, ToolBudget(chat, settings, BackendMemory()))
    talk.by_prompt(fmt, None, bare=False)
    return talk


def build_messages(chat: ChatRequest, fmt: ToolFormat, settings: Settings) -> list[dict[str, Any]]:
    return talk_of(chat, fmt, settings).messages


def build_body(
    chat: ChatRequest, fmt: ToolFormat, settings: Settings, messages: list[Any] | None = None, **extra: Any
) -> bytes:
    """messages: instead of those that the prompt has."""
    talk = talk_of(chat, fmt, settings)
    talk.messages = talk.messages if messages is None else messages
    return talk.body(fmt, extra)
