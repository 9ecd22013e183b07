"""The chunk that opens an answer with a role and empty content, held until it shows whether that content is text.

An answer of calls alone has `content: null`, streamed or whole; one of text keeps the bytes of its first chunk.
"""

from __future__ import annotations

from dataclasses import replace

from ..wire import openai
from ..wire.sse import ServerEvent
from .chunk import Choice, Part
from .chunk_writer import ChunkWriter
from .release_gate import Gate


class Opening:
    """What one stream opens with. `is_held`: it waits for what is said first, and so does all that is behind it."""

    __slots__ = ("_as_it_is", "_choice", "_gate", "_null", "_writer")

    def __init__(self, writer: ChunkWriter, gate: Gate) -> None:
        self._writer = writer
        self._gate = gate
        self._choice: Choice | None = None
        self._as_it_is: list[bytes] = []
        self._null: list[bytes] = []

    @property
    def is_held(self) -> bool:
        """Whether anything waits."""
        return self._choice is not None

    def holds(self, event: ServerEvent, part: Part) -> bool:
        """Whether `event`, of which `part` was read, is kept. Only what comes before all else is."""
        choice = part.choice
        if not part.opens or (choice.has_role and not self.is_held):
            return False
        if not self.is_held:
            self._writer.put(replace(part, delta={**part.delta, "content": openai.NULL}), self._null)
            choice.has_role = False
        if part.unchanged:
            self._as_it_is.append(event.raw)
            choice.has_role = True
        else:
            self._writer.put(part, self._as_it_is)
        self._choice = choice
        self._gate.wait()
        return True

    def take(self) -> list[bytes]:
        """What was kept, now that it may leave."""
        choice, self._choice = self._choice, None
        return self._null if choice is not None and choice.answer.calls else self._as_it_is
