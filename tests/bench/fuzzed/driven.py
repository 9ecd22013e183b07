"""An exchange from end to end: what a host does with it, for a stream and for a whole answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.helpers.driven import Driven
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

_TRIES = 12


@dataclass(frozen=True)
class Outcome:
    """What the client got: a body, or the code of an error (and then the body that had left before, if any had)."""

    body: bytes = b""
    error: str | int | None = None
    stopped: bool = False


def stream(
    settings: Settings, request: dict[str, Any], *answers: list[bytes], cut: bool = False, inner: bool = False
) -> Outcome:
    """The backend answers with the pieces of one stream after another; the last one is repeated.

    cut: and then goes away. inner: text may be emitted before another try.
    """
    exchange = Driven(settings, BackendMemory())
    out = b""
    try:
        assert exchange.on_request(json.dumps({**request, "stream": True}).encode()) is not None
        for number in range(_TRIES):
            out += _one_answer(exchange, answers[min(number, len(answers) - 1)], cut=cut)
            if exchange.take_next() is None:
                return Outcome(out, _late_error(out), exchange.stopped)
            assert inner or not out, "something left for the client before another try"
            exchange.stopped = False
    except ToolCallError as error:
        return Outcome(error=error.code)
    raise AssertionError("the backend is asked again and again")


def _one_answer(exchange: Driven, pieces: list[bytes], *, cut: bool) -> bytes:
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    out: list[bytes] = []
    for piece in pieces:
        out.append(exchange.feed(piece))
        if exchange.stopped:
            return b"".join(out)
    # A whole answer to a request for a stream is read in full, however its connection ends.
    out.append(exchange.finish(cut=cut))
    return b"".join(out)


def whole(settings: Settings, request: dict[str, Any], *answers: bytes) -> Outcome:
    """The backend answers with one completion after another; the last one is repeated."""
    exchange = Driven(settings, BackendMemory())
    try:
        assert exchange.on_request(json.dumps(request).encode()) is not None
        for number in range(_TRIES):
            exchange.on_response_start(200, [(b"content-type", b"application/json")])
            reply = exchange.whole(answers[min(number, len(answers) - 1)])
            again = exchange.take_next()
            if again is None:
                assert reply is not None, "no answer and no other try"
                return Outcome(reply.body)
            assert reply is None, "an answer, and another try"
    except ToolCallError as error:
        return Outcome(error=error.code)
    raise AssertionError("the backend is asked again and again")


def _late_error(body: bytes) -> str | int | None:
    at = body.rfind(b'data: {"error"')
    if at < 0:
        return None
    code: str | int = json.loads(body[at + 6 :].partition(b"\n")[0])["error"]["code"]
    return code
