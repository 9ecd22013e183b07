"""The streaming parsers of vLLM and SGLang, as published, where their packages lie on the path.

    uv pip install --no-deps --target DIR vllm sglang partial-json-parser orjson
    PYTHONPATH=DIR python -m tests.bench parsers calls

Nothing else of an engine is needed, torch and CUDA least of all: `standins.py` says how. All that a parser computes
with is the engine's own, listed here; pydantic, openai, regex, orjson and partial-json-parser are the real ones. Stood
in for are SGLang's `Tool`, of which its parsers read three fields (made with pydantic here as there), and one switch of
its environment (unknown tools are not forwarded, its default). It changes nothing of the time: no parser calls a
stand-in. The tokenizer is a table: each piece of the stream is a token, as far as the parsers ask.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import re
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pydantic

from .readers import Answer, Read, Reader, Tools, put_together
from .standins import CANNOT_LOAD, alone

_VLLM = """
    envs exceptions logger version utils utils.collection_utils utils.import_utils utils.mistral
    logging_utils logging_utils.formatter logging_utils.lazy logging_utils.log_time logging_utils.torch_tensor
    logging_utils.uvicorn_logging
    entrypoints.generate.base.protocol entrypoints.openai.chat_completion.protocol entrypoints.serve.engine.protocol
    renderers.chat_utils.tool_call reasoning.abs_reasoning_parsers
    tool_parsers.abstract_tool_parser tool_parsers.utils tool_parsers.tool_strict_level
    tool_parsers.hermes_tool_parser tool_parsers.qwen3_engine_tool_parser
    parser.abstract_parser parser.utils parser.qwen3 parser.engine.adapters parser.engine.registered_adapters
    parser.engine.events parser.engine.incremental_lexer parser.engine.parser_engine
    parser.engine.parser_engine_config parser.engine.streaming_parser_engine parser.engine.token_id_scanner
"""
_SGLANG = """
    function_call.base_format_detector function_call.core_types function_call.utils
    function_call.qwen25_detector function_call.qwen3_coder_detector
"""
MARKERS = ("<tool_call>", "</tool_call>")
"""Single tokens of the models that write these syntaxes."""
_MARKER = re.compile("(" + "|".join(MARKERS) + ")")


@functools.cache
def readers() -> tuple[Reader, ...]:
    """The parsers that can be had. Of an engine that cannot, stderr says why."""
    return (*_of("vllm", _vllm), *_of("sglang", _sglang))


def _of(package: str, load: Callable[[Path, str], list[Reader]]) -> list[Reader]:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        print(
            f"{package}'s parsers are left out: the package is not on the path (published.py says how)", file=sys.stderr
        )
        return []
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    try:
        found = load(Path(spec.submodule_search_locations[0]), version)
    except CANNOT_LOAD as error:
        print(
            f"{package}'s parsers are left out: {version or 'this version'} cannot be loaded: {error}", file=sys.stderr
        )
        return []
    logging.getLogger(package).setLevel(logging.CRITICAL)  # a call that goes wrong shows in the figures
    return found


class Tokens:
    """A tokenizer of a stream that is cut already: a piece is a token, and so is a marker in it and what is around."""

    all_special_tokens = all_special_ids = ()

    def __init__(self, pieces: Sequence[str]) -> None:
        parts = [[part for part in _MARKER.split(piece) if part] for piece in pieces]
        self._ids = {part: number for number, part in enumerate(dict.fromkeys(part for some in parts for part in some))}
        self._parts = list(self._ids)
        self.ids = [[self._ids[part] for part in some] for some in parts]
        """Of each piece."""

    def get_vocab(self) -> dict[str, int]:
        return self._ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._parts[number] for number in ids)


def _vllm(root: Path, version: str) -> list[Reader]:
    real = frozenset(f"vllm.{name}" for name in _VLLM.split())
    with alone(root, real, ("torch", "xgrammar", "openai_harmony")):
        ids = importlib.import_module("vllm.renderers.chat_utils.tool_call")
        package: Any = importlib.import_module("vllm.renderers.chat_utils")  # which only hands these on
        package.make_tool_call_id, package.get_tool_call_id_type = ids.make_tool_call_id, ids.get_tool_call_id_type
        protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
        hermes = importlib.import_module("vllm.tool_parsers.hermes_tool_parser").Hermes2ProToolParser
        qwen3 = importlib.import_module("vllm.tool_parsers.qwen3_engine_tool_parser").Qwen3EngineToolParser
    name = f"vLLM {version}'s".replace(" '", "'")
    return [
        Reader(f"{name} Hermes2ProToolParser", "hermes", vllm_begin(hermes, protocol), vllm_merge, again=True),
        Reader(f"{name} Qwen3EngineToolParser", "qwen3_coder", vllm_begin(qwen3, protocol), vllm_merge),
    ]


def vllm_begin(parser_class: Any, protocol: Any) -> Callable[[Sequence[str], Tools], Read]:
    """Drives `extract_tool_calls_streaming` as vLLM's server does, its sums of text and token ids included."""

    def begin(pieces: Sequence[str], tools: Tools) -> Read:
        offered = [protocol.ChatCompletionToolsParam(**tool) for tool in tools]
        request = protocol.ChatCompletionRequest(
            model="m", messages=[{"role": "user", "content": "?"}], tools=list(tools), tool_choice="auto", stream=True
        )
        tokens = Tokens(pieces)

        def read() -> list[Any]:
            parser = parser_class(tokens, offered)
            parse = parser.extract_tool_calls_streaming
            out = []
            if getattr(parser, "engine_based_streaming", False):  # such a parser keeps what came by itself
                for piece, new in zip(pieces, tokens.ids, strict=True):
                    out.append(parse("", piece, piece, [], new, new, request))
            else:
                text, known = "", list[int]()
                for piece, new in zip(pieces, tokens.ids, strict=True):
                    now, all_ids = text + piece, known + new
                    out.append(parse(text, now, piece, known, all_ids, new, request))
                    text, known = now, all_ids
            if hasattr(parser, "finish_streaming"):
                out.append(parser.finish_streaming())
            return [*out, unsent(parser)]

        return read

    return begin


