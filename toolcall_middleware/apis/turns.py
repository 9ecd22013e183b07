"""The messages of a chat completion, prepared for another API: each call with its results.

The APIs have different names for parts and roles, but all of them group calls with results.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import kind as kind_of
from ..errors import refusal

Message = dict[str, Any]

NO_RESULT = "No result was given for this call."
"""Replaces a result that a client left out, if the provider requires one for each call."""
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_LONGEST_HEAD = 1000  # characters of a data URL before its data


@dataclass(slots=True)
class Call:
    """A call of the history. fields: as the client sent it. results: the tool messages that answer it."""

    id: str
    name: str
    arguments: Any
    fields: Message
    path: str
    results: list[Turn] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """One message with its path. calls: those of an assistant."""

    role: str
    message: Message
    path: str
    calls: list[Call] = field(default_factory=list)

    @property
    def is_error(self) -> bool:
        """Whether it is the result of a call that failed."""
        return self.message.get("is_error") is True

    def parts(self) -> Iterator[tuple[Any, str]]:
        """The parts of its content, each with its path; a string is a part of text. Raises ToolCallError."""
        content, path = self.message.get("content"), f"{self.path}.content"
        if isinstance(content, str):
            yield {"type": "text", "text": content}, path
        elif isinstance(content, list):
            yield from ((part, f"{path}[{place}]") for place, part in enumerate(content))
        elif content is not None:
            raise refusal(path, "'content' must be a string, an array of parts or null.")


def read_turns(messages: Any) -> list[Turn]:
    """The messages without tool results, which are attached to their calls. Raises ToolCallError."""
    if not isinstance(messages, list) or not messages:
        raise refusal("messages", "'messages' must be an array that is not empty.")
    turns: list[Turn] = []
    # By id: the calls that wait for a result, of each turn that has the id; and the one that got the last.
    waiting: dict[str, list[deque[Call]]] = {}
    answered: dict[str, Call] = {}
    for number, message in enumerate(messages):
        path = f"messages[{number}]"
        role = message.get("role") if isinstance(message, dict) else None
        match role:
            case "system" | "developer" | "user" | "assistant":
                turn = Turn(role, message, path)
                turns.append(turn)
                if role == "assistant":
                    turn.calls = _calls_of(turn)
                    new: dict[str, deque[Call]] = {}
                    for call in turn.calls:
                        new.setdefault(call.id, deque()).append(call)
                    for call_id, calls in new.items():
                        waiting.setdefault(call_id, []).append(calls)
            case "tool":
                result = Turn("tool", message, path)
                call_id = _answered_id(result, waiting)
                # Some engines use the same ids in each turn: the result is for the last turn's call, in their order.
                open_turns = waiting[call_id]
                while open_turns and not open_turns[-1]:
                    open_turns.pop()
                call = answered[call_id] = open_turns[-1].popleft() if open_turns else answered[call_id]
                call.results.append(result)
            case _ if not isinstance(message, dict):
                raise refusal(path, "A message must be an object.")
            case _:
                roles = "system, developer, user, assistant or tool"
                raise refusal(f"{path}.role", f"A message's role must be {roles}.")
    return turns


def grouped(said: Iterable[tuple[str, list[Message]]]) -> list[tuple[str, list[Message]]]:
    """(role, parts) of each turn: neighbouring messages of one role form a turn, and empty messages are left out."""
    groups = itertools.groupby((one for one in said if one[1]), lambda one: one[0])
    return [(role, [part for _, parts in group for part in parts]) for role, group in groups]


def _answered_id(result: Turn, known: dict[str, Any]) -> str:
    call_id, path = result.message.get("tool_call_id"), f"{result.path}.tool_call_id"
    if not isinstance(call_id, str) or not call_id:
        text = "A message with role 'tool' needs the 'tool_call_id' of the call that it answers."
        raise refusal(path, text, "invalid_tool_call_id")
    if call_id not in known:
        text = f"No earlier assistant message has a tool call with the id {call_id[:100]!r}."
        raise refusal(path, text, "invalid_tool_call_id")
    return call_id


def _calls_of(turn: Turn) -> list[Call]:
    items = turn.message.get("tool_calls")
    if items is not None and not isinstance(items, list):
        raise refusal(f"{turn.path}.tool_calls", "'tool_calls' must be an array.")
    calls: list[Call] = []
    for number, item in enumerate(items or ()):
        path = f"{turn.path}.tool_calls[{number}]"
        fields = item if isinstance(item, dict) else {}
        kind = "custom" if fields.get("type") == "custom" or fields.get("function") is None else "function"
        match fields.get(kind):
            case {"name": str(name), **inner} if name:
                given = {"input": inner.get("input") or ""} if kind == "custom" else inner.get("arguments")
                call_id = fields.get("id")
                calls.append(Call(call_id if isinstance(call_id, str) else "", name, given, fields, path))
            case dict() | None:
                raise refusal(path, "A tool call must name a function.")
            case other:
                raise refusal(f"{path}.{kind}", f"'{kind}' must be an object, got {kind_of(other)}.")
    return calls


def data_url(url: str) -> tuple[str, str] | None:
    """(media type, base64 text) of a data URL; None if `url` is not a data URL."""
    found = _DATA_URL.match(url[:_LONGEST_HEAD])
    return None if found is None else (found[1].lower(), url[found.end() :])
