"""What the first attempt of a request sends where nothing is constrained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcall_middleware.upstream import prompt

if TYPE_CHECKING:
    from toolcall_middleware.formats.base import ToolFormat
    from toolcall_middleware.request.parse import ChatRequest
    from toolcall_middleware.settings import Settings


def build_messages(chat: ChatRequest, fmt: ToolFormat, settings: Settings) -> list[dict[str, Any]]:
    return prompt.build_messages(chat, fmt, settings, prompt.injected(chat, fmt, settings, None, bare=False))


def build_body(chat: ChatRequest, fmt: ToolFormat, settings: Settings, **extra: Any) -> bytes:
    return prompt.build_body(chat, fmt, settings, build_messages(chat, fmt, settings), extra)
