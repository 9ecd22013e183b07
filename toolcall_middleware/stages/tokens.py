"""What counts tokens: the seam for vocabularies, the prompt of a request, and the approximation that needs none.

load("approximate") · load("tiktoken:cl100k_base") · load("hf:/models/qwen/tokenizer.json")
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

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


class Tokenizer(Protocol):
    """Counts with one vocabulary. Shared by all requests and their threads."""

    chars_at_once: int
    """How much may be counted on the event loop: what takes at most 5 ms."""
    exact: bool
    """Whether it has the vocabulary."""
    end_tokens: int
    """What an engine counts for the end of an answer that the model ended itself."""

    def count(self, text: str, /) -> int:
        """Tokens of a text that a model wrote."""
        ...

    def count_again(self, text: str, /) -> int:
        """Tokens of a text that is likely to come again."""
        ...

    def count_prompt(self, prompt: Prompt, /) -> Count:
        """Tokens of a prompt, what its chat template adds included."""
        ...


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
    except _FAILURES:
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


# -- the approximation ---------------------------------------------------------------------------------------------

# Words, numbers in threes, punctuation, lines, characters that are words of their own, other scripts in pairs: that is
# about what byte-pair vocabularies make of text.
_PIECE = re.compile(
    r"[A-Za-z]+|[0-9]{1,3}|[!-/:-@\[-`{-~]+|\n+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00010000-\U0010ffff]"
    r"|[\x80-\u303f\u3100-\u33ff\ua000-\uabff\ud7b0-\uffff]{1,2}"
)
_LETTERS_A_TOKEN = 6


def estimate(text: str) -> int:
    """About how many tokens `text` is for a common vocabulary."""
    return sum(1 + (len(piece) - 1) // _LETTERS_A_TOKEN for piece in _PIECE.findall(text))


class Approximate:
    """Knows no vocabulary: every count is an estimate."""

    chars_at_once = 1 << 15
    exact = False
    end_tokens = 0

    def count(self, text: str, /) -> int:
        return max(1, estimate(text)) if text else 0

    def count_again(self, text: str, /) -> int:
        return self.count(text)

    def count_prompt(self, prompt: Prompt, /) -> Count:
        return Count(count_messages(prompt, self.count).tokens, exact=False)


APPROXIMATE = Approximate()


@functools.lru_cache(maxsize=16)
def load(setting: str) -> Tokenizer:
    """The tokenizer that the setting names; once, for it takes up to seconds. `upstream` is not here: it is asked.

    Raises SettingsError, naming the extra or the file that is missing. Nothing is ever downloaded.
    """
    kind, _, name = setting.partition(":")
    match kind:
        case "tiktoken":
            from .tokens_tiktoken import load_tiktoken

            return load_tiktoken(name)
        case "hf":
            from .tokens_hf import load_hf

            return load_hf(name)
        case _:
            return APPROXIMATE
