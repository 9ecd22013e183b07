"""Our own client on the wire: the head that it writes, what it takes for an answer, and where that ends."""

from __future__ import annotations

import time

import pytest

from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream.http1 import HttpAnswer, head_of

OK = b"HTTP/1.1 200 OK\r\n"
COUNTED = OK + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = OK + b"transfer-encoding: Chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nx-sum: 1\r\n\r\n"


def read(*pieces: bytes, to_head: bool = False) -> HttpAnswer:
    answer = HttpAnswer(to_head=to_head)
    for piece in pieces:
        answer.feed(memoryview(piece))
    return answer


@pytest.mark.parametrize("wire", [COUNTED, CHUNKED, b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + COUNTED])
def test_an_answer_is_the_same_however_it_is_cut(wire: bytes) -> None:
    for size in (1, 2, 3, 7, len(wire)):
        answer = read(*(wire[at : at + size] for at in range(0, len(wire), size)))
        assert (answer.status, answer.take(), answer.complete, answer.clean) == (200, b"hello", True, True)
        assert len(answer.headers) == 1


@pytest.mark.parametrize("wire", [COUNTED, CHUNKED, OK + b"content-length: 0\r\n\r\n"])
@pytest.mark.parametrize("more", [b"\r\n", b"x", b"\0", COUNTED, b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_bytes_behind_an_answer_make_its_connection_unclean_and_change_nothing_else(wire: bytes, more: bytes) -> None:
    body = read(wire).take()
    for pieces in ((wire + more,), (wire, more)):
        answer = read(*pieces)
        assert (answer.take(), answer.complete, answer.clean) == (body, True, False)


@pytest.mark.parametrize(
    "wire",
    [
        COUNTED.replace(b"1.1", b"1.0"),
        COUNTED.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n"),
        CHUNKED.replace(b"OK\r\n", b"OK\r\ncontent-length: 5\r\n"),
        OK.replace(b"200", b"101") + b"upgrade: x\r\nconnection: upgrade\r\n\r\nraw",
    ],
    ids=["1.0", "close", "both framings", "upgrade"],
)
def test_a_connection_that_may_end_or_be_out_of_step_is_unclean(wire: bytes) -> None:
    answer = read(wire)
    assert (answer.complete, answer.clean) == (True, False)


@pytest.mark.parametrize(
    "wire",
    [
        OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab",
        OK + b"content-length: -1\r\n\r\n",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: identity\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        OK + b"no colon\r\n\r\n",
        b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/0.9 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"\x00",
        OK + b"x: " + b"a" * 200_000,
        OK + b"x: y\r\n" * 50_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        CHUNKED[:-2] + b"x: " + b"a" * 200_000,
        CHUNKED[:-2] + b"x: y\r\n" * 50_000,
        CHUNKED[:60] + b"5;" + b"a" * 200_000,
    ],
    ids=lambda wire: wire[:60].decode("latin-1"),
)
def test_what_is_no_answer_is_refused_and_never_complete(wire: bytes) -> None:
    answer = HttpAnswer()

    def feed() -> None:
        for at in range(0, len(wire), 65536):
            answer.feed(memoryview(wire)[at : at + 65536])

    with pytest.raises(httpx.RemoteProtocolError):
        feed()
    assert (answer.complete, answer.clean) == (False, False)


def test_a_head_and_statuses_without_a_body_have_none() -> None:
    answer = read(OK + b"content-length: 5\r\n\r\n", to_head=True)
    assert (answer.complete, answer.clean, answer.take()) == (True, True, b"")
    for status in (b"204", b"304"):
        answer = read(OK.replace(b"200", status) + b"content-length: 5\r\n\r\n")
        assert (answer.complete, answer.clean) == (True, True)


def test_the_end_of_a_connection_ends_an_answer_only_where_nothing_else_does() -> None:
    until_close = read(OK + b"\r\nhel")
    assert until_close.end(None) is None
    assert (until_close.complete, until_close.take()) == (True, b"hel")
    reset = read(OK + b"\r\nhel")
    assert isinstance(reset.end(ConnectionResetError()), httpx.ReadError)
    assert not reset.complete
    for wire in (b"", OK, COUNTED[:-1], CHUNKED[:-1]):
        answer = read(wire)
        assert isinstance(answer.end(None), httpx.RemoteProtocolError)
        assert not answer.complete


def test_lines_that_end_in_lf_alone_are_read() -> None:
    answer = read(COUNTED.replace(b"\r\n", b"\n"))
    assert (answer.take(), answer.complete) == (b"hello", True)


def test_a_head_holds_its_headers_in_order_and_to_the_byte() -> None:
    headers = [(b"host", b"x"), (b"a", b"b  c\td"), (b"e", b""), (b"a", b"\xe9")]
    assert head_of("POST", b"/a?b", headers) == (
        b"POST /a?b HTTP/1.1\r\nhost: x\r\na: b  c\td\r\ne: \r\na: \xe9\r\n\r\n"
    )


@pytest.mark.parametrize(
    "header",
    [
        (b"a", b"x\r\nb: y"),
        (b"a", b"x\r\n"),
        (b"a: b\r\nc", b"d"),
        (b"a", b"x\ny"),
        (b"a", b"x\r"),
        (b"a", b" x"),
        (b"a", b"x "),
        (b"a", b"\x0b"),
        (b"a", b"x\x00"),
        (b"", b"x"),
        (b"a b", b"x"),
        (b"a:", b"x"),
    ],
)
def test_a_header_that_is_no_header_alone_is_refused_and_not_shown(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(httpx.LocalProtocolError, match=r"^a header is no HTTP$"):
        head_of("GET", b"/", [(b"host", b"x"), header, (b"last", b"y")])


def test_a_value_that_does_not_match_costs_linear_work() -> None:
    def seconds(size: int) -> float:
        begin = time.thread_time()
        with pytest.raises(httpx.LocalProtocolError):
            head_of("GET", b"/", [(b"a", b"x " * size + b"\x00")])
        return time.thread_time() - begin

    assert min(seconds(400_000) for _ in range(3)) < 20 * min(seconds(100_000) for _ in range(3))
