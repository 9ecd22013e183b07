"""Explains a recorded exchange: what each part of the model's text became, which delta emitted it, and why.

The exchange is run again (rerun.py), which gives the client's calls and their outcomes. A parser then reads the model's
text in the pieces that the backend sent, only to find the place of each part. For `replay` and the inspector.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from .formats.base import ParserOptions, ToolFormat
from .model import Tool, ToolSet
from .observe.report import Row
from .parsing.text.reasoning import OpenedAnswer, OpenedReasoning
from .rerun import Rerun, rerun, tools_of
from .response.choice import CUT
from .response.outcome import FinishedCall
from .text_spans import TextSpans
from .wire import openai
from .wire.chat_answer import ChatAnswer, Choice

_MAX_SHOWN = 200


def answer_of(rows: Sequence[Row]) -> ChatAnswer:
    """The backend's answer in its last attempt, with a choice 0. A piece of text is marked with its row."""
    begin = next((at for at in range(len(rows) - 1, -1, -1) if rows[at]["kind"] == "ask"), 0)
    read = ChatAnswer()
    for at, row in enumerate(rows):
        if at >= begin and row["kind"] == "backend":
            read.feed(str(row.get("data", "")).encode(), at)
    read.finish()
    first = read.choices.setdefault(0, Choice())
    # A lone surrogate cannot be shown.
    first.pieces = [(row, text.encode("utf-8", "replace").decode()) for row, text in first.pieces]
    return read


def explain(rows: Sequence[Row], summary: dict[str, Any], template: str | None = None) -> dict[str, Any]:
    """The explanation of an exchange that the inspector and `replay` show, as JSON.

    text: the model's. spans: they cover it in order; `kind` is text, reasoning, markup, call or dropped, `row` the row
    of the backend's piece that decided it, `client` the row of the delta that emitted it. calls: those that the client
    got, each with its `outcome`; a call in the text has offsets. refused: the error that the client got. faults: what
    is malformed. near_misses: text that looks like a call but is not one, and why. Offsets count characters of the
    text. outcomes: of all finished calls. prompt: messages in parts, each `{"text", "injected"}`.
    template: the setting of that name, which traces do not record; without it the format `template` becomes `auto`.
    """
    body = _body_of(rows)
    asked = next((str(row.get("data", "")) for row in reversed(rows) if row["kind"] == "ask"), "")
    seen = _read(rows, summary, template)
    spans, again = seen.spans, seen.again
    answer, error = seen.answer.choices[0], seen.answer.error
    _link(spans.spans, rows)
    tools = tools_of(body.encode())
    starts = accumulate((len(text) for _, text in answer.pieces), initial=0)
    return {
        "text": spans.text,
        "pieces": [{"start": start, "row": row} for start, (row, _) in zip(starts, answer.pieces, strict=False)],
        "spans": spans.spans,
        "calls": seen.calls,
        "faults": sorted(spans.faults, key=lambda fault: int(fault["start"])),
        "near_misses": sorted(spans.near_misses, key=lambda one: int(one["start"])),
        "outcomes": [{"name": call.name, "outcome": call.outcome.value, "path": call.path} for call in again.finished],
        "reasoning": answer.reasoning,
        "native": [entry for entries in answer.entries for entry in entries if isinstance(entry, dict)][:1000],
        "finish_reason": answer.finish_reason,
        "error": json.dumps(error, ensure_ascii=False)[:_MAX_SHOWN] if error else None,
        "refused": again.error,
        "tools": list(tools.by_name) if tools is not None else [],
        "prompt": prompt_parts(body, asked),
    }


@dataclass(slots=True)
class _Seen:
    """An exchange, read. became: for each call in the text, the number of the client's call."""

    answer: ChatAnswer
    spans: TextSpans
    calls: list[dict[str, Any]]
    became: list[int | None]
    again: Rerun
    opened: OpenedReasoning | None


def _read(rows: Sequence[Row], summary: dict[str, Any], template: str | None) -> _Seen:
    read, again = answer_of(rows), rerun(rows, summary, template)
    answer = read.choices[0]
    unknown, in_thoughts = again.settings.unknown_tool, again.settings.reasoning == "parse"
    options = ParserOptions(
        keep_raw=True,
        parse_reasoning=True,
        unknown_tool="error" if unknown == "text" else unknown,
        tell_unknown=again.calls is not None,
        repair_names=again.settings.repair_names,
    )
    opened = _opened(answer, again)
    spans = _spans_of(answer.pieces, again.syntax, again.tools, options, answer, opened)
    if again.calls is None:  # then all calls in the text count as the client's
        calls = [{"name": one.name, "id": one.id, "arguments": one.arguments, "row": one.row} for one in spans.written]
    else:
        calls = again.calls
        _add_outcomes(calls, again.finished)
    became = spans.settle(calls, thoughts_last=not in_thoughts)
    if again.complete:
        spans.add_near_misses(again.tools, again.syntax, thoughts=not in_thoughts)
        spans.left(became, again.content)
        spans.tell_refused(became, _why_not(again, len(calls)))
    return _Seen(read, spans, calls, became, again, opened)


def _opened(answer: Choice, again: Rerun) -> OpenedReasoning | None:
    """The thought that the text begins in. None where the engine removed it, or the guess was wrong."""
    opened = None if answer.reasoning else again.opened
    if opened is None or again.settings.reasoning_start != "auto":
        return opened
    return opened if opened.close in answer.text else None


