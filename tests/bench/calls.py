"""How many calls come out right: the same generated answers through each parser that streams, cut at random.

200 calls of four tools in answers of one or two, with text before and behind some. Their arguments hold nested objects
and lists, numbers, quotes, backslashes, line ends, other scripts and what looks like JSON or HTML; no markup of the
syntax itself, and nothing that it leaves open (the word null for a string between tags, more digits than a double has
for a `number`). Each parser gets the syntax that it is made for, as the chat template of its models writes it.

A call is right when it has its name and arguments that are JSON and equal to those written. Text is right when nothing
of it is missing and no markup is in it, white space aside.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .parsers import written
from .published import MARKERS, readers
from .readers import AT_THE_END, Answer, Reader, Tools, ours
from .report import Table


def _tool(name: str, /, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": f"{name}.", "parameters": parameters}}


_TEXT = {"type": "string"}
_GUEST = {"type": "object", "properties": {"name": _TEXT, "age": {"type": "integer"}, "vegan": {"type": "boolean"}}}
TOOLS: Tools = [
    _tool("write_file", path=_TEXT, content=_TEXT, overwrite={"type": "boolean"}),
    _tool(
        "book",
        city=_TEXT,
        nights={"type": "integer"},
        price={"type": "number"},
        guests={"type": "array", "items": _GUEST},
    ),
    _tool("configure", name=_TEXT, options={"type": "object"}, tags={"type": "array", "items": _TEXT}),
    _tool("ping"),
]
_STRINGS = (
    "Aarhus",
    "",
    " two spaces before, one behind ",
    'He said "no", twice.',
    "C:\\temp\\new\\u0041.txt",
    "line one\nline two\n\n\tindented",
    "def f(x):\n    return {'a': [x, 1]}\n",
    "東京都千代田区 – naïve café, Ærø",
    "🙂 👩‍👩‍👧 ok",
    '{"name": "inner", "arguments": {"a": [1, 2]}}',
    "<b>5 < 6 && 7 > 3</b> <br/>",
    "007",
    "true",
    "1e5",
    "a, b; c: d | e",
    "}}]]\"'",
    "100 %\u00a0of it\u2028next",
    "\\",
)
_BEFORE = ("I'll look that up.", "Let me check the file first:\n\n", "好的，我来查一下。\n", "2 < 3, so:\n")
_BEHIND = ("\nThat should do it.", "\n\nDone – tell me if anything is missing.")


@dataclass(frozen=True, slots=True)
class Written:
    """An answer as the model means it."""

    calls: list[tuple[str, dict[str, Any]]]
    before: str = ""
    behind: str = ""
    seed: int = 0

    def text(self, syntax: str) -> str:
        return self.before + "\n".join(written(syntax, *call) for call in self.calls) + self.behind


def answers(count: int, seed: int = 8) -> list[Written]:
    """`count` calls, in answers of one or two; the same for the same seed."""
    rng = random.Random(seed)
    made: list[Written] = []
    left = count
    while left:
        number = min(left, 1 + (rng.random() < 0.3))
        before = rng.choice(_BEFORE) if rng.random() < 0.5 else ""
        behind = rng.choice(_BEHIND) if rng.random() < 0.15 else ""
        made.append(Written([_call(rng) for _ in range(number)], before, behind, rng.getrandbits(32)))
        left -= number
    return made


def _call(rng: random.Random) -> tuple[str, dict[str, Any]]:
    def number() -> int | float:
        return rng.choice((0, -1, 42, 2**40 + 1, 0.1, -2.5e-7, 1e21, 19.99))

    def value(depth: int) -> Any:
        kind = rng.randrange(7 if depth else 4)
        if kind >= 5:
            return {
                rng.choice(("key", "naïve", "a b", "name", "x-y")): value(depth - 1) for _ in range(rng.randrange(4))
            }
        if kind == 4:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        return (rng.choice(_STRINGS), number(), rng.random() < 0.5, None)[kind]

    def guest() -> dict[str, Any]:
        return {"name": rng.choice(_STRINGS), "age": rng.randrange(100), "vegan": rng.random() < 0.5}

    match rng.randrange(10):
        case 0:
            return "ping", {}
        case 1 | 2 | 3:
            content = "\n".join(rng.choice(_STRINGS) for _ in range(rng.randrange(1, 12)))
            return "write_file", {"path": "src/ü/a b.py", "content": content, "overwrite": rng.random() < 0.5}
        case 4 | 5 | 6:
            guests = [guest() for _ in range(rng.randrange(4))]
            nights = rng.randrange(-3, 30)
            return "book", {"city": rng.choice(_STRINGS), "nights": nights, "price": number(), "guests": guests}
        case _:
            options = {rng.choice(("depth", "größe", "mode")): value(3) for _ in range(rng.randrange(3))}
            tags = [rng.choice(_STRINGS) for _ in range(rng.randrange(4))]
            return "configure", {"name": rng.choice(_STRINGS), "options": options, "tags": tags}


def _tokens(rng: random.Random, text: str) -> list[str]:
    """1 to 8 characters each, and the markers as one."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        marker = next((marker for marker in MARKERS if text.startswith(marker, at)), None)
        length = len(marker) if marker else rng.randint(1, 8)
        starts = [start for word in MARKERS if (start := text.find(word, at + 1, at + length + len(word) - 1)) > 0]
        pieces.append(text[at : min([at + length, *(starts if not marker else [])])])
        at += len(pieces[-1])
    return pieces


