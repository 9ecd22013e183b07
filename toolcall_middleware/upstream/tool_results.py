"""Tool results as content: what looks wrong with them, and how a backend that takes tools is given them.

OpenAI's API has no field for a failed call, and models take an error text for an answer. Clients may set `is_error`; of
results that only read like one, the client is warned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..request.messages import calls_of
from ..response.call_id_codec import read_id
from .history import cut_result, result_content

_LARGE = 64 * 1024
_LOOKED_AT = 2000
_ERROR = re.compile(
    r"\s*(?:(?-i:[A-Z][A-Za-z0-9_.]{0,60}(?:Error|Exception))\s*[:(\n]|(?:error|exception)\s*:"
    r"|(?:an |a fatal |fatal )?error (?:occurred|while)\b|failed to |traceback \(most recent call last\)"
    r"|\{\s*\"(?:error|exception)\"\s*:(?!\s*(?:null|false|\"\"|\[\]|\{\})))",
    re.IGNORECASE,
)
_FAILED = "Error: the call failed."
_EMPTY = frozenset({"", "{}", "[]", "null", '""'})


def result_warnings(messages: Sequence[dict[str, Any]], limit: int | None) -> list[str]:
    """What is odd about the results that the conversation ends with. `limit` is `max_result_bytes`."""
    last: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in reversed(messages):
        if message["role"] == "tool":
            last.append(message)
            continue
        if last:
            names = {call["id"]: call["function"]["name"] for call in calls_of(message)}
        break
    return [warning for message in reversed(last) if (warning := _warning(message, names, limit))]


def _warning(message: dict[str, Any], names: dict[str, str], limit: int | None) -> str:
    name = names.get(message["tool_call_id"], "a tool")
    text, media = result_content(message.get("content"))
    if message.get("is_error") is True:
        return ""
    if text.strip() in _EMPTY and not media:
        return f"the result of {name!r} is empty"
    size = len(text.encode())
    if limit is not None and size > limit:
        return f"max_result_bytes is {limit}: the result of {name!r} has {size} bytes and was cut off"
    if _ERROR.match(text[:_LOOKED_AT]):
        return f"the result of {name!r} reads like an error, and is_error is not set"
    return f"the result of {name!r} is very large, {size} bytes" if size > _LARGE else ""


def for_backend(
    messages: Sequence[dict[str, Any]], limit: int | None, *, own_ids: bool, knows_errors: bool = False
) -> list[dict[str, Any]] | None:
    """The messages for a backend that takes tools itself, or None where the client's are as good.

    Results that are JSON become text, longer ones than `limit` bytes are cut, and with `own_ids` the ids of calls that
    `write_id` made become the backend's. A failed call is told of in words, unless the backend's API has a field for it
    (`knows_errors`).
    """
    made = [_for_backend(message, limit, own_ids=own_ids, knows_errors=knows_errors) for message in messages]
    return made if any(new is not old for new, old in zip(made, messages, strict=True)) else None


def _for_backend(message: dict[str, Any], limit: int | None, *, own_ids: bool, knows_errors: bool) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    if message["role"] == "tool":
        content = message.get("content")
        text, media = result_content(content)
        parts = isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content)
        if not isinstance(content, str) and not (parts and content):
            changed["content"] = text
        if not media and (short := cut_result(text, limit)) != text:
            changed["content"] = short
        if "is_error" in message and not knows_errors:
            if message["is_error"] is True:
                changed["content"] = _told_as_error(changed.get("content", content))
            message = {key: value for key, value in message.items() if key != "is_error"}
            changed.setdefault("content", content)
        if own_ids and (own := read_id(message["tool_call_id"])) is not None:
            changed["tool_call_id"] = own
    elif own_ids and calls_of(message):
        calls = [_own_call(call) for call in message["tool_calls"]]
        if any(new is not old for new, old in zip(calls, message["tool_calls"], strict=True)):
            changed["tool_calls"] = calls
    return {**message, **changed} if changed else message


def _told_as_error(content: Any) -> Any:
    """The content of a failed call's result, text or parts, with words that say so; unless it begins with such."""
    if isinstance(content, list):
        texts = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
        return content if _ERROR.match(texts[:_LOOKED_AT]) else [{"type": "text", "text": _FAILED}, *content]
    return content if _ERROR.match(content[:_LOOKED_AT]) else f"{_FAILED}\n{content}"


def _own_call(call: dict[str, Any]) -> dict[str, Any]:
    own = read_id(call["id"])
    return call if own is None else {**call, "id": own}
