"""Metrics: what the client library's own parser reads out of them, and that no client can make labels without end."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcall_middleware.errors import SettingsError
from toolcall_middleware.observe.metrics import MAX_MODELS, Metrics
from toolcall_middleware.observe.report import Attempt, Report

parser = pytest.importorskip("prometheus_client.parser")

_NAMES = re.compile(r"toolcall_[a-z_]+")


def told(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Each sample by name and labels."""
    text, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    families = parser.text_string_to_metric_families(text.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return told(metrics).get((name, frozenset(labels.items())))


def ended(metrics: Metrics, **fields: object) -> Report:
    report = Report(began=10.0)
    metrics.begin(report, {})
    for name, given in {"ended": 12.0, "status": 200, "end": "complete", **fields}.items():
        setattr(report, name, given)
    metrics.end(report)
    return report


OF_ALL = {"api": "messages", "model": "m", "mode": "prompt", "format": "hermes", "upstream": "local", "tenant": "blue"}
OF = {"format": "json", "model": "m"}
TIMES = {
    "own": 0.002,
    "first_content": 11.0,
    "first_call": 11.5,
    "attempts": [Attempt("first", 10.25, first_byte=10.75)],
}
# What is reported of requests that began at 10.0; a sample's name and its labels; its value.
SAMPLES: dict[str, tuple[list[dict[str, Any]], str, dict[str, str], float]] = {
    "a request, by what it was and who asked whom": (
        [{**OF_ALL, "status": 422, "model_listed": True}], "requests_total", {**OF_ALL, "status": "422"}, 1,
    ),
    "calls by outcome": ([{**OF, "outcomes": ("clean", "cut", "clean")}], "calls_total", {"outcome": "clean", **OF}, 2),
    "calls of another outcome": ([{**OF, "outcomes": ("coerced",)}], "calls_total", {"outcome": "coerced", **OF}, 1),
    "attempts, by what led to them": (
        [{"attempts": [Attempt("first", 10.0), Attempt("no_call", 11.0)]}], "attempts_total", {"why": "no_call"}, 1,
    ),
    "tokens of prompts": (
        [{"prompt_tokens": 7, "estimated": True}], "tokens_total", {"kind": "prompt", "estimated": "true"}, 7,
    ),
    "tokens of answers": ([{"completion_tokens": 5}], "tokens_total", {"kind": "completion", "estimated": "false"}, 5),
    "our own time": ([{**TIMES, "mode": "prompt"}], "added_latency_seconds_sum", {"api": "chat"}, 0.002),
    "the time to text": ([TIMES], "first_content_seconds_sum", {"api": "chat"}, 1.0),
    "the time to a call": ([TIMES], "first_call_seconds_sum", {"api": "chat"}, 1.5),
    "the backend's time": ([TIMES], "upstream_first_byte_seconds_sum", {"api": "chat"}, 0.5),
    "units of the rate": ([{"rate_units": 3}], "rate_units_total", {}, 3),
    "an upstream that answered": ([{"upstream": "a"}], "upstream_up", {"upstream": "a"}, 1),
    "one that did not": ([{"upstream": "a", "error": "upstream_error"}], "upstream_up", {"upstream": "a"}, 0),
    "one whose model is at fault": (
        [{"upstream": "a", "error": "invalid_tool_arguments"}], "upstream_up", {"upstream": "a"}, 1,
    ),
    "one that another replaced": ([{"upstream": "b", "unreached": ["a"]}], "upstream_up", {"upstream": "a"}, 0),
    "the one that replaced it": ([{"upstream": "b", "unreached": ["a"]}], "upstream_up", {"upstream": "b"}, 1),
    "answers, by why they hold no call": (
        [{**OF, "no_call": "example"}, {**OF, "calls": 2}], "answers_total", {"no_call": "example", **OF}, 1,
    ),
    "answers that hold calls": (
        [{**OF, "no_call": "example"}, {**OF, "calls": 2}, {**OF, "status": 502}],
        "answers_total", {"no_call": "none", **OF}, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAMPLES)
def test_what_is_reported_is_counted(case: str) -> None:
    reports, name, labels, counted = SAMPLES[case]
    metrics = Metrics()
    for fields in reports:
        ended(metrics, **fields)
    assert value(metrics, f"toolcall_{name}", **labels) == counted


def test_running_requests_are_those_that_have_not_ended() -> None:
    metrics = Metrics()
    metrics.begin(Report(), {})
    ended(metrics)
    assert value(metrics, "toolcall_running_requests") == 1


def test_a_request_without_an_upstream_says_nothing_about_one() -> None:
    metrics = Metrics()
    ended(metrics, upstream=None)
    ended(metrics, upstream="gpu-1", status=None)
    assert not [name for name, _ in told(metrics) if name == "toolcall_upstream_up"]


def test_past_a_limit_models_are_one_label() -> None:
    metrics = Metrics()
    for number in range(MAX_MODELS + 50):
        ended(metrics, model=f"model-{number}")
    models = {dict(labels)["model"] for name, labels in told(metrics) if name == "toolcall_requests_total"}
    assert len(models) == MAX_MODELS + 1
    other = {"api": "chat", "model": "other", "mode": "pass", "format": "none", "status": "200"}
    other |= {"upstream": "none", "tenant": "none"}
    assert value(metrics, "toolcall_requests_total", **other) == 50


def test_past_a_limit_tenants_are_one_label() -> None:
    metrics = Metrics()
    for number in range(MAX_MODELS + 50):
        ended(metrics, tenant=f"tenant-{number}")
    tenants = {dict(labels)["tenant"] for name, labels in told(metrics) if name == "toolcall_requests_total"}
    assert len(tenants) == MAX_MODELS + 1
    assert "other" in tenants


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 429, 502, 503, None])
def test_refused_models_take_no_labels(status: int | None) -> None:
    metrics = Metrics()
    for number in range(MAX_MODELS + 1):
        ended(metrics, model=f"made-up-{number}", status=status)
    ended(metrics, model="listed", status=502, model_listed=True)
    ended(metrics, model="answered", status=200)
    ended(metrics, model="answered", status=429)
    ended(metrics, model="faulty", status=502, attempts=[Attempt("first", 0.0, status=200)])
    models = {dict(labels)["model"] for name, labels in told(metrics) if name == "toolcall_requests_total"}
    assert models == {"other", "listed", "answered", "faulty"}


