"""Calls that a backend could not parse, and whose text its error holds.

Its parser or its check of the schema failed, and the client would get an error in place of the answer:

- Groq: code `tool_use_failed`, the text in `failed_generation` (https://console.groq.com/docs/tool-use)
- llama.cpp until 2026: `Failed to parse input at pos 204: <tool_call>…`, with the text after that place
  (common/chat.cpp)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..errors import ToolCallError
from ..formats.base import StreamParser
from ..parsing.events import CallArgs, CallEnd, CallStart
from ..parsing.values.json_reader import decode

_LLAMA_CPP = re.compile(r"Failed to parse input at pos \d+: ")
# llama.cpp puts the prompt's last words before it: the assistant's turn up to the token that ends its header (a channel
# is the answer's own), and a thought's opening tag.
_TURN = re.compile(
    r"(?:<[^\s>]{1,32}>[ ]?(?:assistant|model)(?:<\|\w{0,16}(?:end|middle|sep|message)\w{0,16}\|>)?"
    r"|<[|｜](?:[Aa]ssistant|bot)[|｜]>)\s{0,8}"
    r"(?:<think>(?!.*</think>)\s{0,8})?",
    re.DOTALL,
)
_WORDS = (
    "tool_use_failed",
    "failed to parse input at pos",
    "model produced output that does not match the expected",  # llama.cpp since 2026, which logs the text only
    "error parsing tool call",  # Ollama
)


def is_models_fault(said: str) -> bool:
    """Whether an error's text, in lower case, is about what the model wrote, and not about what was asked for."""
    return any(words in said for words in _WORDS)


class Unparsed(NamedTuple):
    """What the model wrote, and the calls in it: the name of each, and its arguments as JSON."""

    text: str
    calls: list[tuple[str, str]]


def unparsed_calls(
    refusal: ToolCallError, reader: Callable[[], StreamParser], *, spoken: bool = False
) -> Unparsed | None:
    """The part of an answer that an error holds; None where no whole call can be read from it.

    reader: makes a parser that knows the offered tools and keeps `raw`. spoken: a part of the answer was
    already received, which the error may repeat. Then only the text from the first call on is returned.
    """
    text = _text_of(refusal)
    if not text:
        return None
    parser = reader()
    calls: list[tuple[str, str]] = []
    name, raw = "", ""
    arguments: list[str] = []
    for event in (*parser.feed(text), *parser.finish()):
        match event:
            case CallStart():
                name, arguments = event.name, []
            case CallArgs():
                arguments.append(event.text)
            case CallEnd(complete=False):
                return None
            case CallEnd():
                raw = raw or event.raw
                calls.append((name, "".join(arguments)))
    if not calls:
        return None
    begin = text.find(raw) if raw and spoken else 0
    return Unparsed(text[begin:], calls) if begin >= 0 and (raw or not spoken) else None


def rest_of(begun: Sequence[tuple[str, str]], calls: Sequence[tuple[str, str]]) -> list[dict[str, Any]] | None:
    """The entries of `delta.tool_calls` that complete the calls `begun` by a backend; None where they are others.

    The last of them continues in the backend's own spelling of JSON. None where that is not known.
    """
    if len(begun) > len(calls) or any(left[0] != right[0] for left, right in zip(begun, calls, strict=False)):
        return None
    last = len(begun) - 1
    written = begun[last][1]
    try:
        value = decode(calls[last][1])
        spellings = [json.dumps(value, ensure_ascii=False, separators=marks) for marks in ((",", ":"), (", ", ": "))]
    except (ValueError, RecursionError):
        return None
    rest = next((text[len(written) :] for text in spellings if text.startswith(written)), None)
    if rest is None:
        return None
    more = [
        {"index": at, "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls[len(begun) :], start=len(begun))
    ]
    return [{"index": last, "function": {"arguments": rest}}, *more]


def _text_of(refusal: ToolCallError) -> str:
    text = refusal.extra.get("failed_generation")
    if isinstance(text, str):
        return text
    m = _LLAMA_CPP.match(refusal.message)
    if m is None:
        return ""
    turn = _TURN.match(refusal.message, m.end())
    return refusal.message[m.end() if turn is None else turn.end() :]
