"""What every family of tags with slots does alike: mentions, values that hold tags, elements that are no JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet

from .streams import calls_in, cut_at, read, text_in

STRING = {"type": "string"}
PROPERTIES = {"command": STRING, "list": {"type": "array"}, "obj": {"type": "object"}}
TOOLS = ToolSet.of(
    [
        Tool("bash", "", {"type": "object", "properties": PROPERTIES, "required": ["command"]}),
        Tool("clock", "", {"type": "object", "properties": {}}),
        Tool("write_file", "", {"type": "object", "properties": {"path": STRING, "content": STRING}}),
    ]
)

# What opens the calls, opens a call, is a slot (its closing tag behind the last hole), closes a call, closes the calls.
FAMILIES = {
    "qwen3_coder": ("<tool_call>\n", "<function={}>\n", "<parameter={}>\n{}\n</parameter>\n", "</function>", "\n</tool_call>"),
    "seed_oss": ("<seed:tool_call>\n", "<function={}>\n", "<parameter={}>{}</parameter>\n", "</function>", "\n</seed:tool_call>"),
    "minicpm5": ("", '<function name="{}">', '<param name="{}">{}</param>', "</function>", ""),
    "deepseek_v32": ("<｜DSML｜function_calls>\n", '<｜DSML｜invoke name="{}">\n', '<｜DSML｜parameter name="{}">{}</｜DSML｜parameter>\n', "</｜DSML｜invoke>", "\n</｜DSML｜function_calls>"),
    "gigachat35": ("<｜GCML｜tool_calls>\n", '<｜GCML｜invoke name="{}">\n', '<｜GCML｜parameter name="{}">{}</｜GCML｜parameter>\n', "</｜GCML｜invoke>", "\n</｜GCML｜tool_calls>"),
    "minimax_m2": ("<minimax:tool_call>\n", '<invoke name="{}">\n', '<parameter name="{}">{}</parameter>\n', "</invoke>", "\n</minimax:tool_call>"),
    "dots": ("<dots_function_call>\n", '<invoke name="{}">\n', '<parameter name="{}">{}</parameter>\n', "</invoke>", "\n</dots_function_call>"),
    "step3": ("<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜>", '<steptml:invoke name="{}">', '<steptml:parameter name="{}">{}</steptml:parameter>', "</steptml:invoke><｜tool_call_end｜>", "\n<｜tool_calls_end｜>"),
    "glm45": ("<tool_call>", "{}\n", "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n", "", "</tool_call>"),
    "glm47": ("<tool_call>", "{}", "<arg_key>{}</arg_key><arg_value>{}</arg_value>", "", "</tool_call>"),
    "longcat": ("<longcat_tool_call>", "{}", "<longcat_arg_key>{}</longcat_arg_key><longcat_arg_value>{}</longcat_arg_value>", "", "</longcat_tool_call>"),
    "iquest_q1": ("<iquest_tool_call>", "{}", "<arg_key>{}</arg_key><arg_value>{}</arg_value>", "", "</iquest_tool_call>"),
    "hy_v3": ("<tool_calls>\n", "<tool_call>{}<tool_sep>\n", "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n", "</tool_call>", "\n</tool_calls>"),
    "k2_horizon": ("<ifm|tool_calls>", "<ifm|tool_call>{}", "<ifm|arg_key>{}</ifm|arg_key><ifm|arg_value>{}</ifm|arg_value>", "</ifm|tool_call>", "</ifm|tool_calls>"),
    "kimi_k3": ("<|open|>tools<|sep|>", '<|open|>call tool="{}" index="1"<|sep|>', '<|open|>argument key="{}"<|sep|>{}<|close|>argument<|sep|>', "<|close|>call<|sep|>", "<|close|>tools<|sep|>"),
    "solar_open2": ("", "<|tool_call:start|>{}\n", "<|tool_arg:start|>{}<|tool_arg:value|>{}<|tool_arg:end|>\n", "<|tool_call:end|>", ""),
}  # fmt: skip
Read = tuple[list[tuple[str, Any]], str]


def call(family: str, name: str, **values: str) -> str:
    opening, head, slot, end, closing = FAMILIES[family]
    slots = "".join(slot.format(key, value) for key, value in values.items())
    return opening + head.format(name) + slots + end + closing


def reads(family: str, text: str) -> Read:
    """The calls and the text, which are the same however the text is cut."""
    found: Read | None = None
    for name in (family, "auto"):
        for size in (len(text), 1, 2, 3, 5, 7, 40):
            pieces = cut_at(text, range(size, len(text), size))
            events = read(registry.get(name).parser(TOOLS, ParserOptions()), pieces)
            calls = [(call.name, json.loads(call.arguments)) for call in calls_in(events)]
            assert found is None or found == (calls, text_in(events)), (name, size)
            found = calls, text_in(events)
    assert found is not None
    return found


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize(
    "around", ["Use {} to run it.\nAnd more.", "The parser wants {} first, then parameters.", "A bare {} is not enough"]
)
def test_a_mention_is_text(family: str, around: str) -> None:
    opening, head = FAMILIES[family][:2]
    for mention in (head.format("bash").strip(), (opening + head.format("bash")).strip()):
        text = around.format(mention)
        assert reads(family, text) == ([], text)


def test_a_call_behind_a_mention_is_read(family: str) -> None:
    text = f"I write {FAMILIES[family][1].format('bash').strip()} now.\n\n"
    assert reads(family, text + call(family, "bash", command="ls")) == ([("bash", {"command": "ls"})], text)


@pytest.mark.parametrize(
    ("key", "value"), [("list", "[urgent] fix the login"), ("obj", "{name} is late"), ("list", '["a", "b')]
)
def test_what_is_no_json_to_its_end_is_the_raw_string(family: str, key: str, value: str) -> None:
    text = call(family, "bash", command="ls", **{key: value})
    assert reads(family, text) == ([("bash", {"command": "ls", key: value})], "")


@pytest.mark.parametrize("around", ["a {} b", 'echo "{}" done'])
def test_a_value_may_hold_its_own_closing_tag(family: str, around: str) -> None:
    closing = FAMILIES[family][2].rpartition("{}")[2].strip()
    value = around.format(closing)
    assert reads(family, call(family, "bash", command=value)) == ([("bash", {"command": value})], "")


def test_a_value_may_end_in_a_slot(family: str) -> None:
    value = "Write:\n" + FAMILIES[family][2].format("command", "/x").strip()
    read = ("write_file", {"path": "a", "content": value})
    assert reads(family, call(family, "write_file", path="a", content=value)) == ([read], "")


@pytest.mark.parametrize("values", [{}, {"command": "/x"}], ids=["clock", "bash"])
def test_a_value_may_quote_a_whole_call(family: str, values: dict[str, str]) -> None:
    value = f"Write:\n{call(family, 'bash' if values else 'clock', **values).strip()}\nand wait."
    read = ("write_file", {"path": "a", "content": value})
    assert reads(family, call(family, "write_file", path="a", content=value)) == ([read], "")


def test_a_call_without_arguments_is_read(family: str) -> None:
    assert reads(family, call(family, "clock")) == ([("clock", {})], "")


def test_a_call_that_ends_in_the_first_slots_tag_is_cut(family: str) -> None:
    opening, head, slot, *_ = FAMILIES[family]
    begun = slot[: slot.index("{}")] + "comm"
    text = opening + head.format("bash") + begun
    (found,) = calls_in(read(registry.get(family).parser(TOOLS, ParserOptions()), [text]))
    assert not found.complete
