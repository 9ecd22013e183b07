"""Requests as metrics of `prometheus-client` (the extra `metrics`). Labels are bounded, whatever clients send.

With `PROMETHEUS_MULTIPROC_DIR` set, as `serve --workers` does, the metrics of all processes are added up.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SettingsError
from ..installed import install_command
from .report import Report

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MAX_MODELS = 100
"""As many models, and as many tenants, have a label of their own; the rest is `other`. So is a model that no upstream
lists or answered for: clients would use up the labels with names that are refused."""
_MAX_NAME = 100
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_OWN_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)


class Metrics:
    """An observer that counts. `render` gives the text for a scrape."""

    wants_content = False

    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError:
            message = f"metrics: prometheus-client is not installed: {install_command('metrics')}."
            raise SettingsError(message) from None
        own = self.registry = CollectorRegistry()
        counter = functools.partial(Counter, registry=own)
        seconds = functools.partial(Histogram, labelnames=["api"], registry=own)
        gauge = functools.partial(Gauge, registry=own)
        of_requests = ["api", "model", "mode", "format", "status", "upstream", "tenant"]
        self._requests = counter("toolcall_requests", "Requests that have ended.", of_requests)
        of_calls = ["outcome", "format", "model"]
        self._calls = counter("toolcall_calls", "Tool calls that have been answered with.", of_calls)
        why = "Answers to requests with tools, and why they hold no call."
        self._answers = counter("toolcall_answers", why, ["no_call", "format", "model"])
        self._attempts = counter("toolcall_attempts", "Requests to backends, and what led to them.", ["why"])
        self._tokens = counter("toolcall_tokens", "Tokens.", ["kind", "estimated"])
        self._units = counter("toolcall_rate_units", "Calls that counted against a tenant's rate.")
        what = "Time of the middleware's own work in a request."
        self._own = seconds("toolcall_added_latency_seconds", what, buckets=_OWN_SECONDS)
        what = "Time from a request to the first text."
        self._content = seconds("toolcall_first_content_seconds", what, buckets=_SECONDS)
        what = "Time from a request to the first call."
        self._call = seconds("toolcall_first_call_seconds", what, buckets=_SECONDS)
        what = "Time from asking a backend to the first byte of its answer."
        self._first_byte = seconds("toolcall_upstream_first_byte_seconds", what, buckets=_SECONDS)
        what = "Requests under way."
        self._running = gauge("toolcall_running_requests", what, multiprocess_mode="livesum")
        what = "1 where an upstream answered when it was last asked."
        self._up = gauge("toolcall_upstream_up", what, ["upstream"], multiprocess_mode="livemin")
        self._models: set[str] = set()
        self._tenants: set[str] = set()

    def begin(self, report: Report, headers: Mapping[str, str]) -> None:  # noqa: ARG002 - as an observer
        """One more runs."""
        self._running.inc()

    def end(self, report: Report) -> None:
        """Count it."""
        self._running.dec()
        fmt, api = report.format or "none", report.api
        status = str(report.status) if report.status is not None else "none"
        model = _label(report.model, self._models, is_new=report.model_listed or report.model_answered)
        tenant = _label(report.tenant, self._tenants, is_new=True)
        self._requests.labels(api, model, report.mode, fmt, status, report.upstream or "none", tenant).inc()
        for outcome in report.outcomes:
            self._calls.labels(outcome, fmt, model).inc()
        if report.calls or report.no_call:
            self._answers.labels(report.no_call or "none", fmt, model).inc()
        for attempt in report.attempts:
            self._attempts.labels(attempt.why).inc()
        estimated = "true" if report.estimated else "false"
        for kind, tokens in (("prompt", report.prompt_tokens), ("completion", report.completion_tokens)):
            if tokens:
                self._tokens.labels(kind, estimated).inc(tokens)
        if report.rate_units:
            self._units.inc(report.rate_units)
        if report.mode != "pass":
            self._own.labels(api).observe(report.own)
        if report.first_content is not None:
            self._content.labels(api).observe(report.first_content - report.began)
        if report.first_call is not None:
            self._call.labels(api).observe(report.first_call - report.began)
        if (waited := report.upstream_first_byte) is not None:
            self._first_byte.labels(api).observe(waited)
        for name in report.unreached:
            self.upstream_is(name, up=False)
        if report.upstream is not None and report.status is not None:
            self.upstream_is(report.upstream, report.error not in {"upstream_error", "upstream_timeout"})

    def upstream_is(self, name: str, up: bool) -> None:  # noqa: FBT001 - a pair
        """Whether an upstream answered. `name` is the operator's, so there are few."""
        self._up.labels(name).set(1 if up else 0)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """(the text of all metrics, its content type) in the form that `accept` asks for."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return encode(self._readable()), content_type

    def _readable(self) -> CollectorRegistry:
        from prometheus_client import CollectorRegistry
        from prometheus_client.multiprocess import MultiProcessCollector

        class Workers(MultiProcessCollector):
            """The metrics of all workers. A file that a worker has just made is empty, and cannot be read."""

            def collect(self) -> Any:
                files = [path for path in Path(self._path).glob("*.db") if path.stat().st_size]
                return self.merge(map(str, files))  # type: ignore[no-untyped-call]

        shared = CollectorRegistry()
        try:
            Workers(shared)  # type: ignore[no-untyped-call]
        except ValueError:  # this process is the only one
            return self.registry
        return shared


def _label(value: str | None, known: set[str], *, is_new: bool) -> str:
    """`value` as a label, `none` for None. One that is not known and not new, or one too many, is `other`."""
    if value is None:
        return "none"
    name = value[:_MAX_NAME].encode("utf-8", "replace").decode()
    if name not in known:
        if len(known) >= MAX_MODELS or not is_new:
            return "other"
        known.add(name)
    return name


@functools.cache
def shared_metrics() -> Metrics:
    """The metrics of this process. Raises SettingsError where the extra is not installed."""
    return Metrics()
