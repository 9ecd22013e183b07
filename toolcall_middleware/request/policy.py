"""What an operator allows beyond what is well formed: the allowlist, the parts of the strict dialect, and how often a
model may make the same call in a row.

Limits of size and number are checked where the request is read (parse.py, tools.py, messages.py) and where the answer
is made (response/message.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import ToolCallError, refusal, shown
from ..json_schema.pointer import Scope
from ..json_schema.walk import Child, children, deeper, dotted, walk
from ..model import Tool
from ..settings import Settings
from ..settings.settings import admits
from ..wire.json_input import DECODE_ERRORS
from .messages import calls_of
from .parse import ChatRequest

_log = logging.getLogger("toolcall_middleware")
_STRICT_NAME = re.compile(r"[a-zA-Z0-9_]+")
_OWN_ID = re.compile(r"call_[a-zA-Z0-9]+")
_MAX_PROPERTIES = 100
_MAX_LEVELS = 5


def check_request(chat: ChatRequest, settings: Settings) -> list[str]:
    """Return warnings. Raises ToolCallError for a request that the operator does not allow."""
    warnings = _check_allowlist(chat, settings) + _check_provider_tools(chat, settings)
    if settings.refuse_deprecated and chat.deprecated:
        text = "'functions' and 'function_call' are deprecated and refused here"
        uses = "use 'tools', 'tool_choice', 'tool_calls' and messages with role 'tool'."
        raise refusal(chat.deprecated, f"{text}; {uses}")
    for number, tool in enumerate(chat.tools.tools):
        path = _path(chat, number, tool)
        if settings.strict_names and not _STRICT_NAME.fullmatch(tool.name):
            message = f"The tool name {tool.name!r} must match ^[a-zA-Z0-9_]+$."
            raise refusal(f"{path}.name", message, "invalid_tool_schema")
        pattern = settings.tool_name_pattern
        if pattern is not None and not re.compile(pattern).search(tool.name):
            message = f"The tool name {tool.name!r} must match {pattern} (tool_name_pattern)."
            raise refusal(f"{path}.name", message, "invalid_tool_schema")
        if settings.require_descriptions:
            _check_descriptions(tool, path)
        if settings.strict_schemas and tool.strict:
            if chat.choice.parallel:
                message = f"The tool {tool.name!r} has strict: true; set 'parallel_tool_calls' to false."
                raise refusal("parallel_tool_calls", message, "invalid_tool_schema")
            _check_strict_schema(tool, f"{path}.parameters")
    if settings.strict_tools:
        _check_forms(chat)
    if settings.strict_results:
        _check_roles(chat.messages)
    if settings.strict_ids:
        _check_ids(chat.messages)
    if settings.strict_results:
        _check_results(chat.messages)
    return warnings


def _check_allowlist(chat: ChatRequest, settings: Settings) -> list[str]:
    warnings: list[str] = []
    if settings.allowlist_mode == "off":
        return warnings
    for number, tool in enumerate(chat.tools.tools):
        if admits(settings.allowlist, tool.name):
            continue
        message = f"The tool {tool.name!r} is not on the allowlist."
        if settings.allowlist_mode == "enforce":
            raise refusal(f"{_path(chat, number, tool)}.name", message, "tool_not_allowed")
        _log.warning("%s", message)
        warnings.append(message)
    return warnings


def _check_provider_tools(chat: ChatRequest, settings: Settings) -> list[str]:
    """Tools that a provider runs itself need to be on an enforced allowlist by their type; a prompt has no place for
    them.
    """
    warnings: list[str] = []
    for index, name in chat.provider.items():
        where = f"tools[{index}].type"
        if settings.strict_tools:
            raise refusal(where, f"A tool's type must be 'function' or 'custom', got {shown(name)}.")
        if settings.allowlist_mode == "enforce" and not admits(settings.allowlist, name):
            raise refusal(where, f"The tool {shown(name)} is not on the allowlist.", "tool_not_allowed")
        if settings.mode != "native":
            message = f"The tool {shown(name)} is run by a provider: it is left out where tools go into the prompt."
            _log.warning("%s", message)
            warnings.append(message)
    return warnings


def _path(chat: ChatRequest, number: int, tool: Tool) -> str:
    """Where the client wrote the tool."""
    if chat.legacy:
        return f"functions[{number}]"
    for index in chat.provider:
        number += index <= number
    return f"tools[{number}].{'custom' if tool.name in chat.custom else 'function'}"


def _check_descriptions(tool: Tool, path: str) -> None:
    if not tool.description.strip():
        raise refusal(f"{path}.description", f"The tool {tool.name!r} has no description.", "invalid_tool_schema")
    scope = Scope(tool.parameters)
    for schema, place, _ in walk(tool.parameters, 0, deeper):
        for child in children(schema):
            if child.keyword == "properties" and not _is_described(child.schema, scope):
                message = f"The parameter {child.step!r} of the tool {tool.name!r} has no description."
                where = f"{path}.parameters{dotted(child.below(place))}"
                raise refusal(where, message, "invalid_tool_schema")


def _is_described(schema: Any, scope: Scope) -> bool:
    """Whether a property has a description: its own, or that of the definition which it refers to."""
    if not isinstance(schema, Mapping):
        return False
    for one in (schema, scope.find(schema.get("$ref"))):
        if isinstance(one, Mapping) and isinstance(said := one.get("description"), str) and said.strip():
            return True
    return False


def _check_strict_schema(tool: Tool, path: str) -> None:
    """OpenAI's rules for `strict: true`: all properties required, nothing else allowed, on all levels."""
    count = 0
    for schema, place, level in walk(tool.parameters, 1, _level):
        where = path + dotted(place)
        properties = schema.get("properties")
        if isinstance(properties, Mapping) or _may_be_object(schema):
            names = set(properties) if isinstance(properties, Mapping) else set()
            count += len(names)
            if schema.get("additionalProperties") is not False:
                raise _broken(tool, "additionalProperties must be false on all levels", f"{where}.additionalProperties")
            required = schema.get("required")
            missing = sorted(names - set(required if isinstance(required, list) else ()))
            if missing:
                raise _broken(tool, f"all properties must be required, {missing[0]!r} is not", f"{where}.required")
            if level > _MAX_LEVELS:
                raise _broken(tool, f"the schema is deeper than {_MAX_LEVELS} levels", where)
    if count > _MAX_PROPERTIES:
        raise _broken(tool, f"the schema has {count} properties, more than {_MAX_PROPERTIES}", path)


