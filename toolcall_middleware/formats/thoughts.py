"""By a model's name: which reasoning it reads again, and which its template opens. The families say so."""

from __future__ import annotations

import functools

from ..parsing.text.reasoning import OpenedReasoning
from . import markup
from .prompt.thoughts import NO_THOUGHTS, Returned, Thoughts


def of_format(fmt: object) -> Thoughts:
    """The reasoning of the family that a format writes the prompt of."""
    own = getattr(fmt, "thoughts", None)
    found = getattr(getattr(fmt, "prompt", None), "thoughts", None) if own is None else own  # `auto` has a prompt's
    return found if isinstance(found, Thoughts) else NO_THOUGHTS


def opened_for(model: str) -> OpenedReasoning | None:
    """The reasoning that the template of this model opens; None where it opens none, or the name tells nothing."""
    from . import models  # as is `auto`: who asks for one format needs no table of all

    return _opened_for(model) if len(model) <= models.MAX_NAME else None


@functools.lru_cache(maxsize=512)
def _opened_for(model: str) -> OpenedReasoning | None:
    from . import models

    for family in markup.families():
        thoughts = of_format(family)
        if any(models.matches(model, glob) for glob in thoughts.opened):
            return None if any(models.matches(model, glob) for glob in thoughts.unopened) else thoughts.tags
    return None


def of_model(fmt: object, model: str) -> Thoughts:
    """The reasoning of a model: as its own family has it, by its name, else as that of the format."""
    from . import models

    name = models.family(model)
    return of_format(fmt) if name is None else _by_name()[name]


@functools.cache
def _by_name() -> dict[str, Thoughts]:
    return {family.name: of_format(family) for family in markup.families()}


def returned(thoughts: Thoughts, model: str) -> Returned:
    """Of which turns the model of this name reads its reasoning again."""
    from . import models

    for glob, (differs, _) in thoughts.other.items():
        if models.matches(model, glob):
            return differs
    return thoughts.returned
