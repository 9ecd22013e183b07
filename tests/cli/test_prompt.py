"""`toolcall-middleware prompt`: requests of each API, as the model would be sent them."""

from __future__ import annotations

import codecs
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


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b'{"messages":', "Input data was truncated"),
        (b"", "Input data was truncated"),
        ('{"messages": []}'.encode("utf-16"), "can't decode byte 0xff"),
        ('{"messages": [{"role": "user", "content": "é"}]}'.encode("latin-1"), "can't decode byte 0xe9"),
        (b"\x7fELF\x02\x01", "malformed"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"messages": [],}', "trailing comma"),
        (b'{"messages": ' + b"[" * 100_000, "nested too deeply"),
        (b"{}", "messages: "),
        (b'{"messages": null}', "messages: "),
        (b'{"messages": "x"}', "messages: "),
        (b'{"messages": [1]}', "messages: "),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("--json",), ("--model", "other"), ("--api", "messages")])
def test_a_file_that_holds_no_request_is_one_line_that_names_it(
    arguments: tuple[str, ...], body: bytes, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "body.json"
    path.write_bytes(body)
    assert cli.main(["prompt", str(path), *arguments]) == 2
    written = capsys.readouterr()
    assert written.err.startswith(f"toolcall-middleware: {path}: ")
    assert wrong in written.err or "--api" in arguments
    assert (written.err.count("\n"), written.out) == (1, "")


def test_marks_of_editors_and_half_of_an_emoji_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "body.json"
    path.write_bytes(codecs.BOM_UTF8 + rb'{"messages": [{"role": "user", "content": "Hi \ud83d."}]}')
    assert cli.main(["prompt", str(path)]) == 0
    assert "--- user\nHi \ufffd." in capsys.readouterr().out
    assert cli.main(["prompt", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"][0]["content"] == "Hi \ufffd."
    assert cli.main(["config", "mode", "--request", str(path)]) == 0
