"""The content of messages and of results: parts of Responses as parts of a chat completion."""

from __future__ import annotations

from typing import Any

from ...errors import kind, refusal, shown
from .fields import encode

Part = dict[str, Any]

_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_KNOWN = _TEXTS | {"refusal", "image_url", "input_image", "input_file", "input_audio"}
_DETAILS = {"low": "low", "high": "high", "original": "high"}  # chat completions have no `original`


def chat_content(content: Any, param: str) -> str | list[Part]:
    """A message's content: a string where it is one text, else parts. Raises ToolCallError."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refusal(param, f"'content' must be a string or an array of parts, got {kind(content)}.")
    return _shortest([_part(part, f"{param}[{index}]") for index, part in enumerate(content)])


def chat_text(content: Any, param: str) -> str:
    """An assistant's content, which is text."""
    found = chat_content(content, param)
    if isinstance(found, str):
        return found
    for index, part in enumerate(found):
        if part["type"] != "text":
            raise refusal(f"{param}[{index}].type", "The content of an assistant's message is text.")
    return "".join(part["text"] for part in found)


def chat_result(output: Any, param: str) -> str | list[Part]:
    """What a tool gave back: text, parts, or any other JSON value, as JSON."""
    if isinstance(output, str):
        return output
    if isinstance(output, list) and output and all(_is_part(part) for part in output):
        return _shortest([_part(part, f"{param}[{index}]") for index, part in enumerate(output)])
    return encode(output, param).decode()


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(kind_ := value.get("type"), str) and kind_ in _KNOWN


def _shortest(parts: list[Part]) -> str | list[Part]:
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return parts


def _part(part: Any, param: str) -> Part:
    if not isinstance(part, dict):
        raise refusal(param, f"A part of the content must be an object, got {kind(part)}.")
    variant = part.get("type")
    if isinstance(variant, str):
        if variant in _TEXTS:
            return {"type": "text", "text": _string(part, "text", param)}
        match variant:
            case "refusal":  # what the model said; not every template knows the word
                return {"type": "text", "text": _string(part, "refusal", param)}
            case "input_image":
                return _image(part, param)
            case "image_url":
                return _chat_image(part, param)
            case "input_file":
                return _file(part, param)
            case "input_audio":
                return _audio(part, param)
    known = ", ".join(sorted(_KNOWN))
    raise refusal(f"{param}.type", f"A part's type must be one of {known}; got {shown(variant)}.")


def _string(part: Part, name: str, param: str) -> str:
    value = part.get(name)
    if not isinstance(value, str):
        raise refusal(f"{param}.{name}", f"A part of type {part['type']} needs '{name}', a string; got {kind(value)}.")
    return value


def _image(part: Part, param: str) -> Part:
    if part.get("image_url") is None and part.get("file_id") is not None:
        raise refusal(f"{param}.file_id", "Files are not stored here: send the image itself in 'image_url'.")
    image = {"url": _string(part, "image_url", param)}
    detail = part.get("detail")
    if isinstance(detail, str) and detail in _DETAILS:
        image["detail"] = _DETAILS[detail]
    return {"type": "image_url", "image_url": image}


def _chat_image(part: Part, param: str) -> Part:
    """The part of a chat completion, which some clients send on Responses too."""
    image = part.get("image_url")
    if not isinstance(image, dict):
        return _image(part, param)
    if not isinstance(image.get("url"), str):
        raise refusal(f"{param}.image_url.url", f"'url' must be a string, got {kind(image.get('url'))}.")
    return {"type": "image_url", "image_url": image}


def _file(part: Part, param: str) -> Part:
    file = {name: _string(part, name, param) for name in ("filename", "file_data") if part.get(name) is not None}
    if "file_data" not in file:
        missing = next((name for name in ("file_id", "file_url") if part.get(name) is not None), "file_data")
        raise refusal(f"{param}.{missing}", "Files are not stored or fetched here: send the file in 'file_data'.")
    return {"type": "file", "file": file}


def _audio(part: Part, param: str) -> Part:
    audio = part.get("input_audio")
    if not isinstance(audio, dict):
        raise refusal(f"{param}.input_audio", f"'input_audio' must be an object, got {kind(audio)}.")
    return {"type": "input_audio", "input_audio": audio}
