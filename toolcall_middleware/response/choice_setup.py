"""What reads one choice of an answer: made from the settings, the request, and the way that it was asked in."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import replace

import msgspec

from ..errors import ToolCallError
from ..formats import near_misses, registry
from ..formats.base import ParserOptions, StreamParser, ToolFormat
from ..json_schema.validate_arguments import checker_for
from ..model import Tool, ToolSet
from ..parsing.text.reasoning import OpenedReasoning
from ..parsing.values.coercion import Coercion, needs_coercion
from ..request.parse import ChatRequest
from ..settings import Settings
from ..settings.strictness import admits
from .choice import ChoiceAnswer, Verbatim
from .native_calls import NativeCalls
from .outcome import CallReport, tells_near_misses
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


def make_choice(
    chat: ChatRequest,
    settings: Settings,
    syntax: ToolFormat,
    *,
    native: bool,
    constrained: bool,
    full: Callable[[], bool],
    extension: Extension | None,
    report: CallReport | None = None,
    retried: bool = False,
    opened: OpenedReasoning | None = None,
) -> ChoiceAnswer:
    """A new reader of one choice.

    syntax: what the prompt was written in. native: the backend was given the tools. constrained: it is held to calls.
    full: whether the model has written about as many tokens as the request allows. report: who is told of finished
    calls. retried: the model was asked again. opened: the thought that the prompt has opened, where it is known to.
    """
    offered = chat.callable_tools
    unknown = settings.unknown_tool
    if unknown == "forward" and chat.choice.name is not None:
        unknown = "text"  # the one tool was asked for: a call of another is none
    # A custom tool's input leaves when it is complete, and as text when it never is; an error shows it.
    options = ParserOptions(
        unknown_tool=unknown,
        parse_reasoning=settings.reasoning == "parse",
        repair_names=settings.repair_names,
        keep_raw=bool(chat.custom) or not settings.stream_arguments or unknown == "error",
        # A call is refused for its arguments, and then shown or told of as it was written.
        keep_complete=settings.validate_arguments not in {"off", "warn"}
        or settings.malformed_arguments != "repair"
        or settings.arguments_as_object
        or not settings.stream_arguments,
        keep_arguments=settings.malformed_arguments == "forward",
        tell_unknown=True,
    )
    # Not only where it was given the tools: vLLM makes gpt-oss's calls whatever was asked.
    own = NativeCalls(
        offered,
        asked=native,
        tell_unknown=True,
        waits=settings.malformed_arguments != "repair",
        unknown=unknown,
        free=not chat.tools.tools,
        max_arguments_bytes=settings.max_arguments_bytes,
        repair_names=settings.repair_names,
    )
    if not offered.tools:
        # Where nothing is offered nothing is parsed, but for reasoning that is to leave the text.
        syntax = registry.plain()
    elif native:
        syntax = registry.get("auto")
    parsing = len(offered) > 0 or settings.reasoning_field is not None
    thoughts = thought = None
    if options.parse_reasoning and offered.tools:
        thoughts = ReasoningReader(functools.partial(_parser, syntax, offered, options))
    elif offered.tools:
        # A thought in a thought is none, so that its calls are found wherever it has begun.
        thought = OpenThought(functools.partial(_parser, syntax, offered, options))
    policy = _policy(
        chat,
        settings,
        offered,
        native=native,
        constrained=constrained,
        full=full,
        extension=extension,
        report=report,
        retried=retried,
        opened=opened,
    )
    if offered.tools and tells_near_misses():
        find = functools.partial(near_misses.reasons, tools=offered, syntax=syntax)
        policy = msgspec.structs.replace(policy, near_misses=find)
    if not parsing:
        return ChoiceAnswer(Verbatim(), policy, own, thoughts)
    unopened = None
    if opened is not None:
        unopened = functools.partial(syntax.parser, offered, options)
        options = replace(options, opened=opened)
    return ChoiceAnswer(syntax.parser(offered, options), policy, own, thoughts, thought, unopened)


def _parser(syntax: ToolFormat, offered: ToolSet, options: ParserOptions) -> StreamParser:
    """A reader of a thought, which reads thoughts in it, too."""
    return syntax.parser(offered, replace(options, parse_reasoning=True, in_thought=True))


def _check(chat: ChatRequest, settings: Settings, strict: frozenset[str]) -> Callable[[str, str], list[str]] | None:
    """What finds the faults of a finished call: of all tools where arguments are validated, else of strict ones."""
    if settings.validate_arguments == "off" and not strict:
        return None
    faults = checker_for(chat.tools_raw, chat.tools).faults
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


def _policy(
    chat: ChatRequest,
    settings: Settings,
    offered: ToolSet,
    *,
    native: bool,
    constrained: bool,
    full: Callable[[], bool],
    extension: Extension | None,
    report: CallReport | None,
    retried: bool,
    opened: OpenedReasoning | None,
) -> AnswerPolicy:
    choice = chat.choice
    offers = bool(offered.tools)
    must_call = choice.must_call
    strict: frozenset[str] = frozenset()
    if settings.validate_arguments == "off":
        strict = frozenset(tool.name for tool in offered.tools if tool.strict)
    refuses = bool(strict) and settings.profile in {"strict", "gateway"}
    return AnswerPolicy(
        max_calls=settings.max_tool_calls if choice.parallel else 1,
        limited=choice.parallel and settings.max_tool_calls is not None,
        may_call=offers,
        hold_prose=must_call,
        # Where no call can come there is none beside which text would stand: it leaves as it comes.
        drop_prose=settings.prose == "drop" and offers,
        stream_arguments=settings.stream_arguments,
        # A weak model that is held to a list of calls goes on until max_tokens cuts it: the promise is kept by
        # then, and half a call more is of no use to anybody.
        hold_later=must_call and constrained,
        malformed=settings.malformed_arguments,
        reasoning_field=settings.reasoning_field,
        max_arguments_bytes=settings.max_arguments_bytes,
        max_held=settings.max_response_bytes,
        stop=chat.stop,
        custom=chat.custom,
        legacy=chat.legacy,
        keep_ids=native and not settings.rewrite_ids,
        write_ids=native,
        check=_check(chat, settings, strict),
        warn_only=not refuses and settings.validate_arguments in {"off", "warn"},
        checked=strict,
        held=strict if refuses else frozenset(),
        admits=None if settings.allowlist_mode == "off" else functools.partial(admits, settings.allowlist),
        admit_only_warns=settings.allowlist_mode == "warn",
        offered=offered.by_name if chat.tools.tools else None,
        objects=settings.arguments_as_object,
        extension=extension,
        full=full,
        coerce=_coercions(offered) if settings.coerce_arguments else None,
        report=report,
        retried=retried,
        opened=opened,
    )
