"""The log says that the middleware is there, and what it refuses."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

import toolcall_middleware
from tests.helpers.answers import TOOL, post
from tests.helpers.asgi_client import asked_on_each_face
from tests.helpers.fakes import Quirks, Refusal, TextBackend
from toolcall_middleware import ToolCallMiddleware


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"mode": "prompt", "format": "hermes"}, ["mode=prompt format=hermes paths=/chat/completions"]),
        (
            {"mode": "native", "upstream_url": "http://me:secret@up.example/v1"},
            ["mode=native format=auto paths=/chat/completions upstream=http://***@up.example/v1"],
        ),
        ({"mode": "off"}, []),
    ],
    ids=["in an app", "before an upstream", "off"],
)
def test_one_line_at_the_start_tells_how_it_works(
    settings: dict[str, str], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        ToolCallMiddleware(TextBackend([]), **settings)  # type: ignore[arg-type]
    version = toolcall_middleware.__version__
    assert [record.getMessage() for record in caplog.records] == [f"active: version={version} {line}" for line in told]


async def test_a_refusal_in_an_app_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = ToolCallMiddleware(TextBackend([]))
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        response = await post(app, tool_choice={"type": "function", "function": {"name": "nope"}})
    assert response.status_code == 400
    told = [record.getMessage() for record in caplog.records]
    assert told == ["refused: status=400 code=invalid_tool_choice param=tool_choice"]


WEATHER = '<tool_call>\n{"name": "f", "arguments": {x: "secret"}}\n</tool_call>'
NO_ANSWER = Refusal(200, b"secret", {"content-type": "text/html"})
MALFORMED = "refused: status=422 code=malformed_tool_arguments param=tool_calls[0].function.arguments"
NO_CALL = "refused: status=422 code=tool_choice_not_satisfied param=tool_choice"
UPSTREAM = "refused: status=502 code=upstream_error"
TOO_LARGE = "refused: status=413 code=request_too_large"
GUARDED = "refused: status=403 code=tool_not_allowed"


async def refusals(
    caplog: pytest.LogCaptureFixture, app: Any, *, path: str = "/v1/chat/completions", **fields: Any
) -> tuple[httpx.Response, list[str]]:
    """What the client gets, and the lines of refusals."""
    body = {**asked_on_each_face("hi", TOOL).get(path, {}), **fields}
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    caplog.clear()
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            response = await client.post(path, json=body)
    told = [record.getMessage() for record in caplog.records]
    assert not any("secret" in line for line in told)
    return response, [line for line in told if line.startswith("refused:")]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize(
    ("script", "quirks", "chosen", "line"),
    [
        ([f"I call it.\n{WEATHER}"], Quirks(), {"malformed_arguments": "error"}, MALFORMED),
        ([WEATHER], Quirks(), {"malformed_arguments": "error"}, MALFORMED),
        (["So it is."], Quirks(cut_after=2), {}, UPSTREAM),
        ([NO_ANSWER], Quirks(), {}, UPSTREAM),
    ],
)
async def test_an_answer_that_ends_in_an_error_is_logged_once_begun_or_not(
    caplog: pytest.LogCaptureFixture, script: list[Any], quirks: Quirks, chosen: dict[str, Any], line: str, path: str
) -> None:
    backend = TextBackend(script * 2, quirks=quirks)
    app = ToolCallMiddleware(backend, format="hermes", faces="chat,messages,responses", **chosen)
    for stream in (True, False) if quirks.cut_after is None else (True,):  # a whole answer is there or not
        response, told = await refusals(caplog, app, path=path, stream=stream)
        assert "error" in response.text
        assert told == [line]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_a_refusal_before_the_app_is_asked_is_logged_once(caplog: pytest.LogCaptureFixture, path: str) -> None:
    app = ToolCallMiddleware(TextBackend([]), faces="chat,messages", max_request_bytes=10)
    response, told = await refusals(caplog, app, path=path)
    assert (response.status_code, told) == (413, [TOO_LARGE])


async def test_a_refusal_of_what_is_not_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = ToolCallMiddleware(TextBackend([]), max_tools=3)
    response, told = await refusals(caplog, app, path="/api/chat", messages=[], tools=[TOOL])
    assert (response.status_code, told) == (403, [GUARDED])

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        assert message["type"] == "websocket.close"

    caplog.clear()
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        await app({"type": "websocket", "path": "/x", "headers": []}, receive, send)
    assert [record.getMessage() for record in caplog.records] == [GUARDED]


FORGED = "a\n2026-01-01 INFO: all is well\x1b[2J\u2028"


@pytest.mark.parametrize(
    "fields",
    [
        {"toolcall": {FORGED: 1}},
        {"messages": [{"role": "user", "content": "hi", f"tools{FORGED}": [TOOL]}]},
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"properties": {FORGED: {"type": 1}}}}}
            ]
        },
    ],
    ids=["option", "message", "schema"],
)
async def test_a_client_writes_no_lines_of_its_own(caplog: pytest.LogCaptureFixture, fields: dict[str, Any]) -> None:
    app = ToolCallMiddleware(TextBackend([]), max_tools=1)
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        assert (await post(app, **fields)).status_code in {400, 403}
    told = caplog.records[-1].getMessage()
    assert told.startswith("refused: ")
    assert told.isprintable()
    assert "a\\n2026-01-01 INFO: all is well\\u001b[2J" in told


async def test_nor_does_a_model(caplog: pytest.LogCaptureFixture) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"additionalProperties": {"type": "integer"}}}}
    written = f"<tool_call>\n{json.dumps({'name': 'f', 'arguments': {FORGED: 'x'}})}\n</tool_call>"
    app = ToolCallMiddleware(TextBackend([written]), format="hermes", validate_arguments="warn")
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        assert (await post(app, tools=[tool])).status_code == 200
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == ["The arguments of the model's call of 'f' do not fit its schema: a\\n2026-01-01 INFO"]


async def test_what_is_not_ours_is_no_refusal(caplog: pytest.LogCaptureFixture) -> None:
    backend = TextBackend([Refusal(400, {"error": {"message": "no", "code": 400}})] * 2)
    for stream in (False, True):
        response, told = await refusals(caplog, ToolCallMiddleware(backend), stream=stream)
        assert (response.status_code, told) == (400, [])
    broken = TextBackend(["a b c d"], quirks=Quirks(error_after=2))
    response, told = await refusals(caplog, ToolCallMiddleware(broken), stream=True)
    assert "error" in response.text
    assert not told


async def test_an_answer_that_is_asked_again_and_comes_is_no_refusal(caplog: pytest.LogCaptureFixture) -> None:
    good = WEATHER.replace("x:", '"x":')
    for stream in (False, True):
        app = ToolCallMiddleware(TextBackend(["No.", good]), format="hermes", constrain="off")
        response, told = await refusals(caplog, app, tool_choice="required", stream=stream)
        assert (response.status_code, told) == (200, [])
        app = ToolCallMiddleware(TextBackend(["No.", "No."]), format="hermes", constrain="off")
        response, told = await refusals(caplog, app, tool_choice="required", stream=stream)
        assert (response.status_code, told) == (422, [NO_CALL])


class AuthenticationLayer:
    """Lets nobody in."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})


async def test_where_the_app_wants_a_key_the_refusal_is_the_apps(caplog: pytest.LogCaptureFixture) -> None:
    app = ToolCallMiddleware(AuthenticationLayer(TextBackend([])), max_request_bytes=10)
    response, told = await refusals(caplog, app)
    assert (response.status_code, told) == (401, [])
