"""Where a reader of arguments in Python's or Gemma's notation stands: what it expects next, and what is open.

The parts of an `Arguments` share one `ArgumentsPosition`, so that each piece of text may be read by another part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...json_schema.types import ALL, declared_types
from .brackets import Brackets

KEY, COLON, VALUE, STRING, IN_WORD, AFTER = range(6)
"""What is expected next, or stands open."""


SET = "<"
"""The bracket of a set in Python's notation, `{'a', 'b'}`, among those that are open."""
LISTS = f"[({SET}"
"""Those in which values stand without keys."""


class ArgumentsPosition:
    """Where an `Arguments` stands in its call, and of which types its next value may be."""

    __slots__ = ("_schema", "declared", "empty", "positional", "repaired", "stack", "state", "types")

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        self._schema = schema
        properties = schema.get("properties") if schema else None
        self.declared: list[str] = list(properties) if isinstance(properties, Mapping) else []
        """The names of the declared parameters, in their order."""
        self.state = KEY
        self.stack = Brackets()
        """The open containers; the call's own brackets are not among them."""
        self.empty = True
        """Nothing stands in the innermost container yet."""
        self.positional = 0
        """How many parameters of the call have come: the next one without a name is this one."""
        self.types = ALL
        self.repaired = False

    @property
    def in_list(self) -> bool:
        """Whether values stand here without keys."""
        return bool(self.stack) and self.stack[-1] in LISTS

    def named(self, key: str) -> None:
        """A key is complete."""
        self.state = COLON
        if not self.stack or self.stack == ["*"]:
            self.types = declared_types(self._schema, key)
            self.positional += 1
        else:
            self.types = ALL

    def opened(self, bracket: str) -> None:
        """A list or object begins."""
        self.stack.append(bracket)
        self.empty = True
        self.types = ALL
        self.state = KEY if bracket == "{" else VALUE
