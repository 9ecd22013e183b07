"""`python -m tests.bench.engine --url URL`: what holds in front of a real engine.

Sixty requests with `tool_choice: required` over ten tools, whole and streamed in turn, and between them poisoned ones:
tools whose schema an engine's grammar refuses (`uniqueItems`, as pydantic's `set[str]` has it, `contains`, a property
that is `true`). What another client asks for behind them must be constrained as before. Then streams that the
middleware ends itself, whose usage is compared with the whole answer's, and a request that is too long.

Exit code 0 where all of it holds, 1 where something does not, 2 where nothing can be asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from toolcall_middleware.cli.demo.checks import schema_check
from toolcall_middleware.cli.faces.answers import Received

from .asking import Asker, asker
from .questions import QUESTIONS, TOOLS
from .report import Table, machine, only_defaults
from .report import parser as parser_of

_MOST_TOKENS = 200
_MOST_SHOWN = 5
_EVERY = 12  # questions between two poisoned ones
_CONSTRAINTS = ("response_format", "structured_outputs", "grammar")
_NAMED = {"type": "function", "function": {"name": "get_weather"}}
_ASK = "What is the weather in Paris?"


def _poisoned(name: str, **schema: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"tags": schema}, "required": ["tags"]}
    return {"type": "function", "function": {"name": name, "description": "Keeps tags.", "parameters": parameters}}


POISON: dict[str, dict[str, Any]] = {
    "uniqueItems": _poisoned("keep_set", type="array", items={"type": "string"}, uniqueItems=True),
    "contains": _poisoned("keep_some", type="array", items={"type": "string"}, contains={"const": "a"}),
    "a property that is true": {
        "type": "function",
        "function": {
            "name": "keep_any",
            "description": "Keeps anything.",
            "parameters": {"type": "object", "properties": {"a": True}, "required": ["a"]},
        },
    },
}


@dataclass(slots=True)
class Results:
    """What was asked, and what did not hold."""

    asked: int = 0
    valid: int = 0
    right: int = 0
    constrained: int = 0
    attempts: int = 0
    estimated: int = 0
    seconds: float = 0.0
    poisoned: list[tuple[str, str, bool]] = field(default_factory=list)  # (keyword, what came of it, it holds)
    ended: list[tuple[str, str, bool]] = field(default_factory=list)
    long: list[tuple[str, str, bool]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def holds(self) -> bool:
        """Whether all of it does."""
        rest = [*self.poisoned, *self.ended, *self.long]
        return bool(self.asked) and self.valid == self.asked and all(holds for _, _, holds in rest)

    def table(self, title: str) -> Table:
        table = Table(title, ("figure", "of"))
        table.add("valid calls of `required`", str(self.valid), str(self.asked), "all")
        table.add("of the tool that is meant", str(self.right), str(self.asked))
        table.add("constrained", str(self.constrained), str(self.asked))
        table.add("requests to the engine", str(self.attempts), str(self.asked))
        table.add("estimated usage", str(self.estimated), str(self.asked))
        for kind, rows in (("poisoned", self.poisoned), ("ended here", self.ended), ("too long", self.long)):
            for what, came, holds in rows:
                table.add(f"{kind}: {what}", came, "", "holds" if holds else "DOES NOT HOLD")
        return table


@asynccontextmanager
async def _engine(url: str, key: str | None, model: str | None, settings: dict[str, Any]) -> AsyncIterator[Engine]:
    async with asker(url, key, **settings) as asking:
        if model is None:
            model = str((await asking.client.get("/models")).json()["data"][0]["id"])
        yield Engine(asking, model)


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine, and its model."""

    asker: Asker
    model: str

    @property
    def asked(self) -> list[tuple[dict[str, Any], int]]:
        """The requests that reached it."""
        return self.asker.backend.asked

    async def ask(self, question: str, *, stream: bool, **fields: Any) -> Received:
        """One request."""
        if stream:
            fields["stream_options"] = {"include_usage": True}
        return await self.asker.ask(question, model=self.model, max_tokens=_MOST_TOKENS, stream=stream, **fields)


async def _required(engine: Engine, results: Results, wanted: str, question: str) -> bool:
    """One of the sixty. Whether its call is valid."""
    before = len(engine.asked)
    stream = bool(results.asked % 2)
    answer = await engine.ask(question, stream=stream, tools=TOOLS, tool_choice="required")
    check = schema_check(answer, TOOLS)
    results.asked += 1
    results.valid += check.ok
    results.right += check.ok and {call.name for call in answer.calls} == {wanted}
    results.estimated += bool((answer.usage or {}).get("estimated"))
    bodies = engine.asked[before:]
    results.attempts += len(bodies)
    results.constrained += bool(bodies) and any(name in bodies[-1][0] for name in (*_CONSTRAINTS, "tools"))
    if not check.ok:
        results.faults[check.why] += 1
    for fault in answer.faults:
        results.faults[f"{fault.area}: {fault.text}"] += 1
    return check.ok


