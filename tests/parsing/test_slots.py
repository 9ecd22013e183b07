"""What every family of tags with slots does alike: mentions, values that hold tags, elements that are no JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import Text

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


QWEN = "<tool_call>\n<function=bash>\n<parameter=command>\nls\n{}\n</tool_call>"
DSML = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="bash">\n<｜DSML｜parameter name="command" string="true">ls{}'
BASH = [("bash", {"command": "ls"})]
DAMAGED = [
    ("qwen3_coder", QWEN.format(closers))
    for closers in (
        "</parameter/>\n</function>", "</parameter1>\n</function>", "</parameter\n</function>", "</parameter_function>",
        "</command>\n</function>", "</parameters>\n</function>", "</parameter >\n</function>",
    )
] + [
    ("qwen3_coder", "<tool_call>\n<function=bash>\n<parameter=command\nls\n</parameter>\n</function>\n</tool_call>"),
] + [
    ("deepseek_v4", DSML.format(closers))
    for closers in (
        "</｜｜DSML｜｜parameter>\n</｜｜DSML｜｜invoke>\n</｜｜DSML｜｜tool_calls>", "</parameter>\n</invoke>\n</tool_calls>",
        "</|DSML|parameter>\n</|DSML|invoke>\n</|DSML|tool_calls>", "</DSML｜parameter>\n</DSML｜invoke>\n</DSML｜tool_calls>",
        "</｜DSML｜parameter\n</｜DSML｜invoke\n</｜DSML｜tool_calls>", "</｜DSML｜parameter>\n</｜DSML｜invoke\n</｜DSML｜tool_calls",
        "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ tool_calls>",
    )
]  # fmt: skip


@pytest.mark.parametrize(("family", "text"), DAMAGED)
def test_a_damaged_tag_is_no_part_of_a_value(family: str, text: str) -> None:
    assert reads(family, text) == (BASH, "")


@pytest.mark.parametrize("close", ["</parameter>\n</function>", "</function>"])
def test_a_value_in_the_tag_of_its_own_key_stays(close: str) -> None:
    text = f"<tool_call>\n<function=bash>\n<parameter=command>\n<command>ls</command>\n{close}\n</tool_call>"
    assert reads("qwen3_coder", text) == ([("bash", {"command": "<command>ls</command>"})], "")


JSON = '{"command": "ls"}'
KIMI_CALL = f"<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{JSON}<|tool_call_end|>"
DEEPSEEK_CALL = f"<｜tool▁call▁begin｜>bash<｜tool▁sep｜>{JSON}<｜tool▁call▁end｜>"
OPENINGS = [
    ("qwen3_coder", "<bash>\n<parameter=command>\nls\n</parameter>\n</bash>"),
    ("qwen3_coder", "<bash>\n<parameter=command>\nls\n</parameter>\n</function>"),
    ("qwen3_coder", "<tool_call>\n<bash>\n<parameter=command>\nls\n</parameter>\n</bash>\n</tool_call>"),
    ("qwen3_coder", f"<bash>{JSON}</bash>"),
    ("glm47", f"<bash>\n{JSON}\n</bash>"),
    ("minimax_m2", f"<bash>{JSON}</bash>"),
    ("qwen3_coder", f'<tool_call>\n{{"name": "bash", "arguments": {JSON}}}\n</tool_call>'),
    ("glm47", f'<tool_call>{{"name": "bash", "arguments": {JSON}}}</tool_call>'),
    ("glm47", "bash<arg_key>command</arg_key><arg_value>ls</arg_value></tool_call>"),
    ("glm45", "bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>"),
    ("glm45", "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call></role>"),
    (
        "deepseek_v32",
        '<|DSML|function_calls>\n<|DSML|invoke name="bash">\n<|DSML|parameter name="command">ls</|DSML|parameter>\n</|DSML|invoke>\n</|DSML|function_calls>',
    ),
    (
        "minimax_m2",
        '<function_calls></function_calls>\n<minimax:tool_call><invoke name="bash"><parameter name="command">ls</parameter></invoke></minimax:tool_call>',
    ),
    (
        "minimax_m3",
        '<minimax:tool_call>\n]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="bash">]<]minimax[>[<command>ls]<]minimax[>[</command>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>\n</minimax:tool_call>',
    ),
    ("mistral_old", f'[TOOL_CALLS] [{{"name": "bash", "arguments": {JSON}}}] [/TOOL_CALLS]'),
    ("mistral_v11", f"[TOOL_CALLS]bash[ARGS]{JSON}[/TOOL_CALLS]\n"),
    ("lfm2", '<|tool_call_start|>\n<|tool_call_start|>[bash(command="ls")]<|tool_call_end|>'),
    ("gemma4", '<|channel>\n<|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|>'),
    ("gemma4", '<|channel>\n<channel|><|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|>'),
    ("gemma4", '<|channel>\nI list it.\n<channel|><|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|>'),
    ("gemma4", '<|channel><channel|><|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|>'),
    ("gemma4", '<|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|><channel|>\n'),
    ("gemma4", '<|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|><|channel>'),
    (
        "deepseek_v3",
        f"<|tool▁calls▁begin|><|tool▁call▁begin|>function<|tool▁sep|>bash\n```json\n{JSON}\n```<|tool▁call▁end|><|tool▁calls▁end|>",
    ),
    (
        "deepseek_v31",
        f"<|tool_calls_begin|><|tool_call_begin|>bash<|tool_sep|>{JSON}<|tool_call_end|><|tool_calls_end|>",
    ),
]


MARKERS = [
    ("hermes", "<tool_call>", f'\n{{"name": "bash", "arguments": {JSON}}}\n', "</tool_call>"),
    ("glm47", "<tool_call>", "bash<arg_key>command</arg_key><arg_value>ls</arg_value>", "</tool_call>"),
    ("lfm2", "<|tool_call_start|>", '[bash(command="ls")]', "<|tool_call_end|>"),
    ("mistral_old", "[TOOL_CALLS]", f' [{{"name": "bash", "arguments": {JSON}}}]', "[/TOOL_CALLS]"),
    ("gemma4", "<|tool_call>", 'call:bash{command:<|"|>ls<|"|>}', "<tool_call|>"),
    ("kimi_k2", "<|tool_calls_section_begin|>", KIMI_CALL, "<|tool_calls_section_end|>"),
    ("deepseek_v31", "<｜tool▁calls▁begin｜>", DEEPSEEK_CALL, "<｜tool▁calls▁end｜>"),
]


@pytest.mark.parametrize(("family", "opening", "call", "close"), MARKERS)
@pytest.mark.parametrize("gap", ["", "\n"])
def test_a_lone_marker_beside_a_call_is_markup(family: str, opening: str, call: str, close: str, gap: str) -> None:
    text = opening + call + close
    for beside in (opening + gap + text, text + gap + opening, text + gap + close):
        assert reads(family, beside) == (BASH, "")
        assert reads(family, f"So: {beside}") == (BASH, "So: ")
    assert reads(family, close + gap + text)[0] == BASH
    fenced = reads(family, f"```json\n{text}\n```")
    assert reads(family, f"```json\n{opening + gap + text}\n```") == fenced
    assert fenced[0] == BASH
    assert reads(family, f"```json\n{opening * 40}\n```") == ([], f"```json\n{opening * 40}\n```")


@pytest.mark.parametrize(("family", "opening", "call", "close"), MARKERS)
def test_a_lone_marker_beside_text_is_text(family: str, opening: str, call: str, close: str) -> None:
    text = opening + call + close
    for marker in (opening, close):
        for mention in (marker, f"{marker} is a marker.", f"The marker is {marker}", f"It is {marker}\n\nYes."):
            assert reads(family, mention) == ([], mention)
    for mention in (f"{opening} opens a call.", f"So write {opening}", f"So {close}\n{close}", f"So {close}\n{close}."):
        assert reads(family, f"{text}\n{mention}") == (BASH, f"\n{mention}")


def test_a_lone_marker_is_text_before_a_thought_and_before_another_turn() -> None:
    text = f'<tool_call>\n{{"name": "bash", "arguments": {JSON}}}\n</tool_call>'
    assert reads("hermes", "Write </tool_call><think> there.") == ([], "Write </tool_call><think> there.")
    assert reads("hermes", "So </tool_call>\n<think>Hm.</think>") == ([], "So </tool_call>\n")
    assert reads("hermes", "</tool_call><think> there.") == ([], "</tool_call><think> there.")
    assert reads("hermes", f"</tool_call>```\n{text}") == (BASH, "</tool_call>```\n")
    assert reads("hermes", f"{text} So </tool_call><|im_start|>user") == (BASH, " So </tool_call>")
    assert reads("hermes", f"{text} So </tool_call></tool") == (BASH, " So </tool_call></tool")
    many = f" So {'</tool_call>' * 1500}"
    parser = registry.get("hermes").parser(TOOLS, ParserOptions())
    assert text_in(read(parser, [text, many[:99], many[99:]])) == many


@pytest.mark.parametrize(("family", "text"), OPENINGS)
def test_other_openings_are_read(family: str, text: str) -> None:
    calls, content = reads(family, text)
    assert (calls, content.strip()) == (BASH, "")


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("olmo3", "Hello.\n<function_calls></function_calls>"),
        ("deepseek_v32", "Hello.\n<｜DSML｜function_calls>\n</｜DSML｜function_calls>"),
    ],
)
def test_empty_markup_is_no_text(family: str, text: str) -> None:
    calls, content = reads(family, text)
    assert (calls, content.strip()) == ([], "Hello.")


def test_the_first_words_of_an_answer_are_one_event() -> None:
    assert [
        event.text
        for event in registry.get("auto").parser(TOOLS, ParserOptions()).feed("word 0 ")
        if isinstance(event, Text)
    ] == ["word 0 "]


def test_a_word_of_prose_is_held_only_where_it_may_be_a_tool() -> None:
    scanner = registry.get("auto").parser(TOOLS, ParserOptions())
    assert text_in(scanner.feed("The")) == "The"
    scanner = registry.get("auto").parser(TOOLS, ParserOptions())
    assert text_in(scanner.feed("bash")) == ""
    assert text_in(scanner.feed(" is")) == "bash is"


@pytest.mark.parametrize(
    "text", ["foo<arg_key>a</arg_key>", "Use bash<arg_key>command</arg_key>", "<bash> is a shell", "<bash></bash>"]
)
def test_what_opens_no_call_is_text(text: str) -> None:
    assert reads("glm47", text) == ([], text)


def test_a_key_may_hold_an_angle_bracket() -> None:
    reader = registry.get("glm45").parser(ToolSet.of([Tool("f", "", {})]), ParserOptions())
    (found,) = calls_in(read(reader, ["<tool_call>f\n<arg_key>a<b</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"]))
    assert json.loads(found.arguments) == {"a<b": 1}


def test_a_tag_may_be_a_name_that_begins_with_a_digit() -> None:
    reader = registry.get("tool_tags").parser(ToolSet.of([Tool("2fa", "", {})]), ParserOptions())
    (found,) = calls_in(read(reader, ["<2fa>\n<code>1</code>\n</2fa>"]))
    assert (found.name, json.loads(found.arguments)) == ("2fa", {"code": 1})
