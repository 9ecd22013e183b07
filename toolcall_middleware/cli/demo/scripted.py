"""The scripted model: a text-only server whose words are known, so that every byte that a client gets can be checked.

It refuses what text-only servers refuse (tools, tool messages, calls in the history), and streams its text in pieces of
a few characters, cutting through markers, names and escapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

_HEAD = {"id": "chatcmpl-scripted", "created": 1, "model": "scripted"}


class ScriptedModel(Starlette):
    """A chat server that answers its i-th request with the i-th of `texts`, and keeps what it was asked."""

    def __init__(self, texts: Sequence[str] = (), *, piece: int = 3) -> None:
        super().__init__(routes=[Route("/{path:path}", self._answer, methods=["POST"])])
        self.texts = list(texts)
        self.requests: list[dict[str, Any]] = []
        self._piece = piece

    async def _answer(self, asked: Request) -> Response:
        request = await asked.json()
        self.requests.append(request)
        refusal = self.refusal(request) or (None if self.texts else "the script is over")
        if refusal is not None:
            error = {"message": refusal, "type": "invalid_request_error", "code": 400}
            return JSONResponse({"error": error}, 400)
        text = self.texts.pop(0)
        prompt, words = (
            sum(len(message["content"].split()) for message in request.get("messages", ())),
            len(text.split()),
        )
        usage = {"prompt_tokens": prompt, "completion_tokens": words, "total_tokens": prompt + words}
        if request.get("stream"):
            with_usage = (request.get("stream_options") or {}).get("include_usage")
            return StreamingResponse(self._stream(text, usage if with_usage else None), media_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return JSONResponse({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})

    def refusal(self, request: Mapping[str, Any]) -> str | None:
        """Why it does not take a request."""
        for name in ("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"):
            if name in request:
                return f"this server knows no {name}"
        for message in request.get("messages", ()):
            if message.get("role") not in {"system", "user", "assistant"}:
                return f"this server knows no role {message.get('role')!r}"
            if not isinstance(message.get("content"), str) or "tool_calls" in message:
                return "this server takes messages of plain text only"
        return None

    def _stream(self, text: str, usage: dict[str, int] | None) -> Iterator[bytes]:
        pieces = [{"content": text[at : at + self._piece]} for at in range(0, len(text), self._piece)]
        deltas: list[dict[str, str]] = [{"role": "assistant", **piece} for piece in pieces[:1]] + pieces[1:]
        for delta in deltas:
            yield _chunk([{"index": 0, "delta": delta, "finish_reason": None}])
        yield _chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        if usage is not None:
            yield _chunk([], usage=usage)
        yield b"data: [DONE]\n\n"


def _chunk(choices: Sequence[Mapping[str, Any]], **more: Any) -> bytes:
    return (
        b"data: "
        + json.dumps({**_HEAD, "object": "chat.completion.chunk", "choices": choices, **more}).encode()
        + b"\n\n"
    )
