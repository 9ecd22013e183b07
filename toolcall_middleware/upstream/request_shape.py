"""What of a request may have caused a backend's refusal besides what the middleware asked for.

A backend that refuses an ordinary request would refuse it from any client. Fields that few clients send (a grammar of
the client's own, a penalty that an engine cannot combine with a constraint) are part of what was refused.
"""

from __future__ import annotations

import re
from typing import Any

from ..fading_memory import digest
from ..request.parse import ChatRequest

_ORDINARY = frozenset({
    "model", "messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "stream",
    "stream_options", "temperature", "top_p", "max_tokens", "max_completion_tokens", "n", "stop", "seed", "user",
    "presence_penalty", "frequency_penalty", "metadata", "store",
})  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_TOOLS = 32
_LIKE_A_CALL = re.compile(r"<\|?\w|\[TOOL|```|[\"'](?:name|arguments|parameters)[\"']", re.IGNORECASE)
_LOOKED_AT = 1 << 16  # characters of a message


def odd_fields(chat: ChatRequest) -> str:
    """A digest of the fields that are not ordinary, empty where there are none."""
    odd = {name: bytes(raw) for name, raw in chat.fields.items() if name not in _ORDINARY}
    if chat.n > 1:
        odd["n"] = str(chat.n).encode()
    return digest(*(part for name in sorted(odd) for part in (name.encode(), odd[name]))) if odd else ""


def has_plain_names(chat: ChatRequest) -> bool:
    """Whether the tools' names are such that no grammar can fail for them."""
    tools = chat.tools.tools
    return len(tools) <= _MOST_TOOLS and all(_NAME.fullmatch(tool.name) for tool in tools)


def speaks_of_calls(chat: ChatRequest) -> bool:
    """Whether a model that writes markup may only repeat what stands in the conversation."""
    return any(_LIKE_A_CALL.search(_text(message.get("content"))) for message in chat.messages)


def _text(content: Any) -> str:
    if isinstance(content, list):
        content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content[:_LOOKED_AT] if isinstance(content, str) else ""
