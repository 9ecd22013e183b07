"""What reads one choice of an answer: made from the settings, the request, and the way that it was asked in."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..errors import ToolCallError
from ..formats import near_misses, registry
from ..formats.base import ParserOptions, StreamParser, ToolFormat
from ..formats.inner_calls import InnerCalls, InnerTools, OuterEvents
from ..json_schema.validate_arguments import checker_for
from ..model import Tool, ToolSet
from ..parsing.text.opened import OpenedAnswer
from ..parsing.text.reasoning import OpenedReasoning
from ..parsing.values.coercion import Coercion, needs_coercion
from ..request.parse import ChatRequest
from ..settings import Settings
from .choice import ChoiceAnswer, Verbatim
from .native_calls import NativeCalls
from .outcome import CallReport, FindNearMisses
from .policy import AnswerPolicy, Extension
from .reasoning import OpenThought, ReasoningReader

_MOST_CHOICES = 128
"""Choices of one answer, where the client asked for fewer (`n`): OpenAI gives no more. A reader holds some 9 KiB."""


def no_more_than_asked(make: Callable[[], ChoiceAnswer], asked: int) -> Callable[[], ChoiceAnswer]:
    """`make`, for one answer: an upstream that has choices without end fills the memory with readers.

    asked: how many the client wants. What is returned raises ToolCallError.
    """
    left = max(asked, _MOST_CHOICES)

    def one() -> ChoiceAnswer:
        nonlocal left
        if not left:
            raise ToolCallError("upstream_error", f"The backend's answer has more choices than n ({asked}) asks for.")
        left -= 1
        return make()

    return one


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """What is known of the attempt whose answer is read."""

    native: bool
    """The backend was given the tools."""
    constrained: bool
    """The backend is held to calls."""
    strict: frozenset[str]
    """Tools whose calls must fit their schemas: see `Negotiation.strict`."""
    held: frozenset[str]
    """Those of them whose calls are checked before they are emitted."""
    full: Callable[[], bool]
    """Whether the model has written about as many tokens as the request allows."""
    extension: Extension | None
    report: CallReport
    """Who is told of finished calls."""
    retried: bool
    """The model was asked again."""
    opened: OpenedReasoning | None
    """The thought that the prompt has opened, where it is known or assumed to."""
    sure: bool = True
    """It is known to."""
    tells_ends: bool = False
    """See `AnswerPolicy`."""
    inner: InnerTools | None = None
    """The calls that the client is not to see."""
    hold: Callable[[StreamParser], StreamParser] | None = None
    """Where the text is to be JSON: makes of a parser one that holds it."""


def make_choice(chat: ChatRequest, settings: Settings, syntax: ToolFormat, context: AnswerContext) -> ChoiceAnswer:
    """A new reader of one choice. syntax: what the prompt was written in."""
    offered = chat.callable_tools
    options = _parser_options(chat, settings)
    own = _native_calls(chat, settings, options, asked=context.native)
    if not chat.offers_tools:
        # Where nothing is offered nothing is parsed, but for reasoning that is to leave the text.
        syntax = registry.plain()
    elif context.native:
        syntax = registry.get("auto")
    inner = None if context.inner is None else InnerCalls(context.inner)
    thoughts = thought = None
    if options.parse_reasoning and chat.offers_tools:
        thoughts = ReasoningReader(functools.partial(_parser, syntax, offered, options, inner))
    elif chat.offers_tools:
        # A thought in a thought is none, so that its calls are found wherever it has begun.
        thought = OpenThought(functools.partial(_parser, syntax, offered, options, inner))
    find = None
    if chat.offers_tools:
        find = functools.partial(near_misses.places, tools=offered, syntax=syntax)
    policy = _policy(chat, settings, context, find)
    if not chat.offers_tools and settings.reasoning_field is None and context.hold is None:
        return ChoiceAnswer(Verbatim(), policy, own, thoughts)
    parser = functools.partial(_outer, syntax, offered, options, inner)
    hold = context.hold or (lambda made: made)
    tags = context.opened
    if tags is None:
        return ChoiceAnswer(hold(parser()), policy, own, thoughts, thought, inner=inner)
    repeats = tags.channel or settings.reasoning_field is not None
    start = OpenedAnswer(parser, tags, sure=context.sure, parsed=options.parse_reasoning, repeats=repeats)
    return ChoiceAnswer(hold(start), policy, own, thoughts, thought, start, inner=inner)


def _parser_options(chat: ChatRequest, settings: Settings) -> ParserOptions:
    unknown = settings.unknown_tool
    if unknown == "forward" and chat.choice.name is not None:
        unknown = "text"  # the one tool was asked for: a call of another is none
    return ParserOptions(
        unknown_tool=unknown,
        parse_reasoning=settings.reasoning == "parse",
        repair_names=settings.repair_names,
        # A custom tool's input leaves when it is complete, and as text when it never is; an error shows it.
        keep_raw=bool(chat.custom) or not settings.stream_arguments or unknown == "error",
        # A call is refused for its arguments, and then shown or told of as it was written.
        keep_complete=settings.validate_arguments not in {"off", "warn"}
        or settings.malformed_arguments != "repair"
        or settings.arguments_as_object
        or not settings.stream_arguments,
        keep_arguments=settings.malformed_arguments == "forward",
        any_arguments=chat.custom
        if settings.malformed_arguments == "repair" and not settings.arguments_as_object
        else None,
        tell_unknown=True,
    )


def _native_calls(chat: ChatRequest, settings: Settings, options: ParserOptions, *, asked: bool) -> NativeCalls:
    """What reads the backend's own calls. Also where it was given no tools: vLLM makes gpt-oss's in any case."""
    return NativeCalls(
        chat.callable_tools,
        asked=asked,
        tell_unknown=True,
        waits=settings.malformed_arguments != "repair",
        unknown=options.unknown_tool,
        free=not chat.tools.tools,
        max_arguments_bytes=settings.max_arguments_bytes,
        repair_names=settings.repair_names,
        any_arguments=options.any_arguments,
    )


def _parser(syntax: ToolFormat, offered: ToolSet, options: ParserOptions, inner: InnerCalls | None) -> StreamParser:
    """A reader of a thought, which reads thoughts in it, too."""
    return _outer(syntax, offered, replace(options, parse_reasoning=True, in_thought=True), inner)


def _outer(syntax: ToolFormat, offered: ToolSet, options: ParserOptions, inner: InnerCalls | None) -> StreamParser:
    """A reader of what is for the client."""
    parser = syntax.parser(offered, options)
    return parser if inner is None else OuterEvents(inner, parser)


def _check(chat: ChatRequest, settings: Settings, strict: frozenset[str]) -> Callable[[str, str], list[str]] | None:
    """What finds the faults of a finished call: of all tools where arguments are validated, else of strict ones."""
    if settings.validate_arguments == "off" and not strict:
        return None
    faults = checker_for(chat.tools_raw, chat.listed).faults
    if settings.validate_arguments != "off":
        return faults
    return lambda name, arguments: faults(name, arguments) if name in strict else []


def _coercions(tools: ToolSet) -> Callable[[str], Coercion | None] | None:
    schemas = {tool.name: tool.parameters for tool in tools.tools if _needs_coercion(tool)}
    if not schemas:
        return None

    def coercion(name: str) -> Coercion | None:
        schema = schemas.get(name)
        return None if schema is None else Coercion(schema)

    return coercion


def _needs_coercion(tool: Tool) -> bool:
    """As `needs_coercion`; a tool is the same object for all requests that offer it."""
    key = id(tool)
    known = _NEEDS.get(key)
    if known is None or known[0]() is not tool:
        gone = weakref.ref(tool, lambda _: _NEEDS.pop(key, None))
        known = _NEEDS[key] = gone, needs_coercion(tool.parameters)
    return known[1]


_NEEDS: dict[int, tuple[weakref.ref[Tool], bool]] = {}
"""By identity, of tools that others keep: how large they are is the client's choice."""


def _policy(chat: ChatRequest, settings: Settings, context: AnswerContext, find: FindNearMisses | None) -> AnswerPolicy:
    offered = chat.callable_tools
    must_call = chat.choice.must_call
    return AnswerPolicy(
        settings=settings,
        one_call=not chat.choice.parallel,
        may_call=chat.offers_tools,
        hold_prose=must_call,
        # A weak model that is held to a list of calls goes on until max_tokens cuts it: the promise is kept by
        # then, and half a call more is of no use to anybody.
        hold_later=must_call and context.constrained,
        stop=chat.stop,
        custom=chat.custom,
        legacy=chat.legacy,
        native=context.native,
        check=_check(chat, settings, context.strict),
        strict=context.strict,
        held=context.held,
        offered=offered.by_name if chat.tools.tools else None,
        extension=context.extension,
        full=context.full,
        coerce=_coercions(offered) if settings.coerce_arguments else None,
        report=context.report,
        near_misses=find,
        retried=context.retried,
        tells_ends=context.tells_ends,
    )
