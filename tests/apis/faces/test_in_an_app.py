"""Whose request it is in an app, which may serve these paths itself."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.apis.responses import chat
from tests.helpers.asgi_client import JSON_TYPE, Backend
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.errors import SettingsError

MESSAGES = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
VERSION = {"anthropic-version": "2023-06-01"}


def answers() -> Backend:
    return Backend(chat.whole("Hello."), headers=[JSON_TYPE])


def paths(app: Backend) -> list[str]:
    return [scope["path"] for scope in app.scopes]


async def ask(
    app: Backend, path: str, body: Any, headers: dict[str, str] | None = None, **settings: Any
) -> httpx.Response:
    wrapped = ToolCallMiddleware(app, **settings)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(wrapped), base_url="http://here") as client:
        return await client.post(path, content=json.dumps(body), headers=headers)


async def test_messages_are_the_app_s_own_without_a_version() -> None:
    app = answers()
    answer = await ask(app, "/v1/messages", MESSAGES)
    assert answer.json()["object"] == "chat.completion"
    assert (paths(app), app.raw) == (["/v1/messages"], [json.dumps(MESSAGES).encode()])


async def test_messages_become_a_chat_completion_beside_their_path() -> None:
    app = answers()
    answer = await ask(app, "/gpu/v1/messages", MESSAGES, {**VERSION, "x-api-key": "k", "anthropic-beta": "b"})
    assert answer.json()["content"] == [{"type": "text", "text": "Hello."}]
    (scope,), (body,) = app.scopes, app.bodies
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    assert scope["path"] == "/gpu/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert headers["authorization"] == "Bearer k"
    assert not {"anthropic-version", "anthropic-beta"} & headers.keys()


@pytest.mark.parametrize("body", [{"model": "m", "prompt": "hi"}, {"input": "hi"}, ["model", "input"], "x"])
async def test_responses_without_model_and_input_are_the_app_s_own(body: Any) -> None:
    app = answers()
    await ask(app, "/v1/responses", body)
    assert (paths(app), app.raw) == (["/v1/responses"], [json.dumps(body).encode()])


async def test_what_is_not_listed_is_the_app_s_own() -> None:
    app = answers()
    await ask(app, "/v1/messages", MESSAGES, VERSION, faces="chat,responses")
    await ask(app, "/v1/responses", {"model": "m", "input": "hi"}, faces="chat,messages")
    await ask(app, "/v1/messages", MESSAGES, VERSION, mode="off")
    assert paths(app) == ["/v1/messages", "/v1/responses", "/v1/messages"]


async def test_what_is_listed_needs_no_sign() -> None:
    app = answers()
    answer = await ask(app, "/v1/messages", MESSAGES, faces="messages")
    assert answer.json()["type"] == "message"
    refused = await ask(app, "/v1/responses", {"input": "hi"}, faces="responses")
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "model"


async def test_the_backend_is_asked_on_the_path_that_it_has() -> None:
    app = answers()
    await ask(app, "/v1/messages", MESSAGES, VERSION, paths="/v2/talk")
    assert paths(app) == ["/v2/talk"]


@pytest.mark.parametrize("value", ["", "auto,chat", "soap", "chat,soap"])
def test_a_face_that_does_not_exist_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="faces"):
        Settings(faces=value)


@pytest.mark.parametrize("value", ["a", "=b", "a=", "a**=b", "a=b*"])
def test_an_alias_that_cannot_be_followed_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="model_aliases"):
        Settings(model_aliases=value)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"), [("/v1/messages", MESSAGES), ("/v1/responses", {"model": "m", "input": "hi"})]
)
async def test_a_redirect_is_told_with_where_it_leads(path: str, body: dict[str, Any], stream: bool) -> None:
    head = [(b"location", b"https://models.example/v1/chat/completions"), (b"content-length", b"0")]
    app = Backend(status=307, headers=head)
    answer = await ask(app, path, {**body, "stream": stream}, faces="messages,responses")
    assert (answer.status_code, answer.headers["x-toolcall-error"]) == (502, "upstream_error")
    told = "The backend answered with status 307, a redirect to https://models.example/v1/chat/completions."
    assert answer.json()["error"]["message"] == told
    assert "location" not in answer.headers
