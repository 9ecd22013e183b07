"""Codex, which speaks only OpenAI's Responses, before a text model.

Installed by hand or by CI with `npm ci --prefix tests/clients/agents --no-audit --no-fund`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.helpers.fakes import Refusal, obedient_model
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall

from .common import Lookup, missing

if TYPE_CHECKING:
    from .conftest import Gateway, OpenGateway

CODEX = Path(__file__).parent / "agents" / "node_modules" / ".bin" / "codex"
if shutil.which("node") is None:
    missing("node is not installed")
elif not CODEX.exists():
    missing("Codex is not installed; run `npm ci --prefix tests/clients/agents --no-audit --no-fund`", extra=False)

CONFIG = """
model = "fake-model"
model_provider = "here"
check_for_update_on_startup = false
[model_providers.here]
name = "here"
base_url = "{url}"
wire_api = "responses"
env_key = "HERE_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""


def run(gateway: Gateway, folder: Path, prompt: str, *arguments: str) -> list[dict[str, Any]]:
    """The events that Codex prints of one prompt, in `folder`."""
    home, work = folder / "home", folder / "work"
    for made in (home, work):
        made.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CONFIG.format(url=gateway.url))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CODEX_HOME": str(home),
        "HERE_KEY": "unused",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    command = [
        str(CODEX), "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
        *arguments, prompt,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def said(events: list[dict[str, Any]]) -> list[str]:
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"]


def test_it_runs_a_command_and_tells_what_it_printed(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(f"The code is {lookup.code}.\n")
    model = obedient_model(format_name, ("exec_command", {"cmd": f"cat {secret}"}), prose="I will read it.\n\n")
    gateway = open_gateway(model, format=format_name)
    events = run(gateway, tmp_path, "What is in the file?")
    assert said(events)[-1] == f"The code is {lookup.code}."
    assert said(events)[0].strip() == "I will read it."
    (end,) = [event for event in events if event["type"] == "turn.completed"]
    assert end["usage"]["output_tokens"] > 0
    assert len(gateway.backend.seen) == 2


def test_it_applies_a_patch_of_the_custom_tool_whose_grammar_the_model_is_shown(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    patch = '*** Begin Patch\n*** Add File: made.txt\n+a "quoted" \\\\ line\n+\n*** End Patch\n'
    call = registry.get("qwen3_coder").render_calls([ToolCall("apply_patch", json.dumps({"input": patch}))])
    gateway = open_gateway(lambda body: "Done." if "made.txt" in str(body["messages"]) else call, format="qwen3_coder")
    # A model that Codex knows has the custom tool.
    events = run(gateway, tmp_path, "Make a file.", "-m", "gpt-5.5")
    assert said(events)[-1] == "Done."
    assert (tmp_path / "work" / "made.txt").read_text() == 'a "quoted" \\\\ line\n\n'
    assert "begin_patch" in str(gateway.backend.bodies[0]["messages"][0])  # the grammar, as a description


def test_a_refusal_of_the_backend_is_shown_once(open_gateway: OpenGateway, tmp_path: Path) -> None:
    refusal = Refusal(400, {"error": {"message": "the adapter is not loaded", "type": "x", "code": 400}})
    gateway = open_gateway(lambda _: refusal)
    events = run(gateway, tmp_path, "Hello.")
    (failed,) = [event for event in events if event["type"] == "turn.failed"]
    assert "the adapter is not loaded" in failed["error"]["message"]
