"""The scripted part: a text-only model whose words are known, so that every byte the client gets can be checked.

The model server here refuses what text-only servers refuse (tools, tool messages, calls in the history), and streams
its text in pieces of a few characters, cutting through markers, names and escapes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...hosts.middleware.asgi import ToolCallMiddleware
from ...settings import Settings
from ..faces.answers import Received, read_answer, told
from ..faces.questions import HEADERS, PATHS, request_body
from .checks import Check, agreement_check, calls_check, content_check, finish_check, form_checks

_SECONDS = 10
"""An exchange with a model that waits for nothing takes milliseconds; a longer one hangs."""


class ScriptedModel:
    """A chat server that answers its i-th request with the i-th text and keeps what it was asked.

    `written` counts the characters of the current answer that have left, so that a client's clock can be the model's.
    """

    def __init__(self, texts: Sequence[str], *, piece: int = 3) -> None:
        self._texts = list(texts)
        self._piece = piece
        self.requests: list[dict[str, Any]] = []
        self.wrote: list[str] = []
        self.written = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the scripted model speaks HTTP, not {scope['type']}")
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        request = json.loads(body)
        self.requests.append(request)
        self.written = 0
        refusal = _refusal(request)
        if refusal is not None or not self._texts:
            error = {"message": refusal or "the script is over", "type": "invalid_request_error", "code": 400}
            await _respond(send, 400, json.dumps({"error": error}).encode())
            return
        text = self._texts.pop(0)
        self.wrote.append(text)
        usage = _count_words(request, text)
        if not request.get("stream"):
            self.written = len(text)
            await _respond(send, 200, _whole(text, usage))
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for start in range(0, len(text), self._piece):
            piece = text[start : start + self._piece]
            self.written = start + len(piece)
            delta = {"role": "assistant", "content": piece} if start == 0 else {"content": piece}
            await send({"type": "http.response.body", "body": _chunk(delta), "more_body": True})
            await asyncio.sleep(0)
        end = _chunk({}, "stop")
        if (request.get("stream_options") or {}).get("include_usage"):
            end += _event({**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        await send({"type": "http.response.body", "body": end + b"data: [DONE]\n\n", "more_body": False})


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


def _whole(text: str, usage: Mapping[str, int]) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def _chunk(delta: Mapping[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]})


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


async def _respond(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


@dataclass(frozen=True, slots=True)
class Reply:
    """The raw answer of an ASGI app. `stamps` says, for each body part, how far the model had written by then."""

    status: int
    content_type: str
    parts: tuple[bytes, ...]
    stamps: tuple[int, ...]

    def read(self, *, streamed: bool, api: str = "chat") -> Received:
        """What the client got."""
        raw = b"".join(self.parts)
        return read_answer(api, raw, status=self.status, streamed=streamed, content_type=self.content_type)

    def stamp_of(self, marker: bytes) -> int | None:
        """How far the model had written when `marker` had arrived."""
        seen = b""
        for part, stamp in zip(self.parts, self.stamps, strict=True):
            seen += part
            if marker in seen:
                return stamp
        return None


async def ask(
    app: ASGIApp, body: Mapping[str, Any], clock: Callable[[], int] = lambda: 0, *, api: str = "chat"
) -> Reply:
    """Posts the chat completion `body`, in the words of `api`, to an ASGI app and collects what comes back.

    Raises TimeoutError if it hangs.
    """
    raw = json.dumps(request_body(api, body)).encode()
    inbox: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]
    status, content_type = 0, ""
    parts: list[bytes] = []
    stamps: list[int] = []

    async def receive() -> Message:
        if inbox:
            return inbox.pop()
        # A client that stays on the line sends nothing more.
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def send(message: Message) -> None:
        nonlocal status, content_type
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {bytes(name).lower(): bytes(value).decode("latin-1") for name, value in message["headers"]}
            content_type = headers.get(b"content-type", "")
        elif message.get("body"):
            parts.append(bytes(message["body"]))
            stamps.append(clock())

    path = PATHS[api]
    headers = [
        (b"host", b"demo.invalid"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(raw)).encode()),
        *((name.encode(), value.encode()) for name, value in HEADERS[api].items()),
    ]
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    await asyncio.wait_for(app(scope, receive, send), _SECONDS)
    return Reply(status, content_type, tuple(parts), tuple(stamps))


@dataclass(frozen=True, slots=True)
class Expected:
    """What the client has to get. `content` None is null; `exact` compares it to the byte."""

    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    content: str | None = None
    exact: bool = False
    finish_reason: str = "tool_calls"


@dataclass(frozen=True, slots=True)
class Case:
    """One exchange. `texts` are what the model writes, one for each time that it is asked."""

    title: str
    format: str
    texts: tuple[str, ...]
    expected: Expected
    tools: tuple[dict[str, Any], ...]
    messages: tuple[dict[str, Any], ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    prompt_holds: tuple[str, ...] = ()
    """Words that the model must have been shown."""
    api: str = "chat"
    """The API that the client speaks. `messages` and `options` are a chat completion's, and asked in its words."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A played case: what the model wrote, what the client received in both modes, and the verdict."""

    title: str
    wrote: tuple[str, ...]
    streamed: Received
    whole: Received
    checks: tuple[Check, ...]


