"""`toolcall-middleware launch` with agents that are small scripts: what they are told, and what the terminal is told.

Each fake agent writes down its environment and arguments, reads its configuration as the real one would, and makes one
real request through the proxy.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

import toolcall_middleware
from tests.helpers.fakes import TextBackend, serve, write_calls
from toolcall_middleware.cli import main
from toolcall_middleware.cli.launch.agents import AGENTS, Place

MODEL = "Qwen/Qwen3-8B"
ROOT = Path(toolcall_middleware.__file__).parent.parent
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
}
CHAT = [name for name in AGENTS if name not in {"claude", "codex"}]

# Says what it was started with, asks for a call, and leaves with a code of its own.
AGENT = """
    #!{python}
    import json, os, pathlib, sys, urllib.request
    sys.path.insert(0, {folder!r})
    import where
    base, key, model = where.find()
    body = {{"model": model, "messages": [{{"role": "user", "content": "Read it."}}], "tools": [{tool}]}}
    headers = {{"authorization": "Bearer " + key, "content-type": "application/json"}}
    request = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
    answer = json.load(opener.open(request, timeout=30))
    pathlib.Path({said!r}).write_text(json.dumps(
        {{"environment": dict(os.environ), "arguments": sys.argv[1:], "answer": answer, "model": model}}))
    sys.exit(7)
"""

# How each real agent finds out where the model is, as a function `find`.
WHERE = {
    "opencode": """
        config = json.loads(os.environ["OPENCODE_CONFIG_CONTENT"])
        provider, _, model = config["model"].partition("/")
        options = config["provider"][provider]["options"]
        assert model in config["provider"][provider]["models"]
        return options["baseURL"], options["apiKey"], model
    """,
    "qwen": """
        assert sys.argv[1:3] == ["--auth-type", "openai"]
        return os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], os.environ["OPENAI_MODEL"]
    """,
    "continue": """
        (model,) = json.loads(pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text())["models"]
        return model["apiBase"], model["apiKey"], model["model"]
    """,
    "cline": """
        file = pathlib.Path(os.environ["CLINE_DATA_DIR"], "settings", "providers.json")
        config = json.loads(file.read_text())
        settings = config["providers"][sys.argv[sys.argv.index("-P") + 1]]["settings"]
        (model,) = (word[8:] for word in sys.argv if word.startswith("--model="))
        return settings["baseUrl"], settings["apiKey"], model
    """,
    "env": """
        return os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], os.environ["OPENAI_MODEL"]
    """,
}


def install(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake agent on PATH; gives the file that it writes."""
    said = folder / "said.json"
    program = folder / (AGENTS[name].program if name in AGENTS else "my-agent")
    code = textwrap.dedent(AGENT).lstrip()
    program.write_text(code.format(python=sys.executable, folder=str(folder), tool=json.dumps(TOOL), said=str(said)))
    program.chmod(0o755)
    body = textwrap.indent(textwrap.dedent(WHERE[name]), "    ")
    (folder / "where.py").write_text(f"import json, os, pathlib, sys\ndef find():\n{body}\n")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return said


def backend(models: tuple[str, ...] = (MODEL,)) -> TextBackend:
    return TextBackend(lambda _body: write_calls("json", ("read", {"path": "x"})), strict=True, models=models)


