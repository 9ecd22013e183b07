"""The AI SDK for JavaScript (`ai` with its providers for the three APIs), run by node as a process of its own.

Installed by hand or by CI with `npm ci --prefix tests/clients/ai_sdk --no-audit --no-fund`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import obedient_model

from .common import ARGUMENTS, CALL, Lookup, missing

if TYPE_CHECKING:
    from .conftest import Gateway, OpenGateway

HERE = Path(__file__).parent / "ai_sdk"
NODE = shutil.which("node")
if NODE is None:
    missing("node is not installed")
elif not (HERE / "node_modules" / "ai").is_dir():
    missing("the AI SDK is not installed; run `npm ci --prefix tests/clients/ai_sdk --no-audit --no-fund`")


def node(script: str, *arguments: str) -> dict[str, Any]:
    """What a script of this folder prints."""
    done = subprocess.run(
        [str(NODE), script, *arguments], cwd=HERE, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def run(gateway: Gateway, lookup: Lookup, mode: str, api: str = "chat") -> dict[str, Any]:
    return node("client.mjs", gateway.url, lookup.code, mode, api)


def looped(gateway: Gateway, lookup: Lookup, mode: str, api: str = "chat", *, in_pieces: bool) -> None:
    """The tool is run, and the answer made from its result."""
    seen = run(gateway, lookup, mode, api)
    called, answered = seen["steps"]
    assert called["text"].strip() == "I will look it up."
    assert called["calls"] == [["lookup_code", ARGUMENTS, False]]
    assert called["finish"] == "tool-calls"
    assert called["results"] == [f"code {lookup.code} for day 3"]
    assert (answered["text"], answered["finish"]) == (f"The code is {lookup.code}.", "stop")
    assert seen["calls"] == [ARGUMENTS]
    assert seen["text"] == f"The code is {lookup.code}."
    assert seen["usage"]["totalTokens"] > 0
    if mode == "stream":
        assert seen["errors"] == []
        assert json.loads(seen["input"]) == ARGUMENTS
        assert seen["parts"]["tool-input-start"] == seen["parts"]["tool-call"] == 1
        assert seen["parts"]["tool-input-delta"] > (3 if in_pieces else 0)


@pytest.mark.parametrize("mode", ["whole", "stream"])
def test_agent_loop_runs_the_tool_and_answers(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, mode: str, *, in_pieces: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose="I will look it up.\n\n"), format=format_name)
    looped(gateway, lookup, mode, in_pieces=in_pieces)


def test_named_tool_is_called(open_gateway: OpenGateway, format_name: str, lookup: Lookup) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, CALL), format=format_name)
    (step,) = run(gateway, lookup, "named")["steps"]
    assert step["calls"] == [["lookup_code", ARGUMENTS, False]]
