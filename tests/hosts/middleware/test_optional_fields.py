"""A backend that refuses an optional field by name gets the request again without it, on every face."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers.asgi_client import asked_on_each_face, post
from tests.helpers.auto_backend import TOOL as ONE_TOOL
from tests.helpers.fakes import Answer, Quirks, Refusal, TextBackend, write_calls
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.upstream.negotiation import OPTIONAL

from ..proxy.routing import said

TOOL = {"function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
CHAT, MESSAGES, RESPONSES = asked_on_each_face("Hi", {"type": "function", **TOOL}).values()
ASKED = [
    ("/v1/chat/completions", CHAT | {"reasoning_effort": "xhigh"}, "reasoning_effort"),
    ("/v1/chat/completions", CHAT | {"top_k": 5}, "top_k"),
    ("/v1/chat/completions", CHAT | {"verbosity": "low", "store": True, "metadata": {}}, "verbosity"),
    ("/v1/chat/completions", CHAT | {"prompt_cache_key": "k", "safety_identifier": "s"}, "prompt_cache_key"),
    ("/v1/messages", MESSAGES | {"output_config": {"effort": "low"}}, "reasoning_effort"),
    ("/v1/messages", MESSAGES | {"top_k": 5}, "top_k"),
    ("/v1/responses", RESPONSES | {"reasoning": {"effort": "high"}}, "reasoning_effort"),
    ("/v1/responses", RESPONSES | {"reasoning": {"effort": "high"}, "tools": []}, "reasoning_effort"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body", "field"), ASKED)
async def test_a_field_that_is_refused_by_name_is_left_out_and_remembered(
    path: str, body: dict[str, Any], field: str, stream: bool
) -> None:
    backend = TextBackend(lambda _body: "Hello.", refused_fields=[field], chunk_size=None)
    app = ToolCallMiddleware(backend)
    for _ in range(2):
        answer = await post(app, {**body, "stream": stream}, path)
        assert answer.status_code == 200, answer.text
        assert "Hello." in said(answer)
    assert [field in seen for seen in backend.bodies] == [True, False, False]
    plain = {name: value for name, value in backend.bodies[0].items() if name != field}
    assert plain == backend.bodies[1]


async def test_another_client_is_asked_with_its_field() -> None:
    backend = TextBackend(lambda _body: "Hello.", refused_fields=["top_k"])
    app = ToolCallMiddleware(backend)
    for key in ("one", "two"):
        assert (await post(app, CHAT | {"top_k": 5}, headers={"authorization": key})).status_code == 200
    assert ["top_k" in seen for seen in backend.bodies] == [True, False, True, False]


async def test_all_fields_that_an_error_names_are_left_out_at_once() -> None:
    def model(body: dict[str, Any]) -> Any:
        odd = sorted({"top_k", "verbosity"} & body.keys())
        return Refusal(422, {"detail": [{"loc": ["body", name], "msg": "extra"} for name in odd]}) if odd else "Hello."

    backend = TextBackend(model)
    answer = await post(ToolCallMiddleware(backend), CHAT | {"top_k": 5, "verbosity": "low"})
    assert answer.status_code == 200
    assert len(backend.bodies) == 2


async def test_the_field_goes_before_the_tools() -> None:
    """OpenAI: `Function tools with reasoning_effort are not supported for this model`."""

    def model(body: dict[str, Any]) -> Any:
        if "reasoning_effort" in body:
            return Refusal(400, {"error": {"message": "Function tools with reasoning_effort are not supported."}})
        return "Hello."

    backend = TextBackend(model)
    await post(ToolCallMiddleware(backend, mode="native"), CHAT | {"reasoning_effort": "low"})
    assert [("reasoning_effort" in body, "tools" in body) for body in backend.bodies] == [(True, True), (False, True)]


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "temperature must be at most 2"), (401, "top_k"), (429, "top_k"), (400, "stop_k and top_kinds are unknown")],
)
async def test_other_refusals_are_the_clients(status: int, message: str) -> None:
    backend = TextBackend(lambda _body: Refusal(status, {"error": {"message": message}}))
    app = ToolCallMiddleware(backend)
    answer = await post(app, CHAT | {"temperature": 5, "top_k": 5})
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, message)
    assert len(backend.bodies) == 1


async def test_a_field_that_the_client_did_not_send_changes_nothing() -> None:
    backend = TextBackend(lambda _body: Refusal(400, {"error": {"message": "top_k is refused"}}))
    assert (await post(ToolCallMiddleware(backend), CHAT)).status_code == 400
    assert len(backend.bodies) == 1


async def test_a_refusal_with_the_field_left_out_is_told_as_it_is_and_nothing_is_remembered() -> None:
    backend = TextBackend(lambda _body: Refusal(400, {"error": {"message": "top_k, or anything else"}}))
    app = ToolCallMiddleware(backend)
    for _ in range(2):
        assert (await post(app, CHAT | {"top_k": 5})).status_code == 400
    assert ["top_k" in seen for seen in backend.bodies] == [True, False, True, False]


# -- a limit of tokens that leaves the prompt no room ------------------------------------------------------------------

OPENAI = (
    "This model's maximum context length is 8192 tokens. However, you requested 33000 tokens (1000 in the messages,"
    " 32000 in the completion)."
)
VLLM = (
    "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 tokens"
    " and your request has 1000 input tokens (32000 > 8192 - 1000)."
)
SGLANG = (
    "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 33000"
    " tokens: 1000 tokens from the input messages and 32000 tokens for the completion."
)
VLLM_LIMIT = "max_tokens=32000 cannot be greater than max_model_len=2048. Please request fewer output tokens."
VLLM_PROMPT = (
    "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens,"
    " which exceeds this limit even without any output tokens."
)


def refusing(message: str) -> TextBackend:
    """A backend that says this as long as the answer may have more than 7192 tokens."""
    error = Refusal(400, {"error": {"message": message}})
    return TextBackend(lambda body: error if body.get("max_tokens", 0) > 7192 else "Hello.")


@pytest.mark.parametrize(
    ("message", "limits"),
    [
        (OPENAI, [32000, 7192]),
        (VLLM, [32000, 7192]),
        (SGLANG, [32000, 7192]),
        (VLLM_LIMIT, [32000, None]),
        (VLLM_PROMPT, [32000]),
        ("the maximum context length is 5 tokens", [32000]),
        ("no such thing", [32000]),
    ],
)
async def test_the_limit_of_another_apis_request_is_lowered_to_the_room_there_is(
    message: str, limits: list[int | None]
) -> None:
    asked: dict[str, dict[str, Any]] = {
        "/v1/messages": MESSAGES | {"max_tokens": 32000},
        "/v1/responses": RESPONSES | {"max_output_tokens": 32000},
    }
    for path, body in asked.items():
        backend = refusing(message)
        answer = await post(ToolCallMiddleware(backend), body, path)
        assert answer.status_code == (200 if len(limits) > 1 else 400)
        assert [seen.get("max_tokens") for seen in backend.bodies] == limits


async def test_a_chat_completions_own_limit_is_the_clients_word() -> None:
    backend = refusing(OPENAI)
    answer = await post(ToolCallMiddleware(backend), CHAT | {"max_tokens": 32000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert len(backend.bodies) == 1


def test_the_documentation_names_them_all() -> None:
    page = (Path(__file__).parents[3] / "docs/explanation/wire.md").read_text("utf-8")
    assert not [name for name in OPTIONAL if f"`{name}`" not in page]


# --- an answer without a word or a call

CALL = write_calls("json", ("f", {"x": 3}))
CALLED = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
]}  # fmt: skip
HISTORY = [{"role": "user", "content": "Go."}, CALLED, {"role": "tool", "tool_call_id": "call_a", "content": "42"}]


async def ask(app: Any, **fields: Any) -> httpx.Response:
    return await post(app, {"model": "m", "messages": HISTORY, "tools": [ONE_TOOL], **fields})


def choice_of(response: httpx.Response) -> tuple[str | None, list[str]]:
    assert response.status_code == 200, response.text
    check = check_stream if response.headers["content-type"].startswith("text/event-stream") else check_whole
    choice = check(response.content, tools={"f"}, own_ids=False).only
    return choice.content, [call.name for call in choice.calls]


@pytest.mark.parametrize("mode", ["prompt", "native"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("second", "expected"), [("It is 42.", ("It is 42.", [])), (CALL, (None, ["f"]))])
async def test_an_empty_answer_is_asked_for_once_more(
    second: str, expected: tuple[str | None, list[str]], stream: bool, mode: str
) -> None:
    backend = TextBackend(["", second])
    response = await ask(ToolCallMiddleware(backend, mode=mode), stream=stream)
    assert choice_of(response) == expected
    assert "; retried=1" in response.headers["x-toolcall"]
    *before, answer, note = backend.last.body["messages"]
    assert before == backend.bodies[0]["messages"]
    assert (answer["role"], note["role"]) == ("assistant", "user")
    assert "empty" in note["content"]


@pytest.mark.parametrize("stream", [False, True])
async def test_it_is_asked_once(stream: bool) -> None:
    backend = TextBackend(["", "", "Never."])
    response = await ask(ToolCallMiddleware(backend, retries=3), stream=stream)
    text, calls = choice_of(response)
    assert (text or "", calls) == ("", [])
    assert len(backend.bodies) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_usage_is_of_both(stream: bool) -> None:
    backend = TextBackend(["", "It is 42."])
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
    response = await ask(ToolCallMiddleware(backend), stream=stream, **options)
    check = check_stream(response.content, include_usage=True) if stream else check_whole(response.content)
    assert check.usage is not None
    words = [sum(len(str(message["content"]).split()) for message in body["messages"]) for body in backend.bodies]
    assert check.usage["prompt_tokens"] == sum(words)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("settings", "fields", "answer"),
    [
        ({"retries": 0}, {}, ""),
        ({}, {"tool_choice": "none"}, ""),
        ({}, {}, Answer("", "length")),
        ({}, {}, Answer("", "content_filter")),
    ],
)
async def test_other_empty_answers_are_given(settings: Any, fields: Any, answer: Any, stream: bool) -> None:
    backend = TextBackend([answer, "Never."])
    response = await ask(ToolCallMiddleware(backend, **settings), stream=stream, **fields)
    assert response.status_code == 200
    assert "Never" not in response.text
    assert "retried" not in response.headers["x-toolcall"]
    if stream:
        check_stream(response.content)


async def test_what_has_been_sent_is_not_taken_back() -> None:
    """A comment keeps a slow stream alive: its client has the beginning of an answer."""
    backend = TextBackend(["", "Never."], quirks=Quirks(comments=True))
    response = await ask(ToolCallMiddleware(backend), stream=True)
    assert len(backend.bodies) == 1
    check_stream(response.content)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("validate", ["retry", "error"])
async def test_it_is_asked_again_where_calls_are_checked_too(stream: bool, validate: str) -> None:
    backend = TextBackend(["", CALL])
    response = await ask(ToolCallMiddleware(backend, validate_arguments=validate), stream=stream)
    assert choice_of(response) == (None, ["f"])


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_other_apis_ask_again_too(path: str, stream: bool) -> None:
    backend = TextBackend(["", "It is 42."], chunk_size=None)
    body = {**asked_on_each_face("Go.", ONE_TOOL)[path], "stream": stream}
    response = await post(ToolCallMiddleware(backend), body, path)
    assert "t is 42." in response.text
    assert "; retried=1" in response.headers["x-toolcall"]
