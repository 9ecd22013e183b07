"""What counts tokens: with a vocabulary, or by the approximation that needs none.

Long text is counted in blocks that recur: a prompt's beginning is the same at every turn of a conversation. A
block ends before a single space between two words, where no common pre-tokenizer joins what is on both sides; so the
blocks' counts add up to the text's. They are cut from the beginning, so that texts which begin alike share blocks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
_PAUSE = 2e-5  # seconds; a thread that releases the GIL and takes it again at once wakes no other thread


def estimate(text: str) -> int:
    """About how many tokens `text` is for a common vocabulary."""
    return sum(1 + (len(piece) - 1) // _LETTERS_A_TOKEN for piece in _PIECE.findall(text))


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


TOKENS_A_MESSAGE = 4
"""A role and the separators around it, where no chat template is known."""
TOKENS_OF_THE_ANSWER = 3
"""What opens the assistant's turn at the end of a prompt."""
_TOKENS_A_PART = 256  # an image or a sound: a guess
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
                is_text = isinstance(part, dict) and _is_text(part)
                tokens += count(part["text"]) if is_text else _TOKENS_A_PART
        if isinstance(message.get("name"), str):
            tokens += 1 + count(message["name"])
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            exact = False
            tokens += _TOKENS_A_CALL + count(call_text(call))
    if prompt.tools:
        exact = False
        tokens += count(msgspec.json.encode(prompt.tools).decode())
    return Count(tokens, exact)


def call_text(value: Any) -> str:
    """The names and arguments in the calls of a message or delta."""
    texts = []
    for call in value if isinstance(value, list) else [value]:
        if isinstance(call, dict):
            inner = next((call[kind] for kind in ("function", "custom") if isinstance(call.get(kind), dict)), call)
            texts += [text for key in ("name", "arguments", "input") if isinstance(text := inner.get(key), str)]
    return "".join(texts)


class TemplateError(Exception):
    """The template cannot render these messages."""


class Tokenizer:
    """Counts with one vocabulary. Shared by all requests and their threads.

    one: the tokens of a text, counted by a library that lets other threads run. chars_at_once: how much may be counted
    on the event loop, which is what takes at most 5 ms. end_tokens: what an engine counts for the end of an answer that
    the model ended itself. adds_up: the counts of a text's blocks are together the text's. special_tokens: those of the
    vocabulary that no text may hold, as far as they are known. render: makes a prompt's text and
    raises TemplateError. own_form: without `render`, a constant for each message is what the chat form adds.
    checkpoint: the folder of the model, where that holds a chat template.
    """

    exact = True
    """Whether it has the vocabulary."""

    def __init__(
        self,
        one: Callable[[str], int],
        *,
        chars_at_once: int,
        end_tokens: int = 0,
        adds_up: bool = True,
        special_tokens: Sequence[str] = (),
        render: Callable[[Prompt], str] | None = None,
        own_form: bool = False,
        checkpoint: str | None = None,
    ) -> None:
        self.chars_at_once = chars_at_once
        self.end_tokens = end_tokens
        self.special_tokens = special_tokens
        self.checkpoint = checkpoint
        self._one = one
        self._adds_up = adds_up
        self._render = render
        self._own_form = own_form
        self.cache: LRUCache[str, int] = LRUCache(max_entries=8192, max_size=8 << 20)
        """The last texts that are likely to come again, and their tokens."""

    def count(self, text: str, /) -> int:
        """Tokens of a text that a model wrote."""
        return sum(map(self._one, blocks(text))) if self._adds_up else self._one(text)

    def count_again(self, text: str, /) -> int:
        """Tokens of a text that is likely to come again."""
        if not self._adds_up:
            return self._known(text)
        return sum(map(self._known, blocks(text)))

    def count_prompt(self, prompt: Prompt, /) -> Count:
        """Tokens of a prompt, what its chat template adds included."""
        # A picture is not in the text that a template makes.
        if self._render is not None and all(isinstance(each["content"], str) for each in prompt.messages):
            try:
                return Count(self.count_again(self._render(prompt)), exact=True)
            except TemplateError:
                pass
        counted = count_messages(prompt, self.count_again)
        return Count(counted.tokens, counted.exact and self._own_form)

    def _known(self, text: str) -> int:
        """Its tokens, known or counted now."""
        if len(text) < _WORTH_KEEPING:
            return self._one(text)
        tokens = self.cache.get(text)
        if tokens is None:
            tokens = self._one(text)
            self.cache.put(text, tokens, size=len(text))
        return tokens


class Approximate(Tokenizer):
    """Knows no vocabulary: every count is an estimate.

    Text is estimated in slices, between which other threads run. A search through a long text is one step to the
    interpreter, in which no other thread has its turn: a count in a thread would hold the event loop for as long.
    """

    exact = False

    def count(self, text: str, /, since: list[int] | None = None) -> int:
        """Tokens of a text; at least one where there is any text. since: holds the characters since the last pause."""
        tokens, since = 0, [0] if since is None else since
        for block in blocks(text, _SLICE):
            since[0] += len(block)
            if since[0] > self.chars_at_once:  # more than the event loop ever counts
                time.sleep(_PAUSE)
                since[0] = len(block)
            tokens += self._one(block)
        return max(1, tokens) if text else 0

    count_again = count

    def count_prompt(self, prompt: Prompt, /) -> Count:
        since = [0]  # over all messages: each may be short
        return Count(count_messages(prompt, lambda text: self.count(text, since)).tokens, exact=False)


APPROXIMATE = Approximate(estimate, chars_at_once=1 << 15)
