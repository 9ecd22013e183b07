"""`response_format` beside tools in the prompt: the final text is held, taken out of a fence, checked, tried again."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest

from tests.helpers.fakes import Refusal, TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.answer_text import AnswerText
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import ToolSet
from toolcall_middleware.parsing.events import Text

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
GOOD, BAD, CALL = '{"n": 3}', '{"n": "three"}', write_calls("json", ("f", {}))


async def ask(
    backend: TextBackend | ToolCallMiddleware,
    *,
    stream: bool,
    wanted: Any = FORMAT,
    tools: Any = (TOOL,),
    **options: Any,
) -> tuple[str, int, str]:
    """The text that the client gets, the number of its calls, and the header."""
    app = backend if isinstance(backend, ToolCallMiddleware) else ToolCallMiddleware(backend, **options)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": list(tools), "stream": stream,
            "response_format": wanted}  # fmt: skip
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a/v1") as client:
        response = await client.post("/chat/completions", json=body)
    assert response.status_code == 200
    header = response.headers["x-toolcall"]
    if not stream:
        message = response.json()["choices"][0]["message"]
        return message["content"] or "", len(message.get("tool_calls") or ()), header
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls") or () if call.get("id")]
    return "".join(delta.get("content") or "" for delta in deltas), len(calls), header


both = pytest.mark.parametrize("stream", [False, True])


@both
@pytest.mark.parametrize("wrote", [GOOD, f"```json\n{GOOD}\n```", f"\n```\n{GOOD}\n```\n"])
async def test_a_text_that_fits_leaves_without_its_fence(wrote: str, stream: bool) -> None:
    backend = TextBackend([wrote])
    assert (await ask(backend, stream=stream))[:2] == (GOOD, 0)
    assert len(backend.seen) == 1


@both
@pytest.mark.parametrize("wrote", [BAD, "The number is 3.", "[1]", f"Here:\n```json\n{GOOD}\n```"])
async def test_a_text_that_does_not_fit_is_asked_for_once_more_with_the_reason(wrote: str, stream: bool) -> None:
    backend = TextBackend([wrote, GOOD])
    assert (await ask(backend, stream=stream))[:2] == (GOOD, 0)
    said = backend.bodies[1]["messages"]
    assert said[-2]["role"] == "assistant"
    assert said[-2]["content"].strip() in {wrote, "(empty)"}
    assert said[-1]["content"].startswith("That answer does not fit the JSON Schema: ")


@both
async def test_a_text_that_never_fits_leaves_and_is_told(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    backend = TextBackend([BAD, BAD])
    with caplog.at_level(logging.WARNING, logger="toolcall_middleware"):
        text, calls, header = await ask(backend, stream=stream)
    assert (text, calls, len(backend.seen)) == (BAD, 0, 2)
    assert "does not fit the client's response_format: n" in caplog.text
    assert "three" not in caplog.text
    assert stream or "; structured=misfit" in header


@both
async def test_calls_are_no_answer_to_check(stream: bool) -> None:
    backend = TextBackend([f"Well. {CALL}"])
    text, calls, _ = await ask(backend, stream=stream)
    assert (text.strip(), calls, len(backend.seen)) == ("Well.", 1, 1)


@both
async def test_any_object_is_asked_for_by_json_object(stream: bool) -> None:
    assert (await ask(TextBackend(["[1]", "{}"]), stream=stream, wanted={"type": "json_object"}))[0] == "{}"


@both
@pytest.mark.parametrize(
    "options", [{"structured": "off"}, {"wanted": {"type": "text"}}, {"wanted": None}], ids=["off", "text", "none"]
)
async def test_other_answers_leave_as_they_come(options: Any, stream: bool) -> None:
    backend = TextBackend([f"```\n{BAD}\n```"])
    assert (await ask(backend, stream=stream, **options))[0] == f"```\n{BAD}\n```"
    assert len(backend.seen) == 1


@both
async def test_without_retries_a_text_is_checked_all_the_same(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    backend = TextBackend([BAD])
    assert (await ask(backend, stream=stream, retries=0))[0] == BAD
    assert "does not fit" in caplog.text


@both
async def test_without_tools_prompt_asks_in_words_and_checks(stream: bool) -> None:
    backend = TextBackend([BAD, f"```\n{GOOD}\n```"])
    text, _, _ = await ask(backend, stream=stream, structured="prompt", tools=[])
    assert (text, len(backend.seen)) == (GOOD, 2)
    assert "response_format" not in backend.bodies[0]
    assert '"required":["n"]' in backend.bodies[0]["messages"][-1]["content"]
    assert "tool" not in backend.bodies[0]["messages"][-1]["content"]


async def test_without_tools_a_request_passes_by_default() -> None:
    backend = TextBackend([f"```\n{BAD}\n```"])
    app = ToolCallMiddleware(backend)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": FORMAT}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a/v1") as client:
        response = await client.post("/chat/completions", json=body)
    assert backend.bodies == [body]
    assert "x-toolcall" not in response.headers


@both
async def test_a_schema_that_cannot_be_checked_is_the_backends_to_judge(stream: bool) -> None:
    for schema in ({"type": "array"}, {"$ref": "http://example.com/x"}, {"type": "object", "properties": 3}):
        wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        backend = TextBackend(["```json\n[1]\n```"])
        assert (await ask(backend, stream=stream, wanted=wanted))[0] == "[1]"


def test_a_text_beyond_the_limit_leaves_as_it_comes_and_unchecked() -> None:
    read = AnswerText(registry.get("json").parser(ToolSet(), ParserOptions()), limit=8)
    assert read.feed("```\n12") == []
    assert read.feed("3456") == [Text("```\n123456")]
    assert read.feed("7") == [Text("7")]
    assert read.finish() == []
    assert read.text is None


@pytest.mark.parametrize(
    "text", ["```", "``````", "```\n```", "```\n1\n``` 2", "```json 1\n2\n```", "```\na\n```\n```\nb\n```"]
)
def test_only_one_fence_around_all_of_it_is_taken_off(text: str) -> None:
    read = AnswerText(registry.plain().parser(None, ParserOptions()), limit=None)
    events = [*read.feed(text), *read.finish()]
    assert "".join(event.text for event in events if isinstance(event, Text)) == ("" if text == "```\n```" else text)


# -- without tools: the field passes, and is asked for in words where the backend refuses it


REFUSES = {"error": {"message": "Unknown field: response_format", "type": "invalid_request_error"}}


def no_field(body: dict[str, Any]) -> Any:
    return Refusal(400, REFUSES) if "response_format" in body else f"```json\n{GOOD}\n```"


@both
async def test_without_tools_the_field_passes_unread(stream: bool) -> None:
    backend = TextBackend([f"```json\n{BAD}\n```"])
    app = ToolCallMiddleware(backend)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": stream, "response_format": FORMAT}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a/v1") as client:
        response = await client.post("/chat/completions", content=(raw := json.dumps(body).encode()))
    assert "x-toolcall" not in response.headers
    assert backend.seen[0].raw == raw
    assert len(backend.seen) == 1
    assert "`" in response.text  # the fence is the model's


@both
@pytest.mark.parametrize("guards", [{}, {"allowlist": "f", "allowlist_mode": "enforce"}], ids=["open", "guarded"])
async def test_a_field_that_the_backend_refuses_by_name_is_asked_for_in_words(
    stream: bool, guards: dict[str, Any]
) -> None:
    backend = TextBackend(no_field)
    app = ToolCallMiddleware(backend, **guards)
    for asked in (2, 3):  # the second request knows
        text, calls, header = await ask(app, stream=stream, tools=())
        assert (text, calls) == (GOOD, 0)
        assert header.startswith("mode=prompt")
        assert len(backend.seen) == asked
    assert "response_format" not in backend.bodies[-1]
    assert "JSON" in json.dumps(backend.bodies[-1]["messages"])


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "Invalid schema for response_format 'a': 'n' is no type"), (400, "No such model"), (429, "response_format")],
)
async def test_other_refusals_are_the_clients(status: int, message: str) -> None:
    backend = TextBackend([Refusal(status, {"error": {"message": message}})])
    app = ToolCallMiddleware(backend)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": FORMAT}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a/v1") as client:
        response = await client.post("/chat/completions", json=body)
    assert response.status_code == status
    assert response.json()["error"]["message"] == message
    assert len(backend.seen) == 1


@pytest.mark.parametrize("options", [{"structured": "off"}, {"mode": "off"}])
async def test_it_can_be_switched_off(options: dict[str, Any]) -> None:
    backend = TextBackend(no_field)
    app = ToolCallMiddleware(backend, **options)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": FORMAT}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a/v1") as client:
        assert (await client.post("/chat/completions", json=body)).json() == REFUSES


@both
async def test_it_holds_on_responses(stream: bool) -> None:
    backend = TextBackend(no_field)
    app = ToolCallMiddleware(backend, faces="responses")
    wanted = {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}
    body = {"model": "m", "input": "x", "text": wanted, "stream": stream}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a/v1") as client:
        response = await client.post("/responses", json=body)
    assert response.status_code == 200
    assert "3}" in response.text
    assert "```" not in response.text
    assert len(backend.seen) == 2
