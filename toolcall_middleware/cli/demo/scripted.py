"""The scripted part: a text-only model whose words are known, so that every byte the client gets can be checked.

The model server here refuses what text-only servers refuse (tools, tool messages, calls in the history), and streams
its text in pieces of a few characters, cutting through markers, names and escapes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ...hosts.http.client_library import httpx
from ...hosts.middleware.asgi import ToolCallMiddleware
from ...settings import Settings
from ..command import many
from ..faces.answers import Received, read_answer, told
from ..faces.requests import HEADERS, PATHS, request_body
from .cases import TOOLS, Case
from .checks import Check, Turn, agreement_check, form_check, meant_checks, mode_of

_SECONDS = 10
"""An exchange with a model that waits for nothing takes milliseconds; a longer one hangs."""


class ScriptedModel:
    """A chat server that answers its i-th request with the i-th text and keeps what it was asked."""

    def __init__(self, texts: Sequence[str], *, piece: int = 3) -> None:
        self._texts = list(texts)
        self._piece = piece
        self.requests: list[dict[str, Any]] = []
        self.wrote: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the scripted model speaks HTTP, not {scope['type']}")
        request = await Request(scope, receive).json()
        self.requests.append(request)
        await self._answer(request)(scope, receive, send)

    def _answer(self, request: Mapping[str, Any]) -> Response:
        refusal = _refusal(request)
        if refusal is not None or not self._texts:
            error = {"message": refusal or "the script is over", "type": "invalid_request_error", "code": 400}
            return JSONResponse({"error": error}, 400)
        text = self._texts.pop(0)
        self.wrote.append(text)
        usage = _count_words(request, text)
        if request.get("stream"):
            with_usage = (request.get("stream_options") or {}).get("include_usage")
            events = self._stream(text, usage if with_usage else None)
            return StreamingResponse(events, media_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return JSONResponse({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})

    async def _stream(self, text: str, usage: dict[str, int] | None) -> AsyncIterator[bytes]:
        for start in range(0, len(text), self._piece):
            delta = {"content": text[start : start + self._piece]}
            yield _chunk({"role": "assistant", **delta} if start == 0 else delta)
        end = _chunk({}, "stop")
        if usage is not None:
            end += _event({**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        yield end + b"data: [DONE]\n\n"


_HEAD = {"id": "chatcmpl-scripted", "created": 1, "model": "scripted"}


def _refusal(request: Mapping[str, Any]) -> str | None:
    for name in ("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"):
        if name in request:
            return f"this server knows no {name}"
    for message in request["messages"]:
        if message.get("role") not in {"system", "user", "assistant"}:
            return f"this server knows no role {message.get('role')!r}"
        if not isinstance(message.get("content"), str) or "tool_calls" in message:
            return "this server takes messages of plain text only"
    return None


def _count_words(request: Mapping[str, Any], text: str) -> dict[str, int]:
    prompt = sum(len(message["content"].split()) for message in request["messages"])
    words = len(text.split())
    return {"prompt_tokens": prompt, "completion_tokens": words, "total_tokens": prompt + words}


def _chunk(delta: Mapping[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]})


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


async def play(case: Case) -> Turn:
    """Plays a case streamed and whole against the middleware and checks both."""
    streamed, wrote, checks = await _play_once(case, streamed=True)
    whole, _, more = await _play_once(case, streamed=False)
    return Turn(case.title, wrote, streamed, [*checks, *more, agreement_check(streamed, whole)])


async def alone(case: Case) -> str:
    """What the backend makes of the same request without the middleware: its words, or its error."""
    response = await ask(ScriptedModel(case.texts), _body(case))
    return told(response.status_code, response.content)


async def ask(app: ASGIApp, body: Mapping[str, Any], api: str = "chat") -> httpx.Response:
    """The answer of an ASGI app to the chat completion `body`, asked in the words of `api`.

    Raises TimeoutError if it hangs.
    """
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://demo") as client, asyncio.timeout(_SECONDS):
        return await client.post(PATHS[api], json=request_body(api, body), headers=HEADERS[api])


def _body(case: Case) -> dict[str, Any]:
    return {"model": "scripted", "messages": list(case.messages), "tools": list(TOOLS), **case.options}


async def _play_once(case: Case, *, streamed: bool) -> tuple[Received, str, list[Check]]:
    model = ScriptedModel(case.texts)
    # Settings(), not from_env(): the demo must not depend on the variables of the machine that it runs on.
    app = ToolCallMiddleware(model, settings=Settings(format=case.format, faces=tuple(PATHS)))
    body = _body(case)
    if streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    response = await ask(app, body, case.api)
    answer = read_answer(
        case.api,
        response.content,
        status=response.status_code,
        streamed=streamed,
        content_type=response.headers.get("content-type", ""),
    )
    checks = [form_check(answer), *meant_checks(answer, case.calls, case.content)]
    last = model.requests[-1] if model.requests else {}
    prompt = "\n".join(str(message.get("content")) for message in last.get("messages", ()))
    for what, ok in (
        (f"the model was asked {many(len(case.texts), 'time')}", len(model.requests) == len(case.texts)),
        (f"the model was shown {case.shown!r}", case.shown in prompt),
    ):
        checks.append(Check(ok=ok, what=f"{mode_of(answer)}: {what}"))
    return answer, "\n⟲ asked again\n".join(model.wrote), checks
