"""What of a request makes its prompt, and what its messages come to without a chat template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...wire.openai import FAILURES

TOKENS_A_MESSAGE = 4
"""A role and the separators around it, where no chat template tells."""
TOKENS_OF_THE_ANSWER = 3
"""What opens the assistant's turn at the end of a prompt."""
_TOKENS_A_PART = 256  # a picture, a sound: nobody here can know
_TOKENS_A_CALL = 12  # the markup around a call in a history


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens; `exact` is false for an estimate."""

    tokens: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """What of a request's body makes its prompt.

    messages: each has a `role`. tools: those that go to the backend as such. arguments: of the chat template.
    answer: whether the template opens the assistant's turn. unread: text of a body that could not be read.
    """

    messages: list[dict[str, Any]]
    tools: list[Any] = field(default_factory=list)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    answer: bool = True
    unread: str = ""


class _Body(msgspec.Struct):
    messages: list[dict[str, Any]] = []
    tools: list[Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: Any = None
    continue_final_message: Any = None


_BODY = msgspec.json.Decoder(_Body)


def read_prompt(body: bytes) -> Prompt:
    """The prompt of a chat-completions body. Never raises."""
    try:
        read = _BODY.decode(body)
    except FAILURES:
        return Prompt([], unread=body.decode("utf-8", "replace"))
    return Prompt(
        [_plain(message) for message in read.messages],
        tools=read.tools or [],
        arguments=read.chat_template_kwargs or {},
        answer=read.add_generation_prompt is not False and read.continue_final_message is not True,
    )


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose content is text, where text is all that it holds: that is what engines make of parts."""
    content = message.get("content")
    if content is None:
        return {**message, "content": ""}
    if isinstance(content, list) and all(isinstance(part, dict) and _is_text(part) for part in content):
        return {**message, "content": "\n".join(part["text"] for part in content)}
    return message


def _is_text(part: dict[str, Any]) -> bool:
    return isinstance(part.get("text"), str) and part.get("type", "text") in {"text", "input_text"}


def count_messages(prompt: Prompt, count: Callable[[str], int]) -> Count:
    """A prompt without its chat template: what its messages say, and a constant for each.

    Exact where that constant is all that is unknown; not with tools, calls or pictures in it.
    """
    if prompt.unread:
        return Count(count(prompt.unread), exact=False)
    tokens, exact = TOKENS_OF_THE_ANSWER if prompt.answer and prompt.messages else 0, True
    for message in prompt.messages:
        tokens += TOKENS_A_MESSAGE
        content = message.get("content")
        if isinstance(content, str):
            tokens += count(content)
        else:
            exact = False
            for part in content if isinstance(content, list) else ():
                told = isinstance(part, dict) and _is_text(part)
                tokens += count(part["text"]) if told else _TOKENS_A_PART
        if isinstance(message.get("name"), str):
            tokens += 1 + count(message["name"])
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            exact = False
            tokens += _TOKENS_A_CALL + count(_call_text(call))
    if prompt.tools:
        exact = False
        tokens += count(msgspec.json.encode(prompt.tools).decode())
    return Count(tokens, exact)


def _call_text(call: Any) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return ""
    return "".join(value for value in (function.get("name"), function.get("arguments")) if isinstance(value, str))
