"""The log says that the middleware is there, and what it refuses."""

from __future__ import annotations

import logging

import pytest

import toolcall_middleware
from toolcall_middleware import ToolCallMiddleware

from ...fakes import TextBackend
from ...test_modes import post


def test_one_line_at_the_start_tells_how_it_works(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        ToolCallMiddleware(TextBackend([]), mode="prompt", format="hermes")
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert told[0].startswith(f"active: version={toolcall_middleware.__version__};")
    assert told[0].endswith("; mode=prompt; format=hermes; paths=/chat/completions")


def test_one_that_is_off_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        ToolCallMiddleware(TextBackend([]), mode="off")
    assert not caplog.records


async def test_a_refusal_in_an_app_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = ToolCallMiddleware(TextBackend([]))
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        response = await post(app, tool_choice={"type": "function", "function": {"name": "nope"}})
    assert response.status_code == 400
    told = [record.getMessage() for record in caplog.records]
    assert told == ["refused: status=400; code=invalid_tool_choice; param=tool_choice"]


async def test_so_is_an_answer_that_is_refused_for_the_models_fault(caplog: pytest.LogCaptureFixture) -> None:
    written = '<tool_call>\n{"name": "f", "arguments": {x: "secret"}}\n</tool_call>'
    app = ToolCallMiddleware(TextBackend([written]), format="hermes", malformed_arguments="error")
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        response = await post(app)
    assert response.status_code == 422
    told = [record.getMessage() for record in caplog.records]
    assert told[-1] == ("refused: status=422; code=malformed_tool_arguments; param=tool_calls[0].function.arguments")
    assert not any("secret" in line for line in told)
