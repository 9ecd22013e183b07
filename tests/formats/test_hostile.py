"""Any text, made of every family's markers, is read by every format without harm: the same however it is cut, without
an exception, without a name that is not offered, with valid JSON in every complete call, and in linear work.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.thorough import THOROUGH
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.families import glm
from toolcall_middleware.model import Tool, ToolCall, ToolSet

from ..parsing.meter import work
from ..parsing.streams import calls_in, cut_at, read
from .test_neutralise import MARKERS

TEXTS = 300 if THOROUGH else 30  # for each format
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "s": {"type": "string"},
        "o": {"type": "object"},
        "n": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
TOOLS = ToolSet.of([Tool("f", "", SCHEMA), Tool("g", "", SCHEMA), Tool("get_weather")])
PARTS = [
    '{"name": "f", "arguments": {"x": 1}}', '{"name": "g", "arguments": "{\\"a\\": 2}"}', '{"tool_calls": [', '{"f": ',
    '{"name": "f"', '"arguments": ', "]}", "`", "``", "```", "```json\n", "\n", "\n\n", " ", "hello", "~~~", "{", "}",
    "[", "]", '"', ",", '{"name": "zz", "arguments": {}}', "'", "\\", "<", "x", ":", ";", "json", " " * 70, "`" * 130,
    "\n" * 260, "\n- ", "> ", "{bad json}", '"parameters": ', "null", '"id": "7"', "\xa0", "True", "f", "g", "(", ")",
    "f(x=1)", '[f(x=1), g(s="a")]', "g()", "=", "x=1", 's="', "function", "<function=f>", "<parameter=x>", "1",
    "<parameter=s>", "functions.f:0", '{"x": 1}', '{"s": "a\\nb"}', "call:f{", "x:", "s:", "to=functions.f ", "all\n",
    "commentary", "analysis", "final", "assistant", ">>>f\n", '<function name="f">', '<param name="x">', "</param>",
    '<invoke name="f">', '<parameter name="s">', '<｜DSML｜invoke name="f">', "</｜DSML｜parameter>", "zz(x=1)",
    '<｜DSML｜parameter name="x" string="false">', '{"f": {"x": 1}}', "<arg_key>x</arg_key>",
    "<arg_value>1</arg_value>", "<|tool_call>call:f{x:1}<tool_call|>", 'f[ARGS]{"x": 1}', "functools[", "é🎉",
    "</think>", "<tool_call>f", "<|start|> assistant", "<|channel|> final<|message|> ", '<rfl:parameter name="x">',
    "to=f<|channel|>analysis <|constrain|>xml<|message|>", "<tool_call:a>f", "<arg_key:a>x</arg_key:a>",
    "<|plamo:begin_tool_name:plamo|>f<|plamo:end_tool_name:plamo|>", "<iquest_tool_call>f",
]  # fmt: skip


def _texts(seed: str) -> Iterator[str]:
    rng = random.Random(seed)
    for _ in range(TEXTS):
        # Few kinds of parts meet more often than many.
        parts = rng.sample(PARTS + MARKERS, rng.randint(2, 12)) if rng.random() < 0.7 else PARTS + MARKERS
        yield "".join(rng.choice(parts) for _ in range(rng.randint(1, 12)))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", registry.names())
def test_any_text_is_read_without_harm(name: str) -> None:
    fmt = registry.get(name)
    rng = random.Random(name)
    for text in _texts(name):
        options = ParserOptions(
            unknown_tool=rng.choice(["text", "text", "drop", "error"]),
            parse_reasoning=rng.random() < 0.2,
            keep_raw=rng.random() < 0.3,
        )
        cut = rng.random() < 0.2
        whole = read(fmt.parser(TOOLS, options), [text], cut=cut)
        for call in calls_in(whole):
            assert call.name in TOOLS.by_name
            if call.complete:
                assert isinstance(json.loads(call.arguments), object)
        for pieces in [list(text), *(cut_at(text, [rng.randint(0, len(text))]) for _ in range(3))]:
            assert read(fmt.parser(TOOLS, options), pieces, cut=cut) == whole, (options, cut, pieces)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "f", "arguments": {"x": ' + "[" * 100_000 + "}" * 100_000,
        "[f(x=" + "[" * 100_000 + "}" * 100_000,
        "[f(x=" + "(" * 100_000 + "]" * 100_000,
        "<|tool_call>call:f{x:" + "{a:" * 100_000 + "]" * 100_000,
        "<|tool_call>call:f{x:" + "[" * 100_000,
        "<tool_call>\n<function=f>\n<parameter=o>\n" + '{"a":' * 100_000 + "</parameter></function></tool_call>",
        "<function=f>" * 50_000,
        "[TOOL_CALLS]f[ARGS]" + "[" * 100_000 + "}" * 100_000,
    ],
    ids=range(8),
)
def test_deep_nesting_that_is_closed_wrongly_is_read(text: str) -> None:
    # Looking through all that is open at each bracket would be 10**10 steps.
    for call in calls_in(read(registry.get("auto").parser(TOOLS, ParserOptions()), [text])):
        assert call.name == "f"


@pytest.mark.slow
def test_no_answer_has_more_patterns_made_for_it_than_a_model_needs() -> None:
    # The tags of a Hunyuan checkpoint have a suffix of its own, and each suffix costs patterns that are made for it.
    text = "".join(f"<tool_calls:s{number}><tool_call:s{number}>f</tool_call:s{number}>" for number in range(3_000))
    before = glm._suffixed_tags.cache_info().misses
    found = calls_in(read(registry.get("auto").parser(TOOLS, ParserOptions()), [text]))
    assert [call.name for call in found] == ["f", "f"]
    assert glm._suffixed_tags.cache_info().misses - before <= 2


@pytest.mark.slow
@pytest.mark.timeout(100)
@pytest.mark.parametrize("step", [5, 0], ids=["in pieces", "whole"])
@pytest.mark.parametrize("before", ["", "a ", "<tool_call>", "<function=f>", "[f(s='", "call:f{s:"])
def test_work_grows_with_the_text_and_no_faster(before: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [*PARTS, *MARKERS]
    fresh = functools.partial(registry.get("auto").parser, TOOLS, ParserOptions())
    # Every family is in `auto`. A third of the units for each beginning is enough, another third for each.
    for unit in units[len(before) % 3 :: 3]:
        texts = (before + unit * max(1, size // len(unit)) for size in (2_000, 4_000))
        small, large = (work(fresh, text, step, monkeypatch) for text in texts)
        assert large <= 2.3 * small + 8_000, f"{unit!r} behind {before!r}: {small} and {large}"


@pytest.mark.parametrize("depth", [300, 900, 100_000])
@pytest.mark.parametrize("name", registry.names())
def test_a_call_of_the_history_may_be_nested_as_deep_as_a_client_likes(name: str, depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a": ', "}")):
        arguments = f'{{"a": {opening * depth}1{closing * depth}}}'
        written = registry.get(name).render_calls([ToolCall("f", arguments)])
        assert written.count(opening[0]) >= depth
