"""What a format renders into the history, it reads back: any calls, whatever their arguments, however cut."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.helpers.thorough import THOROUGH
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet

from ..parsing.streams import calls_in, cut_at, read, text_in
from .goldens import exact

EXAMPLES = 200 if THOROUGH else 10

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True) | st.sampled_from(
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


@dataclass(frozen=True, slots=True)
class Limit:
    """What a family's own syntax has no way to write. `why` is for the reader."""

    why: str
    keys: st.SearchStrategy[str] = TEXT
    text: st.SearchStrategy[str] = TEXT
    names: st.SearchStrategy[str] = NAMES


LIMITS: dict[str, Limit] = {}


def _calls(limit: Limit) -> st.SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    values = st.recursive(
        st.none() | st.booleans() | NUMBERS | limit.text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(limit.text, inner, max_size=3),
        max_leaves=6,
    )
    arguments = st.dictionaries(limit.keys, values, max_size=4)
    return st.lists(st.tuples(limit.names, arguments), min_size=1, max_size=3, unique_by=lambda call: call[0])


def _schema(arguments: dict[str, Any]) -> dict[str, Any]:
    """What a client would declare for such arguments: families without JSON take the types from it."""
    types = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    properties = {key: {"type": types.get(type(value), "object")} for key, value in arguments.items()}
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("name", registry.names())
def test_calls_come_back(name: str) -> None:
    fmt = registry.get(name)
    limit = LIMITS.get(name, Limit("none"))

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(calls=_calls(limit), spaced=st.booleans(), ascii_only=st.booleans(), seed=st.integers(0, 1000))
    @example(calls=[("f", {})], spaced=True, ascii_only=True, seed=0)
    @example(calls=[("tool_calls", {})], spaced=True, ascii_only=True, seed=0)
    @example(calls=[("f", {"a": 1}), ("g", {"b": "x"}), ("f", {})], spaced=False, ascii_only=False, seed=0)
    def check(calls: list[tuple[str, dict[str, Any]]], spaced: bool, ascii_only: bool, seed: int) -> None:
        separators = (", ", ": ") if spaced else (",", ":")
        given_calls = [
            ToolCall(tool, json.dumps(arguments, separators=separators, ensure_ascii=ascii_only), f"call_{number}")
            for number, (tool, arguments) in enumerate(calls)
        ]
        tools = ToolSet.of([Tool(tool, "", _schema(arguments)) for tool, arguments in dict(calls).items()])
        written = fmt.render_calls(given_calls)

        events = read(fmt.parser(tools, ParserOptions()), [written])
        found = calls_in(events)
        assert [call.name for call in found] == [call.name for call in given_calls]
        for call, before in zip(found, given_calls, strict=True):
            assert call.complete
            if before.arguments in written:
                assert call.arguments == before.arguments, "arguments are verbatim"
                assert not call.repaired
            else:
                assert exact(json.loads(call.arguments)) == exact(json.loads(before.arguments))
        assert not text_in(events).strip(), "markup has leaked"

        rng = random.Random(seed)
        cuts = sorted(rng.sample(range(len(written)), min(len(written), rng.randint(1, 12))))
        assert read(fmt.parser(tools, ParserOptions()), cut_at(written, cuts)) == events

    check()


@pytest.mark.parametrize("name", registry.names())
def test_nothing_is_rendered_for_no_calls(name: str) -> None:
    assert registry.get(name).render_calls([]) == ""
