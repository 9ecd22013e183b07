"""What the chat answer says that was made of a stream of Messages, and what of it has not left for the client yet."""

from __future__ import annotations

from typing import Any

from ...wire import openai


class PendingText:
    """What the chat answer has said, as text or as the arguments of a call, and what has not left yet.

    own: it has said something else than the upstream, and leaves in events of our own from there on.
    """

    __slots__ = ("_at", "_parts", "_text", "own")

    def __init__(self) -> None:
        self._text = ""
        self._at = 0  # what stands before this place has left
        self._parts: list[str] = []  # more of the text, which is joined once it is looked at
        self.own = False

    def add(self, text: str) -> None:
        self._parts.append(text)

    def has(self, piece: str) -> bool | None:
        """Whether the upstream's next piece was let pass; None while that is not known."""
        if self.own:
            return False
        if self._parts:
            self._text, self._at = self._text[self._at :] + "".join(self._parts), 0
            self._parts.clear()
        if self._text.startswith(piece, self._at):
            return True
        is_begun = len(self._text) - self._at < len(piece) and piece.startswith(self._text[self._at :])
        return None if is_begun else False

    def skip(self, piece: str) -> None:
        """The upstream's piece leaves."""
        self._at += len(piece)

    @property
    def waits(self) -> bool:
        return self._at < len(self._text) or bool(self._parts)

    def take(self) -> str:
        """All that has not left."""
        text = self._text[self._at :] + "".join(self._parts)
        self._text, self._at = "", 0
        self._parts.clear()
        return text


class Call:
    """A call of the chat answer, as far as it has come. foreign: no block of the upstream has its id."""

    __slots__ = ("_parts", "_value", "foreign", "id", "name", "pending")

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self.foreign = False
        self.pending = PendingText()
        self._parts: list[str] = []  # pieces of its arguments
        self._value: dict[str, Any] | None = None

    def add(self, arguments: str) -> None:
        self.pending.add(arguments)
        self._parts.append(arguments)

    def close(self, *, complete: bool) -> None:
        """No more arguments follow."""
        value = openai.read_value(self.written.encode("utf-8", "backslashreplace")) if complete else None
        self._value = value if isinstance(value, dict) else None

    def value(self) -> dict[str, Any] | None:
        """Its arguments; None where they are not complete, or no object."""
        return self._value

    @property
    def written(self) -> str:
        """Its arguments as text."""
        return "".join(self._parts)


class ChatSoFar:
    """One chat answer, as far as it has come.

    text: its prose. calls: by their index. waiting: the calls of which nothing has left, by their ids, in their order.
    reason: its `finish_reason`, once it is over.
    """

    __slots__ = ("calls", "reason", "text", "waiting")

    def __init__(self) -> None:
        self.text = PendingText()
        self.calls: dict[int, Call] = {}
        self.waiting: dict[str, Call] = {}
        self.reason = ""

    def open(self, index: int, call_id: str, name: str) -> Call:
        """Add a call."""
        call = self.calls[index] = self.waiting[call_id] = Call(call_id, name)
        return call

    @property
    def is_behind(self) -> bool:
        """Whether it is past what the upstream's next event says: what it has not said of that will not come."""
        return bool(self.reason or self.waiting)

    def is_known(self, call: Call) -> bool:
        """Whether there is no more of the arguments of a call that has not left yet."""
        return call.value() is not None or bool(self.reason) or len(self.waiting) > 1

    def has(self, pending: PendingText, piece: str) -> bool | None:
        """Whether the chat answer has the upstream's next piece too, so that the upstream's own event can be sent.

        None where the chat answer has not come so far.
        """
        passes = pending.has(piece)
        if passes is None and self.is_behind:
            passes = False
        pending.own = pending.own or passes is False
        return passes
