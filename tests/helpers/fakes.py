"""Backends that only know text, scripted; and a real server to put an ASGI app behind.

`TextBackend` behaves as vLLM without tool flags does where that matters: a role chunk first, one delta a token, the
usage chunk only when asked for, `[DONE]` last. What real backends do wrong is a field of `Quirks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

CREATED = 1_795_000_000


class BackendCrashedError(ConnectionError):
    """Raised by the backend in the middle of a stream (`Quirks.crash_after`): the server cuts the connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice of one answer. `pieces` are its deltas where the cuts matter, else the text is cut by `chunk_size`."""

    text: str = ""
    finish_reason: str = "stop"
    pieces: tuple[str, ...] = ()
    reasoning: str = ""
    """Sent in the field `reasoning`, before the text."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that nobody knows, added to each chunk and to the whole answer."""

    @property
    def whole(self) -> str:
        return "".join(self.pieces) if self.pieces else self.text


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is an error. `body` is sent as JSON, or as it is when it is bytes."""

    status: int = 400
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """What is odd about a backend's SSE. The default is a clean stream. `*_after` counts events from the first."""

    cut_after: int | None = None
    """The body ends there, properly, as if it were complete."""
    crash_after: int | None = None
    """The app raises there; behind a server the client sees a broken connection."""
    error_after: int | None = None
    """An error event, then `[DONE]` (as vLLM does)."""
    line_end: str = "\n"
    comments: bool = False
    """Keep-alive comments before each event."""
    space: bool = True
    """`data: x`, or `data:x`."""
    role_chunk: bool = True
    done: bool = True
    finish: bool = True
    """Whether a finish_reason is sent at all."""
    finish_with_text: bool = False
    """finish_reason comes with the last piece of text, not in a delta of its own."""
    empty_choices: bool = False
    """An event with `choices: []` and no usage comes first (Azure's prompt filter)."""
    last_blank_line: bool = True
    events_per_write: int = 1
    bytes_per_write: int | None = None
    """The bytes are cut there, wherever that is. Wins over `events_per_write`."""
    content_type: str = "text/event-stream; charset=utf-8"


CLEAN = Quirks()

Script = Answer | Refusal | str | Sequence["str | Answer"]
"""One entry of a script; a sequence holds one answer for each choice (`n`)."""
Model = Callable[[dict[str, Any]], Script]


