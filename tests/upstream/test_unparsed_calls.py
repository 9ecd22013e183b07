"""A host whose parser refuses its own model's call gives the text back in its error: it is read as the answer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.engines import PROSE, Answered, Engine, ask
from tests.helpers.received import received
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.upstream.backend_memory import BackendMemory

GO = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "go", "description": "Goes there.", "parameters": GO}}
TAGS = """\
<tool_call>
<function=go>
<parameter=city>
Paris
</parameter>
<parameter=days>
2
</parameter>
</parameter>
</function>
</tool_call>"""
WRITTEN = '<function=go{"city": "Paris", "days": "2"}</function>'


class Host(Engine):
    """Refuses what its model wrote, where it was given tools: as Groq does, or in the words `llama_cpp`.

    how: `status`, or an error in an answer of status 200 that is an `event` or a whole `body`. before: deltas of the
    stream that come before the error.
    """

    def __init__(
        self, written: str | None, how: str = "status", *, llama_cpp: bool = False, before: Sequence[Any] = ()
    ) -> None:
        super().__init__("", lambda _body: None, frozenset())
        self.written = written
        self.how = how
        self.llama_cpp = llama_cpp
        self.before = before

    def answer(self, raw: bytes) -> tuple[int, str, bytes]:
        body = json.loads(raw)
        if "tools" not in body:
            return super().answer(raw)
        self.bodies.append(body)
        error: dict[str, Any] = {"message": "Failed.", "type": "invalid_request_error", "code": "tool_use_failed"}
        status = 400
        if self.llama_cpp:
            status = 500
            error = {"message": f"Failed to parse input at pos 204: {self.written}", "type": "server_error"}
            error["code"] = 500
        elif self.written is not None:
            error["failed_generation"] = self.written
        if self.how == "event" and body.get("stream"):
            event = json.dumps({"error": {**error, "status_code": status}}).encode()
            named = b"" if self.llama_cpp else b"event: error\n"
            return 200, "text/event-stream", b"".join(map(chunk, self.before)) + named + b"data: " + event + b"\n\n"
        return status if self.how == "status" else 200, "application/json", json.dumps({"error": error}).encode()


def chunk(delta: dict[str, Any]) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


def body(*, stream: bool = False, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": [TOOL], "stream": stream, **more}


def calls_of(answer: Answered) -> list[tuple[str, str]]:
    assert answer.status == 200
    return [(call.name, call.arguments) for call in received("chat", answer.body).calls]


@pytest.mark.parametrize("mode", ["native", "auto"])
@pytest.mark.parametrize("how", ["status", "event", "body"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("llama_cpp", [False, True])
def test_a_call_that_the_host_could_not_read_is_read_from_its_error(
    mode: str, how: str, stream: bool, llama_cpp: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "toolcall_middleware")
    host, memory = Host(TAGS if llama_cpp else WRITTEN, how, llama_cpp=llama_cpp), BackendMemory()
    for number in (1, 2):  # and nothing is learned from it: the next request is asked in the same way
        answer = ask(host, memory, body(stream=stream), mode=mode)
        assert answer.status == 200
        assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
        assert b'"finish_reason":"tool_calls"' in answer.body
        assert answer.headers["x-toolcall"].startswith("mode=native")
        assert answer.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
        assert len(host.bodies) == number
        assert "tools" in host.bodies[-1]
    assert any("what=call value=unparsed" in line for line in caplog.messages)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "written",
    [
        None, "", "JSON does not match the expected schema for tool calls", '<function=other>{"a": 1}</function>',
        '<function=go>{"city": "Par', 7,
    ],
)  # fmt: skip
def test_what_holds_no_whole_call_of_an_offered_tool_stays_an_error(written: Any, stream: bool) -> None:
    host, memory = Host(written), BackendMemory()
    refused = ask(host, memory, body(stream=stream), mode="native")
    assert refused.status == 400
    error = json.loads(refused.body)["error"]
    assert error["code"] == "tool_use_failed"
    assert error.get("failed_generation") == written
    # `auto` asks for this answer by prompt, and for the next one as ever: the host takes tools.
    for _ in range(2):
        host.bodies.clear()
        assert PROSE[:5].encode() in ask(host, memory, body(stream=stream), mode="auto").body
        assert ["tools" in asked for asked in host.bodies] == [True, False]


def test_a_call_from_an_error_is_judged_as_any_other() -> None:
    host, memory = Host('<function=go>{"days": 1}</function>'), BackendMemory()
    with pytest.raises(ToolCallError, match="city") as refused:
        ask(host, memory, body(), mode="native", validate_arguments="error")
    assert refused.value.code == "invalid_tool_arguments"
    again = Host('<function=go>{"days": 1}</function>')
    with pytest.raises(ToolCallError):
        ask(again, memory, body(), mode="native", validate_arguments="retry")
    assert len(again.bodies) == 2  # the model is told what was wrong
    assert "city" in again.bodies[1]["messages"][-1]["content"]


def test_one_in_a_stream_that_is_refused_ends_the_answer_with_the_reason() -> None:
    host = Host('<function=go>{"days": 1}</function>', "event", before=[{"role": "assistant", "content": "I will go."}])
    answer = ask(host, BackendMemory(), body(stream=True), mode="native", validate_arguments="error")
    assert b"I will go." in answer.body
    assert b'"code":"invalid_tool_arguments"' in answer.body


@pytest.mark.parametrize("text", [TAGS, f"<think>It is far.</think>\n\n{TAGS}", f"I will go.\n{TAGS}\n"])
@pytest.mark.parametrize(
    "before",
    [
        [{"role": "assistant", "content": None}, {"reasoning_content": "It is "}, {"reasoning_content": "far."}],
        [{"role": "assistant", "content": "I will go."}, {"content": "\n"}],
    ],
)
def test_what_came_before_the_error_is_not_said_twice(text: str, before: list[dict[str, Any]]) -> None:
    """llama.cpp streams what it can read, and repeats it in the error or not."""
    host = Host(text, "event", llama_cpp=True, before=before)
    answer = ask(host, BackendMemory(), body(stream=True, stream_options={"include_usage": True}), mode="auto")
    assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
    read = received("chat", answer.body)
    for field, got in (("reasoning_content", read.reasoning), ("content", read.text)):
        assert got.strip() == "".join(delta.get(field) or "" for delta in before).strip()
    assert set(re.findall(rb'"id":"(chatcmpl[^"]*)"', answer.body)) == {b"chatcmpl-1"}
    assert answer.body.count(b'"role"') == 1


@pytest.mark.parametrize(
    "turn",
    [
        "<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n", "<|assistant|>\n", "<start_of_turn>model\n",
        "<|start_header_id|>assistant<|end_header_id|>\n\n", "<｜Assistant｜><think>\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_the_prompts_last_words_are_none_of_the_answer(turn: str, stream: bool) -> None:
    answer = ask(Host(turn + TAGS, llama_cpp=True), BackendMemory(), body(stream=stream), mode="native")
    assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
    assert b"ssistant" not in answer.body.replace(b'"role":"assistant"', b"")
    assert b"think" not in answer.body
    assert b"turn" not in answer.body


@pytest.mark.parametrize("stream", [False, True])
def test_a_channel_behind_the_prompts_last_words_is_the_answers(stream: bool) -> None:
    call = 'commentary to=functions.go <|constrain|>json<|message|>{"city": "Paris", "days": 2}<|call|>'
    text = f"<|start|>assistant<|channel|>analysis<|message|>Far.<|end|><|start|>assistant<|channel|>{call}"
    answer = ask(Host(text, llama_cpp=True), BackendMemory(), body(stream=stream), mode="native")
    assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
    assert received("chat", answer.body).text == ""
    assert b"analysis" not in answer.body


@pytest.mark.parametrize("text", [TAGS, f"<think>Far.</think>{TAGS}", f"{TAGS}\n{TAGS.replace('Paris', 'Rome')}"])
@pytest.mark.parametrize("begun", ["", "{", '{"city":"Par', '{"city":"Paris","days":2', '{"city": "Paris", "d'])
def test_a_call_that_has_begun_goes_on(text: str, begun: str) -> None:
    host = Host(text, "event", llama_cpp=True, before=[first("go", begun)])
    answer = ask(host, BackendMemory(), body(stream=True), mode="native")
    read = received("chat", answer.body)
    expected = [{"city": city, "days": 2} for city in ("Paris", "Rome")[: text.count("<tool_call>")]]
    assert [(call.name, call.decoded()) for call in read.calls] == [("go", one) for one in expected]
    assert (read.text, read.finish_reason) == ("", "tool_calls")


@pytest.mark.parametrize(("name", "begun"), [("go", '{"city":"Rome'), ("other", '{"city":"Par')])
def test_another_call_than_has_begun_does_not_go_on(name: str, begun: str) -> None:
    host = Host(TAGS, "event", llama_cpp=True, before=[first(name, begun)])
    answer = ask(host, BackendMemory(), body(stream=True), mode="native", unknown_tool="forward")
    assert b"Failed to parse input at pos" in answer.body
    assert b'"finish_reason":"tool_calls"' not in answer.body


def test_arguments_that_are_too_deep_to_go_on_are_an_error_and_no_exception() -> None:
    deep = "[" * 3000 + "]" * 3000
    host = Host(f'<function=go>{{"city": "a", "x": {deep}}}</function>', "event", before=[first("go", '{"city":"a')])
    answer = ask(host, BackendMemory(), body(stream=True), mode="native")
    assert b"tool_use_failed" in answer.body


def first(name: str, arguments: str) -> dict[str, Any]:
    """The first delta of a host's own call."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def test_the_texts_of_an_answer_by_prompt_are_read_too() -> None:
    """llama.cpp parses every answer, of a model that was told of the tools in the prompt, too."""
    host = Unaware(TAGS)
    answer = ask(host, BackendMemory(), body(), mode="prompt")
    assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
    assert "tools" not in host.bodies[0]