def _spans_of(
    pieces: Sequence[tuple[int, str]],
    syntax: ToolFormat,
    tools: ToolSet | None,
    options: ParserOptions,
    answer: Choice,
    opened: OpenedReasoning | None = None,
) -> TextSpans:
    """The spans of a text that ends as the answer does, by a parser with these options."""
    spans = TextSpans("".join(text for _, text in pieces), () if tools is None else list(tools.by_name))
    make = functools.partial(syntax.parser, tools, options)
    parser = make() if opened is None else OpenedAnswer(make, opened, sure=True, parsed=True)
    for row, text in pieces:
        spans.take(parser.feed(text), row)
    last = pieces[-1][0] if pieces else -1
    spans.take(parser.finish(cut=answer.finish_reason in CUT), last)
    spans.end(last)
    return spans


def _add_outcomes(calls: list[dict[str, Any]], finished: Sequence[FinishedCall]) -> None:
    """Give each of the client's calls its outcome. Outcomes of earlier attempts precede those of the last."""
    left = list(finished)
    for call in reversed(calls):
        while left and left[-1].name != call["name"]:
            left.pop()
        outcome = left.pop().outcome.value if left else None
        call["outcome"] = outcome
        call["complete"], call["repaired"] = outcome not in {None, "cut"}, outcome == "repaired"


def _why_not(again: Rerun, calls: int) -> str:
    """Why a well-formed call is not among the client's calls."""
    if again.error is not None:
        return again.error
    if again.most is not None and calls >= again.most:
        return f"it follows the last allowed call, number {again.most}"
    return "it follows the end of the answer"


def _body_of(rows: Sequence[Row]) -> str:
    return next((str(row.get("data", "")) for row in reversed(rows) if row["kind"] == "request"), "")


def _link(spans: list[dict[str, Any]], rows: Sequence[Row]) -> None:
    """Give each span the row of the client's delta that resulted from the same piece."""
    left: dict[int, int] = {}
    for at, row in enumerate(rows):
        if row["kind"] == "client" and isinstance(cause := row.get("of"), int):
            left.setdefault(cause, at)
    for span in spans:
        span["client"] = left.get(span["row"]) if span["kind"] != "dropped" else None


def offered_in(rows: Sequence[Row]) -> list[dict[str, Any]] | None:
    """The tools of an exchange's request, as it has them; None where it offers none."""
    value = openai.read_value(_body_of(rows).encode())
    tools = value.get("tools") if isinstance(value, dict) else None
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else None


def prompt_parts(body: str, asked: str) -> list[dict[str, Any]]:
    """The messages that the backend got, or the prompt that the model's template made of them, in parts: text of the
    client's messages, and injected text.
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
    """The parts of a prompt in one text, which holds the client's unchanged messages in their order."""
    cut: list[tuple[str, bool]] = []
    end = len(prompt)
    for text in reversed(own):  # from the end: the tools come first, and may hold the same text
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
    """The exchange as a golden case: the model's text, the tools, and what the current parser reads.

    A case tests a parser. It expects the client's calls as they are written in the text; its note has what settings
    changed beyond that (types, the number of calls).
    """
    seen = _read(rows, summary, template)
    again, answer, spans = seen.again, seen.answer.choices[0], seen.spans
    tools = offered_in(rows)
    came = [one for one, number in zip(spans.written, seen.became, strict=True) if number is not None]
    options: dict[str, Any] = {"parse_reasoning": any(one.in_reasoning for one in came)}
    text, notes = answer.text, [one["why"] for one in (*spans.faults, *spans.near_misses)]
    if again.calls is not None and again.tools is not None:
        tools = [_definition(tool) for tool in again.tools.tools]
        options["repair_names"] = again.settings.repair_names
        if again.settings.unknown_tool in {"drop", "forward"}:
            options["unknown_tool"] = again.settings.unknown_tool
        opened = seen.opened
        if opened is not None and not text.lstrip().startswith(opened.opening.strip()):
            text = opened.opening + text  # a case has no prompt that opens the thought
    read = _spans_of([(0, text)], again.syntax, again.tools, ParserOptions(keep_raw=True, **options), answer)
    written = [(one.name, one.arguments) for one in read.written]
    if written != (got := [(call["name"], call["arguments"]) for call in seen.calls]):
        notes.append(f"the client got {json.dumps(got, ensure_ascii=False)}")
    content, thought = (
        "".join(read.text[span["start"] : span["end"]] for span in read.spans if span["kind"] == kind)
        for kind in ("text", "reasoning")
    )
    return {
        "id": f"trace-{summary.get('id') or 'unknown'}",
        "source": f"a trace of {summary.get('model') or 'unknown'}",
        "format": again.format,
        "text": text,
        "tools": tools,
        "expected_tool_calls": [_golden(name, arguments) for name, arguments in written],
        "expected_content": content.strip() or None,
        "expected_reasoning": thought.strip() or None,
        "expected_stop": read.stop,
        "content_check": "exact",
        "args_check": "exact",
        "cut": answer.finish_reason in CUT,
        "options": options,
        "note": "; ".join(notes),
    }


def _definition(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _golden(name: str, arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": openai.read_value(arguments.encode()), "arguments_text": arguments}
