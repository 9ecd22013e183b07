"""Content that is a list of parts: its text is read as any other, streamed and whole, and its thoughts stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.asgi_client import Client, ask, middleware
from tests.helpers.driven import Driven
from tests.helpers.stream_rules import check_stream, check_whole, same_answer
from toolcall_middleware.answer.operations import Content, Image, Step
from toolcall_middleware.response.answer_form import as_stream
from toolcall_middleware.response.said import say
from toolcall_middleware.settings import Settings
from toolcall_middleware.wire.openai import raw

from .streams import chunk, completion, role, stream

CITY = '{"city": "Paris"}'
TAG = f'<tool_call>\n{{"name": "weather", "arguments": {CITY}}}\n</tool_call>'
HEADERS = {"stream": [(b"content-type", b"text/event-stream")], "whole": [(b"content-type", b"application/json")]}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


MISTRALS = {"type": "thinking", "thinking": [text("Hm, "), text("well.")]}
DATABRICKS = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm, well."}]}


def whole(content: Any, **settings: Any) -> bytes:
    made = Driven(Settings(**settings))
    made.on_request(ask(stream=False))
    return made.answers(completion({"content": content})).body


def streamed(*contents: Any, **settings: Any) -> bytes:
    made = Driven(Settings(**settings))
    made.on_request(ask())
    data = stream(role(), *(chunk({"content": content}) for content in contents), chunk({}, "stop"))
    return made.streams(*(data[at : at + 50] for at in range(0, len(data), 50)))


@pytest.mark.parametrize("mode", ["prompt", "native", "auto"])
@pytest.mark.parametrize("thought", [MISTRALS, DATABRICKS], ids=["mistral", "databricks"])
def test_a_call_in_text_parts_is_one_streamed_and_whole(thought: dict[str, Any], mode: str) -> None:
    before = [thought, text("Let me see.\n\n")]
    pieces = [[thought], [text("Let me see.")], [text("\n\n")], *([text(char)] for char in TAG)]
    stream_answer = check_stream(streamed(*pieces, mode=mode), tools={"weather"})
    whole_answer = check_whole(whole([*before, text(TAG[:9]), text(TAG[9:])], mode=mode), tools={"weather"})
    same_answer(stream_answer, whole_answer)
    assert whole_answer.only.named_calls == [("weather", CITY)]
    assert (whole_answer.only.content or "").strip() == "Let me see."
    assert whole_answer.only.reasoning == "Hm, well."


def test_without_a_call_the_text_is_a_string() -> None:
    stream_answer = check_stream(streamed([MISTRALS], [text("It is ")], [text("sunny"), text(".")]))
    whole_answer = check_whole(whole([MISTRALS, text("It is sunny.")]))
    same_answer(stream_answer, whole_answer)
    assert (whole_answer.only.content, whole_answer.only.reasoning) == ("It is sunny.", "Hm, well.")
    named = json.loads(whole([MISTRALS, text("It is sunny.")], reasoning_field="reasoning_content"))
    assert named["choices"][0]["message"]["content"] == "It is sunny."


def test_text_in_parts_ends_at_the_client_s_stop_string() -> None:
    made = Driven(Settings())
    made.on_request(ask(stop=["END"]))
    made.on_response_start(200, HEADERS["stream"])
    data = stream(role(), chunk({"content": [text("one E")]}), chunk({"content": [text("ND two")]}), chunk({}, "stop"))
    assert check_stream(made.feed(data) + made.finish()).only.content == "one "


@pytest.mark.parametrize(
    "odd", [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "reference"}, 1, text("a") | {"text": 1}]
)
def test_other_parts_leave_as_they_came(odd: Any) -> None:
    content = [text("See: "), odd]
    assert json.loads(whole(content))["choices"][0]["message"]["content"] == content
    assert json.dumps(content).encode() in streamed(content)


async def test_a_whole_answer_in_parts_becomes_the_stream_that_was_asked_for() -> None:
    """A backend that does not stream."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        message = {"role": "assistant", "content": [MISTRALS, text(TAG)]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS["whole"]})
        await send({"type": "http.response.body", "body": json.dumps({**head, "choices": [choice]}).encode()})

    made = await Client(ask()).run(middleware(app))
    answer = check_stream(made.body, tools={"weather"})
    assert answer.only.named_calls == [("weather", CITY)]
    assert answer.only.reasoning == "Hm, well."


def test_a_whole_answer_in_parts_keeps_its_images_as_a_stream() -> None:
    image: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    events = as_stream(completion({"content": [text("See: "), image]})) or b""
    delta = json.loads(events.split(b"\n\n")[0][6:])["choices"][0]["delta"]
    steps: list[Step] = []
    say({name: raw(value) for name, value in delta.items()}, [Content(delta["content"])], steps)
    assert steps == [Content("See: "), Image(image["image_url"]["url"])]


def test_the_calls_of_a_delta_may_be_one_object() -> None:
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "evil", "arguments": "{}"}}
    good = {**call, "function": {"name": "weather", "arguments": CITY}}
    for one, calls in ((call, []), (good, [("weather", CITY)])):
        made = Driven(Settings(mode="native"))
        made.on_request(ask())
        made.on_response_start(200, HEADERS["stream"])
        data = stream(role(), chunk({"tool_calls": one}), chunk({}, "tool_calls"))
        assert check_stream(made.feed(data) + made.finish(), own_ids=False).only.named_calls == calls


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b'error: {"code":500,"message":"boom","type":"server_error"}\n\n', 500),  # llama.cpp's server
        (b'data: {"detail": "boom"}\n\n', 502),  # FastAPI
    ],
)
async def test_an_error_in_a_stream_keeps_its_text(line: bytes, status: int) -> None:

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS["stream"]})
        await send({"type": "http.response.body", "body": first + line})

    first = b""
    made = await Client(ask()).run(middleware(app))
    assert (made.status, made.json["error"]["message"]) == (status, "boom")
    first = stream(role(), chunk({"content": "Hello"})).removesuffix(b"data: [DONE]\n\n")
    made = await Client(ask()).run(middleware(app))
    answer = check_stream(made.body, error=True)
    assert (answer.only.content, answer.error and answer.error["message"]) == ("Hello", "boom")
