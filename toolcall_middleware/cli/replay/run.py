"""A captured answer, read offline as the middleware reads it.

Takes model text, an event stream or a whole answer; says what the client would get, and where in the text each call
began and ended. It is what a user attaches to a bug report.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.console import Console

from ...errors import ToolCallError
from ...formats import near_misses, registry
from ...formats.base import ParserOptions
from ...model import ToolSet
from ...observe.traces import is_trace
from ...parsing.events import Event, Reasoning, Text
from ...request.parse import ChatRequest, read_request
from ...response.choice import CUT, OpenThought
from ...response.native_calls import NativeCalls
from ...settings import Settings
from ...text_spans import TextSpans, WrittenCall
from ...wire import openai
from ...wire.chat_answer import ChatAnswer
from .._console import console, line
from ..command import UsageError, read_file, safe, template_of
from ..faces.answers import Received, api_of, is_stream, read_answer
from ..faces.requests import face_of
from .trace import show_trace

_SHOWN = 60
_EMPTY = "there is no answer in it"


@dataclass(slots=True)
class Captured:
    """One choice as the backend sent it."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    error: str | None = None
    """What the backend said instead of the rest."""
    native: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Read:
    """One choice as the client would get it. Places are characters of the captured text, end exclusive."""

    index: int
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    near_misses: list[dict[str, Any]] = field(default_factory=list)
    """Places in the text that look like a call but are not read as one, each with the reason."""
    finish_reason: str | None = None
    error: str | None = None
    stopped_at: int | None = None


def run(args: argparse.Namespace) -> int:
    """The command. 0 when all was read, 1 when something in it is malformed."""
    data = read_file(args.file)
    template = template_of(args.template)
    if is_trace(data):
        return show_trace(data, as_json=args.json, case=args.save_case, template=template)
    if args.save_case:
        raise UsageError("--save-case: the file is no trace")
    tools = _tools(args.tools) if args.tools else None
    captured = capture(data)
    read = [replay(choice, index, args.format, tools, template) for index, choice in sorted(captured.items())]
    if args.json:
        print(json.dumps([asdict(one) for one in read], indent=2))
    else:
        page = console()
        for one in read:
            _print(page, one, captured[one.index], alone=len(read) == 1)
    return 1 if any(one.faults or one.error for one in read) else 0


def capture(data: bytes) -> dict[int, Captured]:
    """The choices of an event stream, a whole answer (both of any API that clients speak here), or a text (then one
    choice, 0). An error belongs to each of them, or to a choice 0 that holds nothing else.
    """
    api = api_of(data)
    if api is not None:
        return {0: _from_face(read_answer(api, data))}
    answer = ChatAnswer.of(data)
    error = _error(answer.error)
    if not (is_stream(data) or answer.has_choices or error):
        return {0: Captured(text=data.decode("utf-8", "replace"))}
    found = {
        index: Captured(choice.text, choice.reasoning, choice.finish_reason, error, choice.entries)
        for index, choice in answer.choices.items()
    }
    return found or {0: Captured(error=error or _EMPTY)}


