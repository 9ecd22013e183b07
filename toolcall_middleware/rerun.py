"""Runs a recorded exchange again without a backend, with the same `Exchange`, to find what the client got.

The recorded request, heads and pieces go through an `Exchange` with the settings that were in force and what was known
of the backend then. A trace may be anybody's: nothing is loaded or imported that it names.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .errors import FormatError, ToolCallError
from .exchange import Body, BrokenOff, Count, Done, Exchange, Fail, Failed, Forward, Head, Request, Send, State
from .exchange import Event as Happened
from .formats import registry
from .formats.base import ToolFormat
from .model import ToolSet
from .observe.report import Row
from .parsing.text.reasoning import OpenedReasoning
from .request.parse import ChatRequest, read_request
from .response.outcome import FinishedCall
from .settings import OPTIONS, Settings
from .upstream.backend_memory import BackendMemory, Fact, PromptFormat, ReasoningStart, Topic
from .wire import openai
from .wire.chat_answer import ChatAnswer

_log = logging.getLogger("toolcall_middleware")
_TOPICS = frozenset(topic.value for topic in Topic)
_LEFT_OUT = frozenset({"send", "template", "tokenizer", "tool_name_pattern"})
"""Settings that do not affect how an answer is read, and would load or run something."""
_READING = frozenset({State.SNIFFING, State.COLLECTING, State.STREAMING, State.TAPPING, State.PASSING})


@dataclass(slots=True, kw_only=True)
class Rerun:
    """The result of an exchange, and how the model's text is read."""

    settings: Settings
    """The settings with which the last answer was read; so are `syntax`, `tools` and `opened`."""
    syntax: ToolFormat
    format: str
    tools: ToolSet | None = None
    opened: OpenedReasoning | None = None
    content: str = ""
    """The text of the first choice that the client got."""
    calls: list[dict[str, Any]] | None = None
    """The client's calls: `name`, `id`, `arguments`, and the `row` of the backend's piece with which each began. None
    if the recording has no request that the middleware reads.
    """
    error: str | None = None
    """The message of the error that the client got."""
    finished: Sequence[FinishedCall] = ()
    """The calls that the model finished, with their outcomes."""
    most: int | None = None
    """How many calls are allowed."""
    complete: bool = False
    """The exchange ended, and the trace has all of it."""


def rerun(rows: Sequence[Row], summary: Mapping[str, Any], template: str | None) -> Rerun:
    """Run a recorded exchange again. template: the setting of that name, which traces do not record."""
    begin = next((at for at in range(len(rows) - 1, -1, -1) if rows[at]["kind"] == "request"), None)
    if begin is not None and (made := _rerun(rows, begin, summary, template)) is not None:
        return made
    name = known_format(summary.get("format"), template)
    syntax = registry.of_template(name, template, str(summary.get("model") or ""))
    body = b"" if begin is None else str(rows[begin].get("data", "")).encode()
    settings = Settings(reasoning="parse", repair_names=False)
    return Rerun(settings=settings, syntax=syntax, format=name, tools=tools_of(body))


def tools_of(body: bytes) -> ToolSet | None:
    """The tools that a request offers; None where it cannot be read."""
    try:
        request = read_request(body, Settings())
    except ToolCallError:
        return None
    return request.tools if isinstance(request, ChatRequest) else None


def _rerun(rows: Sequence[Row], begin: int, summary: Mapping[str, Any], template: str | None) -> Rerun | None:
    body = str(rows[begin].get("data", "")).encode()
    always = any(row["kind"] == "face_request" for row in rows)
    settings, memory = _circumstances(rows[begin:], openai.model_of(body), summary, template)
    with _unlogged():
        try:
            chat = read_request(body, settings, always=always)
        except ToolCallError:
            return None
        if not isinstance(chat, ChatRequest):
            return None
        own = settings.layer(chat.overrides, "request")
        chosen = PromptFormat(chat, own, memory).chosen
        opened = ReasoningStart(chat, own, memory, chosen).opened(constrained=False)
        exchange, got = Exchange(settings, memory, always=always), ChatAnswer()
        error = _drive(exchange, got, rows, begin, is_over=summary.get("end") in ("complete", "error"))
    got.finish()
    first = got.choice(0)
    calls = [{"name": call.name, "id": call.id, "arguments": call.arguments, "row": call.mark} for call in first.calls]
    _recall_ids(calls, rows[begin:])
    is_native = exchange.facts is not None and exchange.facts.mode == "native"
    if is_native:
        chosen = registry.get("auto")
    return Rerun(
        settings=own,
        syntax=chosen if exchange.offers_tools else registry.plain(),
        format="auto" if is_native else own.format,
        tools=chat.callable_tools,
        opened=opened,
        content=first.text,
        calls=calls,
        error=str(got.error.get("message")) if error is None and isinstance(got.error, dict) else error,
        finished=exchange.report,
        most=own.max_tool_calls if chat.choice.parallel else 1,
        complete=exchange.state is State.ENDED,
    )


