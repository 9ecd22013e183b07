"""The head of a request for an upstream: its bytes, and what is refused because a server could read it otherwise."""

from __future__ import annotations

import time

import pytest

from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream.http1 import head_of


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
