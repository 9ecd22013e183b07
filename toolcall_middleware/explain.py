"""A recorded exchange, explained: what of the model's text became what, by which delta it left, and why.

The text is read again, piece by piece as the backend sent it, with the format and the tools of the request. For
`replay` and the inspector, which show it; linear in the length of the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import FormatError, ToolCallError
from .formats import registry
from .formats.base import ParserOptions
from .formats.near_misses import unknown_name
from .model import ToolSet
from .observe.recorder import Row
from .parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text
from .request.parse import read_request
from .settings import Settings
from .wire import openai
from .wire.sse import EventReader

_REASONING = ("reasoning", "reasoning_content")
_MAX_SHOWN = 200


@dataclass(slots=True)
class Piece:
    """A piece of the model's text: where it begins in the whole, and the row that brought it."""

    start: int
    text: str
    row: int


@dataclass(slots=True)
class Answer:
    """The backend's last answer, its first choice: `pieces` of its text, and what it said in fields of their own."""

    pieces: list[Piece] = field(default_factory=list)
    reasoning: str = ""
    native: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    error: str | None = None

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(piece.text for piece in self.pieces)

    def take(self, message: Any, row: int) -> None:
        """A delta or a message."""
        if not isinstance(message, dict):
            return
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        if isinstance(content, str) and content:
            content = content.encode("utf-8", "replace").decode()  # half an emoji cannot be shown
            last = self.pieces[-1] if self.pieces else None
            start = 0 if last is None else last.start + len(last.text)
            self.pieces.append(Piece(start, content, row))
        for name in _REASONING:
            if isinstance(value := message.get(name), str) and value:
                self.reasoning += value
                break
        if isinstance(calls := message.get("tool_calls"), list):
            self.native += [call for call in calls if isinstance(call, dict)]


def answer_of(rows: Sequence[Row]) -> Answer:
    """What the backend wrote in its last attempt."""
    begin = next((at for at in range(len(rows) - 1, -1, -1) if rows[at]["kind"] == "ask"), 0)
    told = [(at, row) for at, row in enumerate(rows) if at >= begin and row["kind"] == "backend"]
    answer = Answer()
    if not told:
        return answer
    first = str(told[0][1].get("data", "")).lstrip()
    if not first.startswith("{"):
        reader = EventReader()
        for at, row in told:
            for event in reader.feed(str(row.get("data", "")).encode()):
                if event.data is not None:
                    _take_chunk(answer, openai.read_value(event.data), at, "delta")
        return answer
    whole = "".join(str(row.get("data", "")) for _, row in told)
    _take_chunk(answer, openai.read_value(whole.encode()), told[-1][0], "message")
    return answer


def _take_chunk(answer: Answer, chunk: Any, row: int, name: str) -> None:
    if not isinstance(chunk, dict):
        return
    if chunk.get("error"):
        answer.error = json.dumps(chunk["error"], ensure_ascii=False)[:_MAX_SHOWN]
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            answer.take(choice.get(name), row)
            answer.finish_reason = choice.get("finish_reason") or answer.finish_reason


