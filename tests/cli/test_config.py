"""`toolcall-middleware config`: each setting with its value, its source and what it does."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest

from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.settings import OPTIONS

from .terminal import Terminal


def test_a_bad_variable_is_exit_code_2_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOOLCALL_MODUS", "prompt")
    assert cli.main(["config"]) == 2
    assert capsys.readouterr().err == (
        "toolcall-middleware: TOOLCALL_MODUS is not a setting; did you mean TOOLCALL_MODE?\n"
    )


def test_config_refuses_a_format_that_is_none_and_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOOLCALL_FORMAT", "hermess")
    assert cli.main(["config"]) == 2
    written = capsys.readouterr()
    assert written.err.startswith("toolcall-middleware: TOOLCALL_FORMAT: hermess is not a format; did you mean hermes?")
    assert written.out == ""


def test_config_lists_every_setting_with_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOOLCALL_PROFILE", "gateway")
    monkeypatch.setenv("TOOLCALL_UPSTREAM_KEY", "hunter2")
    assert cli.main(["config"]) == 0
    rows = [re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == list(OPTIONS)
    assert ["mode", "prompt", "default", OPTIONS["mode"].help] in rows
    assert ["max_schema_depth", "5", "profile gateway", OPTIONS["max_schema_depth"].help] in rows
    assert ["upstream_key", "(hidden)", "environment TOOLCALL_UPSTREAM_KEY", OPTIONS["upstream_key"].help] in rows


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_where_each_setting_came_from(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TOOLCALL_MODE", "auto")
    monkeypatch.setenv("TOOLCALL_UPSTREAM_FIRST_BYTE_TIMEOUT", "60")
    monkeypatch.setenv("TOOLCALL_PROFILE", "gateway")
    with contextlib.redirect_stdout(Terminal()) as written:
        assert cli.main(["config"]) == 0
    lines = {line.split()[0]: line for line in written.getvalue().splitlines()}
    assert list(lines) == list(OPTIONS)
    assert max(map(len, lines.values())) <= columns
    assert re.search(r"^mode +auto +environment TOOLCALL_MODE\b", lines["mode"])
    assert " 60 " in lines["upstream_first_byte_timeout"]
    assert "environment TOOLCALL_UPSTREAM" in lines["upstream_first_byte_timeout"]
    assert re.search(r"… +default\b", lines["forward_paths"])
    assert all(re.search(r"  (default|profile|environment|implied)\b", line) for line in lines.values())


def test_in_a_pipe_a_long_value_is_whole_and_widens_no_other_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert re.search(r" \S{100,}  default ", lines["forward_paths"])
    assert lines["mode"].index("default") < 80


def told(written: str) -> dict[str, dict[str, str]]:
    """Values and sources."""
    return {name: {key: row[key] for key in ("value", "source")} for name, row in json.loads(written).items()}


def test_config_takes_settings_and_shows_some_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "mode", "max_schema_depth", "--set", "profile=gateway", "--set", "mode=auto"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mode = auto (keyword)"
    assert f"    Allowed: {OPTIONS['mode'].allowed}." in lines
    assert "max_schema_depth = 5 (profile gateway)" in lines
    assert cli.main(["config", "modus"]) == 2
    assert capsys.readouterr().err == "toolcall-middleware: modus is not a setting; did you mean mode?\n"


def test_config_tells_what_each_upstream_of_a_file_has_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "upstreams.toml"
    file.write_text(
        '[[upstream]]\nname = "a"\nmodels = ["qwen*"]\nurl = "http://127.0.0.1:9/v1"\nformat = "hermes"\n'
        '[[upstream]]\nname = "b"\nmodels = ["*"]\nurl = "http://127.0.0.1:9/v1"\n'
    )
    assert cli.main(["config", "--upstreams", str(file)]) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.startswith("[a] qwen*\n")
    assert re.search(r"^format +hermes +\S", first, re.MULTILINE)
    assert second.startswith("[b] *\n")
    assert "\nformat " not in second
    assert cli.main(["config", "--upstreams", str(file), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert (rows["a"]["format"]["value"], rows["b"]["format"]["value"]) == ("hermes", "auto")


def test_config_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TOOLCALL_API_KEYS", "hunter2,hunter3")
    assert cli.main(["config", "--json"]) == 0
    written = capsys.readouterr().out
    assert "hunter" not in written
    rows = told(written)
    assert list(rows) == list(OPTIONS)
    assert json.loads(written)["mode"]["allowed"] == OPTIONS["mode"].allowed
    assert json.loads(written)["mode"]["description"] == OPTIONS["mode"].help
    assert rows["api_keys"] == {"value": "(hidden)", "source": "environment TOOLCALL_API_KEYS"}
    assert rows["max_tools"] == {"value": "128", "source": "default"}


TENANTS = """
[default]
max_tools = 20
[tenants.team]
profile = "gateway"
rate_limit = "5/minute"
"""


def test_config_tells_where_each_value_came_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Default, profile, environment, file, tenant, request."""
    file = tmp_path / "tenants.toml"
    file.write_text(TENANTS)
    monkeypatch.setenv("TOOLCALL_TENANTS_FILE", str(file))
    monkeypatch.setenv("TOOLCALL_RETRIES", "2")
    body = tmp_path / "body.json"
    body.write_text(
        '{"model": "m", "toolcall": {"max_tool_calls": 3}, "request_options": {"validate_tool_arguments": true}}'
    )
    assert cli.main(["config", "--json", "--tenant", "team", "--request", str(body)]) == 0
    rows = told(capsys.readouterr().out)
    assert rows["mode"] == {"value": "prompt", "source": "default"}
    assert rows["max_schema_depth"] == {"value": "5", "source": "profile gateway"}
    assert rows["retries"] == {"value": "2", "source": "environment TOOLCALL_RETRIES"}
    assert rows["max_tools"] == {"value": "20", "source": f"file {file}"}
    assert rows["rate_limit"] == {"value": "5/minute", "source": f"tenant team ({file})"}
    assert rows["max_tool_calls"] == {"value": "3", "source": "request"}
    assert rows["validate_arguments"] == {"value": "error", "source": "request"}
    assert rows["stream_arguments"] == {"value": "false", "source": "implied by validate_arguments=error"}
    assert cli.main(["config", "--json"]) == 0
    rows = told(capsys.readouterr().out)
    assert rows["max_tools"]["value"] == "20"
    assert rows["rate_limit"] == {"value": "none", "source": "default"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tenant", "nobody"], "tenants.toml has no such tenant; known: team."),
        (["--request", "{body}"], "toolcall.max_tools: none would loosen what is set here, 20."),
        (["--request", "nowhere.json"], "nowhere.json"),
    ],
)
def test_config_says_what_cannot_be(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "tenants.toml").write_text(TENANTS)
    (tmp_path / "body.json").write_text('{"toolcall": {"max_tools": null}}')
    monkeypatch.setenv("TOOLCALL_TENANTS_FILE", str(tmp_path / "tenants.toml"))
    assert cli.main(["config", *(text.format(body=tmp_path / "body.json") for text in arguments)]) == 2
    assert says in capsys.readouterr().err
    monkeypatch.delenv("TOOLCALL_TENANTS_FILE")
    assert cli.main(["config", "--tenant", "team"]) == 2
    assert "there is no tenants_file" in capsys.readouterr().err
