"""What a request may change for itself, and that it can only tighten."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import OPTIONS, Settings
from toolcall_middleware.stages.validate import ChatRequest, read_request

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "look", "description": "0123456789"}}
BASE: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL, TOOL]}
BASE["tools"][1] = {"type": "function", "function": {"name": "other"}}


def read(options: Settings, **fields: Any) -> ChatRequest:
    chat = read_request(json.dumps({**BASE, **fields}).encode(), options)
    assert isinstance(chat, ChatRequest)
    return chat


def refusal(options: Settings, **fields: Any) -> tuple[str | int | None, str | None]:
    with pytest.raises(ToolCallError) as caught:
        read(options, **fields)
    return caught.value.code, caught.value.param


@pytest.mark.parametrize(
    ("toolcall", "expected"),
    [
        ({}, {}),
        ({"mode": "native", "format": "hermes"}, {"mode": "native", "format": "hermes"}),
        ({"validate_arguments": "retry"}, {"validate_arguments": "retry"}),
        ({"stream_arguments": False, "retries": 0}, {"stream_arguments": False, "retries": 0}),
        ({"reasoning_field": "reasoning", "prose": "drop"}, {"reasoning_field": "reasoning", "prose": "drop"}),
        ({"max_tool_calls": 1, "max_result_bytes": "4k"}, {"max_tool_calls": 1, "max_result_bytes": 4096}),
    ],
)
def test_changes_are_read_as_settings(toolcall: dict[str, Any], expected: dict[str, Any]) -> None:
    chat = read(Settings(), toolcall=toolcall)
    assert chat.overrides == expected
    assert "toolcall" not in chat.fields
    Settings().replace(**chat.overrides)


@pytest.mark.parametrize(
    ("toolcall", "param"),
    [
        ([], "toolcall"),
        ("off", "toolcall"),
        ({"tokenizer": "tiktoken:x"}, "toolcall.tokenizer"),
        ({"upstream_key": "x"}, "toolcall.upstream_key"),
        ({"nonsense": 1}, "toolcall.nonsense"),
        ({"mode": "fast"}, "toolcall.mode"),
        ({"mode": "off"}, "toolcall.mode"),
        ({"mode": ["native"]}, "toolcall.mode"),
        ({"format": "klingon"}, "toolcall.format"),
        ({"format": None}, "toolcall.format"),
        ({"validate_arguments": {}}, "toolcall.validate_arguments"),
        ({"stream_arguments": 5}, "toolcall.stream_arguments"),
        ({"retries": -1}, "toolcall.retries"),
        ({"retries": 2}, "toolcall.retries"),
        ({"max_tools": 129}, "toolcall.max_tools"),
        ({"max_tools": None}, "toolcall.max_tools"),
        ({"max_tools": True}, "toolcall.max_tools"),
        ({"unknown_tool": "forward"}, "toolcall.unknown_tool"),
    ],
)
def test_other_changes_are_refused(toolcall: Any, param: str) -> None:
    assert refusal(Settings(), toolcall=toolcall) == ("invalid_request", param)


STRICT = Settings(
    validate_arguments="retry", parallel="never", unknown_tool="error", malformed_arguments="error", max_tool_calls=5
)


@pytest.mark.parametrize(
    "toolcall",
    [
        {"validate_arguments": "off"},
        {"validate_arguments": "warn"},
        {"parallel": "client"},
        {"unknown_tool": "text"},
        {"malformed_arguments": "repair"},
        {"stream_arguments": True},
        {"max_tool_calls": 6},
        {"max_tool_calls": "none"},
    ],
)
def test_what_the_operator_set_is_not_loosened(toolcall: dict[str, Any]) -> None:
    assert refusal(STRICT, toolcall=toolcall) == ("invalid_request", f"toolcall.{next(iter(toolcall))}")


def test_asking_for_what_holds_anyway_is_fine() -> None:
    same = {"validate_arguments": "retry", "parallel": "never", "max_tool_calls": 5, "stream_arguments": False}
    assert read(STRICT, toolcall=same).overrides == same


def test_validate_tool_arguments_asks_for_errors() -> None:
    asked = {"request_options": {"validate_tool_arguments": True, "unknown": 1}}
    chat = read(Settings(), **asked)
    assert chat.overrides == {"validate_arguments": "error"}
    assert "request_options" not in chat.fields
    assert read(Settings(), **asked, toolcall={"validate_arguments": "warn"}).overrides == chat.overrides
    assert read(STRICT, request_options={"validate_tool_arguments": False}).overrides == {}
    param = "request_options.validate_tool_arguments"
    assert refusal(Settings(), request_options={"validate_tool_arguments": "yes"}) == ("invalid_request", param)
    assert refusal(Settings(), request_options=5) == ("invalid_request", "request_options")


def test_lower_limits_hold_for_the_request_itself() -> None:
    assert refusal(Settings(), toolcall={"max_tools": 1}) == ("too_many_tools", "tools")
    assert refusal(Settings(), toolcall={"max_description_length": 9}) == (
        "limit_exceeded",
        "tools[0].function.description",
    )
    assert not read(Settings(), toolcall={"parallel": "never"}).choice.parallel


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-1, 200)
    | st.sampled_from(
        ["off", "warn", "retry", "error", "client", "never", "text", "forward", "repair", "native", "none"]
    )
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(OPTIONS)), VALUES, max_size=2))
def test_no_limit_ever_rises(toolcall: dict[str, Any]) -> None:
    before = Settings(max_tool_rounds=7, max_tool_calls=20, max_result_bytes=100, retries=1)
    try:
        after = before.replace(**read(before, toolcall=toolcall).overrides)
    except ToolCallError:
        return
    for name in OPTIONS:
        if name.startswith("max_") or name == "retries":
            old, new = getattr(before, name), getattr(after, name)
            assert old is None or (new is not None and new <= old)
    for name in ("allowlist", "allowlist_mode", "rate_limit", "api_keys", "upstream_url", "upstream_key", "tokenizer"):
        assert getattr(before, name) == getattr(after, name)
