"""`python -m tests.bench.many_tools BFCL_v4_multiple.json`: right calls with 5, 40 and 120 tools offered.

Questions of BFCL's category "multiple" (`pip download --no-deps bfcl-eval` has the file, and the possible answers in
the folder beside it). The functions of other questions are offered too, until there are enough. `tool_choice:
required`, temperature 0, the format `json`; without a budget and with each of the given ones. The model is the demo's
(the extra `local`), or any GGUF file.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.cli.check.bfcl import read_questions
from toolcall_middleware.cli.check.trials import Question
from toolcall_middleware.cli.demo import local
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.model import ToolCall

_SECONDS = 600.0
_MOST_TOKENS = 160


class Counted:
    """Counts the requests that reach the backend."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += scope["type"] == "http" and scope["method"] == "POST"
        await self._app(scope, receive, send)


@dataclass(slots=True)
class Score:
    """Counts of one row. seconds: wall time of the answers. refused: requests that the backend's window
    cannot hold. counted: answers whose prompt tokens are known.
    """

    asked: int = 0
    right: int = 0
    named: int = 0
    no_call: int = 0
    refused: int = 0
    counted: int = 0
    tokens: int = 0
    requests: int = 0
    seconds: float = 0.0

    def row(self, name: str) -> str:
        """A row of the table."""
        cells = (
            name,
            f"{self.right} of {self.asked}",
            str(self.named),
            str(self.refused),
            str(self.no_call),
            f"{self.tokens // max(1, self.counted):,}",
            f"{self.requests / max(1, self.asked):.2f}",
            f"{self.seconds / max(1, self.asked):.1f}",
        )
        return f"| {' | '.join(cells)} |"


def groups(questions: Sequence[Question], limit: int, count: int) -> Iterator[tuple[list[Question], list[Any]]]:
    """The first `limit` questions in groups that are offered the same `count` tools, in an order of no meaning.

    The tools are the group's own, and then those of the questions that follow: a backend that keeps its prefix computes
    them once a group.
    """
    at = 0
    while at < limit:
        asked: list[Question] = []
        tools: dict[str, Any] = {}
        for question in questions[at:limit]:
            more = tools | {one["function"]["name"]: one for one in question.tools}
            if len(more) > count:
                break
            asked.append(question)
            tools = more
        if not asked:
            raise SystemExit(f"{questions[at].label} has more than {count} functions of its own.")
        at += len(asked)
        for question in (*questions[at:], *questions[:at]):
            for one in question.tools:
                if len(tools) < count:
                    tools.setdefault(one["function"]["name"], one)
        offered = list(tools.values())
        random.Random(count).shuffle(offered)
        yield asked, offered


async def run(url: str, questions: Sequence[Question], limit: int, count: int, budget: int | None) -> Score:
    """Ask every question."""
    counted = Counted(Forwarder(url, Settings(upstream_timeout=_SECONDS, upstream_retries=0)))
    app = ToolCallMiddleware(counted, mode="prompt", format="json", retries=0, tools_budget=budget)
    score = Score()
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app/v1", timeout=_SECONDS) as client:
        for asked, tools in groups(questions, limit, count):
            for question in asked:
                body = {
                    "model": local.MODEL,
                    "messages": question.messages,
                    "tools": tools,
                    "tool_choice": "required",
                    "parallel_tool_calls": False,
                    "temperature": 0,
                    "seed": 1,
                    "max_tokens": _MOST_TOKENS,
                }
                started = time.perf_counter()
                response = await client.post("/chat/completions", json=body)
                score.seconds += time.perf_counter() - started
                score.asked += 1
                answer = response.json()
                if response.status_code == httpx.codes.BAD_REQUEST:
                    score.refused += 1
                    continue
                if response.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
                    score.no_call += 1
                    continue
                response.raise_for_status()
                score.counted += 1
                score.tokens += answer["usage"]["prompt_tokens"]
                made = answer["choices"][0]["message"].get("tool_calls") or []
                calls = [ToolCall(one["function"]["name"], one["function"]["arguments"]) for one in made]
                fault, right = question.judge(calls)
                score.right += right
                score.named += bool(calls) and fault != "another function"
                score.no_call += not calls
    score.requests = counted.requests
    return score


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.many_tools", description=__doc__.partition("\n")[0])
    parser.add_argument("questions", type=Path, help="BFCL's file of questions")
    parser.add_argument("--weights", type=Path, metavar="FILE.gguf", help="another model than the demo's")
    parser.add_argument("--limit", type=int, default=40, metavar="N", help="the first N questions")
    parser.add_argument("--tools", type=int, nargs="+", default=[5, 40, 120], metavar="N", help="tools offered")
    parser.add_argument("--budget", type=int, nargs="*", default=[1000], metavar="N", help="values of tools_budget")
    parser.add_argument("--window", type=int, default=8192, metavar="TOKENS", help="the backend's window")
    given = parser.parse_args(arguments)
    path = given.weights or local.weights()
    if path is None:
        print(local.missing())
        return 2
    questions = read_questions(given.questions, None, 10_000).questions
    heads = (
        "tools, budget",
        "right call",
        "right tool",
        "does not fit",
        "no call",
        "prompt tokens",
        "requests",
        "seconds",
    )
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for count in given.tools:
        for budget in (None, *given.budget):
            with local.llama_server(path, cache_prompt=True, window=given.window) as url:
                score = asyncio.run(run(url, questions, given.limit, count, budget))
            print(score.row(f"{count}, {budget or 'none'}"), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
