"""A conversation for a text backend: calls and results become text, and other messages fit chat templates.

A turn is a run of assistant messages and all that follows before the next run. Its results go into one message right
after it, in the order of its calls. The functions here take messages that `read_history` has checked. They change none
of them: a message that differs is a new object.

The reasoning of earlier turns is written in the tags of the model's family, before the text of its turn. A client sends
it as `reasoning` or `reasoning_content`, which text backends do not know, or as parts of the content. It is left out if
the family does not take it, or not from turns that long ago.

OpenAI's API has no field for a failed call, and models take an error text for an answer. Clients may set `is_error`.
The client is warned of results that only read like an error.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from ..formats.prompt.escaping import RepeatedResults, neutralise_names
from ..formats.prompt.thoughts import Returned, Thoughts
from ..formats.registry import returned
from ..model import ToolCall, ToolResult
from ..request.messages import calls_of
from ..response.call_id_codec import read_id
from ..wire.openai import thought_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ..formats.base import ToolFormat

Message = dict[str, Any]
Parts = list[dict[str, Any]]

USER = "Continue."
NO_RESULT = "(no result was returned for this call)"

_SYSTEM_ROLES = frozenset({"system", "developer"})
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})


def plain(
    messages: Sequence[Message],
    fmt: ToolFormat,
    *,
    max_result_bytes: int | None,
    offered: Collection[str],
    thoughts: Thoughts,
    model: str,
) -> tuple[str, list[Message]]:
    """The system texts, joined, and the other messages: `role` and `content` only, no two neighbours of one role.

    offered: the names of tools that no result may call. thoughts: how the reasoning of earlier turns is written.
    """
    system: list[str] = []
    rest: list[Message] = []
    run: list[str | Parts] = []  # the contents of neighbours of one role
    unwanted, left_out = _turns_without_thought(messages, returned(thoughts, model)), 0
    for message in without_calls(messages, fmt, max_result_bytes=max_result_bytes, offered=offered):
        role, content = message["role"], plain_content(message)
        if role == "assistant":
            thought = _missing_thought(message, content, thoughts)
            if unwanted > 0 and thought:
                thought, left_out = "", left_out + 1
            unwanted -= 1
            content = _with_thought(content, thought, thoughts)
        if role in _SYSTEM_ROLES:
            system.append(content if isinstance(content, str) else _only_text(content))
        elif rest and rest[-1]["role"] == role:
            run.append(content)
        else:
            _close(rest, run)
            run = [content]
            rest.append({"role": role, "content": content})
    _close(rest, run)
    if left_out:
        _log.debug("The reasoning of %d earlier turns is left out, as the model wants it.", left_out)
    return joined(system), rest


def _turns_without_thought(messages: Sequence[Message], wanted: Returned) -> int:
    """The number of assistant messages at the beginning whose reasoning the model does not read again."""
    roles = [message["role"] for message in messages]
    if wanted is Returned.TURN and "user" in roles:
        last = len(roles) - 1 - roles[::-1].index("user")
        return roles[:last].count("assistant")
    return len(roles) if wanted is Returned.NONE else 0


def _first_text(content: str | Parts) -> str | None:
    """The text that a content begins with; None if it begins with a part that is not text."""
    return content if isinstance(content, str) else _part_text(content[0])


def _missing_thought(message: Message, content: str | Parts, thoughts: Thoughts) -> str:
    """The reasoning of an assistant's message; empty if its content begins with that already."""
    begins = (_first_text(content) or "").lstrip().startswith(thoughts.tags.opening)
    return "" if begins else reasoning_of(message)


def _with_thought(content: str | Parts, thought: str, thoughts: Thoughts) -> str | Parts:
    """An assistant's content with its reasoning, if any, before it."""
    first = _first_text(content)
    text = thoughts.written(thought, first or "") if thought else first
    if isinstance(content, str) or text is None:
        return text or content
    return [_text_part(text), *content[first is not None :]]


def _close(messages: list[Message], run: list[str | Parts]) -> None:
    """Give the last of `messages` the joined contents of its run. Joining them one by one would take quadratic time."""
    if len(run) > 1:
        messages[-1]["content"] = appended(*run)


