"""Spans: the conventions for generative AI, a client's trace continued and sent on; read by the SDK's exporter."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.fakes import TextBackend, write_calls
from tests.hosts.asgi_client import Client, ask
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.errors import SettingsError
from toolcall_middleware.observe.observers import Observers
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
    app._observers = Observers([Spans(provider)])
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
    with pytest.raises(SettingsError, match=r"toolcall-middleware\[otel\]"):
        Spans()
