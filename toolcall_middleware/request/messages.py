"""The messages of a request: roles, contents, and which result answers which call.

The output is the client's messages, decoded. Five variants are normalised, so that later stages see one form: the
deprecated `function_call` and role `function`, custom calls, arguments that came as an object, calls without an id, and
results that name their call in `id`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import kind, refusal, shown
from ..wire.json_input import DECODE_ERRORS, LARGE, decode, written_arguments

MAX_NESTING = 200
"""The most levels of JSON in messages, so that they can be encoded again at any depth of the stack."""

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])


def read_history(raw: bytes, *, max_rounds: int | None, max_messages: int | None) -> History:
    """The value of `messages`, decoded and checked. Raises ToolCallError with a `param` such as `messages[2].content`.

    `max_rounds` is the largest number of assistant turns with calls, `max_messages` that of messages.
    """
    messages = _decoded(raw)
    if not isinstance(messages, list):
        raise refusal("messages", f"'messages' must be an array, got {kind(messages)}.")
    if not messages:
        raise refusal("messages", "'messages' must hold at least one message.")
    if max_messages is not None and len(messages) > max_messages:
        text = f"max_messages is {max_messages}: the request has {len(messages)} messages."
        raise refusal("messages", text, "limit_exceeded")
    history = History()
    for index, message in enumerate(messages):
        history.add(message, f"messages[{index}]", index)
    if max_rounds is not None and history.rounds > max_rounds:
        text = (
            f"max_tool_rounds is {max_rounds}: the conversation has {history.rounds} turns with tool calls, the last of"
            f" them of {shown(history.last_name)}."
        )
        raise refusal("messages", text, "limit_exceeded")
    return history


def _decoded(raw: bytes) -> Any:
    """The value of `messages`. A large one is decoded message by message: other threads get their turns in between."""
    if len(raw) > LARGE:
        try:
            return [_one_decoded(bytes(each), MAX_NESTING - 1) for each in _RAWS.decode(raw)]
        except DECODE_ERRORS:
            pass  # said below, of the whole
    return _one_decoded(raw, MAX_NESTING)


def _one_decoded(raw: bytes, most: int) -> Any:
    value = decode(raw, "messages")
    if raw.count(b"[") + raw.count(b"{") > most and _is_deeper(value, most):
        raise refusal("messages", f"The messages are nested deeper than {MAX_NESTING} levels.")
    return value


def _is_deeper(value: Any, most: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of a message; those of an assistant alone are read."""
    return message.get("tool_calls") or [] if message.get("role") == "assistant" else []


