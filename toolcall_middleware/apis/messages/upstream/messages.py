"""OpenAI messages as Anthropic's: a system text, and turns of user and assistant made of content blocks.

Anthropic's rules: the roles alternate and the user begins; a text block holds more than white space; the results of
all calls of a turn stand first in the next user turn; ids are unique and made of letters, digits, `_` and `-`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ....errors import ToolCallError, refusal
from ....wire.json_input import Reader
from ....wire.openai import encode
from ...upstream import NO_RESULT

Block = dict[str, Any]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_DATA_URL = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)(?:;[a-z0-9=._-]+)*;base64,", re.IGNORECASE)
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_BEGIN = "Begin."


@dataclass(slots=True)
class _Call:
    """A call of the history, in the message at `turn`. `sent` is its id for the provider."""

    turn: int
    sent: str
    name: str
    input: Any
    results: list[Reader] = field(default_factory=list)  # tool messages


@dataclass(slots=True)
class Conversation:
    """`system`: text blocks. `messages`: the turns. `tools_used`: names of calls, in order of their first.

    `thought`: whether the calls that wait for an answer, if any, come with the thinking before them.
    """

    system: list[Block]
    messages: list[dict[str, Any]]
    tools_used: list[str]
    thought: bool


def convert(request: Reader) -> Conversation:
    """The messages of a chat completion as Anthropic's. Raises ToolCallError for what cannot be said there."""
    messages = request.items("messages") if request.begins("messages", b"[") else []
    if not messages:
        raise ToolCallError("invalid_request", "messages must be a list that holds at least one message.")
    calls = _match_calls(messages)
    system: list[Block] = []
    turns = _Turns()
    for number, message in enumerate(messages):
        match message.value("role"):
            case "system" | "developer":
                system += _content(message, only_text=True)
            case "user":
                turns.add("user", _content(message))
            case "assistant":
                own = calls.get(number, [])
                turns.add("assistant", _assistant(message, own))
                turns.add("user", [_result(call) for call in own])
            case "tool":
                pass  # it is written where its call wants it
            case role:
                text = f"The role {role!r} cannot be sent to Anthropic's API; use system, user, assistant or tool."
                raise message.error("role", text)
    if not turns.done:
        # An instruction alone is no request there.
        turns.add("user", system)
        system = []
    if not turns.done:
        raise request.error("messages", "The messages hold no text and no calls.")
    used = list(dict.fromkeys(call.name for own in calls.values() for call in own))
    return Conversation(system, turns.finish(), used, turns.thought)


class _Turns:
    """The turns so far; neighbours of one role are one turn."""

    def __init__(self) -> None:
        self.done: list[tuple[str, list[Block]]] = []

    def add(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if self.done and self.done[-1][0] == role:
            self.done[-1][1].extend(blocks)
        else:
            self.done.append((role, blocks))

    @property
    def thought(self) -> bool:
        """Whether a turn that calls, and whose results come last, begins with its thinking."""
        last = [blocks for role, blocks in self.done if role == "assistant"][-1:]
        waiting = bool(self.done) and any(block["type"] == "tool_result" for block in self.done[-1][1])
        return not waiting or not last or "thinking" in last[0][0]["type"]

    def finish(self) -> list[dict[str, Any]]:
        role, blocks = self.done[-1]
        if role == "assistant" and blocks[-1]["type"] == "text":
            # The model is to go on from there, and the API refuses a beginning that ends in white space.
            blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
        if self.done[0][0] != "user":
            self.done.insert(0, ("user", [{"type": "text", "text": _BEGIN}]))
        return [{"role": role, "content": _shortest(blocks)} for role, blocks in self.done]


def _shortest(blocks: list[Block]) -> str | list[Block]:
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0].keys() == {"type", "text"} else blocks


# -- calls and results ---------------------------------------------------------------------------------------------


