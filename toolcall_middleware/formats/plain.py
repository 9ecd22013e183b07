"""No syntax: history as `json` writes it, and nothing read from the answer but its reasoning."""

from __future__ import annotations

from ..model import ToolSet
from . import reading
from .base import ParserOptions, StreamParser
from .families.fenced_json import FencedJson


class Plain(FencedJson):
    """Reads no calls."""

    name = "plain"

    def parser(self, tools: ToolSet | None, options: ParserOptions, /) -> StreamParser:
        """A new parser for one choice."""
        return reading.scanner((), tools, options)
