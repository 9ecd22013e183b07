"""`format=auto` with a model of no known family: a llama.cpp server shows at `/props` how it calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse

from tests.formats.template import templates
from tests.helpers.fakes import Answer, TextBackend
from tests.hosts.proxy.proxy_servers import serving
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.formats.template import sources
from toolcall_middleware.hosts.middleware import backend_questions
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.upstream.backend_memory import DOUBTFUL_SECONDS, REMEMBERED_SECONDS, BackendMemory

from .test_tool_budget import PATHS, body_of

CALL = '<acme_call>{"tool": "get_weather", "input": {"place": "Rome"}}</acme_call>'
TOOLS = [("get_weather", "Tells the weather.", {"type": "object", "properties": {"place": {"type": "string"}}})]
UNASKED: dict[str, Any] = {"upstream_url": "http://llama.invalid/v1", "faces": "chat,messages,responses"}
both = pytest.mark.parametrize("stream", [False, True])
each_face = pytest.mark.parametrize("face", ["chat", "messages", "responses"])


@pytest.fixture(autouse=True)
def _fresh() -> None:
    sources.forget()


class LlamaCpp(TextBackend):
    """A text backend with llama.cpp's `/props`."""

    def __init__(self, *texts: str, props: Mapping[str, Any] | None = None, status: int = 200) -> None:
        super().__init__([Answer(text) for text in texts])
        self.props = {"chat_template": templates.JSON} if props is None else props
        self.status = status
        self.questions: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            self.questions.append(f"{scope['path']}?{scope['query_string'].decode()}")
            await JSONResponse(self.props, self.status)(scope, receive, send)
            return
        await super().__call__(scope, receive, send)


async def ask(app: Any, face: str = "chat", **fields: Any) -> httpx.Response:
    body = body_of(face, TOOLS, **{"model": "acme-9b", **fields})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a") as client:
        return await client.post(PATHS[face], json=body)


def prompt(backend: TextBackend, number: int = 0) -> str:
    return str(backend.bodies[number]["messages"][0]["content"])


@pytest.mark.slow
@each_face
@both
async def test_an_unknown_model_is_asked_and_read_by_its_servers_template(face: str, stream: bool) -> None:
    backend = LlamaCpp(CALL, CALL)
    app = ToolCallMiddleware(backend, **UNASKED)
    for _ in range(2):
        response = await ask(app, face, stream=stream)
        assert response.status_code == 200, response.text
        assert "acme_call" not in response.text
        assert "get_weather" in response.text
        assert "format=template" in response.headers["x-toolcall"]
    assert "Call a tool like this." in prompt(backend)
    assert backend.questions == ["/props?model=acme-9b"]


@pytest.mark.slow
async def test_the_decision_says_that_the_template_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "toolcall_middleware")
    await ask(ToolCallMiddleware(LlamaCpp(CALL), **UNASKED))
    assert any("by template: the name 'acme-9b' tells no family" in record.getMessage() for record in caplog.records)


@pytest.mark.slow
async def test_mode_auto_has_asked_already() -> None:
    props = {"chat_template": templates.JSON, "chat_template_caps": {"supports_tools": False}}
    backend = LlamaCpp(CALL, props=props)
    response = await ask(ToolCallMiddleware(backend, mode="auto"))
    assert "mode=prompt; format=template" in response.headers["x-toolcall"]
    assert "Call a tool like this." in prompt(backend)
    assert backend.questions == ["/props?model=acme-9b"]


@pytest.mark.parametrize(
    "options",
    [
        {},  # an app is no llama.cpp server
        {**UNASKED, "format": "json"},
        {**UNASKED, "template": "none"},
    ],
)
async def test_nothing_is_asked_for_what_is_set_or_cannot_be_there(options: dict[str, Any]) -> None:
    backend = LlamaCpp("Fine.")
    await ask(ToolCallMiddleware(backend, **options))
    assert backend.questions == []


async def test_a_known_family_is_not_asked_for_a_template() -> None:
    backend = LlamaCpp("Fine.")
    await ask(ToolCallMiddleware(backend, **UNASKED), model="Qwen3-8B")
    assert backend.questions == []


@pytest.mark.parametrize(
    ("props", "status"),
    [
        ({"error": "not found"}, 404),
        ({}, 200),
        ({"chat_template": ""}, 200),
        ({"chat_template": 7}, 200),
        ({"chat_template": "{{ messages[0].content }}"}, 200),
        ({"chat_template": "{% for"}, 200),
        ([], 200),
    ],
)
async def test_without_a_template_that_writes_calls_it_goes_on_as_json(props: Any, status: int) -> None:
    backend = LlamaCpp("Fine.", "Fine.", props=props, status=status)
    app = ToolCallMiddleware(backend, **UNASKED)
    for _ in range(2):
        response = await ask(app)
        assert response.status_code == 200
        assert "format=json" in response.headers["x-toolcall"]
    assert len(backend.questions) == 1


class BreaksOff(LlamaCpp):
    """Its `/props` breaks off in the middle."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            self.questions.append(scope["path"])
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
            await send({"type": "http.response.body", "body": b"{", "more_body": False})
        else:
            await super().__call__(scope, receive, send)


@pytest.mark.parametrize("make", [LlamaCpp, BreaksOff])
async def test_a_question_without_an_answer_has_no_line_in_the_log(
    make: type[LlamaCpp], caplog: pytest.LogCaptureFixture
) -> None:
    backend = make("Fine.", props={"error": {"message": "no such path"}}, status=404)
    body = body_of("chat", TOOLS, model="acme-9b")
    async with serving(backend) as address:
        app = ToolCallMiddleware(Forwarder(f"{address}/v1", Settings(upstream_timeout=5)), **UNASKED)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a") as client:
            answer = await client.post(PATHS["chat"], json=body, headers={"x-request-id": "r1"})
    assert (answer.status_code, len(backend.questions)) == (200, 1)
    assert [record.getMessage() for record in caplog.records if "pstream" in record.getMessage()] == []


async def test_a_server_that_starts_is_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[float] = []
    real = BackendMemory.note

    def note(self: BackendMemory, model: str, fact: Any, *, value: Any = True, seconds: float = 600.0) -> None:
        noted.append(seconds)
        real(self, model, fact, value=value, seconds=seconds)

    monkeypatch.setattr(BackendMemory, "note", note)
    await ask(ToolCallMiddleware(LlamaCpp("Fine.", props={}, status=503), **UNASKED))
    assert noted[0] == DOUBTFUL_SECONDS
    noted.clear()
    await ask(ToolCallMiddleware(LlamaCpp("Fine.", props={}, status=404), **UNASKED))
    assert noted[0] == REMEMBERED_SECONDS


async def test_a_silent_question_for_a_template_costs_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_questions, "_COUNT_SECONDS", 0.05)

    class Silent(LlamaCpp):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["method"] == "GET":
                await asyncio.Event().wait()
            await super().__call__(scope, receive, send)

    async with asyncio.timeout(10):
        response = await ask(ToolCallMiddleware(Silent("Fine."), **UNASKED))
    assert response.status_code == 200


@pytest.mark.slow
async def test_deriving_does_not_hold_the_event_loop() -> None:
    seen: list[str] = []
    real = sources.of_props

    def of_props(model: str, props: object) -> str:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            seen.append("thread")
        else:
            seen.append("loop")
        return real(model, props)

    sources.of_props = of_props
    try:
        await ask(ToolCallMiddleware(LlamaCpp(CALL), **UNASKED))
    finally:
        sources.of_props = real
    assert seen[0] == "thread"
