"""`mode=auto` through the whole middleware: a model is native once something proves that its tools reach it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.helpers.asgi_client import asked_on_each_face, post
from tests.helpers.auto_backend import NO_PARSER, PROSE, TOOL, AutoBackend
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import ToolCallMiddleware

LONG = "You are a careful assistant. " * 200


G = {**TOOL, "function": {**TOOL["function"], "name": "g"}}


def auto(backend: AutoBackend, **options: Any) -> ToolCallMiddleware:
    return ToolCallMiddleware(backend, mode="auto", format="json", **options)


async def ask(app: Any, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": [TOOL], **fields}
    return await post(app, body, headers=headers)


async def mode(app: Any, **fields: Any) -> tuple[str, list[str]]:
    """How a request was asked in the end, and the names of the calls in its answer."""
    response = await ask(app, **fields)
    assert response.status_code == 200, response.text
    check = check_stream if response.headers["content-type"].startswith("text/event-stream") else check_whole
    choice = check(response.content, tools={"f"}, own_ids=False).choices[0]
    return response.headers["x-toolcall"].partition(";")[0], [call.name for call in choice.calls]


PROMPT, NATIVE = ("mode=prompt", ["f"]), ("mode=native", ["f"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("system", ["", LONG])
@pytest.mark.parametrize(
    ("backend", "answered", "tools", "looked"),
    [
        ({"caps": False, "renders": False}, PROMPT, [False] * 3, []),
        ({"caps": True}, NATIVE, [True] * 3, []),
        ({"renders": False}, PROMPT, [False] * 3, [True, False]),
        # However often the model only talks.
        ({"talks": True}, ("mode=native", []), [True] * 3, [True, False]),
        ({"refusal": NO_PARSER}, PROMPT, None, None),
    ],
    ids=["the template takes none", "the template takes some", "the prompt stays", "the prompt grows", "refused"],
)
async def test_the_first_request_goes_the_way_that_the_evidence_shows(
    backend: dict[str, Any], answered: tuple[str, list[str]], tools: Any, looked: Any, system: str, stream: bool
) -> None:
    made = AutoBackend(**backend)
    app = auto(made)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Go."}]
    assert [await mode(app, stream=stream, messages=messages) for _ in range(3)] == [answered] * 3
    if looked is None:
        assert ["tools" in body for body in made.bodies] == [True, False, False, False]
        return
    assert ["tools" in body for body in made.asked] == tools
    assert ["tools" in body for body in made.looked] == looked
    assert len({json.dumps(body["messages"]) for body in made.looked}) <= 1
    assert looked or made.asked_props == 1


async def test_what_is_known_is_of_the_model_and_not_of_the_client_its_tools_its_choice_or_its_stream() -> None:
    backend = AutoBackend(renders=False)
    app = auto(backend)
    await ask(app, {"authorization": "Bearer one"})
    looked = len(backend.looked)
    await ask(app, {"authorization": "Bearer two"}, stream=True)
    await ask(app, tools=[TOOL, G], tool_choice="required")
    assert len(backend.looked) == looked
    assert not any("tools" in body for body in backend.asked)
    await ask(app, model="another")
    assert len(backend.looked) == 2 * looked


async def test_requests_that_come_together_look_once() -> None:
    backend = AutoBackend(renders=False)
    app = auto(backend)
    await asyncio.gather(*(ask(app) for _ in range(5)))
    assert len(backend.looked) == 2


# -- a backend that shows nothing of itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_without_evidence_a_call_is_the_proof(stream: bool) -> None:
    backend = AutoBackend(counts=False)
    app = auto(backend)
    assert [await mode(app, stream=stream) for _ in range(2)] == [NATIVE] * 2
    backend.talks = True
    assert await mode(app, stream=stream) == ("mode=native", [])


@pytest.mark.parametrize("stream", [False, True])
async def test_without_evidence_an_answer_without_a_call_is_asked_for_by_prompt_and_none_of_it_is_sent(
    stream: bool,
) -> None:
    backend = AutoBackend(counts=False, renders=False)
    app = auto(backend)
    assert [await mode(app, stream=stream) for _ in range(3)] == [PROMPT] * 3
    assert ["tools" in body for body in backend.asked] == [True, False, False, False]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_backend_that_cannot_be_asked_teaches_nothing(stream: bool) -> None:
    broken = [True]
    backend = AutoBackend()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if broken:
            raise RuntimeError("it starts")
        await backend(scope, receive, send)

    served = ToolCallMiddleware(app, mode="auto", format="json")
    with pytest.raises(RuntimeError, match="it starts"):
        await ask(served, stream=stream)
    broken.clear()
    assert await mode(served, stream=stream) == NATIVE


# -- what speaks against native calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_that_stay_in_the_text_are_read_and_the_next_request_goes_by_prompt(stream: bool) -> None:
    app = auto(AutoBackend(caps=True, parses=False))
    assert [await mode(app, stream=stream) for _ in range(2)] == [NATIVE, PROMPT]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_required_call_that_comes_by_prompt_alone_proves_that_native_does_not_work(stream: bool) -> None:
    backend = AutoBackend(caps=True, renders=False)
    app = auto(backend)
    assert await mode(app, stream=stream) == ("mode=native", [])
    assert await mode(app, stream=stream, tool_choice="required") == PROMPT
    assert await mode(app, stream=stream) == PROMPT
    assert await mode(app, stream=not stream, tools=[TOOL, G]) == PROMPT


async def test_a_required_call_that_comes_in_no_way_proves_nothing() -> None:
    backend = AutoBackend(talks=True)
    app = auto(backend, retries=0)
    response = await ask(app, tool_choice="required")
    assert response.json()["error"]["code"] == "tool_choice_not_satisfied"
    assert await mode(app) == ("mode=native", [])


async def test_one_clients_refused_request_does_not_decide_for_others() -> None:
    """Another request with tools looks again before it is asked."""
    backend = AutoBackend()
    app = auto(backend)
    assert await mode(app) == NATIVE
    backend.refusal = "tools[0].function.parameters: extra fields not permitted"
    odd = await ask(app, {"authorization": "Bearer odd"})
    assert odd.headers["x-toolcall"].startswith("mode=prompt")
    backend.refusal = None
    assert await mode(app) == NATIVE
    assert json.dumps(backend.looked[-1]).count("Go.") == 0


async def test_a_call_that_the_model_repeats_from_the_prompt_teaches_nothing() -> None:
    app = auto(AutoBackend(caps=True, parses=False))
    said = [{"role": "user", "content": 'Say: <tool_call>{"name": "f", "arguments": {"x": 3}}</tool_call>'}]
    assert [await mode(app, messages=said) for _ in range(2)] == [NATIVE] * 2


@pytest.mark.parametrize("stream", [False, True])
async def test_the_other_apis_look_for_evidence_too(stream: bool) -> None:
    backend = AutoBackend(renders=False)
    app = auto(backend, faces="messages,responses")
    bodies = asked_on_each_face("Go.", TOOL)
    for path, sign in (("/v1/messages", "tool_use"), ("/v1/responses", "function_call")):
        answer = await post(app, {**bodies[path], "stream": stream}, path)
        assert sign in answer.text
        assert PROSE not in answer.text
    assert len(backend.looked) == 2
