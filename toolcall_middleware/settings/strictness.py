"""Whether one value of a setting is stricter than another: behind "a request may tighten, never loosen"."""

from __future__ import annotations

import fnmatch
import functools
from typing import Any

from . import Settings
from .options import OPTIONS, Levels, Strictness

_MAX_KEPT = 512


def of_request(name: str) -> bool:
    """Whether a request may say something about this setting."""
    return name in OPTIONS and OPTIONS[name].strictness is not Strictness.OPERATOR


def is_looser(name: str, value: Any, settings: Settings) -> bool:
    """Whether `value` would loosen what `settings` say."""
    current = getattr(settings, name)
    match OPTIONS[name].strictness:
        case Strictness.OPERATOR:
            return bool(value != current)
        case Strictness.FREE:
            return False
        case Strictness.FEWER:
            return current is not None and (value is None or value > current)
        case Strictness.SUBSET:
            return settings.allowlist_mode != "off" and not all(_within(pattern, current) for pattern in value)
        case levels:
            return _level(levels, value) < _level(levels, current)


def _level(levels: Levels, value: Any) -> int:
    return next(number for number, values in enumerate(levels) if value in values)


def _within(pattern: str, patterns: tuple[str, ...]) -> bool:
    """Whether all that `pattern` admits is admitted by `patterns`: a name that they admit, or one of them."""
    return pattern in patterns or (not set("*?[") & set(pattern) and admits(patterns, pattern))


def admits(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a tool's name is one of `patterns`: names, or globs with `*`, `?` and `[...]`."""
    # Clients and models make up names of any size, which nobody keeps.
    return _admits(patterns, name) if len(name) <= _MAX_KEPT else _admits.__wrapped__(patterns, name)


@functools.lru_cache(maxsize=4096)
def _admits(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
