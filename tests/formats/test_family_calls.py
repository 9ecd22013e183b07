"""The calls that every format writes into the history come back, whatever their arguments, however cut: values made of
the families' own markup too, and what a syntax has no way to write.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.helpers.thorough import THOROUGH
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.family import Family
from toolcall_middleware.formats.syntax import shape
from toolcall_middleware.model import Tool, ToolCall, ToolResult, ToolSet

from ..parsing.streams import Call, calls_in, cut_at, read, text_in
from .goldens import exact
from .test_families import NAMES, TYPED, VERBATIM, every_format
from .test_neutralise import MARKERS

EXAMPLES = 200 if THOROUGH else 10


def tools_for(calls: list[tuple[str, dict[str, Any]]]) -> ToolSet:
    """Tools whose schemas say the types of these arguments: families without JSON take them from there."""
    kinds = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    schemas = [
        (tool, {key: {"type": kinds.get(type(value), "object")} for key, value in arguments.items()})
        for tool, arguments in dict(calls).items()
    ]
    return ToolSet.of([Tool(tool, "", {"type": "object", "properties": types}) for tool, types in schemas])


def comes_back(
    name: str, calls: list[tuple[str, dict[str, Any]]], *, tools: ToolSet | None = None, **spelling: Any
) -> list[Call]:
    """The calls, written and read; asserts that they are the same, however cut. spelling: that of their JSON."""
    fmt = registry.get(name)
    made = [
        ToolCall(tool, json.dumps(arguments, **spelling), f"call_{number}")
        for number, (tool, arguments) in enumerate(calls)
    ]
    written = fmt.render_calls(made)
    tools = tools or tools_for(calls)
    events = read(fmt.parser(tools, ParserOptions()), [written])
    found = calls_in(events)
    assert [call.name for call in found] == [tool for tool, _ in calls]
    for call, before in zip(found, made, strict=True):
        assert call.complete
        assert exact(json.loads(call.arguments)) == exact(json.loads(before.arguments)), written
        if before.arguments in written:
            assert call.arguments == before.arguments, "arguments are verbatim"
            assert not call.repaired
    assert not text_in(events).strip(), "markup has leaked"
    rng = random.Random(written)
    cuts = sorted(rng.sample(range(len(written)), min(len(written), 12)))
    assert read(fmt.parser(tools, ParserOptions()), cut_at(written, cuts)) == events
    return found


TOOL_NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True) | st.sampled_from(
    ["name", "arguments", "null", "true", "tool_calls", "json", "think", "final_answer", "get_weather"]
)
MARKUP = st.sampled_from(
    [
        "<tool_call>", "</tool_call>", "</function>", "</parameter>", "<think>", "</think>", "```", "```json\n", "`",
        '{"name": "f", "arguments": {}}', '{"tool_calls": [', "}}", "]", '"', "\\", "\\n", "\n", "\r\n", "\t", "\x00",
        "<|im_end|>", "<tool_response>", "[TOOL_CALLS]", "[ARGS]", "<|tool_call_end|>", "<｜tool▁calls▁end｜>",
        "null", "true", "5", "0x1", " ", "  a  ", "", "'", "日本語", "🎉", "\u2028", "\ufeff", "é",
    ]
)  # fmt: skip
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
TEXT = ANY_TEXT | MARKUP | st.lists(MARKUP, max_size=4).map("".join)
NUMBERS = (
    st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0, -0.0, 1e300])
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(
    st.tuples(TOOL_NAMES, st.dictionaries(TEXT, VALUES, max_size=4)),
    min_size=1,
    max_size=3,
    unique_by=lambda call: call[0],
)


@pytest.mark.parametrize("name", registry.names())
def test_calls_come_back(name: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(calls=CALLS, spaced=st.booleans(), ascii_only=st.booleans())
    @example(calls=[("f", {})], spaced=True, ascii_only=True)
    @example(calls=[("tool_calls", {})], spaced=True, ascii_only=True)
    @example(calls=[("f", {"a": 1}), ("g", {"b": "x"}), ("f", {})], spaced=False, ascii_only=False)
    def check(calls: list[tuple[str, dict[str, Any]]], spaced: bool, ascii_only: bool) -> None:
        separators = (", ", ": ") if spaced else (",", ":")
        comes_back(name, calls, separators=separators, ensure_ascii=ascii_only)

    check()
    assert registry.get(name).render_calls([]) == ""


FRAGMENTS = [
    *MARKERS, "</parameter>", "<parameter=x>", "\n</parameter>\n", "</invoke>", '<invoke name="g">', "</param>",
    '<param name="x">', "<arg_key>x</arg_key>", "</function>", "<function=g>", '"', "'", "\\", "\\n", "\n", "\r\n",
    "\r", "\t", " ", "\x00", "}", "]", "{", "[", ",", ":", "=", ")", "(", "f(x=1)", ", y='", "```", "a", "é", "🎉",
    "&lt;", "&amp;", "<![CDATA[", "]]>", "</｜DSML｜parameter>", '<｜DSML｜parameter name="x" string="true">', "5",
    "null", "true", "1e5", " " * 600, "#", "<", ">", "</", "<p", "None", "\u2028", "\ufeff",
]  # fmt: skip


@every_format
def test_calls_whose_values_are_made_of_markup_come_back(name: str) -> None:
    rng = random.Random(name)

    def text() -> str:
        return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(0, 6)))

    def value(depth: int = 0) -> Any:
        kind = rng.random()
        if kind < 0.6 or depth > 2:
            return text()
        if kind < 0.7:
            return rng.choice([0, -1.5, 1e300, 2**70, None, True, False, -0.0])
        if kind < 0.85:
            return [value(depth + 1) for _ in range(rng.randint(0, 3))]
        return {text(): value(depth + 1) for _ in range(rng.randint(0, 3))}

    for _ in range(60):
        keys = ["x", "k", "city", "a_b", *([text()] if rng.random() < 0.3 else [])]
        calls = [
            (tool, {key: value() for key in rng.sample(keys, rng.randint(0, 3))})
            for tool in rng.sample(["f", "g", "get_weather", "a-b", "0x", "all"], rng.randint(1, 2))
        ]
        comes_back(name, calls)


@pytest.mark.parametrize("name", VERBATIM)
@pytest.mark.parametrize(
    "arguments", ['{"b":1,"a" : [1.0,  1E5, -0.0],\n "c":"\\u00e9\\/"}', "{ }", '{"x": {"y": "</tool_call>"}}']
)
def test_arguments_stay_as_they_were_written(name: str, arguments: str) -> None:
    fmt = registry.get(name)
    written = fmt.render_calls([ToolCall("f", arguments, "call_1")])
    assert arguments in written
    (call,) = calls_in(read(fmt.parser(ToolSet.of([Tool("f")]), ParserOptions()), [written]))
    assert call.arguments == arguments
    assert not call.repaired


@every_format
@pytest.mark.parametrize("arguments", ["", "  ", "no JSON", '"text"', "[1]", "5", "null", '{"x": NaN}', '{"x": "1"'])
def test_arguments_of_any_text_keep_the_call_readable(name: str, arguments: str) -> None:
    fmt = registry.get(name)
    written = fmt.render_calls([ToolCall("f", arguments, "call_1"), ToolCall("g", "{}", "call_2")])
    options = ParserOptions(any_arguments=None)
    found = calls_in(read(fmt.parser(ToolSet.of([Tool("f"), Tool("g")]), options), [written]))
    assert [(call.name, call.complete) for call in found] == [("f", True), ("g", True)]
    json.loads(found[0].arguments)


@pytest.mark.parametrize("name", TYPED)
def test_numbers_keep_their_spelling(name: str) -> None:
    fmt = registry.get(name)
    numbers = ["1.10", "1E5", "-0.0", str(2**70), "0.1e-7"]
    arguments = "{" + ", ".join(f'"n{i}": {number}' for i, number in enumerate(numbers)) + "}"
    schema = {"type": "object", "properties": {f"n{i}": {"type": "number"} for i in range(len(numbers))}}
    written = fmt.render_calls([ToolCall("f", arguments)])
    (call,) = calls_in(read(fmt.parser(ToolSet.of([Tool("f", "", schema)]), ParserOptions()), [written]))
    assert re.findall(r": ([^,}]+)", call.arguments) == numbers


PLAIN = {"city": "New York, NY", "text": "two\nlines", "n": 3, "on": True, "none": None, "l": ["a", {"b": 1}], "o": {}}


@every_format
def test_without_a_schema_ordinary_arguments_come_back(name: str) -> None:
    comes_back(name, [("get_weather", PLAIN), ("clock", {})], tools=ToolSet.of([Tool("get_weather"), Tool("clock")]))


@pytest.mark.parametrize(
    "name", [*VERBATIM, "deepseek_v32", "deepseek_v4", "deepseek_v41", "pythonic", "llama4_pythonic", "lfm2", "gemma4"]
)
def test_where_the_syntax_tells_strings_apart_they_need_no_schema(name: str) -> None:
    comes_back(name, [("f", {"a": "5", "b": "null", "c": "[1]", "d": " x "})], tools=ToolSet.of([Tool("f")]))


# What a syntax has no way to write stands in the history as a block of the format `json`; or there is a way after all.
JSON = "```json\n"
ODD = [
    ("qwen3_coder", {"x": "</parameter>\n<parameter=y>\n1"}, JSON),
    ("qwen3_coder", {"x": "a </parameter> b"}, "<tool_call>\n<function=f>\n<parameter=x>\na </parameter> b\n"),
    ("qwen3_coder", {"x": "\nline\n"}, "<parameter=x>\n\nline\n\n</parameter>"),
    ("qwen3_coder", {"a>b": 1}, JSON),
    ("seed_oss", {"x": "\nline"}, "<parameter=x>\n\nline\n</parameter>"),
    ("seed_oss", {"x": "line\n"}, "<parameter=x>line\n</parameter>"),
    ("minicpm5", {"x": "</param></function>"}, "&lt;/param>&lt;/function>"),
    ("minicpm5", {"x": "a & b < c"}, "a & b < c"),
    ("minicpm5", {"x": "&lt;"}, "&amp;lt;"),
    ("deepseek_v32", {"x": "\nline\n"}, 'string="true">\nline\n</'),
    ("deepseek_v32", {"x": [1]}, 'string="false">[1]</'),
    ("deepseek_v4", {"x": "\nline\n"}, 'string="true">\nline\n</'),
    ("deepseek_v41", {"x": [1]}, '<｜DSML｜ parameter name="x" string="false">[1]</｜DSML｜ parameter>'),
    ("deepseek_v41", {"x": '</｜DSML｜ parameter>\n<｜DSML｜ parameter name="y" string="true">'}, JSON),
    ("iquest_q1", {"x": "\nline\n"}, "<arg_value>\nline\n</arg_value>"),
    ("iquest_q1", {"x": "</arg_value></iquest_tool_call>"}, JSON),
    ("hy_v4", {"x": "</arg_value:6124c78e>\n<arg_key:6124c78e>y</arg_key:6124c78e>"}, JSON),
    ("beam", {"x": "\nline\n"}, '<rfl:parameter name="x">\nline\n</rfl:parameter>'),
    ("beam", {"x": "</rfl:parameter><|call|>"}, JSON),
    ("beam", {'"': 1}, JSON),
    ("glm45", {"x": "</arg_value>\n</tool_call>"}, JSON),
    ("glm47", {"<x": 1}, JSON),
    ("minimax_m2", {"x": '</parameter><parameter name="y">'}, JSON),
    ("step3", {'"': 1}, JSON),
    ("pythonic", {"x": 'say "hi"\\\n'}, '[f(x="say \\"hi\\"\\\\\\n")]'),
    ("pythonic", {"x": [True, None, "it's"]}, '[f(x=[True, None, "it\'s"])]'),
    ("olmo3", {"x": "it's", "y": None, "z": True}, "f(x='it\\'s', y=null, z=true)"),
    ("pythonic", {"a-b": 1}, JSON),
    ("gemma4", {"x": '<|"|>'}, 'x:"<|\\"|>"'),
    ("gemma4", {"a b": '"'}, '<|"|>a b<|"|>:<|"|>"<|"|>'),
    ("functiongemma", {"x": "<escape>"}, 'x:"<escape>"'),
]


@pytest.mark.parametrize(("name", "arguments", "written"), ODD)
def test_odd_values_find_a_way(name: str, arguments: dict[str, Any], written: str) -> None:
    text = registry.get(name).render_calls([ToolCall("f", json.dumps(arguments))])
    assert written in text
    comes_back(name, [("f", arguments), ("g", {})])


@pytest.mark.slow
def test_odd_names_find_a_way() -> None:
    assert registry.get("functionary_v32").render_calls([ToolCall("all", '{"x": 1}')]) == '>>>all{"x": 1}'
    for name in NAMES:
        comes_back(name, [("all", {"x": 1}), ("0-f", {})])


def test_mistrals_ids_are_nine_letters_and_the_same_for_call_and_result() -> None:
    for call_id in ("call_abcDEF0123456789", "x", "call_1"):
        call = registry.get("mistral_old").render_calls([ToolCall("f", "{}", call_id)])
        (short,) = re.findall(r'"id": "([A-Za-z0-9]{9})"', call)
        assert f'"call_id": "{short}"' in registry.get("mistral_old").render_results([ToolResult("f", "1", call_id)])
        assert f"[TOOL_RESULTS]{short}[TOOL_CONTENT]1" in registry.get("mistral_v11").render_results(
            [ToolResult("f", "1", call_id)]
        )


def test_what_does_not_come_back_is_told() -> None:
    fmt = registry.get("hermes")
    assert isinstance(fmt, Family)
    call = ToolCall("f", '{"x": "1"}')
    assert shape.comes_back(fmt.render_calls([call]), call, fmt.openers)
    for text in ("f", fmt.render_calls([call, call]), fmt.render_calls([call]) + "x", fmt.render_calls([call])[:30]):
        assert not shape.comes_back(text, call, fmt.openers)
    assert not shape.comes_back(fmt.render_calls([ToolCall("f", '{"x": "2"}')]), call, fmt.openers)
    for size, is_own in ((1000, True), (shape.MAX_READ_BACK, False)):
        written = registry.get("qwen3_coder").render_calls(
            [ToolCall("f", json.dumps({"x": "</parameter> " + "x" * size}))]
        )
        assert written.startswith("<tool_call>") is is_own


def test_a_declared_type_behind_an_encoded_reference_is_kept() -> None:
    """Generators of schemas encode `Id<string>` in a reference, as any URI has to."""
    parameters = {
        "type": "object",
        "$defs": {"Id<string>": {"type": "string"}, "a": {"$anchor": "count", "type": "integer"}},
        "properties": {"id": {"$ref": "#/$defs/Id%3Cstring%3E"}, "count": {"$ref": "#count"}},
    }
    tools = ToolSet.of([Tool("f", parameters=parameters)])
    for name in ("qwen3_coder", "minimax_m3"):
        comes_back(name, [("f", {"id": "12", "count": 12})], tools=tools)