def _drive(exchange: Exchange, got: ChatAnswer, rows: Sequence[Row], begin: int, *, is_over: bool) -> str | None:
    """Feed an exchange with the events from the row `begin` on. is_over: the last answer is complete.

    Returns the message of the error that it failed with.
    """
    failed: str | None = None

    def tell(event: Happened, row: int) -> None:
        nonlocal failed
        for action in exchange.receive(event):
            match action:
                case Send(data):
                    got.feed(data, row)
                case Forward() if isinstance(event, Body):
                    got.feed(event.data, row)
                case Fail(error):
                    failed = error.message
                case Count(pending):
                    pending.count()
                    tell(Done(), row)

    tell(Request(str(rows[begin].get("data", "")).encode()), begin)
    cut = False
    for at in range(begin + 1, len(rows)):
        row = rows[at]
        match row["kind"]:
            case "head":
                if exchange.state in _READING:
                    tell(Body(b"", last=True), at - 1)
                if exchange.state is State.WAITING:
                    kind = str(row.get("content_type", "")).encode("latin-1", "replace")
                    status = row.get("status")
                    tell(Head(status if isinstance(status, int) else 200, [(b"content-type", kind)]), at)
            case "backend" if exchange.state in _READING:
                tell(Body(str(row.get("data", "")).encode()), at)
            case "event" if exchange.state in _READING:
                broken = row.get("what") == "BrokenOff"
                tell(BrokenOff() if broken else Failed(ToolCallError("upstream_error", "The backend failed.")), at)
            case "cut":
                cut = True
            case _:
                pass
    if is_over and not cut and exchange.state in _READING:
        tell(Body(b"", last=True), len(rows) - 1)
    return failed


def _recall_ids(calls: list[dict[str, Any]], rows: Sequence[Row]) -> None:
    """Give the calls the ids that the client got: an exchange makes new ones each time."""
    sent = ChatAnswer()
    known: list[tuple[Any, Any]] = []
    for row in rows:
        if row["kind"] == "client" and row.get("step") == "call":
            known.append((row.get("name"), row.get("id")))
        elif row["kind"] == "client" and "step" not in row:
            sent.feed(str(row.get("data", "")).encode())
    sent.finish()
    known += [(call.name, call.id) for call in sent.choice(0).calls]
    for call, (name, call_id) in zip(calls, known, strict=False):
        if call["name"] == name:
            call["id"] = call_id


def _circumstances(
    rows: Sequence[Row], model: str, summary: Mapping[str, Any], template: str | None
) -> tuple[Settings, BackendMemory]:
    """The settings in force, and what was known of the backend. Older traces have only format and mode."""
    memory = BackendMemory()
    row = next((row for row in rows if row["kind"] == "settings"), None)
    if row is None:
        values: dict[str, Any] = {name: summary.get(name) for name in ("format", "mode")}
    else:
        values = dict(given) if isinstance(given := row.get("values"), dict) else {}
        for known in given if isinstance(given := row.get("known"), list) else ():
            match known:
                case [str(topic), [*of], bool(own), bool() | int() | str() | [*_] as value] if topic in _TOPICS:
                    fact = Fact(Topic(topic), tuple(map(str, of)))
                    read = tuple(map(str, value)) if isinstance(value, list) else value
                    memory.note(model, fact, value=read, own=own)
    sent = values.get("send")
    values = {name: value for name, value in values.items() if name not in _LEFT_OUT and _is_allowed(name, value)}
    values["format"] = known_format(values.get("format"), template)
    if template is not None:
        values["template"] = template
    if sent == "completions" and values.get("reasoning_start", "auto") == "auto":
        values["reasoning_start"] = _start_of(rows, model)
    return Settings().layer(values, "trace"), memory


def _is_allowed(name: str, value: Any) -> bool:
    """Whether this version has the setting, with such a value."""
    try:
        OPTIONS[name].read(value)
    except (ValueError, TypeError, KeyError):
        return False
    return True


def known_format(name: Any, template: str | None) -> str:
    """The format that a trace names; `auto` where it cannot be used: importing a module would run it, and no trace
    records the template.
    """
    if not isinstance(name, str) or registry.is_place(name) or (name == registry.TEMPLATE and template is None):
        return "auto"
    if name != registry.TEMPLATE:
        try:
            registry.get(name)
        except FormatError:
            return "auto"
    return name


def _start_of(rows: Sequence[Row], model: str) -> str:
    """Whether a prompt that the model's template wrote ends in the thought that it opens."""
    asked = next((str(row.get("data", "")) for row in reversed(rows) if row["kind"] == "ask"), "")
    value = openai.read_value(asked.encode())
    prompt = value.get("prompt") if isinstance(value, dict) else None
    tags = registry.thoughts_of(registry.get("auto"), model).tags
    return "open" if isinstance(prompt, str) and prompt.rstrip().endswith(tags.opening.strip()) else "closed"


@contextmanager
def _unlogged() -> Iterator[None]:
    """Suppress log records of this thread: they were logged in the original run."""
    own = threading.get_ident()

    def is_others(record: logging.LogRecord) -> bool:
        return record.thread != own

    _log.addFilter(is_others)
    try:
        yield
    finally:
        _log.removeFilter(is_others)