@dataclass(slots=True)
class _Reading:
    """Events, laid over the text."""

    text: str
    names: Sequence[str]
    at: int = 0
    spans: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)

    def take(self, events: list[Event], row: int) -> None:
        for event in events:
            match event:
                case Text(text):
                    self._lay(text, "text", row)
                case Reasoning(text, markup, _):
                    self._lay(text, "markup" if markup else "reasoning", row)
                case CallStart(name, call_id):
                    self.calls.append({"name": name, "id": call_id, "arguments": "", "row": row})
                case CallArgs(text):
                    self.calls[-1]["arguments"] += text
                case CallEnd(complete, repaired, raw):
                    self._end(complete=complete, repaired=repaired, raw=raw, row=row)
                case Malformed(raw, reason, name):
                    self._fault(raw, reason, name)
                case Stop(marker):
                    start = self.text.find(marker, self.at)
                    self.faults.append(_fault(start, start + len(marker), "the model began another speaker's turn"))

    def _lay(self, text: str, kind: str, row: int, **more: Any) -> None:
        start = self.text.find(text, self.at)
        if start < 0:
            return
        if start > self.at:
            self.spans.append({"start": self.at, "end": start, "kind": "dropped", "row": row})
        self.at = start + len(text)
        if self.at > start:
            self.spans.append({"start": start, "end": self.at, "kind": kind, "row": row, **more})

    def _end(self, *, complete: bool, repaired: bool, raw: str, row: int) -> None:
        call = self.calls[-1]
        call["complete"], call["repaired"] = complete, repaired
        raw = raw.strip()
        start = self.text.find(raw, self.at) if raw else -1
        if start >= 0:
            self._lay(raw, "call", row, call=len(self.calls) - 1)
            call["start"], call["end"] = start, start + len(raw)
        where = call.get("start", self.at), call.get("end", self.at)
        if not complete:
            self.faults.append(_fault(*where, f"the call of {call['name']} is cut off"))
        elif repaired:
            self.faults.append(_fault(*where, f"the arguments of {call['name']} were no JSON as written; repaired"))

    def _fault(self, raw: str, reason: str, name: str | None) -> None:
        start = self.text.find(raw, self.at) if raw else -1
        start = max(start, self.text.find(raw)) if start < 0 else start
        why = reason if name is None else unknown_name(name, self.names)
        self.faults.append(_fault(start, start + len(raw), why))


def _fault(start: int, end: int, why: str) -> dict[str, Any]:
    return {"start": max(start, 0), "end": max(end, 0), "why": why}


def explain(rows: Sequence[Row], summary: dict[str, Any], template: str | None = None) -> dict[str, Any]:
    """What the inspector and `replay` show of an exchange, as JSON.

    text: the model's. spans: they cover it in order; `kind` is text, reasoning, markup, call or dropped, `row` the row
    of the backend's piece with which it was decided, `client` the row of the delta that it left by. calls, faults:
    offsets are characters of the text. prompt: messages in parts, each `{"text", "injected"}`.
    template: whose chat template the format `template` means, which no trace tells; without it `auto` reads.
    """
    body = next((str(row.get("data", "")) for row in rows if row["kind"] == "request"), "")
    asked = next((str(row.get("data", "")) for row in reversed(rows) if row["kind"] == "ask"), "")
    answer = answer_of(rows)
    tools = tools_of(body.encode())
    reading = _read(answer, tools, _format_of(summary, template), template, _model_of(summary))
    _link(reading.spans, rows)
    return {
        "text": reading.text,
        "pieces": [{"start": piece.start, "row": piece.row} for piece in answer.pieces],
        "spans": reading.spans,
        "calls": reading.calls,
        "faults": reading.faults,
        "reasoning": answer.reasoning,
        "native": answer.native[:1000],
        "finish_reason": answer.finish_reason,
        "error": answer.error,
        "tools": list(tools.by_name) if tools is not None else [],
        "prompt": prompt_parts(body, asked),
    }


def _read(answer: Answer, tools: ToolSet | None, name: str, template: str | None, model: str) -> _Reading:
    reading = _Reading(answer.text, () if tools is None else list(tools.by_name))
    options = ParserOptions(keep_raw=True, unknown_tool="error", parse_reasoning=True)
    parser = registry.of_template(name, template, model).parser(tools, options)
    for piece in answer.pieces:
        reading.take(parser.feed(piece.text), piece.row)
    last = answer.pieces[-1].row if answer.pieces else -1
    reading.take(parser.finish(cut=answer.finish_reason in {"length", "content_filter"}), last)
    if reading.at < len(reading.text):
        end = {"start": reading.at, "end": len(reading.text), "kind": "dropped", "row": last}
        reading.spans.append(end)
    return reading


def _format_of(summary: dict[str, Any], template: str | None) -> str:
    name = summary.get("format")
    if name == registry.TEMPLATE and template is not None:
        return registry.TEMPLATE
    if isinstance(name, str) and not registry.is_place(name):
        try:
            registry.get(name)
        except FormatError:
            return "auto"
        return name
    return "auto"


def _model_of(summary: dict[str, Any]) -> str:
    model = summary.get("model")
    return model if isinstance(model, str) else ""


