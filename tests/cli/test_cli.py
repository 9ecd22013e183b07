"""The command line: what each command prints, and that mistakes are one plain line."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

import toolcall_middleware
from toolcall_middleware.apis.capabilities import FEATURES
from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.cli import serve as serve_command
from toolcall_middleware.formats import registry
from toolcall_middleware.settings import OPTIONS

from ..fakes import serve
from .check.engines import VllmHermes

PATIENCE = 20.0
UPSTREAM = ("--upstream", "http://127.0.0.1:9/v1")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("TOOLCALL_"):
            monkeypatch.delenv(name)
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What uvicorn is asked to run, instead of running it."""
    options: dict[str, Any] = {}

    def run(app: str, **given: Any) -> None:
        options.update(given, app=app)

    monkeypatch.setattr(uvicorn, "run", run)
    return options


# --- serve


def test_serve_runs_the_factory_with_what_was_asked(
    started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    command = "serve --upstream http://127.0.0.1:9/v1 --port 9000 --workers 2 --log-level debug --shutdown-grace 5"
    assert cli.main(command.split()) == 0
    log = started.pop("log_config")
    assert log["loggers"]["toolcall_middleware"]["level"] == "DEBUG"
    assert log["loggers"]["toolcall_middleware.access"]["handlers"] == ["line"]
    assert started == {
        "app": "toolcall_middleware:create_proxy",
        "factory": True,
        "host": "127.0.0.1",
        "port": 9000,
        "workers": 2,
        "log_level": "debug",
        "lifespan": "on",
        "server_header": False,
        "proxy_headers": False,
        "access_log": False,
        "timeout_graceful_shutdown": 5,
    }
    hello, upstream, line = capsys.readouterr().err.splitlines()
    assert hello == (
        f"toolcall-middleware {toolcall_middleware.__version__}: http://127.0.0.1:9000/v1 (mode=prompt format=auto)"
    )
    assert upstream == "upstream: http://127.0.0.1:9/v1: cannot say what it is (Connection refused)"
    assert line.startswith("try: curl http://127.0.0.1:9000/v1/chat/completions -d '{")


def test_serve_says_which_server_and_model_stand_behind_it_and_what_to_try(
    started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(VllmHermes({"hermes"})) as url:
        assert cli.main(["serve", "--upstream", f"{url}/v1", "--set", "api_keys=k"]) == 0
    _, upstream, line = capsys.readouterr().err.splitlines()
    assert upstream == f"upstream: {url}/v1: OpenAI-compatible, Qwen/Qwen2.5-0.5B-Instruct"
    words = shlex.split(line.removeprefix("try: "))
    assert words[2:4] == ["-H", "authorization: Bearer $KEY"]
    body = json.loads(words[-1])
    assert body["model"] == "Qwen/Qwen2.5-0.5B-Instruct"
    assert body["tools"][0]["function"]["name"] == "get_weather"


def test_the_old_name_of_the_grace_still_works(started: dict[str, Any]) -> None:
    assert cli.main(["serve", *UPSTREAM, "--timeout-graceful", "7"]) == 0
    assert started["timeout_graceful_shutdown"] == 7
    assert os.environ["TOOLCALL_SHUTDOWN_GRACE"] == "7"


def test_a_key_comes_from_the_variable_that_is_named(
    started: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", *UPSTREAM, "--key-env", "MY_KEY"]) == 2
    assert capsys.readouterr().err == "toolcall-middleware: --key-env MY_KEY: the variable is not set.\n"
    monkeypatch.setenv("MY_KEY", "hunter2")
    assert cli.main(["serve", *UPSTREAM, "--key-env", "MY_KEY"]) == 0
    assert os.environ["TOOLCALL_UPSTREAM_KEY"] == "hunter2"
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.usefixtures("started")
def test_no_color_is_obeyed_by_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    assert serve_command._logging("info")["formatters"]["default"]["use_colors"] is None
    monkeypatch.setenv("NO_COLOR", "1")
    assert serve_command._logging("info")["formatters"]["default"]["use_colors"] is False


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_free_port_is_told_by_its_number(
    host: str, started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", *UPSTREAM, "--port", "0", "--host", host]) == 0
    port = started["port"]
    assert 1024 <= port <= 65535
    shown = f"[{host}]" if ":" in host else host
    assert f"http://{shown}:{port}/v1 (mode=" in capsys.readouterr().err


@pytest.mark.usefixtures("started")
def test_an_address_that_is_none_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--upstream", "http://x/v1", "--port", "0", "--host", "256.256.256.256"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--host 256.256.256.256" in line


@pytest.mark.usefixtures("started")
def test_serve_hands_its_settings_to_worker_processes_by_the_environment() -> None:
    options = "--upstream http://127.0.0.1:9/v1 --mode off --format hermes --set retries=3 --set api_keys=a,b"
    assert cli.main(["serve", *options.split()]) == 0
    given = {name: value for name, value in os.environ.items() if name.startswith("TOOLCALL_")}
    assert given == {
        "TOOLCALL_UPSTREAM_URL": "http://127.0.0.1:9/v1",
        "TOOLCALL_MODE": "off",
        "TOOLCALL_FORMAT": "hermes",
        "TOOLCALL_RETRIES": "3",
        "TOOLCALL_API_KEYS": "a,b",
    }


@pytest.mark.usefixtures("started")
def test_options_win_over_variables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", "http://me:hunter2@127.0.0.1:9/v1")
    monkeypatch.setenv("TOOLCALL_FORMAT", "hermes")
    assert cli.main(["serve", "--format", "json"]) == 0
    written = capsys.readouterr().err
    assert "(mode=prompt format=json)\nupstream: http://***@127.0.0.1:9/v1: " in written
    assert "hunter2" not in written


@pytest.mark.usefixtures("started")
def test_another_api_needs_no_address_and_has_its_own_mode(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--upstream-api", "anthropic"]) == 0
    written = capsys.readouterr().err
    assert "(mode=native format=auto)\nupstream: https://api.anthropic.com: Anthropic's Messages API\n" in written
    assert cli.main(["serve", "--set", "upstream_api=anthropic", "--mode", "prompt"]) == 0
    assert "mode=prompt" in capsys.readouterr().err


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(
    ("host", "keys", "warned"),
    [
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("localhost", "", False),
        ("0.0.0.0", "", True),
        ("::", "", True),
        ("0.0.0.0", "sk-one", False),
    ],
)
def test_an_open_door_is_warned_of(
    host: str, keys: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, warned: bool
) -> None:
    monkeypatch.setenv("TOOLCALL_API_KEYS", keys)
    assert cli.main(["serve", *UPSTREAM, "--host", host]) == 0
    written = capsys.readouterr().err
    assert ("warning: everybody who reaches" in written) is warned
    assert ("http://[::" in written) is (":" in host)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--upstream URL or set TOOLCALL_UPSTREAM_URL"),
        (["--upstream", "up.example"], "upstream_url: 'up.example' is not allowed; use an http:// or https:// address"),
        (["--upstream", "http://999.1.1.1/v1"], "upstream_url"),
        (["--upstream", "http://up/v1", "--mode", "promt"], "mode: 'promt' is not allowed; use prompt, native"),
        (
            ["--upstream", "http://up/v1", "--format", "hermess"],
            "format: hermess is not a format; did you mean hermes?",
        ),
        (["--upstream", "http://up/v1", "--set", "max_tool=1"], "max_tool is not a setting; did you mean max_tools?"),
        (["--upstream", "http://up/v1", "--set", "environ=1"], "environ is not a setting"),
        (["--upstream", "http://up/v1", "--set", "cls=1"], "cls is not a setting"),
        (["--upstream", "http://up/v1", "--set", "retries"], "--set retries: write NAME=VALUE"),
        (["--upstream", "http://up/v1", "--set", "upstream_key=hunter2 x"], "upstream_key: (hidden) is not allowed"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(
    arguments: list[str], words: str, started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", *arguments]) == 2
    written = capsys.readouterr()
    assert written.err.startswith("toolcall-middleware: ")
    assert words in written.err
    assert written.err.count("\n") == 1
    assert "hunter2" not in written.err
    assert (written.out, started) == ("", {})


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


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(**_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("toolcall_middleware.cli.demo.play.run", interrupted)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr().err == "\ntoolcall-middleware: stopped.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["serve", "--port", "65536"],
        ["serve", "--port", "http"],
        ["serve", "--workers", "0"],
        ["serve", "--log-level", "loud"],
        ["config", "--yaml"],
        ["formats", "--yaml"],
    ],
)
def test_wrong_arguments_are_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 2
    assert "usage: toolcall-middleware" in capsys.readouterr().err


# --- config, formats, demo, version


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


def test_formats_lists_each_with_a_sample(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["formats"]) == 0
    written = capsys.readouterr().out
    for name in registry.names():
        assert f"{name} (built in)\n    " in written
    assert '    {"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n    </tool_call>' in written


def test_formats_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["formats", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == registry.names()
    assert {row["source"] for row in rows} == {"built in"}
    assert all("get_weather" in row["sample"] for row in rows)


def test_a_format_of_another_package_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Foreign:
        name = "foreign"

        def render_calls(self, calls: list[Any]) -> str:
            return f"CALL {calls[0].name}"

    Foreign.__module__ = "somebody.formats"
    monkeypatch.setattr(registry, "names", lambda: ["foreign"])
    monkeypatch.setattr(registry, "get", lambda _name: Foreign())
    assert cli.main(["formats"]) == 0
    assert capsys.readouterr().out.startswith("foreign (somebody.formats)\n    CALL get_weather\n\nupstream_api=")


def test_formats_also_says_what_the_providers_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["formats", "--providers"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"upstream_api=anthropic\n    tools +yes\n", table)
    assert re.search(r"upstream_api=google\n    tools +yes ", table)
    assert cli.main(["formats"]) == 0
    assert capsys.readouterr().out.endswith(table)
    assert cli.main(["formats", "--providers", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["anthropic"]["n"] == {"support": "refused", "note": "but for n=1"}
    assert rows["anthropic"].keys() == set(FEATURES)


def test_the_demo_is_told_what_to_play(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[dict[str, object]] = []

    def run(**options: object) -> int:
        got.append(options)
        return 7

    monkeypatch.setattr("toolcall_middleware.cli.demo.play.run", run)
    assert cli.main(["demo", "--plain", "--only", "scripted"]) == 7
    assert cli.main(["demo"]) == 7
    assert got == [{"only": "scripted", "plain": True}, {"only": None, "plain": False}]


def test_formats_of_some_names_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["formats", "hermes"]) == 0
    assert capsys.readouterr().out.startswith("hermes (built in)\n    <tool_call>")
    assert cli.main(["formats", "hermess"]) == 2
    assert "did you mean hermes?" in capsys.readouterr().err
    assert cli.main(["formats", "hermes", "--providers"]) == 2


# --- the line itself: help, mistakes, completion


def test_no_arguments_print_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    written = capsys.readouterr().out
    assert written.startswith("usage: toolcall-middleware ")
    for name in cli.commands():
        assert re.search(rf"^    {name}\b", written, re.MULTILINE)


@pytest.mark.parametrize("name", cli.commands())
def test_each_help_has_examples_that_can_be_parsed_and_exit_codes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([name, "--help"])
    assert left.value.code == 0
    written = capsys.readouterr().out
    assert "\nexit codes: 0: " in written
    assert "2: " in written
    command = cli.commands()[name]
    assert command.examples
    for example in command.examples:
        assert f"\n  {example}\n" in written
        words = shlex.split(example.partition("# ")[0].rpartition(" | ")[2].partition(" > ")[0])
        assert words[:2] == ["toolcall-middleware", name]
        ours, _ = cli._split(words[1:])
        assert cli.build_parser().parse_args(ours).command is command


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("srve", "srve is not a command; did you mean serve?"),
        ("config --tenants x", "did you mean --tenant?"),
        ("serve --upstreem http://x", "--upstreem http://x: unknown; did you mean --upstream?"),
        ("serve --log-level inof", "inof is not a choice; did you mean info?"),
        ("qqq", "qqq is not a command; known: serve, "),
    ],
)
def test_a_slip_is_told_with_what_was_meant(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(line.split())
    assert left.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert cli.main(["completion", shell]) == 0
    written = capsys.readouterr().out
    for word in (*cli.commands(), "--upstream", "--key-env"):
        assert word in written


def test_completion_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    assert "pip install shtab" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"toolcall-middleware {toolcall_middleware.__version__}\n"


# --- the real process


def test_neither_help_nor_the_middleware_load_what_only_the_proxy_needs() -> None:
    code = (
        "import sys, toolcall_middleware, toolcall_middleware.cli.dispatch as cli\n"
        "cli.build_parser().format_help()\n"
        "print(*sorted({'httpx', 'uvicorn', 'anyio', 'jsonschema', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "\n"


def test_a_reader_that_leaves_is_no_traceback() -> None:
    command = [sys.executable, "-m", "toolcall_middleware", "config", "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        done = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (1, "")


class _Upstream(BaseHTTPRequestHandler):
    """Streams one event, waits for the test, streams the end."""

    protocol_version = "HTTP/1.1"
    go_on = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"9\r\ndata: 1\n\n\r\n")
        self.wfile.flush()
        assert self.go_on.wait(PATIENCE)
        self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Not into the test's output."""


def test_the_served_proxy_streams_and_finishes_a_running_stream_after_sigterm() -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    front = f"http://127.0.0.1:{port}"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Upstream) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{upstream.server_port}/v1"
        command = [sys.executable, "-m", "toolcall_middleware", "serve", "--upstream", base, "--port", str(port)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stderr is not None
            written = []
            for line in proxy.stderr:
                written.append(line)
                if "running on" in line:
                    break
            with (
                httpx.Client(base_url=front, trust_env=False, timeout=PATIENCE) as client,
                client.stream("GET", "/v1/x") as answer,
            ):
                pieces = answer.iter_raw()
                assert next(pieces) == b"data: 1\n\n"
                proxy.send_signal(signal.SIGTERM)
                for line in proxy.stderr:
                    written.append(line)
                    if "Waiting at most 30 s for 1 answers" in line:
                        break
                health, refused = httpx.get(f"{front}/healthz"), httpx.post(f"{front}/v1/x")
                assert (health.status_code, health.json()) == (503, {"status": "draining"})
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                _Upstream.go_on.set()
                assert b"".join(pieces) == b"data: [DONE]\n\n"
                assert "server" not in answer.headers or "uvicorn" not in answer.headers["server"]
            out, err = proxy.communicate(timeout=PATIENCE)
        upstream.shutdown()
    assert written[0].startswith("toolcall-middleware ")
    assert written[0].endswith(f": http://127.0.0.1:{port}/v1 (mode=prompt format=auto)\n")
    assert "Traceback" not in "".join(written) + err
    # The stream ended last.
    assert re.search(r" method=GET path=/v1/x upstream=127.0.0.1:\d+ status=200 .* bytes=23 end=complete\n$", out)
    assert " method=POST path=/v1/x status=503 " in out
    assert proxy.returncode in {0, -signal.SIGTERM}
