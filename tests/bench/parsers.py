"""Other ways to read a call that streams: again from its start at each chunk, as engines do, or not before its end.

Text in, pieces of arguments out; the same pieces of four characters for all. SGLang's own parser takes part where its
package lies on the path: `pip install --no-deps sglang` with `orjson` and `partial-json-parser` will do, nothing else
of it is loaded.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable
from typing import Any

import pydantic

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs

from . import material, measure
from .report import Table

_TOOLS = ToolSet.of([Tool(material.TOOL)])
Read = Callable[[list[str]], str]
"""Pieces of a model's text in, the joined arguments out."""


def _ours(format_name: str) -> Read:
    def read(pieces: list[str]) -> str:
        feed = registry.get(format_name).parser(_TOOLS, ParserOptions()).feed
        out: list[str] = []
        for piece in pieces:
            out += [event.text for event in feed(piece) if type(event) is CallArgs]
        return "".join(out)

    return read


def _whole_again(pieces: list[str]) -> str:
    """All that came so far is parsed at each piece, as far as it goes, and what is new of it leaves."""
    text = sent = ""
    for piece in pieces:
        text += piece
        begin = text.find("{")
        if begin < 0:
            continue
        try:
            call = json.loads(_completed(text[begin:].removesuffix("\n</tool_call>")))
        except json.JSONDecodeError:
            continue
        if not call.get("arguments"):
            continue
        written = json.dumps(call["arguments"], ensure_ascii=False)
        if written.startswith(sent):
            # What closes the brackets now may not be what comes.
            sent = written if text.endswith("</tool_call>") else written.rstrip('"}]')
    return sent


def _completed(text: str) -> str:
    """`text`, the beginning of a JSON value, with what is open closed."""
    closing: list[str] = []
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == '"':
            in_string = True
        elif char in "{[":
            closing.append("}" if char == "{" else "]")
        elif char in "}]" and closing:
            closing.pop()
    if escaped:
        text = text[:-1]
    return text + '"' * in_string + "".join(reversed(closing))


def _at_the_end(pieces: list[str]) -> str:
    """Everything is collected, and parsed once."""
    text = ""
    for piece in pieces:
        text += piece
    return json.dumps(json.loads(text[text.index("{") : text.rindex("}") + 1])["arguments"], ensure_ascii=False)


@functools.cache
def _sglang() -> Read | None:
    """SGLang's parser of this syntax, without the rest of SGLang; None where it is not there."""
    found = importlib.util.find_spec("sglang")
    if found is None or not found.submodule_search_locations:
        return None
    (root,) = found.submodule_search_locations
    for name in ("sglang", "sglang.srt", "sglang.srt.entrypoints", "sglang.srt.entrypoints.openai"):
        package = sys.modules.setdefault(name, types.ModuleType(name))
        package.__path__ = ["/".join([root, *name.split(".")[1:]])]
    protocol: Any = types.ModuleType("sglang.srt.entrypoints.openai.protocol")
    function = pydantic.create_model("Function", name=(str, ...), parameters=(Any, None))
    protocol.Tool = pydantic.create_model("Tool", type=(str, "function"), function=(function, ...))
    protocol.ToolChoice = object
    environ: Any = types.ModuleType("sglang.srt.environ")
    environ.envs = types.SimpleNamespace(SGLANG_FORWARD_UNKNOWN_TOOLS=types.SimpleNamespace(get=lambda: False))
    sys.modules |= {protocol.__name__: protocol, environ.__name__: environ}
    try:
        detector = importlib.import_module("sglang.srt.function_call.qwen25_detector").Qwen25Detector
    except ImportError as error:
        print(f"SGLang's parser cannot be loaded: {error}", file=sys.stderr)
        return None
    tools = [protocol.Tool(function=function(name=material.TOOL))]

    def read(pieces: list[str]) -> str:
        feed = detector().parse_streaming_increment
        return "".join(call.parameters or "" for piece in pieces for call in feed(piece, tools).calls)

    return read


def run(*, smoke: bool) -> Table:
    repeats = 1 if smoke else 5
    table = Table("Parsers: a call, 4 characters a chunk", ("ns a chunk", "x ours"))
    others: list[tuple[str, Read]] = [("parsed again at each chunk", _whole_again), ("parsed at its end", _at_the_end)]
    sglang = _sglang()
    if sglang is not None:
        others.append(("SGLang's Qwen25Detector", sglang))
    for size in (300,) if smoke else (1_000, 4_000, 16_000):
        opening, written = material.call_text("hermes", material.file_arguments(size))
        pieces = material.cut(opening + written + "}\n</tool_call>")
        for name, read in (("ours, hermes", _ours("hermes")), ("ours, auto", _ours("auto")), *others):
            if json.loads(read(pieces)) != json.loads(written):
                raise AssertionError(f"{name} does not read the call")
        ours = min(measure.best([lambda: _time(_ours("hermes"), pieces)], 4 * repeats))  # noqa: B023 - used at once
        table.add(f"{size} characters, ours, hermes", f"{ours / len(pieces) * 1e9:.0f}", "1.0")
        for name, read in (("ours, auto", _ours("auto")), *others):
            again = repeats if size < 10_000 else 1
            seconds = min(_time(read, pieces) for _ in range(again))
            goal = ">= 20" if size == 4_000 and "again" in name else ""
            table.add(f"{size} characters, {name}", f"{seconds / len(pieces) * 1e9:.0f}", f"{seconds / ours:.1f}", goal)
    if sglang is None:
        table.add("SGLang's parser: not installed here", "")
    return table


def _time(read: Read, pieces: list[str]) -> float:
    return measure.timed(lambda: read(pieces))()
