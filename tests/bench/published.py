"""The streaming parsers of vLLM and SGLang, as published, where their packages lie on the path.

    uv pip install --no-deps --target DIR vllm sglang partial-json-parser orjson
    PYTHONPATH=DIR python -m tests.bench parsers

Nothing else of an engine is needed, torch and CUDA least of all: `standins.py` says how. All that a parser computes
with is the engine's own, listed here; pydantic, openai, regex, orjson and partial-json-parser are the real ones. Stood
in for are SGLang's `Tool`, of which its parsers read three fields (made with pydantic here as there), and one switch of
its environment (unknown tools are not forwarded, its default). It changes nothing of the time: no parser calls a
stand-in. The tokenizer is a table: each piece of the stream is a token, as far as the parsers ask.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import re
import sys
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
"""


def _names(text: str) -> dict[str, str]:
    """The name of an engine's parser by the name of our format; it is the same where only one is written."""
    return {ours: theirs or ours for ours, _, theirs in (word.partition("=") for word in text.split())}


_VLLM_PARSERS = _names("""
    apertus beam cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41
    dots ernie45 functiongemma gemma4 gigachat3 glm45 glm47 granite granite4 granite_20b_fc=granite-20b-fc
    hermes hunyuan=hunyuan_a13b hy_v3 hy_v4 inkling internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 llama3_json
    llama4_pythonic longcat minicpm5 minimax_m2 minimax_m3 mistral_v11=mistral muse_glimmer olmo3
    phi4_mini=phi4_mini_json plamo3 pythonic qwen3_coder seed_oss step3 step3p5 xlam
""")
_SGLANG_PARSERS = _names("""
    apertus=apertus2509 cohere_command4 deepseek_v3=deepseekv3 deepseek_v31=deepseekv31 deepseek_v32=deepseekv32
    deepseek_v4=deepseekv4 deepseek_v41=deepseekv41 dots gemma4 gigachat3 gigachat35 glm45 glm47 hermes=qwen25
    hunyuan inkling internlm=interns1 iquest_q1 k2_horizon kimi_k2 kimi_k3 lfm2 llama3_json=llama3 minicpm5
    minimax_m2=minimax-m2 minimax_m3=minimax-m3 mistral_old=mistral muse_glimmer=muse pythonic qwen3_coder step3
    step3p5
""")
_READ_AGAIN = ("Hermes2ProToolParser", "Qwen25Detector")
"""Parsers that read all of the text again at each piece, as far as the benchmark of times asks."""
MARKERS = ("<tool_call>", "</tool_call>")
"""Single tokens of the models that write these syntaxes."""


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


class Vocabulary(dict[str, int]):
    """A tokenizer's table that has every marker a parser looks up: it becomes one token."""

    def __missing__(self, token: str) -> int:
        return self.setdefault(token, len(self))

    def get(self, token: str, _default: Any = None) -> int:
        return self[token]

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self[token] >= 0


class Tokens:
    """A tokenizer of a stream that is cut already.

    `cut` makes a token of each piece; a marker that the parser has looked up by then is one by itself.
    """

    all_special_tokens = all_special_ids = ()

    def __init__(self) -> None:
        self._vocabulary = Vocabulary()

    def get_vocab(self) -> Vocabulary:
        return self._vocabulary

    def convert_tokens_to_ids(self, token: str) -> int:
        return self._vocabulary[token]

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        texts = list(self._vocabulary)
        return "".join(texts[number] for number in ids)

    def cut(self, pieces: Sequence[str]) -> list[list[int]]:
        """The ids of each piece."""
        markers = sorted(self._vocabulary, key=len, reverse=True)
        split = re.compile("(" + "|".join(map(re.escape, markers)) + ")") if markers else re.compile("()^")
        return [[self._vocabulary[part] for part in split.split(piece) if part] for piece in pieces]


