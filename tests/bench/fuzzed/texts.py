"""Random texts of a model: prose, calls in all formats, halves of markers, broken calls and noise."""

from __future__ import annotations

import json
from typing import Any

from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall

from .dice import Dice

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Does it.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "at": {"type": "object"}},
            },
        },
    }
    for name in ("weather", "find_all")
]
NAMES = ("weather", "weather", "find_all", "find_all", "find_all", "unknown", "", "functions.weather", "FindAll")
PROSE = (
    "The rain in Paris. ", "x < y && y > z ", "{a: [1, 2]} ", "雨が降る。", "😀 ", "\n\n", "`code` ", "- item\n",
    "> quoted\n",
    "\\", '"', "'", "``", "\u2028", "\x00", "\ud800", "[link](x) ", "$", "#", "&lt;", "tool_calls ", "function ",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    "Paris", "", "a\nb", '"', "\\", "</tool_call>", "```", "😀", "<parameter=x>", 3, -1.5e300, 0, None, True, [], {},
    {"a": [1, {"b": "}"}]}, ["x", "]"], "[TOOL_CALLS]", "<|im_end|>", "é" * 40,
)  # fmt: skip


def _markers() -> tuple[str, ...]:
    texts = {part for name in registry.names() for part in registry.get(name).render_calls([_CALL]).split() if part}
    return (
        *sorted(texts), "<think>", "</think>", "<|im_end|>", "<tool_response>", "```json\n", "```", "<|",
        # Comments, sets, and what has no marker but stands at the beginning of a line, or at the answer's end.
        " // done ", " /* done ", " # done\n", "{'a', 'b'}", "\nAction: ", "\nAction Input: ", "\nObservation: ",
        "\n<weather>",
        '\n{"name": "weather", "arguments": {"city": "Paris"}}', '\n{"action": "weather", "action_input": ',
        '\n[{"name": "weather", "arguments": {"city": "Paris"}}]', '\n[weather(city="Paris", days=3)]',
    )  # fmt: skip


_CALL = ToolCall("weather", '{"city": "Paris"}')
MARKERS = _markers()
FORMATS = tuple(registry.names())


def text_of(dice: Dice, own: str) -> tuple[str, bool]:
    """(a model's text, whether it is prose only). Half of the calls are in the format `own`."""
    parts: list[str] = []
    prose = True
    for _ in range(1 + dice.below(5)):
        kind = dice.below(6)
        if kind < 2:
            parts += [PROSE[dice.below(len(PROSE))] for _ in range(1 + dice.below(6))]
            continue
        prose = False
        if kind == 2:
            parts.append(MARKERS[dice.below(len(MARKERS))])
            continue
        values = {key: VALUES[dice.below(len(VALUES))] for key in ("city", "days", "at")[: dice.below(4)]}
        call = ToolCall(NAMES[dice.below(len(NAMES))], json.dumps(values, ensure_ascii=bool(dice.below(2))))
        name = own if dice.below(2) else FORMATS[dice.below(len(FORMATS))]
        written = registry.get(name).render_calls([call] * (1 + dice.below(2)))
        if kind == 4:
            written = written[: dice.below(len(written) + 1)]
        elif kind == 5 and written:
            at = dice.below(len(written))
            written = written[:at] + PROSE[dice.below(len(PROSE))] + written[at + dice.below(4) :]
        parts.append(written)
    return "".join(parts), prose
