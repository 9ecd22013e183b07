"""What the proxy alone does on the faces: keys, names of models, several upstreams, an upstream of the same API."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import openai
import pytest

from tests.helpers.anthropic_fake import AnthropicFace
from tests.helpers.fakes import Refusal, TextBackend, obedient_model, serve
from toolcall_middleware import Settings, ToolCallMiddleware, create_proxy
from toolcall_middleware.hosts.proxy.router import Router

if TYPE_CHECKING:
    from pathlib import Path

HI: Any = [{"role": "user", "content": "hi"}]
ENDS = frozenset({"response.created", "response.completed"})
VERSION = {"anthropic-version": "2023-06-01"}


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as one:
        yield one


@pytest.fixture
def proxied(stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch) -> Any:
    """(backend, address) of a proxy with these settings before a text model."""

    def start(**settings: str) -> tuple[TextBackend, str]:
        backend = TextBackend(lambda _: "Hello.", strict=True, models=("qwen",))
        url = stack.enter_context(serve(backend)) + "/v1"
        for name, value in {"upstream_url": url, "access_log": "off", **settings}.items():
            monkeypatch.setenv(f"TOOLCALL_{name.upper()}", value)
        return backend, stack.enter_context(serve(create_proxy()))

    return start


def ask(url: str, **fields: Any) -> httpx.Response:
    headers = {**VERSION, **fields.pop("headers", {})}
    return httpx.post(
        f"{url}/v1/messages", json={"model": "qwen", "max_tokens": 9, "messages": HI, **fields}, headers=headers
    )


def test_a_key_may_be_shown_in_either_header(proxied: Any) -> None:
    _, url = proxied(api_keys="alice=secret")
    assert ask(url, headers={"x-api-key": "secret"}).status_code == 200
    assert ask(url, headers={"authorization": "Bearer secret"}).status_code == 200
    both = ask(url, headers={"authorization": "Bearer wrong", "x-api-key": "secret"})
    assert both.status_code == 401
    chat = httpx.post(
        f"{url}/v1/chat/completions", json={"model": "qwen", "messages": HI}, headers={"x-api-key": "secret"}
    )
    assert chat.status_code == 200


def test_a_client_without_a_key_is_told_so_in_its_own_api(proxied: Any) -> None:
    _, url = proxied(api_keys="secret")
    refused = ask(url, headers={"x-api-key": "wrong"})
    assert refused.status_code == 401
    assert refused.json()["error"]["type"] == "authentication_error"
    assert refused.headers["x-toolcall-error"] == "invalid_api_key"
    openai_s = httpx.post(f"{url}/v1/responses", json={"model": "qwen", "input": "hi"})
    assert openai_s.status_code == 401
    assert openai_s.json()["error"]["code"] == "invalid_api_key"


def test_somebody_is_there_without_a_key(proxied: Any) -> None:
    _, url = proxied(api_keys="secret")
    assert httpx.head(f"{url}/api/hello").status_code == 200
    assert httpx.head(url).status_code == 200
    assert httpx.get(url).status_code in {401, 404}


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_goes_by_another_name_and_the_client_sees_its_own(
    proxied: Any, stack: contextlib.ExitStack, *, stream: bool
) -> None:
    backend, url = proxied(model_aliases="claude-*=qwen,gpt-5=qwen")
    messages = stack.enter_context(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))
    if stream:
        with messages.messages.stream(model="claude-opus-9", max_tokens=9, messages=HI) as events:
            named = events.get_final_message().model
    else:
        named = messages.messages.create(model="claude-opus-9", max_tokens=9, messages=HI).model
    assert named == "claude-opus-9"
    responses = stack.enter_context(openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0))
    if stream:
        with responses.responses.stream(model="gpt-5", input="hi") as made:
            ends: list[Any] = [event for event in made if event.type in ENDS]
            names = {event.response.model for event in ends}
            assert names == {"gpt-5"}
    else:
        assert responses.responses.create(model="gpt-5", input="hi").model == "gpt-5"
    assert responses.chat.completions.create(model="gpt-5", messages=HI).model == "gpt-5"
    assert {body["model"] for body in backend.bodies} == {"qwen"}
    assert responses.models.retrieve("qwen").id == "qwen"
    assert messages.models.retrieve("claude-opus-9").id == "claude-opus-9"


def test_aliases_of_the_upstreams_file_are_listed_and_reloaded(
    stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    backend = TextBackend(lambda _: "Hello.", strict=True, models=("qwen",))
    table = f'[[upstream]]\nurl = "{stack.enter_context(serve(backend))}/v1"\n'
    file = tmp_path / "upstreams.toml"
    file.write_text('model_aliases = ["claude-local=qwen", "claude-*=qwen"]\n' + table)
    monkeypatch.setenv("TOOLCALL_UPSTREAMS_FILE", str(file))
    monkeypatch.setenv("TOOLCALL_ACCESS_LOG", "off")
    url = stack.enter_context(serve(create_proxy()))
    listed = httpx.get(f"{url}/v1/models?limit=1000", headers=VERSION).json()["data"]
    assert [(model["type"], model["id"], model["display_name"]) for model in listed] == [
        ("model", "qwen", "qwen"),
        ("model", "claude-local", "claude-local"),
    ]
    for name in ("claude-local", "claude-opus-5"):
        assert ask(url, model=name).json()["model"] == name
    assert {body["model"] for body in backend.bodies} == {"qwen"}


def test_aliases_are_read_again_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "upstreams.toml"
    table = '[[upstream]]\nurl = "http://127.0.0.1:1/v1"\nmodels = ["qwen"]\n'
    file.write_text('model_aliases = "a=qwen"\n' + table)
    router = Router(Settings(upstreams_file=str(file)))
    file.write_text('model_aliases = "b=qwen"\n' + table)

    async def reloaded() -> tuple[bool, str, str]:
        return router.reload(), router._named("a"), router._named("b")

    assert asyncio.run(reloaded()) == (True, "a", "qwen")


def test_the_first_upstream_that_refuses_is_passed_over(
    stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    busy = TextBackend(lambda _: Refusal(503, {"error": {"message": "busy"}}), models=("qwen",))
    good = TextBackend(lambda _: "Hello.", strict=True, models=("qwen",))
    table = tmp_path / "upstreams.toml"
    table.write_text(
        "".join(
            f'[[upstream]]\nname = "u{at}"\nurl = "{stack.enter_context(serve(one))}/v1"\nmodels = ["*"]\n'
            for at, one in enumerate((busy, good))
        )
    )
    monkeypatch.setenv("TOOLCALL_UPSTREAMS_FILE", str(table))
    monkeypatch.setenv("TOOLCALL_ACCESS_LOG", "off")
    url = stack.enter_context(serve(create_proxy()))
    assert ask(url, stream=True).status_code == 200
    assert len(busy.seen) == len(good.seen) == 1
    (model,) = httpx.get(f"{url}/v1/models", headers=VERSION).json()["data"]
    assert (model["type"], model["id"]) == ("model", "qwen")
    assert httpx.get(f"{url}/v1/models").json()["data"][0]["object"] == "model"


def test_a_face_s_usage_is_in_the_access_log(proxied: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="toolcall_middleware.access")
    _, url = proxied(access_log="json")
    usage = ask(url).json()["usage"]
    end = time.monotonic() + 5
    lines: list[Any] = []
    while not lines and time.monotonic() < end:  # it is written once the client has its answer
        lines = [json.loads(one.getMessage()) for one in caplog.records if one.name.endswith(".access")]
        time.sleep(0.01)
    (line,) = lines
    assert (line["path"], line["model"]) == ("/v1/messages", "qwen")
    assert (line["prompt_tokens"], line["completion_tokens"]) == (usage["input_tokens"], usage["output_tokens"])


@pytest.mark.parametrize("stream", [False, True])
def test_messages_go_to_an_upstream_of_messages(
    stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    """By way of a chat completion. The model server reads the calls by itself."""
    model = TextBackend(obedient_model("hermes", ("look", {"at": "ä"})), strict=True)
    server = AnthropicFace(ToolCallMiddleware(model, format="hermes"))
    monkeypatch.setenv("TOOLCALL_UPSTREAM_API", "anthropic")
    monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", stack.enter_context(serve(server)))
    monkeypatch.setenv("TOOLCALL_ACCESS_LOG", "off")
    url = stack.enter_context(serve(create_proxy()))
    client = stack.enter_context(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))
    tool: Any = {"name": "look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}
    asked: Any = {"model": "m", "max_tokens": 99, "messages": HI, "tools": [tool]}
    if stream:
        with client.messages.stream(**asked) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    call = message.content[-1]
    assert isinstance(call, anthropic.types.ToolUseBlock)
    assert (call.name, call.input, message.stop_reason) == ("look", {"at": "ä"}, "tool_use")


def test_a_face_that_is_not_listed_is_not_read(proxied: Any) -> None:
    backend, url = proxied(faces="chat")
    assert ask(url).status_code == 404
    assert not backend.seen
