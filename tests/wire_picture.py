"""The picture of the wire before and after, from the README's blocks: `python -m tests.wire_picture` draws it anew."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PATH = ROOT / "docs" / "images" / "wire.svg"

_WIDE, _PANEL, _LINE = 960, 290, 17
# An image is its own page: it has a ground of its own, whatever it is shown on.
_STYLE = """text { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; fill: #1d2026; white-space: pre }
.head { font: bold 13px sans-serif } .dim { font: 12px sans-serif; fill: #5c626d }
.ground { fill: #ffffff } .panel { fill: #f0f0f4; stroke: #dfe0e6 } .call { fill: #0b6b3a } .bad { fill: #b3261e }
.arrow { stroke: #5c626d; stroke-width: 2; fill: none } .tip { fill: #5c626d }
@media (prefers-color-scheme: dark) {
text { fill: #dfe2ea } .dim { fill: #9aa1b0 } .ground { fill: #1a1c22 } .panel { fill: #23262e; stroke: #2d313b }
.call { fill: #7fd89f } .bad { fill: #ff8f86 } .arrow { stroke: #9aa1b0 } .tip { fill: #9aa1b0 }
}"""


def block(readme: str, mark: str) -> Any:
    """The JSON of the README's block of that mark."""
    found = re.search(rf"^<!-- {mark} -->\n```json\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert found is not None, mark
    return json.loads(found[1])


def picture(readme: str) -> str:
    """The picture as SVG: what a text backend alone makes of a request with tools, and what comes with us."""
    request, written, received = (block(readme, mark) for mark in ("request", "written", "received"))
    tool = request["tools"][0]["function"]["name"]
    call = received["tool_calls"][0]
    choice, said = request["tool_choice"], request["messages"][0]["content"]
    wanted = [f'"tools": [{{… "{tool}" …}}],', f'"tool_choice": "{choice}"', "", said]
    wrote = json.dumps(written)
    told = [
        '"content": null,',
        '"tool_calls": [{',
        f'  "id": "{call["id"][:13]}…",',
        '  "function": {',
        f'    "name": "{call["function"]["name"]}",',
        '    "arguments":',
        f"      {json.dumps(call['function']['arguments'])}",
        "}}]",
    ]
    parts = [
        _row(30, "Before", [
            ("The client asks", wanted, ""),
            ("The backend", ["status 400", "", "requires --tool-call-parser", "to be set"], "bad"),
            ("The client gets", ["an error, or prose"], "bad"),
        ]),
        _row(225, "With toolcall-middleware", [
            ("The client asks", wanted, ""),
            ("The model reads the tools as text, writes", _wrapped(wrote, 36), ""),
            ("The client gets", told, "call"),
        ]),
    ]  # fmt: skip
    title = "One request with tools to a text backend, before and with toolcall-middleware"
    height = 420
    size = f'width="{_WIDE}" height="{height}" viewBox="0 0 {_WIDE} {height}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">',
        f"<style>{_STYLE}</style>",
        '<rect class="ground" width="100%" height="100%" rx="8"/>',
        *parts,
        "</svg>",
        "",
    ])  # fmt: skip


def _row(top: int, head: str, panels: list[tuple[str, list[str], str]]) -> str:
    lines = [f'<text class="head" x="16" y="{top}">{escape(head)}</text>']
    for number, (title, text, kind) in enumerate(panels):
        left = 16 + number * (_PANEL + 29)
        lines.append(f'<text class="dim" x="{left}" y="{top + 22}">{escape(title)}</text>')
        lines.append(f'<rect class="panel" x="{left}" y="{top + 30}" width="{_PANEL}" height="150" rx="6"/>')
        for count, line in enumerate(text):
            y = top + 50 + count * _LINE
            lines.append(f'<text class="{kind}" x="{left + 10}" y="{y}">{escape(line)}</text>' if line else "")
        if number < len(panels) - 1:
            x, y = left + _PANEL + 4, top + 100
            lines.append(
                f'<path class="arrow" d="M{x} {y} h14"/><path class="tip" d="M{x + 13} {y - 5} l8 5 l-8 5 z"/>'
            )
    return "\n".join(line for line in lines if line)


def _wrapped(text: str, width: int) -> list[str]:
    """Text in lines, broken behind a blank where there is one."""
    lines = []
    while len(text) > width:
        cut = text.rfind(" ", 0, width) + 1 or width
        lines.append(text[:cut].rstrip())
        text = text[cut:]
    return [*lines, text]


if __name__ == "__main__":
    PATH.write_text(picture((ROOT / "README.md").read_text("utf-8")), "utf-8")
