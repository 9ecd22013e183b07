"""What counts tokens: the interface for vocabularies, and the approximation that needs none.

Long text is counted in blocks that come again: a prompt's beginning is the same at every turn of a conversation. A
block ends before a single space between two words, where no common pre-tokenizer joins what is on both sides; so the
blocks' counts add up to the text's. They are cut from the beginning, so that texts which begin alike share blocks.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ...lru_cache import LRUCache
from ...wire.openai import FAILURES

# Words, numbers in threes, punctuation, lines, characters that are words of their own, other scripts in pairs: that is
# about what byte-pair vocabularies make of text.
_PIECE = re.compile(
    r"[A-Za-z]+|[0-9]{1,3}|[!-/:-@\[-`{-~]+|\n+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00010000-\U0010ffff]"
    r"|[\x80-\u303f\u3100-\u33ff\ua000-\uabff\ud7b0-\uffff]{1,2}"
)
_LETTERS_A_TOKEN = 6
_SLICE = 1 << 13  # characters
_PAUSE = 2e-5  # seconds; a thread that only lets go, and takes hold again at once, wakes nobody


class Tokenizer(Protocol):
    """Counts with one vocabulary. Shared by all requests and their threads."""

    chars_at_once: int
    """How much may be counted on the event loop: what takes at most 5 ms."""
    exact: bool
    """Whether it has the vocabulary."""
    end_tokens: int
    """What an engine counts for the end of an answer that the model ended itself."""

    special_tokens: Sequence[str]
    """The special tokens of its vocabulary that no text may hold, as far as they are known."""
    checkpoint: str | None
    """The folder of its model, where that holds a chat template."""

    def count(self, text: str, /) -> int:
        """Tokens of a text that a model wrote."""
        ...

    def count_again(self, text: str, /) -> int:
        """Tokens of a text that is likely to come again."""
        ...

    def count_prompt(self, prompt: Prompt, /) -> Count:
        """Tokens of a prompt, what its chat template adds included."""
        ...


def estimate(text: str) -> int:
    """About how many tokens `text` is for a common vocabulary."""
    return sum(1 + (len(piece) - 1) // _LETTERS_A_TOKEN for piece in _PIECE.findall(text))


class Approximate:
    """Knows no vocabulary: every count is an estimate."""

    chars_at_once = 1 << 15
    exact = False
    end_tokens = 0
    special_tokens: Sequence[str] = ()
    checkpoint: str | None = None

    def count(self, text: str, /) -> int:
        return _Slices().count(text)

    def count_again(self, text: str, /) -> int:
        return self.count(text)

    def count_prompt(self, prompt: Prompt, /) -> Count:
        return Count(count_messages(prompt, _Slices().count).tokens, exact=False)


class _Slices:
    """Estimates text in slices, between which other threads run.

    A search through a long text is one step to the interpreter, in which no other thread has its turn: what is counted
    in a thread would hold the event loop for as long. A library's own code lets go of it.
    """

    def __init__(self) -> None:
        self._size = 0  # characters since the last pause

    def count(self, text: str) -> int:
        """About its tokens; one at least where there is any text."""
        tokens = 0
        for block in blocks(text, _SLICE):
            self._size += len(block)
            if self._size > Approximate.chars_at_once:  # more than anybody counts on the event loop
                time.sleep(_PAUSE)
                self._size = len(block)
            tokens += estimate(block)
        return max(1, tokens) if text else 0


APPROXIMATE = Approximate()


BLOCK = 2048
_WORTH_KEEPING = 64
_SEAM = re.compile(r"(?<=\S) (?=[A-Za-z])")


def blocks(text: str, size: int = BLOCK) -> Iterator[str]:
    """`text` in pieces of `size` to twice as many characters. Text without seams is cut where it must be."""
    begin, length = 0, len(text)
    while length - begin > 2 * size:
        seam = _SEAM.search(text, begin + size, begin + 2 * size)
        end = seam.start() if seam is not None else begin + 2 * size
        yield text[begin:end]
        begin = end
    yield text[begin:] if begin else text


def last_seam(text: str) -> int:
    """Where the last seam is; the length of `text` when it has none."""
    at = len(text)
    for found in _SEAM.finditer(text, max(0, at - BLOCK)):
        at = found.start()
    return at


class CountCache:
    """The last counted texts, bounded in number and characters. For threads."""

    def __init__(self, count: Callable[[str], int], *, max_entries: int = 8192, max_chars: int = 8 << 20) -> None:
        self._count = count
        self._kept: LRUCache[str, int] = LRUCache(max_entries=max_entries, max_size=max_chars)

    def __len__(self) -> int:
        return len(self._kept)

    def count(self, text: str) -> int:
        """Its tokens, known or counted now."""
        if len(text) < _WORTH_KEEPING:
            return self._count(text)
        tokens = self._kept.get(text)
        if tokens is None:
            tokens = self._count(text)
            self._kept.put(text, tokens, size=len(text))
        return tokens


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


@functools.lru_cache(maxsize=16)
def load(setting: str) -> Tokenizer:
    """The tokenizer that the setting names; once, for it takes up to seconds. `upstream` is not here: it is asked.

    Raises SettingsError, naming the extra or the file that is missing. Nothing is ever downloaded.
    """
    kind, _, name = setting.partition(":")
    match kind:
        case "tiktoken":
            from .tiktoken_tokenizer import load_tiktoken

            return load_tiktoken(name)
        case "hf":
            from .hf_tokenizer import load_hf

            return load_hf(name)
        case _:
            return APPROXIMATE
