"""Writes `settings/keywords.py` from the table of options: `python -m tests.typed_settings`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from toolcall_middleware import settings
from toolcall_middleware.settings.options import Values

PATH = Path(settings.__file__).parent / "keywords.py"

_WIDTH = 120
_GIVEN = {
    "str": "str",
    "str | None": "str | None",
    "bool": "bool | str",
    "int": "int | str",
    "int | None": "int | str | None",
    "int | str | None": "int | str | None",
    "float": "float | str",
    "float | None": "float | str | None",
    "tuple[str, ...]": "str | Iterable[str] | None",
}
"""What may be given for a setting, by the type that its values have: its text in a variable is always allowed."""


def _given(kind: Any) -> str:
    # Text from elsewhere is checked at run time; an editor offers the words.
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(json.dumps(word) for word in get_args(kind))}] | str"
    return _GIVEN[kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)]


def _lines(types: Mapping[str, str]) -> str:
    """Members of a class, folded as ruff does it."""
    lines = []
    for name, kind in types.items():
        line = f"    {name}: {kind}"
        if len(line) > _WIDTH:
            words, _, more = kind.removeprefix("Literal[").partition("]")
            line = f"    {name}: Literal[\n        {words}\n    ]{more}"
        lines.append(line)
    return "\n".join(lines)


def text() -> str:
    """The whole file."""
    given = _lines({name: _given(kind) for name, kind in Values.__annotations__.items()})
    return f'''"""Settings as keywords, for editors and type checkers. Written by `python -m tests.typed_settings`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict


class Keywords(TypedDict, total=False):
    """What may be given."""

{given}
'''


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
