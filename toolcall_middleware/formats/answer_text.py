"""The text of an answer that is to be JSON: held to its end, taken out of a code fence, and checked."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import on_one_line
from ..json_schema.validate_arguments import ArgumentChecker
from ..json_schema.validate_schema import SchemaChecker, SchemaFault
from ..model import Tool, ToolSet
from ..parsing.events import CallStart, Event, Text
from .base import StreamParser

_OPENING = re.compile(r"\s*+```[ \t]*+(?:json[a-z0-9]{0,8})?[ \t]*+\r?\n", re.IGNORECASE)
_FENCE = "```"
_NAME = "answer"
_log = logging.getLogger("toolcall_middleware")


class AnswerText:
    """Wraps a parser. Holds its text back until the end or the first call: text beside calls is no JSON answer.

    limit: characters that are held back; a longer text is emitted as it arrives, unchecked.
    """

    def __init__(self, parser: StreamParser, limit: int | None) -> None:
        self._parser = parser
        self._limit = limit
        self._held: list[str] | None = []
        self._size = 0
        self.text: str | None = None
        """All of the text, once the answer is over without a call."""

    def feed(self, text: str, /) -> list[Event]:
        """The events, without the text that is held back."""
        return self._without_text(self._parser.feed(text))

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The last events, and the text."""
        events = self._without_text(self._parser.finish(cut=cut))
        if self._held is None:
            return events
        text = "".join(self._held)
        self.text = text if cut else _unfenced(text)
        return [*events, Text(self.text)] if self.text else events

    def _without_text(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if self._held is None or not isinstance(event, (Text, CallStart)):
                out.append(event)
                continue
            if isinstance(event, Text):
                self._held.append(event.text)
                self._size += len(event.text)
                if self._limit is None or self._size <= self._limit:
                    continue
            if self._held:
                out.append(Text("".join(self._held)))
            if isinstance(event, CallStart):
                out.append(event)
            self._held = None
        return out


def _unfenced(text: str) -> str:
    """The text without the code fence that is around all of it."""
    opening, end = _OPENING.match(text), text.rstrip()
    if opening is None or not end.endswith(_FENCE) or len(end) - len(_FENCE) < opening.end():
        return text
    inside = end[opening.end() : -len(_FENCE)]
    return text if _FENCE in inside else inside.rstrip()


class JsonAnswer:
    """Holds and checks the text of an answer that the client wants to have as JSON of this schema.

    limit: see `AnswerText`. tries: how often it may be asked for again. misfit: what is wrong with the text, empty
    where it fits or cannot be checked.
    """

    def __init__(self, schema: Mapping[str, Any], limit: int | None, tries: int) -> None:
        self._limit = limit
        self._tries = tries
        self._texts: list[AnswerText] = []
        self._checker: ArgumentChecker | None = None
        self.misfit = ""
        try:
            SchemaChecker().check(dict(schema))
        except SchemaFault:
            return  # a schema of no object, or one that cannot be checked: the backend's to judge
        self._checker = ArgumentChecker(ToolSet.of([Tool(_NAME, "", dict(schema))]))

    def begin(self) -> Callable[[StreamParser], StreamParser]:
        """Begin an attempt. Returns a function that wraps a choice's parser to hold back its text."""
        self._texts, self.misfit = [], ""
        return self._hold

    def _hold(self, parser: StreamParser) -> StreamParser:
        held = AnswerText(parser, self._limit)
        self._texts.append(held)
        return held

    @property
    def text(self) -> str:
        """The texts of the choices, joined by line breaks."""
        return "\n".join(held.text for held in self._texts if held.text)

    def accepts(self) -> bool:
        """Whether the text of the complete answer fits or cannot be asked for again."""
        texts = (held.text for held in self._texts if held.text is not None)
        self.misfit = next(filter(None, map(self._fault, texts)), "")
        return not self.misfit or not self._tries

    def misses(self, *, cut: bool, left: bool) -> bool:
        """Whether to ask for the answer again. cut: it is truncated. left: some of it was already emitted.

        A misfit that is not asked for again is logged by its place, without the model's text.
        """
        if not (cut or self.accepts() or left):
            self._tries -= 1
            return True
        if self.misfit:
            place = on_one_line(self.misfit.partition(": ")[0])
            _log.warning("The answer does not fit the client's response_format: %s", place)
        return False

    @property
    def wish(self) -> str:
        """The message to the model about a misfit."""
        why = f"That answer does not fit the JSON Schema: {self.misfit}."
        return f"{why} Answer again with nothing but JSON that fits it."

    def _fault(self, text: str) -> str:
        found = [] if self._checker is None else self._checker.faults(_NAME, text)
        return "; ".join(found).replace("arguments must be", "the answer must be")
