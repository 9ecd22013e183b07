"""Golden cases of the formats through the exchange and the face: the calls, text, thoughts and usage of the chat."""

from __future__ import annotations

import json

import pytest

from tests.apis.fed import ResponsesFace
from tests.exchange.test_goldens_on_the_wire import chunks, offered, whole
from tests.helpers import stream_rules
from tests.helpers.driven import Driven
from tests.helpers.thorough import THOROUGH
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from ...formats import goldens
from .received import Received, check_stream, check_whole


def asked(case: goldens.Case, settings: Settings, *, stream: bool) -> tuple[ResponsesFace, Driven]:
    tools = [{"type": "function", **tool["function"]} for tool in offered(case)]
    face = ResponsesFace()
    body = {"model": "m", "input": "hi", "tools": tools, "stream": stream}
    request = face.request(json.dumps(body).encode())
    exchange = Driven(settings.layer(dict(face.settings), "face"), BackendMemory())
    assert exchange.on_request(request.body) is not None
    return face, exchange


def streamed(
    case: goldens.Case, settings: Settings, reason: str, *, accumulate: bool
) -> tuple[Received, stream_rules.Answered]:
    face, exchange = asked(case, settings, stream=True)
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    data = chunks(case, reason)
    answer = exchange.feed(data) + exchange.finish()
    got = check_stream(face.feed(answer) + face.finish(cut=False), accumulate=accumulate)
    return got, stream_rules.check_stream(answer, objects=False, include_usage=True)


def collected(case: goldens.Case, settings: Settings, reason: str) -> tuple[Received, stream_rules.Answered]:
    face, exchange = asked(case, settings, stream=False)
    exchange.on_response_start(200, [(b"content-type", b"application/json")])
    reply = exchange.whole(whole(case, reason))
    assert reply is not None
    return check_whole(face.whole(200, {}, reply.body).body), stream_rules.check_whole(reply.body, objects=False)


def compared(got: Received, answered: stream_rules.Answered) -> list[tuple[str, str]]:
    choice = answered.only
    calls = [(call[1], call[3]) for call in got.calls]
    assert calls == choice.named_calls
    assert got.ids == [call.id for call in choice.calls]
    assert got.text == (choice.content or "")
    assert got.thought == choice.reasoning
    if answered.usage is not None:
        assert got.response["usage"]["input_tokens"] == answered.usage["prompt_tokens"]
        assert got.response["usage"]["output_tokens"] == answered.usage["completion_tokens"]
    assert (got.response["status"] == "incomplete") == (choice.finish_reason == "length")
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("name", goldens.formats())
def test_the_face_says_what_the_chat_says(name: str) -> None:
    settings = Settings(format=name)
    seen = 0
    for number, case in enumerate(goldens.load(name)):
        if case.options or case.expected_stop is not None:
            continue  # of the parser alone
        reason = "length" if case.cut or case.partial else "stop"
        stream = streamed(case, settings, reason, accumulate=THOROUGH or number % 8 == 0)
        calls = compared(*stream)
        # That the chat's whole answer is its stream's is shown in test_goldens_on_the_wire.py.
        if THOROUGH or number % 3 == 0:
            assert calls == compared(*collected(case, settings, reason)), case.id
        seen += len(calls)
    assert seen
