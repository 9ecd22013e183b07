"""One conversation gives one prompt, whichever API the client speaks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware import Settings
from toolcall_middleware.apis.face import Face
from toolcall_middleware.apis.messages.client.face import MessagesFace
from toolcall_middleware.apis.responses.face import ResponsesFace
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.exchange import Ask, Exchange, Request
from toolcall_middleware.upstream.backend_memory import BackendMemory

Spelling = Callable[[Any], str]
SPELLINGS: tuple[Spelling, ...] = (
    lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),  # JavaScript, and Python's SDKs
    json.dumps,  # Python with `requests`
    lambda value: json.dumps(value, indent=2),
)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
ARGUMENTS: dict[str, Any] = {"a": 1, "b": [1, 2, {}], "c": {"d": 'x, y: é "q" \\ \u2028', "e": None}, "f": []}
FORMATS = ("hermes", "qwen3_coder", "gemma4", "mistral_v11", "deepseek_v3", "harmony", "json")

_text = st.text(st.characters(codec="utf-8"), max_size=8)
_floats = st.floats(allow_nan=False, allow_infinity=False)
_leaf = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | _floats | _text
_values = st.recursive(
    _leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3), max_leaves=8
)


def by_chat(arguments: Any) -> tuple[Face | None, dict[str, Any]]:
    call = {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return None, {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "done"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    }


def by_messages(arguments: Any) -> tuple[Face, dict[str, Any]]:
    return MessagesFace(), {
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": arguments}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]},
        ],
        "tools": [{"name": "f", "input_schema": SCHEMA}],
    }


def by_responses(arguments: Any) -> tuple[Face, dict[str, Any]]:
    return ResponsesFace(), {
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": arguments},
            {"type": "function_call_output", "call_id": "toolu_1", "output": "done"},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
    }


def sent(face: Face | None, body: dict[str, Any], spelling: Spelling, **settings: Any) -> Any:
    """The messages that the backend is asked with."""
    data = spelling({"model": "m", **body}).encode()
    exchange = Exchange(Settings(**settings), BackendMemory(), always=True)
    action = exchange.receive(Request(data if face is None else face.request(data).body))[0]
    assert isinstance(action, Ask), action
    return json.loads(action.body)["messages"]


def prompts(arguments: Any, **settings: Any) -> Iterator[Any]:
    written = json.dumps(arguments, ensure_ascii=False)  # as models write it
    for face, body in (by_chat(written), by_responses(written)):
        yield sent(face, body, json.dumps, **settings)
    for spelling in SPELLINGS:
        for face, body in (by_chat(arguments), by_messages(arguments), by_responses(arguments)):
            yield sent(face, body, spelling, **settings)


@pytest.mark.parametrize("format_", FORMATS)
def test_arguments_are_shown_as_the_model_wrote_them(format_: str) -> None:
    first, *others = prompts(ARGUMENTS, mode="prompt", format=format_)
    for other in others:
        assert other == first


def test_a_backend_that_takes_tools_gets_them_so_too() -> None:
    first, *others = (
        [message.get("tool_calls", [{}])[0].get("function") for message in messages]
        for messages in prompts(ARGUMENTS, mode="native")
    )
    for other in others:
        assert other == first


@given(st.dictionaries(_text, _values, max_size=4))
def test_any_arguments_are_shown_alike(arguments: dict[str, Any]) -> None:
    first, *others = prompts(arguments, mode="prompt", format="hermes")
    for other in others:
        assert other == first


def test_free_text_of_a_custom_tool_is_shown_as_the_model_wrote_it() -> None:
    text = 'line 1\n"é", {"a":1}'
    custom = {"id": "c1", "type": "custom", "custom": {"name": "f", "input": text}}
    chat = {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [custom]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        "tools": [{"type": "custom", "custom": {"name": "f"}}],
    }
    responses = {
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": text},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        ],
        "tools": [{"type": "custom", "name": "f"}],
    }
    first, second = (
        sent(face, body, json.dumps, mode="prompt", format="hermes")[2]
        for face, body in ((None, chat), (ResponsesFace(), responses))
    )
    assert json.dumps({"input": text}, ensure_ascii=False) in first["content"]
    assert second == first


@pytest.mark.parametrize("depth", [100, 900, 1000, 5000, 100_000])
def test_deep_input_is_arguments_or_a_400(depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    for face, fields in (by_messages("@"), by_responses("@")):
        data = json.dumps({"model": "m", **fields}).replace('"@"', deep).encode()
        if depth > 200:
            with contextlib.suppress(ToolCallError):
                face.request(data)
            continue
        chat = json.loads(face.request(data).body)
        assert chat["messages"][1]["tool_calls"][0]["function"]["arguments"] == deep.replace(":", ": ")
