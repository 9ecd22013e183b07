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
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import readme
from tests.helpers.auto_backend import NO_PARSER, TOOL, AutoBackend
from tests.helpers.fakes import Refusal, TextBackend, serve, write_calls
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.cli import main
from toolcall_middleware.errors import CODES
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.settings import OPTIONS

TEXT = readme.README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?:<!-- (\w+) -->\n)?```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
NAMED = {name: code for name, _, code in BLOCKS if name}
SHELL = [line for _, language, code in BLOCKS if language == "sh" for line in code.splitlines()]


def chat(app: Any, body: dict[str, Any]) -> httpx.Response:
    async def post() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return await client.post("/v1/chat/completions", json=body)

    return asyncio.run(post())


# --- the generated parts


def test_the_table_is_that_of_the_code() -> None:
    assert readme.rendered(TEXT) == TEXT, "run `python -m tests.readme`"


@pytest.mark.parametrize("name", readme.REFERENCE)
def test_the_pages_of_the_reference_are_those_of_the_code(name: str) -> None:
    assert readme.page_path(name).read_text(encoding="utf-8") == readme.page(name), "run `python -m tests.readme`"


def test_every_setting_format_and_error_has_its_row() -> None:
    assert {option.room for option in OPTIONS.values()} == set(readme.ROOMS)
    for page, names in (("settings", OPTIONS), ("formats", readme.built_in()), ("errors", CODES)):
        text = readme.page(page)
        for name in names:
            assert re.search(rf"\n\| (<a id=.*></a>)?`{re.escape(name)}` \|", text), name


def test_the_readme_can_be_read_in_one_sitting() -> None:
    assert len(TEXT.encode()) <= 9_000


# --- on the wire


def test_the_recorded_call_is_what_the_middleware_makes_of_the_recorded_text() -> None:
    backend = TextBackend([NAMED["written"].strip()], strict=True)
    answer = chat(ToolCallMiddleware(backend), json.loads(NAMED["request"])).json()
    (choice,) = answer["choices"]
    expected = json.loads(NAMED["received"])
    for message in (choice["message"], expected):
        (call,) = message["tool_calls"]
        assert re.fullmatch(r"call_[a-zA-Z0-9]{24}", call.pop("id"))
    assert {key: choice["message"][key] for key in expected} == expected
    assert choice["finish_reason"] == "tool_calls"
    assert "response_format" in backend.last.body
    assert "get_weather" in backend.last.body["messages"][0]["content"]


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


def test_the_sample_app_and_the_sample_client_together_show_a_call(tmp_path: Path) -> None:
    names, _ = run_program(NAMED["app"], tmp_path)
    with serve(names["app"]) as url:
        code = NAMED["client"].replace("http://127.0.0.1:8080", url)
        assert url in code
        _, printed = run_program(code, tmp_path)
    (said,) = re.findall(r"this prints `(.*)`:", TEXT)
    assert printed == f"{said}\n"


def test_the_sample_app_answers_in_words_where_no_tool_is_offered(tmp_path: Path) -> None:
    names, _ = run_program(NAMED["app"], tmp_path)
    body = {"model": "any", "messages": [{"role": "user", "content": "Hello?"}]}
    assert chat(names["app"], body).json()["choices"][0]["message"]["content"] == "Hello."


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
        proxy = ToolCallMiddleware(Forwarder(f"{upstream}/v1", Settings(upstream_timeout=10, upstream_retries=0)))
        with serve(proxy) as url:
            code = NAMED["client"].replace("http://127.0.0.1:8080", url)
            assert url in code
            _, printed = run_program(code, tmp_path)
    assert printed.startswith("get_weather {")
    assert json.loads(printed.removeprefix("get_weather ")) == {"city": "Paris"}


# --- the commands


def test_every_command_is_known_here() -> None:
    known = ("vllm serve", "serve --upstream", "check --upstream", "launch ", "bash ", "toolcall-middleware config")
    for line in SHELL:
        assert any(part in line for part in known), line


def test_the_extras_that_are_named_exist() -> None:
    (named,) = re.findall(r"`pip install '\.\[(.*)\]'`", TEXT)
    extras = tomllib.loads((readme.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(named.split(",")) <= set(extras)


def test_no_text_promises_the_package_on_an_index() -> None:
    """Nobody has published it yet: it is installed from a checkout."""
    texts = [readme.README, *readme.ROOT.glob("docs/**/*.md"), *readme.ROOT.glob("examples/**/*.[mpst]*")]
    for path in texts:
        if "__pycache__" in path.parts:
            continue
        promised = re.search(r"(pip install|uvx|uv tool install) toolcall-middleware", path.read_bytes().decode())
        assert promised is None, path


def test_every_command_that_is_named_exists() -> None:
    named = set(re.findall(r"toolcall-middleware (\w+)", TEXT))
    assert {"serve", "launch", "config", "check"} <= named <= readme.commands()


@pytest.mark.parametrize(
    ("name", "last"), [("demo", "exec .venv/bin/toolcall-middleware demo"), ("test", "exec .venv/bin/python -m pytest")]
)
def test_the_two_commands_are_scripts_whose_steps_exist(name: str, last: str) -> None:
    """.ci/run runs both as they stand in the README."""
    (line,) = NAMED[name].splitlines()
    assert len(line) < 40
    script = readme.ROOT / line.removeprefix("bash ")
    assert os.access(script, os.X_OK)
    text = script.read_text("utf-8")
    assert last in text
    extras = tomllib.loads((readme.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (named,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    assert set(named.split(",")) <= set(extras)
    variables = dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))
    for folder in re.findall(r"--prefix (\S+)", text):
        assert (readme.ROOT / variables.get(folder.strip('"$'), folder) / "package-lock.json").is_file()
    for path in (script, readme.ROOT / "examples" / "venv.sh"):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("command", "says"), [("config", "format"), ("demo --only scripted", "checks came out right")])
def test_the_command_runs(command: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 0
    assert says in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_proxy_starts_as_documented_and_says_that_it_is_up() -> None:
    (line,) = [line for line in SHELL if "middleware serve --upstream" in line]
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


def test_the_models_name_tells_the_format() -> None:
    for asked, expected in (("Qwen/Qwen2.5-7B-Instruct", "hermes"), ("no-such-family", "json")):
        body = {**json.loads(NAMED["request"]), "model": asked, "stream": False, "tool_choice": "auto"}
        answer = chat(ToolCallMiddleware(TextBackend(["Hello."], strict=True)), body)
        assert answer.headers["x-toolcall"] == f"mode=prompt; format={expected}; calls=0; no_call=prose"


def test_what_is_counted_here_is_marked() -> None:
    backend = TextBackend(["Hello."], strict=True, usage=False)
    body = {**json.loads(NAMED["request"]), "stream": False, "tool_choice": "auto"}
    assert chat(ToolCallMiddleware(backend), body).json()["usage"]["estimated"] is True


@pytest.mark.parametrize("refused", [False, True])
def test_auto_asks_by_prompt_where_tools_are_refused_or_dropped(*, refused: bool) -> None:
    backend = AutoBackend(renders=False, refusal=NO_PARSER if refused else None)
    app = ToolCallMiddleware(backend, mode="auto")
    for _ in range(2):
        body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": [TOOL]}
        assert chat(app, body).json()["choices"][0]["finish_reason"] == "tool_calls"
    assert not any("tools" in sent for sent in backend.asked)


def test_validate_arguments_refuses_a_call_that_does_not_fit() -> None:
    backend = TextBackend([write_calls("json", ("get_weather", {"city": 5}))], strict=True)
    body = {**json.loads(NAMED["request"]), "stream": False, "tool_choice": "auto"}
    answer = chat(ToolCallMiddleware(backend, validate_arguments="error"), body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_tool_arguments")


def test_the_example_of_settings_in_a_request_is_accepted_and_removed() -> None:
    (example,) = re.findall(r'`(\{"toolcall": .*\})`', TEXT)
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


def test_every_file_that_is_linked_exists() -> None:
    linked = re.findall(r"\]\(([^)#]+)", TEXT.replace("\n", " "))
    assert linked
    assert not [path for path in linked if not path.startswith("http") and not (readme.ROOT / path).exists()]


def test_each_error_says_what_to_do() -> None:
    assert readme.WHAT_TO_DO.keys() == CODES.keys()
