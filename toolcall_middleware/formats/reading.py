"""What formats share when they read: reasoning tags, the beginnings of somebody else's turn, bare JSON calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..model import ToolSet
from ..parsing.calls.json_calls import JsonCalls
from ..parsing.calls.json_syntax import JsonCallSyntax
from ..parsing.text.grammar import Grammar, Opener, Where, beginnings
from ..parsing.text.scanner import Scanner
from .base import ParserOptions, StreamParser

# How models write down what they think: opening and closing tag.
REASONING: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),  # DeepSeek R1, Qwen 3, GLM, MiniMax and most others
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<seed:think>", "</seed:think>"),  # Seed OSS
    ("◁think▷", "◁/think▷"),  # Kimi VL
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Cohere
    ("<longcat_think>", "</longcat_think>"),  # LongCat
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<think:opensource>", "</think:opensource>"),  # Hunyuan 3
    ("<mm:think>", "</mm:think>"),  # MiniMax M3
    ("<|think:start|>", "<|think:end|>"),  # Solar Open 2
)

# What a model writes when it goes on with the tool's or the user's part after its own calls.
STOPS: tuple[str, ...] = (
    "<tool_response>",
    "<tool_result ",
    "<tool_result>",
    "<tool_results>",
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<|user|>",
    "<|observation|>",
    "[TOOL_RESULTS]",
    "[INST]",
    "<TOOL_RESPONSE>",
    "<|START_TOOL_RESULT|>",
    "<|start_of_role|>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁output▁begin｜>",
    "<｜User｜>",
    "<tool_output>",  # ERNIE
    "<function_response>",  # Granite 20B
    "<function_results>",  # DeepSeek V3.2
    "<|tool_response_start|>",  # LFM2
    "<|header_start|>",  # Llama 4
    "<start_function_response>",  # FunctionGemma
    "<|tool_response>",  # Gemma 4
    "<|turn>",
    "<|start|>user",  # harmony
    "<|start|>functions.",
    "<|start|>tool ",  # Muse Glimmer
    "<|message_user|>",  # Inkling
    "<|message_tool|>",
    "]~b]",  # MiniMax
    "<tool_responses:opensource>",  # Hunyuan 3
    "<tool_responses>",
    "<|open|>message",  # Kimi K3
)

_BARE = JsonCallSyntax(bare=True, wrapper="tool_calls")
_WRAPPED = JsonCallSyntax(bare=True, wrapper="tool_calls", wrapper_only=True)

# Markers around plain answers: never content.
NOISE: tuple[str, ...] = ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>")

# What ends a turn: no content at the end of an answer.
ENDS: tuple[str, ...] = (
    "<|im_end|>",
    "</s>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<turn|>",
    "<eos>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "<|return|>",
    "<|end|>",
    "<seed:eos>",
    "<|eos|>",
    "<|end_of_sentence|>",
    "<|assistant_end|>",
    "</longcat_s>",
    "<SPECIAL_12>",
    "[e~[",
    "<|role_end|>",  # Ling 3
    "<|end_of_msg|>",  # Kimi K3
)

# A call that is the whole answer, without any marker: what small models write under every prompt.
BARE_JSON: tuple[Opener, ...] = (
    Opener(marker="{", where=Where.START, consume=False, body=lambda sink, _: JsonCalls(sink, _BARE)),
    Opener(marker="[", where=Where.START, consume=False, body=lambda sink, _: JsonCalls(sink, _BARE)),
)


# `{"tool_calls":`, alone, between text, or first in a block marked as JSON.
WRAPPED_JSON = Opener(
    pattern=r"\{[ \t\r\n]{0,32}[\"']tool_calls[\"'][ \t\r\n]{0,32}:",
    partial=beginnings("{", '"tool_calls"', ":").replace('"', "[\"']"),
    consume=False,
    body=lambda sink, context: JsonCalls(sink, _BARE if context.at_start else _WRAPPED),
    fences=frozenset({"json", "tool_call", "tool_calls"}),
    not_behind=('":', "=", "(", "["),  # a message within a JSON document, or code
)

# What every format reads besides its own syntax: the block that stands for calls that its syntax cannot write, and a
# call in JSON that is the whole answer.
ANY_JSON: tuple[Opener, ...] = (WRAPPED_JSON, *BARE_JSON)


def tagged_json(marker: str, close: str) -> Opener:
    """Calls as JSON objects between two markers."""
    syntax = JsonCallSyntax(close=(close,))
    return Opener(marker=marker, body=lambda sink, _: JsonCalls(sink, syntax))


def scanner(openers: tuple[Opener, ...], tools: ToolSet | None, options: ParserOptions) -> StreamParser:
    """A parser that recognises `openers`. Without `tools` any name can be called."""
    return Scanner(
        Grammar(openers, REASONING, STOPS, NOISE, ENDS),
        _offered(tools),
        _schema(tools),
        unknown_tool=options.unknown_tool,
        parse_reasoning=options.parse_reasoning,
        keep_raw=options.keep_raw,
        keep_complete=options.keep_complete,
    )


def _offered(tools: ToolSet | None) -> Callable[[str], bool]:
    if tools is None:
        return bool
    return tools.by_name.__contains__


def _schema(tools: ToolSet | None) -> Callable[[str], Mapping[str, Any] | None]:
    if tools is None:
        return lambda _name: None

    def schema(name: str) -> Mapping[str, Any] | None:
        tool = tools.by_name.get(name)
        return None if tool is None else tool.parameters

    return schema
