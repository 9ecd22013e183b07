"""Faults for as long as is wanted: `python -m tests.bench.soak [--seconds 1200] [--workers 24] [--seed 1]`.

A uvicorn process serves an app that fails on request (tests/bench/faulty.py), behind the middleware. Workers ask for
random texts with calls in random formats, streamed and whole, with random faults, and leave some streams in the middle.
Each answer must be right, or a clear error that keeps the text before it. Afterwards nothing may run or have been kept.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.helpers.stream_rules import check_error, check_stream, check_whole
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall

from . import middle, report
from .faulty import FAULTS

_FORMATS = ["json", "hermes", "qwen3_coder", "mistral_v11", "deepseek_v31", "glm45", "kimi_k2", "minimax_m2"]
_WORDS = [
    "the", "rain", "in", "Paris", "falls,", "`x", "<", "y`", "and", "{a:", "1}", "are", "[not]", "calls;", "雨が降る",
    "—", "fine.", "😀", "<b>so</b>\n",
]  # fmt: skip
_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
# What the backend does there cannot become a right answer.
_STATUS = {"html": 502, "error_500": 500, "error_400": 400, "no_content": 204, "redirect": 307, "empty": 502}
_MAY_FAIL = frozenset(["cut", "dies", "returns", "error_event", "garbage_event", "dies_before"])
_MAX_GROWTH = 32 << 20


@dataclass(slots=True)
class Plan:
    """One request and what has to come of it."""

    fault: str
    text: str
    at: int
    stream: bool
    leave: int | None
    prose: str
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def body(self) -> dict[str, Any]:
        """The request."""
        return {
            "model": "m",
            "messages": [{"role": "user", "content": "How is the weather?"}],
            "stream": self.stream,
            "tools": [_TOOL],
            "metadata": {"fault": self.fault, "text": self.text, "at": str(self.at)},
        }


def plan(chance: random.Random) -> Plan:
    """A random request."""
    prose = " ".join(chance.choices(_WORDS, k=chance.randrange(40))).strip()
    calls = []
    text = prose
    if chance.random() < 0.7:
        calls = [
            ("weather", {"city": chance.choice(["Paris", "Köln", "a\n</b>\"'"]), "days": number})
            for number in range(chance.randrange(1, 3))
        ]
        written = [ToolCall(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls]
        text += "\n\n" + registry.get(chance.choice(_FORMATS)).render_calls(written)
    return Plan(
        fault=chance.choice(FAULTS),
        text=text,
        at=chance.randrange(1, 2000),
        stream=chance.random() < 0.7,
        leave=chance.randrange(1, 12) if chance.random() < 0.1 else None,
        prose=prose,
        calls=calls,
    )


def judge(wanted: Plan, status: int, body: bytes) -> str:
    """`right` or `error`. Raises AssertionError when the answer is neither."""
    if wanted.fault in _STATUS:
        assert status == _STATUS[wanted.fault], f"{wanted.fault} gave {status}"
        if status >= 400:
            check_error(body)
        return "error"
    if status != 200:
        assert wanted.fault in _MAY_FAIL, f"{wanted.fault} gave {status}: {body[:300]!r}"
        assert status >= 500
        return "error"
    # An event that is no JSON passes, as without us.
    body = body.replace(b"data: {not json\n\n", b"")
    failed = b'"error"' in body and wanted.fault in _MAY_FAIL
    if wanted.stream:
        answer = check_stream(body, tools={"weather"}, error=failed)
    else:
        answer = check_whole(body, tools={"weather"})
    choice = answer.choices[0] if answer.choices else None
    text = ((choice.content if choice else None) or "").strip()
    if failed:
        # What is no call comes out as the text it was, and half a call may be some of it.
        # Behind a complete call the beginning of the next one may be left.
        twice = f"{wanted.text}\n{wanted.text}".strip()
        behind = bool(wanted.calls) and text.startswith(wanted.prose)
        rest = text.removeprefix(wanted.prose).strip()
        kept = twice.startswith(text) or wanted.prose.startswith(text) or (behind and rest in twice)
        assert kept, f"the text was changed: {text!r}"
        return "error"
    assert choice is not None
    times = 2 if wanted.fault == "call_twice" and wanted.stream else 1
    if times == 1 or wanted.calls:
        assert "".join(text.split()) == "".join((wanted.prose * times).split()), f"text {text!r}, not {wanted.prose!r}"
    assert [(call.name, call.parsed) for call in choice.calls] == wanted.calls * times, "the calls are not those"
    return "right"


async def _one(client: httpx.AsyncClient, wanted: Plan) -> str:
    try:
        async with client.stream("POST", "/v1/chat/completions", json=wanted.body()) as answer:
            if wanted.leave is not None:
                reads = 0
                async for _ in answer.aiter_raw():
                    reads += 1
                    if reads >= wanted.leave:
                        break
                return "left"
            body = await answer.aread()
    except (httpx.RemoteProtocolError, httpx.ReadError):
        # The server cuts the connection of an app that raised: nothing looks complete then.
        if wanted.fault in _MAY_FAIL:
            return "cut"
        raise
    return judge(wanted, answer.status_code, body)


async def _worker(address: str, seed: int, until: float, seen: Counter[str]) -> None:
    chance = random.Random(seed)
    # No connection is used twice: a server closes them after a fault, and a client may learn of it too late.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        while time.monotonic() < until:
            wanted = plan(chance)
            try:
                seen[await _one(client, wanted)] += 1
            except AssertionError as error:
                raise AssertionError(f"{error}\n{wanted}") from error


async def run(address: str, *, seconds: float, workers: int, seed: int) -> Counter[str]:
    """What came of the requests. Raises AssertionError for a wrong answer, or when something was left behind."""
    seen: Counter[str] = Counter()
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        start = time.monotonic()
        middle: dict[str, int] = {}
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(_worker(address, seed * 1000 + number, start + seconds, seen))
            await asyncio.sleep(seconds / 2)
            middle = (await client.get("/state")).json()
        state: dict[str, int] = {}
        for _ in range(100):
            state = (await client.get("/state")).json()
            if not state["running"]:
                break
            await asyncio.sleep(0.1)
        assert state["running"] == 0, f"{state['running']} answers are still being written"
        assert state["tasks"] < 10, f"{state['tasks']} tasks are left"
        growth = state["rss"] - middle["rss"]
        assert growth < _MAX_GROWTH, f"the server grew by {growth >> 20} MiB in the second half"
        seen["KiB grown in the second half"] = growth >> 10
    return seen


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("soak", __doc__)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--workers", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with middle.server("tests.bench.faulty", "{port}") as server:
        address = f"http://{middle.HOST}:{server.port}"
        seen = asyncio.run(run(address, seconds=given.seconds, workers=given.workers, seed=given.seed))
    print(f"{given.seconds:g} s, seed {given.seed}: " + ", ".join(f"{name} {count}" for name, count in seen.items()))
    return 0 if server.process.returncode in {0, -15} else 1


if __name__ == "__main__":
    raise SystemExit(main())