async def _poison(engine: Engine, results: Results, keyword: str, *, stream: bool) -> None:
    """A request of one client that the engine's grammar refuses, and what another one's is worth behind it."""
    tool = POISON[keyword]
    answer = await engine.ask("Keep the tags.", stream=stream, key="mallory", tools=[tool], tool_choice="required")
    own = schema_check(answer, [tool])
    was_cut = answer.status == 200 and answer.finish_reason == "length"
    came = "a valid call" if own.ok else "a call" if answer.calls else "cut" if was_cut else f"status {answer.status}"
    # Whether it fits is checked where the engine refused the keyword; one that ignores it makes what it makes.
    clear = bool(answer.calls) or was_cut or (400 <= answer.status < 500 and answer.error is not None)
    before = len(engine.asked)
    good = schema_check(await engine.ask(_ASK, stream=stream, tools=TOOLS, tool_choice="required"), TOOLS).ok
    attempts = len(engine.asked) - before
    results.poisoned.append((keyword, f"{came}, the next one's {attempts} attempts", clear and good and attempts == 1))


async def _ended(engine: Engine, results: Results) -> None:
    """Streams that the middleware ends: their usage beside that of the whole answer."""
    tools = TOOLS[:1]
    ways: dict[str, dict[str, Any]] = {
        "a named tool": {"tools": tools, "tool_choice": _NAMED},
        "required, one call": {"tools": tools, "tool_choice": "required", "parallel_tool_calls": False},
        "a stop string": {"tools": tools, "stop": [" the", "e"]},
    }
    for what, fields in ways.items():
        whole = (await engine.ask(_ASK, stream=False, **fields)).usage or {}
        streamed = (await engine.ask(_ASK, stream=True, **fields)).usage or {}
        one, other = (
            f"{usage.get('prompt_tokens')} + {usage.get('completion_tokens')}"
            f"{' estimated' if usage.get('estimated') else ''}"
            for usage in (streamed, whole)
        )
        # How much a model wrote behind a stop string is the engine's alone to know.
        same = whole.get("prompt_tokens") == streamed.get("prompt_tokens")
        same = same and ("stop" in fields or whole.get("completion_tokens") == streamed.get("completion_tokens"))
        results.ended.append((what, f"{one}, whole {other}", same))


async def _long(engine: Engine, results: Results, words: int) -> None:
    for stream in (False, True):
        answer = await engine.ask("word " * words, stream=stream, tools=TOOLS[:1])
        clear = answer.status in {400, 413, 422} and answer.error is not None
        results.long.append(("streamed" if stream else "whole", f"status {answer.status}", clear))


async def run(
    url: str, *, key: str | None = None, model: str | None = None, limit: int = 60, words: int = 0, **settings: Any
) -> Results:
    """All of it. limit: of the sixty requests. words: of the request that is too long; 0 leaves it out."""
    results, begin = Results(), time.monotonic()
    turns = [(wanted, questions[turn]) for turn in range(6) for wanted, questions in QUESTIONS.items()]
    poison = list(POISON)
    async with _engine(url, key, model, settings) as engine:
        for number, (wanted, question) in enumerate(turns[:limit]):
            good = await _required(engine, results, wanted, question)
            print("." if good else "F", end="", file=sys.stderr, flush=True)
            if number % _EVERY == _EVERY - 1 and poison:
                await _poison(engine, results, poison.pop(0), stream=bool(len(poison) % 2))
        for keyword in poison:
            await _poison(engine, results, keyword, stream=False)
        await _ended(engine, results)
        if words:
            await _long(engine, results, words)
    print(file=sys.stderr)
    results.seconds = time.monotonic() - begin
    return results


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("engine", __doc__)
    parser.add_argument("--url", required=True, help="the engine's address, /v1 included")
    parser.add_argument("--model", help="default: the first that it lists")
    parser.add_argument("--key-env", metavar="NAME", help="the variable that holds the engine's key")
    parser.add_argument("--limit", type=int, default=60, metavar="N", help="the first N of the sixty requests")
    parser.add_argument("--mode", default="prompt", choices=("prompt", "native", "auto"))
    parser.add_argument("--format", default="auto")
    parser.add_argument("--too-long", type=int, default=0, metavar="WORDS", help="also a request of so many words")
    given = parser.parse_args(arguments)
    only_defaults()
    key = os.environ.get(given.key_env) if given.key_env else None
    try:
        results = asyncio.run(
            run(
                given.url, key=key, model=given.model, limit=given.limit, words=given.too_long,
                mode=given.mode, format=given.format,
            )
        )  # fmt: skip
    except (httpx.HTTPError, KeyError, IndexError, json.JSONDecodeError) as error:
        print(f"{given.url}: nothing can be asked: {error!r}", file=sys.stderr)
        return 2
    title = f"An engine behind the middleware: mode={given.mode}, {results.seconds:.0f} s"
    print(f"{results.table(title).markdown()}\nMeasured on: {machine()}.")
    for fault, count in results.faults.most_common(_MOST_SHOWN):
        print(f"{count} x {fault[:200]}")
    return 0 if results.holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
