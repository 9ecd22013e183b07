"""A captured answer, read offline as the middleware reads it.

Takes model text, an event stream or a whole answer; says what the client would get, and where in the text each call
began and ended. It is what a user attaches to a bug report.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rich.console import Console

from ...errors import ToolCallError
from ...formats import near_misses, registry
from ...formats.base import ParserOptions, ToolFormat
from ...model import ToolSet
from ...observe.traces import is_trace
from ...parsing.events import Event, Reasoning, Text
from ...request.parse import ChatRequest, read_request
from ...response.choice import CUT, OpenThought
from ...response.native_calls import NativeCalls
from ...settings import Settings
from ...text_spans import TextSpans, WrittenCall
from ...wire import openai
from ...wire.chat_answer import ChatAnswer, Choice
from .._console import console, line
from ..command import UsageError, read_file, safe, template_of
from ..faces.answers import api_of, is_stream, read_answer
from ..faces.requests import face_of
from .trace import show_trace

_SHOWN = 60
_EMPTY = "there is no answer in it"


def run(args: argparse.Namespace) -> int:
    """The command. 0 when all was read, 1 when something in it is malformed."""
    data = read_file(args.file)
    template = template_of(args.template)
    if is_trace(data):
        return show_trace(data, as_json=args.json, case=args.save_case, template=template)
    if args.save_case:
        raise UsageError("--save-case: the file is no trace")
    tools = _tools(args.tools) if args.tools else None
    choices, error = capture(data)
    fmt = registry.of_template(args.format, template)
    read = {index: replay(choice, fmt, tools, error) for index, choice in sorted(choices.items())}
    if args.json:
        print(json.dumps([{"index": index, **one} for index, one in read.items()], indent=2))
    else:
        page = console()
        for index, one in read.items():
            if len(read) > 1:
                line(page, "", label=f"== choice {index}")
            _print(page, one, choices[index].text)
    return 1 if error or any(one["faults"] for one in read.values()) else 0


def capture(data: bytes) -> tuple[dict[int, Choice], str | None]:
    """The choices of an event stream, a whole answer (both of any API that clients speak here), or a text (then one
    choice, 0), and the error that the backend gave instead of the rest.
    """
    api = api_of(data)
    if api is not None:
        answer = read_answer(api, data)
        calls = [
            {"index": index, "id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
            for index, call in enumerate(answer.calls)
        ]
        native = [calls] if calls else []
        return {
            0: Choice([(0, answer.text)], answer.reasoning, native, finish_reason=answer.finish_reason)
        }, answer.error
    read = ChatAnswer.of(data)
    error = _error(read.error)
    if not (is_stream(data) or read.has_choices or error):
        return {0: Choice([(0, data.decode("utf-8", "replace"))])}, None
    return read.choices or {0: Choice()}, error or (None if read.choices else _EMPTY)


def _error(value: Any) -> str | None:
    """The words of an error as OpenAI's API and its likes write it."""
    message = value.get("message") if isinstance(value, dict) else value
    return message if isinstance(message, str) and message else None


def replay(choice: Choice, fmt: ToolFormat, tools: ToolSet | None, error: str | None) -> dict[str, Any]:
    """One choice as the client would get it. Without `tools` any name can be called.

    Places are characters of its text, end exclusive. near_misses: what looks like a call but is not read as one, each
    with the reason.
    """
    options = ParserOptions(keep_raw=True, unknown_tool="error")
    parser = fmt.parser(tools, options)
    thought = OpenThought(lambda: fmt.parser(tools, replace(options, parse_reasoning=True)))
    if choice.reasoning:
        thought.feed(choice.reasoning)
    cut = choice.finish_reason in CUT
    text, names = choice.text, () if tools is None else list(tools.by_name)
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
    if choice.entries:
        thought.close()
    thoughts = TextSpans(text, names)  # calls of a thought in which the answer ends
    thoughts.take(thought.finish(cut=cut), len(text))
    native, own = NativeCalls(tools or ToolSet()), TextSpans("", names)
    events = [event for calls in choice.entries for event in native.feed(calls)]
    events += native.finish(cut=cut)
    own.take(events, 0)
    said += events

    in_thoughts = [event.text for event in said if isinstance(event, Reasoning) and event.channel]
    content = [
        event.text for event in said if isinstance(event, Text) or (isinstance(event, Reasoning) and not event.channel)
    ]
    calls = [_call(call, spans_of_part) for spans_of_part in (spans, thoughts, own) for call in spans_of_part.written]
    found = near_misses.places(
        text,
        spans.thoughts,
        tools=tools,
        syntax=fmt,
        calls=[(call["begin"], call["end"]) for call in calls if "begin" in call]
        + [(one["start"], one["end"]) for one in spans.unknown],
    )
    notes = [(one["start"], one["why"]) for one in spans.unknown] + [(place.start, place.why) for place in found]
    return {
        "content": "".join(content) or None,
        "reasoning": choice.reasoning + "".join(in_thoughts) or None,
        "tool_calls": calls,
        "faults": [fault for call in calls for fault in _faults(call)],
        "near_misses": [{"at": at, "what": why} for at, why in sorted(notes)],
        "finish_reason": "tool_calls" if calls and not cut and error is None else choice.finish_reason,
        "error": error,
        "stopped_at": None if spans.stop is None else text.find(spans.stop),
    }


def _call(call: WrittenCall, spans_of_part: TextSpans) -> dict[str, Any]:
    made = {"name": call.name, "arguments": call.arguments, "id": call.id, "named_at": call.row}
    if call.span is not None:
        span = spans_of_part.spans[call.span]
        made |= {"begin": span["start"], "end": span["end"]}
    return {**made, "complete": call.complete, "repaired": call.repaired}


def _faults(call: dict[str, Any]) -> Iterator[dict[str, Any]]:
    at = call.get("begin", call["named_at"])
    if not call["complete"]:
        yield {"at": at, "what": f"the call of {call['name']} is cut off"}
    elif call["repaired"]:
        yield {"at": at, "what": f"the arguments of {call['name']} were repaired"}


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


def _print(page: Console, read: dict[str, Any], text: str) -> None:
    if read["reasoning"]:
        line(page, safe(read["reasoning"]), label="reasoning: ")
    line(page, safe(read["content"] or "") or "(none)", label="content: ")
    for number, call in enumerate(read["tool_calls"]):
        where = f" at {call['begin']}-{call['end']}" if "begin" in call else ""
        line(page, safe(f"{call['name']} {call['arguments']}"), label=f"call {number}{where}: ", style="bold green")
    for mark, style, name in (("! ", "bold red", "faults"), ("no call: ", "bold yellow", "near_misses")):
        for place in read[name]:
            at = max(0, place["at"])
            near = text[at : at + _SHOWN].replace("\n", "\\n")
            line(page, safe(f"{place['what']} (at {at}: {near})"), label=mark, style=style)
    if read["stopped_at"] is not None:
        line(page, f"generation would have been stopped at {read['stopped_at']}", label="! ", style="bold red")
    if read["error"] is not None:
        line(page, safe(read["error"]), label="! error: ", style="bold red")
        return
    reason = str(read["finish_reason"] or ("tool_calls" if read["tool_calls"] else "stop"))
    line(page, safe(reason), label="finish_reason: ")