@dataclass(slots=True)
class Seen:
    """One request as the backend got it, and how far its answer went."""

    raw: bytes
    body: dict[str, Any]
    headers: dict[str, str]
    path: str
    query: str
    events_sent: int = 0
    finished: bool = False
    """False for a stream that the client's side did not let run to its end."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def text(self) -> str:
        """All that the model would read, one message a paragraph, headed by its role."""
        return "\n\n".join(f"[{message['role']}] {message['content']}" for message in self.messages)


class TextBackend:
    """An ASGI app that answers `POST /v1/chat/completions` with text and nothing but text.

    `script` is a callable from the request's body to an answer, or answers that are used up one a request.
    `strict` refuses, with 400, what backends without tools refuse (see `complaint`).
    `usage=False` is a backend that never counts. `refused_fields` are refused with 400 when a request has them.
    `pause` is slept between events: 0 lets other tasks run, None does not sleep.
    `seen` and `bodies` are the requests so far.
    """

    def __init__(
        self,
        script: Model | Iterable[Script],
        *,
        strict: bool = False,
        chunk_size: int | None = 4,
        usage: bool = True,
        quirks: Quirks = CLEAN,
        refused_fields: Iterable[str] = (),
        pause: float | None = None,
        models: Sequence[str] = ("fake-model",),
    ) -> None:
        self._model: Model | None = script if callable(script) else None
        self._script = iter(()) if callable(script) else iter(list(script))
        self.strict = strict
        self.chunk_size = chunk_size
        self.usage = usage
        self.quirks = quirks
        self.refused_fields = frozenset(refused_fields)
        self.pause = pause
        self.models = tuple(models)
        self.seen: list[Seen] = []
        self._app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/models", self._list_models, methods=["GET"]),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [seen.body for seen in self.seen]

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    async def _list_models(self, _request: Request) -> Response:
        models = [{"id": name, "object": "model", "created": CREATED, "owned_by": "fake"} for name in self.models]
        return JSONResponse({"object": "list", "data": models})

    async def _chat(self, request: Request) -> Response:
        raw = await request.body()
        try:
            body = json.loads(raw)
        except ValueError as error:
            return refuse(f"not JSON: {error}")
        if not isinstance(body, dict):
            return refuse("not an object")
        seen = Seen(raw, body, dict(request.headers), request.url.path, request.url.query)
        self.seen.append(seen)
        if len(raw) != int(seen.headers.get("content-length", len(raw))):
            return refuse(f"content-length says {seen.headers['content-length']}, the body has {len(raw)} bytes")
        for name in body:
            if name in self.refused_fields:
                return refuse(f"{name} is not supported", param=name)
        wrong = complaint(body) if self.strict else None
        if wrong is not None:
            return refuse(wrong)
        answer = self._next(body)
        if isinstance(answer, Refusal):
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            return Response(content, answer.status, {"content-type": "application/json", **answer.headers})
        answers = [_stopped(choice, body.get("stop")) for choice in _choices(answer, body.get("n") or 1)]
        if not body.get("stream"):
            seen.finished = True
            return JSONResponse(self._whole(body, answers))
        pieces = self._write(self._events(body, answers), seen)
        return StreamingResponse(pieces, media_type=None, headers={"content-type": self.quirks.content_type})

    def _next(self, body: dict[str, Any]) -> Script:
        if self._model is not None:
            return self._model(body)
        for answer in self._script:
            return answer
        return Refusal(500, {"error": {"message": "the script is used up", "type": "fake", "param": None, "code": 500}})

    def _pieces(self, answer: Answer) -> list[str]:
        if answer.pieces:
            return list(answer.pieces)
        size = self.chunk_size or max(len(answer.text), 1)
        return [answer.text[at : at + size] for at in range(0, len(answer.text), size)]

    def _usage(self, body: dict[str, Any], answers: list[Answer]) -> dict[str, int]:
        prompt = sum(len(str(message.get("content")).split()) for message in body["messages"])
        completion = sum(len(self._pieces(answer)) for answer in answers)
        return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}

    def _whole(self, body: dict[str, Any], answers: list[Answer]) -> dict[str, Any]:
        choices = []
        for index, answer in enumerate(answers):
            message: dict[str, Any] = {"role": "assistant", "content": answer.whole, "refusal": None}
            if answer.reasoning:
                message["reasoning"] = answer.reasoning
            tokens = [_logprob(piece) for piece in self._pieces(answer)]
            logprobs = {"content": tokens} if body.get("logprobs") else None
            choices.append(
                {"index": index, "message": message, "logprobs": logprobs, "finish_reason": answer.finish_reason}
            )
        whole = {**_head(body, "chat.completion"), "choices": choices, **answers[0].extra}
        return {**whole, "usage": self._usage(body, answers)} if self.usage else whole

    def _events(self, body: dict[str, Any], answers: list[Answer]) -> Iterator[str]:
        """The payloads of the events. Several choices take turns, as they do in a real engine."""
        head = {**_head(body, "chat.completion.chunk")}
        quirks = self.quirks
        if quirks.empty_choices:
            yield json.dumps({**head, "choices": [], "prompt_filter_results": []})
        turns = [self._deltas(body, index, answer) for index, answer in enumerate(answers)]
        while turns:
            for turn in list(turns):
                choice = next(turn, None)
                if choice is None:
                    turns.remove(turn)
                else:
                    # Not ASCII only: engines write UTF-8, and a cut inside a character has to be survived.
                    extra = answers[choice["index"]].extra
                    yield json.dumps({**head, "choices": [choice], **extra}, ensure_ascii=False)
        if self.usage and (body.get("stream_options") or {}).get("include_usage"):
            yield json.dumps({**head, "choices": [], "usage": self._usage(body, answers)})

    def _deltas(self, body: dict[str, Any], index: int, answer: Answer) -> Iterator[dict[str, Any]]:
        def choice(delta: dict[str, Any], finish_reason: str | None = None, token: str | None = None) -> dict[str, Any]:
            logprobs = {"content": [_logprob(token)]} if token is not None and body.get("logprobs") else None
            return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}

        quirks = self.quirks
        if quirks.role_chunk:
            yield choice({"role": "assistant", "content": ""})
        if answer.reasoning:
            yield choice({"reasoning": answer.reasoning})
        pieces = self._pieces(answer)
        with_text = quirks.finish and quirks.finish_with_text and bool(pieces)
        for at, piece in enumerate(pieces):
            last = with_text and at == len(pieces) - 1
            yield choice({"content": piece}, answer.finish_reason if last else None, piece)
        if quirks.finish and not with_text:
            yield choice({}, answer.finish_reason)

    async def _write(self, payloads: Iterator[str], seen: Seen) -> AsyncIterator[bytes]:
        quirks = self.quirks
        waiting = b""
        size = quirks.bytes_per_write
        for event in self._encode(payloads):
            if quirks.crash_after is not None and seen.events_sent >= quirks.crash_after:
                raise BackendCrashedError
            seen.events_sent += 1
            waiting += event
            if size is not None:
                while len(waiting) >= size:
                    piece, waiting = waiting[:size], waiting[size:]
                    yield piece
            elif seen.events_sent % quirks.events_per_write == 0:
                yield waiting
                waiting = b""
            if self.pause is not None:
                await asyncio.sleep(self.pause)
        if waiting:
            yield waiting
        seen.finished = True

    def _encode(self, payloads: Iterator[str]) -> Iterator[bytes]:
        quirks = self.quirks
        end, field_name = quirks.line_end, "data: " if quirks.space else "data:"

        def event(payload: str, *, last: bool = False) -> bytes:
            comment = f": keep-alive{end}{end}" if quirks.comments else ""
            blank = "" if last and not quirks.last_blank_line else end + end
            return f"{comment}{field_name}{payload}{blank}".encode()

        for at, payload in enumerate(payloads):
            if quirks.cut_after is not None and at >= quirks.cut_after:
                return
            if quirks.error_after is not None and at >= quirks.error_after:
                error = {"message": "engine died", "type": "InternalServerError", "param": None, "code": 500}
                yield event(json.dumps({"error": error}))
                break
            yield event(payload)
        if quirks.done:
            yield event("[DONE]", last=True)


REFUSED_FIELDS = frozenset(
    {"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "toolcall", "request_options"}
)


class InTurn:
    """Answers each request with the next of some apps. `bodies`: what they were asked."""

    def __init__(self, *apps: Any) -> None:
        self._apps = iter(apps)
        self.bodies: list[dict[str, Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = next(self._apps)
        await app(scope, receive, send)
        self.bodies += app.bodies


def complaint(body: dict[str, Any]) -> str | None:
    """What a backend that knows only text cannot take about a request, or None.

    Tool fields and our own; roles other than system, user, assistant; calls, unknown fields, or content that is no
    string in messages; neighbours of one role; a system message anywhere but once at the front.
    """
    for name in sorted(REFUSED_FIELDS & body.keys()):
        return f"{name} is not supported"
    if "stream_options" in body and not body.get("stream"):
        return "stream_options without stream"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages must be a list with at least one message"
    before = None
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            return f"messages[{at}] is no object"
        role = message.get("role")
        if role not in {"system", "user", "assistant"}:
            return f"messages[{at}].role {role!r} is not supported"
        unknown = sorted(message.keys() - {"role", "content", "name"})
        if unknown:
            return f"messages[{at}] has unknown fields {unknown}"
        if not isinstance(message.get("content"), str):
            return f"messages[{at}].content must be a string, it is {type(message.get('content')).__name__}"
        if role == before:
            return f"messages[{at}] has the same role {role!r} as the one before it"
        if role == "system" and at:
            return f"messages[{at}] is a system message that does not stand at the front"
        before = role
    return None


def refuse(message: str, status: int = 400, param: str | None = None) -> Response:
    """A backend's own error, in vLLM's form (`code` is a number there)."""
    error = {"message": message, "type": "BadRequestError", "param": param, "code": status}
    return JSONResponse({"error": error}, status)


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-fake", "object": kind, "created": CREATED, "model": body.get("model", "fake-model")}


def _logprob(piece: str) -> dict[str, Any]:
    return {"token": piece, "logprob": -0.5, "bytes": list(piece.encode()), "top_logprobs": []}


def _choices(answer: str | Answer | Sequence[str | Answer], n: int) -> list[Answer]:
    several = [answer] * n if isinstance(answer, str | Answer) else list(answer)
    if len(several) != n:
        raise ValueError(f"the script has {len(several)} choices for a request with n={n}")
    return [one if isinstance(one, Answer) else Answer(one) for one in several]


def _stopped(answer: Answer, stop: str | list[str] | None) -> Answer:
    """The answer cut off before the first stop string, as an engine does it."""
    strings = [stop] if isinstance(stop, str) else stop or []
    ends = [answer.whole.find(one) for one in strings if one in answer.whole]
    if not ends:
        return answer
    return Answer(answer.whole[: min(ends)], "stop", (), answer.reasoning, answer.extra)


def write_calls(format_name: str, *calls: tuple[str, dict[str, Any] | str]) -> str:
    """Calls as a model writes them in `json` or `hermes`; arguments given as a string stand there verbatim."""
    written = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in calls]
    if format_name == "json":
        entries = [
            {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(written, 1)
        ]
        return f"```json\n{json.dumps({'tool_calls': entries})}\n```"
    if format_name == "hermes":
        return "\n".join(
            f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'
            for name, arguments in written
        )
    raise ValueError(format_name)


MARK = re.compile(r"TOOLMARK-[0-9a-f]+")


def obedient_model(format_name: str, *calls: tuple[str, dict[str, Any] | str], prose: str = "") -> Model:
    """A model that makes the calls, and once it has read a result `TOOLMARK-<hex>`, says the marks it read.

    The marks are only in the results, so an answer that holds them proves that results reached the model as text.
    """

    def answer(body: dict[str, Any]) -> str:
        new = itertools.takewhile(lambda message: message["role"] != "assistant", reversed(body["messages"]))
        marks = MARK.findall(" ".join(str(message["content"]) for message in reversed(list(new))))
        return f"The code is {' and '.join(marks)}." if marks else prose + write_calls(format_name, *calls)

    return answer


@contextlib.contextmanager
def serve(app: ASGIApp, *, start_within: float = 10.0) -> Iterator[str]:
    """Runs an ASGI app under a real uvicorn server, on a free loopback port and in a thread of its own.

    Gives its base URL without a slash at the end. The server is stopped, and its thread joined, at the end.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + start_within
            while not server.started:
                if not thread.is_alive() or time.monotonic() > deadline:
                    raise RuntimeError("the server did not start")
                time.sleep(0.005)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=10)
            if thread.is_alive():
                raise RuntimeError("the server did not stop")