def vllm_merge(deltas: list[Any]) -> Answer:
    parts = []
    text = ""
    for delta in deltas[:-1]:
        if delta is not None:
            text += delta.content or ""
            parts += [
                (call.index, call.function.name, call.function.arguments) for call in delta.tool_calls if call.function
            ]
    return put_together([*parts, *deltas[-1]], text)


def unsent(parser: Any) -> list[tuple[int, str | None, str | None]]:
    """What both servers add at the end: arguments of the last call that its parser read and did not give out."""
    if not parser.prev_tool_call_arr or not parser.streamed_args_for_tool:
        return []
    index = len(parser.prev_tool_call_arr) - 1
    if index >= len(parser.streamed_args_for_tool):
        return []
    known, sent = parser.prev_tool_call_arr[index].get("arguments", {}), parser.streamed_args_for_tool[index]
    whole = known if isinstance(known, str) else json.dumps(known, ensure_ascii=False)
    return [(index, None, whole[len(sent) :])] if whole.startswith(sent) else []


def _sglang(root: Path, version: str) -> list[Reader]:
    real = frozenset(f"sglang.srt.{name}" for name in _SGLANG.split())
    with alone(root, real):
        protocol: Any = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
        function = pydantic.create_model("Function", name=(str, ...), parameters=(Any, None))
        protocol.Tool = pydantic.create_model("Tool", type=(str, "function"), function=(function, ...))
        environ: Any = importlib.import_module("sglang.srt.environ")
        environ.envs = types.SimpleNamespace(SGLANG_FORWARD_UNKNOWN_TOOLS=types.SimpleNamespace(get=lambda: False))
        hermes = importlib.import_module("sglang.srt.function_call.qwen25_detector").Qwen25Detector
        qwen3 = importlib.import_module("sglang.srt.function_call.qwen3_coder_detector").Qwen3CoderDetector
    name = f"SGLang {version}'s".replace(" '", "'")
    return [
        Reader(f"{name} Qwen25Detector", "hermes", sglang_begin(hermes, protocol), sglang_merge, again=True),
        Reader(f"{name} Qwen3CoderDetector", "qwen3_coder", sglang_begin(qwen3, protocol), sglang_merge),
    ]


def sglang_begin(detector: Any, protocol: Any) -> Callable[[Sequence[str], Tools], Read]:
    """Drives `parse_streaming_increment` and `finish`, as SGLang's server does."""

    def begin(pieces: Sequence[str], tools: Tools) -> Read:
        offered = [protocol.Tool(**tool) for tool in tools]

        def read() -> list[Any]:
            parser = detector()
            parse = parser.parse_streaming_increment
            out = [parse(piece, offered) for piece in pieces]
            return [*out, parser.finish(offered), unsent(parser)]

        return read

    return begin


def sglang_merge(results: list[Any]) -> Answer:
    parts = [(call.tool_index, call.name, call.parameters) for result in results[:-1] for call in result.calls]
    return put_together([*parts, *results[-1]], "".join(result.normal_text or "" for result in results[:-1]))
