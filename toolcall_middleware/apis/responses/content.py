"""The content of messages and of results: parts of Responses as parts of a chat completion."""

from __future__ import annotations

from typing import Any

from ...errors import kind, shown
from ...wire.json_reader import Reader
from .fields import encode

Part = dict[str, Any]

_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_KNOWN = _TEXTS | {"refusal", "image_url", "input_image", "input_file", "input_audio"}
_DETAILS = {"low": "low", "high": "high", "original": "high"}  # chat completions have no `original`


def chat_content(holder: Reader, name: str = "content") -> str | list[Part]:
    """A message's content: a string where it is one text, else parts. Raises ToolCallError."""
    if holder.begins(name, b'"'):
        return holder.required(name)
    if not holder.begins(name, b"["):
        found = kind(holder.value(name))
        raise holder.error(name, f"'{name}' must be a string or an array of parts, got {found}.")
    parts = [_part(part) for part in holder.items(name)]
    if len(parts) > 1 or (parts and parts[0]["type"] != "text"):
        return parts
    return parts[0]["text"] if parts else ""


def chat_text(holder: Reader) -> str:
    """An assistant's content, which is text."""
    found = "" if holder.given("content") is None else chat_content(holder)
    if isinstance(found, str):
        return found
    for index, part in enumerate(found):
        if part["type"] != "text":
            raise holder.error(f"content[{index}].type", "The content of an assistant's message is text.")
    return "".join(part["text"] for part in found)


def chat_result(item: Reader) -> str | list[Part]:
    """What a tool gave back: text, parts, or any other JSON value, as JSON."""
    output = item.value("output")
    if isinstance(output, str) or (isinstance(output, list) and output and all(map(_is_part, output))):
        return chat_content(item, "output")
    return encode(output, item.where("output")).decode()


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(kind_ := value.get("type"), str) and kind_ in _KNOWN


def _part(part: Reader) -> Part:
    match part.value("type"):
        case str(variant) if variant in _TEXTS:
            return {"type": "text", "text": part.required("text")}
        case "refusal":  # what the model said; not every template knows the word
            return {"type": "text", "text": part.required("refusal")}
        case "input_image" | "image_url":
            return {"type": "image_url", "image_url": _image(part)}
        case "input_file":
            return {"type": "file", "file": _file(part)}
        case "input_audio":
            return {"type": "input_audio", "input_audio": part.object("input_audio") or part.required("input_audio")}
        case variant:
            known = ", ".join(sorted(_KNOWN))
            raise part.error("type", f"A part's type must be one of {known}; got {shown(variant)}.")


def _image(part: Reader) -> dict[str, Any]:
    if part.begins("image_url", b"{"):  # as in a chat completion, which some clients send on Responses too
        image = part.inner("image_url")
        if image is not None and image.required("url"):
            return part.object("image_url") or {}
    if part.given("image_url") is None and part.given("file_id") is not None:
        raise part.error("file_id", "Files are not stored here: send the image itself in 'image_url'.")
    detail = _DETAILS.get(str(part.value("detail")))
    return {"url": part.required("image_url"), **({"detail": detail} if detail else {})}


def _file(part: Reader) -> dict[str, Any]:
    file = {name: part.required(name) for name in ("filename", "file_data") if part.given(name) is not None}
    if "file_data" not in file:
        missing = next((name for name in ("file_id", "file_url") if part.given(name) is not None), "file_data")
        raise part.error(missing, "Files are not stored or fetched here: send the file in 'file_data'.")
    return file
