"""Engines that take a family's calls out of the text themselves: gpt-oss is asked for `json`, others once it shows."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.helpers.driven import Driven
from toolcall_middleware.formats import registry
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import DOUBTFUL_SECONDS, REMEMBERED_SECONDS, BackendMemory

from ..response.streams import HEAD, chunk, stream

MODEL = "Qwen/Qwen3-8B"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
JSON = [(b"content-type", b"application/json")]
STREAM = [(b"content-type", b"text/event-stream")]
CALL = '```json\n{"tool_calls": [{"name": "f", "arguments": {}}]}\n```'


def request(model: str = MODEL, **more: Any) -> bytes:
    body = {"model": model, "messages": [{"role": "user", "content": "Go."}], "tools": [TOOL], **more}
    return json.dumps(body).encode()


def answer(
    text: str | None = None, *, tokens: int = 30, reasoning: str = "", reason: str = "stop", **details: int
) -> bytes:
    message = {"role": "assistant", "content": text, **({"reasoning_content": reasoning} if reasoning else {})}
    usage = {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens}
    if details:
        usage["completion_tokens_details"] = details  # type: ignore[assignment]
    choice = {"index": 0, "message": message, "finish_reason": reason}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**head, "choices": [choice], "usage": usage}).encode()


def streamed(*deltas: dict[str, Any], tokens: int = 30) -> bytes:
    usage = {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens}
    return stream(*map(chunk, deltas), chunk({}, "stop"), {**HEAD, "choices": [], "usage": usage})


def format_of(body: bytes | None) -> str:
    assert body is not None
    return "json" if "answer with a JSON code block" in body.decode() else "its own"


class Asked:
    """One request, answer by answer. `formats`: in which each attempt's prompt was written."""

    def __init__(self, memory: BackendMemory, body: bytes, **settings: Any) -> None:
        self.driven = Driven(Settings(**{"retries": 0, **settings}), memory)  # else an empty answer is asked again
        self.sent = self.driven.on_request(body)
        self.formats = [format_of(self.sent)]

    def gets(self, data: bytes) -> Any:
        """The whole answer that leaves, None where the backend is asked again."""
        self.driven.on_response_start(200, JSON)
        reply = self.driven.whole(data)
        if reply is None:
            self.formats.append(format_of(self.driven.take_next()))
            return None
        return json.loads(reply.body)["choices"][0]

    def gets_stream(self, data: bytes) -> bytes:
        self.driven.on_response_start(200, STREAM)
        out = self.driven.feed(data) + self.driven.finish()
        if (body := self.driven.take_next()) is not None:
            self.formats.append(format_of(body))
        return out


