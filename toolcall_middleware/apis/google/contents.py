"""Messages as Google's `contents`: roles, parts, calls and their results.

A result is matched to its call by the function's name and the order, and by id if Google gave one. The ids that are
made for a client (`call_` and 24 characters) mean nothing to Google and are not sent.

A thought signature travels with the client, in `extra_content.google.thought_signature` of a call or a message, as in
Google's own OpenAI layer. For a client that drops unknown fields, and for calls of another model, the value
that Google documents for this is sent: newer models refuse a call without a signature.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from ...errors import ToolCallError, refusal
from ...wire import openai
from ..turns import NO_RESULT, Call, Turn, data_url, read_turns

NO_SIGNATURE = "skip_thought_signature_validator"

_OUR_ID = re.compile(r"call_[A-Za-z0-9]{24}")
_ID = re.compile(r"[\x21-\x7e]{1,256}")
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mp3", "flac": "audio/flac", "ogg": "audio/ogg", "aac": "audio/aac"}
_TYPES = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif",
    "heic": "image/heic", "heif": "image/heif", "bmp": "image/bmp", "pdf": "application/pdf", "mp4": "video/mp4",
}  # fmt: skip
_EXTENSION = re.compile(r"\.([A-Za-z0-9]{1,5})(?:[?#]|$)")
Part = dict[str, Any]


def contents_of(messages: Any, *, sign: bool) -> dict[str, Any]:
    """`contents` and, where there are system messages, `systemInstruction`.

    sign: the first call of each turn gets a signature in any case. Raises ToolCallError.
    """
    system: list[Part] = []
    contents: list[dict[str, Any]] = []
    alone = False  # the last content holds results, which Google counts against the calls: nothing may be added to it
    for turn in read_turns(messages):
        if turn.role in {"system", "developer"}:
            system += _text_parts(turn)
            continue
        role, parts = ("user", _parts(turn)) if turn.role == "user" else ("model", _of_model(turn, sign=sign))
        if contents and contents[-1]["role"] == role and not alone:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
            alone = False
        if turn.calls:
            # In the order of the calls, by which they are matched.
            contents.append({"role": "user", "parts": [{"functionResponse": _response(call)} for call in turn.calls]})
            alone = True
    if not contents:
        # Google refuses a request that holds only an instruction.
        system, contents = [], [{"role": "user", "parts": system}]
    if not contents[0]["parts"]:
        raise ToolCallError("invalid_request", "The messages hold no text and no calls.", param="messages")
    return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}


def _of_model(turn: Turn, *, sign: bool) -> list[Part]:
    """The parts of an assistant's message."""
    parts = _text_parts(turn)
    declined = turn.message.get("refusal")
    if not parts and isinstance(declined, str) and declined:
        parts = [{"text": declined}]
    if (signature := _signature(turn.message)) is not None:
        # The signature came with the text, or in a part of its own after it.
        parts = parts or [{"text": ""}]
        parts[-1]["thoughtSignature"] = signature
    for number, call in enumerate(turn.calls):
        part: Part = {"functionCall": {**_id(call.id), "name": call.name, "args": _object_of(call.arguments)}}
        if (signature := _signature(call.fields)) is not None:
            part["thoughtSignature"] = signature
        elif sign and not number:
            part["thoughtSignature"] = NO_SIGNATURE
        parts.append(part)
    return parts


def _response(call: Call) -> dict[str, Any]:
    """The one result that Google's API requires for a call."""
    head = {**_id(call.id), "name": call.name}
    if not call.results:
        return {**head, "response": {"error": NO_RESULT}}
    read = [_result_of(result) for result in call.results]
    values, media = [value for value, _ in read], [part for _, parts in read for part in parts]
    word = "error" if any(result.is_error for result in call.results) else "result"
    answer = {**head, "response": {word: values if len(values) > 1 else values[0]}}
    return {**answer, "parts": media} if media else answer


def _id(call_id: str) -> dict[str, str]:
    """The id field of a call from Google or another provider; empty if the id was made by this package."""
    return {} if _OUR_ID.fullmatch(call_id) or not _ID.fullmatch(call_id) else {"id": call_id}


def _signature(holder: Mapping[str, Any]) -> str | None:
    match holder.get("extra_content"):
        case {"google": {"thought_signature": str(signature)}} if signature:
            return signature
    return None


def _object_of(arguments: Any) -> dict[str, Any]:
    """A call's arguments as an object. Arguments that are not an object are kept in the field `arguments`."""
    value = arguments
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        value = openai.read_value(arguments.encode("utf-8", "replace"))
    if value is None and not isinstance(arguments, str):
        return {}
    return value if isinstance(value, dict) else {"arguments": arguments if value is None else value}


# -- contents of a message -----------------------------------------------------------------------------------------


def _text_parts(turn: Turn) -> list[Part]:
    """The parts of a content that may hold only text."""
    parts = _parts(turn)
    if any("text" not in part for part in parts):
        raise refusal(f"{turn.path}.content", "Google's API takes only text here.")
    return parts


def _parts(turn: Turn) -> list[Part]:
    """A message's content without empty text, which the API does not take."""
    parts = [_part(part, path) for part, path in turn.parts()]
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


def _media(url: str, param: str) -> Part:
    """The part for a data URL's bytes, or for a reference that Google fetches."""
    if (found := data_url(url)) is not None:
        return {"inlineData": {"mimeType": found[0], "data": _base64(found[1], param)}}
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


def _result_of(result: Turn) -> tuple[Any, list[Part]]:
    """(what a tool gave back: text as it is, any other JSON value as that value; its media)."""
    content = result.message.get("content")
    if not isinstance(content, list) or not all(isinstance(part, dict) and "type" in part for part in content):
        return ("" if content is None else content), []
    parts = [_part(part, path) for part, path in result.parts()]
    text = "".join(part["text"] for part in parts if "text" in part)
    return text, [part for part in parts if "text" not in part]
