"""Requests as OpenTelemetry spans by its conventions for generative AI (the extra `otel`: `opentelemetry-api` alone).

One span a request, a child for each attempt, an event for each call with its outcome. Without an SDK that the app
configures they go nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import SettingsError
from ..installed import install_command
from ..settings.settings import read_variable
from .content import content_of
from .report import Report, Room

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The standard variable that opts in to content: without it, spans hold no text of messages."""
_ON_SPANS = frozenset({"true", "span_only", "span_and_event"})
_ON_EVENTS = frozenset({"event_only", "span_and_event"})
_DETAILS = "gen_ai.client.inference.operation.details"
_MAX_CONTENT = 1 << 20  # bytes of an exchange that are kept for a span
_PROVIDER = "openai"  # the API that the backend speaks, as far as the conventions name it


class Spans:
    """An observer that makes spans. The client's `traceparent` is continued, and the backend gets ours.

    provider: whose spans they are; the app's own where none is given. What was said is in them only where the variable
    `CAPTURE` says so when this is made.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            message = f"otel: opentelemetry-api is not installed: {install_command('otel')}."
            raise SettingsError(message) from None
        captured = (read_variable(CAPTURE) or "").strip().lower()
        self._on_spans, self._on_events = captured in _ON_SPANS, captured in _ON_EVENTS
        self.wants_content = self._on_spans or self._on_events
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("toolcall_middleware", tracer_provider=provider)
        self._open: dict[int, tuple[Span, int]] = {}
        self._room = Room()

    def begin(self, report: Report, headers: Mapping[str, str]) -> None:
        """Open the span of a request."""
        if self.wants_content:
            report.record(_MAX_CONTENT, self._room)
        context = self._propagate.extract(headers)
        begin = time.time_ns()
        span = self._tracer.start_span(
            "chat",
            context=context,
            kind=self._trace.SpanKind.CLIENT,
            start_time=begin,
            attributes={"gen_ai.operation.name": "chat", "gen_ai.provider.name": _PROVIDER},
        )
        self._open[id(report)] = span, begin
        self._propagate.inject(report.sent_on, self._trace.set_span_in_context(span))

    def end(self, report: Report) -> None:
        """End the span with the facts of the request."""
        span, begin = self._open.pop(id(report), (None, 0))
        if span is None:
            return
        if self.wants_content and report.recorder is not None:
            self._room.take(-report.recorder.held)

        def stamp(at: float) -> int:
            return begin + int((at - report.began) * 1e9)

        if report.model is not None:
            span.update_name(f"chat {report.model}")
        span.set_attributes({name: value for name, value in _attributes(report).items() if value is not None})
        ended = stamp(report.ended or report.began)
        if span.is_recording():
            context = self._trace.set_span_in_context(span)
            ends = [*(attempt.began for attempt in report.attempts[1:]), report.ended or report.began]
            for attempt, end in zip(report.attempts, ends, strict=False):  # a request may have no attempt
                child = self._tracer.start_span("attempt", context=context, start_time=stamp(attempt.began))
                child.set_attribute("toolcall.attempt.why", attempt.why)
                if attempt.status is not None:
                    child.set_attribute("http.response.status_code", attempt.status)
                child.end(stamp(end))
            for number, outcome in enumerate(report.outcomes):
                span.add_event("toolcall.call", {"toolcall.call.index": number, "toolcall.call.outcome": outcome})
        if self.wants_content and report.recorder is not None and span.is_recording():
            content = content_of(report.recorder.rows)
            if self._on_spans:
                span.set_attributes(content)
            if self._on_events:
                span.add_event(_DETAILS, content, ended)
        if report.error is not None or (report.status or 0) >= 500:
            span.set_attribute("error.type", report.error or str(report.status))
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(ended)


def _attributes(report: Report) -> dict[str, Any]:
    return {
        "gen_ai.request.model": report.model,
        "gen_ai.usage.input_tokens": report.prompt_tokens,
        "gen_ai.usage.output_tokens": report.completion_tokens,
        "gen_ai.response.finish_reasons": report.finish_reasons or None,
        "http.response.status_code": report.status,
        "toolcall.mode": report.mode,
        "toolcall.format": report.format,
        "toolcall.calls": report.calls,
        "toolcall.no_call": report.no_call,
    }
