"""`toolcall-middleware serve`: what it starts, what it says at start, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

import toolcall_middleware
from tests.helpers.fakes import serve
from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.cli import serve as serve_command
from toolcall_middleware.errors import SettingsError
from toolcall_middleware.hosts.proxy.app import refuse_itself
from toolcall_middleware.hosts.proxy.server import BoundedProtocol
from toolcall_middleware.hosts.proxy.upstream.client import free_port
from toolcall_middleware.settings import Settings

from .check.engines import VllmHermes

PATIENCE = 20.0
UPSTREAM = ("--upstream", "http://127.0.0.1:9/v1", "--port", "0")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What uvicorn is asked to run, instead of running it."""
    options: dict[str, Any] = {}

    def run(app: str, **given: Any) -> None:
        options.update(given, app=app)

    monkeypatch.setattr(uvicorn, "run", run)
    return options


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
        "http": BoundedProtocol,
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
    hello, upstream, line, workers = capsys.readouterr().err.splitlines()
    assert workers == "workers: 2, each with its own connections to upstreams and its own memory of what they can"
    assert hello == (
        f"toolcall-middleware {toolcall_middleware.__version__}: http://127.0.0.1:9000/v1 (mode=prompt format=auto)"
    )
    assert upstream == "upstream: http://127.0.0.1:9/v1: cannot say what it is (Connection refused)"
    assert line.startswith("try: curl http://127.0.0.1:9000/v1/chat/completions --json '{")


