"""Arguments that are no JSON object are text by default: the call's name is held until its arguments begin as one."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from tests.exchange.test_modes import GOOD, TOOL, NativeBackend, answered, post
from tests.helpers.fakes import Answer, TextBackend
from tests.parsing.streams import calls_in, read
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.events import CallStart, Text

ID = "call_" + "a" * 24
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
UNREADABLE = ["oops not json", "[1]", '"plain words"', "5", "true", "-", "(a=1)"]
MARK = '{"mark": 0}'
WRITTEN = {name: registry.get(name).render_calls([ToolCall("f", MARK, "call_1")]) for name in registry.names()}
# Its call is in Python's notation or in elements, or its reader takes any text for the one argument.
OTHERS = {"mirothinker"}
BARE = {"llama3_json", "xlam", "action_json", "functionary_v32", "react"}  # no marker, so not all of these are calls
CHANNEL = re.compile(r"<\|channel\|>.*<\|message\|>")  # the header of a message is no content of it
TAKES_TEXT = {"harmony", "llm-jp-harmony"}
JSON = [name for name, text in WRITTEN.items() if MARK in text and name not in OTHERS]


def hermes(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("name", "arguments"),
    # Where a message's text is the tool's one argument, only JSON can be unreadable.
    [(name, one) for name in JSON for one in UNREADABLE if name not in TAKES_TEXT or one[0] in '["'],
)
def test_it_is_text_to_the_byte_in_any_format_with_json_arguments(name: str, arguments: str) -> None:
    text = WRITTEN[name].replace(MARK, arguments).removesuffix("<|end_message|>")  # the end of a turn is no content
    for pieces in ([text], list(text)):
        events = read(registry.get(name).parser(ToolSet.of([Tool("f")]), ParserOptions()), pieces)
        assert not any(isinstance(event, CallStart) for event in events)
        said = "".join(event.text for event in events if isinstance(event, Text))
        assert said == text or (name == "llm-jp-harmony" and said == CHANNEL.sub("", text))


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("arguments", ["null", "[]", '""', '"{\\"x\\": 1}"', '{"x": 1}', "{x: 1,}"])
def test_what_can_be_arguments_is_a_call(name: str, arguments: str) -> None:
    text = WRITTEN[name].replace(MARK, arguments)
    tools = ToolSet.of([Tool("f")])
    for pieces in ([text], list(text)):
        held = calls_in(read(registry.get(name).parser(tools, ParserOptions()), pieces))
        assert held == calls_in(read(registry.get(name).parser(tools, ParserOptions(any_arguments=None)), pieces))
        assert name in BARE or [json.loads(call.arguments) for call in held] in ([{}], [{"x": 1}])


@STREAMS
@pytest.mark.parametrize("path", ["chat/completions", "messages", "responses"])
async def test_no_face_shows_a_call_or_an_error(path: str, stream: bool) -> None:
    text = hermes("oops not json")
    app = ToolCallMiddleware(TextBackend([text]), faces="chat,messages,responses")
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 99}
    tool: dict[str, Any] = TOOL
    if path == "messages":
        tool = {"name": "f", "input_schema": {"type": "object"}}
    elif path == "responses":
        said, tool = {"input": "hi"}, {"type": "function", "name": "f", "parameters": {"type": "object"}}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app") as client:
        response = await client.post(f"/v1/{path}", json={"model": "m", **said, "tools": [tool], "stream": stream})
    assert response.status_code == 200
    assert "oops" in response.text
    for sign in ('"error":{', '"tool_use"', '"function_call"', '"tool_calls":['):
        assert sign not in response.text.replace(": ", ":")


@STREAMS
async def test_a_required_call_is_asked_for_again(stream: bool) -> None:
    backend = TextBackend([hermes("oops"), GOOD])
    choice = answered(await post(ToolCallMiddleware(backend), tool_choice="required", stream=stream), tools={"f"})
    assert choice.named_calls == [("f", '{"x": 3}')]
    assert len(backend.seen) == 2


@STREAMS
@pytest.mark.parametrize("mode", ["prompt", "native"])
@pytest.mark.parametrize("arguments", ["oops not json", ": 1}", "}", ","])
async def test_a_call_that_is_native_is_text_too(mode: str, arguments: str, stream: bool) -> None:
    first = {"index": 0, "id": ID, "type": "function", "function": {"name": "f", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": arguments}}
    whole = {"index": 0, "id": ID, "type": "function", "function": {"name": "f", "arguments": arguments}}
    deltas = [{"tool_calls": [first]}, {"tool_calls": [more]}] if stream else [{"tool_calls": [whole]}]
    app = ToolCallMiddleware(NativeBackend(*deltas, finish="tool_calls"), mode=mode)
    choice = answered(await post(app, stream=stream))
    assert (choice.calls, choice.finish_reason) == ([], "stop")
    assert json.loads(choice.content) == {"name": "f", "arguments": arguments}


@STREAMS
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}```", "\n```JSON\r\n\n{}\n```\n"])
async def test_a_code_fence_around_native_arguments_is_left_out(fence: str, size: int, stream: bool) -> None:
    arguments = fence.replace("{}", '{"x": 1}')
    pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)] if stream else [arguments]
    deltas: list[dict[str, Any]] = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    deltas[0] |= {"id": ID, "type": "function", "function": {"name": "f", "arguments": pieces[0]}}
    backend = NativeBackend(*({"tool_calls": [delta]} for delta in deltas))
    choice = answered(await post(ToolCallMiddleware(backend, mode="native"), stream=stream), tools={"f"})
    assert choice.named_calls == [("f", '{"x": 1}')]


@STREAMS
@pytest.mark.parametrize("arguments", ["oops", "5", "[1", '"plain'])
async def test_so_is_one_that_is_cut(arguments: str, stream: bool) -> None:
    text = f'<tool_call>\n{{"name": "f", "arguments": {arguments}'
    backend = TextBackend([Answer(text, finish_reason="length")])
    choice = answered(await post(ToolCallMiddleware(backend), stream=stream))
    assert not any(call.arguments for call in choice.calls)


async def test_its_outcome_is_malformed() -> None:
    response = await post(ToolCallMiddleware(TextBackend([hermes("oops")])))
    assert "malformed=1" in response.headers["x-toolcall"]


@STREAMS
@pytest.mark.parametrize("arguments", ["oops", "[1]", '"words"'])
async def test_it_is_an_error_where_that_is_set(arguments: str, stream: bool) -> None:
    app = ToolCallMiddleware(TextBackend([hermes(arguments)]), malformed_arguments="error")
    assert (await post(app, stream=stream)).status_code == 422


@STREAMS
async def test_a_custom_tool_takes_any(stream: bool) -> None:
    tool = {"type": "custom", "custom": {"name": "f"}}
    response = await post(ToolCallMiddleware(TextBackend([hermes('"ls -la"')])), tools=[tool], stream=stream)
    assert response.status_code == 200
    assert "ls -la" in response.text
    assert "<tool_call>" not in response.text