def _from_face(answer: Received) -> Captured:
    """An answer of Messages or Responses."""
    calls = [
        {"index": index, "id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(answer.calls)
    ]
    native = [calls] if calls else []
    return Captured(answer.text, answer.reasoning, answer.finish_reason, answer.error, native)


def _error(value: Any) -> str | None:
    """The words of an error as OpenAI's API and its likes write it."""
    message = value.get("message") if isinstance(value, dict) else value
    return message if isinstance(message, str) and message else None


def replay(
    captured: Captured, index: int, format_name: str, tools: ToolSet | None, template: str | None = None
) -> Read:
    """Read one choice. Without `tools` any name can be called. template: the setting of that name."""
    options = ParserOptions(keep_raw=True, unknown_tool="error")
    fmt = registry.of_template(format_name, template)
    parser = fmt.parser(tools, options)
    thought = OpenThought(lambda: fmt.parser(tools, replace(options, parse_reasoning=True)))
    if captured.reasoning:
        thought.feed(captured.reasoning)
    cut = captured.finish_reason in CUT
    text, names = captured.text, () if tools is None else list(tools.by_name)
    spans = TextSpans(text, names)
    said: list[Event] = []
    for position, char in enumerate(text, 1):
        events = parser.feed(char)
        thought.follow(events)
        spans.take(events, position)
        said += events
    last = parser.finish(cut=cut)
    spans.take(last, len(text))
    if spans.written and last and isinstance(last[-1], Text) and last[-1].text.isspace():
        last.pop()  # white space after a call is not part of the answer's text
    thought.follow(last)
    said += last
    if captured.native:
        thought.close()
    thoughts = TextSpans(text, names)  # calls of a thought in which the answer ends
    thoughts.take(thought.finish(cut=cut), len(text))
    native, own = NativeCalls(tools or ToolSet()), TextSpans("", names)
    events = [event for calls in captured.native for event in native.feed(calls)]
    events += native.finish(cut=cut)
    own.take(events, 0)
    said += events

    read = Read(index, finish_reason=captured.finish_reason, error=captured.error)
    in_thoughts = [event.text for event in said if isinstance(event, Reasoning) and event.channel]
    read.reasoning = captured.reasoning + "".join(in_thoughts) or None
    read.content = "".join(
        event.text for event in said if isinstance(event, Text) or (isinstance(event, Reasoning) and not event.channel)
    ) or None  # fmt: skip
    for laid in (spans, thoughts, own):
        for call in laid.written:
            _call(read, call, laid)
    found = near_misses.places(
        text,
        spans.thoughts,
        tools=tools,
        syntax=fmt,
        calls=[(call["begin"], call["end"]) for call in read.tool_calls if "begin" in call]
        + [(one["start"], one["end"]) for one in spans.unknown],
    )
    told = [(one["start"], one["why"]) for one in spans.unknown] + [(place.start, place.why) for place in found]
    read.near_misses = [{"at": at, "what": why} for at, why in sorted(told)]
    read.stopped_at = None if spans.stop is None else text.find(spans.stop)
    if read.tool_calls and not cut and read.error is None:
        read.finish_reason = "tool_calls"
    return read


def _call(read: Read, call: WrittenCall, laid: TextSpans) -> None:
    """A call and its faults."""
    made = {"name": call.name, "arguments": call.arguments, "id": call.id, "named_at": call.row}
    at = call.row
    if call.span is not None:
        span = laid.spans[call.span]
        made["begin"], made["end"] = at, _ = span["start"], span["end"]
    read.tool_calls.append({**made, "complete": call.complete, "repaired": call.repaired})
    if not call.complete:
        read.faults.append({"at": at, "what": f"the call of {call.name} is cut off"})
    elif call.repaired:
        read.faults.append({"at": at, "what": f"the arguments of {call.name} were repaired"})


def _tools(name: str) -> ToolSet:
    """A JSON list of tools, or a request body (of any API that clients speak here) that holds one."""
    data = read_file(name)
    value = openai.read_value(data)
    try:
        if isinstance(value, dict) and (face := face_of(value)) is not None:
            value = openai.read_value(face.request(data).body)
        tools = value.get("tools") if isinstance(value, dict) else value
        body = openai.encode({"model": "m", "messages": [{"role": "user", "content": ""}], "tools": tools})
        request = read_request(body, Settings())
    except ToolCallError as error:
        raise UsageError(f"{name}: {error.param or 'tools'}: {error.message}") from None
    if not isinstance(request, ChatRequest):
        raise UsageError(f"{name}: no list of tools")
    return request.tools


def _print(page: Console, read: Read, captured: Captured, *, alone: bool) -> None:
    if not alone:
        line(page, "", label=f"== choice {read.index}")
    if read.reasoning:
        line(page, safe(read.reasoning), label="reasoning: ")
    line(page, safe(read.content or "") or "(none)", label="content: ")
    for number, call in enumerate(read.tool_calls):
        where = f" at {call['begin']}-{call['end']}" if "begin" in call else ""
        line(page, safe(f"{call['name']} {call['arguments']}"), label=f"call {number}{where}: ", style="bold green")
    for mark, style, places in (("! ", "bold red", read.faults), ("no call: ", "bold yellow", read.near_misses)):
        for place in places:
            at = max(0, place["at"])
            near = captured.text[at : at + _SHOWN].replace("\n", "\\n")
            line(page, safe(f"{place['what']} (at {at}: {near})"), label=mark, style=style)
    if read.stopped_at is not None:
        line(page, f"generation would have been stopped at {read.stopped_at}", label="! ", style="bold red")
    if read.error is not None:
        line(page, safe(read.error), label="! error: ", style="bold red")
        return
    reason = str(read.finish_reason or ("tool_calls" if read.tool_calls else "stop"))
    line(page, safe(reason), label="finish_reason: ")
