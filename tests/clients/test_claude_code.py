"""Claude Code, which speaks only Anthropic's Messages, before a text model.

Installed by hand or by CI with `npm ci --prefix tests/clients/agents --no-audit --no-fund`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import Refusal, obedient_model

from .common import Lookup, missing

if TYPE_CHECKING:
    from .conftest import Gateway, OpenGateway

CLAUDE = Path(__file__).parent / "agents" / "node_modules" / ".bin" / "claude"
if shutil.which("node") is None:
    missing("node is not installed")
elif not CLAUDE.exists():
    missing(
        "Claude Code is not installed; run `npm ci --prefix tests/clients/agents --no-audit --no-fund`", extra=False
    )


def run(gateway: Gateway, folder: Path, prompt: str) -> dict[str, Any]:
    """What Claude Code prints of one prompt, in `folder`."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "ANTHROPIC_BASE_URL": gateway.url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "unused",
        "ANTHROPIC_MODEL": "fake-model",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "fake-model",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    command = [str(CLAUDE), "-p", prompt, "--output-format", "json", "--allowedTools", "Read"]
    work = folder / "work"
    for made in (folder / "home", work):
        made.mkdir(exist_ok=True)
    done = subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_it_reads_a_file_and_tells_what_is_in_it(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(f"The code is {lookup.code}.\n")
    model = obedient_model(format_name, ("Read", {"file_path": str(secret)}), prose="I will read it.\n\n")
    gateway = open_gateway(model, format=format_name)
    printed = run(gateway, tmp_path, f"What is in {secret}?")
    assert printed["result"] == f"The code is {lookup.code}."
    assert not printed["is_error"]
    assert printed["num_turns"] == 2
    assert printed["usage"]["output_tokens"] > 0
    assert not printed["permission_denials"]


def test_what_does_not_change_keeps_its_bytes_for_the_prefix_cache(
    open_gateway: OpenGateway, lookup: Lookup, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(f"The code is {lookup.code}.\n")
    gateway = open_gateway(obedient_model("hermes", ("Read", {"file_path": str(secret)})), format="hermes")
    run(gateway, tmp_path, f"What is in {secret}?")
    first, second = (body["messages"] for body in gateway.backend.bodies if "<tools>" in str(body["messages"][0]))
    assert second[: len(first)] == first
    assert "x-anthropic-billing-header" not in str(first)


def test_a_refusal_of_the_backend_is_shown(open_gateway: OpenGateway, tmp_path: Path) -> None:
    refusal = Refusal(400, {"error": {"message": "the adapter is not loaded", "type": "x", "code": 400}})
    printed = run(open_gateway(lambda _: refusal), tmp_path, "Hello.")
    assert printed["is_error"]
    assert "the adapter is not loaded" in printed["result"]


@pytest.mark.parametrize("said", ["maximum context length is 4096 tokens. However, your request has 9000 input tokens"])
def test_a_full_context_is_understood(open_gateway: OpenGateway, tmp_path: Path, said: str) -> None:
    refusal = Refusal(400, {"error": {"message": f"This model's {said}", "type": "BadRequestError", "code": 400}})
    printed = run(open_gateway(lambda _: refusal), tmp_path, "Hello.")
    assert printed["is_error"]
    assert "too long" in printed["result"].lower()
