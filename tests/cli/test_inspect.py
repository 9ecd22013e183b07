"""`inspect TRACE…` and `serve --inspect` as a user runs them: a process, and the address that it prints."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from tests.helpers.fakes import TextBackend, serve, write_calls
from toolcall_middleware.cli import main
from toolcall_middleware.cli import serve as serve_command

pytestmark = [pytest.mark.server, pytest.mark.slow]

CALL = write_calls("hermes", ("weather", {"city": "Paris"}))
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}], "tools": [TOOL], "stream": True}
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/inspect/[A-Za-z0-9_-]{20,}/")


@contextmanager
def started(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the inspector's address that it has printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcall_middleware", *arguments],
        env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := ADDRESS.search(line):
                yield process, found[0]
                break
        else:
            pytest.fail(f"it ended with {process.wait()}, and printed no address")
    finally:
        process.terminate()  # an interrupt may be lost while it starts: the interpreter ignores one in some callbacks
        process.communicate(timeout=20)


def get(address: str, path: str = "", **options: str) -> httpx.Response:
    """A GET, once the server listens: `serve` does so a moment after it has told where."""
    until = time.monotonic() + 30
    while True:
        try:
            return httpx.get(address + path, headers=options, timeout=20)
        except httpx.ConnectError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def proxied(backend: str, *arguments: str) -> list[str]:
    return ["serve", "--upstream", f"{backend}/v1", "--port", "0", "--mode", "prompt", "--format", "hermes", *arguments]


def ended(address: str) -> Any:
    """The one exchange, once it is over: the client has its answer a moment before."""
    deadline = time.monotonic() + 10
    while True:
        (shown,) = get(address, "api/exchanges").json()
        if not shown["running"]:
            return shown
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_serve_with_inspect_shows_the_exchanges_of_the_proxy() -> None:
    with serve(TextBackend([CALL])) as backend, started(*proxied(backend, "--inspect")) as (process, address):
        assert "<title>" in get(address).text
        base = address.partition("/inspect/")[0]
        answer = httpx.post(f"{base}/v1/chat/completions", json=BODY, timeout=20)
        assert b'"weather"' in answer.content
        shown = ended(address)
        assert (shown["model"], shown["outcomes"]) == ("m", ["clean"])
        one = get(address, f"api/exchanges/{shown['number']}").json()
        assert one["explained"]["calls"][0]["name"] == "weather"
        # No token, no page: such a path is none of the proxy's.
        assert httpx.get(f"{base}/inspect/wrong-token-0123456789/", timeout=20).status_code == 404
        assert process.poll() is None


def test_the_address_is_another_one_each_time() -> None:
    with serve(TextBackend([CALL])) as backend:
        with started(*proxied(backend, "--inspect")) as (_, first):
            pass
        with started(*proxied(backend, "--inspect")) as (_, second):
            pass
    assert first.rpartition("/inspect/")[2] != second.rpartition("/inspect/")[2]


def test_the_address_is_the_operators_where_a_variable_gives_its_token() -> None:
    token = "chosen-by-the-operator"
    given = {"TOOLCALL_INSPECTOR": token}
    with serve(TextBackend([CALL])) as url, started(*proxied(url, "--inspect"), environment=given) as (_, address):
        assert address.endswith(f"/inspect/{token}/")
        assert get(address).status_code == 200


def test_several_workers_have_no_page_together() -> None:
    command = [sys.executable, "-m", "toolcall_middleware", "serve", "--inspect", "--workers", "2", "--upstream", "http://127.0.0.1:9/v1"]  # fmt: skip # noqa: E501
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False, text=True)
    assert ended.returncode == 2
    assert "--workers 1" in ended.stderr


def test_inspect_shows_the_traces_of_files_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(TextBackend([CALL, "Just text."])) as backend:
        given = {"TOOLCALL_TRACE_DIR": str(tmp_path)}
        with started(*proxied(backend, "--inspect"), environment=given) as (_, address):
            base = address.partition("/inspect/")[0]
            assert get(address).status_code == 200  # it listens
            for _ in range(2):
                assert httpx.post(f"{base}/v1/chat/completions", json=BODY, timeout=20).status_code == 200
    files = sorted(tmp_path.glob("*.jsonl"))
    assert len(files) == 2
    ends = (([str(tmp_path)], 2, signal.SIGINT, 0), ([str(files[0])], 1, signal.SIGTERM, -signal.SIGTERM))
    for arguments, count, number, code in ends:
        with started("inspect", *arguments) as (process, address):
            assert "<title>" in get(address).text
            shown = get(address, "api/exchanges").json()
            assert len(shown) == count
            one = get(address, f"api/exchanges/{shown[0]['number']}").json()
            assert json.loads(one["rows"][0]["data"])["messages"] == BODY["messages"]
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait(timeout=20) == code  # as its help says
            assert process.stderr is not None
            assert process.stderr.read() == ""
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **_options: None)
    assert main(["inspect", str(files[0])]) == 0
    assert ": 1 exchange at http://127.0.0.1:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "why"), [(None, "No such file"), ("{}", "no trace"), ("", "no trace"), ("[]\n", "no trace")]
)
def test_what_is_no_trace_is_one_line_and_exit_code_2(written: str | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    if written is not None:
        path.write_text(written)
    command = [sys.executable, "-m", "toolcall_middleware", "inspect", str(path)]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False, text=True)
    assert ended.returncode == 2
    assert str(path) in ended.stderr
    assert why in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_page_for_others_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toolcall_middleware", "inspect", "--host", "0.0.0.0", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False, text=True)
    assert ended.returncode == 2
    assert "for this machine alone" in ended.stderr


def test_open_leads_a_browser_to_the_page_once_the_proxy_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        serve_command._open("0.0.0.0", port)
    assert opened == [f"http://127.0.0.1:{port}/inspect"]
    monkeypatch.setattr(serve_command, "_PATIENCE", 0.2)
    serve_command._open("127.0.0.1", port)
    assert len(opened) == 1


def test_open_without_a_page_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--open", "--upstream", "http://127.0.0.1:9/v1"]) == 2
    assert "--open: there is a page only with --inspect" in capsys.readouterr().err
