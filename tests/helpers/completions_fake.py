"""A backend that takes raw prompts: `/v1/completions` as engines answer it, scripted; of chat no more than a path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

_CHAT_ONLY = ("messages", "tools", "tool_choice", "max_completion_tokens", "top_logprobs", "chat_template_kwargs")
_HEAD = {"id": "cmpl-1", "created": 1_795_000_000, "model": "acme-9b"}


@dataclass
class CompletionsBackend:
    """`app` answers with `text`, which may depend on the request; `asked` are the bodies that came."""

    text: str | Callable[[dict[str, Any]], str] = "Hello."
    finish: str = "stop"
    step: int = 5
    refusal: tuple[int, dict[str, Any]] | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    chats: list[dict[str, Any]] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        routes = [("/v1/completions", self._complete), ("/v1/chat/completions", self._chat)]
        return Starlette(routes=[Route(path, answer, methods=["POST"]) for path, answer in routes])

    @property
    def prompt(self) -> str:
        """The last prompt."""
        prompt: str = self.asked[-1]["prompt"]
        return prompt

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.chats.append(body)
        tokens = len(json.dumps([body["messages"], body.get("tools")])) // 4
        usage = {"prompt_tokens": tokens, "completion_tokens": 2, "total_tokens": tokens + 2}
        message = {"role": "assistant", "content": "a chat"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        if self.refusal is not None:
            return JSONResponse(self.refusal[1], self.refusal[0])
        odd = [name for name in _CHAT_ONLY if name in body]
        if odd or not isinstance(body.get("prompt"), str):
            return JSONResponse({"error": {"message": f"odd: {odd}", "type": "bad", "code": 400}}, 400)
        text = self.text if isinstance(self.text, str) else self.text(body)
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        count = body.get("n") or 1
        if body.get("stream"):
            return StreamingResponse(self._events(body, text, count, usage), media_type="text/event-stream")
        choices = [
            {"index": index, "text": text, "logprobs": _logprobs(body, text), "finish_reason": self.finish, "own": 1}
            for index in range(count)
        ]
        return JSONResponse({**_HEAD, "object": "text_completion", "choices": choices, "usage": usage})

    def _events(self, body: dict[str, Any], text: str, count: int, usage: dict[str, int]) -> Iterator[bytes]:
        for at in range(0, len(text), self.step):
            for index in range(count):
                piece = text[at : at + self.step]
                finish = self.finish if at + self.step >= len(text) else None
                choice = {"index": index, "text": piece, "logprobs": _logprobs(body, piece), "finish_reason": finish}
                yield _event({**_HEAD, "object": "text_completion", "choices": [choice]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _event({**_HEAD, "object": "text_completion", "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"


def _logprobs(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    if body.get("logprobs") is None:
        return None
    near = {text: -0.1, "other": -2.5, "third": -4.0}
    kept = dict(list(near.items())[: max(body["logprobs"], 1)])
    return {"tokens": [text], "token_logprobs": [-0.1], "top_logprobs": [kept], "text_offset": [0]}


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
