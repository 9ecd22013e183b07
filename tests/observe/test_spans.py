"""Spans: the conventions for generative AI, a client's trace continued and sent on; read by the SDK's exporter."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.helpers.asgi_client import Client, ask
from tests.helpers.fakes import TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.errors import SettingsError
from toolcall_middleware.hosts.proxy.inspector.store import Store
from toolcall_middleware.observe.content import content_of
from toolcall_middleware.observe.spans import Spans

sdk = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01".encode()
CALL = write_calls("hermes", ("weather", {"city": "Paris"}))


async def spans_of(backend: TextBackend, body: bytes, *headers: tuple[bytes, bytes]) -> list[Any]:
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    app = ToolCallMiddleware(backend, mode="prompt", format="hermes", constrain="off")
    app._observers = [Spans(provider)]
    await Client(body, headers=[(b"content-type", b"application/json"), *headers]).run(app)
    return list(exporter.get_finished_spans())


async def test_a_request_is_a_span_by_the_conventions() -> None:
    *_, span = await spans_of(TextBackend([CALL]), ask(stream=False))
    assert span.name == "chat m"
    found = dict(span.attributes)
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.provider.name"] == "openai"
    assert found["gen_ai.request.model"] == "m"
    assert found["gen_ai.usage.input_tokens"] > 0
    assert found["gen_ai.usage.output_tokens"] > 0
    assert found["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert found["toolcall.format"] == "hermes"


async def test_calls_are_events_with_their_outcome() -> None:
    *_, span = await spans_of(TextBackend([CALL]), ask())
    (event,) = span.events
    assert (event.name, event.attributes["toolcall.call.outcome"]) == ("toolcall.call", "clean")


async def test_each_attempt_is_a_child() -> None:
    first, second, span = await spans_of(TextBackend(["No.", CALL]), ask(tool_choice="required"))
    assert [one.attributes["toolcall.attempt.why"] for one in (first, second)] == ["first", "no_call"]
    assert {one.parent.span_id for one in (first, second)} == {span.context.span_id}
    assert first.end_time <= second.end_time <= span.end_time
    assert span.start_time <= first.start_time


@pytest.mark.parametrize(
    "body", [b"", b'{"model":', ask(tools=()), b'{"messages": 7, "tools": [{}]}', ask(model="m" * 5000)], ids=range(5)
)
async def test_a_request_without_an_attempt_has_its_span(body: bytes) -> None:
    """It was refused, or is passed on unread. Its span ends, and later observers get the request."""
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    app = ToolCallMiddleware(TextBackend(["Hello."]), max_request_bytes=4000)
    app._observers = [Spans(provider), last := Store()]
    answer = await Client(body).run(app)
    (span,) = exporter.get_finished_spans()
    assert span.attributes["http.response.status_code"] == answer.status
    assert [entry.summary["status"] for entry in last.entries.values()] == [answer.status]


async def test_a_trace_is_continued_and_sent_on() -> None:
    backend = TextBackend([CALL])
    *_, span = await spans_of(backend, ask(), (b"traceparent", PARENT))
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert backend.last.headers["traceparent"] == f"00-{TRACE}-{span.context.span_id:016x}-01"


async def test_no_content_is_in_a_span() -> None:
    for span in await spans_of(TextBackend([CALL]), ask()):
        assert "Paris" not in span.to_json()
        assert "hello" not in span.to_json()


async def test_an_error_is_told() -> None:
    *_, span = await spans_of(TextBackend(["No.", "No.", "No."]), ask(tool_choice="required"))
    assert span.attributes["error.type"] == "tool_choice_not_satisfied"
    assert not span.status.is_ok


def test_a_missing_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SettingsError, match=r"pip install .*\[otel\]"):
        Spans()


# -- what was said, where the standard variable asks for it -----------------------------------------------------------

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CALLED = {
    "role": "assistant",
    "parts": [
        {"type": "text", "content": "I look. "},
        {"type": "tool_call", "name": "weather", "arguments": {"city": "Paris"}},
    ],
    "finish_reason": "tool_calls",
}


def without_ids(messages: str) -> list[Any]:
    read: list[Any] = json.loads(messages)
    for message in read:
        for part in message["parts"]:
            assert part["type"] != "tool_call" or part.pop("id").startswith("call_")
    return read


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asked", ["true", "SPAN_ONLY", "span_and_event"])
async def test_content_is_in_a_span_by_the_standard_opt_in(
    asked: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURE, asked)
    *_, span = await spans_of(TextBackend(["I look. " + CALL]), ask(stream=stream))
    found = dict(span.attributes)
    sent = json.loads(ask())
    (message,) = sent["messages"]
    assert json.loads(found["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": message["content"]}]}
    ]
    names = [tool["name"] for tool in json.loads(found["gen_ai.tool.definitions"])]
    assert names == [tool["function"]["name"] for tool in sent["tools"]]
    assert without_ids(found["gen_ai.output.messages"]) == [CALLED]
    details = [event for event in span.events if event.name == "gen_ai.client.inference.operation.details"]
    assert len(details) == (asked == "span_and_event")


async def test_content_in_events_alone_is_not_on_the_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "event_only")
    *_, span = await spans_of(TextBackend([CALL]), ask())
    assert "gen_ai.input.messages" not in dict(span.attributes)
    (details,) = [event for event in span.events if event.name == "gen_ai.client.inference.operation.details"]
    assert "Paris" in dict(details.attributes)["gen_ai.output.messages"]


@pytest.mark.parametrize("asked", ["", "false", "no_content", "1", "yes"])
async def test_no_other_word_is_an_opt_in(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, asked)
    spans = await spans_of(TextBackend([CALL]), ask())
    assert "Paris" not in str([(dict(span.attributes), [dict(event.attributes) for event in span.events])
                               for span in spans])  # fmt: skip


def test_a_history_is_written_in_parts() -> None:
    entry = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": {"url": "data:x"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [entry]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    rows = [{"at": 0, "kind": "request", "data": json.dumps({"messages": messages})}]
    assert json.loads(content_of(rows)["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Look"}, image]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "f", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "done"}]},
    ]


@pytest.mark.parametrize("data", ["", "[]", "{", '{"messages": 5, "tools": [1]}', '{"messages": [{"content": [1]}]}'])
def test_what_cannot_be_read_is_left_out(data: str) -> None:
    rows = [{"at": 0, "kind": "request", "data": data}, {"at": 1, "kind": "client", "data": 'data: {"choices": [1]}'}]
    assert "gen_ai.output.messages" not in content_of(rows)


async def test_half_of_a_surrogate_pair_ends_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON can write one, and UTF-8 cannot."""
    monkeypatch.setenv(CAPTURE, "true")
    body = ask().replace(b"hello", b"a \\ud83d b")
    *_, span = await spans_of(TextBackend(["Hi."]), body)
    (message,) = json.loads(span.attributes["gen_ai.input.messages"])
    assert message["parts"][0]["content"].startswith("a \ud83d b")