def _link(spans: list[dict[str, Any]], rows: Sequence[Row]) -> None:
    """To each span the row of the client's delta that came of the same piece."""
    left: dict[int, int] = {}
    for at, row in enumerate(rows):
        if row["kind"] == "client" and isinstance(cause := row.get("of"), int):
            left.setdefault(cause, at)
    for span in spans:
        span["client"] = left.get(span["row"]) if span["kind"] != "dropped" else None


def tools_of(body: bytes) -> ToolSet | None:
    """The tools that a request offers; None where it cannot be read."""
    try:
        request = read_request(body, Settings())
    except ToolCallError:
        return None
    found: ToolSet | None = getattr(request, "tools", None)
    return found


def prompt_parts(body: str, asked: str) -> list[dict[str, Any]]:
    """The messages that the backend got, or the prompt that the model's template wrote of them, in parts: what stood
    in the client's messages, and what was injected.
    """
    own = [text for message in _messages(body) if (text := _content(message))]
    value = openai.read_value(asked.encode()) if asked else None
    if isinstance(value, dict) and isinstance(prompt := value.pop("prompt", None), str):
        return [{"role": "prompt", "parts": _in_order(prompt, own), "more": value}]
    own.sort(key=len, reverse=True)
    shown = []
    for message in _messages(asked):
        content = _content(message)
        more = {name: value for name, value in message.items() if name not in {"role", "content"}}
        parts = _marked(content, own)
        shown.append({"role": str(message.get("role", "")), "parts": parts, "more": more or None})
    return shown


def _in_order(prompt: str, own: Sequence[str]) -> list[dict[str, Any]]:
    """A prompt in one text, in which the client's messages stand in their order where they stand unchanged."""
    cut: list[tuple[str, bool]] = []
    end = len(prompt)
    for text in reversed(own):  # from the end: tools stand in front, and may hold the same words
        start = prompt.rfind(text, 0, end)
        if start >= 0:
            cut += [(prompt[start + len(text) : end], True), (text, False)]
            end = start
    cut.append((prompt[:end], True))
    return [{"text": text, "injected": injected} for text, injected in reversed(cut) if text]


def _marked(content: str, own: Sequence[str]) -> list[dict[str, Any]]:
    known = next((text for text in own if text in content), None)
    if known is None:
        return [{"text": content, "injected": True}] if content else []
    start = content.index(known)
    cut = (content[:start], True), (known, False), (content[start + len(known) :], True)
    return [{"text": text, "injected": injected} for text, injected in cut if text]


def _messages(body: str) -> list[dict[str, Any]]:
    value = openai.read_value(body.encode()) if body else None
    messages = value.get("messages") if isinstance(value, dict) else None
    return [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def case_of(rows: Sequence[Row], summary: dict[str, Any], template: str | None = None) -> dict[str, Any]:
    """The exchange as a golden case: the model's text, the tools, and what is read from it today."""
    body = next((str(row.get("data", "")) for row in rows if row["kind"] == "request"), "")
    value = openai.read_value(body.encode()) if body else None
    answer = answer_of(rows)
    name = _format_of(summary, template)
    reading = _read(answer, tools_of(body.encode()), name, template, _model_of(summary))
    content = "".join(reading.text[span["start"] : span["end"]] for span in reading.spans if span["kind"] == "text")
    thought = "".join(
        reading.text[span["start"] : span["end"]] for span in reading.spans if span["kind"] == "reasoning"
    )
    return {
        "id": f"trace-{summary.get('id') or 'unknown'}",
        "source": f"a trace of {summary.get('model') or 'unknown'}",
        "format": name,
        "text": answer.text,
        "tools": value.get("tools") if isinstance(value, dict) else None,
        "expected_tool_calls": [_golden(call) for call in reading.calls],
        "expected_content": content.strip() or None,
        "expected_reasoning": thought.strip() or None,
        "content_check": "exact",
        "args_check": "exact",
        "cut": answer.finish_reason in {"length", "content_filter"},
        "options": {"parse_reasoning": True},
        "note": "; ".join(fault["why"] for fault in reading.faults),
    }


def _golden(call: dict[str, Any]) -> dict[str, Any]:
    text = call["arguments"]
    return {"name": call["name"], "arguments": openai.read_value(text.encode()), "arguments_text": text}