def _match_calls(messages: list[Reader]) -> dict[int, list[_Call]]:
    """The calls of each assistant message, by its place, each with the tool messages that answer it."""
    items = {number: _calls_in(message) for number, message in enumerate(messages) if message.fields.get("tool_calls")}
    calls: dict[int, list[_Call]] = {}
    by_id: dict[str, list[_Call]] = {}
    taken = {call_id for own in items.values() for call_id, _, _ in own if _ID.fullmatch(call_id)}
    sent: set[str] = set()
    for number, message in enumerate(messages):
        role = message.value("role")
        if role == "assistant":
            for call_id, name, given in items.get(number, ()):
                same = by_id.setdefault(call_id, [])
                call = _Call(number, _sendable(call_id, len(same), sent, taken), name, given)
                sent.add(call.sent)
                same.append(call)
                calls.setdefault(number, []).append(call)
        elif role == "tool":
            answered = by_id.get(str(message.value("tool_call_id"))) or []
            if not answered:
                call_id = message.value("tool_call_id")
                text = f"No earlier call has the id {call_id!r} that this tool message answers."
                raise message.error("tool_call_id", text, "invalid_tool_call_id")
            # Some engines number the calls of each turn alike: the last turn's are meant, in their order.
            waiting = [call for call in answered if not call.results] or answered
            next(call for call in waiting if call.turn == waiting[-1].turn).results.append(message)
    return calls


def _calls_in(message: Reader) -> list[tuple[str, str, Any]]:
    """The id, the name and the input of each call."""
    found: list[tuple[str, str, Any]] = []
    for item in message.items("tool_calls"):
        function = item.inner("function") or item.inner("custom")
        call_id, name = item.value("id"), function.value("name") if function is not None else None
        if function is None or not (isinstance(call_id, str) and call_id and isinstance(name, str) and name):
            raise refusal(item.path, "A tool call needs an id and the name of a function.")
        given = function.value("arguments")
        if item.given("function") is None:
            given = {"input": function.value("input") or ""}
        found.append((call_id, name, _input(given)))
    return found


