"""A model that makes the same call again and again and gets the same result: it is told, and then it is ended.

Counted are the calls since the last message of the user, from the newest back, as long as name, arguments and result
are the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import ToolCallError, shown
from ..wire.json_input import DECODE_ERRORS
from .messages import calls_of
from .parse import ChatRequest

_NOTE = (
    "[This call has now been made {count} times in a row with the same arguments and the same result. Do not make it"
    " again: use what you have, try something else, or answer.]"
)


def check_repeated_calls(chat: ChatRequest, limit: int) -> None:
    """Tell the model behind the last result where a call has been made `limit` times in a row.

    Raises ToolCallError, with status 422, where it has been made more often.
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
    told = chat.messages[place]
    chat.messages[place] = {**told, "content": _with_note(told.get("content"), _NOTE.format(count=count))}
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
