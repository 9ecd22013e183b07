"""What was learned of backends: what they refuse or ignore, and what reaches their models."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_REMEMBERED_SECONDS = 600.0
_REMEMBERED = 512  # facts
_LONGEST_NAME = 512  # characters


class BackendMemory:
    """What was learned of backends, by model. It fades, lives as long as the middleware, and all requests share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._known: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._clock = clock

    def refuse(self, model: str, field: str) -> None:
        """The backend refused `field` for `model`."""
        self.note(model, f"no {field}")

    def refuses(self, model: str, field: str) -> bool:
        """Whether it is known to."""
        return self.knows(model, f"no {field}")

    def note(self, model: str, fact: str) -> None:
        """Remember something of a model. Names that no model has are the client's, and could be of any size."""
        if len(model) > _LONGEST_NAME:
            return
        self._known[(model, fact)] = self._clock() + _REMEMBERED_SECONDS
        self._known.move_to_end((model, fact))
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def knows(self, model: str, fact: str) -> bool:
        """Whether it is remembered."""
        until = self._known.get((model, fact))
        if until is None:
            return False
        if until < self._clock():
            del self._known[(model, fact)]
            return False
        return True
