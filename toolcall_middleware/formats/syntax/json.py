"""Calls written as JSON: objects, alone or in a list, between markers. Arguments stand there verbatim."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...model import ToolCall
from ..prompt.escaping import arguments_json, call_json, dump
from .openers import json_calls, shared

WriteCalls = Callable[[Sequence[ToolCall]], str | None]
"""The calls of one turn in the family's syntax; None where it has no way to write them."""

Entry = Callable[[int, ToolCall], str]
"""One call, and its number in the turn, as JSON."""


def plain(_number: int, call: ToolCall) -> str:
    """`{"name": "f", "arguments": {…}}`."""
    return call_json(call)


def parameters(_number: int, call: ToolCall) -> str:
    """`{"name": "f", "parameters": {…}}`: Llama 3, InternLM."""
    return f'{{"name": {dump(call.name)}, "parameters": {arguments_json(call.arguments)}}}'


def with_id(_number: int, call: ToolCall) -> str:
    """`{"name": "f", "arguments": {…}, "id": "a1b2c3d4e"}`: Mistral."""
    return call_json(call) if call.id is None else f'{call_json(call)[:-1]}, "id": "{short_id(call.id)}"}}'


def numbered(number: int, call: ToolCall) -> str:
    """`{"tool_call_id": "0", "tool_name": "f", "parameters": {…}}`: Cohere."""
    name, arguments = dump(call.name), arguments_json(call.arguments)
    return f'{{"tool_call_id": "{number}", "tool_name": {name}, "parameters": {arguments}}}'


def named_tool(_number: int, call: ToolCall) -> str:
    """`{"tool_name": "f", "parameters": {…}}`: Command R."""
    return f'{{"tool_name": {dump(call.name)}, "parameters": {arguments_json(call.arguments)}}}'


def with_args(_number: int, call: ToolCall) -> str:
    """`{"name": "f", "args": {…}}`: Inkling."""
    return f'{{"name": {dump(call.name)}, "args": {arguments_json(call.arguments)}}}'


def keyed(_number: int, call: ToolCall) -> str:
    """`{"f": {…}}`: Apertus."""
    return f"{{{dump(call.name)}: {arguments_json(call.arguments)}}}"


def each(opening: str, closing: str, *, between: str = "\n", entry: Entry = plain) -> WriteCalls:
    """Markers around each call."""

    def write(calls: Sequence[ToolCall]) -> str:
        return between.join(f"{opening}{entry(number, call)}{closing}" for number, call in enumerate(calls))

    return write


def listed(opening: str, closing: str, *, between: str = ", ", entry: Entry = plain) -> WriteCalls:
    """Markers around one list of calls."""

    def write(calls: Sequence[ToolCall]) -> str:
        return opening + between.join(entry(number, call) for number, call in enumerate(calls)) + closing

    return write


def unmarked(write: WriteCalls) -> WriteCalls:
    """For calls without a marker, which are known by their arguments: an object, or they have no way to be written."""

    def checked(calls: Sequence[ToolCall]) -> str | None:
        return write(calls) if all(arguments_json(call.arguments).startswith("{") for call in calls) else None

    return checked


_NO_ID = re.compile(r"[^A-Za-z0-9]")


def short_id(call_id: str | None) -> str:
    """A call's id as Mistral's templates want it: nine letters or digits, the same for a call and its result."""
    return _NO_ID.sub("", call_id or "")[-9:].rjust(9, "0")


# Hermes's tag, which many lineages took over: the JSON in it tells them from those that write something else there.
TOOL_CALL_JSON = shared("<tool_call>", json_calls(close=("</tool_call>",)), r"[{\[`\"']")
