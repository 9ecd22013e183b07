"""A format made of parts: all that a family of models consists of, as data. The families: families/.

`auto` is one of them that writes as a family does and reads what every family writes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import FormatError
from ..json_schema.compact import compact_schema
from ..model import ChoiceMode, Tool, ToolCall, ToolChoice, ToolResult, ToolSet
from ..parsing.text.grammar import Opener
from . import markup
from .base import Constraint, ParserOptions, StreamParser, Tag
from .markup import Markup
from .prompt import escaping
from .prompt.thoughts import NO_THOUGHTS, THINK, Thoughts
from .prompt.tool_results import Write as WriteResults
from .prompt.tool_results import guarded, named
from .prompt.tools import definition
from .syntax.json import Json
from .syntax.shape import ANY_JSON, Rendered, Shape, SharedOpener, WriteCalls, fork, opener, reads, scanner

ONE = "Make at most one function call in an answer."

# Arguments that no client sends: the text around them is the call's syntax.
_ARGUMENTS = '{"arguments": "0b6ad9c1"}'


FENCED = Json(open='```json\n{"tool_calls": [', between=", ", close="]}\n```")
"""The calls as one block: what every format reads, and where a family's own syntax ends."""

_NO_MARKUP = Markup()
_OF_CALLS: Any = None
"""A field that is filled from `Family.calls`."""


_TAG = re.compile(r"<(\w[\w:.\-]{1,64})>")
"""An opening marker that text must not hold. Text never holds the shapes of special tokens (`<|…|>`)."""