class Unaware(Host):
    """It was not given the tools, and parses the text all the same."""

    def answer(self, raw: bytes) -> tuple[int, str, bytes]:
        self.bodies.append(json.loads(raw))
        error = {"code": 500, "message": f"Failed to parse input at pos 0: {self.written}", "type": "server_error"}
        return 500, "application/json", json.dumps({"error": error}).encode()


BARE = '{"name": "go", "arguments": {"city": "Paris", "days": 2}}'
THINKING = "Qwen3-4B-Thinking-2507"


@pytest.mark.parametrize("how", ["status", "event", "body"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("written", [TAGS, WRITTEN, BARE])
@pytest.mark.parametrize("fmt", ["harmony", "hermes", "llama3_json"])
def test_by_prompt_too_it_is_read_in_whatever_syntax_the_host_gives_it_back(
    fmt: str, written: str, how: str, stream: bool
) -> None:
    """Groq gives back a call of gpt-oss as JSON, and the prompt asked for the model's own syntax."""
    host = Toolless(written, how)
    answer = ask(host, BackendMemory(), body(stream=stream), mode="prompt", format=fmt)
    assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
    assert b'"content":"' not in answer.body
    assert b'"finish_reason":"tool_calls"' in answer.body


@pytest.mark.parametrize("how", ["status", "event"])
def test_a_thought_that_the_host_has_taken_out_is_not_looked_for(how: str) -> None:
    """The chat template has opened it in the prompt, and what the host could not parse stands behind it."""
    for settings in ({}, {"reasoning_start": "open"}):
        host, asked = Host(TAGS, how, llama_cpp=True), {**body(stream=how == "event"), "model": THINKING}
        answer = ask(host, BackendMemory(), asked, mode="native", **settings)
        _is_plain_call(answer)


def _is_plain_call(answer: Answered) -> None:
    assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
    assert b"tool_call>" not in answer.body
    assert "in_reasoning" not in answer.headers["x-toolcall"]


@pytest.mark.parametrize("how", ["status", "event"])
def test_a_thought_that_the_host_has_left_in_is_one(how: str) -> None:
    host, asked = Host(f"I go.\n</think>\n{TAGS}", how, llama_cpp=True), body(stream=how == "event")
    answer = ask(host, BackendMemory(), {**asked, "model": THINKING}, mode="native", reasoning_field="reasoning")
    assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
    assert b'"reasoning":"I go.\\n"' in answer.body
    assert b"think>" not in answer.body


@pytest.mark.parametrize("llama_cpp", [False, True])
def test_what_the_model_wrote_is_no_word_about_the_constraint(llama_cpp: bool) -> None:
    """It is asked for once without; the next request is held as before, and nobody is told that it was refused."""
    host, memory = Once("I look at the schema's structure first.", llama_cpp=llama_cpp), BackendMemory()
    for _ in range(2):
        answer = ask(host, memory, body(tool_choice="required"), mode="prompt", format="hermes")
        assert calls_of(answer) == [("go", '{"city": "Paris"}')]
    first, second, third = (sent.get("response_format") for sent in host.bodies)
    assert first == third
    assert first is not None
    assert second is None


def test_what_the_model_wrote_is_no_word_about_usage() -> None:
    """A count that only we want is not asked for again after an error that does not say why; this one does."""
    host, memory = Once("I look at it first.", llama_cpp=True), BackendMemory()
    asked = {**body(stream=True), "model": "Qwen2.5-7B-Instruct"}
    for more in ({}, {"stream_options": {"include_usage": True}}):
        assert calls_of(ask(host, memory, {**asked, **more}, mode="prompt")) == [("go", '{"city": "Paris"}')]
    first, second, third = (sent.get("stream_options") for sent in host.bodies)
    assert first == third == {"include_usage": True}
    assert second is None


class Once(Host):
    """Refuses its model's first answer, and takes the next."""

    def answer(self, raw: bytes) -> tuple[int, str, bytes]:
        if not self.bodies:
            return super().answer(json.dumps({**json.loads(raw), "tools": []}).encode())
        self.bodies.append(json.loads(raw))
        call = '{"name": "go", "arguments": {"city": "Paris"}}'
        choice = {"index": 0, "message": {"role": "assistant", "content": call}, "finish_reason": "stop"}
        return 200, "application/json", json.dumps({"choices": [choice]}).encode()


class Toolless(Host):
    """Refuses what the model wrote although no tool was offered."""

    def answer(self, raw: bytes) -> tuple[int, str, bytes]:
        return super().answer(json.dumps({**json.loads(raw), "tools": []}).encode())
