"""Calls in the backend's own reasoning field: what is read there, by a parser of its own, and what stays in it.

An engine with a reasoning parser takes everything for reasoning up to a `</think>`, and a model that forgets it has its
call there; with thinking switched off, even the whole answer: https://github.com/vllm-project/vllm/issues/19839
"""

from __future__ import annotations

from collections.abc import Callable

from ..formats.base import StreamParser
from ..parsing.events import Event
from ..wire import openai
from ..wire.openai import Fields

FIELDS = ("reasoning", "reasoning_content")


class ReasoningReader:
    """Reads the reasoning field of one choice, or a channel in its text. `names`: the fields of the last piece.

    Content, or a call of the backend's own, ends a piece of reasoning; what comes later is a new one.
    """

    __slots__ = ("_make_parser", "_parser", "names")

    def __init__(self, make_parser: Callable[[], StreamParser]) -> None:
        self._make_parser = make_parser
        self._parser: StreamParser | None = None
        self.names: tuple[str, ...] = ()

    def another(self) -> ReasoningReader:
        """One like this that has read nothing."""
        return ReasoningReader(self._make_parser)

    def feed(self, text: str, names: tuple[str, ...] = ()) -> list[Event]:
        """More reasoning."""
        self.names = names
        if self._parser is None:
            self._parser = self._make_parser()
        return self._parser.feed(text)

    def finish(self, *, cut: bool = False) -> list[Event]:
        """It is over, if there was any: what was held back."""
        parser, self._parser = self._parser, None
        return [] if parser is None else parser.finish(cut=cut)


def split_reasoning(message: Fields) -> tuple[str, tuple[str, ...], Fields]:
    """The reasoning in a delta or message, the names of the fields that hold it, and the rest.

    Some send it twice, under both names. Where these differ only the first is read.
    """
    text, names = "", []
    for name in FIELDS:
        said = openai.read_text(message.get(name))
        if said and said == (text or said):
            text = said
            names.append(name)
    if not names:
        return "", (), message
    return text, tuple(names), {name: value for name, value in message.items() if name not in names}
