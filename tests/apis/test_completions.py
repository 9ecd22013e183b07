"""Text completions as chat completions: requests, whole answers, and streams cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.apis.completions import CompletionAnswer, completion_body, wanted_logprobs

HEAD = {"id": "cmpl-7", "object": "text_completion", "created": 1, "model": "m", "system_fingerprint": "f"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps({**HEAD, **fields}).encode() + b"\n\n"


def choice(text: str, index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish, **more}


STREAM = b"".join(
    [
        b": keep-alive\n\n",
        event(choices=[choice("a\u2028b")], usage=None),
        event(choices=[choice("é", 1, token_ids=[1])]),
        event(choices=[choice("", 0, "stop", stop_reason="x"), choice("🙂", 1, "length")]),
        event(choices=[], usage=USAGE),
        b'data: {"error": {"message": "late"}}\n\n',
        b"data: [DONE]\n\n",
    ]
)


def read(data: bytes) -> list[Any]:
    lines = [part[6:] for part in data.split(b"\n\n") if part.startswith(b"data: ")]
    return [line if line == b"[DONE]" else json.loads(line) for line in lines]


def test_a_stream_has_the_form_of_a_chats() -> None:
    answer = CompletionAnswer()
    out = answer.feed(STREAM) + answer.finish()
    assert out.startswith(b": keep-alive\n\n")
    one, two, three, usage, error, done = read(out)
    head = {
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "system_fingerprint": "f",
    }
    kept = {"logprobs": None, "finish_reason": None}
    delta = {"role": "assistant", "content": "a\u2028b"}
    assert one == {**head, "choices": [{"index": 0, "delta": delta, **kept}], "usage": None}
    assert two["choices"] == [{"index": 1, "delta": {"role": "assistant", "content": "é"}, **kept, "token_ids": [1]}]
    assert [(each["delta"], each["finish_reason"]) for each in three["choices"]] == [
        ({"content": ""}, "stop"),
        ({"content": "🙂"}, "length"),
    ]
    assert three["choices"][0]["stop_reason"] == "x"
    assert (usage["choices"], usage["usage"]) == ([], USAGE)
    assert (error, done) == ({"error": {"message": "late"}}, b"[DONE]")


def test_a_stream_may_be_cut_anywhere() -> None:
    whole = CompletionAnswer()
    wanted = whole.feed(STREAM) + whole.finish()
    for cut in range(len(STREAM)):
        answer = CompletionAnswer()
        assert answer.feed(STREAM[:cut]) + answer.feed(STREAM[cut:]) + answer.finish() == wanted
    answer = CompletionAnswer()
    assert b"".join(answer.feed(bytes([byte])) for byte in STREAM) + answer.finish() == wanted


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"no JSON",
        b'{"error": "x"}',
        b'{"choices": 1}',
        b'{"choices": []}',
        b'{"choices": [{"message": {}}]}',
    ],
)
def test_what_is_no_text_completion_stays(data: bytes) -> None:
    assert CompletionAnswer().whole(data) == data


@pytest.mark.parametrize("data", [b"data: no JSON\n\n", b"data: {}\n\n", b"data: [1]\n\n", b'data: {"choices": 5}\n\n'])
def test_events_that_are_none_stay(data: bytes) -> None:
    assert CompletionAnswer().feed(data) == data


def test_odd_values_do_no_harm() -> None:
    answer = CompletionAnswer(top=1)
    [value] = read(answer.feed(event(choices=[{"text": None}, {"text": 5, "index": "x"}, choice("a", logprobs={})])))
    assert value["choices"][0]["delta"]["content"] is None
    odd = {"tokens": ["a", 7], "token_logprobs": [float("nan")], "top_logprobs": "x"}
    body = json.dumps({**HEAD, "choices": [choice("a", logprobs=odd)]}).encode()
    logprobs = json.loads(CompletionAnswer(top=2).whole(body))["choices"][0]["logprobs"]
    assert [(entry["token"], entry["logprob"]) for entry in logprobs["content"]] == [("a", None), ("7", None)]


def test_logprobs_that_nobody_asked_for_do_not_leave() -> None:
    body = json.dumps({**HEAD, "choices": [choice("a", logprobs={"tokens": ["a"]})]}).encode()
    assert json.loads(CompletionAnswer().whole(body))["choices"][0]["logprobs"] is None


def test_an_unfinished_event_is_bounded() -> None:
    answer = CompletionAnswer(limit=100)
    assert answer.feed(b"data: " + b"x" * 200) == b"data: " + b"x" * 200


def test_the_request_keeps_what_both_apis_have_to_the_byte() -> None:
    body = (
        b'{"model":"m","messages":[],"temperature":1.50,"tools":[],"x_own":{"a": 1e3},"top_logprobs":3,"logprobs":true}'
    )
    out = completion_body(body, 'He said "hi"\n')
    assert b'"temperature":1.50' in out
    assert b'"x_own":{"a": 1e3}' in out
    assert json.loads(out) == {
        "model": "m", "prompt": 'He said "hi"\n', "temperature": 1.5, "x_own": {"a": 1000.0},
        "max_tokens": None, "logprobs": 3, "add_special_tokens": False,
    }  # fmt: skip
    assert wanted_logprobs(body) == 3
    assert wanted_logprobs(b'{"logprobs":true}') == 0
    assert wanted_logprobs(b'{"top_logprobs":4}') is None


@pytest.mark.parametrize(
    ("wanted", "schema"),
    [
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": 1}}}, {"const": 1}),
        ({"type": "json_object", "schema": {"const": 1}}, {"const": 1}),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "text"}, None),
    ],
)
def test_a_schema_is_called_json_schema_for_llama_cpp(wanted: dict[str, Any], schema: Any) -> None:
    body = json.dumps({"messages": [], "response_format": wanted}).encode()
    made = json.loads(completion_body(body, "", llama_cpp=True))
    assert made.get("json_schema") == schema
    assert ("response_format" in made) == (schema is None)


def test_any_other_backend_gets_the_response_format_of_openais_api() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": 1}}}
    made = json.loads(completion_body(json.dumps({"messages": [], "response_format": wanted}).encode(), ""))
    assert made["response_format"] == wanted
    assert "json_schema" not in made


def test_stops_are_added_to_the_clients_own() -> None:
    assert json.loads(completion_body(b'{"messages":[],"stop":"a"}', "", stop=["b", "a"]))["stop"] == ["a", "b"]
    assert "stop" not in json.loads(completion_body(b'{"messages":[]}', ""))


def test_chunks_like_earlier_ones_are_rewritten_the_same() -> None:
    texts = ["a", 'q"\\', "\n\n", "", '"text":"x"', "\u2028é🙂", "a", "data: {", "content", "end"]
    events = [event(choices=[choice(text, index)], usage=None) for text in texts for index in (0, 1)]
    events += [event(choices=[choice(text, logprobs={"text": text})]) for text in texts]
    events += [event(choices=[choice("x", finish="stop")]), event(choices=[choice("y")], usage=None)]
    at_once, one_by_one = CompletionAnswer(), CompletionAnswer()
    wanted = read(at_once.feed(b"".join(events)))
    assert read(b"".join(map(one_by_one.feed, events))) == wanted
    said = ["".join(e["choices"][0]["delta"]["content"] for e in wanted[: 2 * len(texts)][i::2]) for i in (0, 1)]
    assert said == ["".join(texts)] * 2


def test_two_events_in_one_read_are_two() -> None:
    answer = CompletionAnswer()
    events = [event(choices=[choice(text)]) for text in "abcdef"]
    out = b"".join(map(answer.feed, events[:3])) + answer.feed(b"".join(events[3:5])) + answer.feed(events[5])
    assert [value["choices"][0]["delta"]["content"] for value in read(out)] == list("abcdef")


def test_another_field_named_text_is_none_of_the_answers() -> None:
    answer = CompletionAnswer()
    odd = [{"extra": {"text": text}, **choice("same")} for text in ("same", "same", "same", "else")]
    values = read(b"".join(answer.feed(event(choices=[each])) for each in odd))
    assert [value["choices"][0]["delta"]["content"] for value in values] == ["same"] * 4
    assert values[3]["choices"][0]["extra"] == {"text": "else"}
