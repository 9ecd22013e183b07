"""What an operator allows beyond what is well formed: the allowlist, and the rules of the strict dialect.

Limits of size and number are checked where the request is read (validate) and where the answer is made (answer).
"""

from __future__ import annotations

import fnmatch
import functools
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ToolCallError
from ..model import Tool
from ..settings import Settings
from .validate import ChatRequest

_log = logging.getLogger("toolcall_middleware")
_STRICT_NAME = re.compile(r"[a-zA-Z0-9_]+")
_OWN_ID = re.compile(r"call_[a-zA-Z0-9]+")
_MAX_PROPERTIES = 100
_MAX_LEVELS = 5


def check_request(chat: ChatRequest, settings: Settings) -> None:
    """Raises ToolCallError for what the operator does not allow."""
    _check_allowlist(chat, settings)
    if settings.require_descriptions:
        for number, tool in enumerate(chat.tools.tools):
            _check_descriptions(tool, f"tools[{number}].function")
    if settings.profile == "strict":
        _check_strict(chat)


def _check_allowlist(chat: ChatRequest, settings: Settings) -> None:
    if settings.allowlist_mode == "off":
        return
    for number, tool in enumerate(chat.tools.tools):
        if allowed(tool.name, settings.allowlist):
            continue
        message = f"The tool {tool.name!r} is not on the allowlist."
        if settings.allowlist_mode == "enforce":
            raise ToolCallError("tool_not_allowed", message, param=f"tools[{number}].function.name")
        _log.warning("%s", message)


@functools.lru_cache(maxsize=4096)
def allowed(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a tool's name is one of `patterns`: names, or globs with `*`, `?` and `[...]`."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _check_descriptions(tool: Tool, path: str) -> None:
    if not tool.description.strip():
        message = f"The tool {tool.name!r} has no description."
        raise ToolCallError("invalid_tool_schema", message, param=f"{path}.description")
    for inner, name, schema in _properties(tool.parameters, f"{path}.parameters"):
        if not isinstance(schema, Mapping) or not str(schema.get("description") or "").strip():
            message = f"The parameter {name!r} of the tool {tool.name!r} has no description."
            raise ToolCallError("invalid_tool_schema", message, param=inner)


def _properties(schema: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """(path, name, schema) of each property of an object schema and of what stands in it."""
    stack: list[tuple[Any, str]] = [(schema, path)]
    while stack:
        at, where = stack.pop()
        if not isinstance(at, Mapping):
            continue
        properties = at.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            yield f"{where}.properties.{name}", name, inner
            stack.append((inner, f"{where}.properties.{name}"))
        stack.append((at.get("items"), f"{where}.items"))


def _check_strict(chat: ChatRequest) -> None:
    if chat.legacy or "functions" in chat.fields or "function_call" in chat.fields:
        raise ToolCallError(
            "invalid_request",
            "'functions' and 'function_call' are deprecated and refused here; use 'tools' and 'tool_choice'.",
            param="functions" if "functions" in chat.fields else "function_call",
        )
    for number, tool in enumerate(chat.tools.tools):
        path = f"tools[{number}].function"
        if not _STRICT_NAME.fullmatch(tool.name):
            message = f"The tool name {tool.name!r} must match ^[a-zA-Z0-9_]+$."
            raise ToolCallError("invalid_tool_schema", message, param=f"{path}.name")
        if tool.strict:
            if chat.choice.parallel:
                message = f"The tool {tool.name!r} has strict: true; set 'parallel_tool_calls' to false."
                raise ToolCallError("invalid_tool_schema", message, param="parallel_tool_calls")
            _check_strict_schema(tool, f"{path}.parameters")
    _check_results(chat.messages)


def _check_strict_schema(tool: Tool, path: str) -> None:
    """OpenAI's rules for `strict: true`: all properties required, nothing else allowed, on all levels."""
    count = 0
    stack: list[tuple[Any, str, int]] = [(tool.parameters, path, 1)]
    while stack:
        schema, where, level = stack.pop()
        if not isinstance(schema, Mapping):
            continue
        properties = schema.get("properties")
        if isinstance(properties, Mapping) or schema.get("type") == "object":
            names = set(properties) if isinstance(properties, Mapping) else set()
            count += len(names)
            if schema.get("additionalProperties") is not False:
                raise _broken(tool, "additionalProperties must be false on all levels", f"{where}.additionalProperties")
            required = schema.get("required") or []
            missing = sorted(names - set(required if isinstance(required, list) else ()))
            if missing:
                raise _broken(tool, f"all properties must be required, {missing[0]!r} is not", f"{where}.required")
            if level > _MAX_LEVELS:
                raise _broken(tool, f"the schema is deeper than {_MAX_LEVELS} levels", where)
            inside = properties if isinstance(properties, Mapping) else {}
            stack += [(inner, f"{where}.properties.{name}", level + 1) for name, inner in inside.items()]
        stack.append((schema.get("items"), f"{where}.items", level))
        for key in ("anyOf", "oneOf", "allOf"):
            options = schema.get(key)
            for number, option in enumerate(options if isinstance(options, list) else ()):
                stack.append((option, f"{where}.{key}[{number}]", level))
        for key in ("$defs", "definitions"):
            inner = schema.get(key)
            for name, definition in inner.items() if isinstance(inner, Mapping) else ():
                stack.append((definition, f"{where}.{key}.{name}", level))
    if count > _MAX_PROPERTIES:
        raise _broken(tool, f"the schema has more than {_MAX_PROPERTIES} properties", path)


def _broken(tool: Tool, what: str, path: str) -> ToolCallError:
    return ToolCallError("invalid_tool_schema", f"The tool {tool.name!r} has strict: true: {what}.", param=path)


def _check_results(messages: list[dict[str, Any]]) -> None:
    """Own ids, and exactly one result for each call before the conversation goes on."""
    open_calls: dict[str, str] = {}
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in open_calls:
                text = f"The call {call_id!r} has been answered already, or is not one of the turn before."
                raise ToolCallError("invalid_tool_call_id", text, param=f"messages[{number}].tool_call_id")
            del open_calls[call_id]
            continue
        if open_calls:
            raise _unanswered(open_calls)
        for position, call in enumerate(message.get("tool_calls") or ()):
            path = f"messages[{number}].tool_calls[{position}].id"
            call_id = call.get("id")
            if not isinstance(call_id, str) or not _OWN_ID.fullmatch(call_id):
                text = f"The id {call_id!r} does not have the form call_[a-zA-Z0-9]+."
                raise ToolCallError("invalid_tool_call_id", text, param=path)
            open_calls[call_id] = path
    if open_calls:
        raise _unanswered(open_calls)


def _unanswered(open_calls: Mapping[str, str]) -> ToolCallError:
    call_id, path = next(iter(open_calls.items()))
    return ToolCallError("invalid_message_order", f"The call {call_id!r} has no result.", param=path)
