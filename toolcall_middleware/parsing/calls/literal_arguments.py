"""A call's arguments written as Python or Gemma writes them, for the readers that have a cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..cursor import CursorReader
from ..values.literal_reader import Arguments
from ..values.notation import Notation


class LiteralArguments:
    """Reads them behind the opening bracket, and puts out JSON behind its first brace. See `CopiedArguments`."""

    __slots__ = ("streams",)
    stuck = False

    def __init__(
        self,
        notation: Notation,
        bracket: str,
        schema: Mapping[str, Any] | None,
        offered: Callable[[str], bool],
    ) -> None:
        self.streams = Arguments(notation, bracket, schema, offered)

    @property
    def done(self) -> bool:
        """Whether the closing bracket was read."""
        return self.streams.done

    @property
    def cut(self) -> bool:
        """Whether they ended in a value, or before one."""
        return self.streams.cut

    @property
    def repaired(self) -> bool:
        """Whether they were not as the notation has them."""
        return self.streams.repaired

    def feed(self, s: str, i: int, /, *, last: bool) -> tuple[int, str]:
        """(index behind what was read, what leaves)."""
        out: list[str] = []
        i = self.streams.feed(s, i, out, last=last)
        if self.streams.done and not self.cut:
            out.append("}")
        return i, "".join(out)

    def close(self) -> str:
        """End the arguments here: the missing brackets leave, unless they end in a value (`cut`)."""
        out: list[str] = []
        self.streams.close(out)
        if not self.cut:
            out.append("}")
        return "".join(out)

    def release(self) -> str:
        """Nothing is held that could leave as it stands."""
        return ""


class LiteralCalls(CursorReader):
    """A reader of calls with such arguments."""

    __slots__ = ()

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`. What was repaired is said of a call that is cut off, too."""
        cursor = self._cursor
        arguments = cursor.arguments
        if arguments is not None:
            cursor.end("" if cut else arguments.close(), complete=not cut, repaired=arguments.repaired, closing=())
