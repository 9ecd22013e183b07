"""What a family's models do with their reasoning: what of it their template gives back, and whether the template
opens it.

Where a model reasons, calls, gets a result and goes on, most families want to see the reasoning of that turn again, and
some all of it: without it they reason anew. Each family says so in its file, with the source.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...parsing.text.reasoning import OpenedReasoning
from . import escaping

THINK = OpenedReasoning()
"""`<think>` and `</think>`."""


class Returned(enum.Enum):
    """Of which earlier turns a model reads its reasoning again."""

    NONE = "none"
    TURN = "since the last user message"
    ALL = "all turns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thoughts:
    """The reasoning of one family. Globs of names are as in registry.py, each with its source."""

    returned: Returned = Returned.NONE
    """What the family's template gives back by default."""
    source: str = ""
    """What says so."""
    other: Mapping[str, tuple[Returned, str]] = field(default_factory=dict)
    """Globs of models that differ in that, and the source; the first that matches decides."""
    opened: Mapping[str, str] = field(default_factory=dict)
    """Globs of models whose template opens the reasoning in the prompt unless it is asked not to."""
    unopened: Mapping[str, str] = field(default_factory=dict)
    """Globs of models among them whose template does not."""
    before: str = "<think>"
    """The text before the reasoning in a turn."""
    after: str = "</think>"
    """The text between the reasoning and the rest of the turn."""
    text: str = ""
    """The text before a rest that does not begin with a marker (`<`), where that is a message of its own."""
    tags: OpenedReasoning = THINK
    """What opens and closes it in an answer."""

    def written(self, thought: str, rest: str = "") -> str:
        """A turn: its reasoning, and the rest after it. Markup in the reasoning is neutralised: no call in it is read
        again.
        """
        turn = f"{self.before}{escaping.neutralise(thought.strip())}{self.after}"
        if not rest.strip():
            return turn.rstrip()
        return f"{turn}{rest}" if rest.startswith("<") else f"{turn}{self.text}{rest}"


def between(opening: str, close: str) -> Thoughts:
    """The reasoning of a family that has these tags around it, and reads none of it again."""
    return Thoughts(tags=OpenedReasoning(opening, close))


NO_THOUGHTS = Thoughts()