def _level(level: int, child: Child) -> int:
    return level + 1 if child.keyword == "properties" else level


def _may_be_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _broken(tool: Tool, what: str, path: str) -> ToolCallError:
    return refusal(path, f"The tool {tool.name!r} has strict: true: {what}.", "invalid_tool_schema")


def _check_forms(chat: ChatRequest) -> None:
    """Each tool says its type, and its parameters and theirs: OpenAI's server takes less, other APIs do not."""
    if chat.legacy or not chat.tools_raw:
        return
    for number, entry in enumerate(msgspec.json.decode(chat.tools_raw)):
        path = f"tools[{number}]"
        if entry.get("type") is None:
            raise refusal(f"{path}.type", "A tool needs 'type'; it must be 'function' or 'custom'.")
        if entry["type"] == "custom":
            continue
        parameters, where = entry["function"].get("parameters"), f"{path}.function.parameters"
        if parameters is None:
            raise refusal(where, "A tool needs 'parameters', a JSON Schema of an object.", "invalid_tool_schema")
        if parameters.get("type") != "object":
            text = "The schema of a tool's parameters must have 'type: \"object\"' at its root."
            raise refusal(f"{where}.type", text, "invalid_tool_schema")


def _check_roles(messages: list[dict[str, Any]]) -> None:
    """Check that only assistant messages have calls and only tool messages have results, which need content."""
    for number, message in enumerate(messages):
        role = message.get("role")
        for field, owner in (("tool_calls", "assistant"), ("tool_call_id", "tool")):
            if role != owner and message.get(field) is not None:
                text = f"'{field}' belongs into a message with role '{owner}', not '{role}'."
                raise refusal(f"messages[{number}].{field}", text)
        if role == "tool" and message.get("content") is None:
            text = "The 'content' of a message with role 'tool' must not be null."
            raise refusal(f"messages[{number}].content", text)