class History:
    """Takes the messages in turn.

    `is_rewritten`: a call or a result in them is not as the client sent it.
    `messages`: as the later stages see them. `rounds`: assistant turns with calls. `deprecated`: the path of the first
    message of the deprecated functions API, or empty.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.rounds = 0
        self.deprecated = ""
        self.is_rewritten = False
        self._ids: set[str] = set()
        self._legacy: list[tuple[str, str]] = []  # (name, id) of each function_call without a result yet

    @property
    def last_name(self) -> str:
        """The tool of the last call."""
        calls = (message["tool_calls"] for message in reversed(self.messages) if calls_of(message))
        name: str = next(calls)[-1]["function"]["name"]
        return name

    def add(self, message: Any, param: str, index: int) -> None:
        if not isinstance(message, dict):
            raise refusal(param, f"A message must be an object, got {kind(message)}.")
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            raise refusal(f"{param}.role", f"A message's role must be one of {_ROLE_NAMES}; got {shown(role)}.")
        match role:
            case "tool":
                message = self._tool(message, param)
            case "function":
                message = self._function(message, param, index)
            case "assistant":
                _check_content(message, param)
                message = self._assistant(message, param, index)
            case _:
                _check_content(message, param)
        self.messages.append(message)

    def _tool(self, message: dict[str, Any], param: str) -> dict[str, Any]:
        named = message.get("id")
        if message.get("tool_call_id") is None and isinstance(named, str) and named in self._ids:
            message = {**_without(message, "id"), "tool_call_id": named}  # as Qwen-Agent and DashScope spell it
            self.is_rewritten = True
        call_id, where = message.get("tool_call_id"), f"{param}.tool_call_id"
        if not self.rounds:
            text = "A message with role 'tool' must follow an assistant message with 'tool_calls'."
            raise refusal(f"{param}.role", text, "invalid_message_order")
        if call_id is not None and not isinstance(call_id, str):
            raise refusal(where, f"'tool_call_id' must be a string, got {kind(call_id)}.")
        if not call_id:
            text = "A message with role 'tool' needs the 'tool_call_id' of the call that it answers."
            raise refusal(where, text, "invalid_tool_call_id")
        if call_id not in self._ids:
            text = f"No earlier assistant message has a tool call with the id {shown(call_id)}."
            raise refusal(where, text, "invalid_tool_call_id")
        if "content" not in message:
            raise refusal(f"{param}.content", "A message with role 'tool' needs 'content'.")
        if not isinstance(message.get("is_error"), bool | None):
            raise refusal(f"{param}.is_error", f"'is_error' must be a boolean, got {kind(message['is_error'])}.")
        return message

    def _function(self, message: dict[str, Any], param: str, index: int) -> dict[str, Any]:
        self.deprecated = self.deprecated or f"{param}.role"
        name = _name_of(message, param)
        call_id = next((open_id for open_name, open_id in self._legacy if open_name == name), None)
        if call_id is None:
            # OpenAI takes a result without the call; the later stages want a pair.
            call_id = self._new_id(f"call_function{index}")
            self.rounds += 1
            self.messages.append({"role": "assistant", "content": None, "tool_calls": [_call(call_id, name, "{}")]})
        else:
            self._legacy.remove((name, call_id))
        content = message.get("content")
        return {**message, "role": "tool", "tool_call_id": call_id, "content": "" if content is None else content}

    def _assistant(self, message: dict[str, Any], param: str, index: int) -> dict[str, Any]:
        calls, legacy = message.get("tool_calls"), message.get("function_call")
        if calls is not None and not isinstance(calls, list):
            raise refusal(f"{param}.tool_calls", f"'tool_calls' must be an array, got {kind(calls)}.")
        if calls:
            read = [self._read_call(c, f"{param}.tool_calls[{i}]", f"{index}x{i}") for i, c in enumerate(calls)]
            self.rounds += 1
            return {**message, "tool_calls": read}
        if legacy is None:
            return message
        where = f"{param}.function_call"
        if not isinstance(legacy, dict):
            raise refusal(where, f"'function_call' must be an object, got {kind(legacy)}.")
        self.deprecated = self.deprecated or where
        name, arguments = _name_of(legacy, where), _arguments_of(legacy, where)
        call_id = self._new_id(f"call_function{index}")
        self._legacy.append((name, call_id))
        self.rounds += 1
        kept = {field: value for field, value in message.items() if field != "function_call"}
        return {**kept, "content": message.get("content"), "tool_calls": [_call(call_id, name, arguments)]}

    def _read_call(self, call: Any, param: str, place: str) -> dict[str, Any]:
        if not isinstance(call, dict):
            raise refusal(param, f"A tool call must be an object, got {kind(call)}.")
        call_id, variant = call.get("id"), call.get("type")
        if call_id is not None and not isinstance(call_id, str):
            raise refusal(f"{param}.id", f"A call's id must be a string, got {kind(call_id)}.")
        if not call_id:  # no result can refer to it
            call = {**call, "id": (call_id := self._new_id(f"call_{place}"))}
            self.is_rewritten = True
        self._ids.add(call_id)
        if variant == "custom":
            return {**_without(call, "custom"), **_custom_call(call, call_id, param)}
        if variant not in (None, "function"):
            message = f"A call's type must be 'function' or 'custom', got {shown(variant)}."
            raise refusal(f"{param}.type", message)
        function, where = call.get("function"), f"{param}.function"
        if not isinstance(function, dict):
            raise refusal(where, f"'function' must be an object, got {kind(function)}.")
        _name_of(function, where)
        arguments = _arguments_of(function, where)
        if function.get("arguments") is arguments and variant is not None:
            return dict(call)
        self.is_rewritten = True
        return {**call, "type": "function", "function": {**function, "arguments": arguments}}

    def _new_id(self, call_id: str) -> str:
        """An id that is new in the conversation and the same at each turn, so that the prompt stays the same."""
        while call_id in self._ids:
            call_id += "0"
        self._ids.add(call_id)
        return call_id


_ROLE_NAMES = ", ".join(sorted(_ROLES))


def _check_content(message: dict[str, Any], param: str) -> None:
    content, where = message.get("content"), f"{param}.content"
    if isinstance(content, list):
        for index, part in enumerate(content):
            if not isinstance(part, dict):
                raise refusal(f"{where}[{index}]", f"A part of the content must be an object, got {kind(part)}.")
            variant = part.get("type")
            if not isinstance(variant, str):
                raise refusal(f"{where}[{index}].type", f"A part's type must be a string, got {kind(variant)}.")
            if variant in _TEXT_PARTS and not isinstance(part.get(variant), str):
                text = f"A part of type {variant} needs '{variant}', a string; got {kind(part.get(variant))}."
                raise refusal(f"{where}[{index}].{variant}", text)
    elif content is not None and not isinstance(content, str):
        raise refusal(where, f"'content' must be a string, an array of parts or null, got {kind(content)}.")


_TEXT_PARTS = frozenset({"text", "refusal"})


def _name_of(holder: dict[str, Any], param: str) -> str:
    name = holder.get("name")
    if not isinstance(name, str) or not name:
        raise refusal(f"{param}.name", f"'name' must be a string that is not empty, got {shown(name)}.")
    return name


def _arguments_of(function: dict[str, Any], param: str) -> str:
    """The arguments as JSON text. Some clients send the object itself, or nothing where there are none."""
    arguments = function.get("arguments")
    match arguments:
        case str():
            return arguments
        case dict():
            return written_arguments(arguments, f"{param}.arguments")
        case None:
            return "{}"
    raise refusal(f"{param}.arguments", f"'arguments' must be a string, got {kind(arguments)}.")


def _custom_call(call: dict[str, Any], call_id: str, param: str) -> dict[str, Any]:
    custom, where = call.get("custom"), f"{param}.custom"
    if not isinstance(custom, dict):
        raise refusal(where, f"'custom' must be an object, got {kind(custom)}.")
    text = custom.get("input")
    if not isinstance(text, str):
        raise refusal(f"{where}.input", f"'input' must be a string, got {kind(text)}.")
    return _call(call_id, _name_of(custom, where), written_arguments({"input": text}, f"{where}.input"))


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _without(holder: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: value for key, value in holder.items() if key != field}
