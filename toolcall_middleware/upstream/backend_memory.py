"""What was learned of backends, by model.

All requests share it, so nothing that one client sends may decide for another. A fact that a request's own tools,
schema or fields may have caused names them (`Fact.of` holds their digest), or is kept for that client alone (`of`).
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ..fading_memory import FadingMemory, digest

REMEMBERED_SECONDS = 600.0
DOUBTFUL_SECONDS = 120.0
"""For a conclusion that is checked again sooner."""
_REMEMBERED = 512  # facts
_LONGEST_NAME = 512  # characters
_ALL = None  # in place of a client


class Topic(enum.Enum):
    """What can be known of a model. The values are names in traces."""

    TOOLS = "tools"  # whether the backend's own tool calls work: a `ToolSupport`
    REFUSES = "refuses"  # a field, a kind of constraint, a question; of: its name, and what else was odd
    LEFT_OUT = "left_out"  # the keywords that a backend refuses in one schema; of: the constraint and its digest
    CALLS_COME = "calls_come"  # calls in a format reach us; of: the format
    CALLS_KEPT = "calls_kept"  # the engine takes calls in a format out of the text; of: the format
    OPENS_THOUGHT = "opens_thought"  # whether the prompt opens a thought; of: the position of the template's switch


class Fact(NamedTuple):
    """A topic and what it is about."""

    topic: Topic
    of: tuple[str, ...] = ()


class BackendMemory:
    """What was learned of backends, by model. It fades, lives as long as the middleware, and all requests share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._known = FadingMemory[tuple[str, Fact, str | None], Any](clock, most=_REMEMBERED)
        self._clock = clock
        self._client = ""

    def of(self, client: bytes) -> BackendMemory:
        """The same memory as seen by one client, identified by a header's value."""
        if not client:
            return self
        view = BackendMemory(self._clock)
        view._known = self._known
        view._client = digest(client)
        return view

    def refuse(self, model: str, name: str) -> None:
        """The backend refuses what has this name: a field, a question."""
        self.note(model, Fact(Topic.REFUSES, (name,)))

    def refuses(self, model: str, name: str) -> bool:
        """Whether it is known to."""
        return self.recall(model, Fact(Topic.REFUSES, (name,))) is not None

    def note(self, model: str, fact: Fact, *, value: Any = True, seconds: float = REMEMBERED_SECONDS) -> None:
        """Remember a fact for all clients. Longer names than any model has are a client's invention, and ignored."""
        if len(model) <= _LONGEST_NAME:
            self._known.put((model, fact, _ALL), value, seconds=seconds)

    def note_own(self, model: str, fact: Fact, *, value: Any = True, seconds: float = DOUBTFUL_SECONDS) -> None:
        """Remember a fact for this client alone: its own words may have caused it."""
        if len(model) <= _LONGEST_NAME:
            self._known.put((model, fact, self._client), value, seconds=seconds)

    def recall(self, model: str, fact: Fact) -> Any:
        """The value that was noted, for this client or for all; None if nothing is remembered."""
        own = self._known.get((model, fact, self._client))
        return own if own is not None else self._known.get((model, fact, _ALL))

    def facts(self, model: str) -> list[tuple[str, tuple[str, ...], bool, Any]]:
        """All that is remembered of a model, as (topic, of, whether for this client alone, value), for traces."""
        return [
            (fact.topic.value, fact.of, client is not _ALL, value)
            for (known, fact, client), value in self._known.items()
            if known == model and client in {_ALL, self._client}
        ]
