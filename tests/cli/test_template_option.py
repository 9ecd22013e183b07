"""`--template`: check, replay and prompt know a model by its checkpoint's chat template."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers.completions_fake import CompletionsBackend
from tests.helpers.fakes import serve
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.cli import main
from toolcall_middleware.explain import explain
from toolcall_middleware.observe.traces import Trace, read_trace

from ..formats.template import templates
from .check.engines import ARGUMENTS, Vllm, meant

CALL = '<acme_call>{"tool": "get_weather", "input": {"city": "Paris"}}</acme_call>'
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
ASKED = {"model": "acme-9b", "messages": [{"role": "user", "content": "Paris?"}], "tools": [TOOL]}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("acme")
    (folder / "chat_template.jinja").write_text(templates.JSON)
    return str(folder)


class Acme(Vllm):
    """A model that calls in its template's form alone."""

    def text(self, body: dict[str, Any]) -> str:
        name = meant(body)
        if name is None or "<acme_call>" not in str(body["messages"]):
            return super().text(body)
        return f'<acme_call>{{"tool": "{name}", "input": {json.dumps(ARGUMENTS[name])}}}</acme_call>'


def test_check_tries_the_form_of_a_template(template: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(Acme()) as url:
        assert main(["check", "--upstream", url, "--json", "--format", "json", "--format", "template",
                     "--template", template]) == 0  # fmt: skip
    report = json.loads(capsys.readouterr().out)
    right = {(score["format"], score["tool_choice"], score["constrain"]): score["right"] for score in report["calls"]}
    assert right["template", "auto", "off"] == 4
    assert right["json", "auto", "off"] == 0
    assert report["settings"]["TOOLCALL_TEMPLATE"] == template  # with which `auto` writes so, too


def test_without_formats_check_tries_what_auto_writes_by_the_template(
    template: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Unnamed(Acme):
        models = ("acme-9b",)

    with serve(Unnamed()) as url:
        assert main(["check", "--upstream", url, "--template", template]) == 0
    out = capsys.readouterr().out
    assert "prompt, format=auto (writes template)" in out
    assert f"TOOLCALL_TEMPLATE={template}" in out
    assert "TOOLCALL_FORMAT" not in out


def test_check_says_what_the_template_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(Vllm()) as url:
        assert main(["check", "--upstream", url, "--format", "template"]) == 2
    assert "say where that is with the setting `template`" in capsys.readouterr().err


@pytest.mark.parametrize("fmt", ["template", "auto"])
def test_replay_reads_a_text_by_a_template(
    fmt: str, template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answer.txt"
    file.write_text(f"Well.{CALL}")
    assert main(["replay", str(file), "--format", fmt, "--template", template, "--json"]) == 0
    [read] = json.loads(capsys.readouterr().out)
    assert (read["content"], [call["name"] for call in read["tool_calls"]]) == ("Well.", ["get_weather"])
    assert json.loads(read["tool_calls"][0]["arguments"]) == {"city": "Paris"}


def _written_to(folder: Path) -> list[str]:
    """The traces in a folder, once there are any."""
    for _ in range(1000):
        if found := [str(path) for path in folder.glob("*.jsonl")]:
            return found
        time.sleep(0.01)
    return []


async def _traced(template: str, folder: Path) -> tuple[list[str], CompletionsBackend]:
    """The traces of a request whose prompt the template writes, and the backend that got it."""
    backend = CompletionsBackend(f"Well.{CALL}")
    app = ToolCallMiddleware(
        backend.app, format="template", template=template, send="completions", trace_dir=str(folder)
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        assert (await client.post("/v1/chat/completions", json={**ASKED, "stream": True})).status_code == 200
    return await asyncio.to_thread(_written_to, folder), backend


def _read(file: str) -> Trace:
    return read_trace(Path(file).read_bytes())


async def test_a_trace_holds_the_prompt_that_the_template_wrote(template: str, tmp_path: Path) -> None:
    (file,), backend = await _traced(template, tmp_path)
    trace = await asyncio.to_thread(_read, file)
    (asked,) = (row for row in trace.rows if row["kind"] == "ask")
    assert json.loads(asked["data"]) == backend.asked[0]
    times = [row["at"] for row in trace.rows]
    assert times == sorted(times)
    (shown,) = explain(trace.rows, trace.summary, template)["prompt"]
    assert "".join(part["text"] for part in shown["parts"]) == backend.prompt
    assert [part["text"] for part in shown["parts"] if not part["injected"]] == ["Paris?"]
    assert shown["more"]["stop"] == ["<|im_end|>"]


async def test_replay_reads_a_trace_by_a_template(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = await _traced(template, tmp_path)
    assert main(["replay", *found, "--template", template, "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)["explained"]
    assert [(call["name"], call["arguments"]) for call in explained["calls"]] == [("get_weather", '{"city": "Paris"}')]
    assert main(["replay", *found, "--json"]) == 0
    assert not json.loads(capsys.readouterr().out)["explained"]["calls"]  # no trace tells the template


def test_replay_says_what_the_template_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "answer.txt"
    file.write_text(CALL)
    assert main(["replay", str(file), "--format", "template"]) == 2
    assert "the setting `template`" in capsys.readouterr().err
    assert main(["replay", str(file), "--format", "template", "--template", str(tmp_path / "none")]) == 2
    assert "nothing is downloaded" in capsys.readouterr().err


def test_prompt_prints_what_the_template_renders(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "body.json"
    file.write_text(json.dumps({**ASKED, "max_tokens": 5}))
    arguments = ["prompt", str(file), "--template", template, "--set", "send=completions"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.startswith("<|im_start|>system\n# Tools\n\n<tools>\n")
    assert '"max_tokens": 5' in out
    assert main([*arguments, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["prompt"].endswith("Paris?<|im_end|>\n<|im_start|>assistant\n")
    assert "messages" not in body
