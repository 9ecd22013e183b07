"""Time a chunk: what the middleware adds to each message of a stream, by what the model is writing, format and API."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.exchange import Body, Exchange, Head, Request
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from . import material, measure
from .measure import App, Stream
from .report import Table

FORMATS = ("json", "hermes", "auto")
HEADS = ("added ns a chunk", "x one typed decode")
_TOOL = material.write_file_tool()
_OFFERING = material.request([_TOOL])
_OFFERING_ASKING = material.request([_TOOL], stream_options={"include_usage": True})
_PLAIN = material.request(None)
_ASKING_USAGE = material.request(None, stream_options={"include_usage": True})
_HELLO = ["Hello", " there", ". "]
# What begins the part that is timed: every format writes it alike. And how much of a call is left out at its end.
_MARKS = {"a long string": "Reads the", "short values": "station 0"}
_LEFT = 140


class Case:
    """A stream in one state: `opening` brings the parser there, `text` is what is timed, 4 characters a chunk."""

    def __init__(self, opening: Sequence[str], text: str, *, logprobs: bool = False) -> None:
        self.pieces = material.cut(text)[:-1]
        self.head = [material.ROLE, *material.events(opening)]
        self.payloads = [material.payload({"content": piece}, logprobs=logprobs) for piece in self.pieces]
        self.messages = measure.messages(map(material.event, self.payloads))
        self.stream = Stream(self.head, self.messages)

    def run(self, app: App, body: bytes, path: str = measure.CHAT) -> Callable[[], float]:
        """Seconds of the timed part on the way through `app`."""

        def once() -> float:
            measure.ask(app, body, path)
            return self.stream.seconds

        return once

    def decode(self) -> Callable[[], float]:
        """The yardstick: one typed decode of each chunk."""
        decode = msgspec.json.Decoder(material.Chunk).decode

        def all_of_them() -> None:
            for data in self.payloads:
                decode(data)

        return measure.timed(all_of_them)

    def exchange(self) -> Callable[[], float]:
        """The exchange by itself, without a host: bytes in, actions out."""
        messages = [bytes(message["body"]) for message in self.messages]

        def run() -> float:
            exchange = Exchange(Settings(format="json"), BackendMemory())
            exchange.receive(Request(_OFFERING))
            exchange.receive(Head(200, [(b"content-type", b"text/event-stream")]))
            for data in self.head:
                exchange.receive(Body(data))
            begin = measure.clock()
            for data in messages:
                exchange.receive(Body(data))
            return measure.clock() - begin

        return run


def arguments_case(style: str, arguments: str) -> Case:
    """Within the arguments of a call, in a format or as `json-string`."""
    opening, written = material.call_text(style, arguments)
    # The first characters bring the reader into the arguments; the call stays open.
    return Case([*material.cut(opening, 3), written[:16]], written[16:])


def run(*, smoke: bool) -> Table:
    """By what the model is writing."""
    repeats, size = (2, 400) if smoke else (150, 2500)
    table = Table("Time a chunk", HEADS)
    text = (material.PROSE * (1 + size // len(material.PROSE)))[:size]
    prose = Case(_HELLO, text)
    for name, app, body in (
        ("no-op ASGI wrapper", measure.NoOp(prose.stream), _PLAIN),
        ("no tools: passes", ToolCallMiddleware(prose.stream, mode="prompt"), _PLAIN),
        ("no tools, usage asked: one chunk is added at the end", ToolCallMiddleware(prose.stream), _ASKING_USAGE),
    ):
        runs = [prose.run(prose.stream, _PLAIN), prose.run(app, body), prose.decode()]
        _add(table, name, measure.rounds(runs, repeats), len(prose.pieces), "")

    def add(what: str, case: Case, name: str, goal: str = "", given: str = "", asking: bytes = _OFFERING) -> None:
        app = ToolCallMiddleware(case.stream, format=name)
        _check(measure.answer(app, asking), case, given)
        runs = [case.run(measure.NoOp(case.stream), asking), case.run(app, asking), case.decode()]
        _add(table, f"{what}, {name}", measure.rounds(runs, repeats), len(case.pieces), goal)

    for name in FORMATS:
        add("prose", prose, name, "<= 3")
    add("prose, usage asked", prose, "auto", asking=_OFFERING_ASKING)
    add("prose with logprobs", Case(_HELLO, text, logprobs=True), "auto", "<= 5")
    add("reasoning in `<think>`", Case(["<think>", "\n", "So "], text), "auto")
    add("fenced code", Case([*_HELLO, "\n\n", "```python\n"], material.CODE), "auto")
    file, fields = material.file_arguments(size), material.field_arguments(size)
    for name in FORMATS:
        add("arguments, a long string", arguments_case(name, file), name, "<= 5", file)
        add("arguments, short values", arguments_case(name, fields), name, "<= 5", fields)
    add("arguments, a long string, written as a JSON string", arguments_case("json-string", file), "json", "<= 5", file)
    for what, case, goal in (
        ("prose", prose, "<= 2.5"),
        ("arguments, a long string", arguments_case("json", file), "<= 4"),
        ("arguments, short values", arguments_case("json", fields), "<= 4"),
    ):
        runs = [lambda: 0.0, case.exchange(), case.decode()]
        _add(table, f"{what}, json, the exchange by itself", measure.rounds(runs, repeats), len(case.pieces), goal)
    return table


def formats(*, smoke: bool) -> Table:
    """Inside of arguments, in every registered format, written as its own models write it."""
    repeats, size = (1, 400) if smoke else (40, 2500)
    table = Table("Arguments, in each format: x one typed decode a chunk", ("a long string", "short values"))
    arguments = (material.file_arguments(size), material.field_arguments(size))
    for name in registry.names():
        ratios = []
        for (what, mark), given in zip(_MARKS.items(), arguments, strict=True):
            written = registry.get(name).render_calls([ToolCall(material.TOOL, given)])
            begin = written.index(mark)
            case = Case(material.cut(written[:begin]), written[begin:-_LEFT])
            app = ToolCallMiddleware(case.stream, format=name)
            _, got = read(measure.answer(app, _OFFERING))
            # Between tags a list is emitted at its end, which never comes.
            if not (mark in got or (what == "short values" and len(got) < len('{"rows": ['))):
                raise AssertionError(f"{name}: arguments did not arrive: {got[:200]!r}")
            runs = [case.run(measure.NoOp(case.stream), _OFFERING), case.run(app, _OFFERING), case.decode()]
            ratios.append(_ratio(measure.rounds(runs, repeats)))
        table.add(name, f"{ratios[0]:.2f}", f"{ratios[1]:.2f}", "<= 5")
    return table


def faces(*, smoke: bool) -> Table:
    """What the same stream costs more on Messages and Responses than as a chat completion, with all that sends it.

    Answers of a face always hold the usage, so the chat completion is asked for it, too.
    """
    repeats, size = (2, 400) if smoke else (400, 1200)
    table = Table("Time a chunk that a face adds", HEADS)
    text = (material.PROSE * (1 + size // len(material.PROSE)))[:size]
    given = material.file_arguments(size)
    for api, (path, body) in _faces().items():
        for what, case, written in (
            ("prose", Case(_HELLO, text), ""),
            ("arguments, a long string", arguments_case("json", given), given),
            ("arguments, short values", arguments_case("json", material.field_arguments(size)), ""),
        ):
            app = ToolCallMiddleware(case.stream, format="json", faces="chat,messages,responses")
            said = _said(b"".join(measure.answer(app, body, path)))
            if not said or not said.startswith(written[:-32]):
                raise AssertionError(f"the answer did not arrive: {said[:100]!r}")
            runs = [case.run(app, _OFFERING_ASKING), case.run(app, body, path), case.decode()]
            _add(table, f"{api}, {what}", measure.rounds(runs, repeats), len(case.pieces), "")
    return table


def _faces() -> dict[str, tuple[str, bytes]]:
    """By API: where a request goes, and its body. The same tool as that of chat completions."""
    function = _TOOL["function"]
    asked = "What does the report of the station say, and is any of it wrong? " * 4
    head: dict[str, Any] = {"model": "m", "stream": True}
    tools = [{"name": function["name"], "input_schema": function["parameters"]}]
    messages = {**head, "max_tokens": 4096, "messages": [{"role": "user", "content": asked}], "tools": tools}
    responses = {**head, "input": asked, "tools": [{"type": "function", **function}]}
    return {
        "Messages": ("/v1/messages", json.dumps(messages).encode()),
        "Responses": ("/v1/responses", json.dumps(responses).encode()),
    }


def _said(answer: bytes) -> str:
    """The text and arguments in the events of a face."""
    deltas = []
    for event in (json.loads(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: {")):
        delta = event.get("delta", "") if event["type"].endswith("delta") else ""
        deltas.append((delta.get("partial_json") or delta.get("text") or "") if isinstance(delta, dict) else delta)
    return "".join(deltas)


def _ratio(rounds: list[list[float]]) -> float:
    """The median of the rounds, each of which is short: what else the machine does cancels out."""
    return statistics.median((with_it - without) / decode for without, with_it, decode in rounds)


def _add(table: Table, what: str, rounds: list[list[float]], count: int, goal: str) -> None:
    ratio = _ratio(rounds)
    least = min(decode for _, _, decode in rounds)
    table.add(what, f"{ratio * least / count * 1e9:.0f}", f"{ratio:.2f}", goal)


def _check(bodies: list[bytes], case: Case, given: str) -> None:
    """What is timed is also right: the text, or the arguments, arrived."""
    content, arguments = read(bodies)
    if given:
        # Their last characters were not sent, and the middleware has closed the call.
        if not arguments.startswith(given[:-32]):
            raise AssertionError(f"arguments did not arrive: {arguments[:100]!r}")
    elif not content.endswith("".join(case.pieces)):
        raise AssertionError(f"text did not arrive: {content[-100:]!r}")


def read(bodies: list[bytes]) -> tuple[str, str]:
    """The joined content and the joined arguments of a streamed answer."""
    content, arguments = [], []
    for line in b"".join(bodies).split(b"\n\n"):
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:]).get("choices", ()):
                delta = choice["delta"]
                content.append(delta.get("content") or "")
                arguments += [call["function"]["arguments"] for call in delta.get("tool_calls") or ()]
    return "".join(content), "".join(arguments)
