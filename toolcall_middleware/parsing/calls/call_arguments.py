"""A call's arguments as models write them: an object, a JSON string that holds one, nothing, or literals."""

from __future__ import annotations

from ..cursor import Cursor, Steps, TextOver
from ..values.encoded_json import StringArguments, may_be_none, no_arguments
from ..values.json_reader import JsonReader
from ..values.literal_reader import LiteralReader, Notation
from ..written_arguments import WrittenArguments


class CallArguments:
    """Reads one call's arguments, an object or a JSON string that holds one, and puts out an object's JSON.

    first: their first character. ends: markers that end the call. written: is told of the text itself.
    """

    __slots__ = ("_reader", "_whole", "_written", "cut", "done", "repaired", "stuck")

    def __init__(self, first: str, ends: tuple[str, ...] = (), written: WrittenArguments | None = None) -> None:
        self._written = None if written is None else written.value
        if self._written is not None:
            self._written.clear()
        self._reader: JsonReader | StringArguments = StringArguments() if first in "\"'" else JsonReader(ends)
        # What is neither is looked at as a whole: null and [] stand for no arguments.
        self._whole: list[str] | None = None if first in "{\"'" else []
        self.done = False
        self.repaired = False
        self.stuck = False
        self.cut = False
        """They ended in a value, or before one: what was put out is a beginning, and is never made to look complete."""

    def feed(self, s: str, i: int, /, *, last: bool = False) -> tuple[int, str]:  # noqa: ARG002 - see `CopiedArguments`
        """(index behind what was read, what leaves)."""
        out: list[str] = []
        if not self._reader.done:
            begun = i
            i = self._reader.feed(s, i, out)
            if self._written is not None:
                self._written.append(s[begun:i])
        self.stuck = self._reader.stuck
        self.done = self._reader.done
        self.repaired = self._reader.repaired
        self.cut = self.done and self._reader.cut
        return i, self._leave(out)

    @property
    def streams(self) -> JsonReader | StringArguments | None:
        """What copies the arguments as they arrive; None where they are looked at as a whole."""
        return self._reader if self._whole is None else None

    @property
    def is_cut(self) -> bool:
        """Whether `close` would find them cut. Before a marker, an object without anything is an empty one."""
        return self._reader.cut and not (self.stuck and self._reader.is_empty)

    @property
    def settled(self) -> bool:
        """Whether enough was seen to say that this is meant as JSON."""
        return self._reader.settled

    @property
    def doubtful(self) -> bool:
        """Whether this looks like no JSON: `{invalid json}`."""
        reader = self._reader
        return reader.doubtful or (reader.stuck and not reader.settled)

    @property
    def is_data(self) -> bool:
        """Whether this, complete, is neither an object nor nothing."""
        if self._whole is not None:
            return no_arguments("".join(self._whole)) != "{}"
        return isinstance(self._reader, StringArguments) and self._reader.is_plain

    def close(self, *, marked: bool = True) -> str:
        """End the arguments here: the missing brackets leave, unless they end in a value (`cut`).

        marked: where they are stuck, that is at the marker that ends the call; else it is something that is no JSON.
        """
        out: list[str] = []
        if not self.done:
            if self.is_cut and (marked or not self.stuck):
                self.cut = self.done = True
                return self.release()
            self._reader.close(out)
            self.done = self.repaired = True
        return self._leave(out)

    def release(self) -> str:
        """What is held, as it stands. Nothing, where it may mean that there are no arguments."""
        out = list(self._whole or ())
        self._reader.release(out)
        text = "".join(out)
        return "" if self._whole is not None and may_be_none(text) else text

    def _leave(self, out: list[str]) -> str:
        if self._whole is None:
            return out[0] if len(out) == 1 else "".join(out)
        self._whole += out
        return no_arguments("".join(self._whole)) if self.done else ""


def literal_call(cursor: Cursor, name: str, notation: Notation, opening: str) -> Steps[None]:
    """Read a call from its opening bracket on. That something was repaired is also reported of a call that is cut."""
    sink = cursor.sink
    arguments = LiteralReader(notation, opening, sink.schema(name), sink.offered)
    cursor.start(name)
    sink.args("{")
    cursor.i += 1  # the bracket: it is part of the arguments
    try:
        yield from cursor.copy(arguments)
    except TextOver:
        said = "" if cursor.cut else arguments.close()
        cursor.end(said, complete=not cursor.cut, repaired=arguments.repaired, closing=())
    else:
        cursor.end(closing=())