def test_a_hostile_model_name_is_one_bounded_label() -> None:
    metrics = Metrics()
    ended(metrics, model='x"}\n evil{a="' + "y" * 10_000 + "\ud800")
    (model,) = {dict(labels)["model"] for name, labels in told(metrics) if name == "toolcall_requests_total"}
    assert len(model) == 100
    assert model.startswith('x"}\n evil')


def test_a_missing_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(SettingsError, match=r"pip install .*\[metrics\]"):
        Metrics()


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    metrics = Metrics()
    known = {family.name for family in parser.text_string_to_metric_families(metrics.render()[0].decode())}
    path = Path(__file__).parent.parent.parent / "examples" / "grafana" / "toolcall.json"
    panels = json.loads(path.read_text("utf-8"))["panels"]
    asked = {name for panel in panels for target in panel["targets"] for name in _NAMES.findall(target["expr"])}
    assert len(asked) >= 10
    assert {re.sub(r"_(total|bucket)$", "", name) for name in asked} <= known
    ended(metrics, model="m", tenant="t", upstream="u", outcomes=("clean",), attempts=[Attempt("first", 10.0)],
          prompt_tokens=1, own=0.1, mode="prompt")  # fmt: skip
    labels = {label for _, given in told(metrics) for label, _ in given}
    by = re.compile(r"by \(([^)]*)\)")
    used = {
        label.strip()
        for panel in panels
        for target in panel["targets"]
        for found in by.findall(target["expr"])
        for label in found.split(",")
    }
    assert used <= labels
    assert {"model", "tenant", "upstream"} <= used


def test_names_follow_the_rules_of_prometheus() -> None:
    names = {name for name, _ in told(Metrics())}
    assert all(
        re.fullmatch(r"toolcall_[a-z_]+(?:_seconds|_total|_requests|_up|_bucket|_sum|_count|_created)", name)
        for name in names
    )


def test_a_file_that_another_worker_has_just_made_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counter_1.db").touch()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert told(Metrics()) == {}
