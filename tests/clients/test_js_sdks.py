"""The vendors' own SDKs for JavaScript (`@anthropic-ai/sdk`, `openai`), run by node as a process of its own.

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
    from .conftest import OpenGateway

HERE = Path(__file__).parent / "ai_sdk"
NODE = shutil.which("node")
if NODE is None:
    missing("node is not installed")
elif not (HERE / "node_modules" / "@anthropic-ai" / "sdk").is_dir():
    missing("the SDKs are not installed; run `npm ci --prefix tests/clients/ai_sdk --no-audit --no-fund`")

MODES = (
    "messages-whole", "messages-stream", "messages-runner", "responses-whole", "responses-stream", "responses-parse",
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_the_tool_is_run_and_the_answer_made_from_its_result(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, mode: str
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose="I will look it up.\n\n"), format=format_name)
    command = [str(NODE), "sdks.mjs", gateway.url, lookup.code, mode]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen["ends"] == ["tool_use", "end_turn" if mode.startswith("messages") else "completed"]
    assert (seen["text"], seen["calls"]) == (f"The code is {lookup.code}.", [ARGUMENTS])
    assert [one.path for one in gateway.backend.seen] == ["/v1/chat/completions"] * 2
    assert "usage" not in seen or seen["usage"]["output_tokens"] > 0