def without_calls(
    messages: Sequence[Message], fmt: ToolFormat, *, max_result_bytes: int | None, offered: Collection[str]
) -> list[Message]:
    """The messages with calls and results as text. The others are the same objects, in the same order.

    offered: as for `plain`.
    """
    out: list[Message] = []
    turns = _turns(messages)
    answered = {message["tool_call_id"] for turn in turns for message in turn.results}
    names: dict[str, str] = {}
    count = 0
    is_call = RepeatedResults(fmt, offered).is_call
    for turn in turns:
        calls: list[ToolCall] = []
        for message in turn.assistant:
            own = [_call(call, number) for number, call in enumerate(message.get("tool_calls") or (), count)]
            calls += own
            count += len(own)
            out.append(_with_text_calls(message, fmt.render_calls(own)) if own else message)
        names.update((call.id, call.name) for call in calls if call.id is not None)
        # Calls at the very end are not answered yet. Earlier calls without a result never will be.
        never = {call.id for call in calls} - answered if turn.results or turn.others else set()
        results, media = _paired(calls, turn.results, names, never, max_result_bytes)
        if results:
            harmless = [replace(one, content=neutralise_names(one.content, offered, is_call)) for one in results]
            text = fmt.render_results(harmless)
            out.append({"role": "user", "content": [_text_part(text), *media] if media else text})
        out += turn.others
    return out


