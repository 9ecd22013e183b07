"""What families of models write, through the exchange and each face: the calls, text, thoughts and usage of a chat."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.apis.fed import Fed, MessagesFace, ResponsesFace
from tests.apis.messages.received import read_stream
from tests.apis.messages.received import read_whole as read_message
from tests.apis.responses.received import check_stream as check_response_stream
from tests.apis.responses.received import check_whole as check_response
from tests.exchange.test_goldens_on_the_wire import chunks, offered
from tests.formats import goldens
from tests.formats.goldens import Case
from tests.helpers.driven import Driven
from tests.helpers.stream_rules import Answered, check_stream, check_whole
from tests.helpers.thorough import THOROUGH
from tests.response.streams import completion
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

Compared = tuple[Any, ...]


class Way(NamedTuple):
    """One face: its request, how a client reads its answers, and what is compared of them."""

    new: Callable[[], Fed]
    body: dict[str, Any]
    tool: Callable[[dict[str, Any]], dict[str, Any]]
    read: Callable[[bytes], Any]
    read_whole: Callable[[bytes], Any]
    compare: Callable[[Any, Answered], Compared]


def words(text: str) -> str:
    """A text without its white space: a message has no block of white space, and whole answers join the rest."""
    return "".join(text.split())


def message(received: Any, chat: Answered) -> Compared:
    choice = chat.only
    # What was cut is no JSON, and a whole answer has to hold an object all the same.
    calls = choice.calls[:-1] if choice.finish_reason == "length" else choice.calls
    found = received.calls[: len(calls)]
    assert [name for name, _ in received.calls] == [call.name for call in choice.calls]
    for (_, given), call in zip(found, calls, strict=True):
        wanted = json.loads(call.arguments) if call.arguments.strip() else {}
        assert given == (wanted if isinstance(wanted, dict) else {"arguments": wanted})
    assert words(received.text) == words(choice.content or "")
    assert words(received.thinking) == words(choice.reasoning)
    usage: dict[str, Any] = chat.usage or {}
    assert received.usage["input_tokens"] == usage["prompt_tokens"]
    assert received.usage["output_tokens"] == usage["completion_tokens"]
    ended = {"tool_calls": "tool_use", "length": "max_tokens", "stop": "end_turn"}
    assert received.message.stop_reason == ended[choice.finish_reason or ""]
    return found, words(received.text), received.message.stop_reason


def response(received: Any, chat: Answered) -> Compared:
    choice = chat.only
    calls = [(call[1], call[3]) for call in received.calls]
    assert calls == choice.named_calls
    assert received.ids == [call.id for call in choice.calls]
    assert received.text == (choice.content or "")
    assert received.thought == choice.reasoning
    if chat.usage is not None:
        assert received.response["usage"]["input_tokens"] == chat.usage["prompt_tokens"]
        assert received.response["usage"]["output_tokens"] == chat.usage["completion_tokens"]
    assert (received.response["status"] == "incomplete") == (choice.finish_reason == "length")
    return (calls,)


WAYS = {
    "messages": Way(
        MessagesFace,
        {
            "max_tokens": 4096,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "messages": [{"role": "user", "content": "hi"}],
        },
        lambda tool: {"name": tool["name"], "input_schema": tool.get("parameters") or {"type": "object"}},
        read_stream,
        read_message,
        message,
    ),
    "responses": Way(
        ResponsesFace,
        {"input": "hi"},
        lambda tool: {"type": "function", **tool},
        # What the SDK's helper makes of a stream takes most of the time.
        lambda body: check_response_stream(body, accumulate=THOROUGH or len(body) % 8 == 0),
        check_response,
        response,
    ),
}


def compared(way: Way, case: Case, name: str, reason: str, *, stream: bool) -> Compared:
    face = way.new()
    tools = [way.tool(tool["function"]) for tool in offered(case)]
    body = face.request(json.dumps({"model": "m", **way.body, "stream": stream, "tools": tools}).encode()).body
    exchange = Driven(Settings(format=name).layer(dict(face.settings), "face"), BackendMemory())
    assert exchange.on_request(body) is not None
    if stream:
        out = exchange.streams(chunks(case, reason))
        chat = check_stream(out, objects=False, include_usage=True)
        return way.compare(way.read(face.feed(out) + face.finish(cut=False)), chat)
    reply = exchange.answers(completion(case.text, reason))
    received = way.read_whole(face.whole(reply.status, {}, reply.body).body)
    return way.compare(received, check_whole(reply.body, objects=False))


@pytest.mark.slow
@pytest.mark.parametrize("api", WAYS)
@pytest.mark.parametrize("name", goldens.formats())
def test_the_face_says_what_the_chat_says(name: str, api: str) -> None:
    way, ran, seen = WAYS[api], 0, 0
    failed: list[str] = []
    for case in goldens.load(name):
        if case.options or case.expected_stop is not None:
            continue  # of the parser alone
        ran += 1
        reason = "length" if case.cut or case.partial else "stop"
        try:
            streamed = compared(way, case, name, reason, stream=True)
            seen += len(streamed[0])
            # That the chat's whole answer is its stream's is shown in test_goldens_on_the_wire.py.
            if THOROUGH or ran % 3 == 0:
                assert compared(way, case, name, reason, stream=False) == streamed
        except AssertionError as error:
            failed.append(f"{case.id}: {error}")
    assert ran > 5
    assert seen
    assert not failed, f"{len(failed)} of {ran} failed\n" + "\n".join(failed[:5])
