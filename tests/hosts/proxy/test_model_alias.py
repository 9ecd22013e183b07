"""A model under another name, in answers cut anywhere; and an upstream's refusals in OpenAI's form."""

from __future__ import annotations

import gzip
import itertools
import json
import time
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp

from tests.helpers.asgi_client import Backend, Client
from toolcall_middleware.hosts.proxy.upstream.model_names import AliasedAnswer, asked_model
from toolcall_middleware.hosts.proxy.upstream.upstream import Mask, MaskedStream, secrets_of

from ...observe.test_traces import written
from .proxy_servers import Answer, ask, masked, scope_of, serving
from .routing import Proxies, table

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
    made = Answer({})
    answer = AliasedAnswer(made.send, "client", limit)
    headers = [(b"content-type", kind), (b"content-encoding", coding), (b"content-length", b"99"), (b"x", b"y")]
    await answer.send({"type": "http.response.start", "status": 200, "headers": headers})
    for piece in pieces:
        await answer.send({"type": "http.response.body", "body": piece, "more_body": True})
    await answer.send({"type": "http.response.body", "body": b"", "more_body": False})
    return made


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


# --- secrets

KEY = 'sk-ab/cd"ef+1234567890'


def quoted(key: str) -> dict[str, bytes]:
    return {
        "plain": key.encode(),
        "json": json.dumps(key)[1:-1].encode(),
        "php": json.dumps(key)[1:-1].replace("/", "\\/").encode(),
        "escapes": "".join(f"\\u{ord(char):04x}" for char in key).encode(),
        "big escapes": "".join(f"\\u{ord(char):04X}" for char in key).encode(),
        "percent": "".join(f"%{ord(char):02x}" for char in key).encode(),
        "mixed": ("".join(f"\\u{ord(char):04x}" if char in "kb" else char for char in key)).encode(),
    }


def says(status: int, headers: dict[bytes, bytes], *parts: bytes) -> Backend:
    """An upstream that answers with these parts."""
    return Backend(*parts, b"", status=status, headers=list(headers.items()))


async def answer_of(app: Backend, path: str = "/v1/embeddings") -> Any:
    return await ask(masked(app, *secrets_of(KEY, None, ())), scope_of(path, method="POST"))


@pytest.mark.parametrize("form", quoted(KEY))
@pytest.mark.parametrize("kind", ["whole", "gzip", "deflate", "long", "long and told", "stream", "pieces"])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completions"])
async def test_a_key_does_not_come_back(kind: str, form: str, path: str) -> None:
    key = quoted(KEY)[form]
    body = b'{"error": {"message": "wrong key ' + key + b'!"}}'
    long = b"x" * 300_000 + body + b"y" * 100
    sse = {b"content-type": b"text/event-stream"}
    app = {
        "whole": says(401, {}, body),
        "gzip": says(401, {b"content-encoding": b"gzip", b"content-length": b"9"}, gzip.compress(body)),
        "deflate": says(403, {b"Content-Encoding": b"deflate"}, zlib.compress(body)),
        "long": says(500, {}, long[:300_050], long[300_050:]),
        "long and told": says(500, {b"content-length": b"%d" % len(long)}, long[:300_040], long[300_040:]),
        "stream": says(200, sse, b'data: {"a": 1}\n\n', b"data: " + body + b"\n\n"),
        "pieces": says(200, sse, *(body[at : at + 3] for at in range(0, len(body), 3))),
    }[kind]
    answer = await answer_of(app, path)
    assert key not in answer.body
    assert KEY not in json.dumps(answer.body.decode())
    assert b"wrong key **" in answer.body
    told = dict(answer.headers).get(b"content-length")
    assert told is None or int(told) == len(answer.body)
    assert b"content-encoding" not in {name.lower() for name, _ in answer.headers}


async def test_an_error_in_an_unknown_coding_leaves_without_its_body() -> None:
    answer = await answer_of(says(401, {b"content-encoding": b"br"}, b"\x0b" + KEY.encode()))
    assert (answer.status, answer.body) == (401, b"")


@given(st.binary(max_size=60), st.sampled_from(sorted(quoted(KEY))), st.lists(st.integers(1, 9), min_size=1))
def test_no_cut_lets_a_key_through_and_nothing_else_changes(before: bytes, form: str, sizes: list[int]) -> None:
    mask = Mask(secrets_of(KEY, None, ()))
    data = before + quoted(KEY)[form] + b" and more"
    stream = MaskedStream(mask, keeps_length=False)
    out, at, turn = b"", 0, 0
    while at < len(data):
        part = data[at : at + sizes[turn % len(sizes)]]
        at, turn = at + len(part), turn + 1
        out += stream.feed(part, last=at >= len(data))
    assert out == mask.whole(data) == before + b"*** and more"


def test_logins_and_the_operators_headers_are_secrets_too() -> None:
    keys = [(b"x-portkey-api-key", b"pk-1234567890"), (b"authorization", b"Bearer tok-123456")]
    headers = [*keys, (b"x-team", b"research-team")]
    found = secrets_of(None, "https://user:p%40ssw0rd1@host/v1", headers)
    assert {"pk-1234567890", "tok-123456", "p@ssw0rd1", b64encode(b"user:p@ssw0rd1").decode()} <= set(found)
    assert "research-team" not in found


async def test_what_holds_no_key_passes_to_the_byte() -> None:
    parts = [b'data: {"a": "s', b'k-a%"}\n\n', b"data: [DONE]\n\n"]
    answer = await answer_of(says(200, {b"content-type": b"text/event-stream"}, *parts))
    assert answer.body == b"".join(parts)


PLAIN_KEY = "sk-ab/cd+1234567890"


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        ("/v1/messages", {"name": "f", "input_schema": {"type": "object"}}),
        ("/v1/chat/completions", {"type": "function", "function": {"name": "f"}}),
    ],
)
async def test_a_trace_holds_no_key_either(path: str, tool: dict[str, Any], tmp_path: Path, proxies: Proxies) -> None:
    """The middleware reads the answer before it is masked for the client."""
    body = b'{"error": {"message": "wrong key %s!"}}' % PLAIN_KEY.encode()
    upstream = says(401, {b"content-type": b"application/json"}, body)
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    (traces := tmp_path / "traces").mkdir()
    async with serving(upstream) as address:
        up = table(f"{address}/v1", key=PLAIN_KEY)
        async with proxies.running(up, trace_dir=str(traces)) as client:
            assert (await client.post(path, json=asked)).status_code == 401
    (trace,) = written(traces)
    assert b"wrong key ***!" in trace.read_bytes()
    assert PLAIN_KEY.encode() not in trace.read_bytes()
