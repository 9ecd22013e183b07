"""Exchanges through the proxy, to an upstream that is scripted: what httpx would connect with is one of ours."""

from __future__ import annotations

import base64
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from . import chats, product
from .driven import Answer, BrokenOffError, Seen, caught_log, drive, items
from .fixed import seeded_secrets
from .library import httpx

Items = dict[str, str]
Groups = Iterator[tuple[str, Callable[[], Items]]]

_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 7},
}
_GENERATED = {
    "responseId": "r1",
    "modelVersion": "m",
    "candidates": [
        {
            "index": 0,
            "content": {
                "role": "model",
                "parts": [{"text": "I look."}, {"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}],
            },
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12},
}
_WHOLE: dict[str, dict[str, Any]] = {
    "openai": chats.completion("The weather is fine."),
    "anthropic": _MESSAGE,
    "google": _GENERATED,
}
_ERRORS: dict[str, dict[str, Any]] = {
    "openai": {"error": {"message": "no", "type": "BadRequestError", "param": None, "code": 400}},
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}},
    "google": {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}},
}
_OTHERS = (
    ("GET", "/v1/models"),
    ("GET", "/health"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/completions"),
    ("GET", "/"),
)


class ScriptedTransport(httpx.AsyncBaseTransport):
    """In the place of httpx's own: answers as the script says, and keeps what it was asked."""

    answers: Sequence[Answer] = ()
    seen = Seen()

    def __init__(self, **_options: Any) -> None:
        super().__init__()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = b"".join([part async for part in request.stream])  # type: ignore[union-attr]
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers.raw]
        target = f"{request.method} {request.url.scheme}://{request.url.host}{request.url.raw_path.decode('latin-1')}"
        self.seen.add(target, headers, body)
        answer = self.answers[min(len(self.seen.asked), len(self.answers)) - 1]
        head = [("content-type", answer.content_type), ("x-upstream", "1")]
        return httpx.Response(answer.status, headers=head, stream=_Pieces(answer))


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._answer.pieces:
            yield piece
        if self._answer.cut:
            raise httpx.ReadError("the connection was lost") from BrokenOffError()


def exchange(
    variables: dict[str, str], body: dict[str, Any], answers: Sequence[Answer], method: str = "POST", path: str = ""
) -> Items:
    """The items of one exchange with a proxy of its own."""
    import toolcall_middleware as package

    seen = Seen()
    ScriptedTransport.answers, ScriptedTransport.seen = answers, seen
    given = {"UPSTREAM_URL": "http://127.0.0.1:9/v1", "ACCESS_LOG": "off", "UPSTREAM_RETRIES": "0", **variables}
    names = {f"TOOLCALL_{name}": value for name, value in given.items()}
    os.environ.update(names)
    try:
        with seeded_secrets(), caught_log(seen):
            app = package.create_proxy()
            drive(app, json.dumps(body).encode(), path or "/v1/chat/completions", seen, method=method)
    except (package.SettingsError, package.FormatError) as error:
        return {"answer": f"{product.RAISED}{type(error).__name__}: {error}"}
    finally:
        for name in names:
            del os.environ[name]
    made = items(seen)
    del made["pieces"]  # how many messages a piece becomes is the matter of tasks that take turns
    return made


def proxy(run: Any) -> Groups:
    """Each request and setting to each API; random answers of Anthropic's and Google's; other paths."""
    asked = chats.requests()
    for api, key in itertools.product(_WHOLE, asked):
        yield f"{api}/{key}", partial(_asked, {"UPSTREAM_API": api}, asked[key], api)
    modes = (("openai", "native"), ("openai", "auto"), ("anthropic", "prompt"), ("google", "prompt"))
    for (api, mode), key in itertools.product(modes, asked):
        if not run.quick or not key.startswith(("bad", "tools", "client")):
            yield f"{api}-{mode}/{key}", partial(_asked, {"UPSTREAM_API": api, "MODE": mode}, asked[key], api)
    for api, status in itertools.product(_WHOLE, (400, 401, 404, 429, 500, 503)):
        answer = Answer([json.dumps(_ERRORS[api]).encode()], status=status)
        yield (
            f"{api}/status-{status}",
            partial(exchange, {"UPSTREAM_API": api}, {"model": "m", **asked["plain"]}, [answer]),
        )
    for api, (method, path) in itertools.product(_WHOLE, _OTHERS):
        yield (
            f"{api}/{method}-{path.strip('/').replace('/', '-')}",
            partial(exchange, {"UPSTREAM_API": api}, {"model": "m"}, [Answer([b'{"data": []}'])], method, path),
        )
    keyed = {"UPSTREAM_KEY": "sk-1", "API_KEYS": "k,l", "UPSTREAM_IDS": "mistral"}
    for key in ("plain", "history", "history-odd", "stream"):
        yield f"openai-keys/{key}", partial(_asked, keyed, asked[key], "openai")
    with run.inputs.open(encoding="utf-8") as lines:
        for line in lines:
            name = line[10:].partition('"')[0]
            if name.endswith(("-anthropic", "-google")):
                yield f"random/{name}", partial(_random, line, name.rpartition("-")[2])


def _asked(variables: dict[str, str], request: dict[str, Any], api: str) -> Items:
    return exchange(variables, {"model": "m", **request}, [Answer([json.dumps(_WHOLE[api]).encode()])])


def _random(line: str, api: str) -> Items:
    given = json.loads(line)
    pieces = [base64.b64decode(piece) for piece in given["sent"]]
    variables = {"UPSTREAM_API": api}
    found: Items = {}
    for way, sent in {"one": [b"".join(pieces)], "cut": pieces}.items():
        answer = Answer(sent, "text/event-stream", cut=given["cut"])
        made = exchange(variables, {**given["request"], "stream": True}, [answer])
        found |= {f"{way}-{key}": text for key, text in made.items()}
    request = {key: value for key, value in given["request"].items() if key != "stream_options"}
    whole = exchange(variables, request, [Answer([json.dumps(given["whole"]).encode()])])
    return found | {f"whole-{key}": text for key, text in whole.items()}
