"""Ways to read a call that streams: ours; again from its start at each chunk, as engines do; not before its end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs, CallStart, Text

Tools = Sequence[dict[str, Any]]
Read = Callable[[], list[Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came out: (name, arguments as JSON text) of each call, and the text beside the calls."""

    calls: list[tuple[str, str]]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """One parser. `syntax` is the name of the format it is made for.

    `begin(pieces, tools)` gives what is to be timed: it makes a parser, feeds it each piece, and returns all that the
    parser said, which `merge` puts together.
    """

    name: str
    syntax: str
    begin: Callable[[Sequence[str], Tools], Read]
    merge: Callable[[list[Any]], Answer]
    again: bool = False
    """It reads all of the text again at each piece."""


def put_together(parts: list[tuple[int, str | None, str | None]], text: str) -> Answer:
    """(index, name, piece of the arguments), as they came, into calls."""
    names: dict[int, str] = {}
    arguments: dict[int, list[str]] = {}
    for index, name, piece in parts:
        names[index] = names.get(index, "") + (name or "")
        arguments.setdefault(index, []).append(piece or "")
    return Answer([(names[index], "".join(arguments[index])) for index in sorted(names)], text)


def ours(format_name: str, syntax: str) -> Reader:
    """The parser of this package."""

    def begin(pieces: Sequence[str], tools: Tools) -> Read:
        offered = ToolSet.of(
            [Tool(tool["function"]["name"], parameters=tool["function"]["parameters"]) for tool in tools]
        )

        def read() -> list[Any]:
            parser = registry.get(format_name).parser(offered, ParserOptions())
            feed = parser.feed
            out: list[Any] = []
            for piece in pieces:
                out += feed(piece)
            return out + parser.finish()

        return read

    def merge(events: list[Any]) -> Answer:
        parts: list[tuple[int, str | None, str | None]] = []
        index = -1
        for event in events:
            match event:
                case CallStart():
                    index += 1
                    parts.append((index, event.name, None))
                case CallArgs():
                    parts.append((index, None, event.text))
        return put_together(parts, "".join(event.text for event in events if isinstance(event, Text)))

    name = f"ours, {format_name}" if format_name == syntax else f"ours, {format_name}, of {syntax}"
    return Reader(name, syntax, begin, merge)


def _parsed_again(pieces: Sequence[str], _tools: Tools) -> Read:
    """All that came so far is parsed at each piece, as far as it goes, and what is new of it leaves."""

    def read() -> list[Any]:
        text = sent = name = ""
        for piece in pieces:
            text += piece
            begin = text.find("{")
            if begin < 0:
                continue
            try:
                call = json.loads(_completed(text[begin:].removesuffix("\n</tool_call>")))
            except json.JSONDecodeError:
                continue
            if not call.get("arguments"):
                continue
            name = call["name"]
            written = json.dumps(call["arguments"], ensure_ascii=False)
            if written.startswith(sent):
                # What closes the brackets now may not be what comes.
                sent = written if text.endswith("</tool_call>") else written.rstrip('"}]')
        return [(name, sent)]

    return read


def _completed(text: str) -> str:
    """`text`, the beginning of a JSON value, with what is open closed."""
    closing: list[str] = []
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == '"':
            in_string = True
        elif char in "{[":
            closing.append("}" if char == "{" else "]")
        elif char in "}]" and closing:
            closing.pop()
    if escaped:
        text = text[:-1]
    return text + '"' * in_string + "".join(reversed(closing))


def _at_the_end(pieces: Sequence[str], _tools: Tools) -> Read:
    """Everything is collected, and parsed once."""

    def read() -> list[Any]:
        text = ""
        for piece in pieces:
            text += piece
        *parts, rest = re.split(r"<tool_call>(.*?)</tool_call>", text, flags=re.DOTALL)
        calls = map(json.loads, parts[1::2])
        written = [(call["name"], json.dumps(call["arguments"], ensure_ascii=False)) for call in calls]
        return [written, "".join([*parts[::2], rest])]

    return read


PARSED_AGAIN = Reader("parsed again at each chunk", "hermes", _parsed_again, Answer, again=True)
"""For one call and nothing else."""
AT_THE_END = Reader("parsed at its end", "hermes", _at_the_end, lambda out: Answer(*out))
