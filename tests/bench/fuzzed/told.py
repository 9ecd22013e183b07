"""What an exchange was made of, told with its failure."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def told(**made_of: object) -> Iterator[None]:
    """Whatever is raised inside carries these as a note."""
    try:
        yield
    except Exception as error:
        error.add_note("".join(f"  {name} = {value!r}\n" for name, value in made_of.items()))
        raise


def describe(error: Exception) -> str:
    """What is wrong, where, and the exchange that shows it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    notes = "".join(getattr(error, "__notes__", ()))
    return f"{type(error).__name__} ({frame.filename}:{frame.lineno}): {str(error)[:1500]}\n{notes}"
