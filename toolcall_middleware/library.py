"""Tool calls without a server: read them from a model's text, and write a family's prompt, calls and results.

A thin face of what the middleware itself uses: the same readers, the same repairs, the same prompts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .formats import registry
from .formats.base import ParserOptions
from .model import ToolCall, ToolResult, ToolSet
from .parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Text
from .parsing.text.reasoning import OpenedAnswer
from .parsing.values.typing import Coercion
from .request.tools import ToolLimits, read_choice, read_tools
from .wire.json_input import written_arguments

Tools = Sequence[Mapping[str, Any]]
"""Tools as OpenAI's chat completions take them: `{"type": "function", "function": {"name", "parameters", …}}`."""

_NO_LIMITS = ToolLimits(None, None, None, None)


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call that was read. `arguments` is JSON text, verbatim where the model wrote valid JSON.

    `id` is the one in the model's syntax, if it has any. `complete` is false where the text ended inside the call:
    `arguments` is then a prefix of JSON. `repaired`: the arguments were not valid JSON as written. `coerced`: a value
    was given the type that the tool's schema asks for.
    """

    name: str
    arguments: str
    id: str | None = None
    complete: bool = True
    repaired: bool = False
    coerced: bool = False

    def decoded(self) -> Any:
        """The arguments as Python values. Raises ValueError for a call that is not complete."""
        return msgspec.json.decode(self.arguments)


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """What `read_calls` found: the text outside of calls, to the character, the reasoning without its tags, the calls.

    `malformed` holds a sentence for each piece of markup that began a call and held none; its text is part of `text`.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[ReadCall] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)


class CallReader:
    """Reads one answer of a model while it arrives. One reader reads one answer.

    `feed` takes the next piece of text, cut anywhere, and returns the events that are certain by then: `Text`,
    `Reasoning`, and for each call `CallStart` (the name), `CallArgs` (pieces of its arguments, which join to JSON) and
    `CallEnd`. What turns out not to be a call is `Text`, to the character. No text raises an exception.

    tools: those that may be called; a call of another name is text. None accepts any name, and types no values.
    format: a name of `toolcall-middleware formats`, or `auto`, which reads all of them. model: the model's name, which
    tells `auto` the family. in_reasoning: the prompt has opened the reasoning, so the answer begins inside of it.
    unknown_tool: what a call of another name is: `text`, `drop` or `forward` (a call nevertheless). coerce: whether
    values get the types of the tool's schema (`"2"` becomes `2`).

    Raises FormatError for an unknown format, ToolCallError for tools that are not well formed.
    """

    def __init__(
        self,
        tools: Tools | None = None,
        *,
        format: str = "auto",  # noqa: A002 - the setting's name
        model: str = "",
        in_reasoning: bool = False,
        unknown_tool: str = "text",
        coerce: bool = True,
    ) -> None:
        if unknown_tool not in {"text", "drop", "forward"}:
            raise ValueError(f"unknown_tool: {unknown_tool!r} is not allowed; use text, drop or forward")
        fmt = registry.for_model(format, model)
        offered = None if tools is None else _tool_set(tools)
        options = ParserOptions(
            unknown_tool=unknown_tool,
            repair_names=True,
        )
        make = functools.partial(fmt.parser, offered, options)
        tags = registry.thoughts_of(fmt, model).tags
        self._parser = OpenedAnswer(make, tags, sure=True) if in_reasoning else make()
        self._tools = offered if coerce else None
        self._coercion: Coercion | None = None

    def feed(self, text: str, /) -> list[Event]:
        """The events that `text`, the next piece of the answer, makes certain."""
        return self._typed(self._parser.feed(text))

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The rest of the events, at the answer's end. cut: the model did not end it by itself (`length`)."""
        return self._typed(self._parser.finish(cut=cut))

    def _typed(self, events: list[Event]) -> list[Event]:
        """The events, with the arguments' values in the types that the tool's schema asks for."""
        if self._tools is None:
            return events
        out: list[Event] = []
        for event in events:
            match event:
                case CallStart(name):
                    tool = self._tools.by_name.get(name)
                    if tool is not None:
                        self._coercion = Coercion(tool.parameters)
                    out.append(event)
                case CallArgs(text) if self._coercion is not None:
                    if text := self._coercion.feed(text):
                        out.append(CallArgs(text))
                case CallEnd() if self._coercion is not None:
                    coercion, self._coercion = self._coercion, None
                    if text := coercion.finish():
                        out.append(CallArgs(text))
                    out.append(msgspec.structs.replace(event, coerced=event.coerced or coercion.coerced))
                case _:
                    out.append(event)
        return out