@pytest.mark.parametrize("model", ["openai/gpt-oss-20b", "gpt-oss:120b", "/models/ggml-org_gpt-oss-20b-mxfp4.gguf"])
def test_gpt_oss_is_asked_for_json_and_both_are_read(model: str) -> None:
    fmt = registry.for_model("auto", model)
    assert (fmt.name, getattr(fmt, "prompt_name", None)) == ("auto", "json")
    assert fmt is registry.for_model("auto", "openai/gpt-oss-20b")
    for text in (CALL, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"):
        asked = Asked(BackendMemory(), request(model))
        assert asked.formats == ["json"]
        choice = asked.gets(answer(text))
        assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["f"]
        assert "json" in asked.driven.headers()["x-toolcall"]
    # What the template's markers are in its tokenizer does not change with the prompt, and an operator's word holds.
    assert getattr(fmt, "special_tokens", False) is True
    assert registry.for_model("harmony", model) is registry.get("harmony")


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_an_empty_answer_with_tokens_is_asked_for_again_as_json(choice: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "toolcall_middleware")
    memory = BackendMemory()
    first = Asked(memory, request(tool_choice=choice))
    assert first.gets(answer("" if choice == "auto" else None)) is None
    assert first.gets(answer(CALL))["finish_reason"] == "tool_calls"
    assert first.formats == ["its own", "json"]
    assert first.driven.headers()["x-toolcall"].startswith("mode=prompt; format=json; calls=1")
    assert [line for line in caplog.messages if "hermes" in line and MODEL in line and "json" in line]
    # For this model and format only, and for all clients.
    assert Asked(memory.of(b"another"), request()).formats == ["json"]
    assert Asked(memory, request("Qwen/Qwen3-4B")).formats == ["its own"]


def test_it_is_forgotten_after_a_while() -> None:
    now = 0.0
    memory = BackendMemory(lambda: now)
    Asked(memory, request()).gets(answer())
    assert Asked(memory, request()).formats == ["json"]
    now = REMEMBERED_SECONDS + 1
    assert Asked(memory, request()).formats == ["its own"]


@pytest.mark.parametrize(
    "told",
    [
        answer("Hello."),
        answer("\n"),
        answer(tokens=3),
        answer(reason="length"),
        answer(reason="content_filter"),
        answer(reasoning="I need not say anything here, for all was said. " * 3, tokens=32),
        answer(reasoning="我想一想。" * 10, tokens=45),
        answer(tokens=200, reasoning_tokens=198),
    ],
    ids=["text", "white space", "few tokens", "length", "filter", "reasoning", "chinese", "hidden reasoning"],
)
def test_an_answer_that_shows_nothing_teaches_nothing(told: bytes) -> None:
    memory = BackendMemory()
    asked = Asked(memory, request())
    assert asked.gets(told) is not None
    assert Asked(memory, request()).formats == ["its own"]


def test_reasoning_is_no_answer() -> None:
    memory = BackendMemory()
    assert Asked(memory, request()).gets(answer(reasoning="The user wants f.", tokens=40)) is None
    assert Asked(memory, request()).formats == ["json"]


@pytest.mark.parametrize(
    "more",
    [
        {"stop": ["<tool_call>"]},
        {"logit_bias": {"1": 100}},
        {"messages": [{"role": "user", "content": "Write <tool_call> and nothing else."}]},
    ],
    ids=["stop", "odd field", "markup"],
)
def test_what_a_client_may_have_caused_is_its_own(more: dict[str, Any]) -> None:
    now = 0.0
    memory = BackendMemory(lambda: now)
    asked = Asked(memory.of(b"one"), request(**more))
    assert asked.gets(answer()) is None
    assert Asked(memory.of(b"another"), request()).formats == ["its own"]
    assert Asked(memory.of(b"one"), request()).formats == ["json"]
    now = DOUBTFUL_SECONDS + 1
    assert Asked(memory.of(b"one"), request()).formats == ["its own"]


def test_a_stream_teaches_it_too() -> None:
    memory = BackendMemory()
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    asked = Asked(memory, request(**options))
    out = asked.gets_stream(streamed({"role": "assistant", "content": ""}))
    assert b'"finish_reason"' in out  # it has begun: this one stays empty
    assert asked.formats == ["its own"]
    assert Asked(memory, request()).formats == ["json"]
    asked = Asked(BackendMemory(), request(tool_choice="required", **options))
    assert asked.gets_stream(streamed({"role": "assistant", "content": ""})) == b""
    assert asked.formats == ["its own", "json"]
    out = asked.gets_stream(streamed({"role": "assistant", "content": CALL}))
    assert b'"finish_reason":"tool_calls"' in out


def test_a_stream_that_says_something_teaches_nothing() -> None:
    memory = BackendMemory()
    asked = Asked(memory, request(stream=True, stream_options={"include_usage": True}))
    asked.gets_stream(streamed({"role": "assistant", "content": "\n"}, {"content": "Hello"}, {"content": " you"}))
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = Asked(memory, request(stream=True, stream_options={"include_usage": True}))
    asked.gets_stream(streamed({"role": "assistant", "tool_calls": [call]}))
    assert Asked(memory, request()).formats == ["its own"]


def test_a_format_that_is_set_stays_and_the_log_tells(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "toolcall_middleware")
    memory = BackendMemory()
    for _ in range(3):
        asked = Asked(memory, request(), format="hermes")
        assert asked.gets(answer()) is not None
    told = [line for line in caplog.messages if "format=auto" in line]
    assert len(told) == 1
    assert "hermes" in told[0]


def stream_options(body: bytes | None) -> Any:
    assert body is not None
    return json.loads(body).get("stream_options")


def test_a_stream_whose_client_wants_no_count_teaches_it_too_and_the_client_sees_none() -> None:
    memory = BackendMemory()
    asked = Asked(memory, request(stream=True))
    assert stream_options(asked.sent) == {"include_usage": True}
    out = asked.gets_stream(streamed({"role": "assistant", "content": ""}))
    assert b"usage" not in out
    assert asked.formats == ["its own"]  # the answer has begun
    asked = Asked(memory, request(stream=True))
    assert asked.formats == ["json"]
    assert stream_options(asked.sent) is None  # nothing is left to be learned


def test_the_count_is_asked_for_until_a_call_has_come() -> None:
    now = 0.0
    memory = BackendMemory(lambda: now)
    for delta in ({"content": "Hello."}, {"content": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'}):
        asked = Asked(memory, request(stream=True))
        assert stream_options(asked.sent) == {"include_usage": True}
        assert b"usage" not in asked.gets_stream(streamed({"role": "assistant", **delta}))
    assert stream_options(Asked(memory, request(stream=True)).sent) is None
    now = REMEMBERED_SECONDS + 1
    assert stream_options(Asked(memory, request(stream=True)).sent) == {"include_usage": True}


@pytest.mark.parametrize(
    ("model", "settings", "more"),
    [
        ("some-model", {}, {}),  # it is asked for json anyway
        ("openai/gpt-oss-20b", {}, {}),
        (MODEL, {"format": "hermes"}, {}),
        (MODEL, {"usage": "count"}, {}),
        (MODEL, {}, {"tool_choice": "none"}),
        (MODEL, {}, {"stream": False}),
    ],
)
def test_nothing_is_asked_for_where_nothing_can_be_learned(model: str, settings: Any, more: Any) -> None:
    asked = Asked(BackendMemory(), request(model, **{"stream": True, **more}), **settings)
    assert stream_options(asked.sent) is None


@pytest.mark.parametrize("said", [b"Unknown field: stream_options", b"Bad request"])
def test_a_backend_that_refuses_the_question_is_asked_without_it(said: bytes) -> None:
    memory = BackendMemory()
    asked = Asked(memory, request(stream=True))
    asked.driven.on_response_start(400, JSON)
    assert asked.driven.whole(b'{"error": {"message": "' + said + b'"}}') is None
    again = asked.driven.take_next()
    assert stream_options(again) is None
    asked.driven.on_response_start(200, STREAM)
    assert b"Hello" in asked.driven.feed(streamed({"role": "assistant", "content": "Hello."}))
    assert stream_options(Asked(memory, request(stream=True)).sent) is None


def test_a_refusal_of_the_prompt_itself_is_the_clients_to_know() -> None:
    asked = Asked(BackendMemory(), request(stream=True))
    asked.driven.on_response_start(400, JSON)
    reply = asked.driven.whole(b'{"error": {"message": "This model\'s maximum context length is 8192 tokens."}}')
    assert reply is not None
    assert reply.status == 400