@pytest.mark.skipif(sys.platform == "win32", reason="scripts on PATH")
@pytest.mark.parametrize("name", [*CHAT, "env"])
def test_an_agent_gets_a_call_and_the_terminal_the_sum(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    said = install(name, tmp_path, monkeypatch)
    monkeypatch.setenv("TOOLCALL_UPSTREAM_KEY", "hunter2")
    app = backend()
    with serve(app) as url:
        rest = ["my-agent"] if name == "env" else []
        assert main(["launch", name, "--upstream", f"{url}/v1", "--", *rest, "-p", "hello --upstream"]) == 7
    told = json.loads(said.read_text())
    assert told["arguments"][-2:] == ["-p", "hello --upstream"]
    assert told["model"] == MODEL
    (choice,) = told["answer"]["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "read"
    # The upstream's key and the proxy's settings are not the agent's business.
    assert not [variable for variable in told["environment"] if variable.startswith("TOOLCALL_")]
    assert "hunter2" not in said.read_text()
    assert app.last.headers["authorization"] == "Bearer hunter2"
    written = capfd.readouterr().err
    assert f"{name} -> http://127.0.0.1:" in written
    assert f"model {MODEL}" in written
    assert "1 request, 1 tool call (read 1)" in written
    assert "hunter2" not in written


@pytest.mark.skipif(sys.platform == "win32", reason="scripts on PATH")
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither files in the user's home nor the folder that the agent was shown."""
    said = install("cline", tmp_path, monkeypatch)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with serve(backend()) as url:
        assert main(["launch", "cline", "--upstream", f"{url}/v1"]) == 7
    assert list(home.iterdir()) == []
    assert not Path(json.loads(said.read_text())["environment"]["CLINE_DATA_DIR"]).exists()


def test_a_missing_agent_is_told_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, agent in AGENTS.items():
        assert main(["launch", name, "--upstream", "http://127.0.0.1:9/v1"]) == 127
        assert f"{name} is not installed" in (written := capsys.readouterr().err)
        assert f"npm install -g {agent.package}" in written


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "There is no upstream"),
        (
            ["--upstream", "http://127.0.0.1:9/v1"],
            "does not say which models it has (Connection refused); give --model",
        ),
        (["--set", "upstreams_file=x.toml"], "launch takes one upstream"),
        (["--upstream", "http://127.0.0.1:9/v1", "--model", "m", "--format", "hermess"], "did you mean hermes?"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "env", *arguments, "--", "true"]) == 2
    written = capsys.readouterr().err
    assert says in written
    assert written.count("\n") == 1


def test_a_model_that_the_backend_does_not_list_is_refused_with_what_it_lists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serve(backend((MODEL, "tiny:latest"))) as url:
        for wanted, says in (("Qwen/Qwen3-8", f"did you mean {MODEL}?"), ("x", f"known: {MODEL}, tiny:latest")):
            assert main(["launch", "env", "--upstream", f"{url}/v1", "--model", wanted, "--", "true"]) == 2
            written = capsys.readouterr().err
            assert f"--model {wanted}: {url}/v1 does not list it; {says}" in written
        for wanted in (MODEL, "tiny"):
            assert main(["launch", "env", "--upstream", f"{url}/v1", "--model", wanted, "--", "true"]) == 0
        mine = ["--set", f"model_aliases=mine={MODEL}", "--model", "mine"]
        assert main(["launch", "env", "--upstream", f"{url}/v1", *mine, "--", "true"]) == 0


def test_arguments_of_the_agent_without_dashes_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["launch", "env", "--upstream", "http://127.0.0.1:9/v1", "-p", "What is this?"])
    assert left.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "arguments for the started program go after --: toolcall-middleware launch env"
        " --upstream http://127.0.0.1:9/v1 -- -p" in said
    )


def test_a_program_that_is_not_there_is_127(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(backend()) as url:
        assert main(["launch", "env", "--upstream", f"{url}/v1", "--", "no-such-program-at-all"]) == 127
    assert "no-such-program-at-all: there is no such program" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="scripts on PATH")
