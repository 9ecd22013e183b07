"""`toolcall-middleware launch` with the real agents from npm, before a backend that only writes text.

Each is asked what a file holds. The scripted model calls the agent's own tool for reading, and says the mark that it
was shown: only an agent that got the call, ran it and sent its result back ends with that mark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import toolcall_middleware
from tests.helpers.fakes import MARK, TextBackend, serve, write_calls
from toolcall_middleware.cli.launch.agents import AGENTS

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(toolcall_middleware.__file__).parent.parent
# Agents are looked for on PATH, and before it where `npm ci --prefix tests/clients/agents` puts two of them.
SEARCHED = os.pathsep.join([str(ROOT / "tests" / "clients" / "agents" / "node_modules" / ".bin"), os.environ["PATH"]])
QUESTION = "What is the code in the file?"


@dataclass(frozen=True, slots=True)
class Real:
    """How a real agent is asked something without a terminal, and which of its tools reads a file."""

    arguments: tuple[str, ...]
    tool: str
    read: str
    """Its arguments as JSON, with PATH for the file."""


REAL = {
    "opencode": Real(("run", "--auto", QUESTION), "read", '{"filePath": "PATH"}'),
    "qwen": Real(("-y", "-p", QUESTION), "read_file", '{"file_path": "PATH"}'),
    "continue": Real(("--auto", "-p", QUESTION), "Read", '{"filepath": "PATH"}'),
    "cline": Real((QUESTION,), "read_files", '{"files": [{"path": "PATH"}]}'),
    "claude": Real(("--dangerously-skip-permissions", "-p", QUESTION), "Read", '{"file_path": "PATH"}'),
    "codex": Real(
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", QUESTION),
        "exec_command",
        '{"cmd": "cat PATH"}',
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_a_real_agent_reads_a_file_by_a_call_of_a_text_model(name: str, tmp_path: Path) -> None:
    agent, real = AGENTS[name], REAL[name]
    if shutil.which(agent.program, path=SEARCHED) is None:
        pytest.skip(f"{agent.program} is not on PATH: npm install -g {agent.package}")
    folder = tmp_path / "work"
    folder.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    file = folder / "note.txt"
    file.write_text("TOOLMARK-0a1b2c\n", "utf-8")
    call = write_calls("json", (real.tool, real.read.replace("PATH", str(file))))

    def model(body: dict[str, Any]) -> str:
        text = json.dumps(body["messages"])
        if real.tool not in text:
            return "A title"  # a request beside the conversation
        marks = MARK.findall(text)
        return f"The code is {marks[-1]}." if marks else f"Let me look.\n{call}"

    backend = TextBackend(model, strict=True, models=("Qwen/Qwen3-8B",))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TOOLCALL_", "IS_SANDBOX"))}
    # As root Claude Code skips permissions only in a sandbox, which a test's folder is.
    changed = {"PATH": SEARCHED, "PYTHONPATH": str(ROOT), "HOME": str(home), "PWD": str(folder), "IS_SANDBOX": "1"}
    with serve(backend) as url:
        command = [sys.executable, "-m", "toolcall_middleware", "launch", name, "--upstream", f"{url}/v1", "--"]
        done = subprocess.run(
            [*command, *real.arguments],
            cwd=folder,
            env={**kept, **changed},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    assert "The code is TOOLMARK-0a1b2c." in said
    assert f"({real.tool} 1)" in said
    assert "Traceback" not in said
