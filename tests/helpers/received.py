"""Answers as a client of each API reads them, by the reader that `check` uses: it shares no code with the writers.

Streams of Messages and Responses also keep the rules of their wire, by the SDKs' own types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.apis.messages.received import read_stream
from tests.apis.responses.received import check_stream
from toolcall_middleware.cli.faces.answers import Received, read_answer

_RULES: dict[str, Callable[[bytes], Any]] = {"messages": read_stream, "responses": check_stream}


def received(api: str, data: bytes) -> Received:
    """An answer of `chat`, `messages` or `responses`, whole or streamed, without a fault. Usage may be missing."""
    answer = read_answer(api, data)
    assert not [fault for fault in answer.faults if fault.area != "usage"]
    if answer.streamed and api in _RULES:
        _RULES[api](data)
    return answer
