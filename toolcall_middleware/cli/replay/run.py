"""A captured answer, read offline as the middleware reads it.

Takes model text, an event stream or a whole answer; says what the client would get, and where in the text each call
began and ended. It is what a user attaches to a bug report.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import ToolCallError
from ...formats import near_misses, registry
from ...formats.base import ParserOptions
from ...model import ToolSet
from ...observe.traces import is_trace
from ...parsing.events import CallArgs, CallEnd, CallStart, Event, Reasoning, Stop, Text
from ...request.parse import ChatRequest, read_request
from ...response.native_calls import NativeCalls
from ...response.reasoning import OpenThought
from ...settings import Settings
from ...text_spans import TextSpans
from ...wire import openai
from ...wire.chat_answer import ChatAnswer
from ..command import UsageError, read_file, safe, template_of
from ..faces.answers import Received, api_of, is_stream, read_answer
from ..faces.requests import face_of
from .trace import show_trace

_SHOWN = 60
_EMPTY = "there is no answer in it"


class ReplayError(UsageError):
    """The file cannot be read as what it should be. The message says which and why."""


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
    """One choice as the client would get it. Spans are character offsets into the captured text, end exclusive."""

    index: int
    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    near_misses: list[dict[str, Any]] = field(default_factory=list)
    """Places in the text that look like a call but are not read as one, each with the reason."""
    finish_reason: str | None = None
    stopped_at: int | None = None
    error: str | None = None


def run(args: argparse.Namespace) -> int:
    """The command. 0 when all was read, 1 when something in it is malformed."""
    data = read_file(args.file)
    template = template_of(args.template)
    if is_trace(data):
        return show_trace(data, as_json=args.json, case=args.save_case, template=template)
    if args.save_case:
        raise ReplayError("--save-case: the file is no trace")
    tools = _tools(args.tools) if args.tools else None
    captured = capture(data)
    read = [replay(choice, index, args.format, tools, template) for index, choice in sorted(captured.items())]
    if args.json:
        print(json.dumps([_as_json(one) for one in read], indent=2))
    else:
        for one in read:
            _print(one, captured[one.index], alone=len(read) == 1)
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
    cut = captured.finish_reason in {"length", "content_filter"}
    read = Read(index, reasoning=captured.reasoning, finish_reason=captured.finish_reason, error=captured.error)
    spans = TextSpans(captured.text, () if tools is None else list(tools.by_name))
    at = 0
    for position, char in enumerate(captured.text, 1):
        events = parser.feed(char)
        thought.follow(events)
        spans.take(events, 0)
        at = _apply(read, events, captured.text, at, position)
    last = parser.finish(cut=cut)
    spans.take(last, 0)
    if read.calls and last and isinstance(last[-1], Text) and last[-1].text.isspace():
        last.pop()  # white space behind a call is none of the answer's text
    thought.follow(last)
    _apply(read, last, captured.text, at, len(captured.text))
    if captured.native:
        thought.close()
    _apply(read, thought.finish(cut=cut), captured.text, 0, len(captured.text))
    native = NativeCalls(tools or ToolSet())
    for calls in captured.native:
        _apply(read, native.feed(calls), "", 0, 0)
    _apply(read, native.finish(cut=cut), "", 0, 0)
    calls = [(call["begin"], call["end"]) for call in read.calls if "begin" in call]
    calls += [(one["start"], one["end"]) for one in spans.unknown]
    found = near_misses.places(captured.text, spans.thoughts, tools=tools, syntax=fmt, calls=calls)
    told = [(one["start"], one["why"]) for one in spans.unknown] + [(place.start, place.why) for place in found]
    read.near_misses = [{"at": at, "what": why} for at, why in sorted(told)]
    if read.calls and not cut and read.error is None:
        read.finish_reason = "tool_calls"
    return read


def _apply(read: Read, events: list[Event], text: str, at: int, position: int) -> int:
    """Take up events; returns where the text behind them goes on."""
    for event in events:
        match event:
            case Text(piece):
                read.content += piece
                found = text.find(piece, at)
                at = found + len(piece) if found >= 0 else at
            case Reasoning(piece, markup, channel):
                if markup and not channel:
                    read.content += piece
                elif channel:
                    read.reasoning += piece
                else:
                    read.content += piece
            case CallStart(name, call_id):
                read.calls.append({"name": name, "arguments": "", "id": call_id, "named_at": position})
            case CallArgs(piece):
                read.calls[-1]["arguments"] += piece
            case CallEnd(complete, repaired, written):
                call = read.calls[-1]
                raw = written.strip()  # the white space between calls is none of them
                begin = text.find(raw, at) if raw else -1
                if begin >= 0:
                    call["begin"], call["end"] = begin, begin + len(raw)
                    at = begin + len(raw)
                call["complete"], call["repaired"] = complete, repaired
                if not complete:
                    read.faults.append({"at": position, "what": f"the call of {call['name']} is cut off"})
                elif repaired:
                    read.faults.append({"at": begin, "what": f"the arguments of {call['name']} were repaired"})
            case Stop(marker):
                read.stopped_at = text.find(marker, at)
    return at


def _tools(name: str) -> ToolSet:
    """A JSON list of tools, or a request body (of any API that clients speak here) that holds one."""
    data = read_file(name)
    value = openai.read_value(data)
    if isinstance(value, dict) and (face := face_of(value)) is not None:
        try:
            value = openai.read_value(face.request(data, {}).body)
        except ToolCallError as error:
            raise ReplayError(f"{name}: {error.param or 'tools'}: {error.message}") from None
    tools = value.get("tools") if isinstance(value, dict) else value
    body = openai.encode({"model": "m", "messages": [{"role": "user", "content": ""}], "tools": tools})
    try:
        request = read_request(body, Settings())
    except ToolCallError as error:
        raise ReplayError(f"{name}: {error.param or 'tools'}: {error.message}") from None
    if not isinstance(request, ChatRequest):
        raise ReplayError(f"{name}: no list of tools")
    return request.tools


def _as_json(read: Read) -> dict[str, Any]:
    return {
        "index": read.index,
        "content": read.content or None,
        "reasoning": read.reasoning or None,
        "tool_calls": read.calls,
        "finish_reason": read.finish_reason,
        "faults": read.faults,
        "near_misses": read.near_misses,
        "error": read.error,
        "stopped_at": read.stopped_at,
    }


def _print(read: Read, captured: Captured, *, alone: bool) -> None:
    if not alone:
        print(f"== choice {read.index}")
    if read.reasoning:
        print(f"reasoning: {safe(read.reasoning)}")
    print(f"content: {safe(read.content) or '(none)'}")
    for number, call in enumerate(read.calls):
        where = f" at {call['begin']}-{call['end']}" if "begin" in call else ""
        print(safe(f"call {number}{where}: {call['name']} {call['arguments']}"))
    for mark, places in (("!", read.faults), ("no call:", read.near_misses)):
        for place in places:
            at = max(0, place["at"])
            near = captured.text[at : at + _SHOWN].replace("\n", "\\n")
            print(safe(f"{mark} {place['what']} (at {at}: {near})"))
    if read.stopped_at is not None:
        print(f"! generation would have been stopped at {read.stopped_at}")
    if read.error is not None:
        print(f"! error: {safe(read.error)}")
        return
    reason = str(read.finish_reason or ("tool_calls" if read.calls else "stop"))
    print(f"finish_reason: {safe(reason)}")
