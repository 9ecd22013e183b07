"""Random exchanges: `python -m tests.bench.fuzz [--count 1000000] [--seed 1] [--atheris SECONDS]`.

A model's text is made of prose, calls in all formats, halves of markers, broken calls and noise; it is sent through an
exchange streamed, at random cuts, and whole. Both must give the same answer by the rules of the wire; nothing may raise
but a ToolCallError; calls have offered names and valid JSON; text without any marker comes out as it was. With
`--atheris` the bytes that drive the choices come from a coverage-guided fuzzer (`pip install atheris`).
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tests.stream_rules import Answered, check_stream, check_whole, same_answer
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.exchange import Exchange, Plan
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall
from toolcall_middleware.settings import Settings
from toolcall_middleware.stages.constrain import Memory

TOOLS = [
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
NAMES = ("weather", "weather", "find_all", "find_all", "find_all", "unknown", "")
PROSE = (
    "The rain in Paris. ", "x < y && y > z ", "{a: [1, 2]} ", "雨が降る。", "😀 ", "\n\n", "`code` ", "- item\n",
    "> quoted\n",
    "\\", '"', "'", "``", "\u2028", "\x00", "\ud800", "[link](x) ", "$", "#", "&lt;", "tool_calls ", "function ",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    "Paris", "", "a\nb", '"', "\\", "</tool_call>", "```", "😀", "<parameter=x>", 3, -1.5e300, 0, None, True, [], {},
    {"a": [1, {"b": "}"}]}, ["x", "]"], "[TOOL_CALLS]", "<|im_end|>", "é" * 40,
)  # fmt: skip


class Dice(Protocol):
    """What choices are made with."""

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        ...


class Seeded:
    """Dice from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, count: int) -> int:
        """See `Dice`."""
        return int(self._random.random() * count)


class FromBytes:
    """Dice from a fuzzer's bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def below(self, count: int) -> int:
        """See `Dice`."""
        byte = self._data[self._at] if self._at < len(self._data) else 0
        self._at += 1
        return byte % count


def _markers() -> tuple[str, ...]:
    texts = {part for name in registry.names() for part in registry.get(name).render_calls([_CALL]).split() if part}
    return (*sorted(texts), "<think>", "</think>", "<|im_end|>", "<tool_response>", "```json\n", "```", "<|")


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


def settings_of(dice: Dice) -> Settings:
    """An operator's settings."""
    return _SETTINGS[dice.below(len(_SETTINGS))]


_SETTINGS = [
    Settings(format=name, unknown_tool=unknown, stream_arguments=stream, reasoning_field=reasoning)
    for name, unknown, stream, reasoning in itertools.product(
        ("auto", "auto", "auto", *FORMATS), ("text", "forward"), (True, False), (None, "reasoning")
    )
]


def one(dice: Dice) -> str:
    """One exchange, streamed and whole. Raises AssertionError where a rule does not hold; gives what came of it."""
    settings = settings_of(dice)
    text, prose = text_of(dice, settings.format)
    reason = ("stop", "stop", "length")[dice.below(3)]
    sizes = [1 + dice.below(12) for _ in range(4)]
    streamed = _streamed(settings, text, reason, sizes)
    whole = _whole(settings, text, reason)
    if "\ud800" not in text:  # half a surrogate pair may leave as itself or as an escape: both are the same JSON
        same_answer(streamed, whole)
    choice = streamed.choices[0]
    plain = "".join(text.split())
    if prose and settings.reasoning_field is None:
        got = "".join((choice.content or "").split())
        assert got == plain.encode("utf-8", "replace").decode() or got == plain, "prose was changed"
    return "calls" if choice.calls else "text"


def _expected(settings: Settings) -> dict[str, Any]:
    return {"tools": None if settings.unknown_tool == "forward" else {"weather", "find_all"}, "objects": False}


def _body(*, stream: bool) -> bytes:
    messages = [{"role": "user", "content": "Go."}]
    return json.dumps({"model": "m", "messages": messages, "tools": TOOLS, "stream": stream}).encode()


_BODIES = {stream: _body(stream=stream) for stream in (True, False)}
_HEAD = {"id": "c", "created": 1, "model": "m"}


def _streamed(settings: Settings, text: str, reason: str, sizes: list[int]) -> Answered:
    exchange = Exchange(settings, Memory())
    assert exchange.on_request(_BODIES[True]) is not None
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(text):
            break
        deltas.append(({"content": text[at : at + size]}, None))
        at += size
    deltas.append(({}, reason))
    events = [
        b"data: %s\n\n"
        % json.dumps(
            {**_HEAD, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": r}]}
        ).encode()
        for d, r in deltas
    ]
    events.append(b"data: [DONE]\n\n")
    assert exchange.plan_for(events[0]) is Plan.STREAM
    out = b""
    for event in events:
        out += exchange.feed(event)
        if exchange.stopped:
            break
    else:
        out += exchange.finish()
    return check_stream(out, **_expected(settings))


def _whole(settings: Settings, text: str, reason: str) -> Answered:
    exchange = Exchange(settings, Memory())
    exchange.on_request(_BODIES[False])
    exchange.on_response_start(200, [(b"content-type", b"application/json")])
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    reply = exchange.whole(json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice]}).encode())
    assert reply is not None
    return check_whole(reply.body, **_expected(settings))


def run(count: int, seed: int, tell: Callable[[str], object] = print) -> int:
    """`count` exchanges; gives the number of failures."""
    seen: Counter[str] = Counter()
    failures = 0
    start = time.monotonic()
    for number in range(seed * 10_000_000, seed * 10_000_000 + count):
        try:
            seen[one(Seeded(number))] += 1
        except (AssertionError, ToolCallError, ValueError, TypeError, LookupError, RecursionError) as error:
            failures += 1
            if failures <= 5:
                tell(f"seed {number}: {type(error).__name__}: {str(error)[:600]}")
        if sum(seen.values()) % 50_000 == 49_999:
            tell(f"{sum(seen.values()) + 1} exchanges, {failures} failures, {time.monotonic() - start:.0f} s")
    tell(f"{count} exchanges: {dict(seen)}, {failures} failures")
    return failures


def guided(seconds: int) -> int:
    """The same, driven by atheris; it ends the process by itself at the first failure."""
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=256"], lambda data: one(FromBytes(data)))
    atheris.Fuzz()
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fuzz", description="Random exchanges.")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--atheris", type=int, metavar="SECONDS")
    given = parser.parse_args(arguments)
    if given.atheris is not None:
        return guided(given.atheris)
    return 1 if run(given.count, given.seed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
