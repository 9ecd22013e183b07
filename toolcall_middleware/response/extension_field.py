"""The `extension_field`: what an answer that holds calls says beyond OpenAI's fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_ALWAYS = "tool calls are written by a model: check them before you run them"


@dataclass(frozen=True, slots=True)
class Extension:
    """`field` with what there is to warn of. `notes` are the request's own warnings, such as of its tool results."""

    field: str
    notes: tuple[str, ...] = ()

    def of(self, warnings: Sequence[str]) -> dict[str, Any]:
        """`{field: {"warning": text}}`; a general caution where nothing else is to be said."""
        return {self.field: {"warning": "; ".join([*self.notes, *warnings]) or _ALWAYS}}
