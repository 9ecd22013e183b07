"""Content blocks that a user, a tool result or a system message holds, as parts of a chat message."""

from __future__ import annotations

from typing import Any

from ....errors import shown
from ....wire import openai
from ....wire.json_reader import ANTHROPIC, Reader

Part = dict[str, Any]
Content = str | list[Part]


def content_blocks(holder: Reader) -> list[Reader]:
    """The blocks of `content`; a string is one text block, absent content none."""
    if holder.begins("content", b'"'):
        text = {"type": openai.raw("text"), "text": holder.fields["content"]}
        return [Reader(text, ANTHROPIC, holder.where("content"))]
    return holder.items("content", "blocks")


def joined(parts: list[Part], between: str) -> Content:
    """Parts as content: one text where they are all text, else the list of them."""
    if all(part["type"] == "text" for part in parts):
        return between.join(part["text"] for part in parts if part["text"])
    return [part for part in parts if part["type"] != "text" or part["text"]]


def text_part(text: str) -> Part:
    """A part that is text."""
    return {"type": "text", "text": text}


def parts_of(block: Reader) -> list[Part]:
    """The parts that a block of text, image, document or search result is. Raises ToolCallError for any other."""
    match block.required("type"):
        case "text":
            return [text_part(block.required("text"))]
        case "image":
            return [{"type": "image_url", "image_url": {"url": _image(_source(block))}}]
        case "document":
            return _document(block)
        case "search_result":
            texts = [one.required("text") for one in content_blocks(block)]
            lines = [block.text("title"), block.text("source"), *texts]
            return [text_part("\n".join(line for line in lines if line))]
    raise unknown(block)


def unknown(block: Reader) -> Exception:
    """The error for a block whose kind cannot be read where it is."""
    return block.error("type", f"A block of type {shown(block.value('type'))} cannot be given to the model here")


def _source(block: Reader) -> Reader:
    source = block.inner("source")
    if source is None:
        raise block.error("source", ANTHROPIC["missing"])
    return source


def _data_url(source: Reader) -> str:
    return f"data:{source.filled('media_type')};base64,{source.required('data')}"


def _image(source: Reader) -> str:
    match source.required("type"):
        case "base64":
            return _data_url(source)
        case "url":
            return source.filled("url")
    raise _not_here(source)


def _document(block: Reader) -> list[Part]:
    """A document: its text under its title, or a file for a backend that reads such."""
    source, title = _source(block), block.text("title")
    head = "\n".join(text for text in (title, block.text("context")) if text)
    match source.required("type"):
        case "text":
            found = [text_part(source.required("data"))]
        case "content":
            found = [part for inner in content_blocks(source) for part in parts_of(inner)]
        case "base64":
            file = {"filename": title or "document.pdf", "file_data": _data_url(source)}
            found = [{"type": "file", "file": file}]
        case "url":
            # No chat backend fetches documents: the model reads where it is.
            found = [text_part(f"(a document at {source.filled('url')})")]
        case _:
            raise _not_here(source)
    return [text_part(head), *found] if head else found


def _not_here(source: Reader) -> Exception:
    kind = shown(source.value("type"))
    return source.error("type", f"A source of type {kind} cannot be read here; send the content itself, as base64")
