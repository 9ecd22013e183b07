"""What a model thought in earlier turns, as it reads it again: in its family's tags, before what it said then.

A client sends it as `reasoning` or `reasoning_content`, which text backends do not know, or as parts of the content.
Where the family wants none of it, or not of turns that long ago, it is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..formats.models import returned
from ..formats.prompt.thoughts import Returned, Thoughts
from ..wire.openai import thought_in

_log = logging.getLogger("toolcall_middleware")
_FIELDS = ("reasoning_content", "reasoning")

Message = dict[str, Any]


class EarlierThoughts:
    """Writes the reasoning of a conversation's turns, asked in their order. messages: the client's."""

    __slots__ = ("_from", "_left_out", "_thoughts", "_turn")

    def __init__(self, messages: Sequence[Message], thoughts: Thoughts, model: str) -> None:
        self._thoughts = thoughts
        self._turn = 0
        self._left_out = 0
        roles = [message["role"] for message in messages]
        match returned(thoughts, model):
            case Returned.NONE:
                self._from = len(roles)
            case Returned.TURN if "user" in roles:
                last = len(roles) - 1 - roles[::-1].index("user")
                self._from = roles[:last].count("assistant")
            case _:
                self._from = 0

    def with_thought(self, message: Message, content: str) -> str:
        """The text of the next assistant message, `content`, behind its reasoning, which it may hold already."""
        turn, self._turn = self._turn, self._turn + 1
        thought = reasoning_of(message)
        if not thought or content.lstrip().startswith(self._thoughts.tags.opening):
            return content
        if turn < self._from:
            self._left_out += 1
            return content
        return self._thoughts.written(thought, content)

    def log(self) -> None:
        """Tell of what was left out, once all turns were asked for."""
        if self._left_out:
            _log.debug("The reasoning of %d earlier turns is left out, as the model wants it.", self._left_out)


def reasoning_of(message: Message) -> str:
    """What a message says of its reasoning, in whatever form."""
    for name in _FIELDS:
        if isinstance(said := message.get(name), str) and said.strip():
            return said
    for holder, read in (("content", thought_in), ("reasoning_details", _text_in)):
        parts = message.get(holder)
        if isinstance(parts, list) and (said := "\n".join(filter(None, map(read, parts)))):
            return said
    return ""


def _text_in(detail: Any) -> str:
    match detail:
        case {"type": "reasoning.text", "text": str(text)}:
            return text
    return ""
