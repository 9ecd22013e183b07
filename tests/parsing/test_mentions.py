"""What must follow a marker, and a name, for it to be a call: in every JSON family, and where the name is outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from toolcall_middleware import read_calls
from toolcall_middleware.formats import markup, registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.family import Family
from toolcall_middleware.formats.syntax.json import Json
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs


def offered(key: str, *names: str) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {key: {}}}
    return [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]


BASH = offered("command", "bash")
MARKERS = {
    family.name: family.calls.marker + ("[" if family.calls.marker.isalpha() else "")
    for family in markup.families()
    if isinstance(family, Family) and isinstance(family.calls, Json) and family.calls.marker
    if family.name != "json"  # its marker is the beginning of its JSON, which prose does not mention
}
ARGUMENTS = '{"command": "ls"}'
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash"
KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"


def answer(
    text: str, name: str, tools: Sequence[dict[str, Any]] = BASH, **options: Any
) -> tuple[str, list[tuple[str, str]]]:
    """The text, and the calls with their arguments; the same in one piece and in characters, or it fails."""
    found = []
    for pieces in (text, list(text)):
        read = read_calls(pieces, tools, format=name, **options)
        found.append((read.text, [(call.name, call.arguments) for call in read.calls]))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            (name, marker + words)
            for name, marker in MARKERS.items()
            for words in (
                " first, then JSON.",
                "\n\nis the marker.",
                '{"name": ...} and so on',
                '{"name": "bash", then the arguments follow.',
                '{"name": "bash"} is what it needs',
                '{"name": "bash", "arguments": ...} to call it.',
                '{"command": "ls"} is no call',
            )
        ),
        *(
            (name, opening + words)
            for name, opening in (
                ("mistral_v11", "[TOOL_CALLS]bash[ARGS]"),
                ("mistral_v11", "[TOOL_CALLS]bash[CALL_ID]abc[ARGS]"),
                ("deepseek_v3", DEEPSEEK),
                ("kimi_k2", KIMI),
                ("functionary_v31", "<function=bash>"),
            )
            for words in (" first, then JSON.", " and so on", ", then\nmore.", " (see the docs)", " now not null")
        ),
        ("deepseek_v3", "<|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>bash and then JSON."),
        ("gemma4", "<|channel> and a label."),
        ("gemma4", "<channel|> at the end."),
        ("mistral_old", "[/TOOL_CALLS] at the end."),
        ("lfm2", "<|tool_call_start|><|tool_call_start|> twice."),
    ],
)
def test_a_mention_is_text(name: str, text: str) -> None:
    text = f"The parser wants {text}"
    assert answer(text, name) == answer(text, "auto") == (text, [])


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        *(
            (name, f'{marker}{{"name": "bash"}}{after}', after.strip())
            for name, marker in MARKERS.items()
            for after in ("", "\n", "\nDone.", " ")
        ),
        ("mistral_v11", "[TOOL_CALLS]bash[ARGS]", ""),
        ("mistral_v11", "[TOOL_CALLS]bash[ARGS]null", ""),
        ("mistral_v11", "[TOOL_CALLS]bash[ARGS] {}", ""),
        ("deepseek_v3", f"{DEEPSEEK}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", ""),
        ("kimi_k2", f"{KIMI}<|tool_call_end|><|tool_calls_section_end|>", ""),
        ("functionary_v31", "<function=bash></function>", ""),
    ],
)
def test_a_name_without_arguments_is_a_call_where_no_prose_follows_on_its_line(name: str, text: str, left: str) -> None:
    shown, calls = answer(text, name)
    assert (shown.strip(), calls) == (left, [("bash", "{}")])
    if name not in MARKERS:
        assert shown == ""


def test_a_call_that_breaks_before_its_arguments_is_a_call_where_its_closing_marker_follows() -> None:
    shown, calls = answer('<tool_call>\n{"name": "bash", "arguments" {{\n</tool_call>', "hermes")
    assert (shown, [name for name, _ in calls]) == ("", ["bash"])


def test_a_name_is_cut_where_the_model_was() -> None:
    (call,) = read_calls("[TOOL_CALLS]bash[ARGS]", BASH, format="mistral_v11", cut=True).calls
    assert not call.complete


def test_text_after_a_call_is_kept() -> None:
    text = f"[TOOL_CALLS]bash[ARGS]{ARGUMENTS}and so on"
    assert answer(text, "mistral_v11") == ("and so on", [("bash", ARGUMENTS)])


@pytest.mark.parametrize("name", ["auto", "json", "hermes", "qwen3_coder", "llama3_json", "gemma4", "glm45"])
def test_a_call_as_agents_show_it_is_read(name: str) -> None:
    shown, calls = answer(f"Well. [Calling tool: bash({ARGUMENTS})]", name)
    assert (shown.strip(), calls) == ("Well.", [("bash", ARGUMENTS)])


@pytest.mark.parametrize("shown", ["bash", "bash]", "nope({})]", "bash(ls)]", 'bash "x"]'])
def test_what_only_looks_like_it_is_text(shown: str) -> None:
    text = f"So [Calling tool: {shown} it says."
    assert answer(text, "auto") == (text, [])


# -- names in Python's and Gemma's syntax ------------------------------------------------------------------------------

URL = '{"url": "x"}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pythonic", '[2fa_send(url="x")]'),
        ("llama4_pythonic", '<|python_start|>[2fa_send(url="x")]<|python_end|>'),
        ("olmo3", '<function_calls>2fa_send(url="x")</function_calls>'),
        ("lfm2", '<|tool_call_start|>[2fa_send(url="x")]<|tool_call_end|>'),
        ("llama3_json", '<|python_tag|>2fa_send(url="x")'),
        ("tool_code", '```tool_code\n2fa_send(url="x")\n```'),
    ],
)
def test_a_name_may_begin_with_a_digit(name: str, text: str) -> None:
    tools = offered("url", "2fa_send")
    assert answer(text, name, tools) == answer(text, "auto", tools) == ("", [("2fa_send", URL)])


@pytest.mark.parametrize("text", ["[2, 3]", "[2", "[12(", "[1] and [2fa_other(x=1)]"])
def test_numbers_in_brackets_are_text(text: str) -> None:
    assert answer(text, "pythonic", offered("url", "2fa_send")) == (text, [])


def test_gemma_may_write_namespaces_before_a_name() -> None:
    text = "<|tool_call>call:google:mcp:text_generation:create-pdf{url:'a, and {b}'}<tool_call|>"
    for name in ("gemma4", "auto"):
        _, calls = answer(text, name, offered("url", "create-pdf"))
        assert calls == [("create-pdf", '{"url": "a, and {b}"}')]


def test_llama_4_may_write_text_before_its_list() -> None:
    text = 'I need the page first.\n\n[2fa_send(url="x"), other(url="y")]'
    for model, name in (("", "llama4_pythonic"), ("Llama-4-Scout-17B", "auto")):
        shown, calls = answer(text, name, offered("url", "2fa_send", "other"), model=model)
        assert (shown.strip(), len(calls)) == ("I need the page first.", 2)
    data = "The list:\n[other(url=1) for other in others]\nis long."
    assert answer(data, "llama4_pythonic", offered("url", "other"))[0] == data


def test_a_member_that_is_too_long_to_be_held_is_no_argument() -> None:
    """Its end alone would be no JSON."""
    tools = ToolSet.of([Tool("f", "", {"type": "object", "properties": {"city": {"type": "string"}}})])
    parser = registry.get("hermes").parser(tools, ParserOptions())
    long = "x" * ((1 << 20) + 5000)
    text = f'<tool_call>{{"name": "f", "city": "{long}"}}</tool_call>'
    events = [event for i in range(0, len(text), 4096) for event in parser.feed(text[i : i + 4096])]
    events += parser.finish()
    assert "".join(event.text for event in events if isinstance(event, CallArgs)) == "{}"
