"""A host whose parser refuses its own model's call gives the text back in its error: it is read as the answer."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.upstream.backend_memory import BackendMemory

from ..engines import PROSE, Answered, Engine, ask

GO = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "go", "description": "Goes there.", "parameters": GO}}
WRITTEN = '<function=go{"city": "Paris", "days": "2"}</function>'


class Host(Engine):
    """Refuses what its model wrote, where it was given tools.

    how: `status`, or an error in an answer of status 200 that is an `event` or a whole `body`.
    """

    def __init__(self, written: str | None, how: str = "status") -> None:
        super().__init__("", lambda _body: None, frozenset())
        self.written = written
        self.how = how

    def answer(self, raw: bytes) -> tuple[int, str, bytes]:
        body = json.loads(raw)
        if "tools" not in body:
            return super().answer(raw)
        self.bodies.append(body)
        error = {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed"}
        if self.written is not None:
            error["failed_generation"] = self.written
        if self.how == "event" and body.get("stream"):
            event = json.dumps({"error": {**error, "status_code": 400}}).encode()
            return 200, "text/event-stream", b"event: error\ndata: " + event + b"\n\n"
        return 400 if self.how == "status" else 200, "application/json", json.dumps({"error": error}).encode()


def body(*, stream: bool = False, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": [TOOL], "stream": stream, **more}


def calls_of(answer: Answered) -> list[tuple[str, str]]:
    """The calls of an answer, streamed or whole."""
    if answer.body.startswith(b"{"):
        message = json.loads(answer.body)["choices"][0]["message"]
        return [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    events = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
    deltas = [call for event in events for call in event["choices"][0]["delta"].get("tool_calls") or ()]
    name = "".join(call["function"].get("name", "") for call in deltas)
    return [(name, "".join(call["function"]["arguments"] for call in deltas))] if deltas else []


@pytest.mark.parametrize("mode", ["native", "auto"])
@pytest.mark.parametrize("how", ["status", "event", "body"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_the_host_could_not_read_is_read_from_its_error(
    mode: str, how: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "toolcall_middleware")
    host, memory = Host(WRITTEN, how), BackendMemory()
    for number in (1, 2):  # and nothing is learned from it: the next request is asked in the same way
        answer = ask(host, memory, body(stream=stream), mode=mode)
        assert answer.status == 200
        assert calls_of(answer) == [("go", '{"city": "Paris", "days": 2}')]
        assert b'"finish_reason":"tool_calls"' in answer.body
        assert answer.headers["x-toolcall"].startswith("mode=native")
        assert answer.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
        assert len(host.bodies) == number
        assert "tools" in host.bodies[-1]
    assert any("call=tool_use_failed" in line for line in caplog.messages)


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
