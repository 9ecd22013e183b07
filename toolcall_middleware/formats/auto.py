"""The format `auto`: reads whatever the model writes, and writes as the model's family does where its name tells."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..errors import FormatError
from ..model import Tool, ToolCall, ToolChoice, ToolResult, ToolSet
from ..parsing.text.grammar import Opener
from . import markup, models, reading
from .base import Constraint, ParserOptions, StreamParser, ToolFormat
from .syntax.shape import Rendered, SharedOpener, fork, reads
from .syntax.shape import opener as declared

if TYPE_CHECKING:
    from .family import Family


class Auto:
    """One scanner for the markers of every family; the prompt is another format's.

    prompt: the format that writes. family: that of the models that answer, where they are known; its markers are read
    too where the common scanner leaves them out because they could be ordinary text of other models. own_first: where
    the family and another one have one marker, the family's reader reads what follows.
    """

    name = "auto"
    about = "reads every family; writes the prompt as the model's own family does, else as `json`"

    def __init__(self, prompt: Family, family: Family | None = None, *, own_first: bool = False) -> None:
        self.prompt = prompt
        self._family = prompt if family is None else family
        self._own_first = own_first
        own = self._family.openers
        first, then = (own, all_openers()) if own_first else (all_openers(), own)
        known = {(opener.marker, opener.pattern) for opener in first}
        self.openers = (*first, *(opener for opener in then if (opener.marker, opener.pattern) not in known))
        self.special_tokens = self._family.special_tokens
        """Whether the markers that its models know are special tokens: they may write them whatever the prompt asks."""
        self.needs_user = self._family.needs_user
        """Whether the models' chat templates refuse a conversation without a user's words."""
        self.brief = prompt.brief
        """The format that writes the tools where they take too many tokens."""
        self.thoughts = prompt.thoughts

    @property
    def prompt_name(self) -> str:
        """The name of the format that writes."""
        return self.prompt.name

    def for_model(self, model: str) -> ToolFormat:
        """This format with the prompt of the model's family. The same object for all models of a family."""
        name = models.family(model)
        if name is None or name == self.prompt_name:
            return self
        family = _built_in(name)
        return _auto(_built_in(family.auto_prompt or name), family)

    def in_json(self) -> ToolFormat:
        """This format with the prompt of `json`, for an engine that takes the family's own calls out of the text."""
        return self if self.prompt_name == "json" else _auto(_built_in("json"), self._family, own_first=self._own_first)

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


_auto = functools.lru_cache(maxsize=256)(Auto)


def _built_in(name: str) -> Family:
    found: Family = next(family for family in markup.families() if family.name == name)
    return found


def common() -> ToolFormat:
    """`auto` for models whose names say nothing."""
    return _auto(_built_in("json"))


@functools.lru_cache(maxsize=64)
def of_derived(family: Family, proofs: tuple[Rendered, ...]) -> ToolFormat:
    """`auto` that writes as a derived family does, and reads its calls too: with its own reader where those of the
    built-in families make something else of them.
    """
    openers = (*all_openers(), *reading.ANY_JSON)
    return _auto(family, own_first=not all(reads(openers, turn) for turn in proofs))


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
    shared.sort(key=lambda opener: not opener.follow)  # the one without `follow` comes last
    undecided = "|".join(dict.fromkeys(filter(None, (opener.undecided for opener in shared))))
    again = first.marker if first.consume else ""
    make = fork(*((opener.follow, opener.make) for opener in shared), undecided=undecided, again=again)
    as_last = tuple(dict.fromkeys(last for opener in shared for last in opener.as_last))
    return declared(first.marker, make, where=first.where, consume=first.consume, as_last=as_last)
