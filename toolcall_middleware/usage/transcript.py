"""What a model has written in one choice, kept to be counted once, at the end; of long texts the end only."""

from __future__ import annotations

from collections import deque

from .tokenizers.base import APPROXIMATE, Tokenizer
from .tokenizers.blocks import BLOCK, last_seam

_PIECES = 64
_THINK, _UNTHINK = "<think>", "</think>"


class Transcript:
    """Collects pieces. `size`: characters in all.

    kept: how many characters are kept for the end. Of a longer text the beginning is counted while more comes, block by
    block, so that neither memory nor the work at the end grows with the answer.
    """

    __slots__ = ("_kept", "_pieces", "_settled", "_text", "_tokenizer", "_waiting", "size")

    def __init__(self, tokenizer: Tokenizer, kept: int) -> None:
        self._tokenizer = tokenizer
        self._kept = kept
        self._pieces: list[str] = []
        self._text: deque[str] = deque()
        self._waiting = 0  # characters in _text
        self._settled = 0  # tokens of what is no longer kept
        self.size = 0

    def add(self, piece: str) -> None:
        """The model wrote `piece`."""
        self.size += len(piece)
        pieces = self._pieces
        pieces.append(piece)
        if len(pieces) == _PIECES:
            self._pack()

    def _pack(self) -> None:
        """Small pieces into one: an open stream keeps little more than its characters."""
        packed = "".join(self._pieces)
        self._pieces.clear()
        self._text.append(packed)
        self._waiting += len(packed)
        while self._waiting > self._kept:
            self._settle()

    def _settle(self) -> None:
        taken: list[str] = []
        size = 0
        while self._text and size < 2 * BLOCK:
            taken.append(self._text.popleft())
            size += len(taken[-1])
        head = "".join(taken)
        seam = last_seam(head)
        if seam < size:
            self._text.appendleft(head[seam:])
        self._waiting -= seam
        self._settled += self._tokenizer.count(head[:seam])

    @property
    def is_kept(self) -> bool:
        """Whether all of it is still here."""
        return not self._settled

    def text(self) -> str:
        """What is kept of it."""
        return "".join((*self._text, *self._pieces))

    def tokens(self) -> int:
        """Its tokens, counted now."""
        return self._settled + self._tokenizer.count(self.text())

    def estimate(self) -> int:
        """About its tokens."""
        return self._settled + APPROXIMATE.count(self.text())

    def thinking(self) -> str:
        """The reasoning that it begins with, in tags; the template may have written the first one."""
        if not self.is_kept:
            return ""
        text = self.text().lstrip()
        head, end, _ = text.partition(_UNTHINK)
        if text.startswith(_THINK) or (end and _THINK not in head):
            return head + end
        return ""
