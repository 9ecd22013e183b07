"""Divides a model's text into spans of prose, reasoning, markup and calls, from the events of a parser.

A parser finds possible calls. The calls of the exchange show which of them the client got (`settle`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .formats.base import ToolFormat
from .formats.near_misses import places, unknown_name
from .model import ToolSet
from .parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text, UnknownCall

_DEEPEST = 16


@dataclass(slots=True)
class WrittenCall:
    """A call that the parser read. span: its number among the spans, where the text holds it in one piece."""

    name: str
    id: str | None
    row: int
    in_reasoning: bool
    arguments: str = ""
    complete: bool = False
    repaired: bool = False
    span: int | None = None


@dataclass(slots=True)
class TextSpans:
    """Maps events to spans of the text. names: of the offered tools. See `explain` for spans and faults."""

    text: str
    names: Sequence[str]
    at: int = 0
    spans: list[dict[str, Any]] = field(default_factory=list)
    written: list[WrittenCall] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[dict[str, Any]] = field(default_factory=list)
    """The faults that are calls of unknown tools, or calls whose arguments are not an object."""
    near_misses: list[dict[str, Any]] = field(default_factory=list)
    stop: str | None = None
    """The marker with which the model began another speaker's turn."""

    def take(self, events: list[Event], row: int) -> None:
        """Add the parser's events for the piece in that row."""
        for event in events:
            match event:
                case Text(text):
                    self._lay(text, "text", row)
                case Reasoning(text, markup, _):
                    self._lay(text, "markup" if markup else "reasoning", row)
                case CallStart(name, call_id):
                    self.written.append(WrittenCall(name, call_id, row, event.in_reasoning))
                case CallArgs(text):
                    self.written[-1].arguments += text
                case CallEnd(complete, repaired, raw):
                    call = self.written[-1]
                    call.complete, call.repaired = complete, repaired
                    before = len(self.spans)
                    self._lay(raw.strip(), "call", row)
                    call.span = len(self.spans) - 1 if len(self.spans) > before else None
                case Malformed(raw, reason, name):
                    start = self.text.find(raw, self.at) if raw else -1
                    start = max(start, self.text.find(raw)) if start < 0 else start
                    why = reason if name is None else unknown_name(name, self.names)
                    self._fault(start, start + len(raw), why)
                    self.unknown.append(self.faults[-1])
                case UnknownCall(name, malformed):
                    why = (
                        f"the arguments of {name} are not a JSON object"
                        if malformed
                        else unknown_name(name, self.names)
                    )
                    self._fault(self.at, self.at, why)
                    self.unknown.append(self.faults[-1])
                case Stop(marker):
                    start = self.text.find(marker, self.at)
                    self.stop = marker
                    self._fault(start, start + len(marker), "the model began another speaker's turn")

    def end(self, row: int) -> None:
        """End the text with that row: the rest that no event covers is dropped."""
        if self.at < len(self.text):
            self.spans.append({"start": self.at, "end": len(self.text), "kind": "dropped", "row": row})

    def _lay(self, text: str, kind: str, row: int) -> None:
        start = self.text.find(text, self.at)
        if start < 0:
            return
        if start > self.at:
            self.spans.append({"start": self.at, "end": start, "kind": "dropped", "row": row})
        self.at = start + len(text)
        last = self.spans[-1] if self.spans else {}
        if kind != "call" and (last.get("kind"), last.get("row"), last.get("end")) == (kind, row, start):
            last["end"] = self.at
        elif self.at > start:
            self.spans.append({"start": start, "end": self.at, "kind": kind, "row": row})

    def _fault(self, start: int, end: int, why: str) -> None:
        self.faults.append({"start": max(start, 0), "end": max(end, 0), "why": why})

    @property
    def thoughts(self) -> list[tuple[int, int]]:
        """The ranges of the text that are reasoning or its markup."""
        return [(span["start"], span["end"]) for span in self.spans if span["kind"] in {"reasoning", "markup"}]

    # -- results -------------------------------------------------------------------------------------------------

    def settle(self, calls: Sequence[dict[str, Any]], *, thoughts_last: bool) -> list[int | None]:
        """Give each of the client's calls its place in the text. Returns, for each written call, the number of the
        client's call that it became, or None.

        thoughts_last: of the same call in a thought and after it, the one after it is matched first.
        """
        became: list[int | None] = [None] * len(self.written)
        # The written calls not yet matched, by name, in the order in which they are tried.
        open_: dict[str, list[tuple[int, Any]]] = {}
        for at in sorted(range(len(became)), key=lambda at: thoughts_last and self.written[at].in_reasoning):
            one = self.written[at]
            open_.setdefault(one.name, []).append((at, _loose(one.arguments)))
        for number, call in enumerate(calls):
            same = open_.get(call["name"])
            if not same:
                continue
            wanted = _loose(call["arguments"])
            found, _ = same.pop(next((at for at, (_, written) in enumerate(same) if written == wanted), 0))
            became[found] = number
            own = self.written[found]
            call["complete"], call["repaired"] = own.complete, own.repaired
            start = end = self.at
            if own.span is not None:
                span = self.spans[own.span]
                span["call"] = number
                call["start"], call["end"] = start, end = span["start"], span["end"]
            if not own.complete:
                self._fault(start, end, f"the call of {own.name} is cut off")
            elif own.repaired:
                self._fault(start, end, f"the arguments of {own.name} were no JSON as written; repaired")
        return became

    def add_near_misses(self, tools: ToolSet | None, syntax: ToolFormat, *, thoughts: bool) -> None:
        """Add the near misses, with reasons. thoughts: no calls are read in thoughts. Call before `left`."""
        marked = [span for span in self.spans if span["kind"] in {"call", "dropped"}] + self.unknown
        calls = [(place["start"], place["end"]) for place in marked]
        found = places(self.text, self.thoughts if thoughts else (), tools=tools, syntax=syntax, calls=calls)
        self.near_misses += [{"start": place.start, "end": place.end, "why": place.why} for place in found]

    def left(self, became: Sequence[int | None], content: str) -> None:
        """Set the kind of spans that are not the client's calls: text outside the client's content is dropped."""
        for one, number in zip(self.written, became, strict=True):
            if number is None and one.span is not None:
                self.spans[one.span]["kind"] = "reasoning" if one.in_reasoning else "text"
        at = 0
        for span in self.spans:
            piece = self.text[span["start"] : span["end"]]
            if span["kind"] == "call" or not content.startswith(piece, at):
                span["kind"] = "dropped" if span["kind"] == "text" else span["kind"]
            else:
                at += len(piece)

    def tell_refused(self, became: Sequence[int | None], why: str) -> None:
        """Add why each other written call is not the client's. why: the reason for a well-formed one."""
        for one, number in zip(self.written, became, strict=True):
            if number is not None:
                continue
            span = {"start": self.at, "end": self.at} if one.span is None else self.spans[one.span]
            said = f"the call of {one.name} is none of the client's: "
            if one.in_reasoning:
                said += "it is in the model's reasoning"
            elif one.complete and not one.repaired:
                said += why
            else:
                self._fault(span["start"], span["end"], said + "its arguments are no complete JSON as written")
                continue
            self.near_misses.append({"start": span["start"], "end": span["end"], "why": said})


def _loose(arguments: str) -> Any:
    """Arguments in a form that compares equal whatever their types became: `"2"` is 2."""
    return _untyped(arguments, _DEEPEST)


def _untyped(value: Any, depth: int) -> Any:
    if depth and isinstance(value, str):
        try:
            return _untyped(json.loads(value), depth - 1)
        except (ValueError, RecursionError):
            return value
    if depth and isinstance(value, dict):
        return {name: _untyped(item, depth - 1) for name, item in value.items()}
    if depth and isinstance(value, list):
        return [_untyped(item, depth - 1) for item in value]
    return value
