"""The tag that ends a call, behind one that was begun without any: no content there, and text anywhere else."""

from __future__ import annotations

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet

from ..parsing.streams import alike, calls_in, shown_in

TOOLS = ToolSet.of([Tool("f")])
CALL = '{"name": "f", "arguments": {"x": 1}}'


def parts(format_name: str, text: str) -> tuple[str, int]:
    """(what is left as text, how many calls there are); the same however the text is cut."""
    events = alike(lambda: registry.get(format_name).parser(TOOLS, ParserOptions()), text)
    return shown_in(events), len(calls_in(events))


@pytest.mark.parametrize("name", ["auto", "json", "hermes", "llama3_json", "qwen3_coder"])
@pytest.mark.parametrize(
    ("text", "left", "calls"),
    [
        (f"{CALL}\n</tool_call>", "", 1),
        (f"{CALL}</tool_calls>\n", "", 1),
        (f"{CALL}\n</tool_call>\nDone.", "\nDone.", 1),
        (f"```json\n{CALL}\n```\n</tool_call>", "", 1),
        (f"{CALL}\n</tool_ca", "", 1),
    ],
)
def test_directly_behind_a_call_it_is_markup(name: str, text: str, left: str, calls: int) -> None:
    assert parts(name, text) == (left, calls)


@pytest.mark.parametrize("name", ["auto", "hermes"])
@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f"{CALL}\n</tool_call>\n<tool_call>{CALL}</tool_call>", 2),
        (f"<tool_call>{CALL}</tool_call></tool_call>", 1),
        (f"<tool_call>{CALL}</tool_call>\n</tool_calls>", 1),
    ],
)
def test_so_it_is_behind_one_with_both_tags(name: str, text: str, calls: int) -> None:
    assert parts(name, text) == ("", calls)


@pytest.mark.parametrize("name", ["auto", "json"])
@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("</tool_call>", 0),
        ("It ends with </tool_call>.", 0),
        ('{"name": "unknown", "arguments": {}}\n</tool_call>', 0),
        ('{"x": 1}\n</tool_call>', 0),
        ("```xml\n</tool_call>\n```", 0),
    ],
)
def test_elsewhere_it_is_text(name: str, text: str, calls: int) -> None:
    assert parts(name, text) == (text, calls)


def test_behind_a_call_and_text_it_is_text() -> None:
    assert parts("auto", f"{CALL}\nIt ends with </tool_call>.") == ("\nIt ends with </tool_call>.", 1)


# What ends the calls of a family, as its models are reported to write it twice, or without what opens it.
LAST = {
    "gemma4": "<tool_call|>",
    "functiongemma": "<end_function_call>",
    "lfm2": "<|tool_call_end|>",
    "kimi_k2": "<|tool_calls_section_end|>",
    "deepseek_v31": "<｜tool▁calls▁end｜>",
    "deepseek_v32": "</｜DSML｜function_calls>",
    "deepseek_v4": "</｜DSML｜tool_calls>",
    "deepseek_v41": "</｜DSML｜ calls>",
    "minimax_m2": "</minimax:tool_call>",
    "minimax_m3": "]<]minimax[>[</tool_call>",
    "seed_oss": "</seed:tool_call>",
    "longcat": "</longcat_tool_call>",
    "cohere_command3": "<|END_ACTION|>",
    "nemotron": "</TOOLCALL>",
    "apertus": "<|tools_suffix|>",
    "internlm": "<|action_end|>",
    "dots": "</dots_function_call>",
    "gigachat35": "</｜GCML｜tool_calls>",
    "k2_horizon": "</ifm|tool_calls>",
    "muse_glimmer": "</atem:function_calls>",
    "solar_open": "<|tool_call:end|>",
    "plamo3": "<|plamo:end_tool_requests:plamo|>",
    "iquest_q1": "</iquest_tool_call>",
    "mirothinker": "</use_mcp_tool>",
    "hy_v4": "</tool_calls:6124c78e>",
}


@pytest.mark.parametrize("reader", ["own", "auto"])
@pytest.mark.parametrize("name", LAST)
def test_what_ends_a_familys_calls_may_come_twice(name: str, reader: str) -> None:
    call = registry.get(name).render_calls([ToolCall(id="call_1", name="f", arguments='{"x": 1}')]).rstrip()
    assert call.endswith(LAST[name])
    assert parts(name if reader == "own" else "auto", f"{call}\n{LAST[name]}") == ("", 1)


@pytest.mark.parametrize("name", ["deepseek_v32", "deepseek_v4", "deepseek_v41"])
def test_what_opens_the_calls_may_be_missing(name: str) -> None:
    call = registry.get(name).render_calls([ToolCall(id="call_1", name="f", arguments='{"x": 1}')])
    assert parts(name, call.split("\n", 1)[1]) == ("", 1)
    assert parts("auto", call.split("\n", 1)[1]) == ("", 1)


@pytest.mark.parametrize("last", LAST.values())
def test_without_a_call_that_is_text(last: str) -> None:
    assert parts("auto", f"It ends with {last} there.") == (f"It ends with {last} there.", 0)


@pytest.mark.parametrize("name", ["auto", "minimax_m3"])
def test_a_plain_answer_may_end_with_what_ends_minimaxs_calls(name: str) -> None:
    assert parts(name, "All is done.]<]minimax[>[</tool_call>") == ("All is done.", 0)
    assert parts(name, "All is done.\n]<]minimax[>[</tool_call>\n") == ("All is done.\n", 0)
