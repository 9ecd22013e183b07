"""openai-python, the client that most others stand on: plain, with its stream helper, sync and async."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import obedient_model, write_calls
from tests.helpers.stream_rules import same_answer

from .common import ARGUMENTS, CALL, MODEL, QUESTION, SCHEMA, SYSTEM, TOOL, Lookup, need
from .openai_client import ASK, PROSE, TOOLS, client_of, raw_stream, raw_whole

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletionMessageFunctionToolCall

    from .conftest import Gateway, OpenGateway
else:
    openai = need("openai")

STRICT_TOOL: Any = {
    "type": "function",
    "function": {**TOOL["function"], "strict": True, "parameters": {**SCHEMA, "additionalProperties": False}},
}


def function_calls(message: Any) -> list[ChatCompletionMessageFunctionToolCall]:
    calls = message.tool_calls or []
    assert all(call.type == "function" for call in calls)
    return list(calls)


@pytest.mark.parametrize("prose", ["", PROSE, "I will look it up: "])
def test_stream_and_whole_answer_carry_the_same_call(
    open_gateway: OpenGateway, format_name: str, prose: str, *, in_pieces: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=prose), format=format_name)
    streamed, whole = raw_stream(gateway), raw_whole(gateway)
    same_answer(streamed, whole)
    assert (whole.only.content or "").strip() == prose.strip()
    assert [call.parsed for call in streamed.only.calls] == [ARGUMENTS]
    # The model writes its arguments in many pieces, and the client gets them so.
    assert len(streamed.only.calls[0].fragments) > (3 if in_pieces else 0)


def test_plain_stream_adds_up_to_the_call(open_gateway: OpenGateway, format_name: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=PROSE), format=format_name)
    chunks = list(client_of(gateway).chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, stream=True))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    fragments = [call for delta in deltas for call in delta.tool_calls or []]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas).strip() == PROSE.strip()
    assert {fragment.index for fragment in fragments} == {0}
    assert [fragment.id for fragment in fragments if fragment.id] == [fragments[0].id]
    functions = [fragment.function for fragment in fragments if fragment.function]
    assert [function.name for function in functions if function.name] == ["lookup_code"]
    assert json.loads("".join(function.arguments or "" for function in functions)) == ARGUMENTS
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_stream_helper_tells_each_step_of_the_call(open_gateway: OpenGateway, format_name: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, CALL, prose=PROSE), format=format_name)
    done: list[Any] = []
    partial = ["", ""]
    with client_of(gateway).chat.completions.stream(model=MODEL, messages=ASK, tools=TOOLS) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.delta":
                partial[event.index] += event.arguments_delta
            elif event.type == "tool_calls.function.arguments.done":
                done.append((event.index, event.name, json.loads(event.arguments)))
        message = stream.get_final_completion().choices[0].message
    assert done == [(0, "lookup_code", ARGUMENTS), (1, "lookup_code", ARGUMENTS)]
    assert [json.loads(text) for text in partial] == [ARGUMENTS, ARGUMENTS]
    assert (message.content or "").strip() == PROSE.strip()
    assert [json.loads(call.function.arguments) for call in function_calls(message)] == [ARGUMENTS, ARGUMENTS]


def test_stream_helper_parses_strict_tools(open_gateway: OpenGateway, format_name: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name)
    with client_of(gateway).chat.completions.stream(model=MODEL, messages=ASK, tools=[STRICT_TOOL]) as stream:
        message = stream.get_final_completion().choices[0].message
    assert [call.function.parsed_arguments for call in message.tool_calls or []] == [ARGUMENTS]


async def _async_answers(gateway: Gateway) -> tuple[Any, Any]:
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key="unused", max_retries=0) as client:
        whole = await client.chat.completions.create(model=MODEL, messages=ASK, tools=[STRICT_TOOL])
        async with client.chat.completions.stream(model=MODEL, messages=ASK, tools=[STRICT_TOOL]) as stream:
            streamed = await stream.get_final_completion()
    return whole, streamed


@pytest.mark.asyncio
async def test_async_client_gets_the_call_streamed_and_whole(open_gateway: OpenGateway, format_name: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name)
    for answer in await _async_answers(gateway):
        (call,) = function_calls(answer.choices[0].message)
        assert (call.function.name, json.loads(call.function.arguments)) == CALL
        assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
def test_two_turns_end_in_an_answer_made_from_the_result(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=PROSE), format=format_name)
    client, messages = client_of(gateway), list(ASK)
    for _turn in range(2):
        if stream:
            with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS) as events:
                message: Any = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
        messages.append(message)
        for call in function_calls(message):
            result = lookup.run_json(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert lookup.calls == [ARGUMENTS]
    assert message.content == f"The code is {lookup.code}."
    first, second = gateway.backend.seen
    # The backend is strict: it would have refused tools, tool messages, calls, null content and unknown fields.
    assert [one["role"] for one in first.messages] == ["system", "user"]
    assert [one["role"] for one in second.messages] == ["system", "user", "assistant", "user"]
    system, question, called, result = (one["content"] for one in second.messages)
    assert SYSTEM in system
    assert "lookup_code" in system + question
    assert "Look up the code of a city." in system + question
    assert question.startswith(QUESTION)
    assert called.startswith(PROSE.strip())
    assert "lookup_code" in called
    assert "Paris" in called
    assert ("<tool_call>" in called) == (format_name == "hermes")
    assert ('"tool_calls"' in called) == (format_name == "json")
    assert f"code {lookup.code} for day 3" in result
    # What a prefix cache needs: the second turn begins with the whole first turn.
    assert second.messages[:2] == first.messages


def test_raw_response_says_how_it_was_made(open_gateway: OpenGateway, format_name: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name)
    completions = client_of(gateway).chat.completions.with_raw_response
    whole = completions.create(model=MODEL, messages=ASK, tools=TOOLS)
    said = [part.strip() for part in whole.headers["x-toolcall"].split(";")]
    assert said[:2] == ["mode=prompt", f"format={format_name}"]
    assert said[2:] in (["calls=1"], ["calls=lookup_code"])
    assert int(whole.headers["content-length"]) == len(whole.content)
    streamed = completions.create(model=MODEL, messages=ASK, tools=TOOLS, stream=True)
    assert "content-length" not in streamed.headers
    assert "calls=" not in streamed.headers["x-toolcall"]
    assert streamed.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("backend_counts", [True, False])
def test_usage_comes_when_asked_for_and_only_then(
    open_gateway: OpenGateway, format_name: str, *, backend_counts: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name, usage=backend_counts)
    asked = raw_stream(gateway, stream_options={"include_usage": True}, expected={"include_usage": True})
    raw_stream(gateway)
    raw_stream(gateway, stream_options={"include_usage": False})
    whole = raw_whole(gateway)
    assert asked.usage is not None
    assert whole.usage is not None
    assert asked.usage["prompt_tokens"] > 0
    assert asked.usage["completion_tokens"] > 0
    assert asked.usage["completion_tokens"] == whole.usage["completion_tokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_required_and_named_give_a_call(open_gateway: OpenGateway, format_name: str, *, stream: bool) -> None:
    ask = raw_stream if stream else raw_whole
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name)
    named = {"type": "function", "function": {"name": "lookup_code"}}
    for choice in ("required", named):
        answer = ask(gateway, tool_choice=choice, expected={"must_call": True})
        assert [call.parsed for call in answer.only.calls] == [ARGUMENTS]


@pytest.mark.parametrize("stream", [False, True])
def test_required_is_tried_again_when_the_model_only_talks(
    open_gateway: OpenGateway, format_name: str, *, stream: bool
) -> None:
    ask = raw_stream if stream else raw_whole
    script = ["I would rather talk about the weather.", write_calls(format_name, CALL)]
    gateway = open_gateway(script, format=format_name, retries=1)
    answer = ask(gateway, tool_choice="required", expected={"must_call": True})
    assert [call.parsed for call in answer.only.calls] == [ARGUMENTS]
    assert not (answer.only.content or "").strip(), "what the first try said is not part of the answer"
    assert len(gateway.backend.seen) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_required_that_fails_is_an_error_which_the_sdk_does_not_retry(
    open_gateway: OpenGateway, format_name: str, *, stream: bool
) -> None:
    gateway = open_gateway(lambda _body: "I would rather talk.", format=format_name, retries=1)
    client = client_of(gateway, max_retries=3)
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, tool_choice="required", stream=stream)
    assert caught.value.code == "tool_choice_not_satisfied"
    assert caught.value.type == "model_error"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(gateway.backend.seen) == 2


def test_backend_that_knows_no_response_format_still_serves_required(
    open_gateway: OpenGateway, format_name: str
) -> None:
    gateway = open_gateway(
        obedient_model(format_name, CALL),
        format=format_name,
        refused_fields=["response_format", "structured_outputs", "grammar"],
    )
    for ask in (raw_stream, raw_whole):
        answer = ask(gateway, tool_choice="required", expected={"must_call": True})
        assert [call.parsed for call in answer.only.calls] == [ARGUMENTS]


@pytest.mark.parametrize("stream", [False, True])
def test_parallel_calls_come_in_order_or_alone(open_gateway: OpenGateway, format_name: str, *, stream: bool) -> None:
    ask = raw_stream if stream else raw_whole
    calls = (CALL, ("send_mail", "{}"), ("lookup_code", {"city": "Köln \N{SNOWMAN}", "days": 1}))
    gateway = open_gateway(obedient_model(format_name, *calls, prose=PROSE), format=format_name)
    several = ask(gateway)
    assert [(call.name, call.parsed) for call in several.only.calls] == [
        CALL,
        ("send_mail", {}),
        ("lookup_code", {"city": "Köln \N{SNOWMAN}", "days": 1}),
    ]
    one = ask(gateway, parallel_tool_calls=False, expected={"parallel": False})
    assert [(call.name, call.parsed) for call in one.only.calls] == [CALL]


def test_choices_do_not_mix(open_gateway: OpenGateway, format_name: str) -> None:
    text = "There is nothing to look up."
    choices = [write_calls(format_name, CALL, ("send_mail", {})), text]
    gateway = open_gateway(lambda _body: choices, format=format_name)
    streamed = raw_stream(gateway, n=2, expected={"n": 2})
    whole = raw_whole(gateway, n=2, expected={"n": 2})
    same_answer(streamed, whole)
    assert [call.name for call in whole.choices[0].calls] == ["lookup_code", "send_mail"]
    assert (whole.choices[1].content, whole.choices[1].finish_reason) == (text, "stop")
    with client_of(gateway).chat.completions.stream(model=MODEL, messages=ASK, tools=TOOLS, n=2) as stream:
        helped = stream.get_final_completion()
    assert [choice.finish_reason for choice in helped.choices] == ["tool_calls", "stop"]


def test_choice_none_parses_nothing(open_gateway: OpenGateway, format_name: str) -> None:
    text = write_calls(format_name, CALL)
    gateway = open_gateway(lambda _body: text, format=format_name)
    for ask in (raw_stream, raw_whole):
        answer = ask(gateway, tool_choice="none")
        assert (answer.only.content, answer.only.calls, answer.only.finish_reason) == (text, [], "stop")


def test_request_without_tools_keeps_text_that_looks_like_a_call(open_gateway: OpenGateway, format_name: str) -> None:
    text = write_calls(format_name, CALL)
    gateway = open_gateway(lambda _body: text, format=format_name)
    client = client_of(gateway)
    answer = client.chat.completions.create(model=MODEL, messages=ASK)
    assert answer.choices[0].message.content == text
    assert gateway.backend.bodies[0] == {"model": MODEL, "messages": ASK}
    assert [model.id for model in client.models.list()] == ["fake-model"]


def test_deprecated_functions_get_a_function_call(open_gateway: OpenGateway, format_name: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name)
    request: Any = {"tools": openai.omit, "functions": [TOOL["function"]]}
    streamed = raw_stream(gateway, **request, expected={"legacy": True})
    whole = raw_whole(gateway, **request, expected={"legacy": True})
    same_answer(streamed, whole)
    assert [call.parsed for call in whole.only.calls] == [ARGUMENTS]
