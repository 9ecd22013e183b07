"""Members of a request that are null or of another type than the API says: a clear 400, and never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.driven import Driven
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "F.", "parameters": {"type": "object", "properties": {}}},
}
ODD: tuple[Any, ...] = (5, "x", [], [None], {"a": None})


def asked(profile: str, body: dict[str, Any], **options: Any) -> str:
    """`passed`, or the code of the refusal."""
    exchange = Driven(Settings(profile=profile, **options), BackendMemory())
    try:
        exchange.on_request(json.dumps(body).encode())
    except ToolCallError as error:
        return f"{error.status} {error.code}"
    return "passed"


@pytest.mark.parametrize("profile", ["compat", "gateway", "strict"])
@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
@pytest.mark.parametrize("field", ["messages", "tools", "tool_choice", "stop", "stream", "temperature", "model"])
def test_a_field_of_the_request(profile: str, field: str, odd: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [TOOL], field: odd}
    assert asked(profile, body) in {
        "passed",
        "400 invalid_request",
        "400 invalid_tool_schema",
        "400 invalid_tool_choice",
    }


@pytest.mark.parametrize("options", [{"structured": "auto"}, {"structured": "prompt"}, {"usage": "auto"}], ids=str)
@pytest.mark.parametrize("odd", [*ODD, {"type": []}, {"type": {}}, {"include_usage": []}], ids=json.dumps)
@pytest.mark.parametrize("field", ["response_format", "stream_options", "tool_choice"])
def test_a_field_without_tools_is_for_the_backend_to_refuse(field: str, odd: Any, options: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True, field: odd}
    refused = field == "tool_choice" and isinstance(odd, dict)
    assert asked("compat", body, **options) == ("400 invalid_request" if refused else "passed")


@pytest.mark.parametrize("profile", ["compat", "gateway", "strict"])
@pytest.mark.parametrize("calls", [[None], [5], ["x"], [[]], [{"function": None}], [{"id": None}], {"a": 1}, "x", 5])
def test_calls_in_the_history(profile: str, calls: Any) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": calls}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}, said], "tools": [TOOL]}
    assert asked(profile, body) == "400 invalid_request"


@pytest.mark.parametrize("profile", ["compat", "gateway", "strict"])
@pytest.mark.parametrize("message", [None, 5, "x", [], {"role": None}, {"role": 5, "content": "x"}, {"content": "x"}])
def test_messages(profile: str, message: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}, message], "tools": [TOOL]}
    assert asked(profile, body) == "400 invalid_request"
