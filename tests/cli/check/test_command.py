"""`toolcall-middleware check` from its command line to a backend on a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.fakes import serve
from toolcall_middleware.cli import main

from .engines import Engine, LlamaServer, TextOnly, Vllm, VllmHermes

KEY = "sk-test-0123456789abcdef"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["check", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_report_goes_to_stdout_and_its_progress_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    engine = VllmHermes({"hermes"})
    with serve(engine) as url:
        code, out, err = run(capsys, "--upstream", f"{url}/v1")
    assert code == 0
    assert out.startswith(f"{url}/v1, model Qwen/Qwen2.5-0.5B-Instruct\n")
    assert "\n  TOOLCALL_MODE=native  # " in out
    assert "check: 1/" in err
    assert "check: " not in out
    assert len(engine.requests) < 80


def test_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(Vllm({"json"})) as url:
        code, out, _ = run(capsys, "--upstream", f"{url}/v1", "--json", "--format", "json", "--format", "xlam")
    report: dict[str, Any] = json.loads(out)
    assert code == 0
    assert report["settings"] == {"TOOLCALL_MODE": "prompt"}
    verdicts = {finding["key"]: finding["verdict"] for finding in report["findings"]}
    assert (verdicts["native.whole"], verdicts["constrain.response_format"]) == ("no", "yes")
    assert {call["format"] for call in report["calls"]} == {"json", "xlam"}
    assert report["complete"] is True


def test_a_backend_without_right_calls_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(Engine()) as url:
        assert run(capsys, "--upstream", url)[0] == 1


def test_limits_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(LlamaServer()) as url:
        code, out, _ = run(capsys, "--upstream", url, "--tokens", "60", "--json")
    report = json.loads(out)
    assert code == 2  # no prompt for a call was reached: that says nothing of the backend
    assert not any(call["asked"] for call in report["calls"])
    assert report["complete"] is False
    assert report["tokens"] <= 60


def test_a_backend_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--upstream", "http://user:hunter2@127.0.0.1:9/v1")
    assert (code, out) == (2, "")
    assert err == ("toolcall-middleware: The upstream http://127.0.0.1:9/v1 cannot be reached: Connection refused\n")


def test_without_an_upstream_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys)
    assert code == 2
    assert "--upstream URL" in err


def test_a_model_has_to_be_named_where_none_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(TextOnly({"json"})) as url:
        code, _, err = run(capsys, "--upstream", f"{url}/v1")
        assert code == 2
        assert "--model" in err
        assert run(capsys, "--upstream", f"{url}/v1", "--model", "m")[0] == 0


def test_the_key_comes_from_the_environment_and_is_never_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Vllm({"json"}, key=KEY)
    with serve(engine) as url:
        monkeypatch.setenv("TOOLCALL_UPSTREAM_KEY", KEY)
        assert run(capsys, "--upstream", f"{url}/v1", "--format", "json")[0] == 0
        assert {headers.get(b"authorization") for headers in engine.headers} == {f"Bearer {KEY}".encode()}
        wrong = KEY.replace("0", "9")
        monkeypatch.setenv("TOOLCALL_UPSTREAM_KEY", wrong)
        code, out, err = run(capsys, "--upstream", f"{url}/v1")
    assert (code, out) == (2, "")
    assert "refuses the key" in err
    assert "TOOLCALL_UPSTREAM_KEY" in err
    assert wrong not in err


def test_a_login_in_the_address_is_never_shown(capsys: pytest.CaptureFixture[str]) -> None:
    class Quoting(Engine):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            self.key = "another"
            await super().__call__(scope, receive, send)

    with serve(Quoting()) as url:
        code, out, err = run(capsys, "--upstream", url.replace("://", "://user:hunter%322@"))
    assert (code, out) == (2, "")
    assert "Incorrect API key provided: Basic ***" in err
    assert "dXNlcjp" not in err


def test_a_mistake_in_the_format_is_told_before_anything_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    engine = Vllm()
    with serve(engine) as url:
        code, _, err = run(capsys, "--upstream", url, "--format", "hermse")
    assert code == 2
    assert "did you mean hermes?" in err
    assert not engine.requests