_AFTER_TOOLS = re.compile(r"\{tools\}\]?\s*(</[^\s<>]+>)")
"""The tag that closes the tools in a prompt. No description may hold it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """One family. In the history, a turn that its syntax cannot write is a block of the format `json`, which its parser
    reads too.

    `dataclasses.replace` keeps what was derived from `calls`: with other calls, declare a new family.
    """

    name: str
    prompt_name: str = ""
    """The family in whose words `auto` writes; empty for any other format."""
    about: str
    """One line for the list of formats."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Globs of the names of its own models, each with the source that says so (see registry.py)."""
    fine_tunes: Mapping[str, str] = field(default_factory=dict)
    """Globs of models whose names also hold the name of another family, which they are not of."""
    alike: Mapping[str, str] = field(default_factory=dict)
    """Globs of other makers' models that write as this family does."""
    calls: Shape
    """How its models write calls. The fields without a default of their own below are derived from it."""
    openers: tuple[Opener, ...] = field(init=False)
    """How calls begin: all that the family's own parser knows."""
    auto_openers: tuple[Opener, ...] = _OF_CALLS
    """Those that `auto` knows too: no other model's text holds their markers."""
    own_openers: tuple[Opener, ...] = ()
    """Those that only this family's parser knows: in other models' answers they may be text. Each replaces the one with
    the same marker that `auto` knows."""
    fallback: tuple[Opener, ...] = _OF_CALLS
    """Calls in JSON without a marker, which every model writes now and then."""
    markup: Markup = _NO_MARKUP
    """What its models write besides calls and text."""
    thoughts: Thoughts = NO_THOUGHTS
    """What becomes of their reasoning in later turns, and whether their template opens it."""
    prompt: str
    """The tool block. Holes: `{tools}`, and `{example}` for the form of a call."""
    tool: Callable[[Tool], str] = definition
    """Writes one tool of the block."""
    between: str = "\n"
    """Separates two tools."""
    several: str = ""
    """Fills the hole `{several}` of the prompt; `one` does where only one call may be made."""
    one: str = f"\n\n{ONE}"
    """Added to the block where only one call may be made, and the prompt has no such hole."""
    write: WriteCalls = _OF_CALLS
    """Writes the calls of a turn."""
    results: WriteResults = named
    """Writes the results of a turn."""
    answer: str = _OF_CALLS
    """What an answer that calls consists of, for `tool_choice`."""
    noun: str = "function"
    """How the prompt names a tool."""
    auto_prompt: str = ""
    """The format in which `auto` writes for its models, where it is not this one: engines take these calls out of the
    text themselves.
    """
    needs_user: bool = False
    """The models' chat templates refuse a conversation without a user's words. Tool results do not count as such."""
    special_tokens: bool = _OF_CALLS
    """The markers are special tokens of the models' tokenizers, which backends leave out of the text unless asked
    for them. `<|…|>` is one.
    """
    trigger: str = _OF_CALLS
    """How a call begins, for constrained decoding that waits for it."""
    constrain: Callable[[Sequence[Tool], bool], Constraint] | None = None
    """The JSON Schema of a whole answer, where the bare JSON of a call is one. Takes the tools that may be called, and
    whether several may.
    """
    brief: Family | None = None
    """Writes the tools where they take too many tokens."""

    def __post_init__(self) -> None:
        calls, own = self.calls, self.markup
        closers = (marker for marker in calls.closers if marker.startswith("<"))
        tag = _TAG.fullmatch(calls.trigger)
        think = self.thoughts.tags
        known = replace(
            own,
            reasoning=own.reasoning if think == THINK else (*own.reasoning, (think.opening, think.close)),
            closers=tuple(dict.fromkeys((*own.closers, *closers))),
            tags=own.tags if tag is None else (*own.tags, re.escape(f"{tag[1]}>")),
        )
        self._fill(markup=known)
        if self.auto_openers is None:
            self._fill(auto_openers=calls.openers)
        for derived in ("fallback", "answer", "trigger", "special_tokens"):
            if getattr(self, derived) is None:
                self._fill(**{derived: getattr(calls, derived)})
        self._fill(openers=(*_others(self.auto_openers, self.own_openers), *self.own_openers, *self.fallback))
        if self.write is None:
            self._fill(write=calls.writer(*self.openers))

    def _fill(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """The family's own layout; one sentence more where only one call may be made."""
        if not tools:
            return ""
        # Not str.format: the layouts are full of braces, and the tools' texts may hold the other placeholder.
        listed = self.between.join(map(self.tool, tools))
        closing = _AFTER_TOOLS.search(self.prompt)
        if closing is not None:
            # In JSON, too, `<\/functions>` means `</functions>`.
            listed = guarded(listed, closing[1])
        several = self.several if parallel else self.one
        block = escaping.fill(self.prompt, {"tools": listed, "example": self._example(), "several": several})
        return block if parallel or self.several else block + self.one

    def _example(self) -> str:
        return (self.write([escaping.EXAMPLE]) or "") if "{example}" in self.prompt else ""

    def render_choice(self, tools: Sequence[Tool], choice: ToolChoice) -> str:
        """One or two sentences."""
        return choice_text(tools, choice, noun=self.noun, answer=self.answer)

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """The calls of one turn in the family's own syntax."""
        if not calls:
            return ""
        return self.write(calls) or FENCED.writer()(calls) or ""

    def render_results(self, results: Sequence[ToolResult]) -> str:
        """The results of one turn, neutralised."""
        return self.results(results)

    def parser(self, tools: ToolSet | None, options: ParserOptions, /) -> StreamParser:
        """A new parser for one choice."""
        return scanner(self.openers, tools, options)

    def constraint(self, tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
        """The calls of the tools that may be called now, one by one, where the syntax allows it."""
        callable_now = callable_tools(tools, choice)
        if self.constrain is not None:
            return self.constrain(callable_now, choice.parallel) if choice.must_call and callable_now else None
        tags = tuple(filter(None, map(self._tag, callable_now))) if self.trigger else ()
        return Constraint("tool_calls", tags=tags) if tags else None

    def _tag(self, tool: Tool) -> Tag | None:
        structural = self.calls.structural_tag
        if structural is not None:
            before, closing, style = structural
            begin = before.replace("{name}", tool.name)
            return Tag(begin, compact_schema(tool.parameters), closing, self.trigger, style)
        begin, arguments, end = (self.write([ToolCall(tool.name, _ARGUMENTS)]) or "").partition(_ARGUMENTS)
        return Tag(begin, compact_schema(tool.parameters), end, self.trigger) if arguments else None


def choice_text(tools: Sequence[Tool], choice: ToolChoice, *, noun: str, answer: str) -> str:
    """What `tool_choice` adds to a prompt; empty for `auto`. `answer`: what a call's answer consists of."""
    callable_now = callable_tools(tools, choice)
    lines = []
    if choice.mode in {ChoiceMode.AUTO, ChoiceMode.REQUIRED} and len(callable_now) < len(tools):
        lines.append(f"Only these {noun}s may be called now: {_quoted_names(callable_now)}.")
    if choice.mode is ChoiceMode.REQUIRED:
        lines.append(f"Call the one {noun} that fits, with {answer}.")
    elif choice.mode is ChoiceMode.NAMED:
        lines.append(f"Call the {noun} {_quoted_names(callable_now)}, with {answer}.")
    return f"({' '.join(lines)})" if lines else ""


def callable_tools(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    """The tools that `choice` lets the model call."""
    return [tool for tool in tools if choice.allows(tool.name)]


def _quoted_names(tools: Iterable[Tool]) -> str:
    """The names as `"f", "g"`."""
    return escaping.as_data(", ".join(escaping.dump(tool.name) for tool in tools))


# -- auto --------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def auto(prompt: Family, family: Family, *, own_first: bool = False) -> Family:
    """One scanner for the markers of every family, with the prompt of the family `prompt`.

    family: that of the models that answer; its markers are read too where the common scanner leaves them out because
    they could be ordinary text of other models. own_first: where it and another family have one marker, its reader
    reads what follows.
    """
    first, then = (family.openers, all_openers()) if own_first else (all_openers(), family.openers)
    return _auto(prompt, family, (*first, *_others(then, first)))


@functools.lru_cache(maxsize=256)
def in_json(fmt: Family) -> Family:
    """An `auto` with the prompt of `json`, for an engine that takes the family's own calls out of the text."""
    return fmt if fmt.prompt_name == "json" else _auto(markup.by_name()["json"], fmt, fmt.openers)


@functools.lru_cache(maxsize=64)
def auto_of_derived(family: Family, proofs: tuple[Rendered, ...]) -> Family:
    """`auto` that writes as a derived family does, and reads its calls too: with its own reader where those of the
    built-in families make something else of them.
    """
    openers = (*all_openers(), *ANY_JSON)
    return auto(family, family, own_first=not all(reads(openers, turn) for turn in proofs))


def _auto(prompt: Family, family: Family, openers: tuple[Opener, ...]) -> Family:
    """`auto` with these openers. Its models may write `family`'s special tokens, whatever the prompt asks for."""
    made = replace(
        prompt,
        name="auto",
        about="reads every family; writes the prompt as the model's own family does, else as `json`",
        prompt_name=prompt.name,
        special_tokens=family.special_tokens,
        needs_user=family.needs_user,
    )
    object.__setattr__(made, "openers", openers)
    return made


def _others(openers: Iterable[Opener], known: Iterable[Opener]) -> list[Opener]:
    """The openers without those of which `known` has one with the same marker."""
    markers = {(each.marker, each.pattern) for each in known}
    return [each for each in openers if (each.marker, each.pattern) not in markers]


@functools.cache
def all_openers() -> tuple[Opener, ...]:
    """One opener for each marker that any family declares for `auto`."""
    by_marker: dict[str, dict[Opener, None]] = {}  # in order, each once: families share openers
    for family in markup.families():
        for each in family.auto_openers:
            by_marker.setdefault(each.marker or each.pattern, {})[each] = None
    return tuple(map(one_of, by_marker.values()))


def one_of(openers: Iterable[Opener]) -> Opener:
    """The opener of a marker that all `openers` have. What follows tells them apart.

    Raises FormatError where they do not say what follows.
    """
    first, *others = openers
    if not others:
        return first
    shared = [each for each in (first, *others) if isinstance(each, SharedOpener)]
    if len(shared) <= len(others):
        raise FormatError(f"two families declare {first.marker or first.pattern}: say what follows it (`shared`)")
    shared.sort(key=lambda each: not each.follow)  # the one without `follow` comes last
    make = fork(*((each.follow, each.make) for each in shared))
    as_last = tuple(dict.fromkeys(last for each in shared for last in each.as_last))
    return opener(first.marker, make, where=first.where, consume=first.consume, as_last=as_last)
