"""The documentation is true: its links lead somewhere, its programs run, its configurations are those that we test.

Needs no network. The site itself is built where the extra `docs` is installed.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers.fakes import Answer, TextBackend, serve, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.cli.launch.agents import AGENTS, Place
from toolcall_middleware.hosts.proxy.upstreams_file import read_upstreams
from toolcall_middleware.settings import OPTIONS, Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
OTHERS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")]
FENCE = re.compile(r"(?:<!-- (\w+)(?:: (\w+))? -->\n)?^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# The pieces in which SmolLM2 wrote the recorded answer on llama.cpp.
TOKENS = ('{"', "tool", "_", "calls", '":', " [{", '"', "name", '":', ' "', "get", "_", "weather", '",', ' "',
          "arguments", '":', ' {"', "city", '":', ' "', "Paris", '"', "}}", "]}")  # fmt: skip


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def fences(path: Path) -> list[tuple[str, str, str, str]]:
    """Mark, its argument, language and text of each block."""
    return [(mark, given, language, code) for mark, given, language, code in FENCE.findall(path.read_text("utf-8"))]


# --- links and code


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(path: Path) -> None:
    text = FENCE.sub("", path.read_text("utf-8"))
    for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        if anchor:
            page = target.read_text("utf-8")
            headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in {*anchors, *re.findall(r'<a id="([\w-]+)">', page)}, link


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=name_of)
def test_modules_that_are_named_exist(path: Path) -> None:
    for module in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", path.read_text("utf-8")):
        assert (ROOT / module).exists() or (ROOT / "toolcall_middleware" / module).exists(), module


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=name_of)
def test_code_can_be_read(path: Path) -> None:
    for _, _, language, code in fences(path):
        match language:
            case "python" if "reference" not in path.parts:
                ast.parse(code)
            case "json":
                json.loads(code)
            case "toml":
                tomllib.loads(code)
            case "sh":
                done = subprocess.run(["bash", "-n", "-c", code], capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=name_of)
def test_our_own_commands_can_be_parsed(path: Path) -> None:
    for _, _, language, code in fences(path):
        for line in code.splitlines() if language == "sh" else ():
            _, found, rest = line.partition("toolcall-middleware ")
            if not found or line.startswith("#"):
                continue
            words = shlex.split(re.split(r" [|>&] ?", rest, maxsplit=1)[0], comments=True)
            ours, _ = cli._split(words)
            args, unknown = cli.build_parser().parse_known_args(ours)
            assert unknown == [], line
            for item in getattr(args, "set", ()):
                assert item.partition("=")[0] in OPTIONS, line


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=name_of)
def test_settings_that_are_named_exist(path: Path) -> None:
    named = re.findall(r"\bTOOLCALL_([A-Z_]+)\b", path.read_text("utf-8"))
    assert {name.lower() for name in named} <= set(OPTIONS)


def test_llms_txt_lists_pages_that_exist() -> None:
    links = re.findall(r"\]\(([\w/-]+)\.html\)", (DOCS / "llms.txt").read_text("utf-8"))
    assert len(links) > 10
    assert not [link for link in links if not (DOCS / f"{link}.md").is_file()]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="the extra `docs` is not installed")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        str(tmp_path / "doctrees"),
    ]
    done = subprocess.run(
        [*command, str(DOCS), str(tmp_path / "html")], capture_output=True, text=True, check=False, timeout=110
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "html" / "llms.txt").is_file()
    for path in PAGES:
        page = tmp_path / "html" / path.relative_to(DOCS).with_suffix(".html")
        assert page.is_file()
    entries = re.search(r'"indexentries":(\{.*?\})', (tmp_path / "html" / "searchindex.js").read_text("utf-8"))
    assert entries is not None
    assert {"model does not call", "docker", "502", "422"} <= set(json.loads(entries[1]))  # numbers are found only so


# --- programs and configurations

RUN = {path.stem: (module, code) for path in PAGES for mark, module, _, code in fences(path) if mark == "run"}


@pytest.mark.client
@pytest.mark.parametrize("page", RUN)
def test_the_program_of_a_client_gets_its_call_and_its_answer(page: str, tmp_path: Path) -> None:
    module, code = RUN[page]
    pytest.importorskip(module)

    def model(body: dict[str, Any]) -> str:
        found = re.search(r"18 degrees in \w+", str(body["messages"]))
        return f"It is {found[0]}." if found else write_calls("json", ("get_weather", {"city": "Paris"}))

    with serve(ToolCallMiddleware(TextBackend(model, strict=True))) as url:
        assert "http://127.0.0.1:8080" in code
        path = tmp_path / "program.py"
        path.write_text(code.replace("http://127.0.0.1:8080", url), "utf-8")
        # A process of its own: what a library leaves behind at its end is not another test's.
        kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        done = subprocess.run(
            [sys.executable, path], env=kept, capture_output=True, text=True, timeout=100, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "It is 18 degrees in Paris.\n"


EXAMPLES = [
    pytest.param(code, id=f"{path.stem}-{number}")
    for path in PAGES
    for number, (mark, _, _, code) in enumerate(fences(path))
    if mark == "example"
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs_and_its_assertions_hold(code: str) -> None:
    assert "assert " in code
    exec(compile(code, "example", "exec"), {})  # noqa: S102 - our own page


BY_HAND = {given: (language, code) for path in PAGES for mark, given, language, code in fences(path) if mark == "agent"}


def test_most_agents_have_their_configuration_written_down() -> None:
    assert set(BY_HAND) == set(AGENTS) - {"cline"}  # whose own command writes it


@pytest.mark.parametrize("agent", BY_HAND)
def test_the_configuration_by_hand_is_what_launch_gives(agent: str, tmp_path: Path) -> None:
    language, code = BY_HAND[agent]
    setup = AGENTS[agent].setup(Place("http://127.0.0.1:8080", "unused", "Qwen/Qwen3-8B", 131_072, tmp_path))
    if language == "sh":
        *lines, start = code.splitlines()
        given = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        assert given.items() <= setup.environment.items()
        assert start.split() == [AGENTS[agent].program, *setup.arguments]
        return
    files = [path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()]
    (written,) = files or [setup.environment["OPENCODE_CONFIG_CONTENT"]]
    read = tomllib.loads if language == "toml" else json.loads
    assert read(code) == read(written)


def test_the_file_of_upstreams_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    path = tmp_path / "upstreams.toml"
    (code,) = [code for _, _, language, code in fences(DOCS / "how-to" / "many-upstreams.md") if language == "toml"]
    path.write_text(code, "utf-8")
    local, claude = read_upstreams(str(path), Settings())
    assert (local.name, claude.name) == ("local", "claude")
    assert claude.settings.upstream_api == "anthropic"


def test_the_recorded_stream_is_what_the_middleware_makes_of_the_recorded_text() -> None:
    named = {mark: code for mark, _, _, code in fences(DOCS / "explanation" / "wire.md") if mark}
    assert "".join(TOKENS) == named["written"].strip()
    backend = TextBackend([Answer("".join(TOKENS), pieces=TOKENS)], strict=True, usage=False)

    async def post() -> httpx.Response:
        transport = httpx.ASGITransport(ToolCallMiddleware(backend))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post("/v1/chat/completions", json=json.loads(named["request"]))

    assert deltas(asyncio.run(post()).text) == deltas(named["received"])
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
