"""Messages as Google's `contents`: roles, parts, calls and their results.

A call and its result find each other by the function's name and their order, and by id where Google gave one. The ids
that are made for a client (`call_` and 24 characters) mean nothing to Google and are not sent.

A thought signature travels with the client, in `extra_content.google.thought_signature` of a call or a message, as in
Google's own OpenAI layer. For a client that drops unknown fields, and for calls of another model, the value stands in
that Google documents for this: newer models refuse a call without any.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import ToolCallError, refusal
from ...wire import openai
from ..upstream import NO_RESULT

NO_SIGNATURE = "skip_thought_signature_validator"


_OUR_ID = re.compile(r"call_[A-Za-z0-9]{24}")
_ID = re.compile(r"[\x21-\x7e]{1,256}")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)((?:;[\w.+-]+=[^;,]*)*)(;base64)?,", re.IGNORECASE)
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mp3", "flac": "audio/flac", "ogg": "audio/ogg", "aac": "audio/aac"}
_TYPES = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif",
    "heic": "image/heic", "heif": "image/heif", "bmp": "image/bmp", "pdf": "application/pdf", "mp4": "video/mp4",
}  # fmt: skip
_EXTENSION = re.compile(r"\.([A-Za-z0-9]{1,5})(?:[?#]|$)")


@dataclass(slots=True)
class _Call:
    """A call of the history, and what has come back for it."""

    id: str
    name: str
    results: list[dict[str, Any]] = field(default_factory=list)  # functionResponses


def contents_of(messages: Any, *, sign: bool) -> dict[str, Any]:
    """`contents` and, where there are system messages, `systemInstruction`.

    sign: the first call of each turn gets a signature in any case. Raises ToolCallError.
    """
    if not isinstance(messages, list) or not messages:
        raise ToolCallError("invalid_request", "'messages' must be an array that is not empty.", param="messages")
    reader = _Reader(sign=sign)
    for index, message in enumerate(messages):
        reader.add(message, f"messages[{index}]")
    return reader.body()


class _Reader:
    """Takes the messages in turn."""

    def __init__(self, *, sign: bool) -> None:
        self._sign = sign
        self._system: list[dict[str, Any]] = []
        self._contents: list[dict[str, Any]] = []
        self._turns: list[tuple[dict[str, Any], list[_Call]]] = []  # each with the content that its results go into
        # By id: the calls of the last turn that has it, which wait for a result; and the one that got the last.
        self._waiting: dict[str, deque[_Call]] = {}
        self._answered: dict[str, _Call] = {}
        self._alone = False  # nothing may be added to the last content

    def body(self) -> dict[str, Any]:
        """The fields of the request."""
        for place, calls in self._turns:
            # In the order of the calls: that is how they are matched.
            place["parts"] = [{"functionResponse": _joined(call)} for call in calls]
        system, contents = self._system, self._contents
        if not contents:
            # An instruction alone is no request there.
            system, contents = [], [{"role": "user", "parts": system}]
        if not contents[0]["parts"]:
            raise ToolCallError("invalid_request", "The messages hold no text and no calls.", param="messages")
        return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}

    def add(self, message: Any, param: str) -> None:
        """The next message."""
        if not isinstance(message, dict):
            raise refusal(param, "A message must be an object.")
        match message.get("role"):
            case "system" | "developer":
                self._system += _text_parts(message.get("content"), f"{param}.content")
            case "user":
                self._put("user", _parts(message.get("content"), f"{param}.content"))
            case "assistant":
                self._assistant(message, param)
            case "tool":
                self._result(message, param)
            case _:
                roles = "system, developer, user, assistant or tool"
                raise refusal(f"{param}.role", f"A message's role must be {roles}.")

    def _put(self, role: str, parts: list[dict[str, Any]]) -> None:
        """Parts of one role; neighbours become one content. Results stand alone: they are counted against the calls."""
        last = self._contents[-1] if self._contents else None
        if last is not None and last["role"] == role and not self._alone:
            last["parts"] += parts
        elif parts:
            self._contents.append({"role": role, "parts": parts})
            self._alone = False

    # -- calls and results ---------------------------------------------------------------------------------------

    def _assistant(self, message: dict[str, Any], param: str) -> None:
        parts = _text_parts(message.get("content"), f"{param}.content")
        declined = message.get("refusal")
        if not parts and isinstance(declined, str) and declined:
            parts = [{"text": declined}]
        signature = _signature(message)
        if signature is not None:
            # It came with the text, or behind it in a part of its own.
            parts = parts or [{"text": ""}]
            parts[-1]["thoughtSignature"] = signature
        items = message.get("tool_calls")
        if items is not None and not isinstance(items, list):
            raise refusal(f"{param}.tool_calls", "'tool_calls' must be an array.")
        calls: list[_Call] = []
        made: list[dict[str, Any]] = []
        for index, item in enumerate(items or ()):
            call, part = _read_call(item, f"{param}.tool_calls[{index}]")
            calls.append(call)
            made.append(part)
        if made and self._sign:
            made[0].setdefault("thoughtSignature", NO_SIGNATURE)
        self._put("model", parts + made)
        if calls:
            # Some engines number the calls of each turn alike.
            self._waiting |= {call.id: deque() for call in calls}
            for call in calls:
                self._waiting[call.id].append(call)
            place: dict[str, Any] = {"role": "user", "parts": []}
            self._turns.append((place, calls))
            self._contents.append(place)
            self._alone = True

    def _result(self, message: dict[str, Any], param: str) -> None:
        call_id, where = message.get("tool_call_id"), f"{param}.tool_call_id"
        if not isinstance(call_id, str) or not call_id:
            text = "A message with role 'tool' needs the 'tool_call_id' of the call that it answers."
            raise ToolCallError("invalid_tool_call_id", text, param=where)
        waiting = self._waiting.get(call_id)
        if waiting is None:
            text = f"No earlier assistant message has a tool call with the id {call_id[:100]!r}."
            raise ToolCallError("invalid_tool_call_id", text, param=where)
        call = self._answered[call_id] = waiting.popleft() if waiting else self._answered[call_id]
        value, media = _result_of(message.get("content"), f"{param}.content")
        answer: dict[str, Any] = {
            **_id(call_id),
            "name": call.name,
            "response": {"error" if message.get("is_error") is True else "result": value},
        }
        if media:
            answer["parts"] = media
        call.results.append(answer)


def _read_call(item: Any, param: str) -> tuple[_Call, dict[str, Any]]:
    """A call of the history, and its part."""
    kind = item.get("type") if isinstance(item, dict) else None
    inner = item.get("custom" if kind == "custom" else "function") if isinstance(item, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not inner["name"]:
        raise refusal(param, "A call must name a function.")
    arguments = {"input": inner.get("input")} if kind == "custom" else _object_of(inner.get("arguments"))
    call = _Call(item["id"] if isinstance(item.get("id"), str) else "", inner["name"])
    part: dict[str, Any] = {"functionCall": {**_id(call.id), "name": call.name, "args": arguments}}
    signature = _signature(item)
    if signature is not None:
        part["thoughtSignature"] = signature
    return call, part


def _joined(call: _Call) -> dict[str, Any]:
    """The one result that a call must have there."""
    if not call.results:
        return {**_id(call.id), "name": call.name, "response": {"error": NO_RESULT}}
    first, *more = call.results
    if not more:
        return first
    values = [value for result in call.results for value in result["response"].values()]
    failed = any("error" in result["response"] for result in call.results)
    media = [part for result in call.results for part in result.get("parts", ())]
    return {
        **first,
        "response": {"error" if failed else "result": values},
        **({"parts": media} if media else {}),
    }


def _id(call_id: str) -> dict[str, str]:
    """The id that Google gave, or whoever made the call; none where it is ours."""
    return {} if _OUR_ID.fullmatch(call_id) or not _ID.fullmatch(call_id) else {"id": call_id}


def _signature(holder: Mapping[str, Any]) -> str | None:
    match holder.get("extra_content"):
        case {"google": {"thought_signature": str(signature)}} if signature:
            return signature
    return None


def _object_of(arguments: Any) -> dict[str, Any]:
    """A call's arguments as an object. What is none, as a model may write it, is kept under a name."""
    value = arguments
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        value = openai.read_value(arguments.encode("utf-8", "replace"))
    if value is None and not isinstance(arguments, str):
        return {}
    return value if isinstance(value, dict) else {"arguments": arguments if value is None else value}