def _check_ids(messages: list[dict[str, Any]]) -> None:
    """Only ids of our own form. Results need no look: each has the id of a call."""
    for number, message in enumerate(messages):
        for position, call in enumerate(calls_of(message)):
            where = f"messages[{number}].tool_calls[{position}].id"
            if not _OWN_ID.fullmatch(call["id"]):
                text = f"The id {call['id'][:80]!r} does not have the form call_[a-zA-Z0-9]+."
                raise refusal(where, text, "invalid_tool_call_id")


def _check_results(messages: list[dict[str, Any]]) -> None:
    """Check that each call has exactly one result before the next message."""
    open_calls: dict[str, str] = {}
    seen: set[str] = set()
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            call_id = message["tool_call_id"]
            if call_id not in open_calls:
                text = f"The call {call_id[:80]!r} has been answered already, or is not one of the turn before."
                raise refusal(f"messages[{number}].tool_call_id", text, "invalid_tool_call_id")
            del open_calls[call_id]
            continue
        if open_calls:
            raise _unanswered(open_calls)
        for position, call in enumerate(calls_of(message)):
            where = f"messages[{number}].tool_calls[{position}].id"
            if call["id"] in seen:
                raise refusal(where, f"Two calls have the id {call['id'][:80]!r}.", "invalid_tool_call_id")
            seen.add(call["id"])
            open_calls[call["id"]] = where
    if open_calls:
        raise _unanswered(open_calls)


def _unanswered(open_calls: Mapping[str, str]) -> ToolCallError:
    call_id, path = next(iter(open_calls.items()))
    return refusal(path, f"The call {call_id[:80]!r} has no result.", "invalid_message_order")


_NOTE = (
    "[This call has now been made {count} times in a row with the same arguments and the same result. Do not make it"
    " again: use what you have, try something else, or answer.]"
)


def check_repeated_calls(chat: ChatRequest, limit: int) -> None:
    """Append a note to the last result where the model has made a call `limit` times in a row.

    Raises ToolCallError, with status 422, where it has made the call more often.
    """
    count, name = _repeated(chat.messages)
    if count > limit:
        text = (
            f"max_repeated_calls is {limit}: the model has called {shown(name)} {count} times in a row with the same"
            " arguments, and got the same result."
        )
        headers = {"x-should-retry": "false"}
        raise ToolCallError("limit_exceeded", text, param="messages", status=422, type="model_error", headers=headers)
    if count < limit:
        return
    place = next(at for at in range(len(chat.messages) - 1, -1, -1) if chat.messages[at]["role"] == "tool")
    last = chat.messages[place]
    chat.messages[place] = {**last, "content": _with_note(last.get("content"), _NOTE.format(count=count))}
    chat.fields["messages"] = msgspec.Raw(msgspec.json.encode(chat.messages))


def _repeated(messages: list[dict[str, Any]]) -> tuple[int, str]:
    """How often the newest call was made in a row; and its tool."""
    results: dict[str, list[Any]] = {}
    first: tuple[str, Any, Any] | None = None
    count = 0
    for message in reversed(messages):
        role = message["role"]
        if role == "user":
            break
        if role == "tool":
            results.setdefault(message["tool_call_id"], []).append(message.get("content"))
            continue
        for call in reversed(calls_of(message)):
            found = results.get(call["id"])
            if not found:
                return count, first[0] if first else ""
            function = call["function"]
            made = function["name"], _value(function["arguments"]), found.pop(0)
            first = first or made
            if made != first:
                return count, first[0]
            count += 1
    return count, first[0] if first else ""


def _value(arguments: str) -> Any:
    """Arguments without the way that they are spelled."""
    try:
        return msgspec.json.decode(arguments)
    except DECODE_ERRORS:
        return arguments


def _with_note(content: Any, note: str) -> Any:
    if isinstance(content, str):
        return f"{content}\n\n{note}"
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        return [*content, {"type": "text", "text": note}]
    return f"{msgspec.json.encode(content).decode()}\n\n{note}"
