"""Calls whose name is outside of the JSON: what must follow a name for it to be a call."""

from __future__ import annotations

from typing import Any

import pytest

from toolcall_middleware import read_calls

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {}}}}}
]
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash"
KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"


@pytest.mark.parametrize(
    ("format_name", "opening"),
    [
        ("mistral_v11", "[TOOL_CALLS]bash[ARGS]"),
        ("mistral_v11", "[TOOL_CALLS]bash[CALL_ID]abc[ARGS]"),
        ("deepseek_v3", DEEPSEEK),
        ("kimi_k2", KIMI),
        ("functionary_v31", "<function=bash>"),
    ],
)
@pytest.mark.parametrize(
    "words", [" first, then JSON.", " and so on", ", then\nmore.", " (see the docs)", " now not null"]
)
def test_a_mention_is_text(format_name: str, opening: str, words: str) -> None:
    text = f"The parser wants {opening}{words}"
    for name in (format_name, "auto"):
        for pieces in (text, list(text)):
            answer = read_calls(pieces, TOOLS, format=name)
            assert (answer.text, answer.calls) == (text, [])


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        ("mistral_v11", "[TOOL_CALLS]bash[ARGS]"),
        ("mistral_v11", "[TOOL_CALLS]bash[ARGS]null"),
        ("mistral_v11", "[TOOL_CALLS]bash[ARGS] {}"),
        ("deepseek_v3", f"{DEEPSEEK}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        ("kimi_k2", f"{KIMI}<|tool_call_end|><|tool_calls_section_end|>"),
        ("functionary_v31", "<function=bash></function>"),
    ],
)
def test_a_name_without_arguments_is_a_call_where_nothing_or_markup_follows(format_name: str, text: str) -> None:
    for pieces in (text, list(text)):
        answer = read_calls(pieces, TOOLS, format=format_name)
        assert (answer.text, [(call.name, call.arguments) for call in answer.calls]) == ("", [("bash", "{}")])


def test_a_name_is_cut_where_the_model_was() -> None:
    (call,) = read_calls("[TOOL_CALLS]bash[ARGS]", TOOLS, format="mistral_v11", cut=True).calls
    assert not call.complete


def test_text_after_a_call_is_kept() -> None:
    text = '[TOOL_CALLS]bash[ARGS]{"command": "ls"}and so on'
    for pieces in (text, list(text)):
        answer = read_calls(pieces, TOOLS, format="mistral_v11")
        assert (answer.text, len(answer.calls)) == ("and so on", 1)


def offered(*names: str) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"url": {"type": "string"}}}
    return [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        ("pythonic", '[2fa_send(url="x")]'),
        ("llama4_pythonic", '<|python_start|>[2fa_send(url="x")]<|python_end|>'),
        ("olmo3", '<function_calls>2fa_send(url="x")</function_calls>'),
        ("lfm2", '<|tool_call_start|>[2fa_send(url="x")]<|tool_call_end|>'),
        ("llama3_json", '<|python_tag|>2fa_send(url="x")'),
        ("tool_code", '```tool_code\n2fa_send(url="x")\n```'),
    ],
)
def test_a_name_may_begin_with_a_digit(format_name: str, text: str) -> None:
    for name in (format_name, "auto"):
        for pieces in (text, list(text)):
            answer = read_calls(pieces, offered("2fa_send"), format=name)
            calls = [(call.name, call.decoded()) for call in answer.calls]
            assert (answer.text, calls) == ("", [("2fa_send", {"url": "x"})]), name


def test_numbers_in_brackets_are_text() -> None:
    for text in ("[2, 3]", "[2", "[12(", "[1] and [2fa_other(x=1)]"):
        for pieces in (text, list(text)):
            answer = read_calls(pieces, offered("2fa_send"), format="pythonic")
            assert (answer.text, answer.calls) == (text, [])


def test_gemma_may_write_namespaces_before_a_name() -> None:
    text = "<|tool_call>call:google:mcp:text_generation:create-pdf{url:'a, and {b}'}<tool_call|>"
    for name in ("gemma4", "auto"):
        for pieces in (text, list(text)):
            answer = read_calls(pieces, offered("create-pdf"), format=name)
            assert [(call.name, call.decoded()) for call in answer.calls] == [("create-pdf", {"url": "a, and {b}"})]


def test_llama_4_may_write_text_before_its_list() -> None:
    text = 'I need the page first.\n\n[2fa_send(url="x"), other(url="y")]'
    for model, name in (("", "llama4_pythonic"), ("Llama-4-Scout-17B", "auto")):
        for pieces in (text, list(text)):
            answer = read_calls(pieces, offered("2fa_send", "other"), format=name, model=model)
            assert (answer.text.strip(), len(answer.calls)) == ("I need the page first.", 2)
    data = "The list:\n[other(url=1) for other in others]\nis long."
    assert read_calls(data, offered("other"), format="llama4_pythonic").text == data
