"""The request's way: from the client's body to the body that the app reads, and requests that pass."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from toolcall_middleware import ToolCallMiddleware

from . import material, measure
from .measure import App
from .report import Table

clock = time.process_time
"""CPU seconds of all threads: a large body is read in one of its own."""
_ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "No."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


class Reached:
    """An app that notes when it has its body, and answers at once."""

    def __init__(self) -> None:
        self.at = 0.0
        self.body = b""

    async def __call__(self, _scope: MutableMapping[str, Any], receive: measure.Receive, send: measure.Send) -> None:
        message = await receive()
        self.at = clock()
        self.body = message["body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send(measure.body_message(_ANSWER, more=False))


def until_app(app: App, reached: Reached, *bodies: bytes) -> Callable[[], float]:
    """Seconds from the client's request to the app that holds the body. Several bodies take turns."""
    turns = itertools.cycle(bodies)

    async def once() -> float:
        client = measure.Client(next(turns))
        begin = clock()
        await client.ask(app)
        return reached.at - begin

    return lambda: measure.RUNNER.run(once())


def _whole(app: App, body: bytes, count: int) -> Callable[[], float]:
    """Seconds a request, answer included."""

    async def once() -> float:
        begin = clock()
        for _ in range(count):
            await measure.Client(body).ask(app)
        return (clock() - begin) / count

    return lambda: measure.RUNNER.run(once())


def run(*, smoke: bool) -> Table:
    repeats = 2 if smoke else 60
    table = Table("Requests", ("added ms", "x a no-op wrapper; x half the size"))
    reached = Reached()
    noop = measure.NoOp(reached)
    plain = material.request(None, stream=False)
    large = json.dumps({**json.loads(plain), "messages": [{"role": "user", "content": "word " * 20_000}]}).encode()
    for name, body in (("no tools", plain), (f"no tools, {len(large) // 1000} kB", large)):
        app = ToolCallMiddleware(reached, format="auto")
        count = 2 if smoke else 50
        bare, with_it = measure.best([_whole(noop, body, count), _whole(app, body, count)], repeats)
        _check(reached.body == body)
        table.add(name, f"{(with_it - bare) * 1e3:.4f}", f"{with_it / bare:.1f}", "< 0.020" if body is plain else "")
    before = 0.0
    for turns in (10, 100, 500, 1000):
        body = agent(turns)
        app = ToolCallMiddleware(reached, format="auto")
        measure.ask(app, body)
        runs = [until_app(noop, reached, body), until_app(app, reached, body)]
        bare, with_it = measure.best(runs, max(2, repeats // 6))
        what = f"a history of {turns} calls and results, {len(body) // 1000} kB"
        growth = f"; {with_it / before:.2f} x 500" if turns == 1000 else ""
        table.add(
            what, f"{(with_it - bare) * 1e3:.3f}", f"{with_it / bare:.0f}{growth}", "<= 2.4 x 500" if growth else ""
        )
        before = with_it
    numbers = itertools.count()
    cold_before = seen_before = 0.0
    for count in (1, 25, 50, 100):
        offered = material.tools(count)
        size = len(json.dumps(offered, separators=(",", ":")))
        app = ToolCallMiddleware(reached, format="auto")
        body = material.request(offered, stream=False)
        measure.ask(app, body)
        _check(b'"tools"' not in reached.body and offered[0]["function"]["name"].encode() in reached.body)
        bare, seen = measure.best([until_app(noop, reached, body), until_app(app, reached, body)], repeats)
        fresh = [material.request(material.tools(count, str(next(numbers))), stream=False) for _ in range(repeats)]
        (cold,) = measure.best([until_app(app, reached, *fresh)], repeats)
        what = f"{count} tool{'s' if count > 1 else ''}, {size / 1000:.1f} kB"
        for when, took, half in (("first time", cold, cold_before), ("seen before", seen, seen_before)):
            growth = f"; {took / half:.2f} x 50" if count == 100 else ""
            goal = "<= 2.4 x 50" if count == 100 else "< 1" if (count, when) == (25, "seen before") else ""
            table.add(f"{what}, {when}", f"{(took - bare) * 1e3:.3f}", f"{took / bare:.0f}{growth}", goal)
        cold_before, seen_before = cold, seen
    return table


def agent(turns: int) -> bytes:
    """A request of an agent that has called a tool `turns` times."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Write the files."}]
    for number in range(turns):
        function = {"name": material.TOOL, "arguments": material.file_arguments(200)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "Written: 200 characters."})
    return material.request([material.write_file_tool()], stream=False, messages=messages)


def _check(holds: bool) -> None:
    if not holds:
        raise AssertionError("the app got another body than it should have")
