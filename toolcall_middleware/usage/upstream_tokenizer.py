"""`tokenizer=upstream`: the questions to a backend's own `/tokenize`, and how its answers are read. No I/O here.

vLLM renders messages with tools itself and answers `{"count": n}`. llama.cpp's server takes text alone and answers
`{"tokens": [...]}`; what it makes of messages is `/apply-template`'s to say. Which one it is, its first answer tells.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ..wire.openai import read_value
from .tokenizers.base import Count, Prompt, read_prompt

if TYPE_CHECKING:
    from .meter import Attempt


class Refusals(Protocol):
    """The requests that backends are known to refuse, by model. upstream/backend_memory.py keeps it."""

    def refuse(self, model: str, field: str) -> None:
        """The backend refused `field` for `model`."""

    def refuses(self, model: str, field: str) -> bool:
        """Whether it is known to."""


TOKENIZE = "tokenize"
"""What a backend that does not count is remembered to refuse."""
_MESSAGES = "tokenize messages"
_log = logging.getLogger("toolcall_middleware")


@dataclass(frozen=True, slots=True)
class Question:
    """A request to the backend: a POST where there is a body, else a GET.

    path: beside the API's own paths, with its query; None for the path of chat completions itself.
    """

    path: str | None
    body: bytes = b""


Questions = Generator[Question, bytes | None, None]
"""Yields questions; takes the body of each answer of status 200, None for any other or none in time."""
_Asked = Generator[Question, bytes | None, int | None]


def ask_all(attempts: Iterable[Attempt], model: str, memory: Refusals) -> Questions:
    """Ask for all that is to be counted. A backend that does not answer is remembered; the rest is estimated."""
    for one in attempts:
        if not (yield from _ask_attempt(one, model, memory)):
            if (yield from _texts(["a"], model, memory)) is not None:
                return  # the backend counts, but not what this client has sent
            memory.refuse(model, TOKENIZE)
            _log.warning("The backend does not count tokens of %.100r: they are estimated.", model)
            return


def _ask_attempt(one: Attempt, model: str, memory: Refusals) -> Generator[Question, bytes | None, bool]:
    """Whether it was answered."""
    if one.wants_prompt:
        tokens = yield from _prompt(read_prompt(one.body), model, memory)
        if tokens is None:
            return False
        one.prompt = Count(tokens, exact=True)
    # A text too long to be kept is also too long to send: it is estimated.
    if one.wants_completion and all(written.is_kept for written in one.texts.values()):
        tokens = yield from _texts([written.text() for written in one.texts.values()], model, memory)
        if tokens is None:
            return False
        apart = [thought.text() for thought in one.thoughts.values()]
        reasoning = yield from _texts(apart or [each.thinking() for each in one.texts.values()], model, memory)
        # An engine counts the token that ends an answer, and no text shows it.
        one.completion = Count(tokens + one.ended, exact=not one.loose)
        one.reasoning = reasoning or 0
    if one.injected and one.injected_tokens is None:
        one.injected_tokens = yield from _texts([one.injected], model, memory)
    return True


def _texts(texts: Iterable[str], model: str, memory: Refusals) -> _Asked:
    total = 0
    for text in filter(None, texts):
        asked = {"model": model, "prompt": text.encode("utf-8", "replace").decode(), "add_special_tokens": False}
        tokens = yield from _tokens(asked, memory)
        if tokens is None:
            return None
        total += tokens
    return total


def _prompt(prompt: Prompt, model: str, memory: Refusals) -> _Asked:
    asked: dict[str, Any] = {"model": model, "messages": prompt.messages, "add_generation_prompt": prompt.answer}
    if not prompt.answer:
        asked["continue_final_message"] = True
    if prompt.tools:
        asked["tools"] = prompt.tools
    if prompt.arguments:
        asked["chat_template_kwargs"] = prompt.arguments
    return (yield from _tokens(asked, memory))


def _tokens(asked: dict[str, Any], memory: Refusals) -> _Asked:
    """The backend's count by vLLM's request, or, where the backend does not support that, by llama.cpp's."""
    model = asked["model"]
    question = msgspec.json.encode(asked)
    if not memory.refuses(model, _MESSAGES):
        # A backend with `/apply-template` has `/tokenize`; but it may refuse content that is not text.
        answer = yield Question("/tokenize", question)
        if (tokens := _read(answer)) != 0:
            return tokens
        memory.refuse(model, _MESSAGES)
    text = asked.get("prompt")
    if text is None:
        match read_value((yield Question("/apply-template", question))):
            case {"prompt": str(text)}:
                pass
            case _:
                return None
    asked = {"model": model, "content": text, "add_special": "prompt" not in asked, "parse_special": True}
    answer = yield Question("/tokenize", msgspec.json.encode(asked))
    return _read(answer) or None


def _read(answer: bytes | None) -> int | None:
    """The number in an answer; None when the answer has no number."""
    match read_value(answer):
        case {"count": int(count)}:
            return None if isinstance(count, bool) or count < 0 else count
        case {"tokens": [*tokens]}:
            return len(tokens)
    return None
