"""What was learned of backends: what they refuse or ignore, and what reaches their models.

All requests share it, so nothing that one client sends may decide for another. What is remembered for all was shown by
a request that any client could have sent; what a request's own tools, schema or fields may have caused is remembered
for those alone (a fact's name holds their digest), or for the client (`of`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..fading_memory import FadingMemory, digest

REMEMBERED_SECONDS = 600.0
DOUBTFUL_SECONDS = 120.0
"""For what a model's answer seemed to show: it is asked again sooner."""
_REMEMBERED = 512  # facts
_LONGEST_NAME = 512  # characters
_OF_CLIENT = " of client "


class BackendMemory:
    """What was learned of backends, by model. It fades, lives as long as the middleware, and all requests share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._known = FadingMemory[tuple[str, str], Any](clock, most=_REMEMBERED)
        self._clock = clock
        self._client = ""

    def of(self, client: bytes) -> BackendMemory:
        """The same memory as one client sees it, who is told apart by `client` (a header's value)."""
        if not client:
            return self
        view = BackendMemory(self._clock)
        view._known = self._known
        view._client = digest(client)
        return view

    def refuse(self, model: str, field: str) -> None:
        """The backend refused `field` for `model`."""
        self.note(model, f"no {field}")

    def refuses(self, model: str, field: str) -> bool:
        """Whether it is known to."""
        return self.knows(model, f"no {field}")

    def note(self, model: str, fact: str, *, value: Any = True, seconds: float = REMEMBERED_SECONDS) -> None:
        """Remember something of a model. Names that no model has are the client's, and could be of any size."""
        if len(model) <= _LONGEST_NAME:
            self._known.put((model, fact), value, seconds=seconds)

    def note_own(self, model: str, fact: str, *, value: Any = True, seconds: float = DOUBTFUL_SECONDS) -> None:
        """Remember something for this client alone, and not for long: its own words may have caused it."""
        self.note(model, self._own(fact), value=value, seconds=seconds)

    def recall_own(self, model: str, fact: str) -> Any:
        """What was noted with the fact for this client; None where nothing is remembered."""
        return self.recall(model, self._own(fact))

    def knows(self, model: str, fact: str) -> bool:
        """Whether it is remembered, for all or for this client."""
        return self.recall(model, fact) is not None or self.recall(model, self._own(fact)) is not None

    def recall(self, model: str, fact: str) -> Any:
        """What was noted with the fact; None where nothing is remembered."""
        return self._known.get((model, fact))

    def facts(self, model: str) -> list[tuple[str, bool, Any]]:
        """All that is remembered of a model, as (fact, whether for this client alone, value): for traces. What tells
        clients apart is not in it.
        """
        mark, own = _OF_CLIENT, self._own("")
        return [
            (fact.removesuffix(own), fact.endswith(own), value)
            for (known, fact), value in self._known.items()
            if known == model and (fact.endswith(own) or mark not in fact)
        ]

    def _own(self, fact: str) -> str:
        return f"{fact}{_OF_CLIENT}{self._client}"