@pytest.mark.parametrize("name", CHAT)
@pytest.mark.parametrize("wanted", [["--model=--yolo"], []])
def test_a_model_is_never_an_option_of_the_agent(
    name: str, wanted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = install(name, tmp_path, monkeypatch)
    with serve(backend(("--yolo", "-y", MODEL))) as url:
        assert main(["launch", name, "--upstream", f"{url}/v1", *wanted]) == 7
    told = json.loads(said.read_text())
    assert told["model"] == ("--yolo" if wanted else MODEL)
    assert not {"--yolo", "-y"} & set(told["arguments"])


@pytest.mark.parametrize("name", AGENTS)
def test_no_argument_of_an_agent_is_a_models_name_alone(name: str, tmp_path: Path) -> None:
    for model in ("--yolo", "-y"):
        folder = tmp_path / model
        folder.mkdir()
        setup = AGENTS[name].setup(Place("http://127.0.0.1:1234", "k", model, None, folder))
        assert model not in setup.arguments


def test_a_backend_with_no_other_names_needs_one_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(backend(("--yolo",))) as url:
        assert main(["launch", "env", "--upstream", f"{url}/v1", "--", "true"]) == 2
    assert "give --model NAME" in capsys.readouterr().err


def test_only_the_agent_may_use_the_proxy() -> None:
    program = (
        "import os, sys, urllib.request, urllib.error\n"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "try:\n    opener.open(os.environ['OPENAI_BASE_URL'] + '/models', timeout=20)\n"
        "except urllib.error.HTTPError as error:\n    sys.exit(error.code - 400)\n"
    )
    with serve(backend()) as url:
        assert main(["launch", "env", "--upstream", f"{url}/v1", "--", sys.executable, "-c", program]) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_the_agents(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C reaches the agent by the terminal's group; the launch waits for it. SIGTERM is handed on."""
    ready = tmp_path / "ready"
    agent = (
        "import pathlib, signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(5))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(60)\n"
    )
    with serve(backend()) as url:
        command = ["-m", "toolcall_middleware", "launch", "env", "--upstream", f"{url}/v1", "--"]
        process = subprocess.Popen(
            [sys.executable, *command, sys.executable, "-c", agent],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, written = process.communicate(timeout=60)
    assert process.returncode == 5
    assert "0 requests, 0 tool calls" in written
    assert "Traceback" not in written


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals")
def test_the_terminal_is_the_agents(tmp_path: Path) -> None:
    """All three streams are the terminal, and the agent reads from it what is typed."""
    import pty

    said = tmp_path / "said"
    agent = (
        "import pathlib, sys\n"
        "assert all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))\n"
        f"pathlib.Path({str(said)!r}).write_text(input('agent> '))\n"
    )
    ours, theirs = pty.openpty()
    with serve(backend()) as url:
        command = ["-m", "toolcall_middleware", "launch", "env", "--upstream", f"{url}/v1", "--"]
        process = subprocess.Popen(
            [sys.executable, *command, sys.executable, "-c", agent],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        os.write(ours, b"hello agent\n")
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert said.read_text() == "hello agent"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 0), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_env_prints_the_variables_and_serves_until_a_signal(name: str, code: int, tmp_path: Path) -> None:
    with serve(backend()) as url:
        process = subprocess.Popen(
            [sys.executable, "-m", "toolcall_middleware", "launch", "env", "--upstream", f"{url}/v1"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            if "serving until Ctrl-C" in line:
                break
        process.send_signal(getattr(signal, name))
        out, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "0 requests, 0 tool calls" in said
    assert list(tmp_path.iterdir()) == []
    exported = dict(line.removeprefix("export ").split("=", 1) for line in out.splitlines())
    assert exported["OPENAI_MODEL"] == MODEL
    assert exported["OPENAI_BASE_URL"] == f"{exported['ANTHROPIC_BASE_URL']}/v1"


# --- what each agent is told


def place(folder: Path, context: int | None = 40_960) -> Place:
    return Place("http://127.0.0.1:1234", "k", 'a "quoted" model', context, folder)


def test_claude_code_is_told_by_variables_alone(tmp_path: Path) -> None:
    setup = AGENTS["claude"].setup(place(tmp_path))
    assert setup.arguments == ()
    assert list(tmp_path.iterdir()) == []
    told = setup.environment
    assert told["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1234"  # it adds /v1/messages
    assert told["ANTHROPIC_AUTH_TOKEN"] == "k"
    assert "ANTHROPIC_API_KEY" in setup.without
    assert {value for name, value in told.items() if name.endswith("_MODEL")} == {'a "quoted" model'}
    assert told["CLAUDE_CODE_ATTRIBUTION_HEADER"] == "0"
    assert told["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "8192"
    assert told["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "40960"
    unknown = AGENTS["claude"].setup(place(tmp_path, None)).environment
    assert "CLAUDE_CODE_MAX_CONTEXT_TOKENS" not in unknown
    small = AGENTS["claude"].setup(place(tmp_path, 8000)).environment
    assert small["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "2000"


def test_codex_gets_a_home_of_its_own(tmp_path: Path) -> None:
    setup = AGENTS["codex"].setup(place(tmp_path))
    home = Path(setup.environment["CODEX_HOME"])
    config = tomllib.loads((home / "config.toml").read_text())
    assert home.is_relative_to(tmp_path)
    assert (config["model"], config["model_context_window"]) == ('a "quoted" model', 40_960)
    provider = config["model_providers"][config["model_provider"]]
    assert (provider["base_url"], provider["wire_api"]) == ("http://127.0.0.1:1234/v1", "responses")
    assert setup.environment[provider["env_key"]] == "k"
    (tmp_path / "odd").mkdir()
    odd = Place("http://127.0.0.1:1234", "k", "m\U0001f600\x7f", None, tmp_path / "odd")
    written = Path(AGENTS["codex"].setup(odd).environment["CODEX_HOME"], "config.toml").read_text("utf-8")
    assert tomllib.loads(written)["model"] == "m\U0001f600\x7f"


def test_cline_is_not_to_leave_a_daemon_behind(tmp_path: Path) -> None:
    assert AGENTS["cline"].setup(place(tmp_path)).environment["CLINE_SESSION_BACKEND_MODE"] == "local"


# --- the sum

# Asks as agents do: streamed, on the path that it is given, as often as it is given bodies.
STREAMED = """
import json, os, sys, urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
for body in json.loads(sys.argv[2]):
    data = json.dumps({"model": "m", "stream": True, **body}).encode()
    try:
        request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + sys.argv[1], data, headers)
        opener.open(request, timeout=30).read()
    except urllib.error.HTTPError:
        pass
"""


def told_of(text: str, path: str, *bodies: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What the terminal is told of these requests to a model that writes `text`."""
    with serve(TextBackend(lambda _body: text, strict=True, models=(MODEL,))) as url:
        command = [sys.executable, "-c", STREAMED, path, json.dumps(bodies)]
        assert main(["launch", "env", "--upstream", f"{url}/v1", "--format", "hermes", "--", *command]) == 0
    return [line.removeprefix("toolcall-middleware: ") for line in capfd.readouterr().err.splitlines()]


def test_a_model_that_never_called_is_told_of(capfd: pytest.CaptureFixture[str]) -> None:
    body = {"messages": [{"role": "user", "content": "Read it."}], "tools": [TOOL]}
    never = f"{MODEL} called no tool in 2 answers. To see what it can do: toolcall-middleware check --upstream"
    told = told_of("I could read it.", "/chat/completions", body, {**body, "stream": False}, capfd=capfd)
    assert [line for line in told if line.startswith(never)]
    call = '<tool_call>\n{"name": "read", "arguments": {"path": "x"}}\n</tool_call>'
    told = told_of(call, "/chat/completions", body, capfd=capfd)
    assert not [line for line in told if "called no tool" in line]


def test_calls_that_are_not_clean_are_told_also_of_streams(capfd: pytest.CaptureFixture[str]) -> None:
    """Agents stream, and a stream's head is gone before its calls are read."""
    call = '<tool_call>\n{"name": "read", "arguments": {"path": "x"}\n</tool_call>'
    unknown = '<tool_call>\n{"name": "sing", "arguments": {}}\n</tool_call>'
    body = {"messages": [{"role": "user", "content": "Read it."}], "tools": [TOOL]}
    told = told_of(f"{call}\n{unknown}", "/chat/completions", body, {**body, "stream": False}, capfd=capfd)
    assert "2 requests, 2 tool calls (read 2)" in told
    assert "not clean (repaired 2, unknown_tool 2)" in told


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", {"messages": [{"role": "user", "content": "Read it."}], "tools": [TOOL]}),
        (
            "/messages",
            {
                "max_tokens": 99,
                "messages": [{"role": "user", "content": "Read it."}],
                "tools": [{"name": "read", "input_schema": TOOL["function"]["parameters"]}],
            },
        ),
        ("/responses", {"input": "Read it.", "tools": [{"type": "function", **TOOL["function"]}]}),
    ],
    ids=["chat", "messages", "responses"],
)
def test_a_call_is_counted_once_on_each_face(
    path: str, body: dict[str, Any], capfd: pytest.CaptureFixture[str], *, stream: bool
) -> None:
    call = '<tool_call>\n{"name": "read", "arguments": {"path": "x"}}\n</tool_call>'
    assert "1 request, 1 tool call (read 1)" in told_of(call, path, {**body, "stream": stream}, capfd=capfd)


def test_where_no_calls_are_read_none_is_missed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCALL_MODE", "off")
    told = told_of("Hello.", "/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}, capfd=capfd)
    assert "1 request" in told
    assert not [line for line in told if "called no tool" in line]


def test_a_warning_that_comes_at_each_turn_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    """Else twenty turns of one would push out all others."""
    body = {"input": "hi", "tools": [{"type": "web_search"}, {"type": "function", **TOOL["function"]}]}
    told = told_of("Hello.", "/responses", *[body] * 3, capfd=capfd)
    (line,) = [line for line in told if "web_search" in line]
    assert line.endswith("left out: web_search (3 times)")


def test_a_refusal_of_the_proxy_is_told_with_its_reason(capfd: pytest.CaptureFixture[str]) -> None:
    output = {"type": "function_call_output", "call_id": "call_z", "output": "x"}
    told = told_of("Hello.", "/responses", {"input": [output]}, capfd=capfd)
    assert "1 error (400 1)" in told
    assert any("code=invalid_tool_call_id param=input[0].call_id" in line for line in told)