def _sendable(call_id: str, times: int, sent: set[str], taken: set[str]) -> str:
    """An id that the API takes: the client's own if it can be, else one that the same request always gives."""
    if not times and _ID.fullmatch(call_id):
        return call_id
    for turn in range(times, times + 1000):
        digest = hashlib.sha256(f"{turn}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()
        derived = f"toolu_{digest[:24]}"
        if derived not in sent and derived not in taken:
            return derived
    raise AssertionError("a thousand hashes cannot all collide")


def _assistant(message: Reader, calls: list[_Call]) -> list[Block]:
    thinking = _thinking(message)
    blocks = [block for before, block in thinking if not before]
    blocks += _content(message, only_text=True)
    refused = message.value("refusal")
    if isinstance(refused, str) and refused.strip():
        blocks.append({"type": "text", "text": refused})
    for number, call in enumerate(calls):
        blocks += [block for before, block in thinking if number and before == number]
        blocks.append({"type": "tool_use", "id": call.sent, "name": call.name, "input": call.input})
    return blocks + [block for before, block in thinking if before and before >= len(calls)]


def _input(arguments: Any) -> Any:
    """A call's arguments as the object that the API wants, spelled as they are; what is none goes into one."""
    if isinstance(arguments, dict):
        return arguments
    text = arguments if isinstance(arguments, str) else ""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
        written = msgspec.Raw(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # A call that was cut off, for instance: the model is shown what it wrote.
        return {"arguments": text.encode("utf-8", "replace").decode()}
    return written if isinstance(value, dict) else {"arguments": value}


def _result(call: _Call) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call.sent}
    if not call.results:
        return {**block, "content": NO_RESULT, "is_error": True}
    content = [part for message in call.results for part in _result_content(message)]
    if content:
        block["content"] = _shortest(content)
    if any(message.value("is_error") is True for message in call.results):
        block["is_error"] = True
    return block


def _result_content(message: Reader) -> list[Block]:
    """A tool's result: text, parts, or any JSON value, which is shown as such."""
    value = message.value("content")
    if value is None or isinstance(value, str) or (isinstance(value, list) and value and all(map(_is_part, value))):
        return _content(message)
    return [{"type": "text", "text": encode(value).decode()}]


def _is_part(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in ("text", "image_url")


# -- content -------------------------------------------------------------------------------------------------------


def _content(message: Reader, *, only_text: bool = False) -> list[Block]:
    """Content as blocks; text of nothing but white space is left out, because the API refuses it."""
    if message.begins("content", b'"'):
        text = message.required("content")
        return [{"type": "text", "text": text}] if text.strip() else []
    blocks: list[Block] = []
    for part in message.items("content"):
        block = _part(part, only_text=only_text)
        if block is not None:
            blocks.append({**block, **_cache_control(part)})
    return blocks


def _cache_control(holder: Reader) -> dict[str, Any]:
    return {"cache_control": holder.fields["cache_control"]} if holder.begins("cache_control", b"{") else {}


def _part(part: Reader, *, only_text: bool) -> Block | None:
    match part.value("type"):
        case "text" | "refusal" as kind:
            text = part.required(kind)
            return {"type": "text", "text": text} if text.strip() else None
        case "image_url" if not only_text:
            return {"type": "image", "source": _image(part.value("image_url"), part.where("image_url"))}
        case "file" if not only_text:
            return _document(part.value("file"), part.where("file"))
        case kind:
            use = "text" if only_text else "text, image_url or a file with file_data"
            raise refusal(part.path, f"A part of type {kind!r} cannot be sent here to Anthropic's API; use {use}.")


def _image(value: Any, where: str) -> Block:
    url = value.get("url") if isinstance(value, dict) else value
    if isinstance(url, str) and url[:8].lower().startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    kind, data = _data_url(url)
    kind = "image/jpeg" if kind == "image/jpg" else kind
    if kind not in _IMAGES:
        allowed = ", ".join(sorted(_IMAGES))
        raise refusal(f"{where}.url", f"An image must be an http address or a base64 data URL of {allowed}.")
    return {"type": "base64", "media_type": kind, "data": data}


def _document(value: Any, where: str) -> Block:
    fields = value if isinstance(value, dict) else {}
    kind, data = _data_url(fields.get("file_data"))
    if kind != "application/pdf":
        message = "A file must hold file_data, a base64 data URL of application/pdf; the API knows no other file_id."
        raise refusal(where, message)
    block: Block = {"type": "document", "source": {"type": "base64", "media_type": kind, "data": data}}
    if isinstance(fields.get("filename"), str) and fields["filename"]:
        block["title"] = fields["filename"]
    return block


def _data_url(url: Any) -> tuple[str, str]:
    """(media type, base64 text) of a data URL; empty where it is none."""
    found = _DATA_URL.match(url[:200]) if isinstance(url, str) else None
    return (found[1].lower(), url[found.end() :]) if found else ("", "")


def _thinking(message: Reader) -> list[tuple[int, Block]]:
    """The model's thinking as it came with an answer of ours (`reasoning_details`), or as `thinking_blocks`.

    Each with the number of calls that stand before it. Only what is signed goes back: the API refuses the rest.
    """
    blocks: list[tuple[int, Block]] = []
    details = message.value("reasoning_details")
    for detail in details if isinstance(details, list) else ():
        before = detail.get("calls_before") if isinstance(detail, dict) else None
        before = before if isinstance(before, int) and before > 0 else 0
        match detail:
            case {"type": "reasoning.text", "text": str(text), "signature": str(signature)} if signature:
                blocks.append((before, {"type": "thinking", "thinking": text, "signature": signature}))
            case {"type": "reasoning.encrypted", "data": str(data)}:
                blocks.append((before, {"type": "redacted_thinking", "data": data}))
    if blocks:
        return blocks
    given = message.value("thinking_blocks")
    for block in given if isinstance(given, list) else ():
        match block:
            case {"type": "thinking", "thinking": str(text), "signature": str(signature)} if signature:
                blocks.append((0, {"type": "thinking", "thinking": text, "signature": signature}))
            case {"type": "redacted_thinking", "data": str(data)}:
                blocks.append((0, {"type": "redacted_thinking", "data": data}))
    return blocks
