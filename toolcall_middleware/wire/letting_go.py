"""Freeing what a large request held, in steps: a million objects in one are half a second in which no thread runs."""

from __future__ import annotations

from typing import Any

_MOST_SEEN = 4096
_LARGE = 1024
_STEP = 256


def let_go(*values: Any) -> None:
    """Empty the large lists in these JSON values, which nobody uses any more, in steps between which others run.

    Looked for where there are few: of a large list of large lists it is the outer one that is emptied.
    """
    waiting: list[Any] = [value for value in values if isinstance(value, dict | list)]
    large: list[list[Any]] = []
    seen = 0
    while waiting and seen < _MOST_SEEN:
        seen += 1
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [inner for inner in value.values() if isinstance(inner, dict | list)]
        elif len(value) < _LARGE:
            waiting += [inner for inner in value if isinstance(inner, dict | list)]
        else:
            large.append(value)
    waiting.clear()
    for items in large:
        while items:
            del items[-_STEP:]
