"""What a family's models do with their reasoning: what of it their template gives back, and whether the template
opens it.

Where a model reasons, calls, gets a result and goes on, most families want to see the reasoning of that turn again, and
some all of it: without it they reason anew. Each family says so in its file, with the source.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...parsing.text.reasoning import Opened
from . import escaping

THINK = Opened()
"""`<think>` and `</think>`."""


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
    tags: Opened = THINK
    """What opens and closes it in an answer."""

    def written(self, text: str) -> str:
        """The reasoning as it stands in a turn. Markup in it is neutralised: no call in it is read again."""
        return f"{self.before}{escaping.neutralise(text.strip())}{self.after}"


NO_THOUGHTS = Thoughts()
