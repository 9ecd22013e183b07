"""What goes wrong (the request, the backend, the client that leaves), as openai-python sees it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import Quirks, Refusal, obedient_model, write_calls
from tests.helpers.stream_rules import check_error

from .common import ARGUMENTS, CALL, MODEL, TOOL, need
from .openai_client import ASK, TOOLS, client_of, raw_stream, raw_whole

if TYPE_CHECKING:
    import openai

    from tests.helpers.fakes import Seen

    from .conftest import OpenGateway
else:
    openai = need("openai")

CALLED: Any = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "lookup_code", "arguments": "{}"}}],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("request_fields", "code", "param"),
    [
        ({"tools": [TOOL, {"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]},
         "invalid_tool_schema", "tools[1].function.parameters"),
        ({"tools": [TOOL, TOOL]}, "invalid_tool_schema", "tools[1].function.name"),
        ({"tool_choice": {"type": "function", "function": {"name": "nope"}}}, "invalid_tool_choice", "tool_choice"),
        ({"messages": [*ASK, {"role": "tool", "tool_call_id": "call_x", "content": "?"}]},
         "invalid_message_order", "messages[2]"),
        ({"messages": [*ASK, CALLED, {"role": "tool", "tool_call_id": "call_x", "content": "?"}]},
         "invalid_tool_call_id", "messages[3].tool_call_id"),
        ({"temperature": -1}, "invalid_request", "temperature"),
    ],
)  # fmt: skip
def test_errors_have_code_param_and_type(
    open_gateway: OpenGateway, request_fields: dict[str, Any], code: str, param: str, *, stream: bool
) -> None:
    gateway = open_gateway([])
    request: Any = {"model": MODEL, "messages": ASK, "tools": TOOLS, **request_fields, "stream": stream}
    with pytest.raises(openai.BadRequestError) as caught:
        client_of(gateway).chat.completions.create(**request)
    error = caught.value
    assert (error.status_code, error.code, error.type) == (400, code, "invalid_request_error")
    assert error.param is not None
    assert error.param.startswith(param)
    assert isinstance(error.body, dict)
    assert error.body["message"]
    assert gateway.backend.seen == []


VLLM_ERROR: Any = {"message": "context is too long", "type": "BadRequestError", "param": None, "code": 400}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"object": "error", **VLLM_ERROR}, "BadRequestError"),
        ({"error": VLLM_ERROR}, "BadRequestError"),
        ({"detail": "context is too long"}, "invalid_request_error"),
        ({"error": "context is too long"}, "invalid_request_error"),
        (b"context is too long", "invalid_request_error"),
    ],
)
def test_errors_of_the_backend_keep_status_and_text(
    open_gateway: OpenGateway, body: Any, kind: str, *, stream: bool
) -> None:
    gateway = open_gateway(lambda _body: Refusal(413, body))
    with pytest.raises(openai.APIStatusError) as caught:
        client_of(gateway).chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, stream=stream)
    assert caught.value.status_code == 413
    assert check_error(caught.value.response.read())["message"] == "context is too long"
    assert caught.value.type == kind


TOO_LONG = "This model's maximum context length is 9 tokens. However, your request has 12 input tokens."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("message", "code", "told"),
    [
        (TOO_LONG, 400, "context_length_exceeded"),
        (TOO_LONG, None, "context_length_exceeded"),
        (TOO_LONG, "own", "own"),
        ("The adapter is not loaded.", 400, 400),
    ],
)
def test_a_prompt_that_is_too_long_has_the_code_that_clients_know(
    open_gateway: OpenGateway, message: str, code: Any, told: Any, *, stream: bool
) -> None:
    # What can shorten a conversation by itself (LangChain, DSPy) looks for it.
    error = {"message": message, "type": "BadRequestError", "param": None, "code": code}
    gateway = open_gateway(lambda _body: Refusal(400, {"error": error}))
    with pytest.raises(openai.BadRequestError) as caught:
        client_of(gateway).chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, stream=stream)
    assert caught.value.body == {**error, "code": told}


def test_error_inside_a_stream_reaches_the_caller(open_gateway: OpenGateway, format_name: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name, quirks=Quirks(error_after=3))
    raw_stream(gateway, expected={"error": True})
    with pytest.raises(openai.APIError, match="engine died"):
        list(client_of(gateway).chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, stream=True))


@pytest.mark.parametrize("stream", [False, True])
def test_stop_string_of_the_client_ends_text_but_not_the_duty_to_call(
    open_gateway: OpenGateway, format_name: str, *, stream: bool
) -> None:
    script = ["Thinking. Observation: none.", write_calls(format_name, CALL)]
    gateway = open_gateway(script, format=format_name, retries=1)
    ask = raw_stream if stream else raw_whole
    answer = ask(gateway, tool_choice="required", stop=["Observation:"], expected={"must_call": True})
    assert [call.parsed for call in answer.only.calls] == [ARGUMENTS]
    text = ask(open_gateway(["One. Observation: two."], format=format_name), stop=["Observation:"])
    assert (text.only.content, text.only.finish_reason) == ("One. ", "stop")


def stopped_early(seen: Seen, within: float = 5.0) -> bool:
    """Whether the backend was told to stop: its stream has not ended, and no longer moves."""
    deadline, before = time.monotonic() + within, -1
    while time.monotonic() < deadline:
        if seen.finished:
            return False
        if seen.events_sent == before:
            return True
        before = seen.events_sent
        time.sleep(0.1)
    return False


def test_generation_stops_after_the_one_call_that_may_be_made(open_gateway: OpenGateway, format_name: str) -> None:
    text = write_calls(format_name, CALL) + "\nAnd so on." * 20_000
    gateway = open_gateway(lambda _body: text, format=format_name, pause=0)
    started = time.monotonic()
    answer = raw_stream(gateway, parallel_tool_calls=False, expected={"parallel": False})
    assert [call.parsed for call in answer.only.calls] == [ARGUMENTS]
    assert time.monotonic() - started < 5
    assert stopped_early(gateway.backend.last)


@pytest.mark.parametrize("text", ["And so on. ", "call"])
def test_generation_stops_when_the_client_leaves(open_gateway: OpenGateway, format_name: str, text: str) -> None:
    endless = write_calls(format_name, ("lookup_code", {"city": "x" * 250_000, "days": 1}))
    answer = endless if text == "call" else text * 20_000
    gateway = open_gateway(lambda _body: answer, format=format_name, pause=0)
    with client_of(gateway).chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, stream=True) as stream:
        for _ in range(20):
            assert next(stream).choices
    assert stopped_early(gateway.backend.last)
