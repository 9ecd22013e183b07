"""The wrapper of an app's answer: it starts, collects up to a limit, passes, or replaces."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from starlette.types import Message

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.hosts.http.answer import Answer, Collected, Reads, TooLongError
from toolcall_middleware.hosts.http.bodies import Given
from toolcall_middleware.hosts.http.errors import send_error
from toolcall_middleware.hosts.http.head import response_head, scope_for_body


def start(**headers: str) -> Message:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200, "headers": pairs}


def body(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


class Upper(Answer):
    """Answers in capitals, read as `how` says."""

    def __init__(self, sent: list[Message], how: Reads, limit: int | None = None, *, decodes: bool = False) -> None:
        async def send(message: Message) -> None:
            sent.append(message)

        super().__init__(send, limit)
        self._how = how
        self._undoes = decodes

    def begun(self) -> Reads:
        if self._undoes:
            self.decode(self._limit)
        return self._how

    async def piece(self, data: bytes, *, last: bool) -> bytes:
        return data.upper() + (b"!" if last else b"")

    async def whole(self, body: bytes) -> bytes | None:
        if body == b"same":
            return None
        self.replaced((b"x-own", b"1"), length=len(body))
        return body.upper()


class LazyUpper(Upper):
    lazy = True


async def told(how: Reads, *messages: Message, limit: int | None = None, **options: Any) -> list[Message]:
    sent: list[Message] = []
    answer = Upper(sent, how, limit, **options)
    for message in messages:
        await answer.send(message)
    return sent


async def test_what_is_not_read_passes_as_it_came() -> None:
    messages = [start(etag="1"), body(b"a", more=True), body(b"b")]
    assert await told(Reads.NOTHING, *messages) == messages


async def test_pieces_are_read_one_by_one_and_empty_ones_are_not_sent() -> None:
    sent = await told(Reads.PIECES, start(), body(b"a", more=True), body(b"", more=True), body(b"b"))
    assert sent == [start(), body(b"A", more=True), body(b"B!")]


async def test_a_whole_answer_is_replaced_with_its_headers() -> None:
    given = start(Content_Length="2", ETag="1", X_Own="0", x_odd="2")
    head, data = await told(Reads.WHOLE, given, body(b"a", more=True), body(b"b"))
    assert head["headers"] == [(b"x-odd", b"2"), (b"x-own", b"1"), (b"content-length", b"2")]
    assert data == body(b"AB")
    assert len(given["headers"]) == 4  # the app's own message stays


async def test_a_whole_answer_that_stays_passes_in_its_messages() -> None:
    messages = [start(etag="1"), body(b"sa", more=True), body(b"me")]
    assert await told(Reads.WHOLE, *messages) == messages


@pytest.mark.parametrize(
    "messages", [[body(b"abc", more=True), body(b"d")], [body(b"ab", more=True), body(b"cd", more=True)]]
)
async def test_what_is_too_long_passes_as_it_came(messages: list[Message]) -> None:
    assert await told(Reads.WHOLE, start(), *messages, limit=2) == [start(), *messages]


async def test_an_answer_that_is_complete_with_its_last_piece_is_read_however_long() -> None:
    sent = await told(Reads.WHOLE, start(), body(b"ab", more=True), body(b"cd"), limit=2)
    assert sent[-1] == body(b"ABCD")


async def test_a_message_of_an_extension_lets_pass_what_was_held() -> None:
    path: Message = {"type": "http.response.pathsend", "path": "/x"}
    assert await told(Reads.WHOLE, start(), path) == [start(), path]


async def test_a_lazy_answer_begins_with_its_first_bytes() -> None:
    sent: list[Message] = []
    answer = LazyUpper(sent, Reads.PIECES)
    await answer.send(start())
    await answer.send(body(b"", more=True))
    assert not sent
    await answer.send(body(b"a"))
    assert sent == [start(), body(b"A!")]
    await answer.send(body(b"more"))  # after its end
    assert len(sent) == 2


async def test_an_answer_that_broke_off_leaves_as_far_as_it_came() -> None:
    sent: list[Message] = []
    answer = Upper(sent, Reads.WHOLE)
    await answer.send(start())
    await answer.send(body(b"a", more=True))
    assert not sent
    await answer.flush()
    await answer.flush()
    assert sent == [start(), body(b"a", more=True)]


@pytest.mark.parametrize("how", [Reads.WHOLE, Reads.PIECES])
async def test_a_content_coding_is_undone_within_a_limit(how: Reads) -> None:
    given = start(content_encoding="gzip", etag="1")
    sent = await told(how, given, body(gzip.compress(b"a" * 9)), decodes=True)
    assert sent[-1]["body"].startswith(b"A" * 9)
    assert not [name for name, _ in sent[0]["headers"] if name in {b"etag", b"content-encoding"}]
    with pytest.raises(ToolCallError):
        await told(how, given, body(gzip.compress(b"a" * 9)), decodes=True, limit=8)
    with pytest.raises(ToolCallError):
        await told(how, start(content_encoding="br"), decodes=True)


async def test_an_answer_to_a_request_of_our_own_is_collected() -> None:
    answer = Collected(4)
    assert (answer.status, answer.body) == (0, None)
    await answer.send(start())
    await answer.send(body(b"ab", more=True))
    assert (answer.status, answer.body) == (200, None)
    await answer.send(body(b"cd"))
    assert answer.body == b"abcd"
    assert (await answer.gone())["type"] == "http.disconnect"


@pytest.mark.parametrize("more", [True, False])
async def test_more_than_is_kept_of_it_is_told_to_the_app(more: bool) -> None:
    answer = Collected(4)
    await answer.send(start())
    with pytest.raises(TooLongError):
        await answer.send(body(b"abcde", more=more))
    assert answer.body is None


# --- whole answers


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


async def test_what_latin_1_does_not_have_is_a_question_mark_in_a_header() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await send_error(send, ToolCallError("invalid_request", "x", headers={"x-a": "ü–"}))
    for head in (sent[0], response_head(start(), {"x-a": "ü–"}, status=None)):
        assert head["headers"][-1] == (b"x-a", b"\xfc?")
