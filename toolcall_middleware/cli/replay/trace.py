"""A trace, explained: what the model got and wrote, why each piece became text or a call, and the client's calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...explain import case_of, explain
from ...observe.traces import Trace, TraceError, read_trace
from ...upstream.backend_memory import LEAST_TOKENS
from .._console import console, line
from ..command import UsageError, cut, safe

_SHOWN = 72
_KINDS = {
    "text": "left as text",
    "reasoning": "is what the model thinks",
    "markup": "is the markup around it",
    "call": "became a call",
    "dropped": "left as nothing",
}
_STYLES = {"call ": "bold green", "! ": "bold red", "no call: ": "bold yellow", "outcomes: ": "bold"}
"""How a line of the page is marked that begins so."""


def show_trace(data: bytes, *, as_json: bool, case: str | None, template: str | None) -> int:
    """Print it; 1 when something in it is malformed. Raises UsageError for a file that cannot be read or written.

    template: the setting of that name, which traces do not record.
    """
    try:
        trace = read_trace(data)
    except TraceError as error:
        raise UsageError(str(error)) from None
    explained = explain(trace.rows, trace.summary, template)
    if case is not None:
        text = json.dumps(case_of(trace.rows, trace.summary, template), ensure_ascii=False) + "\n"
        try:
            Path(case).write_text(text, "utf-8")
        except OSError as error:
            raise UsageError(f"{case}: {error.strerror}") from None
    if as_json:
        print(json.dumps({"summary": trace.summary, "explained": explained}, indent=2))
    else:
        page = console()
        for text in _lines(trace, explained):
            mark = next((mark for mark in _STYLES if text.startswith(mark)), "")
            line(page, safe(text.removeprefix(mark)), label=mark, style=_STYLES.get(mark, ""))
    return 1 if explained["faults"] or explained["error"] or trace.summary.get("error") else 0


def _lines(trace: Trace, explained: dict[str, Any]) -> list[str]:
    summary, text = trace.summary, explained["text"]
    head = (
        f"{summary.get('id')}: {summary.get('api')} {summary.get('model')} mode={summary.get('mode')} "
        f"format={summary.get('format')} status={summary.get('status')} end={summary.get('end')}"
    )
    lines = [head]
    for row in trace.rows:
        if row["kind"] == "decision":
            lines.append(f"{row['at']:9.1f} ms  {row.get('what')}: {row.get('value')} ({row.get('why')})")
        elif row["kind"] == "error":
            lines.append(f"{row['at']:9.1f} ms  error {row.get('code')}: {row.get('message')}")
    for span in explained["spans"]:
        row = trace.rows[span["row"]] if 0 <= span["row"] < len(trace.rows) else {"at": 0.0}
        why = _KINDS[span["kind"]]
        if "call" in span:
            why += f" of {explained['calls'][span['call']]['name']}"
        lines.append(f"{row['at']:9.1f} ms  {span['start']}-{span['end']} {why}: {_short(text, span)}")
    for number, call in enumerate(explained["calls"]):
        outcome = f" ({call['outcome']})" if call.get("outcome") else ""
        lines.append(f"call {number}: {call['name']} {call['arguments']}{outcome}")
    lines += [f"! {fault['why']} (at {fault['start']}: {_short(text, fault)})" for fault in explained["faults"]]
    lines += [f"no call: {one['why']} (at {one['start']}: {_short(text, one)})" for one in explained["near_misses"]]
    if _is_swallowed(explained, summary):
        lines.append(
            f"no call: the backend's answer is empty, though it counted {summary['completion_tokens']} tokens: its "
            "engine's own parser may have taken a call out of it"
        )
        if summary.get("format") != "json":
            lines[-1] += "; format=json asks for calls that engines leave alone"
    if explained["error"]:
        lines.append(f"! the backend said: {explained['error']}")
    if explained["refused"]:
        lines.append(f"! the client got an error: {explained['refused']}")
    outcomes = ", ".join(summary.get("outcomes") or ()) or "none"
    lines.append(f"outcomes: {outcomes}; finish_reason: {', '.join(summary.get('finish_reasons') or ()) or 'none'}")
    return lines


def _is_swallowed(explained: dict[str, Any], summary: dict[str, Any]) -> bool:
    """Whether the model wrote tokens that are missing from the answer, as when an engine's parser swallows a call."""
    came = ("text", "calls", "reasoning", "native", "error", "refused")
    counted = 0 if summary.get("estimated") else summary.get("completion_tokens") or 0
    return (
        counted >= LEAST_TOKENS and summary.get("end") == "complete" and not any(explained.get(name) for name in came)
    )


def _short(text: str, span: dict[str, Any]) -> str:
    return json.dumps(cut(text[span["start"] : span["end"]], _SHOWN), ensure_ascii=False)
