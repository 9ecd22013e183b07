"""What a chunk of the backend's has become, as the chunks that leave for the client."""

from __future__ import annotations

import msgspec

from ..wire import openai
from ..wire.openai import Fields, Shell
from .choice import ChoiceAnswer
from .chunk import Part
from .deltas import DeltaWriter
from .operations import Op

_encode = msgspec.json.encode
_OWN_FIELDS = frozenset({"index", "delta", "finish_reason"})
_ASSISTANT = openai.raw("assistant")


class ChunkWriter:
    """Parts of chunks in, whole events out.

    top: the fields of the chunk at hand, and of the last one later. unread: a later one, that left as it came.
    """

    __slots__ = ("_deltas", "top", "unread")

    def __init__(self, deltas: DeltaWriter) -> None:
        self._deltas = deltas
        self.top: Fields = {}
        self.unread = b""

    def head(self) -> Fields:
        """The fields of the last chunk."""
        if self.unread:
            self.top, self.unread = openai.read_object(self.unread) or self.top, b""
        return self.top

    def turn_to(self, top: Fields) -> bool:
        """Keep the head of this chunk. True when it holds something that the last one did not."""
        last = self.head()
        self.top = top
        return last is not top and any(
            name not in openai.HEAD
            and name not in {"choices", "usage"}
            and not openai.is_null(value)
            and last.get(name) != value
            for name, value in top.items()
        )

    def frame(self, shell: Shell, op: Op) -> tuple[bytes, bytes] | None:
        """The bytes around the text of `op` in an event of this shell, where that is written as a JSON string."""
        frame = self._deltas.frame(op)
        return None if frame is None else (shell.before + frame[0], frame[1] + shell.after)

    def put(self, part: Part, out: list[bytes], *, shell: Shell | None = None, news: bool = False) -> None:
        """Chunks for what a part has become. `shell`: of its fields. `news`: its chunk's own fields must leave."""
        choice, fields, reason = part.choice, part.fields, part.reason
        top = self.head()
        rest = {name: value for name, value in part.delta.items() if name != "content" or not part.text}
        if choice.has_role:
            rest.pop("role", None)
        else:
            rest["role"] = _ASSISTANT
            choice.has_role = True
        bare = {"index": fields["index"]}
        if shell is None:
            # A finish_reason has a chunk of its own, and what stands beside it goes there.
            shell = Shell(top, bare if reason is not None else fields)
        for number, op in enumerate(part.ops):
            delta = self._deltas.parts(op)
            if number == 0 and rest:
                delta = (_encode({**rest, **(openai.read_object(b"".join(delta)) or {})}),)
            elif number == 1:
                shell = Shell(top, bare)
            # In parts: a whole call may be long, and is joined once.
            out += (shell.before, *delta, shell.after)
        if not part.ops:
            extras = reason is None and says_beside(fields)
            if extras or any(not openai.is_null(value) for value in rest.values()) or (news and reason is None):
                out.append(shell.around(_encode(rest)))
        if reason is not None:
            out.append(self._finish_chunk(fields, reason, choice.answer))

    def _finish_chunk(self, fields: Fields, reason: str, answer: ChoiceAnswer) -> bytes:
        """An empty delta with the finish_reason."""
        choice = {**fields, "delta": {}, "finish_reason": reason}
        body = {name: value for name, value in self.top.items() if name != "usage"}
        return openai.event(_encode({**body, "choices": [choice], **answer.extras}))


def says_beside(fields: Fields) -> bool:
    """Whether a chunk's choice says something beside its delta."""
    return any(name not in _OWN_FIELDS and not openai.is_null(value) for name, value in fields.items())