def _several(rng: random.Random, text: str) -> list[str]:
    """A few of those tokens at once, as speculative decoding or a server's intervals give them."""
    tokens = _tokens(rng, text)
    pieces = []
    while tokens:
        number = rng.randint(1, 6)
        pieces.append("".join(tokens[:number]))
        del tokens[:number]
    return pieces


def _anywhere(rng: random.Random, text: str) -> list[str]:
    """1 to 8 characters each, also where a marker stands: a model for which it is no token."""
    pieces = []
    while text:
        length = rng.randint(1, 8)
        pieces.append(text[:length])
        text = text[length:]
    return pieces


CUTS: dict[str, Callable[[random.Random, str], list[str]]] = {
    "a token a chunk": _tokens,
    "1 to 6 tokens a chunk": _several,
    "markers cut too": _anywhere,
}


@dataclass(slots=True)
class Score:
    """What came out of one parser."""

    calls: int = 0
    texts: int = 0
    wrong: list[tuple[Written, list[str], Answer]] = field(default_factory=list)


def score(reader: Reader, cut: Callable[[random.Random, str], list[str]], answers: list[Written]) -> Score:
    """All of `answers` through `reader`."""
    made = Score()
    for answer in answers:
        pieces = cut(random.Random(answer.seed), answer.text(reader.syntax))
        got = reader.merge(reader.begin(pieces, TOOLS)())
        right = sum(map(_right, got.calls, answer.calls)) if len(got.calls) <= len(answer.calls) else 0
        text = got.text.split() == f"{answer.before} {answer.behind}".split()
        made.calls += right
        made.texts += text
        if right < len(answer.calls) or not text:
            made.wrong.append((answer, pieces, got))
    return made


def _right(got: tuple[str, str], meant: tuple[str, dict[str, Any]]) -> bool:
    try:
        arguments = json.loads(got[1] or "{}")
    except json.JSONDecodeError:
        return False
    return got[0] == meant[0] and _same(arguments, meant[1])


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0 but not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def run(*, smoke: bool) -> Table:
    meant = answers(40 if smoke else 200)
    calls = sum(len(answer.calls) for answer in meant)
    table = Table(f"Calls that come out right, of {calls} in {len(meant)} answers", ("calls right", "text right"))
    for syntax in ("hermes", "qwen3_coder"):
        mine = [ours(syntax, syntax), ours("auto", syntax)]
        waiting = [AT_THE_END] if syntax == "hermes" else []
        for cut_name, cut in CUTS.items():
            for reader in (*mine, *waiting, *(reader for reader in readers() if reader.syntax == syntax)):
                made = score(reader, cut, meant)
                if reader in mine and made.wrong:
                    raise AssertionError(f"{reader.name} is wrong: {made.wrong[0]}")
                goal = "all" if reader in mine else ""
                what = f"{syntax}, {cut_name}: {reader.name.split(', of ')[0]}"
                table.add(what, f"{made.calls} of {calls}", f"{made.texts} of {len(meant)}", goal)
    return table
