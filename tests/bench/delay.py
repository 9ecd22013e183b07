"""Delay: how far the client trails the model, in characters, and how late the first delta of a call is."""

from __future__ import annotations

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats import markup, registry
from toolcall_middleware.model import ToolCall

from . import material, measure
from .chunks import FORMATS, read
from .report import Table

_OFFERING = material.request([material.write_file_tool()])


def _streamed(format_name: str, pieces: list[str]) -> tuple[list[int], int | None, str]:
    """(how many characters the client lacks after each piece, the piece that brings its first call, its content)."""
    lacking: list[int] = []
    calls: list[int] = []

    async def app(_scope: object, receive: measure.Receive, send: measure.Send) -> None:
        await measure.begin_stream(receive, send)
        await send(measure.body_message(material.ROLE))
        received = written = seen = 0
        for number, (piece, data) in enumerate(zip(pieces, material.events(pieces), strict=True)):
            await send(measure.body_message(data))
            new, seen = client.got[seen:], len(client.got)
            received, written = received + len(read(new)[0]), written + len(piece)
            lacking.append(written - received)
            if any(b'"tool_calls"' in body for body in new):
                calls.append(number)
        await send(measure.body_message(b"data: [DONE]\n\n", more=False))

    client = measure.Client(_OFFERING, keep=True)
    measure.RUNNER.run(client.ask(ToolCallMiddleware(app, format=format_name)))
    return lacking, calls[0] if calls else None, read(client.got)[0]


def _longest_marker(format_name: str) -> int:
    known = markup.gathered()
    markers = [marker for pair in known.reasoning for marker in pair]
    markers += [*known.stops, *known.noise, *known.ends, '{"tool_calls":']
    markers += [opener.marker for opener in getattr(registry.get(format_name), "openers", ())]
    return max(map(len, markers))


def run(*, smoke: bool) -> Table:
    """Characters of text that are held back."""
    table = Table("Delay of text", ("characters held back, most", "mean"))
    for format_name in FORMATS:
        for name, text in (("prose", material.PROSE), ("this README", material.readme())):
            for size in (4,) if smoke else (1, 4):
                written = text[:600] if smoke else text
                lacking, _, content = _streamed(format_name, material.cut(written, size))
                if content != written:
                    raise AssertionError(f"text was changed: {content[-100:]!r}")
                goal = f"<= {_longest_marker(format_name)} (longest marker)" if name == "prose" else ""
                mean = sum(lacking) / len(lacking)
                table.add(f"{name}, {format_name}, {size} a chunk", str(max(lacking)), f"{mean:.2f}", goal)
    return table


def first_call(*, smoke: bool) -> Table:
    """Chunks between the name's closing quote and the client's first delta of the call."""
    table = Table("Delay of a call's first delta", ("chunks after the name's end", ""))
    call = ToolCall(id="call_1", name=material.TOOL, arguments='{"path": "x"}')
    for format_name in FORMATS:
        for where, before in (("alone", ""), ("after prose", "I will write it.\n\n")):
            for size in (4,) if smoke else (1, 4):
                text = before + registry.get(format_name).render_calls([call])
                end = text.index(material.TOOL) + len(material.TOOL)  # where the quote is
                _, first, _ = _streamed(format_name, material.cut(text, size))
                if first is None:
                    raise AssertionError(f"no call of {format_name} arrived before the end")
                table.add(f"{format_name}, {where}, {size} characters a chunk", str(first - end // size), "", "0")
    return table
