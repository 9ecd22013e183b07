"""Calls that a backend refuses to read, and whose text its error holds.

Its parser or its check of the schema failed, and the client would get an error in place of the answer:

- Groq: code `tool_use_failed`, the text in `failed_generation` (https://console.groq.com/docs/tool-use)
- llama.cpp: `Failed to parse input at pos 204: <tool_call>…`, with the text behind that place (common/chat.cpp)
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..errors import ToolCallError
from ..formats.base import StreamParser
from ..parsing.events import CallEnd

_LLAMA_CPP = re.compile(r"Failed to parse input at pos \d+: ")
_WORDS = (b"tool_use_failed", b"failed to parse input at pos", b"error parsing tool call")  # the last is Ollama's


def is_models_fault(refusal: bytes) -> bool:
    """Whether an error, in lower case, is about what the model wrote, and not about what was asked for."""
    return any(words in refusal for words in _WORDS)


def refused_text(refusal: ToolCallError, reader: Callable[[], StreamParser], *, spoken: bool) -> str | None:
    """What the model wrote, by an error; None where no whole call can be read from it.

    reader: makes a parser that knows the offered tools and keeps `raw`. spoken: something of the answer has come
    before, which the error may repeat: then only what begins with the first call is told.
    """
    text = _text_of(refusal)
    if not text:
        return None
    parser = reader()
    ends = [event for event in (*parser.feed(text), *parser.finish()) if isinstance(event, CallEnd)]
    if not ends or not all(end.complete for end in ends):
        return None
    if not spoken:
        return text
    begin = text.find(ends[0].raw)
    return None if begin < 0 or not ends[0].raw else text[begin:]


def _text_of(refusal: ToolCallError) -> str:
    text = refusal.extra.get("failed_generation")
    if isinstance(text, str):
        return text
    m = _LLAMA_CPP.match(refusal.message)
    return "" if m is None else refusal.message[m.end() :]
