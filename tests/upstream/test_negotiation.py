"""What an answer teaches about how to ask: a backend's count of the prompt tells whether the tools were in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.request.parse import ChatRequest, read_request
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory
from toolcall_middleware.upstream.negotiation import Negotiation, Next
from toolcall_middleware.usage.tokenizers.base import estimate

WORDS = "Looks up what the weather will be in a city, and how warm it was (in degrees, at noon). "


def attempts(described: int, said: str) -> tuple[Negotiation, int]:
    """A request with so many characters of tools; the tokens that they are."""
    functions: list[Any] = [
        {"name": f"tool_{number}", "description": WORDS * 20, "parameters": {"type": "object", "properties": {}}}
        for number in range(described // (20 * len(WORDS)) + 1)
    ]
    tools = [{"type": "function", "function": function} for function in functions]
    body = {"model": "m", "messages": [{"role": "user", "content": said}], "tools": tools}
    chat = read_request(json.dumps(body).encode(), Settings(mode="auto"))
    assert isinstance(chat, ChatRequest)
    return Negotiation(chat, Settings(mode="auto"), BackendMemory()), estimate(json.dumps(functions))


@pytest.mark.parametrize("described", [2_000, 20_000, 110_000])
@pytest.mark.parametrize("said", ["Hi", "Some words of a user. " * 40])
def test_a_prompt_that_is_too_short_has_not_held_the_tools(described: int, said: str) -> None:
    for share, due in ((0.0, Next.PROMPT), (0.2, Next.PROMPT), (0.7, Next.GIVE), (1.3, Next.GIVE)):
        made, tokens = attempts(described, said)
        prompt = int(tokens * share) + estimate(said)
        assert made.after_answer(calls=0, read_markup=False, lost=False, prompt_tokens=prompt) is due
