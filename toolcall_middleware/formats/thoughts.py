"""What a family's models do with their reasoning: what of it their template gives back, and whether the template
opens it.

Where a model reasons, calls, gets a result and goes on, most families want to see the reasoning of that turn again, and
some all of it: without it they reason anew. Each family says so in its file, with the source.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..parsing.text.reasoning import Opened
from . import markup, models
from .prompt import escaping


class Returned(enum.Enum):
    """Of which earlier turns a model reads its reasoning again."""

    NONE = "none"
    TURN = "since the last user message"
    ALL = "all turns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thoughts:
    """The reasoning of one family. Globs of names are as in models.py, each with its source."""

    returned: Returned = Returned.NONE
    """What the family's template gives back by default."""
    source: str = ""
    """What says so."""
    other: Mapping[str, tuple[Returned, str]] = field(default_factory=dict)
    """Globs of models that differ in that, and the source; the first that matches decides."""
    opened: Mapping[str, str] = field(default_factory=dict)
    """Globs of models whose template opens the reasoning in the prompt unless it is told not to."""
    before: str = "<think>"
    """What stands before the reasoning in a turn."""
    after: str = "</think>"
    """What stands between it and the rest of the turn."""
    tags: Opened = Opened()
    """What opens and closes it in an answer."""

    def returned_to(self, model: str) -> Returned:
        """What the model of this name reads again."""
        for glob, (returned, _) in self.other.items():
            if models.matches(model, glob):
                return returned
        return self.returned

    def written(self, text: str) -> str:
        """The reasoning as it stands in a turn. Markup in it is neutralised: no call in it is read again."""
        return f"{self.before}{escaping.neutralise(text.strip())}{self.after}"


NO_THOUGHTS = Thoughts()


def of_format(fmt: object) -> Thoughts:
    """The reasoning of the family that a format writes the prompt of."""
    own = getattr(fmt, "thoughts", None)
    found = getattr(getattr(fmt, "prompt", None), "thoughts", None) if own is None else own  # `auto` has a prompt's
    return found if isinstance(found, Thoughts) else NO_THOUGHTS


@functools.lru_cache(maxsize=512)
def opened_for(model: str) -> Opened | None:
    """The reasoning that the template of this model opens; None where it opens none, or the name tells nothing."""
    for name in markup.lineages():
        for family in markup.lineage(name):
            thoughts = of_format(family)
            if any(models.matches(model, glob) for glob in thoughts.opened):
                return thoughts.tags
    return None


def of_model(fmt: object, model: str) -> Thoughts:
    """The reasoning of a model: as its own family has it, by its name, else as that of the format."""
    name = models.family(model)
    if name is not None:
        return next(of_format(family) for family in markup.families() if family.name == name)
    return of_format(fmt)
