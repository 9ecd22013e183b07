"""Bodies and answers that a host gives by itself."""

from __future__ import annotations

import json

from starlette.types import Message

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.hosts.http.bodies import Given
from toolcall_middleware.hosts.http.errors import send_error
from toolcall_middleware.hosts.http.head import response_head, scope_for_body


async def test_an_error_is_one_json_answer_with_headers_in_latin_1() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    error = ToolCallError("upstream_error", "Gone.", status=503, headers={"retry-after": "1", "x-note": "é €"})
    await send_error(send, error)
    start, body = sent
    headers = dict(start["headers"])
    assert start["status"] == 503
    assert json.loads(body["body"])["error"]["message"] == "Gone."
    assert not body["more_body"]
    assert headers[b"content-length"] == str(len(body["body"])).encode()
    assert (headers[b"retry-after"], headers[b"x-note"]) == (b"1", b"\xe9 ?")


async def test_a_body_is_given_once_and_then_the_client_speaks() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    give = Given(b"{}", receive)
    assert [await give() for _ in range(3)] == [
        {"type": "http.request", "body": b"{}", "more_body": False},
        {"type": "http.disconnect"},
        {"type": "http.disconnect"},
    ]


def test_a_body_has_one_length_and_an_answer_that_is_read_no_coding() -> None:
    given = [
        (b"Content-Length", b"9"),
        (b"transfer-encoding", b"chunked"),
        (b"Expect", b"x"),
        (b"Accept-Encoding", b"gzip"),
    ]
    scope = {"type": "http", "headers": [*given, (b"x-odd", b"1")]}
    assert scope_for_body(scope, 2)["headers"] == [
        (b"Accept-Encoding", b"gzip"),
        (b"x-odd", b"1"),
        (b"content-length", b"2"),
    ]
    assert scope_for_body(scope, 2, identity=True)["headers"] == [
        (b"x-odd", b"1"),
        (b"content-length", b"2"),
        (b"accept-encoding", b"identity"),
    ]


def test_headers_of_an_error_do_not_stand_on_the_answer_that_was_read_from_it() -> None:
    """A client that is told to try again has its answer."""
    told = [(b"Retry-After", b"7"), (b"x-should-retry", b"true"), (b"x-note", b"a")]
    start = {"type": "http.response.start", "status": 503, "headers": told}
    assert response_head(start, {}, status=200)["headers"] == [(b"x-note", b"a")]
    assert {name.lower() for name, _ in response_head(start, {}, status=503)["headers"]} == {
        b"retry-after", b"x-should-retry", b"x-note",
    }  # fmt: skip
