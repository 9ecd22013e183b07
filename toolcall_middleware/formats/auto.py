"""The format `auto`: reads whatever the model writes, and writes as the model's family does where its name tells."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ..errors import FormatError
from ..model import Tool, ToolCall, ToolChoice, ToolResult, ToolSet
from ..parsing.text.grammar import Opener
from . import markup, models, reading, registry
from .base import Constraint, ParserOptions, StreamParser, ToolFormat
from .syntax.openers import SharedOpener, fork
from .syntax.openers import opener as declared


class Auto:
    """One scanner for the markers of every family; the prompt is another format's.

    prompt: the format that writes, `json` if none is given. Its markers are read too where the common scanner leaves
    them out because they could be ordinary text of other models. own_first: where it and another family have one
    marker, its own reader reads what follows.
    """

    name = "auto"
    about = "reads every family; writes the prompt as the model's own family does, else as `json`"

    def __init__(self, prompt: ToolFormat | None = None, *, own_first: bool = False) -> None:
        self.prompt: ToolFormat = registry.get("json") if prompt is None else prompt
        own: tuple[Opener, ...] = () if prompt is None else getattr(prompt, "openers", ())
        first, then = (own, all_openers()) if own_first else (all_openers(), own)
        known = {(opener.marker, opener.pattern) for opener in first}
        self.openers = (*first, *(opener for opener in then if (opener.marker, opener.pattern) not in known))

    @property
    def prompt_name(self) -> str:
        """The name of the format that writes."""
        return self.prompt.name

    @property
    def special_tokens(self) -> bool:
        """Whether the markers that the prompt asks for are special tokens."""
        return bool(getattr(self.prompt, "special_tokens", False))

    def for_model(self, model: str) -> ToolFormat:
        """This format with the prompt of the model's family. The same object for all models of a family."""
        name = models.family(model)
        return self if name is None or name == self.prompt_name else _writing(name)

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """As the prompt's format does."""
        return self.prompt.render_tools(tools, parallel=parallel)

    def render_choice(self, tools: Sequence[Tool], choice: ToolChoice) -> str:
        """As the prompt's format does."""
        return self.prompt.render_choice(tools, choice)

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """As the prompt's format does."""
        return self.prompt.render_calls(calls)

    def render_results(self, results: Sequence[ToolResult]) -> str:
        """As the prompt's format does."""
        return self.prompt.render_results(results)

    def parser(self, tools: ToolSet | None, options: ParserOptions, /) -> StreamParser:
        """A new parser for one choice."""
        return reading.scanner(self.openers, tools, options)

    def constraint(self, tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
        """As the prompt's format does."""
        return self.prompt.constraint(tools, choice)


@functools.cache
def _writing(name: str) -> Auto:
    return Auto(registry.get(name))


@functools.cache
def all_openers() -> tuple[Opener, ...]:
    """One opener for each marker that any family declares for `auto`."""
    by_marker: dict[str, dict[Opener, None]] = {}  # in order, each once: families share openers
    for family in markup.families():
        for opener in family.auto_openers:
            by_marker.setdefault(opener.marker or opener.pattern, {})[opener] = None
    return tuple(map(one_of, by_marker.values()))


def one_of(openers: Iterable[Opener]) -> Opener:
    """The opener of a marker that all `openers` have. What follows tells them apart.

    Raises FormatError where they do not say what follows.
    """
    first, *others = openers
    if not others:
        return first
    shared = [opener for opener in (first, *others) if isinstance(opener, SharedOpener)]
    if len(shared) <= len(others):
        raise FormatError(f"two families declare {first.marker or first.pattern}: say what follows it (`shared`)")
    shared.sort(key=lambda opener: not opener.follow)  # what no other claims comes last
    undecided = "|".join(dict.fromkeys(filter(None, (opener.undecided for opener in shared))))
    make = fork(*((opener.follow, opener.make) for opener in shared), undecided=undecided)
    return declared(first.marker, make, where=first.where, consume=first.consume)