def _modules(package: str, root: Path, folder: str) -> set[str]:
    files = (path.relative_to(root).with_suffix("") for path in (root / folder).rglob("*.py"))
    return {".".join((package, *file.parts)) for file in files if file.name != "__init__"}


def _vllm(root: Path, version: str) -> list[Reader]:
    real = (
        {f"vllm.{name}" for name in _VLLM.split()}
        | _modules("vllm", root, "tool_parsers")
        | _modules("vllm", root, "parser")
    )
    table = _registered(root / "tool_parsers" / "__init__.py")
    classes = {}
    with alone(root, frozenset(real), ("torch", "xgrammar", "openai_harmony", "transformers", "mistral_common")):
        ids = importlib.import_module("vllm.renderers.chat_utils.tool_call")
        package: Any = importlib.import_module("vllm.renderers.chat_utils")  # which only hands these on
        package.make_tool_call_id, package.get_tool_call_id_type = ids.make_tool_call_id, ids.get_tool_call_id_type
        protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
        for syntax, theirs in _VLLM_PARSERS.items():
            if theirs in table:
                module, name = table[theirs]
                classes[syntax] = getattr(importlib.import_module(f"vllm.tool_parsers.{module}"), name)
    return [
        Reader(
            _name("vLLM", version, made), syntax, vllm_begin(made, protocol), vllm_merge, made.__name__ in _READ_AGAIN
        )
        for syntax, made in classes.items()
    ]


def _name(engine: str, version: str, made: type) -> str:
    return f"{engine} {version}'s {made.__name__}".replace(" '", "'")


def _registered(file: Path) -> dict[str, tuple[str, str]]:
    """vLLM's own table: module and class by the name that `--tool-call-parser` takes."""
    for node in ast.parse(file.read_text("utf-8")).body if file.is_file() else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "_TOOL_PARSERS_TO_REGISTER":
                table: dict[str, tuple[str, str]] = ast.literal_eval(node.value)
                return table
    raise ImportError("vLLM has no table of tool parsers where it was")


def vllm_begin(parser_class: Any, protocol: Any) -> Callable[[Sequence[str], Tools], Read]:
    """Drives `extract_tool_calls_streaming` as vLLM's server does, its sums of text and token ids included."""

    def begin(pieces: Sequence[str], tools: Tools) -> Read:
        offered = [protocol.ChatCompletionToolsParam(**tool) for tool in tools]
        request = protocol.ChatCompletionRequest(
            model="m", messages=[{"role": "user", "content": "?"}], tools=list(tools), tool_choice="auto", stream=True
        )
        tokens = Tokens()
        parser_class(tokens, offered)  # looks its markers up
        ids = tokens.cut(pieces)

        def read() -> list[Any]:
            parser = parser_class(tokens, offered)
            parse = parser.extract_tool_calls_streaming
            out = []
            if getattr(parser, "engine_based_streaming", False):  # such a parser keeps what came by itself
                for piece, new in zip(pieces, ids, strict=True):
                    out.append(parse("", piece, piece, [], new, new, request))
            else:
                text, known = "", list[int]()
                for piece, new in zip(pieces, ids, strict=True):
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
    real = {"sglang.srt.environ"} | _modules("sglang", root, "srt/function_call")
    real |= {"sglang.srt.parser.response_template"}
    with alone(root, frozenset(real), ("torch", "xgrammar", "transformers")):
        protocol: Any = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
        function = pydantic.create_model("Function", name=(str, ...), parameters=(Any, None), strict=(bool, False))
        protocol.Tool = pydantic.create_model("Tool", type=(str, "function"), function=(function, ...))
        found = importlib.import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
        classes = {ours: found.ToolCallParserEnum[theirs] for ours, theirs in _SGLANG_PARSERS.items()}
    return [
        Reader(
            _name("SGLang", version, made),
            syntax,
            sglang_begin(made, protocol),
            sglang_merge,
            made.__name__ in _READ_AGAIN,
        )
        for syntax, made in classes.items()
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
