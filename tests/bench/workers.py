"""How the proxy scales with its workers: `python -m tests.bench.workers [--seconds 8] [--write]`.

wrk asks the proxy as fast as it is answered, and nginx answers the proxy with the same kilobyte each time. Both are
Debian's (`apt-get install nginx-light wrk`) and cost a tenth to a half of what the proxy does. Compared are the
requests a second with one worker and with two, in turns, and the proxy's CPU a request: where that is the same, two
workers carry twice as much on cores that nobody else uses.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import middle, report
from .middle import HOST, Server
from .report import Table

BEGIN = "<!-- workers: written by `python -m tests.bench.workers --write` -->"
END = "<!-- /workers -->"
_CONNECTIONS = 32
_ANSWERS = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen {host}:{port}; location / {{ default_type {kind}; return 200 '{answer}'; }} }}
}}
"""
_ASK = """
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.body = [==[{body}]==]
"""


@dataclass(frozen=True)
class Case:
    """What is asked, and what the upstream answers to it."""

    name: str
    body: str
    kind: str
    answer: str


@dataclass(frozen=True)
class Load:
    """What a proxy carried."""

    rate: float
    """Requests a second."""
    cpu: float
    """Microseconds of the proxy's CPU a request."""


def _cases() -> list[Case]:
    head = {"id": "x", "created": 1, "model": "m"}
    ask = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    with_tools = {**ask, "tools": [middle.TOOL]}
    message = {"role": "assistant", "content": "word " * 170}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = json.dumps({**head, "object": "chat.completion", "choices": [choice]})
    deltas = [{"role": "assistant", "content": ""}, *({"content": f" word{at}"} for at in range(16)), {}]
    chunks = [
        {"index": 0, "delta": delta, "finish_reason": None if at < len(deltas) - 1 else "stop"}
        for at, delta in enumerate(deltas)
    ]
    events = [json.dumps({**head, "object": "chat.completion.chunk", "choices": [chunk]}) for chunk in chunks]
    stream = "".join(f"data: {event}\\n\\n" for event in [*events, "[DONE]"])
    return [
        Case("whole answers of 1 KB, no tools", json.dumps(ask), "application/json", whole),
        Case("whole answers of 1 KB, with a tool", json.dumps(with_tools), "application/json", whole),
        Case(
            "streams of 18 chunks, with a tool", json.dumps({**with_tools, "stream": True}), "text/event-stream", stream
        ),
    ]


@contextlib.contextmanager
def _upstream(case: Case) -> Iterator[str]:
    """nginx, which says the same to everything."""
    answer = case.answer.replace("'", "\\'")
    options = ("-p", "{folder}", "-c", "{config}")
    with middle.configured(_program("nginx"), _ANSWERS, *options, kind=case.kind, answer=answer) as server:
        if server is not None:
            yield f"http://{HOST}:{server.port}"


def _program(name: str) -> str:
    found = middle.program(name)
    if found is None:
        raise SystemExit(f"{name} is not installed: apt-get install nginx-light wrk")
    return found


def _load(server: Server, script: Path, seconds: float) -> Load:
    """As many requests as it takes; each must be answered with 200."""
    begin = server.cpu()
    url = f"http://{HOST}:{server.port}/v1/chat/completions"
    command = [_program("wrk"), "-t1", f"-c{_CONNECTIONS}", f"-d{seconds:g}s", "-s", str(script), url]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(said)
    rate, count = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"(\d+) requests in", said)
    if rate is None or count is None:
        raise RuntimeError(said)
    return Load(float(rate.group(1)), (server.cpu() - begin) / int(count.group(1)) * 1e6)


def _measure(case: Case, *, seconds: float, rounds: int) -> tuple[Load, Load]:
    """The best with one worker and with two, in turns."""
    with tempfile.TemporaryDirectory() as folder, _upstream(case) as base:
        script = Path(folder) / "ask.lua"
        script.write_text(_ASK.format(body=case.body), "utf-8")
        with (
            middle.proxy(base, *middle.NO_ACCESS_LOG) as one,
            middle.proxy(base, *middle.NO_ACCESS_LOG, "--workers", "2") as two,
        ):
            for server in (one, two):
                _load(server, script, min(1.0, seconds))
            told = [(_load(one, script, seconds), _load(two, script, seconds)) for _ in range(rounds)]
    ones, twos = zip(*told, strict=True)
    return _best(ones), _best(twos)


def _best(loads: tuple[Load, ...]) -> Load:
    return Load(max(load.rate for load in loads), min(load.cpu for load in loads))


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("workers", __doc__)
    parser.add_argument("--seconds", type=float, default=8, help="each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each")
    parser.add_argument("--write", action="store_true", help="put the table into tests/bench/README.md")
    given = parser.parse_args(arguments)
    table = Table(
        f"Proxy: two workers on {os.cpu_count()} cores", ("requests a second; CPU µs a request", "x one worker")
    )
    for case in _cases():
        one, two = _measure(case, seconds=given.seconds, rounds=given.rounds)
        print(f"{case.name}: {one}, {two}", file=sys.stderr, flush=True)
        figures = f"{one.rate:,.0f} -> {two.rate:,.0f}; {one.cpu:,.0f} -> {two.cpu:,.0f}"
        table.add(case.name, figures, f"{two.rate / one.rate:.2f}; {two.cpu / one.cpu:.2f}", ">= 1.7; <= 1.18")
    text = report.figures([table])
    print(text)
    if given.write:
        report.write(text, begin=BEGIN, end=END)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
