"""`response_format` beside tools in the prompt: the final text is held, taken out of a fence, checked, tried again."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest

from tests.helpers import asgi_client
from tests.helpers.answers import STREAMS, TOOL, Case, answered, case, cases, check, post
from tests.helpers.fakes import Refusal, TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.answer_text import AnswerText
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import ToolSet
from toolcall_middleware.parsing.events import Text

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
GOOD, BAD, CALL = '{"n": 3}', '{"n": "three"}', write_calls("json", ("f", {}))
FENCED = f"```\n{BAD}\n```"
REFUSES = {"error": {"message": "Unknown field: response_format", "type": "invalid_request_error"}}


def wants(name: str, said: Any, *, wanted: Any = FORMAT, **more: Any) -> Any:
    """A case with this response_format."""
    return case(name, said, asked={"response_format": wanted}, **more)


def schema(value: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": value}}


def misfits(wrote: str) -> Any:
    return wants(f"misfit {wrote!r}", [wrote, GOOD], content=GOOD, calls=[], tries=2)


@cases(
    wants("fits", GOOD, content=GOOD, calls=[], tries=1),
    wants("its fence is left out", f"```json\n{GOOD}\n```", content=GOOD, calls=[], tries=1),
    wants("a fence without a name", f"\n```\n{GOOD}\n```\n", content=GOOD, calls=[], tries=1),
    *map(misfits, (BAD, "The number is 3.", "[1]", f"Here:\n```json\n{GOOD}\n```")),
    wants("never fits", [BAD, BAD], content=BAD, calls=[], tries=2, head="; structured=misfit;"),
    wants("calls are no answer to check", f"Well. {CALL}", content="Well. ", calls=[("f", "{}")], tries=1),
    wants("any object", ["[1]", "{}"], content="{}", wanted={"type": "json_object"}),
    wants("off", FENCED, content=FENCED, tries=1, structured="off"),
    wants("text is asked for", FENCED, content=FENCED, tries=1, wanted={"type": "text"}),
    wants("nothing is asked for", FENCED, content=FENCED, tries=1, wanted=None),
    wants("without retries it is checked all the same", BAD, content=BAD, retries=0, head="; structured=misfit;"),
    # What cannot be checked is the backend's to judge.
    *(
        wants(f"unchecked {value}", "```json\n[1]\n```", content="[1]", wanted=schema(value))
        for value in ({"type": "array"}, {"$ref": "http://example.com/x"}, {"type": "object", "properties": 3})
    ),
)  # fmt: skip
async def test_answers(one: Case) -> None:
    await check(one)


async def ask(
    backend: TextBackend | ToolCallMiddleware, *, stream: bool, tools: Any = (TOOL,), **options: Any
) -> tuple[str, str]:
    """The text that the client gets, and the header."""
    app = backend if isinstance(backend, ToolCallMiddleware) else ToolCallMiddleware(backend, **options)
    response = await post(app, stream=stream, response_format=FORMAT, tools=list(tools))
    return answered(response).content, response.headers["x-toolcall"]


@STREAMS
async def test_a_misfit_is_told_the_model_and_logged(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    backend = TextBackend([BAD, BAD])
    with caplog.at_level(logging.WARNING, logger="toolcall_middleware"):
        await ask(backend, stream=stream)
    said = backend.bodies[1]["messages"]
    assert said[-2] == {"role": "assistant", "content": BAD}
    assert said[-1]["content"].startswith("That answer does not fit the JSON Schema: ")
    assert "does not fit the client's response_format: n" in caplog.text
    assert "three" not in caplog.text


@STREAMS
async def test_without_tools_prompt_asks_in_words_and_checks(stream: bool) -> None:
    backend = TextBackend([BAD, f"```\n{GOOD}\n```"])
    text, _ = await ask(backend, stream=stream, structured="prompt", tools=[])
    assert (text, len(backend.seen)) == (GOOD, 2)
    assert "response_format" not in backend.bodies[0]
    assert '"required":["n"]' in backend.bodies[0]["messages"][-1]["content"]
    assert "tool" not in backend.bodies[0]["messages"][-1]["content"]


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


def no_field(body: dict[str, Any]) -> Any:
    return Refusal(400, REFUSES) if "response_format" in body else f"```json\n{GOOD}\n```"


@STREAMS
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


@STREAMS
@pytest.mark.parametrize("guards", [{}, {"allowlist": "f", "allowlist_mode": "enforce"}], ids=["open", "guarded"])
async def test_a_field_that_the_backend_refuses_by_name_is_asked_for_in_words(
    stream: bool, guards: dict[str, Any]
) -> None:
    backend = TextBackend(no_field)
    app = ToolCallMiddleware(backend, **guards)
    for asked in (2, 3):  # the second request knows
        text, header = await ask(app, stream=stream, tools=())
        assert text == GOOD
        assert header.startswith("mode=prompt")
        assert len(backend.seen) == asked
    assert "response_format" not in backend.bodies[-1]
    assert "JSON" in json.dumps(backend.bodies[-1]["messages"])


@pytest.mark.parametrize(
    ("status", "message", "settings"),
    [
        (400, "Invalid schema for response_format 'a': 'n' is no type", {}),
        (400, "No such model", {}),
        (429, "response_format", {}),
        (400, REFUSES["error"]["message"], {"structured": "off"}),
        (400, REFUSES["error"]["message"], {"mode": "off"}),
    ],
)
async def test_other_refusals_are_the_clients(status: int, message: str, settings: dict[str, Any]) -> None:
    backend = TextBackend([Refusal(status, {"error": {"message": message}})])
    response = await post(ToolCallMiddleware(backend, **settings), response_format=FORMAT, tools=[])
    assert (response.status_code, response.json()["error"]["message"]) == (status, message)
    assert len(backend.seen) == 1


@STREAMS
async def test_it_holds_on_responses(stream: bool) -> None:
    backend = TextBackend(no_field)
    app = ToolCallMiddleware(backend, faces="responses")
    wanted = {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}
    body = {"model": "m", "input": "x", "text": wanted, "stream": stream}
    response = await asgi_client.post(app, body, "/v1/responses")
    assert response.status_code == 200
    assert "3}" in response.text
    assert "```" not in response.text
    assert len(backend.seen) == 2
