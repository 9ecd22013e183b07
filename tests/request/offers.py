"""Requests that offer tools, for the tests of their checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import ChatRequest, read_request
from toolcall_middleware.settings import Settings


def function(name: Any = "look", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


def read(*tools: Any, options: Settings | dict[str, Any] | None = None, **fields: Any) -> ChatRequest:
    offered = {"tools": list(tools)} if tools else {}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **offered, **fields}
    settings = options if isinstance(options, Settings) else Settings(**options or {})
    chat = read_request(json.dumps(body).encode(), settings)
    assert isinstance(chat, ChatRequest)
    return chat


def error(*tools: Any, **fields: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        read(*tools, **fields)
    assert caught.value.status == 400
    return caught.value


def refusal(*tools: Any, **fields: Any) -> tuple[str | int | None, str | None]:
    caught = error(*tools, **fields)
    return caught.code, caught.param


def schema(parameters: Any) -> dict[str, Any]:
    return read(function(parameters=parameters)).tools.tools[0].parameters


def fault(parameters: Any) -> str:
    """The message about a schema that is refused."""
    caught = error(function("first"), function("second", parameters=parameters))
    assert caught.code == "invalid_tool_schema"
    assert caught.param is not None
    assert caught.param.startswith("tools[1].function.parameters")
    assert "'second'" in caught.message
    return caught.message
