"""Prompt tokens that a backend need not compute again: `python -m tests.bench.reused [--turns 10]`.

A conversation as Claude Code has it (a billing line that changes with each request, tools, a tool search on the way) is
asked turn by turn, through the face of Messages and the exchange, of a real llama.cpp with a small model that keeps its
prompts. Three ways: as it is; without the rule for known lines; with loaded tools in the front of the prompt. And with
24 more tools, one of which it calls on the way: with all of them shown, and within a `tools_budget`.
Needs the extra `local`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import httpx

from toolcall_middleware.apis.messages.client import request as messages_request
from toolcall_middleware.apis.messages.client.face import MessagesFace
from toolcall_middleware.cli.demo import local
from toolcall_middleware.exchange import Ask, Exchange, Request
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from . import report

_SYSTEM = "You are an agent that works in a terminal. " + "Be careful with files that are not yours. " * 20
_SEARCH_TURN = 4


def _tool(name: str, **more: Any) -> dict[str, Any]:
    properties = {"path": {"type": "string", "description": f"The path that {name} works on."}}
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    return {"name": name, "description": f"{name} works on one file of the project.", "input_schema": schema, **more}


_TOOLS = [*map(_tool, ("Read", "Write", "Edit", "Grep", "Glob", "ToolSearch")), _tool("Notebook", defer_loading=True)]


_MANY = [*_TOOLS, *(_tool(f"mcp__files__{verb}_{kind}") for verb in ("list", "move", "archive")
                    for kind in ("report", "image", "table", "note", "mail", "draft", "log", "backup"))]  # fmt: skip
_LAST = "mcp__files__archive_backup"
_BUDGET = 1000


def conversation(turns: int, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The request of each turn; each holds the ones before. With many tools, the last one is called on the way."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at the project, file by file."}]
    requests: list[dict[str, Any]] = []
    for turn in range(turns):
        billing = f"x-anthropic-billing-header: cc_version=2.1.330.{turn:03x}; cc_entrypoint=cli;"
        requests.append(
            {
                "model": local.MODEL,
                "max_tokens": 4,
                "system": [{"type": "text", "text": billing}, {"type": "text", "text": _SYSTEM}],
                "messages": list(messages),
                "tools": tools,
            }
        )
        search = turn == _SEARCH_TURN
        name, given = ("ToolSearch", {"path": "Notebook"}) if search else ("Read", {"path": f"src/part{turn}.py"})
        if turn == _SEARCH_TURN - 2 and tools is _MANY:
            name = _LAST
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": name, "input": given}
        text = f"def part{turn}(): return {turn}\n" * 3
        content: Any = [{"type": "tool_reference", "tool_name": "Notebook"}] if search else text
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": content}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return requests


def measure(
    url: str, turns: int, *, in_front: bool, tools: list[dict[str, Any]], budget: int | None
) -> tuple[int, int]:
    """(tokens of all prompts, those of them that the backend had already).

    in_front: as for an upstream of this API, the conversation only names the tools that it loads.
    """
    prompts = reused = 0
    settings = Settings(format="hermes", tools_budget=budget)
    for request in conversation(turns, tools):
        chat = MessagesFace(native=in_front).request(json.dumps(request).encode())
        action = Exchange(settings, BackendMemory(), always=True).receive(Request(chat.body))[0]
        assert isinstance(action, Ask), action
        answer = httpx.post(f"{url}/chat/completions", content=action.body, timeout=300).json()
        prompts += answer["usage"]["prompt_tokens"]
        reused += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return prompts, reused


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("reused", __doc__)
    parser.add_argument("--turns", type=int, default=10)
    turns = parser.parse_args(arguments).turns
    weights = local.weights()
    if (absent := local.missing()) is not None or weights is None:
        print(absent)
        return 2
    known = messages_request._KNOWN_LINES
    for name, lines, in_front, tools, budget in (
        ("as it is", known, False, _TOOLS, None),
        ("loaded tools in front", known, True, _TOOLS, None),
        ("without the rule for known lines", (), False, _TOOLS, None),
        ("24 more tools", known, False, _MANY, None),
        (f"... with tools_budget={_BUDGET}", known, False, _MANY, _BUDGET),
    ):
        # A server each: it keeps what it has computed.
        messages_request._KNOWN_LINES = lines
        with local.llama_server(weights, cache_prompt=True) as url:
            prompts, reused = measure(url, turns, in_front=in_front, tools=tools, budget=budget)
        print(
            f"{name}: {reused:,} of {prompts:,} prompt tokens were there already ({reused / prompts:.0%})", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
