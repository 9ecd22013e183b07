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
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from toolcall_middleware.cli.check.bfcl import read_questions
from toolcall_middleware.cli.check.trials import Question, calls_of
from toolcall_middleware.cli.demo import local

from . import asking, report

_MOST_TOKENS = 160
_HEADS = "tools, budget", "right call", "right tool", "does not fit", "no call", "prompt tokens", "requests", "seconds"
_REFUSED: dict[int, str] = {httpx.codes.BAD_REQUEST: "refused", httpx.codes.UNPROCESSABLE_ENTITY: "no_call"}


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


async def run(
    url: str, questions: Sequence[Question], given: argparse.Namespace, count: int, budget: int | None
) -> list[str]:
    """Ask every question; the cells of the table's row. A request that the backend's window cannot hold is refused."""
    score: Counter[str] = Counter()
    seconds = 0.0
    async with asking.asker(url, mode="prompt", format="json", retries=0, tools_budget=budget) as asker:
        for asked, tools in groups(questions, given.limit, count):
            fields: dict[str, Any] = {"tools": tools, "tool_choice": "required", "parallel_tool_calls": False}
            for question in asked:
                started = time.perf_counter()
                answer = await asker.ask(question.messages, max_tokens=_MOST_TOKENS, **fields)
                seconds += time.perf_counter() - started
                score["asked"] += 1
                if answer.status == httpx.codes.OK:
                    calls = calls_of(answer)
                    fault, right = question.judge(calls)
                    named = bool(calls) and fault != "another function"
                    tokens = (answer.usage or {}).get("prompt_tokens", 0)
                    score.update(counted=1, tokens=tokens, right=right, named=named, no_call=not calls)
                elif answer.status in _REFUSED:
                    score[_REFUSED[answer.status]] += 1
                else:
                    raise SystemExit(f"{question.label}: status {answer.status}: {answer.error}")
        requests = len(asker.backend.asked)
    each = max(1, score["asked"])
    cells = [f"{score['right']} of {score['asked']}", *(str(score[name]) for name in ("named", "refused", "no_call"))]
    mean = f"{score['tokens'] // max(1, score['counted']):,}"
    return [f"{count}, {budget or 'none'}", *cells, mean, f"{requests / each:.2f}", f"{seconds / each:.1f}"]


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("many_tools", __doc__)
    parser.add_argument("questions", type=Path, help="BFCL's file of questions")
    parser.add_argument("--weights", type=Path, metavar="FILE.gguf", help="another model than the demo's")
    parser.add_argument("--limit", type=int, default=40, metavar="N", help="the first N questions")
    parser.add_argument("--tools", type=int, nargs="+", default=[5, 40, 120], metavar="N", help="tools offered")
    parser.add_argument("--budget", type=int, nargs="*", default=[1000], metavar="N", help="values of tools_budget")
    parser.add_argument("--window", type=int, default=8192, metavar="TOKENS", help="the backend's window")
    given = parser.parse_args(arguments)
    path = asking.weights(given.weights)
    questions = read_questions(given.questions, None, 10_000).questions
    print(f"| {' | '.join(_HEADS)} |\n|{'---|' * len(_HEADS)}")
    for count in given.tools:
        for budget in (None, *given.budget):
            with local.llama_server(path, cache_prompt=True, window=given.window) as url:
                cells = asyncio.run(run(url, questions, given, count, budget))
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
