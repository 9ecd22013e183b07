"""What commands know of Messages and Responses: good answers have no fault, each deviation is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apis.fed import Fed, MessagesFace, ResponsesFace
from toolcall_middleware.cli import main
from toolcall_middleware.cli.faces.answers import Received, api_of, read_answer
from toolcall_middleware.cli.faces.requests import face_of, request_body

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "description": "F.", "parameters": {"type": "object", "properties": {"x": {}}}},
}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "One moment.", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
    ]},
    {"role": "tool", "tool_call_id": "call_1", "content": "2"},
]  # fmt: skip
FACES = {"messages": MessagesFace, "responses": ResponsesFace}
APIS = sorted(FACES)


def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n"


def call(index: int, arguments: str) -> list[dict[str, Any]]:
    begin = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": "f", "arguments": ""}}
    pieces = [arguments[at : at + 3] for at in range(0, len(arguments), 3)]
    return [{"tool_calls": [begin]}] + [
        {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces
    ]


USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
DELTAS = [{"reasoning": "Hm. "}, {"content": "Ok. "}, {"content": "Now."}, *call(0, '{"x": 1}'), *call(1, "{}")]
CHAT = b"".join([*map(chunk, DELTAS), chunk({}, "tool_calls"), chunk({}, usage=USAGE), b"data: [DONE]\n\n"])


def asked(api: str, **fields: Any) -> Fed:
    face: Fed = FACES[api]()
    body = request_body(api, {"model": "m", "messages": HISTORY, "tools": [TOOL], **fields})
    if api == "messages":
        body["thinking"] = {"type": "adaptive"}
    face.request(json.dumps(body).encode())
    return face


def streamed(api: str) -> bytes:
    face = asked(api, stream=True)
    return face.feed(CHAT) + face.finish(cut=False)


def whole(api: str) -> bytes:
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": "f", "arguments": text}}
        for at, text in enumerate(('{"x": 1}', "{}"))
    ]
    message = {"role": "assistant", "content": "Ok. Now.", "reasoning": "Hm. ", "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return asked(api).whole(200, {}, json.dumps({**head, "choices": [choice], "usage": USAGE}).encode()).body


def same(answer: Received) -> tuple[Any, ...]:
    calls = [(one.name, one.arguments.replace(" ", "")) for one in answer.calls]
    return answer.text, answer.reasoning, calls, answer.finish_reason, answer.usage, answer.error


@pytest.mark.parametrize("api", APIS)
def test_a_good_answer_is_read_without_a_fault(api: str) -> None:
    for data in (streamed(api), whole(api)):
        assert api_of(data) == api
        answer = read_answer(api, data)
        assert answer.faults == []
        assert same(answer) == ("Ok. Now.", "Hm. ", [("f", '{"x":1}'), ("f", "{}")], "tool_calls", USAGE, None)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("old", "new", "area"),
    [
        (b'"output_tokens":', b'"tokens_of_output":', "usage"),
        (b'"call_id":"call_1"', b'"call_id":"call_0"', "calls"),
        (b'"stop_reason":"tool_use"', b'"stop_reason":"end_turn"', "ending"),
        (b'"status":"completed","', b'"status":"done","', "ending"),
        (b'"delta":"{\\"x', b'"delta":"{\\"y', "form"),
    ],
)
def test_a_fault_is_filed_under_what_it_spoils(api: str, old: bytes, new: bytes, area: str) -> None:
    data = streamed(api)
    if old in data:
        assert area in {fault.area for fault in read_answer(api, data.replace(old, new)).faults}


def test_an_output_at_the_end_that_is_not_what_the_items_were_is_a_fault() -> None:
    head, event, end = streamed("responses").rpartition(b"event: response.completed")
    assert read_answer("responses", head + event + end.replace(b"Ok. Now.", b"Ok.")).faults


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_ends_inside_an_event_is_at_fault(api: str) -> None:
    first, *_ = read_answer(api, streamed(api)[:-1]).faults
    assert first.text == "the stream ends inside an event"


@pytest.mark.parametrize(
    "data", [b"", b"text", b"{}", CHAT, b'{"choices": []}', b'{"error": {"message": "no"}}', b"\xff"]
)
def test_what_is_of_neither_api_is_told_so(data: bytes) -> None:
    assert api_of(data) is None
    for api in APIS:
        read = read_answer(api, data)
        assert read.faults or read.error


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_replay_reads_recorded_answers(
    api: str, tmp_path: Any, capsys: pytest.CaptureFixture[str], *, stream: bool
) -> None:
    file, request = tmp_path / "answer", tmp_path / "request.json"
    file.write_bytes(streamed(api) if stream else whole(api))
    request.write_text(json.dumps(request_body(api, {"model": "m", "messages": HISTORY, "tools": [TOOL]})))
    assert main(["replay", str(file), "--tools", str(request), "--json"]) == 0
    (choice,) = json.loads(capsys.readouterr().out)
    assert [(one["name"], json.loads(one["arguments"])) for one in choice["tool_calls"]] == [("f", {"x": 1}), ("f", {})]
    assert (choice["content"], choice["reasoning"], choice["finish_reason"]) == ("Ok. Now.", "Hm. ", "tool_calls")


@pytest.mark.parametrize("api", APIS)
def test_replay_says_what_error_came(api: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    face = asked(api, stream=True)
    file = tmp_path / "answer"
    file.write_bytes(face.feed(b'data: {"error": {"message": "it is broken", "code": 500}}\n\n'))
    assert main(["replay", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["error"] == "it is broken"


@pytest.mark.parametrize(
    ("choice", "messages", "responses"),
    [
        ("required", {"type": "any"}, "required"),
        ("none", {"type": "none"}, "none"),
        (
            {"type": "function", "function": {"name": "f"}},
            {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
            {"type": "function", "name": "f"},
        ),
    ],
)
def test_questions_ask_the_same_in_each_api(choice: Any, messages: Any, responses: Any) -> None:
    chat = {"model": "m", "messages": HISTORY, "tools": [TOOL], "tool_choice": choice, "max_tokens": 9}
    assert request_body("messages", chat)["tool_choice"] == messages
    assert request_body("responses", chat)["tool_choice"] == responses
    assert request_body("chat", chat) == chat
    for api in APIS:
        made = json.loads(FACES[api]().request(json.dumps(request_body(api, chat)).encode()).body)
        assert made["tool_choice"] == choice
        assert made["messages"][0] == HISTORY[0]
        assert made["messages"][-1]["content"] == "2"


@pytest.mark.parametrize(
    ("body", "api"),
    [
        ({"messages": []}, None),
        ({"messages": [], "input": "hi"}, None),
        ({"input": "hi"}, "responses"),
        ({"messages": [], "system": "Be brief."}, "messages"),
        ({"messages": [], "tools": [5, {"name": "f", "input_schema": {}}]}, "messages"),
        ({"messages": [], "tools": 5}, None),
        ([], None),
    ],
)
def test_a_request_is_told_by_its_fields(body: Any, api: str | None) -> None:
    face = face_of(body)
    assert (face and face.api) == api


HOSTILE: list[Any] = [None, True, -1, 1e400, "", "x\x1b[2J\ud83d", [], [[]], {}, {"type": []}]


def spoiled(value: Any) -> Iterator[Any]:
    """`value` with each of its parts in turn replaced by each of HOSTILE."""
    yield from HOSTILE
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        for other in spoiled(part):
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[name] = other
            yield copy


@pytest.mark.parametrize("api", ["chat", *APIS])
def test_no_value_of_another_type_is_an_error_of_the_reader(api: str) -> None:
    """A backend may write anything in any place. What a client gets of it is text, and what is wrong is a fault."""
    stream = CHAT if api == "chat" else streamed(api)
    events = stream.split(b"\n\n")[:-1]
    answers = [json.dumps(one).encode() for one in spoiled(json.loads(whole(api)))] if api != "chat" else []
    for place, event in enumerate(events):
        head, data, text = event.rpartition(b"data: ")
        for one in spoiled(json.loads(text)) if text != b"[DONE]" else ():
            spoiled_event = head + data + json.dumps(one).encode()
            answers.append(b"\n\n".join([*events[:place], spoiled_event, *events[place + 1 :], b""]))
    for answer in answers:
        assert api_of(answer) in {None, *APIS}
        read = read_answer(api, answer)
        assert isinstance(read.finish_reason, str | None)
        assert all(isinstance(text, str) for call in read.calls for text in (call.id, call.name, call.arguments))
        read.same_answer()
    assert len(answers) > 1000
