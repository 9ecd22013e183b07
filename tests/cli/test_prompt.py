"""`toolcall-middleware prompt`: requests of each API, as the model would be sent them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcall_middleware import cli

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
HI = [{"role": "user", "content": "Hi there."}]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": HI, "tools": [{"type": "function", "function": {"name": "Read", "parameters": SCHEMA}}]},
    "messages": {"max_tokens": 9, "messages": HI, "tools": [{"name": "Read", "input_schema": SCHEMA}]},
    "responses": {"input": "Hi there.", "tools": [{"type": "function", "name": "Read", "parameters": SCHEMA}]},
}


def shown(folder: Path, body: dict[str, Any], *arguments: str) -> int:
    path = folder / "body.json"
    path.write_text(json.dumps({"model": "m", **body}), encoding="utf-8")
    return cli.main(["prompt", str(path), "--format", "hermes", *arguments])


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("named", [False, True], ids=["found", "named"])
def test_a_request_of_any_api_is_shown_as_the_model_gets_it(
    api: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, named: bool
) -> None:
    assert shown(tmp_path, BODIES[api], *(("--api", api) if named else ())) == 0
    written = capsys.readouterr().out
    assert '{"name": "Read", "parameters": {"type": "object"' in written
    assert "--- user\nHi there." in written
    assert shown(tmp_path, BODIES[api], "--json", "--model", "other") == 0
    assert json.loads(capsys.readouterr().out)["model"] == "other"


def test_what_changes_with_each_request_of_an_agent_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "x-anthropic-billing-header: cc_version=2.1.330.38d; cc_entrypoint=cli;"
    assert shown(tmp_path, {"system": [{"type": "text", "text": line}], "max_tokens": 9, "messages": HI}) == 0
    assert "billing" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "named"), [({"input": 3}, "input"), ({"system": "Hi.", "messages": HI}, "max_tokens: Field required")]
)
def test_a_request_that_is_none_is_refused_by_name(
    body: dict[str, Any], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(tmp_path, body) == 2
    assert named in capsys.readouterr().err