def read_calls(
    text: str | Iterable[str],
    tools: Tools | None = None,
    *,
    format: str = "auto",  # noqa: A002 - the setting's name
    model: str = "",
    cut: bool = False,
    in_reasoning: bool = False,
    unknown_tool: str = "text",
    coerce: bool = True,
) -> ReadAnswer:
    """The calls, text and reasoning in a model's whole answer, or in its pieces.

    cut: the model did not end the answer by itself. The rest is as for `CallReader`, which this uses.
    """
    reader = CallReader(
        tools, format=format, model=model, in_reasoning=in_reasoning, unknown_tool=unknown_tool, coerce=coerce
    )
    events: list[Event] = []
    for piece in [text] if isinstance(text, str) else text:
        events += reader.feed(piece)
    events += reader.finish(cut=cut)
    said: list[str] = []
    thought: list[str] = []
    answer = ReadAnswer()
    start, pieces = CallStart(""), list[str]()
    for event in events:
        match event:
            case Text(part):
                said.append(part)
            case Reasoning(part, markup=False):
                thought.append(part)
            case CallStart():
                start, pieces = event, []
            case CallArgs(part):
                pieces.append(part)
            case CallEnd(complete, repaired, coerced=coerced):
                call = ReadCall(start.name, "".join(pieces), start.id, complete, repaired, coerced)
                answer.calls.append(call)
            case Malformed(reason=reason):
                answer.malformed.append(reason)
            case _:
                pass
    return ReadAnswer("".join(said), "".join(thought), answer.calls, answer.malformed)


def render_tools(
    tools: Tools,
    *,
    format: str = "auto",  # noqa: A002 - the setting's name
    model: str = "",
    tool_choice: str | Mapping[str, Any] = "auto",
    parallel: bool = True,
) -> str:
    """The block of a system prompt that describes the tools and how to call them, as the family's models know it.

    tool_choice, parallel: as `tool_choice` and `parallel_tool_calls` of chat completions; what they ask for is added at
    the end. With `format="auto"` the model's name decides on the family; an unknown model gets JSON.
    """
    fmt, offered = registry.for_model(format, model), _tool_set(tools)
    choice = read_choice(tool_choice, offered, parallel=parallel, param="tool_choice")
    asked = fmt.render_choice(offered.tools, choice)
    return "\n\n".join(filter(None, (fmt.render_tools(offered.tools, parallel=parallel), asked)))


def render_calls(
    calls: Sequence[ToolCall | ReadCall | tuple[str, Any]],
    *,
    format: str = "auto",  # noqa: A002 - the setting's name
    model: str = "",
) -> str:
    """One assistant turn's calls in the family's syntax, as its models write them.

    calls: calls as `read_calls` gives them, or pairs of a name and the arguments as a Python dictionary.
    """
    return registry.for_model(format, model).render_calls([_call(call) for call in calls])


def render_results(
    results: Sequence[ToolResult | tuple[str, str]],
    *,
    format: str = "auto",  # noqa: A002 - the setting's name
    model: str = "",
) -> str:
    """The results of one turn's calls in the family's syntax. No text in them can be read as markup.

    results: `ToolResult`s, or pairs of the tool's name and the text that it returned.
    """
    given = [result if isinstance(result, ToolResult) else ToolResult(*result) for result in results]
    return registry.for_model(format, model).render_results(given)


def _tool_set(tools: Tools) -> ToolSet:
    return read_tools(msgspec.json.encode(list(tools)), _NO_LIMITS).tools


def _call(call: ToolCall | ReadCall | tuple[str, Any]) -> ToolCall:
    match call:
        case ToolCall():
            return call
        case ReadCall(name, arguments, call_id):
            return ToolCall(name, arguments, call_id)
        case (name, arguments):
            return ToolCall(name, written_arguments(arguments, "arguments"))
