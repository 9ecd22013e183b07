"""What families of models write, through the exchange and the face: the same calls, text and usage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apis.fed import MessagesFace
from tests.exchange.test_goldens_on_the_wire import chunks, offered, whole
from tests.formats import goldens
from tests.formats.goldens import Case
from tests.helpers.driven import Driven
from tests.helpers.stream_rules import Answered, check_stream, check_whole
from tests.helpers.thorough import THOROUGH
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from .received import Received, read_stream, read_whole


def face_for(case: Case, name: str, *, stream: bool) -> tuple[MessagesFace, bytes, Settings]:
    tools = [
        {"name": tool["function"]["name"], "input_schema": tool["function"].get("parameters") or {"type": "object"}}
        for tool in offered(case)
    ]
    body = {
        "model": "m",
        "max_tokens": 4096,
        "stream": stream,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [{"role": "user", "content": "hi"}],
        "tools": tools,
    }
    face = MessagesFace()
    made = face.request(json.dumps(body).encode())
    return face, made.body, Settings(**{**face.settings, "format": name})


def streamed(case: Case, name: str, reason: str) -> tuple[Received, Answered]:
    face, body, settings = face_for(case, name, stream=True)
    exchange = Driven(settings, BackendMemory())
    assert exchange.on_request(body) is not None
    data = chunks(case, reason)
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    out = exchange.feed(data) + exchange.finish()
    return read_stream(face.feed(out) + face.finish(cut=False)), check_stream(out, objects=False, include_usage=True)


def collected(case: Case, name: str, reason: str) -> tuple[Received, Answered]:
    face, body, settings = face_for(case, name, stream=False)
    exchange = Driven(settings, BackendMemory())
    assert exchange.on_request(body) is not None
    exchange.on_response_start(200, [(b"content-type", b"application/json")])
    reply = exchange.whole(whole(case, reason))
    assert reply is not None
    return read_whole(face.whole(reply.status, {}, reply.body).body), check_whole(reply.body, objects=False)


def words(text: str) -> str:
    """A text without its white space: what stands alone between calls is left out, and whole answers join the rest."""
    return "".join(text.split())


def compare(received: Received, chat: Answered) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("name", goldens.formats())
def test_goldens_are_the_same_on_this_face(name: str) -> None:
    failed: list[str] = []
    ran = 0
    for case in goldens.load(name):
        if case.options or case.expected_stop is not None:
            continue  # of the parser alone
        ran += 1
        cut = bool(case.cut or case.partial)
        reason = "length" if cut else "stop"
        try:
            stream, chat = streamed(case, name, reason)
            compare(stream, chat)
            if not THOROUGH and ran % 3:
                continue  # that the chat's whole answer is its stream's is shown in test_goldens_on_the_wire.py
            collected_answer, whole_chat = collected(case, name, reason)
            compare(collected_answer, whole_chat)
            last = -1 if chat.only.finish_reason == "length" else None
            assert stream.calls[:last] == collected_answer.calls[:last]
            assert words(stream.text) == words(collected_answer.text)
            assert stream.message.stop_reason == collected_answer.message.stop_reason
        except AssertionError as error:
            failed.append(f"{case.id}: {error}")
    assert ran > 5
    assert not failed, f"{len(failed)} of {ran} failed\n" + "\n".join(failed[:5])
