"""What a random exchange is chosen with: a seed, or the bytes of a fuzzer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Dice(Protocol):
    """What choices are made with."""

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        ...


class Seeded:
    """Dice from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, count: int) -> int:
        """See `Dice`."""
        return int(self._random.random() * count)


class FromBytes:
    """Dice from a fuzzer's bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def below(self, count: int) -> int:
        """See `Dice`."""
        byte = self._data[self._at] if self._at < len(self._data) else 0
        self._at += 1
        return byte % count


def pick(dice: Dice, options: Sequence[_T]) -> _T:
    """One of them."""
    return options[dice.below(len(options))]


def chance(dice: Dice, one_in: int) -> bool:
    """Whether it happens, once in so many times."""
    return dice.below(one_in) == one_in - 1


def pieces(dice: Dice, text: str, longest: int = 12) -> list[str]:
    """`text` cut at places of the dice's choice, pieces of up to `longest` characters."""
    sizes = [1 + dice.below(longest) for _ in range(4)]
    cut: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(cut) % 4]
        cut.append(text[at : at + size])
        at += size
    return cut
