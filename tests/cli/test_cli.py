"""The command line as a whole: its help, mistakes as one plain line, completion, what it loads."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import toolcall_middleware
from toolcall_middleware.cli import dispatch as cli

PATIENCE = 20.0
UPSTREAM = ("--upstream", "http://127.0.0.1:9/v1")


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
        ("serve --access-log off", "--access-log off: unknown; it is a setting: --set access_log=VALUE"),
        ("serve --max_request_bytes=5", "it is a setting: --set max_request_bytes=VALUE"),
        ("serve --log-level inof", "inof is not a choice; did you mean info?"),
        ("qqq", "qqq is not a command; known: serve, "),
        ("serve --port 65536", "65536 is not between 0 and 65535"),
        ("serve --port http", "--port: invalid number value: 'http'"),
        ("serve --workers 0", "0 is not between 1 and 1024"),
        ("config --yaml", "--yaml: unknown"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(line.split())
    assert left.value.code == 2
    written = capsys.readouterr().err
    assert says in written
    assert "\nusage: toolcall-middleware" in written


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    written = capsys.readouterr().out
    for word in (*cli.commands(), "--upstream", "--key-env"):
        assert word in written


@pytest.mark.parametrize("arguments", [["template", "."], ["--version"], ["config", "--json"]])
def test_the_folder_that_it_runs_in_is_no_place_for_programs(arguments: list[str], tmp_path: Path) -> None:
    """`python -m` puts the working directory first on the path: a checkpoint's own `jinja2.py` would run."""
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    for name in ("jinja2", "markupsafe", "regex", "httpx", "uvicorn"):
        (tmp_path / f"{name}.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(toolcall_middleware.__file__).parents[1])}
    command = [sys.executable, "-m", "toolcall_middleware", *arguments]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
    assert b"Traceback" not in ended.stderr
    assert not (tmp_path / "ran").exists()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"toolcall-middleware {toolcall_middleware.__version__}\n"


def test_the_demo_is_told_what_to_play(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[dict[str, object]] = []

    def run(**options: object) -> int:
        got.append(options)
        return 7

    monkeypatch.setattr("toolcall_middleware.cli.demo.play.run", run)
    assert cli.main(["demo", "--plain", "--only", "scripted"]) == 7
    assert cli.main(["demo", "--verify"]) == 7
    assert got == [
        {"only": "scripted", "verify": False, "plain": True},
        {"only": None, "verify": True, "plain": False},
    ]


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(**_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("toolcall_middleware.cli.demo.play.run", interrupted)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr().err == "\ntoolcall-middleware: stopped.\n"


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


@pytest.mark.skipif(os.name == "nt", reason="no shell, and no /dev/full")
@pytest.mark.parametrize("command", ["config --json", "config", "formats"])
@pytest.mark.parametrize(
    ("onto", "code", "says"),
    [
        (">&-", 0, ""),
        ("> /dev/full", 1, "toolcall-middleware: the output cannot be written: No space left on device\n"),
    ],
    ids=["closed", "full"],
)
def test_an_output_that_takes_nothing_is_no_traceback(command: str, onto: str, code: int, says: str) -> None:
    line = f"{shlex.quote(sys.executable)} -m toolcall_middleware {command} {onto}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (code, says)
