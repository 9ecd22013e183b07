"""Answers as a client of each API reads them, by the reader that `check` uses: it shares no code with the writers."""

from __future__ import annotations

from toolcall_middleware.cli.faces.answers import Received, read_answer


def received(api: str, data: bytes) -> Received:
    """An answer of `chat`, `messages` or `responses`, whole or streamed, without a fault. Usage may be missing."""
    answer = read_answer(api, data)
    assert not [fault for fault in answer.faults if fault.area != "usage"]
    return answer
