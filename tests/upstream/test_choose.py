"""`choose`: under `tool_choice: auto` the answer is constrained to a call of a tool, or of `respond`, which is text."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.helpers.fakes import Answer, TextBackend
from tests.helpers.received import received
from tests.upstream.test_tool_budget import ARGUMENTS, body_of, both, each_face, events, said
from tests.upstream.test_tool_budget import send as send_with
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.errors import SettingsError
from toolcall_middleware.parsing.calls.call_arguments import FirstString

TOOLS = [("get_weather", "Tells the weather.", ARGUMENTS)]
TEXT = 'It is "sunny"\nin Rome, 20 °C 🌞.'


def written(*calls: tuple[str, dict[str, Any]]) -> str:
    entries = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps({"tool_calls": entries})


WORDS = written(("respond", {"text": TEXT}))
CALL = written(("get_weather", {"place": "Rome"}))


async def send(
    backend: Any, face: str = "chat", *, options: dict[str, Any] | None = None, **fields: Any
) -> httpx.Response:
    given = {"choose": True, "tools_budget": None, **(options or {})}
    return await send_with(backend, body_of(face, TOOLS, **fields), face=face, **given)


@both
@each_face
@pytest.mark.parametrize("fmt", ["json", "hermes", "qwen3_coder"])
async def test_the_text_of_respond_is_the_answer(face: str, fmt: str, stream: bool) -> None:
    backend = TextBackend([WORDS])
    response = await send(backend, face, stream=stream, options={"format": fmt})
    text, calls, _ = said(face, response)
    assert (text, calls) == (TEXT, [])
    assert "respond" not in response.text
    schema = json.dumps(backend.bodies[0]["response_format"])
    assert "respond" in schema
    assert "get_weather" in schema


@both
@each_face
async def test_calls_are_as_always(face: str, stream: bool) -> None:
    backend = TextBackend([CALL])
    assert said(face, await send(backend, face, stream=stream))[:2] == ("", [("get_weather", {"place": "Rome"})])


@both
async def test_it_ends_with_the_text(stream: bool) -> None:
    backend = TextBackend([written(("respond", {"text": "Fine."}), ("get_weather", {"place": "Rome"}))])
    response = await send(backend, stream=stream)
    assert said("chat", response)[:2] == ("Fine.", [])
    assert received("chat", response.content).finish_reason == "stop"


@both
async def test_text_behind_calls_is_left_out(stream: bool) -> None:
    backend = TextBackend([written(("get_weather", {"place": "Rome"}), ("respond", {"text": "I look."}))])
    assert said("chat", await send(backend, stream=stream))[:2] == ("", [("get_weather", {"place": "Rome"})])


async def test_the_text_leaves_while_it_is_written() -> None:
    response = await send(TextBackend([written(("respond", {"text": "one two three four five six"}))]), stream=True)
    pieces = [choice["delta"].get("content") for event in events(response) for choice in event["choices"]]
    assert len(list(filter(None, pieces))) > 4


@both
@each_face
async def test_half_of_a_surrogate_pair_is_text(face: str, stream: bool) -> None:
    backend = TextBackend(['{"tool_calls": [{"name": "respond", "arguments": {"text": "a\\ud83c b"}}]}'])
    text = said(face, await send(backend, face, stream=stream))[0]
    assert (text[0], text[-2:]) == ("a", " b")


@both
async def test_stop_strings_and_limits_end_the_text(stream: bool) -> None:
    backend = TextBackend([written(("respond", {"text": "one STOP two"}))])
    assert said("chat", await send(backend, stream=stream, stop=["STOP"]))[0] == "one "
    cut = TextBackend([Answer(WORDS[:-20], finish_reason="length")])
    response = await send(cut, stream=stream)
    assert received("chat", response.content).finish_reason == "length"
    assert TEXT.startswith(said("chat", response)[0])


@both
async def test_a_backend_that_takes_no_constraint_is_asked_without_the_tool(stream: bool) -> None:
    backend = TextBackend(["Sunny."] * 9, refused_fields=["response_format"])
    response = await send(backend, stream=stream)
    assert said("chat", response)[0] == "Sunny."
    last = backend.bodies[-1]
    assert "response_format" not in last
    assert "respond" not in json.dumps(last["messages"])
    assert "Call the one tool" not in json.dumps(last["messages"])


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "required"},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        {"response_format": {"type": "json_object"}},
    ],
)
async def test_it_is_for_auto_alone(fields: dict[str, Any]) -> None:
    backend = TextBackend([CALL])
    await send(backend, options={"structured": "off"}, **fields)
    assert '"respond"' not in json.dumps(backend.bodies[0])


async def test_a_client_s_own_respond_is_left_alone() -> None:
    backend = TextBackend(["Fine."])
    body = body_of("chat", [*TOOLS, ("respond", "Mine.", ARGUMENTS)])
    await send_with(backend, body, choose=True, tools_budget=None)
    assert "response_format" not in backend.bodies[0]


@both
async def test_a_request_may_ask_for_it(stream: bool) -> None:
    backend = TextBackend([WORDS])
    response = await send(backend, stream=stream, options={"choose": False}, toolcall={"choose": True})
    assert said("chat", response)[0] == TEXT


@pytest.mark.parametrize("options", [{"constrain": "off"}, {"mode": "native"}])
def test_where_nothing_can_be_constrained_it_is_refused_at_start(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="choose"):
        ToolCallMiddleware(TextBackend([]), choose=True, **options)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("text", [TEXT, "", 'a\\"b\\\\', "\U0001f31e \ud83c", "\u2028\u0000é", '"}]}'])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_string_is_read_piece_by_piece(size: int, text: str, ascii_only: bool) -> None:
    whole = json.dumps({"text": text}, ensure_ascii=ascii_only)
    reader = FirstString()
    read = "".join(reader.feed(whole[at : at + size]) for at in range(0, len(whole), size))
    assert read == text


def test_a_backslash_before_what_reads_like_half_a_pair_ends_the_answer_whole() -> None:
    reader = FirstString()
    assert "".join(map(reader.feed, ['{"text": "', "a\\\\ud83d", 'b"}'])) == "a\\ud83db"
    assert FirstString().feed('{"text": "a\\\\ud83d') == "a\\ud83d"


@pytest.mark.parametrize("text", ["{}", '{"text": 3}', '{"text": {"a": "b"}}', '["a"]', "{" * 999, '{"a' * 999])
def test_what_is_no_string_says_nothing(text: str) -> None:
    reader = FirstString()
    assert "".join(map(reader.feed, text)) == ""