def with_user(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages, with a short user message before the first turn if the conversation holds no text of the user.

    Some chat templates refuse a conversation without a user's words, and do not count results as such.
    """
    if any(message["role"] == "user" for message in messages):
        return messages
    at = next((at for at, message in enumerate(messages) if message["role"] not in _SYSTEM_ROLES), len(messages))
    return [*messages[:at], {"role": "user", "content": USER}, *messages[at:]]


def joined(texts: Iterable[str]) -> str:
    """The texts that are not blank, a blank line between two."""
    return "\n\n".join(text for text in texts if text and not text.isspace())


def appended(*contents: str | Parts) -> str | Parts:
    """Several contents as one: strings joined by blank lines; from the first list of parts on, a list of parts."""
    texts = list(itertools.takewhile(lambda content: isinstance(content, str), contents))
    front = texts[0] if len(texts) == 1 else joined(text for text in texts if isinstance(text, str))
    if len(texts) == len(contents):
        return front
    return [part for content in (front, *contents[len(texts) :]) for part in _as_parts(content)]


@dataclass(slots=True)
class _Turn:
    """Assistant messages (none before the first), then the results and the other messages up to the next turn."""

    assistant: list[Message] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    others: list[Message] = field(default_factory=list)


def _turns(messages: Sequence[Message]) -> list[_Turn]:
    turn = _Turn()
    turns = [turn]
    for message in messages:
        match message["role"]:
            case "assistant":
                if turn.results or turn.others:
                    turn = _Turn()
                    turns.append(turn)
                turn.assistant.append(message)
            case "tool":
                turn.results.append(message)
            case _:
                turn.others.append(message)
    return turns


def _call(call: dict[str, Any], number: int) -> ToolCall:
    function = call["function"]
    return ToolCall(function["name"], function["arguments"], call["id"], number)


def _with_text_calls(message: Message, calls: str) -> Message:
    kept = {key: value for key, value in message.items() if key not in {"tool_calls", "function_call", "content"}}
    content = _content(message.get("content"))
    if isinstance(content, str):
        # One line break, as the models' own templates have it: the text and the calls were one answer.
        return {**kept, "content": f"{content}\n{calls}" if content.strip() else calls}
    return {**kept, "content": [*content, _text_part(calls)]}


def _paired(
    calls: list[ToolCall], messages: list[Message], names: dict[str, str], never: set[str | None], limit: int | None
) -> tuple[list[ToolResult], Parts]:
    """The turn's results in the order of its calls, then those of earlier calls; and the images and the like in them.

    never: ids of calls that no result of the conversation answers. A text in the prompt says so.
    """
    by_id: dict[str | None, deque[Message]] = {}
    for message in messages:
        by_id.setdefault(message["tool_call_id"], deque()).append(message)
    results: list[ToolResult] = []
    media: Parts = []

    def add(message: Message, name: str) -> None:
        text, other = result_content(message.get("content"))
        error = message.get("is_error") is True
        results.append(ToolResult(name, cut_result(text, limit), message["tool_call_id"], error))
        media.extend(other)

    for call in calls:
        if queue := by_id.get(call.id):
            add(queue.popleft(), call.name)
        elif call.id in never:
            results.append(ToolResult(call.name, NO_RESULT, call.id))
    for id_, queue in by_id.items():
        for message in queue:
            add(message, names.get(id_ or "", "unknown"))
    return results, media


def result_content(content: Any) -> tuple[str, Parts]:
    """A result's text, and its parts that are not text. Any JSON value may be a result."""
    if isinstance(content, str):
        return content, []
    if not isinstance(content, list) or not content:
        return _json(content), []
    media = [part for part in content if _is_media(part)]
    texts = [text for part in content if (text := _part_text(part)) is not None]
    return ("\n".join(texts), media) if len(texts) + len(media) == len(content) else (_json(content), [])


def _is_media(value: Any) -> bool:
    """Whether it is a part such as `{"type": "image_url", "image_url": {…}}`: its type names its field."""
    return isinstance(value, dict) and isinstance(kind := value.get("type"), str) and isinstance(value.get(kind), dict)


def _part_text(part: Any) -> str | None:
    """The text of a text part; None for any other part."""
    match part:
        case {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": str(kind), "text": str(text)} if kind in _TEXT_TYPES:
            return text
    return None


def cut_result(text: str, limit: int | None) -> str:
    """At most `limit` bytes of UTF-8, cut at the end of a line where one is near, and a notice of what is missing."""
    if limit is None or len(text) * 4 <= limit:
        return text
    whole = text.encode()
    if len(whole) <= limit:
        return text
    head = whole[:limit].decode(errors="ignore")
    line_end = head.rfind("\n") + 1
    if line_end > len(head) // 2:
        head = head[:line_end]
    notice = f"[{len(whole) - len(head.encode())} bytes of this result were cut off here]"
    return f"{head}{notice}" if not head or head.endswith("\n") else f"{head}\n{notice}"


def plain_content(message: Message) -> str | Parts:
    """A message's content as text, or as parts if some are not text."""
    content = message.get("content")
    if message["role"] == "assistant":
        if not content and isinstance(refusal := message.get("refusal"), str):
            return refusal
        if isinstance(content, list):
            content = [part for part in content if part.get("type") not in _REASONING_TYPES]
    return _content(content)


def _content(content: Any) -> str | Parts:
    """A content as text, or as parts if some are not text."""
    if not isinstance(content, list):
        return content or ""
    return _only_text(content) if all(_part_text(part) is not None for part in content) else content


def _only_text(parts: Parts) -> str:
    texts = [text if (text := _part_text(part)) is not None else _json(part) for part in parts]
    return "\n".join(text for text in texts if text)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _as_parts(content: str | Parts) -> Parts:
    if isinstance(content, str):
        return [_text_part(content)] if content else []
    return content


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_log = logging.getLogger("toolcall_middleware")
_FIELDS = ("reasoning_content", "reasoning")


def reasoning_of(message: Message) -> str:
    """The reasoning of a message, in any of the forms that clients use."""
    for name in _FIELDS:
        if isinstance(said := message.get(name), str) and said.strip():
            return said
    for holder, read in (("content", thought_in), ("reasoning_details", _text_in)):
        parts = message.get(holder)
        if isinstance(parts, list) and (said := "\n".join(filter(None, map(read, parts)))):
            return said
    return ""


def _text_in(detail: Any) -> str:
    match detail:
        case {"type": "reasoning.text", "text": str(text)}:
            return text
    return ""


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
    """Warnings about the results at the end of the conversation. `limit` is `max_result_bytes`."""
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
    """The messages for a backend that takes tools, or None if the client's need no change.

    JSON results become text, and results are cut at `limit` bytes. With `own_ids`, ids of calls that `write_id` made
    become the backend's. The result of a failed call says so in words, unless the backend's API has a field for it
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
                changed["content"] = _marked_as_error(changed.get("content", content))
            message = {key: value for key, value in message.items() if key != "is_error"}
            changed.setdefault("content", content)
        if own_ids and (own := read_id(message["tool_call_id"])) is not None:
            changed["tool_call_id"] = own
    elif own_ids and calls_of(message):
        written = [(call, read_id(call["id"])) for call in message["tool_calls"]]
        if any(own is not None for _, own in written):
            changed["tool_calls"] = [call if own is None else {**call, "id": own} for call, own in written]
    return {**message, **changed} if changed else message


def text_of(content: Any) -> str:
    """The text of a content, with its parts joined; empty if it is neither a string nor parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _marked_as_error(content: Any) -> Any:
    """The content of a failed call's result, text or parts, with a prefix that says so unless it has one."""
    if _ERROR.match(text_of(content)[:_LOOKED_AT]):
        return content
    return [_text_part(_FAILED), *content] if isinstance(content, list) else f"{_FAILED}\n{content}"
