"""`tool_choice` and `parallel_tool_calls`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.model import ChoiceMode, ToolChoice
from toolcall_middleware.request.parse import read_request
from toolcall_middleware.settings import Settings

from .offers import function, read, refusal

A, B = function("a"), function("b")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice(ChoiceMode.NONE)),
        ("required", ToolChoice(ChoiceMode.REQUIRED)),
        ("any", ToolChoice(ChoiceMode.REQUIRED)),
        (function("b"), ToolChoice(ChoiceMode.NAMED, "b", parallel=False)),
        ({"function": {"name": "b"}}, ToolChoice(ChoiceMode.NAMED, "b", parallel=False)),
        ({"type": "function", "name": "b"}, ToolChoice(ChoiceMode.NAMED, "b", parallel=False)),
        ({"name": "b"}, ToolChoice(ChoiceMode.NAMED, "b", parallel=False)),
        ({"type": "custom", "custom": {"name": "b"}}, ToolChoice(ChoiceMode.NAMED, "b", parallel=False)),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [A]}},
            ToolChoice(allowed=frozenset("a")),
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [A, B]}},
            ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset("ab")),
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "b"}]},
            ToolChoice(allowed=frozenset("b")),
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
            ToolChoice(ChoiceMode.NONE, allowed=frozenset()),
        ),
    ],
)
def test_every_form_of_choice_is_read(choice: Any, expected: ToolChoice) -> None:
    assert read(A, B, tool_choice=choice).choice == expected


@pytest.mark.parametrize(
    ("choice", "code"),
    [
        (function("c"), "invalid_tool_choice"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [A, function("c")]}},
            "invalid_tool_choice",
        ),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}, "invalid_tool_choice"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "never", "tools": [A]}}, "invalid_request"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}, "invalid_request"),
        ({"type": "allowed_tools"}, "invalid_request"),
        ("sometimes", "invalid_request"),
        (5, "invalid_request"),
        ([], "invalid_request"),
        ({}, "invalid_request"),
        ({"type": "function"}, "invalid_request"),
        ({"type": "function", "function": {"name": 5}}, "invalid_request"),
        ({"type": "retrieval", "name": "a"}, "invalid_request"),
    ],
)
def test_a_bad_choice_is_refused(choice: Any, code: str) -> None:
    assert refusal(A, B, tool_choice=choice) == (code, "tool_choice")


def test_a_choice_without_tools() -> None:
    history: dict[str, Any] = {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}]}
    for choice in (None, "auto", "none"):
        assert read(tool_choice=choice, **history).choice.mode is ChoiceMode.NONE
    for bad in ("required", A):
        assert refusal(tool_choice=bad, **history) == ("invalid_tool_choice", "tool_choice")


def test_parallel_calls() -> None:
    assert read(A).choice.parallel
    assert read(A, parallel_tool_calls=True).choice.parallel
    assert not read(A, parallel_tool_calls=False).choice.parallel
    assert not read(A, parallel_tool_calls=True, options={"parallel": "never"}).choice.parallel
    assert not read(A, parallel_tool_calls=True, tool_choice=A).choice.parallel


@pytest.mark.parametrize("tools", [{}, {"tools": []}, {"tools": None}])
def test_a_call_that_must_come_needs_tools(tools: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **tools}
    for choice in ("required", function("a")):
        with pytest.raises(ToolCallError) as caught:
            read_request(json.dumps({**body, "tool_choice": choice}).encode(), Settings())
        assert (caught.value.code, caught.value.status, caught.value.param) == (
            "invalid_tool_choice",
            400,
            "tool_choice",
        )
    # Anything else asks for nothing, and is the backend's to judge.
    for other in ("auto", "none", None, 5, "never"):
        assert read_request(json.dumps({**body, "tool_choice": other}).encode(), Settings()) is None


def test_mistrals_any_goes_on_as_required() -> None:
    assert bytes(read(A, tool_choice="any").fields["tool_choice"]) == b'"required"'
    with pytest.raises(ToolCallError) as caught:
        read_request(
            b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "tool_choice": "any"}', Settings()
        )
    assert (caught.value.code, caught.value.param) == ("invalid_tool_choice", "tool_choice")
