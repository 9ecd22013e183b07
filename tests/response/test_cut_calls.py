"""A call whose text ends inside a value is never made to look complete, whoever says that the model has ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchange.test_modes import NativeBackend, answered, post
from tests.helpers.fakes import TextBackend
from tests.helpers.stream_rules import check_error
from toolcall_middleware import ToolCallMiddleware

INSIDE = [
    '{"x": "rm -rf /home/me/t',
    '{"x": "half an escape \\',
    '{"x": 12',
    '{"x": tru',
    '{"x": [1, 2',
    '{"x": {"y": "z',
    '{"x": ',
    '{"x"',
    '{"x',
    '{"x": 1, ',
    "{",
]
BRACKETS = ['{"x": "a"', '{"x": [1]', '{"x": {"y": true', '{"x": null']
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
MODES = pytest.mark.parametrize("mode", ["prompt", "native", "auto"])


def backend(mode: str, arguments: str) -> Any:
    if mode == "prompt":
        return TextBackend([f'<tool_call>\n{{"name": "f", "arguments": {arguments}'])
    call = {"index": 0, "id": "call_" + "a" * 24, "type": "function", "function": {"name": "f", "arguments": arguments}}
    return NativeBackend({"tool_calls": [call]})


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", INSIDE)
async def test_it_stays_cut(arguments: str, mode: str, stream: bool) -> None:
    response = await post(ToolCallMiddleware(backend(mode, arguments), mode=mode), stream=stream)
    choice = answered(response)
    assert choice.finish_reason == "length"
    assert [call.name for call in choice.calls] == ["f"]
    assert arguments.startswith(choice.calls[0].arguments.rstrip())
    with pytest.raises(json.JSONDecodeError):
        json.loads(choice.calls[0].arguments)
    if not stream:
        assert "; cut=1" in response.headers["x-toolcall"]


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", BRACKETS)
async def test_closing_brackets_may_be_added_behind_a_value(arguments: str, mode: str, stream: bool) -> None:
    response = await post(ToolCallMiddleware(backend(mode, arguments), mode=mode), stream=stream)
    choice = answered(response, tools={"f"})
    assert choice.finish_reason == "tool_calls"
    assert choice.calls[0].arguments.startswith(arguments)


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", INSIDE)
async def test_it_is_no_call_where_calls_leave_when_they_are_complete(arguments: str, mode: str, stream: bool) -> None:
    response = await post(
        ToolCallMiddleware(backend(mode, arguments), mode=mode, stream_arguments=False), stream=stream
    )
    choice = answered(response)
    assert (choice.calls, choice.finish_reason) == ([], "length")
    assert "f" in choice.content


@STREAMS
@MODES
@pytest.mark.parametrize("settings", [{"malformed_arguments": "error"}, {"validate_arguments": "error"}])
async def test_it_is_an_error_where_malformed_arguments_are(settings: dict[str, Any], mode: str, stream: bool) -> None:
    response = await post(ToolCallMiddleware(backend(mode, INSIDE[0]), mode=mode, **settings), stream=stream)
    assert response.status_code == 422
    error = check_error(response.content)
    assert error["code"] == "malformed_tool_arguments"
    assert "ends inside" in error["message"]


@STREAMS
async def test_an_unclosed_string_that_takes_the_closing_marker_is_not_complete(stream: bool) -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"x": "see</tool_call>'
    choice = answered(await post(ToolCallMiddleware(TextBackend([text])), stream=stream))
    assert choice.finish_reason == "length"


@STREAMS
async def test_nothing_leaves_behind_a_call_that_is_cut(stream: bool) -> None:
    text = (
        '<tool_call>\n{"name": "f", "arguments": {"x": </tool_call>\n'
        '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    )
    choice = answered(await post(ToolCallMiddleware(TextBackend([text])), stream=stream))
    assert choice.finish_reason == "length"
    assert [call.arguments.rstrip() for call in choice.calls] == ['{"x":']


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", ["5", '["x"]', '"Paris"', "true"])
async def test_arguments_that_are_no_object_are_malformed(arguments: str, mode: str, stream: bool) -> None:
    app = ToolCallMiddleware(backend(mode, f"{arguments}}}"), mode=mode, malformed_arguments="error")
    response = await post(app, stream=stream)
    assert "malformed_tool_arguments" in response.text
    assert "are not a JSON object" in response.text
    assert stream or response.status_code == 422


@STREAMS
@MODES
async def test_arguments_that_are_too_large_are_the_models_fault(mode: str, stream: bool) -> None:
    app = ToolCallMiddleware(backend(mode, '{"x": "' + "a" * 500 + '"}}'), mode=mode, max_arguments_bytes=100)
    response = await post(app, stream=stream)
    assert '"type":"model_error"' in response.text
    assert '"code":"limit_exceeded"' in response.text
    if not stream:
        assert (response.status_code, response.headers["x-should-retry"]) == (422, "false")
