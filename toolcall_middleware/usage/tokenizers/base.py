"""What counts tokens: the seam for vocabularies, and the approximation that needs none."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Protocol

from .blocks import blocks
from .prompt_parts import Count, Prompt, count_messages

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
