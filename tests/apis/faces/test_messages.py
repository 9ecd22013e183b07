"""Anthropic's own client in front of a text model, through each host."""

from __future__ import annotations

import json
import secrets
from typing import Any

import anthropic
import httpx
import pytest

from tests.apis.faces.conftest import Open
from tests.helpers.fakes import Quirks, Refusal, TextBackend, obedient_model, write_calls
from toolcall_middleware import ToolCallMiddleware

CALL = ("lookup_code", {"city": "Paris"})
TOOL: Any = {
    "name": "lookup_code",
    "description": "Look up the code of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
HI: Any = [{"role": "user", "content": "What is the code of Paris?"}]


def asked(**fields: Any) -> Any:
    return {"model": "fake-model", "max_tokens": 100, "messages": HI, "tools": [TOOL], **fields}


def test_a_whole_answer_is_a_message(open_host: Open) -> None:
    served = open_host([write_calls("hermes", CALL)], format="hermes")
    answer = served.anthropic().messages.with_raw_response.create(**asked())
    message = answer.parse()
    (block,) = message.content
    assert isinstance(block, anthropic.types.ToolUseBlock)
    assert (block.name, block.input, message.stop_reason) == ("lookup_code", {"city": "Paris"}, "tool_use")
    assert message.usage.input_tokens > 0
    assert answer.headers["x-toolcall"].startswith("api=messages; mode=prompt; format=hermes; calls=1")
    assert served.backend.last.path == "/v1/chat/completions"


@pytest.mark.parametrize("tools", [[TOOL], []])
def test_a_stream_is_read_by_the_sdk(open_host: Open, tools: list[Any]) -> None:
    text = "It is " + "a long story. " * 20
    served = open_host([text], format="hermes")
    with served.anthropic().messages.stream(**asked(tools=tools)) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()
    assert len(pieces) > 10
    assert "".join(pieces) == text
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 10


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("written", "stops", "ended"),
    [
        ("abc STOP def", ["STOP"], ("abc ", "stop_sequence", "STOP")),
        ("abc <|im_end|> def STOP", ["STOP", "<|im_end|>"], ("abc ", "stop_sequence", "<|im_end|>")),
        ("abc STO", ["STOP"], ("abc STO", "end_turn", None)),
    ],
)
def test_a_stop_string_that_ended_the_text_is_told(
    open_host: Open, written: str, stops: list[str], ended: tuple[str, str, str | None], *, stream: bool
) -> None:
    """With tools the middleware looks for it itself: a backend would cut calls by it."""
    client = open_host([written], format="hermes").anthropic()
    fields = asked(stop_sequences=stops)
    if stream:
        with client.messages.stream(**fields) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**fields)
    (said,) = message.content
    assert isinstance(said, anthropic.types.TextBlock)
    assert (said.text, message.stop_reason, message.stop_sequence) == ended


def test_the_loop_of_tools_ends_with_the_result(open_host: Open) -> None:
    served = open_host(obedient_model("hermes", CALL, prose="Let me see. "), format="hermes")
    client = served.anthropic()
    messages = list(HI)
    with client.messages.stream(**asked(messages=messages)) as stream:
        first = stream.get_final_message()
    assert first.stop_reason == "tool_use"
    call = first.content[-1]
    assert isinstance(call, anthropic.types.ToolUseBlock)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "code TOOLMARK-0123ab"}
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    last = client.messages.create(**asked(messages=messages))
    (said,) = last.content
    assert isinstance(said, anthropic.types.TextBlock)
    assert said.text == "The code is TOOLMARK-0123ab."


def test_a_request_without_tools_is_counted_and_its_markup_is_text(open_host: Open) -> None:
    written = write_calls("hermes", CALL)
    served = open_host([f"Write {written}"], backend={"usage": False}, format="hermes")
    message = served.anthropic().messages.create(**asked(tools=[]))
    (said,) = message.content
    assert isinstance(said, anthropic.types.TextBlock)
    assert said.text == f"Write {written}"
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 0


def test_a_refused_request_is_an_error_of_this_api(open_host: Open) -> None:
    served = open_host([])
    with pytest.raises(anthropic.BadRequestError) as caught:
        served.anthropic().messages.create(**asked(tool_choice={"type": "tool", "name": "other"}))
    error: Any = caught.value.body
    assert error["type"] == "error"
    assert error["error"]["type"] == "invalid_request_error"
    assert caught.value.response.headers["x-toolcall"] == "api=messages"
    assert caught.value.response.headers["x-toolcall-error"]
    assert not served.backend.seen


def test_the_allowlist_is_kept_on_this_face(open_host: Open) -> None:
    served = open_host([], allowlist="other", allowlist_mode="enforce")
    with pytest.raises(anthropic.PermissionDeniedError) as caught:
        served.anthropic().messages.create(**asked())
    error: Any = caught.value.body
    assert error["error"]["type"] == "permission_error"
    assert caught.value.response.headers["x-toolcall-error"] == "tool_not_allowed"
    assert not served.backend.seen


