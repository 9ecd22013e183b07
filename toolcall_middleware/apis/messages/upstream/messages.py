"""OpenAI messages as Anthropic's: a system text, and turns of user and assistant made of content blocks.

Anthropic's rules: the roles alternate and the user begins; a text block holds more than white space; the results of
all calls of a turn come first in the next user turn; ids are unique and made of letters, digits, `_` and `-`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ....errors import ToolCallError, refusal
from ....errors import kind as kind_of
from ....wire.openai import encode
from ...foreign_call_ids import CLAUDE, unique
from ...turns import NO_RESULT, Call, Turn, data_url, read_turns

Block = dict[str, Any]

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_BEGIN = "Begin."


@dataclass(slots=True)
class Conversation:
    """`system`: text blocks. `messages`: the turns. `tools_used`: names of calls, in order of their first.

    `thought`: whether the calls that wait for an answer, if any, come with the thinking before them.
    """

    system: list[Block]
    messages: list[dict[str, Any]]
    tools_used: list[str]
    thought: bool


def convert(messages: Any) -> Conversation:
    """The messages of a chat completion as Anthropic's. Raises ToolCallError for what cannot be said there."""
    if not isinstance(messages, list) or not messages:
        raise ToolCallError("invalid_request", "messages must be a list that holds at least one message.")
    found = read_turns(messages)
    ids = iter(unique((call.id for turn in found for call in turn.calls), CLAUDE))
    system: list[Block] = []
    turns = _Turns()
    for turn in found:
        match turn.role:
            case "user":
                turns.add("user", _content(turn))
            case "assistant":
                sent = [_checked(call, next(ids)) for call in turn.calls]
                turns.add("assistant", _assistant(turn, sent))
                turns.add("user", [_result(call, own) for call, own in zip(turn.calls, sent, strict=True)])
            case _:
                system += _content(turn, only_text=True)
    if not turns.done:
        # The API refuses a request that holds only an instruction.
        turns.add("user", system)
        system = []
    if not turns.done:
        raise refusal("messages", "The messages hold no text and no calls.")
    used = list(dict.fromkeys(call.name for turn in found for call in turn.calls))
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


def _checked(call: Call, own: str) -> str:
    if not call.id:
        raise refusal(call.path, "A tool call needs an id.")
    return own


def _assistant(turn: Turn, sent: list[str]) -> list[Block]:
    """sent: the ids of its calls for the provider."""
    thinking = _thinking(turn.message)
    blocks = [block for before, block in thinking if not before]
    blocks += _content(turn, only_text=True)
    refused = turn.message.get("refusal")
    if isinstance(refused, str) and refused.strip():
        blocks.append({"type": "text", "text": refused})
    for number, (call, own) in enumerate(zip(turn.calls, sent, strict=True)):
        blocks += [block for before, block in thinking if number and before == number]
        blocks.append({"type": "tool_use", "id": own, "name": call.name, "input": _input(call.arguments)})
    return blocks + [block for before, block in thinking if before and before >= len(sent)]


def _input(arguments: Any) -> Any:
    """A call's arguments as the object that the API wants, in their spelling. Other values are put into an object."""
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


def _result(call: Call, own: str) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": own}
    if not call.results:
        return {**block, "content": NO_RESULT, "is_error": True}
    content = [part for result in call.results for part in _result_content(result)]
    if content:
        block["content"] = _shortest(content)
    if any(result.is_error for result in call.results):
        block["is_error"] = True
    return block


def _result_content(result: Turn) -> list[Block]:
    """A tool's result: text, parts, or any JSON value, which is shown as such."""
    value = result.message.get("content")
    if value is None or isinstance(value, str) or (isinstance(value, list) and value and all(map(_is_part, value))):
        return _content(result)
    return [{"type": "text", "text": encode(value).decode()}]


def _is_part(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in ("text", "image_url")


# -- content -------------------------------------------------------------------------------------------------------


def _content(turn: Turn, *, only_text: bool = False) -> list[Block]:
    """Content as blocks; text of nothing but white space is left out, because the API refuses it."""
    blocks: list[Block] = []
    for part, path in turn.parts():
        if not isinstance(part, dict):
            raise refusal(path, f"An item of this list must be an object, got {kind_of(part)}.")
        block = _part(part, path, only_text=only_text)
        if block is not None:
            mark = part.get("cache_control")
            blocks.append({**block, "cache_control": mark} if isinstance(mark, dict) else block)
    return blocks


def _part(part: dict[str, Any], path: str, *, only_text: bool) -> Block | None:
    match part.get("type"):
        case "text" | "refusal" as kind:
            text = part.get(kind)
            if not isinstance(text, str):
                raise refusal(f"{path}.{kind}", f"'{kind}' must be a string, got {kind_of(text)}.")
            return {"type": "text", "text": text} if text.strip() else None
        case "image_url" if not only_text:
            return {"type": "image", "source": _image(part.get("image_url"), f"{path}.image_url")}
        case "file" if not only_text:
            return _document(part.get("file"), f"{path}.file")
        case kind:
            use = "text" if only_text else "text, image_url or a file with file_data"
            raise refusal(path, f"A part of type {kind!r} cannot be sent here to Anthropic's API; use {use}.")


def _image(value: Any, where: str) -> Block:
    url = value.get("url") if isinstance(value, dict) else value
    if isinstance(url, str) and url[:8].lower().startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    kind, data = (data_url(url) if isinstance(url, str) else None) or ("", "")
    kind = "image/jpeg" if kind == "image/jpg" else kind
    if kind not in _IMAGES:
        allowed = ", ".join(sorted(_IMAGES))
        raise refusal(f"{where}.url", f"An image must be an http address or a base64 data URL of {allowed}.")
    return {"type": "base64", "media_type": kind, "data": data}


def _document(value: Any, where: str) -> Block:
    fields = value if isinstance(value, dict) else {}
    url = fields.get("file_data")
    kind, data = (data_url(url) if isinstance(url, str) else None) or ("", "")
    if kind != "application/pdf":
        message = "A file must hold file_data, a base64 data URL of application/pdf; the API knows no other file_id."
        raise refusal(where, message)
    block: Block = {"type": "document", "source": {"type": "base64", "media_type": kind, "data": data}}
    if isinstance(fields.get("filename"), str) and fields["filename"]:
        block["title"] = fields["filename"]
    return block


def _thinking(message: dict[str, Any]) -> list[tuple[int, Block]]:
    """The model's thinking as it came with an answer of ours (`reasoning_details`), or as `thinking_blocks`.

    Each has the number of calls before it. Only signed thinking is sent back: the API refuses the rest.
    """
    blocks: list[tuple[int, Block]] = []
    details = message.get("reasoning_details")
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
    given = message.get("thinking_blocks")
    for block in given if isinstance(given, list) else ():
        match block:
            case {"type": "thinking", "thinking": str(text), "signature": str(signature)} if signature:
                blocks.append((0, {"type": "thinking", "thinking": text, "signature": signature}))
            case {"type": "redacted_thinking", "data": str(data)}:
                blocks.append((0, {"type": "redacted_thinking", "data": data}))
    return blocks
