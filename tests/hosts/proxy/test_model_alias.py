"""A model under another name, in answers cut anywhere; and an upstream's refusals in OpenAI's form."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

from tests.helpers.asgi_client import Backend, Client
from toolcall_middleware.hosts.proxy.upstream.model_names import AliasedAnswer, asked_model

from .proxy_servers import Answer, ask, masked, scope_of

EVENTS = (
    b': hi\n\nevent: x\nid: 7\ndata: {"model": "own", "a": [1.50, {"model": "inner"}]}\n\n'
    b'data: {"model":"other","text":"\\"model\\": \\"own\\" \xc3\xa9"}\r\n\r\n'
    b'data: {"choices": []}\n\ndata: {"error": {"model": "own"}}\n\ndata: not json "model"\n\n'
    b'data: {"model":\ndata: "own"}\n\ndata: [DONE]\n\n'
)
RENAMED = (
    b': hi\n\nevent: x\nid: 7\ndata: {"model":"client","a":[1.50, {"model": "inner"}]}\n\n'
    b'data: {"model":"client","text":"\\"model\\": \\"own\\" \xc3\xa9"}\r\n\r\n'
    b'data: {"choices": []}\n\ndata: {"error": {"model": "own"}}\n\ndata: not json "model"\n\n'
    b'data: {"model":"client"}\n\ndata: [DONE]\n\n'
)


async def renamed(kind: bytes, *pieces: bytes, limit: int | None = None, coding: bytes = b"identity") -> Answer:
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    answer = AliasedAnswer(send, "client", limit)
    headers = [(b"content-type", kind), (b"content-encoding", coding), (b"content-length", b"99"), (b"x", b"y")]
    await answer.send({"type": "http.response.start", "status": 200, "headers": headers})
    for piece in pieces:
        await answer.send({"type": "http.response.body", "body": piece, "more_body": True})
    await answer.send({"type": "http.response.body", "body": b"", "more_body": False})
    return Answer(messages)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(EVENTS)), max_size=6))
async def test_a_stream_cut_anywhere_is_renamed_and_nothing_else(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(EVENTS)]
    pieces = [EVENTS[begin:end] for begin, end in itertools.pairwise(edges)]
    answer = await renamed(b"text/event-stream; charset=utf-8", *pieces)
    assert answer.body == RENAMED
    assert answer.complete
    assert (b"content-length", b"99") not in answer.headers


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ('{"id":1,"model":"own","text":"%d"}', '{"id":1,"model":"client","text":"%d"}'),
        ('{"in":{"model":"own"},"model":"own","text":"%d"}', '{"in":{"model":"own"},"model":"client","text":"%d"}'),
        ('{"in":{"model":"own"},"text":"%d"}', '{"in":{"model":"own"},"text":"%d"}'),
        ('{"text":"\\"model\\":\\"own\\" %d","model":"own"}', '{"text":"\\"model\\":\\"own\\" %d","model":"client"}'),
        ('{"a":["model", %d],"model":"ow\\u006e"}', '{"a":["model", %d],"model":"client"}'),
    ],
)
async def test_events_that_begin_alike_are_all_renamed(event: str, expected: str) -> None:
    answer = await renamed(b"text/event-stream", *[f"data: {event}\n\n".encode() % at for at in range(5)])
    assert answer.body == b"".join(f"data: {expected}\n\n".encode() % at for at in range(5))


async def test_an_event_without_its_blank_line_comes_too() -> None:
    answer = await renamed(b"text/event-stream", b'data: {"model":"own"}\n')
    assert answer.body == b'data: {"model":"client"}\n'


async def test_a_whole_answer_is_renamed_and_has_its_new_length() -> None:
    answer = await renamed(b"application/json", b'{"x": 1.50, "mo', b'del": "own"}')
    assert answer.body == b'{"x":1.50,"model":"client"}'
    assert (b"content-length", b"27") in answer.headers
    assert (b"x", b"y") in answer.headers


@pytest.mark.parametrize(
    ("kind", "coding", "body"),
    [
        (b"text/plain", b"identity", b'{"model":"own"}'),
        (b"application/json", b"gzip", b'{"model":"own"}'),
        (b"application/json", b"identity", b'{"models":"own"}'),
        (b"application/json", b"identity", b'["model"]'),
        (b"application/json", b"identity", b'{"model":'),
    ],
)
async def test_anything_else_passes_as_it_is(kind: bytes, coding: bytes, body: bytes) -> None:
    answer = await renamed(kind, body[:5], body[5:], coding=coding)
    assert answer.body == body
    assert (b"content-length", b"99") in answer.headers


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
async def test_what_is_too_large_to_be_held_passes(kind: bytes) -> None:
    body = b'data: {"model": "own", "x": "' + b"x" * 500
    answer = await renamed(kind, *[body[at : at + 50] for at in range(0, len(body), 50)], limit=100)
    assert answer.body == body
    assert answer.complete


def test_a_model_is_replaced_in_a_body_and_all_else_keeps_its_bytes() -> None:
    body = b'{"a": 1.50, "model": "\\u00e9/x", "b": "\\u00e9"}'
    asked = asked_model(scope_of(method="POST"), body)
    assert asked.model == "é/x"
    assert asked.renamed(body, "é") == '{"a":1.50,"model":"é","b":"\\u00e9"}'.encode()


# --- refusals


def refusing(status: int, *pieces: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> ASGIApp:
    return masked(Backend(*pieces, b"", status=status, headers=list(headers)), "sk-upstream-key")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"object": "error", "message": "too long", "code": 400}', "too long"),
        (b'{"error": "plain"}', "plain"),
        (b"<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
        (b"", "The backend answered with status 502 and no text."),
        (b'{"error": {"message": "key sk-upstream-key is bad"}}', "key *** is bad"),
    ],
)
async def test_a_refusal_of_a_chat_gets_openais_form(body: bytes, message: str) -> None:
    headers = ((b"content-type", b"text/html"), (b"content-length", b"%d" % len(body)), (b"retry-after", b"9"))
    app = refusing(502, body[:3], body[3:], headers=headers)
    answer = await ask(app, scope_of("/v1/chat/completions", method="POST"))
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["message"]) == (502, message)
    assert error.keys() == {"message", "type", "param", "code"}
    assert dict(answer.headers) == {
        b"content-type": b"application/json",
        b"content-length": b"%d" % len(answer.body),
        b"retry-after": b"9",
    }


async def test_what_has_the_form_and_what_is_no_chat_keeps_its_bytes() -> None:
    body = b'{"error":{"message": "m", "type": "t", "param": null, "code": 1.50, "more": 1}}'
    for path, given_body in (("/v1/chat/completions", body), ("/v1/embeddings", b"oh no")):
        answer = await ask(refusing(400, given_body), scope_of(path, method="POST"))
        assert (answer.status, answer.body) == (400, given_body)


async def test_what_is_no_error_or_no_message_passes() -> None:
    large = b"x" * 300_000
    assert (await ask(refusing(500, large, b"end"), scope_of("/v1/chat/completions", method="POST"))).body == (
        large + b"end"
    )
    coded = refusing(500, b"zip", headers=((b"content-encoding", b"gzip"),))
    unreadable = await ask(coded, scope_of("/v1/chat/completions", method="POST"))
    assert b"zip" not in unreadable.body
    assert (await ask(refusing(200, b"a", b"b"), scope_of("/v1/chat/completions", method="POST"))).body == b"ab"


async def test_an_error_in_tiny_pieces_takes_no_longer_than_it_has_pieces() -> None:
    drips = Backend(*[b"x"] * 60_000, b"", status=500, headers=[])
    begin = time.process_time()
    made = await Client().run(masked(drips))
    assert time.process_time() - begin < 3
    assert made.status == 500
    assert len(made.got) == 2