# -- contents of a message -----------------------------------------------------------------------------------------


def _text_parts(content: Any, param: str) -> list[dict[str, Any]]:
    """Text and nothing else."""
    parts = _parts(content, param)
    if any("text" not in part for part in parts):
        raise refusal(param, "Google's API takes only text here.")
    return parts


def _parts(content: Any, param: str) -> list[dict[str, Any]]:
    """A message's content; empty text has no place there."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"text": content}] if content else []
    if not isinstance(content, list):
        raise refusal(param, "'content' must be a string, an array of parts or null.")
    parts = [_part(part, f"{param}[{index}]") for index, part in enumerate(content)]
    return [part for part in parts if part != {"text": ""}]


def _part(part: Any, param: str) -> dict[str, Any]:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return {"text": text}
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return _media(url, f"{param}.image_url.url")
        case {"type": "video_url", "video_url": {"url": str(url)} | str(url)}:
            return _media(url, f"{param}.video_url.url")
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(name)}} if name in _AUDIO:
            return {"inlineData": {"mimeType": _AUDIO[name], "data": _base64(data, f"{param}.input_audio.data")}}
        case {"type": "file", "file": {"file_data": str(url)}}:
            return _media(url, f"{param}.file.file_data")
        case {"type": "file"}:
            raise refusal(f"{param}.file", "A file must be given as 'file_data': Google does not know OpenAI's files.")
        case {"type": str(kind)}:
            raise refusal(
                param, f"A part of type {kind[:100]!r} cannot be sent to Google's API, or it is not complete."
            )
    raise refusal(param, "A part of the content must be an object with a type.")


def _media(url: str, param: str) -> dict[str, Any]:
    """A data URL's bytes, or a reference that Google follows."""
    found = _DATA_URL.match(url[:1000])
    if found is not None and found[3]:
        return {"inlineData": {"mimeType": found[1].lower(), "data": _base64(url[found.end() :], param)}}
    if url.startswith(("https://", "http://", "gs://")):
        extension = _EXTENSION.search(url)
        kind = _TYPES.get(extension[1].lower()) if extension else None
        return {"fileData": {"fileUri": url, **({"mimeType": kind} if kind else {})}}
    raise refusal(param, "It must be an address, or a data URL with a type and base64.")


def _base64(data: str, param: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise refusal(param, "The data are not base64.") from None
    return data


def _result_of(content: Any, param: str) -> tuple[Any, list[dict[str, Any]]]:
    """(what a tool gave back: text as it is, any other JSON value as that value; its media)."""
    if not isinstance(content, list) or not all(isinstance(part, dict) and "type" in part for part in content):
        return ("" if content is None else content), []
    parts = [_part(part, f"{param}[{index}]") for index, part in enumerate(content)]
    text = "".join(part["text"] for part in parts if "text" in part)
    return text, [part for part in parts if "text" not in part]