def test_serve_says_which_server_and_model_stand_behind_it_and_what_to_try(
    started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(VllmHermes({"hermes"})) as url:
        assert cli.main(["serve", "--port", "0", "--upstream", f"{url}/v1", "--set", "api_keys=k"]) == 0
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


@pytest.mark.parametrize("host", ["256.256.256.256", "nowhere.invalid", "192.0.2.1"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_address_that_is_none_is_one_line(
    workers: str, host: str, started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", *UPSTREAM, "--port", "9000", "--host", host, "--workers", workers]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"toolcall-middleware: --host {host} --port 9000: ")
    assert line.endswith("; give an address of this machine as --host.")
    assert started == {}


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_is_taken_is_one_line_before_any_greeting(
    workers: str, host: str, family: int, started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server((host, 0), family=family) as other:
        port = other.getsockname()[1]
        assert cli.main(["serve", *UPSTREAM, "--host", host, "--port", str(port), "--workers", workers]) == 2
    assert capsys.readouterr().err == (
        f"toolcall-middleware: --host {host} --port {port}: Address already in use; "
        "give another --port; 0 takes a free one.\n"
    )
    assert started == {}
    # Its last connections may still be in the kernel's memory.
    assert cli.main(["serve", *UPSTREAM, "--host", host, "--port", str(port)]) == 0
    assert started["port"] == port


def test_workers_that_would_count_rates_alone_are_refused(
    started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", *UPSTREAM, "--workers", "2", "--set", "rate_limit=5/minute"]) == 2
    assert "redis://HOST:PORT" in capsys.readouterr().err
    assert started == {}


ITSELF = [
    ("http://127.0.0.1:8080/v1", "127.0.0.1"), ("http://localhost:8080/v1", "127.0.0.1"),
    ("http://LOCALHOST.:8080", "::1"), ("http://me:pw@localhost:8080/v1", "localhost"),
    ("http://[::1]:8080", "localhost"),
    ("http://0.0.0.0:8080/v1", "127.0.0.1"), ("http://127.0.0.1:8080/x", "0.0.0.0"), ("https://[::1]:8080/v1", "::"),
    ("http://[::ffff:127.0.0.1]:8080/v1", "127.0.0.1"), ("http://192.0.2.1:8080/v1", "192.0.2.1"),
    (f"http://{socket.gethostname()}:8080/v1", "127.0.0.1"), ("http://api.localhost:8080/v1", ""),
]  # fmt: skip


@pytest.mark.parametrize(("url", "host"), ITSELF)
def test_an_upstream_that_is_the_proxy_itself_is_refused(
    url: str, host: str, started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", "--upstream", url, "--host", host, "--port", "8080"]) == 2
    assert "is the address of this proxy" in (told := capsys.readouterr().err)
    assert told.count("\n") == 1
    assert "pw" not in told
    assert started == {}


def test_an_upstream_of_the_file_that_is_the_proxy_itself_is_refused(
    tmp_path: Path, started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "upstreams.toml"
    path.write_text(
        '[[upstream]]\nurl = "http://127.0.0.1:9/v1"\n[[upstream]]\nurl = "http://localhost:8080/v1"\nname = "b"\n'
    )
    assert cli.main(["serve", "--upstreams", str(path), "--port", "8080"]) == 2
    assert "http://localhost:8080/v1 is the address of this proxy" in capsys.readouterr().err
    assert started == {}


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:8081/v1", "127.0.0.1", 8080), ("http://10.255.255.1:8080/v1", "127.0.0.1", 8080),
        ("http://127.0.0.2:8080/v1", "127.0.0.1", 8080), ("http://up.example:8080/v1", "0.0.0.0", 8080),
        ("http://127.0.0.1/v1", "127.0.0.1", 8080), ("http://192.0.2.1:8080/v1", "0.0.0.0", 8080),
    ],
)  # fmt: skip
def test_another_address_is_not_the_proxy_itself(url: str, host: str, port: int) -> None:
    refuse_itself([url], host, port)


def test_a_name_of_two_addresses_is_taken_where_one_of_them_is(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(socket.AF_INET6, "::1", 0, 0), (socket.AF_INET, "127.0.0.1")]

    def resolved(_host: str | None, port: int, **_: Any) -> list[Any]:
        return [(family, socket.SOCK_STREAM, 6, "", (at, port, *rest)) for family, at, *rest in both]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match=f"--port {port}: Address already in use"):
            free_port("localhost", port)
    assert free_port("localhost", port) == port
    both[0] = (socket.AF_INET6, "2001:db8::1", 0, 0)
    assert free_port("localhost", port) == port
    both.clear()
    with pytest.raises(SettingsError, match="it has no address; give an address of this machine"):
        free_port("localhost", port)


@pytest.mark.usefixtures("started")
def test_serve_hands_its_settings_to_worker_processes_by_the_environment() -> None:
    options = "--port 0 --upstream http://127.0.0.1:9/v1 --mode off --format hermes --set retries=3 --set api_keys=a,b"
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
def test_what_the_command_line_gave_is_not_told_as_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCALL_MODE", "auto")
    assert cli.main(["serve", *UPSTREAM, "--set", "format=hermes"]) == 0
    settings = Settings.from_env()  # as the app reads them
    assert (settings.source("format"), settings.where("format")) == ("command line", "format")
    assert settings.source("upstream_url") == "command line"
    assert settings.source("mode") == "environment TOOLCALL_MODE"


@pytest.mark.usefixtures("started")
def test_options_win_over_variables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", "http://me:hunter2@127.0.0.1:9/v1")
    monkeypatch.setenv("TOOLCALL_FORMAT", "hermes")
    assert cli.main(["serve", "--format", "json", "--port", "0"]) == 0
    written = capsys.readouterr().err
    assert "(mode=prompt format=json)\nupstream: http://***@127.0.0.1:9/v1: " in written
    assert "hunter2" not in written


@pytest.mark.usefixtures("started")
def test_another_api_needs_no_address_and_has_its_own_mode(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--port", "0", "--upstream-api", "anthropic"]) == 0
    written = capsys.readouterr().err
    assert "(mode=native format=auto)\nupstream: https://api.anthropic.com: Anthropic's Messages API\n" in written
    assert cli.main(["serve", "--port", "0", "--set", "upstream_api=anthropic", "--mode", "prompt"]) == 0
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
        (["--upstream", "http://me:hunter2@up/v1/chat/completions/"], "which is added: http://***@up/v1"),
        (["--upstream", "http://up/v1", "--set", f"trace_dir={__file__}"], "test_serve.py cannot be written: it is no"),
        (["--upstream", "http://up/v1", "--set", f"trace_dir={__file__}/x"], "test_serve.py/x cannot be written: Not"),
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
        with (
            subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proxy,
            contextlib.ExitStack() as leaving,
        ):
            leaving.callback(proxy.kill)  # a failure must not wait for it
            assert proxy.stderr is not None
            written = []
            for line in proxy.stderr:
                written.append(line)
                if "running on" in line:
                    break
            with (
                httpx.Client(base_url=front, trust_env=False, timeout=PATIENCE) as client,
                client.stream("GET", "/v1/embeddings") as answer,
            ):
                pieces = answer.iter_raw()
                assert next(pieces) == b"data: 1\n\n"
                proxy.send_signal(signal.SIGTERM)
                for line in proxy.stderr:
                    written.append(line)
                    if "Waiting at most 30 s for 1 answers" in line:
                        break
                health, refused = httpx.get(f"{front}/healthz"), httpx.post(f"{front}/v1/embeddings")
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
    assert re.search(
        r" method=GET path=/v1/embeddings upstream=127.0.0.1:\d+ status=200 .* bytes=23 end=complete\n$", out
    )
    assert " method=POST path=/v1/embeddings status=503 " in out
    assert proxy.returncode in {0, -signal.SIGTERM}