def test_a_rate_is_kept_by_the_key_in_either_header(open_host: Open) -> None:
    served = open_host(lambda _: write_calls("hermes", CALL), format="hermes", rate_limit="1/hour")
    key = secrets.token_hex(8)  # rates are counted in the memory of the process
    served.anthropic(api_key=None, auth_token=key).messages.create(**asked())
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    again = httpx.post(f"{served.url}/v1/messages", json=asked(), headers=headers)
    assert again.status_code == 429
    assert again.json()["error"]["type"] == "rate_limit_error"
    assert again.headers["x-toolcall-error"] == "rate_limit_exceeded"
    assert int(again.headers["retry-after"]) > 0
    other = httpx.post(
        f"{served.url}/v1/messages", json=asked(), headers={**headers, "x-api-key": secrets.token_hex(8)}
    )
    assert other.status_code == 200


def test_an_error_in_the_stream_ends_it_as_an_error_event(open_host: Open) -> None:
    served = open_host(["It is a long story."], backend={"quirks": Quirks(error_after=3)})
    client = served.anthropic()
    with pytest.raises(anthropic.APIStatusError) as caught, client.messages.stream(**asked()) as stream:
        for _ in stream:
            pass
    error: Any = caught.value.body
    assert error["error"]["type"] == "api_error"
    assert "engine died" in error["error"]["message"]


def test_a_refusal_of_the_backend_is_told(open_host: Open) -> None:
    served = open_host([Refusal(429, {"error": {"message": "slow"}}, {"retry-after": "7"})], upstream_retries=0)
    with pytest.raises(anthropic.RateLimitError) as caught:
        served.anthropic().messages.create(**asked())
    assert caught.value.response.headers["retry-after"] == "7"


def test_an_answer_that_does_not_fit_is_asked_shorter(open_host: Open) -> None:
    told = (
        "This model's maximum context length is 1000 tokens. However, you requested 32000 tokens in the completion"
        " (400 in the messages, 32000 in the completion)."
    )
    served = open_host([Refusal(400, {"error": {"message": told, "type": "BadRequestError", "code": 400}}), "Short."])
    message = served.anthropic().messages.create(**asked(max_tokens=32000, tools=[]), timeout=10)
    (said,) = message.content
    assert isinstance(said, anthropic.types.TextBlock)
    assert said.text == "Short."
    first, second = served.backend.bodies
    assert first["max_tokens"] == 32000
    assert second["max_tokens"] == 600


def test_tokens_are_counted_as_they_would_be_sent(open_host: Open) -> None:
    served = open_host([])
    counting = served.anthropic().messages.with_raw_response.count_tokens
    plain = counting(model="fake-model", messages=HI)
    with_tools = counting(model="fake-model", messages=HI, tools=[TOOL])
    assert 0 < plain.parse().input_tokens < with_tools.parse().input_tokens
    assert plain.headers["x-toolcall"] == "api=messages; usage=estimated"
    assert not served.backend.seen


async def test_tokens_are_counted_by_the_backend_where_it_is_asked() -> None:
    asked_for: list[Any] = []

    async def backend(scope: Any, receive: Any, send: Any) -> None:
        asked_for.append((scope["path"], json.loads((await receive())["body"])))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"count": 77, "max_model_len": 99, "tokens": [1]}'})

    app = ToolCallMiddleware(backend, tokenizer="upstream", usage="off")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        headers = {"anthropic-version": "2023-06-01"}
        body = {"model": "m", "messages": HI}
        answer = await client.post("/v1/messages/count_tokens?beta=true", json=body, headers=headers)
    assert answer.json() == {"input_tokens": 77}
    assert answer.headers["x-toolcall"] == "api=messages"
    assert [path for path, _ in asked_for] == ["/tokenize"]


def test_models_are_listed_in_this_api_s_form(open_host: Open) -> None:
    served = open_host([])
    client = served.anthropic()
    (model,) = client.models.list()
    assert (model.id, model.type) == ("fake-model", "model")
    plain = httpx.get(f"{served.url}/v1/models").json()
    assert plain["object"] == "list"


def test_dropped_tools_are_named(open_host: Open) -> None:
    served = open_host(["Fine."])
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    answer = served.anthropic().messages.with_raw_response.create(**asked(tools=[TOOL, search]))
    assert answer.headers["x-toolcall"].endswith("; dropped_tools=web_search")


def test_options_of_a_request_hold(open_host: Open) -> None:
    served = open_host([write_calls("json", CALL)], format="hermes")
    message = served.anthropic().messages.create(**asked(), extra_body={"toolcall": {"format": "json"}})
    assert message.stop_reason == "tool_use"


def test_the_query_and_a_slash_more_change_nothing(open_host: Open) -> None:
    served = open_host(lambda _: "Fine.")
    headers = {"anthropic-version": "2023-06-01"}
    for path in ("/v1/messages?beta=true", "/v1/messages/", "//v1//messages"):
        answer = httpx.post(served.url + path, json=asked(), headers=headers)
        assert answer.json()["content"] == [{"type": "text", "text": "Fine."}], path
    assert {seen.path for seen in served.backend.seen} == {"/v1/chat/completions"}
    assert {seen.query for seen in served.backend.seen} == {""}


async def test_another_spelling_of_the_path_is_the_same_door() -> None:
    backend = TextBackend(["Hello."], strict=True)
    app = ToolCallMiddleware(backend, faces="messages")
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.post("/V1/Messages/", json=body)
    assert (answer.status_code, answer.json()["type"]) == (200, "message")
