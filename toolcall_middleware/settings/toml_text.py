"""Reads files that an operator names, and TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MAX_BYTES = 16 << 20
_BOUND = 1 << 63
_DEPTH = 16


def read_file(path: str | Path, most: int = MAX_BYTES) -> str:
    """The text of a file. Raises ValueError unless it is a regular file of UTF-8 and of at most so many bytes."""
    file = Path(path)
    try:
        if file.exists() and not file.is_file():  # a pipe would be waited for
            raise ValueError("it is no file")
        if file.stat().st_size > most:
            raise ValueError(f"it is larger than {most} bytes")
        return file.read_text("utf-8")
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def read_toml(text: str) -> dict[str, Any]:
    """The tables of `text`, with or without a byte order mark.

    Raises ValueError, whose message says why, for everything that is not TOML. That includes an integer of more than 64
    bits and deep nesting: Python raises a plain ValueError from 4,301 digits on and a RecursionError, where the text is
    read and again where an error message shows the value.
    """
    try:
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        said = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "an integer has more than 64 bits"
        raise ValueError(said) from None
    _check([tables], 0)
    return tables


def _check(values: Iterable[Any], depth: int) -> None:
    if depth > _DEPTH:
        raise ValueError("it is nested too deeply")
    for value in values:
        if isinstance(value, dict):
            _check(value.values(), depth + 1)
        elif isinstance(value, list):
            _check(value, depth + 1)
        elif isinstance(value, int) and not -_BOUND <= value < _BOUND:
            raise ValueError("an integer has more than 64 bits")
