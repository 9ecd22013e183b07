"""An upstream that never stops beginning new choices fills no memory: there are no more than `n` and OpenAI's most."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.answers import post
from tests.helpers.stream_rules import check_error, check_stream, check_whole
from toolcall_middleware import ToolCallMiddleware

MOST = 128


class ManyChoices:
    """Answers with this many choices; streamed, in one chunk or in one chunk each."""

    def __init__(self, count: int, *, apart: bool = False) -> None:
        self.count = count
        self.apart = apart

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        streams = json.loads((await receive())["body"]).get("stream")
        said, kind = ("delta", b"text/event-stream") if streams else ("message", b"application/json")
        choices = [
            {"index": index, said: {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
            for index in range(self.count)
        ]
        head = {"id": "c", "created": 1, "model": "m", "object": "chat.completion" + (".chunk" if streams else "")}
        parts = [[choice] for choice in choices] if self.apart else [choices]
        made = [json.dumps({**head, "choices": part}).encode() for part in parts]
        out = b"".join(b"data: " + part + b"\n\n" for part in made) + b"data: [DONE]\n\n" if streams else made[0]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": out})


@pytest.mark.parametrize(("count", "asked"), [(MOST, 1), (MOST + 1, MOST + 1)])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_as_many_as_were_asked_for_or_openai_has_pass(stream: bool, count: int, asked: int) -> None:
    response = await post(ToolCallMiddleware(ManyChoices(count)), stream=stream, n=asked)
    check = check_stream if stream else check_whole
    assert len(check(response.content, n=count).choices) == count


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
async def test_a_stream_of_more_ends_in_an_error(apart: bool) -> None:
    response = await post(ToolCallMiddleware(ManyChoices(MOST + 1, apart=apart)), stream=True, n=2)
    error = check_stream(response.content, error=True, n=MOST).error if response.status_code == 200 else None
    assert (error or check_error(response.content))["code"] == "upstream_error"


async def test_a_whole_answer_with_more_is_an_error() -> None:
    response = await post(ToolCallMiddleware(ManyChoices(MOST + 1)), n=2)
    assert response.status_code == 502
    assert "more choices than n (2)" in check_error(response.content)["message"]
