"""Time a chunk: what the middleware adds to each message of a stream, by what the model is writing."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable

import msgspec

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.exchange import Body, Exchange, Head, Request
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from . import material, measure
from .measure import App, Stream
from .report import Table

FORMATS = ("json", "hermes", "auto")
_OFFERING = material.request([material.write_file_tool()])
_OFFERING_ASKING = material.request([material.write_file_tool()], stream_options={"include_usage": True})
_PLAIN = material.request(None)
_ASKING_USAGE = material.request(None, stream_options={"include_usage": True})


class Case:
    """A stream in one state: `opening` brings the parser there, `text` is what is timed, 4 characters a chunk."""

    def __init__(self, opening: list[str], text: str, *, logprobs: bool = False) -> None:
        self.pieces = material.cut(text)[:-1]
        self.head = [material.ROLE, *material.events(opening)]
        self.payloads = [material.payload({"content": piece}, logprobs=logprobs) for piece in self.pieces]
        self.messages = measure.messages(map(material.event, self.payloads))
        self.stream = Stream(self.head, self.messages)

    def run(self, app: App, body: bytes) -> Callable[[], float]:
        def once() -> float:
            measure.ask(app, body)
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


_HELLO = ["Hello", " there", ". "]
_THINKING = ["<think>", "\n", "So "]


def run(*, smoke: bool) -> Table:
    repeats, size = (2, 400) if smoke else (150, 2500)
    table = Table("Time a chunk", ("added ns a chunk", "x one typed decode"))
    text = (material.PROSE * (1 + size // len(material.PROSE)))[:size]
    prose = Case(_HELLO, text)
    for name, app, body in (
        ("no-op ASGI wrapper", measure.NoOp(prose.stream), _PLAIN),
        ("no tools: passes", ToolCallMiddleware(prose.stream, mode="prompt"), _PLAIN),
        ("no tools, usage asked: one chunk is added at the end", ToolCallMiddleware(prose.stream), _ASKING_USAGE),
    ):
        runs = [prose.run(prose.stream, _PLAIN), prose.run(app, body), prose.decode()]
        _add(table, name, measure.rounds(runs, repeats), len(prose.pieces), "")
    for name in FORMATS:
        _case(table, f"prose, {name}", prose, name, repeats, "<= 3")
    _case(table, "prose, auto, usage asked", prose, "auto", repeats, "", asking=_OFFERING_ASKING)
    _case(table, "prose with logprobs, auto", Case(_HELLO, text, logprobs=True), "auto", repeats, "<= 5")
    _case(table, "reasoning in `<think>`, auto", Case(_THINKING, text), "auto", repeats, "")
    _case(table, "fenced code, auto", Case([*_HELLO, "\n\n", "```python\n"], material.CODE), "auto", repeats, "")
    file, fields = material.file_arguments(size), material.field_arguments(size)
    for name in FORMATS:
        _case(table, f"arguments, a long string, {name}", arguments_case(name, file), name, repeats, "<= 5", given=file)
    for name in FORMATS:
        what = f"arguments, short values, {name}"
        _case(table, what, arguments_case(name, fields), name, repeats, "<= 5", given=fields)
    what = "arguments, a long string, written as a JSON string, json"
    _case(table, what, arguments_case("json-string", file), "json", repeats, "<= 5", given=file)
    for what, case, goal in (
        ("prose", prose, "<= 2.5"),
        ("arguments, a long string", arguments_case("json", file), "<= 4"),
        ("arguments, short values", arguments_case("json", fields), "<= 4"),
    ):
        runs = [lambda: 0.0, case.exchange(), case.decode()]
        _add(table, f"{what}, json, the exchange by itself", measure.rounds(runs, repeats), len(case.pieces), goal)
    return table


def _case(
    table: Table,
    what: str,
    case: Case,
    format_name: str,
    repeats: int,
    goal: str,
    *,
    given: str = "",
    asking: bytes = _OFFERING,
) -> None:
    app = ToolCallMiddleware(case.stream, format=format_name)
    _check(measure.answer(app, asking), case, given)
    runs = [case.run(measure.NoOp(case.stream), asking), case.run(app, asking), case.decode()]
    _add(table, what, measure.rounds(runs, repeats), len(case.pieces), goal)


def _add(table: Table, what: str, rounds: list[list[float]], count: int, goal: str) -> None:
    """The ratio is the median of the rounds', each of which is short: what else the machine does cancels out."""
    ratio = statistics.median((with_it - without) / decode for without, with_it, decode in rounds)
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
