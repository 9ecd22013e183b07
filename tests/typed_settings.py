"""Writes `settings/keywords.py`, the settings as types, from the table of options: `python -m tests.typed_settings`."""

from __future__ import annotations

from pathlib import Path

from toolcall_middleware import settings
from toolcall_middleware.settings import OPTIONS

PATH = Path(settings.__file__).parent / "keywords.py"

_GIVEN = {
    "str": "str",
    "str | None": "str | None",
    "bool": "bool | str",
    "int": "int | str",
    "int | None": "int | str | None",
    "float": "float | str",
    "float | None": "float | str | None",
    "tuple[str, ...]": "str | Iterable[str] | None",
}
"""What may be given for a setting, by the type that its values have: its text in a variable is always allowed."""


def text() -> str:
    """The whole file."""
    given = "\n".join(f"    {name}: {_GIVEN[option.reader.type]}" for name, option in OPTIONS.items())
    values = "\n".join(f"    {name}: {option.reader.type}" for name, option in OPTIONS.items())
    return f'''"""The settings as types, for editors and type checkers. Written by `python -m tests.typed_settings`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict


class Keywords(TypedDict, total=False):
    """What may be given."""

{given}


class Values:
    """What a `Settings` has."""

{values}
'''


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
