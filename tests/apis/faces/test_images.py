"""Images that a model has drawn: an item of Responses; a warning on Messages, which has no block for them."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
from openai.types.responses import Response, ResponseImageGenCallCompletedEvent

from tests.apis.faces.asking import body_of, chat_tool, post
from tests.apis.responses import chat
from tests.helpers.asgi_client import JSON_TYPE, Backend
from toolcall_middleware import ToolCallMiddleware

PNG = "data:image/png;base64,iVBORw0KGgo="
WEB = "https://example.com/a.png"


def part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def draws(*urls: str, text: str = "Here:", stream: bool = False, **message: Any) -> Backend:
    """A backend that takes tools and answers with text and images, as OpenRouter and LiteLLM write them."""
    said = {"content": text, "images": [part(url) for url in urls], **message}
    if stream:
        return Backend(chat.stream([{"content": text}, {"images": said["images"]}], usage=None))
    return Backend(chat.whole(**said), headers=[JSON_TYPE])


async def posted(backend: Any, api: str, *, stream: bool, mode: str = "native") -> httpx.Response:
    app = ToolCallMiddleware(backend, faces="messages,responses", mode=mode)
    tool = chat_tool("f", {"type": "object", "properties": {}})
    return await post(app, api, body_of(api, tool, stream=stream))


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("mode", ["native", "prompt"])
@pytest.mark.parametrize("stream", [False, True])
async def test_responses_has_an_item_for_each(mode: str, *, stream: bool) -> None:
    answer = await posted(draws(PNG, PNG, stream=stream), "responses", stream=stream, mode=mode)
    events = events_of(answer) if stream else []
    response = Response.model_validate(events[-1]["response"] if stream else answer.json())
    assert [item.type for item in response.output] == ["message", "image_generation_call", "image_generation_call"]
    for item in response.output[1:]:
        assert item.type == "image_generation_call"
        assert (item.status, item.result) == ("completed", "iVBORw0KGgo=")
    assert len({item.id for item in response.output}) == 3
    told = [event for event in events if event["type"] == "response.image_generation_call.completed"]
    assert [ResponseImageGenCallCompletedEvent.model_validate(event).item_id for event in told] == [
        item.id for item in response.output[1:] if stream
    ]


async def test_parts_of_a_whole_answer_are_images_too() -> None:
    backend = draws(content=[{"type": "text", "text": "Here:"}, part(PNG)])
    response = Response.model_validate((await posted(backend, "responses", stream=False)).json())
    assert response.output_text == "Here:"
    assert [item.type for item in response.output] == ["message", "image_generation_call"]


async def test_an_answer_may_be_an_image_alone() -> None:
    response = Response.model_validate((await posted(draws(PNG, text=""), "responses", stream=False)).json())
    assert [item.type for item in response.output] == ["image_generation_call"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("api", "url"), [("messages", PNG), ("messages", WEB), ("responses", WEB)])
async def test_what_the_api_has_no_form_for_is_warned_of(
    api: str, url: str, caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    with caplog.at_level(logging.WARNING, "toolcall_middleware"):
        answer = await posted(draws(url, url, stream=stream), api, stream=stream)
    assert answer.status_code == 200
    assert "Here:" in answer.text
    assert len([one for one in caplog.messages if "image" in one]) == 2
    assert stream or "dropped_images=2" in answer.headers["x-toolcall"]


@pytest.mark.parametrize("mode", ["native", "prompt"])
@pytest.mark.parametrize("stream", [False, True])
async def test_chat_has_them_as_the_backend_wrote_them(mode: str, *, stream: bool) -> None:
    answer = await posted(draws(PNG, WEB, stream=stream), "chat", stream=stream, mode=mode)
    if stream:
        found = [image for event in events_of(answer) for image in event["choices"][0]["delta"].get("images", [])]
    else:
        found = answer.json()["choices"][0]["message"]["images"]
    assert found == [part(PNG), part(WEB)]


@pytest.mark.parametrize("images", [None, 7, "x", [None], [{"image_url": PNG}], [{"image_url": {"url": None}}]])
async def test_what_is_no_image_is_none(images: Any) -> None:
    response = Response.model_validate((await posted(draws(images=images), "responses", stream=False)).json())
    assert [item.type for item in response.output] == ["message"]
