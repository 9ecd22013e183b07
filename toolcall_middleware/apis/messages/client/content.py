"""Content blocks that a user, a tool result or a system message holds, as parts of a chat message."""

from __future__ import annotations

from typing import Any

from ....errors import refusal
from ....wire import openai
from ....wire.openai import Fields
from . import fields as client_fields

Part = dict[str, Any]
Content = str | list[Part]


def content_blocks(fields: Fields, path: str) -> list[tuple[Fields, str]]:
    """The blocks of `content` with their paths; a string is one text block, absent content none."""
    if not client_fields.has(fields, "content"):
        return []
    raw = fields["content"]
    if client_fields.is_text(raw):
        return [({"type": openai.raw("text"), "text": raw}, f"{path}.content")]
    blocks = openai.read_objects(raw)
    if blocks is None:
        raise refusal(f"{path}.content", "Input should be a valid string or a list of blocks")
    return [(block, f"{path}.content.{number}") for number, block in enumerate(blocks)]


def joined(parts: list[Part], between: str) -> Content:
    """Parts as content: one text where they are all text, else the list of them."""
    if all(part["type"] == "text" for part in parts):
        return between.join(part["text"] for part in parts if part["text"])
    return [part for part in parts if part["type"] != "text" or part["text"]]


def text_part(text: str) -> Part:
    """A part that is text."""
    return {"type": "text", "text": text}


def parts_of(block: Fields, kind: str, path: str) -> list[Part]:
    """The parts that a block of text, image, document or search result is. Raises ToolCallError for any other."""
    match kind:
        case "text":
            return [text_part(client_fields.string(block, "text", path))]
        case "image":
            return [_image(block, path)]
        case "document":
            return _document(block, path)
        case "search_result":
            return [text_part(_search_result(block, path))]
    raise unknown(kind, path)


def unknown(kind: str, path: str) -> Exception:
    """The error for a block of a kind that cannot stand where it does."""
    message = f"A block of type {client_fields.shown(kind)} cannot be given to the model here"
    return refusal(f"{path}.type", message)


def _source(block: Fields, path: str) -> tuple[str, Fields]:
    source = client_fields.inner(block, "source", path)
    if source is None:
        raise refusal(f"{path}.source", "Field required")
    return client_fields.string(source, "type", f"{path}.source"), source


def _data_url(source: Fields, path: str) -> str:
    media_type = client_fields.filled_string(source, "media_type", f"{path}.source")
    return f"data:{media_type};base64,{client_fields.string(source, 'data', f'{path}.source')}"


def _image(block: Fields, path: str) -> Part:
    kind, source = _source(block, path)
    match kind:
        case "base64":
            url = _data_url(source, path)
        case "url":
            url = client_fields.filled_string(source, "url", f"{path}.source")
        case _:
            raise _not_here(kind, path)
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: Fields, path: str) -> list[Part]:
    """A document: its text under its title, or a file for a backend that reads such."""
    kind, source = _source(block, path)
    title = client_fields.optional_string(block, "title", path)
    context = client_fields.optional_string(block, "context", path)
    head = "\n".join(text for text in (title, context) if text)
    match kind:
        case "text":
            found = [text_part(client_fields.string(source, "data", f"{path}.source"))]
        case "content":
            found = []
            for inner, where in content_blocks(source, f"{path}.source"):
                found += parts_of(inner, client_fields.string(inner, "type", where), where)
        case "base64":
            file = {"filename": title or "document.pdf", "file_data": _data_url(source, path)}
            found = [{"type": "file", "file": file}]
        case "url":
            # No chat backend fetches documents: the model is told where it is.
            found = [text_part(f"(a document at {client_fields.filled_string(source, 'url', f'{path}.source')})")]
        case _:
            raise _not_here(kind, path)
    return [text_part(head), *found] if head else found


def _not_here(kind: str, path: str) -> Exception:
    message = f"A source of type {client_fields.shown(kind)} cannot be read here; send the content itself, as base64"
    return refusal(f"{path}.source.type", message)


def _search_result(block: Fields, path: str) -> str:
    lines = [client_fields.optional_string(block, name, path) for name in ("title", "source")]
    for inner, where in content_blocks(block, path):
        lines.append(client_fields.string(inner, "text", where))
    return "\n".join(line for line in lines if line)
