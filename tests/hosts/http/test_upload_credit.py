"""A quick beginning of a body does not buy a slow rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.hosts.http.bodies import Upload


async def test_a_quick_beginning_buys_no_silence() -> None:
    given = 0

    async def receive() -> Any:
        nonlocal given
        given += 1
        if given == 1:
            return {"type": "http.request", "body": b"x" * (1 << 20), "more_body": True}
        await asyncio.sleep(0.15)
        return {"type": "http.request", "body": b"x", "more_body": True}

    upload = Upload(0.4)
    await upload.next_piece(receive)

    async def rest() -> None:
        for _ in range(20):
            await upload.next_piece(receive)

    with pytest.raises(ToolCallError) as refused:
        await rest()
    assert refused.value.code == "request_timeout"
    assert given < 8
