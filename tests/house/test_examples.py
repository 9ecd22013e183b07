"""Every example runs as its own first lines and examples/README.md say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from tests.helpers.fakes import serve
from tests.helpers.processes import environment, free_port, running
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.cli.demo.scripted import ScriptedModel

if TYPE_CHECKING:
    from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"
REAL = os.environ.get("TEST_REAL_MODEL") == "1"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def client(base: str, timeout: float = 10) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=timeout, http_client=http)


def run_agent(base: str, question: str, *options: str, model: str = "toy") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "examples/agent_loop.py", "--base-url", f"{base}/v1", "--model", model, *options, question],
        cwd=EXAMPLES.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("stream", [False, True])
def test_the_agent_loop_calls_a_tool_of_the_existing_app_and_gets_its_answer(
    *, stream: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = load("agent_loop")
    with serve(load("existing_app").app) as base, client(base) as sdk:
        answer = agent.loop(sdk, "toy", "What is the weather in Paris?", stream=stream)
    assert answer == "In Paris it is 18 degrees, light rain in Paris."
    assert '[get_weather {"city": "Paris"} -> 18 degrees, light rain in Paris]' in capsys.readouterr().out


def test_the_existing_app_without_tools_is_what_it_was() -> None:
    body = {"model": "toy", "messages": [{"role": "user", "content": "What is the weather in Paris?"}]}
    with serve(load("existing_app").app) as base:
        answer = httpx.post(f"{base}/v1/chat/completions", json=body, trust_env=False).json()
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "I can only talk."}


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_the_two_commands_of_the_existing_app_run_as_documented(options: tuple[str, ...]) -> None:
    port = free_port()
    with running("examples/existing_app.py", str(port), port=port) as base:
        agent = run_agent(base, "What is the weather in Paris?", *options)
    assert agent.returncode == 0, agent.stderr
    assert agent.stdout.startswith("Let me look." if options else "[get_weather")
    assert "In Paris it is 18 degrees, light rain in Paris." in agent.stdout


def scripted(*texts: str) -> ToolCallMiddleware:
    return ToolCallMiddleware(ScriptedModel(texts), settings=Settings(format="json"))


def call(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"tool_calls": [{"name": name, "arguments": arguments}]})


def test_the_agent_loop_tells_the_model_of_a_tools_error_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = call("get_time", {"timezone": "Mars/Base"})
    right = call("get_time", {"timezone": "Europe/Paris"})
    with serve(scripted(wrong, right, "It is late.")) as base, client(base) as sdk:
        assert load("agent_loop").loop(sdk, "scripted", "What time is it?") == "It is late."
    out = capsys.readouterr().out
    assert "error: ZoneInfoNotFoundError" in out
    assert re.search(r"Europe/Paris\"} -> \d\d:\d\d\]", out)


def test_the_agent_loop_gives_up_after_its_turns() -> None:
    weather = call("get_weather", {"city": "Paris"})
    with serve(scripted(*[weather] * 3)) as base, client(base) as sdk:
        assert load("agent_loop").loop(sdk, "scripted", "?", turns=3) is None


def test_the_agent_loop_says_in_a_line_that_nobody_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    monkeypatch.setattr(sys, "argv", ["agent_loop.py", "--base-url", url, "?"])
    assert load("agent_loop").main() == 1
    assert capsys.readouterr().err == f"{url}: Connection error.\n"


def test_every_example_is_in_the_readme_and_every_file_there_exists() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(re.findall(r"\b\w+\.py\b", text))


@pytest.mark.skipif(not REAL, reason="TEST_REAL_MODEL=1 runs the real model behind the real proxy")
@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        ("prompt", {"tool_choice": "required"}),
        # llama.cpp takes the tools and the model's template leaves them out: that is noticed, and the prompt has them.
        ("auto", {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}),
    ],
)
def test_the_proxy_in_front_of_the_real_model_as_documented(
    mode: str, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCALL_MODE", mode)
    upstream, port = free_port(), free_port()
    proxy = ("-m", "toolcall_middleware", "serve", "--upstream", f"http://127.0.0.1:{upstream}/v1", "--port", str(port))
    with running("examples/real_model.py", str(upstream), port=upstream), running(*proxy, port=port) as base:
        assert_calls(base, **asked)


@pytest.mark.skipif(
    not REAL or importlib.util.find_spec("llama_cpp") is None,
    reason="TEST_REAL_MODEL=1 runs llama-cpp-python's server, where it is installed",
)
def test_the_middleware_inside_llama_cpp_pythons_server_as_documented() -> None:
    port = free_port()
    with running("examples/llama_cpp_python_app.py", str(port), port=port) as base:
        assert_calls(base)


def assert_calls(base: str, **asked: Any) -> None:
    """A call that must come, whole and streamed, has the right form."""
    agent = load("agent_loop")
    options: dict[str, Any] = {
        "model": "SmolLM2-135M-Instruct",
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": agent.TOOLS,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0,
        "max_tokens": 160,
        **asked,
    }
    with client(base, timeout=120) as sdk:
        for stream in (False, True):
            message = agent.ask(sdk, options, stream=stream)
            assert message.tool_calls
            assert len(message.tool_calls) == 1
            for made in message.tool_calls:
                assert made.function.name in agent.FUNCTIONS
                assert isinstance(json.loads(made.function.arguments), dict)
