"""A body that every parser reads alike where it speaks of tools.

JSON does not say which of two members of one name holds, and Go's reader takes `Tools` for `tools`: what was checked
here would not be what the backend does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ..errors import ToolCallError
from ..wire.json_input import Members, read_fields, read_members

OURS = frozenset({"tools", "functions", "tool_choice", "function_call", "messages"})
"""The fields of a request that say which tools there are, and which were called."""
_SPELLED = frozenset(name.encode() for name in OURS)
_INNER = frozenset({"type", "function", "name", "parameters", "custom", "description", "strict"})

# Go's reader also takes U+017F for an s.
_NAME = re.compile(
    '"(tools|functions|tool_choice|function_call|messages)"'.replace("s", "(?:s|\u017f)").encode(), re.IGNORECASE
)
_COLON = re.compile(rb"\s*+:")
_PIECE = 64 * 1024
_LONGEST = 20
"""Bytes of a name: no other thread runs while one search goes through all of a large body."""
_ESCAPED = re.compile(rb"\\u0(?:0[4-7]|17[fF])")


def one_reading(body: bytes) -> bytes:
    """`body`, or the same with one member for each field of tools: the last, in its own spelling, as is read here."""
    found = list(_members(body))
    plain = len(found) == len(set(found)) and _SPELLED.issuperset(found)
    if plain and (b"\\u0" not in body or not _ESCAPED.search(body)):
        return body
    try:
        members = read_members(body)
        names = [name for name, _ in members if name.casefold() in OURS] if isinstance(members, Members) else []
        if len(names) == len(set(names)) and OURS.issuperset(names):
            return body
        return msgspec.json.encode(without_variants(read_fields(body)))
    except (ToolCallError, ValueError, RecursionError):
        return body  # the backend's to refuse


def _members(body: bytes) -> Iterator[bytes]:
    """The names of members that are ours, in any case."""
    for begin in range(0, len(body), _PIECE):
        end = begin + _PIECE
        for match in _NAME.finditer(body, begin, end + _LONGEST):
            if match.start() < end and _COLON.match(body, match.end()) is not None:
                yield match[1]


def without_variants(fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """The fields but for those that are one of ours in another case."""
    return {name: value for name, value in fields.items() if name in OURS or name.casefold() not in OURS}


def rewritten_tools(raw: bytes | msgspec.Raw) -> msgspec.Raw:
    """A list of tools as it was read: each member once, none that differs from a known one by its case alone, and
    beside the `function` or `custom` that a tool's type says nothing else that could be its definition. `raw` where it
    is null.
    """
    tools = msgspec.json.decode(raw)
    return msgspec.Raw(raw if tools is None else msgspec.json.encode([_as_read(tool) for tool in tools]))


def _as_read(tool: dict[str, Any]) -> dict[str, Any]:
    kept = _in_own_spelling(tool)
    kind = kept.get("type") or "function"
    if kind not in ("function", "custom") or not isinstance(kept.get(kind), dict):
        return kept  # one of `functions`, or a tool of Messages
    beside = {name: value for name, value in kept.items() if name not in _INNER or name == "type"}
    return beside | {kind: _in_own_spelling(kept[kind])}


def _in_own_spelling(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name in _INNER or name.casefold() not in _INNER}
