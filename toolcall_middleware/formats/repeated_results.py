"""Whether a part of a tool's result would be read as a call if the model repeated it: asks the format's reader."""

from __future__ import annotations

from collections.abc import Collection

from ..model import Tool, ToolSet
from ..parsing.events import CallStart, Text
from .base import ParserOptions, ToolFormat

_PIECE = 4 * 1024
"""Characters of a place that are read. What is not decided by then counts as a call."""
_MOST = 64 * 1024
"""Characters that are read for all results of a request. After that many, each place counts as a call."""


class RepeatedResults:
    """Asks the reader of `fmt`, for the results of one request that offers tools with these names."""

    __slots__ = ("_fmt", "_left", "_names", "_tools")

    def __init__(self, fmt: ToolFormat, names: Collection[str]) -> None:
        self._fmt = fmt
        self._names = names
        self._tools: ToolSet | None = None
        self._left = _MOST

    def is_call(self, text: str, begin: int) -> bool:
        """Whether an answer that is `text` from `begin` on begins with a call of one of the tools."""
        piece = text[begin : begin + _PIECE]
        if len(piece) > self._left:
            return True
        self._left -= len(piece)
        if self._tools is None:
            self._tools = ToolSet.of([Tool(name) for name in self._names])
        parser = self._fmt.parser(self._tools, ParserOptions(repair_names=True))
        events = parser.feed(piece)
        is_cut = begin + _PIECE < len(text)
        if not is_cut:
            events += parser.finish()
        said = "".join(event.text for event in events if isinstance(event, Text))
        return any(isinstance(event, CallStart) for event in events) or (is_cut and not said.strip())