async def play(case: Case) -> Outcome:
    """Plays a case streamed and whole against the middleware and checks both."""
    streamed, wrote, checks = await _play_once(case, streamed=True)
    whole, _, more = await _play_once(case, streamed=False)
    return Outcome(case.title, wrote, streamed, whole, (*checks, *more, agreement_check(streamed, whole)))


async def alone(case: Case) -> str:
    """What the backend makes of the same request without the middleware: its words, or its error."""
    body = {"model": "scripted", "messages": list(case.messages), "tools": list(case.tools), **case.options}
    reply = await ask(ScriptedModel(case.texts), body)
    return told(reply.status, b"".join(reply.parts))


async def _play_once(case: Case, *, streamed: bool) -> tuple[Received, tuple[str, ...], list[Check]]:
    model = ScriptedModel(case.texts)
    # Settings(), not from_env(): the demo must not depend on the variables of the machine that it runs on.
    app = ToolCallMiddleware(model, settings=Settings(format=case.format, faces=tuple(PATHS)))
    body = {"model": "scripted", "messages": list(case.messages), "tools": list(case.tools), **case.options}
    if streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    reply = await ask(app, body, clock=lambda: model.written, api=case.api)
    answer = reply.read(streamed=streamed, api=case.api)
    checks = [*form_checks(answer), *_asked(model, case, streamed=streamed)]
    if answer.status != 200:
        # Nothing that an answer lacks may count as right about it.
        return answer, tuple(model.wrote), checks
    checks.append(calls_check(answer, case.expected.calls))
    checks.append(content_check(answer, case.expected.content, exact=case.expected.exact))
    checks.append(finish_check(answer, case.expected.finish_reason))
    if streamed and len(case.expected.calls) == 1:
        checks.append(_promptness(reply, case.texts[-1], _CALL_MARKS[case.api]))
    return answer, tuple(model.wrote), checks


_CALL_MARKS = {"chat": b'"tool_calls":', "messages": b'"tool_use"', "responses": b'"type":"function_call"'}


def _promptness(reply: Reply, text: str, mark: bytes) -> Check:
    stamp = reply.stamp_of(mark)
    why = "no call left" if stamp is None else f"after {stamp} of {len(text)} characters"
    ok = stamp is not None and stamp < len(text)
    return Check(ok=ok, what="the call left while the model was still writing", why=why, mode="streamed")


def _asked(model: ScriptedModel, case: Case, *, streamed: bool) -> list[Check]:
    mode = "streamed" if streamed else "whole"
    checks = []
    if len(model.requests) != len(case.texts) or len(case.texts) > 1:
        times, right = len(model.requests), len(case.texts)
        why = f"{times} times" if times == right else f"{times} times, not {right}"
        checks.append(Check(ok=times == right, what="the model was asked", why=why, mode=mode))
    if case.prompt_holds and model.requests:
        shown = "\n".join(str(message.get("content")) for message in model.requests[-1].get("messages", ()))
        missing = [words for words in case.prompt_holds if words not in shown]
        why = f"missing: {missing}" if missing else " · ".join(case.prompt_holds)
        checks.append(Check(ok=not missing, what="the model was shown", why=why, mode=mode))
    return checks
