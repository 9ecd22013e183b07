"""Delay: how far the client trails the model, in characters, and how late the first tool delta is."""

from __future__ import annotations

from collections.abc import Sequence

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats import markup, registry
from toolcall_middleware.model import ToolCall

from . import material, measure
from .chunks import read
from .measure import Stream
from .report import Table

_OFFERING = material.request([material.write_file_tool()])


def _trail(format_name: str, text: str, size: int) -> tuple[int, float]:
    """The most and the mean number of characters that the client lacks when a chunk has been sent."""
    pieces = material.cut(text, size)
    lacking: list[int] = []
    received = written = 0

    async def app(_scope: object, receive: measure.Receive, send: measure.Send) -> None:
        nonlocal received, written
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(measure.body_message(material.ROLE))
        for piece, data in zip(pieces, material.events(pieces), strict=True):
            await send(measure.body_message(data))
            received += len(read(client.got[-1:])[0]) if len(client.got) > seen[0] else 0
            seen[0] = len(client.got)
            written += len(piece)
            lacking.append(written - received)
        await send(measure.body_message(b"data: [DONE]\n\n", more=False))

    client = measure.Client(_OFFERING, keep=True)
    seen = [0]
    measure.RUNNER.run(client.ask(ToolCallMiddleware(app, format=format_name)))
    if (content := read(client.got)[0]) != text:
        raise AssertionError(f"text was changed: {content[-100:]!r}")
    return max(lacking), sum(lacking) / len(lacking)


def _longest_marker(format_name: str) -> int:
    known = markup.gathered()
    markers = [marker for pair in known.reasoning for marker in pair]
    markers += [*known.stops, *known.noise, *known.ends, '{"tool_calls":']
    markers += [opener.marker for opener in getattr(registry.get(format_name), "openers", ())]
    return max(map(len, markers))


def run(*, smoke: bool) -> Table:
    table = Table("Delay of text", ("characters held back, most", "mean"))
    texts: Sequence[tuple[str, str]] = [("prose", material.PROSE), ("this README", material.readme())]
    for format_name in ("json", "hermes", "auto"):
        for name, text in texts:
            for size in (4,) if smoke else (1, 4):
                most, mean = _trail(format_name, text[:600] if smoke else text, size)
                goal = f"<= {_longest_marker(format_name)} (longest marker)" if name == "prose" else ""
                table.add(f"{name}, {format_name}, {size} a chunk", str(most), f"{mean:.2f}", goal)
    return table


def first_call(*, smoke: bool) -> Table:
    """Chunks between the name's closing quote and the client's first tool delta."""
    table = Table("Delay of a call's first delta", ("chunks after the name's end", ""))
    for format_name in ("json", "hermes", "auto"):
        for where, before in (("alone", ""), ("after prose", "I will write it.\n\n")):
            for size in (4,) if smoke else (1, 4):
                text = before + registry.get(format_name).render_calls(
                    [ToolCall(id="call_1", name=material.TOOL, arguments='{"path": "x"}')]
                )
                table.add(
                    f"{format_name}, {where}, {size} characters a chunk", str(_late(format_name, text, size)), "", "0"
                )
    return table


def _late(format_name: str, text: str, size: int) -> int:
    end = text.index(material.TOOL) + len(material.TOOL) + 1
    pieces = material.cut(text, size)
    due = next(number for number in range(len(pieces)) if sum(map(len, pieces[: number + 1])) >= end)
    seen: list[int] = []

    async def app(_scope: object, receive: measure.Receive, send: measure.Send) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(measure.body_message(material.ROLE))
        for number, data in enumerate(material.events(pieces)):
            await send(measure.body_message(data))
            if not seen and any(b'"tool_calls"' in body for body in client.got):
                seen.append(number)
        await send(measure.body_message(b"data: [DONE]\n\n", more=False))

    client = measure.Client(_OFFERING, keep=True)
    measure.RUNNER.run(client.ask(ToolCallMiddleware(app, format=format_name)))
    if not seen:
        raise AssertionError(f"no call of {format_name} arrived before the end")
    return seen[0] - due


__all__ = ["Stream", "first_call", "run"]
