"""OpenAI's own client on the face of Responses, in front of a text model, through each host."""

from __future__ import annotations

import secrets
from typing import Any

import httpx
import openai
import pydantic
import pytest
from openai.types.responses import ResponseFunctionToolCall

from tests.apis.faces.conftest import Open
from tests.helpers.fakes import Quirks, obedient_model, write_calls

CALL = ("lookup_code", {"city": "Paris"})
TOOL: Any = {
    "type": "function",
    "name": "lookup_code",
    "description": "Look up the code of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
HI = "What is the code of Paris?"


def asked(**fields: Any) -> Any:
    return {"model": "fake-model", "input": HI, "tools": [TOOL], **fields}


def test_a_whole_answer_is_a_response(open_host: Open) -> None:
    served = open_host([write_calls("hermes", CALL)], format="hermes")
    answer = served.openai().responses.with_raw_response.create(**asked())
    response = answer.parse()
    (item,) = response.output
    assert isinstance(item, ResponseFunctionToolCall)
    assert (item.name, item.arguments, response.status) == ("lookup_code", '{"city": "Paris"}', "completed")
    assert response.usage is not None
    assert response.usage.input_tokens > 0
    assert answer.headers["x-toolcall"].startswith("api=responses; mode=prompt; format=hermes; calls=1")
    assert served.backend.last.path == "/v1/chat/completions"


@pytest.mark.parametrize("tools", [[TOOL], []])
def test_a_stream_is_read_by_the_sdk(open_host: Open, tools: list[Any]) -> None:
    text = "It is " + "a long story. " * 20
    served = open_host([text], format="hermes")
    with served.openai().responses.stream(**asked(tools=tools)) as stream:
        events = list(stream)
        response = stream.get_final_response()
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(deltas) > 10
    assert "".join(deltas) == text == response.output_text
    assert response.usage is not None
    assert response.usage.output_tokens > 10


def test_the_loop_of_tools_ends_with_the_result(open_host: Open) -> None:
    served = open_host(obedient_model("hermes", CALL, prose="Let me see. "), format="hermes")
    client = served.openai()
    with client.responses.stream(**asked()) as stream:
        first = stream.get_final_response()
    call = first.output[-1]
    assert isinstance(call, ResponseFunctionToolCall)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "code TOOLMARK-0123ab"}
    history = [{"role": "user", "content": HI}, *(item.to_dict() for item in first.output), result]
    last = client.responses.create(**asked(input=history))
    assert last.output_text == "The code is TOOLMARK-0123ab."


def test_parsed_output_is_asked_for(open_host: Open) -> None:
    class Code(pydantic.BaseModel):
        code: int

    served = open_host(['{"code": 7}'], format="hermes")
    response = served.openai().responses.parse(model="fake-model", input=HI, text_format=Code)
    assert response.output_parsed == Code(code=7)
    assert served.backend.last.body["response_format"]["type"] == "json_schema"


def test_a_request_without_tools_is_counted_and_its_thoughts_are_apart(open_host: Open) -> None:
    served = open_host(["<think>Hm.</think>It is 7."], backend={"usage": False}, format="hermes")
    response = served.openai().responses.create(**asked(tools=[]))
    assert response.output_text == "It is 7."
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.usage is not None
    assert response.usage.input_tokens > 0
    assert response.usage.output_tokens > 0


def test_the_allowlist_is_kept_on_this_face(open_host: Open) -> None:
    served = open_host([], allowlist="other", allowlist_mode="enforce")
    with pytest.raises(openai.PermissionDeniedError) as caught:
        served.openai().responses.create(**asked())
    assert caught.value.code == "tool_not_allowed"
    assert caught.value.response.headers["x-toolcall"] == "api=responses"
    assert caught.value.response.headers["x-toolcall-error"] == "tool_not_allowed"
    assert not served.backend.seen


def test_a_rate_is_kept_on_this_face(open_host: Open) -> None:
    served = open_host(lambda _: write_calls("hermes", CALL), format="hermes", rate_limit="1/hour")
    client = served.openai(api_key=secrets.token_hex(8))
    client.responses.create(**asked())
    with pytest.raises(openai.RateLimitError):
        client.responses.create(**asked())


def test_an_error_in_the_stream_fails_the_response(open_host: Open) -> None:
    served = open_host(["It is a long story."], backend={"quirks": Quirks(error_after=3)})
    events = list(served.openai().responses.create(**asked(stream=True)))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error is not None
    assert "engine died" in events[-1].response.error.message


def test_other_bodies_on_this_path_are_the_app_s(open_host: Open, host: str) -> None:
    served = open_host([])
    answer = httpx.post(f"{served.url}/v1/responses", json={"prompt": "hi"})
    assert answer.status_code == (404 if host == "app" else 400)
