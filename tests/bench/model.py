"""`python -m tests.bench.model`: how often a real small model calls, and calls right, with and without a constraint.

Sixty requests over ten tools, all ten offered each time, at temperature 0: SmolLM2-135M on llama.cpp, behind the
middleware. It takes about twenty minutes of one core. Needs the extra `local` and the weights (README.md).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.helpers.driven import Driven
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.cli.demo import local
from toolcall_middleware.cli.demo.checks import schema_check
from toolcall_middleware.cli.faces.answers import read_answer
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from .questions import QUESTIONS, TOOLS
from .report import README, Row, Table, machine, write

_BEGIN = "<!-- model: written by `python -m tests.bench.model --write` -->"
_END = "<!-- /model -->"
_MOST_TOKENS = 160
_SECONDS = 120.0

# The format, `tool_choice` and `constrain` of each run.
RUNS = [
    (fmt, choice, constrain)
    for choice in ("required", "auto")
    for fmt in ("json", "hermes")
    for constrain in ("auto", "off")
]


@dataclass(slots=True)
class Score:
    """What came of the requests of one run.

    valid: there are calls, and each is of an offered tool with arguments that fit its schema. right: and no other tool
    than the one that is meant was called.
    """

    asked: int = 0
    valid: int = 0
    right: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)


async def run(url: str, fmt: str, choice: str, constrain: str, *, limit: int, log: Path | None = None) -> Score:
    """One run: each question once."""
    app = ToolCallMiddleware(Forwarder(url, timeout=_SECONDS), mode="prompt", format=fmt, constrain=constrain)
    transport = httpx.ASGITransport(app=app)
    score = Score()
    begin = time.monotonic()
    async with httpx.AsyncClient(transport=transport, base_url="http://app/v1", timeout=_SECONDS) as client:
        for wanted, question in _questions(limit):
            response = await client.post("/chat/completions", json=_body(question, choice))
            answer = read_answer(
                "chat",
                response.content,
                status=response.status_code,
                streamed=False,
                content_type=response.headers["content-type"],
            )
            verdict = schema_check(answer, TOOLS)
            valid = verdict.ok
            score.asked += 1
            score.valid += valid
            score.right += valid and {call.name for call in answer.calls} == {wanted}
            if not valid:
                score.faults[verdict.why] += 1
            if log is not None:
                line = {"run": [fmt, choice, constrain], "question": question, "wanted": wanted, "valid": valid,
                        "why": verdict.why, "finish": answer.finish_reason, "answer": response.text}  # fmt: skip
                with log.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(line, ensure_ascii=False) + "\n")
    score.seconds = time.monotonic() - begin
    return score


def _body(question: str, choice: str) -> dict[str, Any]:
    return {
        "model": local.MODEL,
        "messages": [{"role": "user", "content": question}],
        "tools": TOOLS,
        "tool_choice": choice,
        "temperature": 0,
        "seed": 1,
        "max_tokens": _MOST_TOKENS,
    }


def asked_of_backend(fmt: str, choice: str, constrain: str) -> bytes:
    """What the backend is asked at first. Runs that ask the same need not be run twice."""
    settings = Settings(mode="prompt", format=fmt, constrain=constrain)
    return Driven(settings, BackendMemory()).on_request(json.dumps(_body("x", choice)).encode()) or b""


def _questions(limit: int) -> Iterator[tuple[str, str]]:
    """The questions in turns, so that a few of them are a few of each tool."""
    turns = [(wanted, questions[turn]) for turn in range(6) for wanted, questions in QUESTIONS.items()]
    return iter(turns[:limit])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.model", description=__doc__.partition("\n")[0])
    parser.add_argument("--limit", type=int, default=60, metavar="N", help="the first N of the sixty requests")
    parser.add_argument("--format", choices=("json", "hermes"), help="one format only")
    parser.add_argument("--choice", choices=("auto", "required"), help="one tool_choice only")
    parser.add_argument("--constrain", help="one way only")
    parser.add_argument("--log", type=Path, metavar="FILE", help="every answer as a line of JSON")
    parser.add_argument("--write", action="store_true", help="put the table into tests/bench/README.md")
    given = parser.parse_args(arguments)
    if given.write and (given.limit != 60 or given.format or given.choice or given.constrain):
        parser.error("--write is for a whole run")
    absent = local.missing()
    if absent is not None:
        print(absent)
        return 2
    for name in [name for name in os.environ if name.startswith("TOOLCALL_")]:
        del os.environ[name]  # what is measured are the defaults
    table = Table("A real model: 60 requests over 10 tools", ("valid calls", "of the right tool"))
    promise_kept = True
    path = local.weights()
    assert path is not None
    # The tools stand at the front of every prompt: read once, they cost nothing after that.
    known: dict[bytes, Score] = {}
    with local.llama_server(path, threads=1, cache_prompt=True) as url:
        for fmt, choice, constrain in RUNS:
            picked = (given.format, given.choice, given.constrain)
            if any(want not in {None, have} for want, have in zip(picked, (fmt, choice, constrain), strict=True)):
                continue
            asks = asked_of_backend(fmt, choice, constrain)
            if asks not in known:
                known[asks] = asyncio.run(run(url, fmt, choice, constrain, limit=given.limit, log=given.log))
            score = known[asks]
            # `json` is what `format=auto` writes for this model; `hermes`, which it never learned, is for comparison.
            held = choice == "required" and constrain != "off" and fmt == "json"
            promise_kept = promise_kept and (not held or score.valid == score.asked)
            row = Row(
                f"{fmt}, {choice}, constrain={constrain}",
                f"{score.valid} of {score.asked}",
                f"{score.right} of {score.asked}",
                "valid: all" if held else "",
            )
            table.rows.append(row)
            print(f"{row.what}: valid {row.figure}, right {row.ratio}, {score.seconds:.0f} s", flush=True)
            for fault, count in score.faults.most_common(3):
                print(f"    {count} x {fault[:160]}", flush=True)
    text = f"{path.stem} (of {local.WEIGHTS}) on {machine()}.\n\n{table.markdown()}"
    print(text)
    if given.write:
        write(text, README, begin=_BEGIN, end=_END)
    return 0 if promise_kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
