"""What counts tokens: the seam for vocabularies, and the approximation that needs none."""

from __future__ import annotations

import re
from typing import Protocol

from .prompt import Count, Prompt, count_messages

# Words, numbers in threes, punctuation, lines, characters that are words of their own, other scripts in pairs: that is
# about what byte-pair vocabularies make of text.
_PIECE = re.compile(
    r"[A-Za-z]+|[0-9]{1,3}|[!-/:-@\[-`{-~]+|\n+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00010000-\U0010ffff]"
    r"|[\x80-\u303f\u3100-\u33ff\ua000-\uabff\ud7b0-\uffff]{1,2}"
)
_LETTERS_A_TOKEN = 6


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
