"""The files of examples/proxy: the upstreams load, and what the unit and the container run are commands that exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest

from toolcall_middleware import Settings, cli
from toolcall_middleware.hosts.router import Router
from toolcall_middleware.hosts.upstreams import read_upstreams

FOLDER = Path(__file__).parent.parent.parent / "examples" / "proxy"
VARIABLES = ("OPENAI_API_KEY", "MISTRAL_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, f"key-of-{name}")


async def test_the_upstreams_load_and_serve_what_they_say() -> None:
    router = Router(
        lambda: read_upstreams(str(FOLDER / "upstreams.toml"), Settings()),
        forward_authorization=True,
        max_request_bytes=None,
        max_response_bytes=None,
    )
    serves = {
        "fast": ("local", "Qwen/Qwen2.5-7B-Instruct"),
        "Qwen/Qwen3-4B": ("local", "Qwen/Qwen3-4B"),
        "gpt-5.1": ("openai", "gpt-5.1"),
        "mistral-large": ("mistral", "mistral-large"),
        "claude-sonnet-4-5": ("anthropic", "claude-sonnet-4-5"),
        "google/gemini-3": ("google", "gemini-3"),
        "gemini-3": ("google", "gemini-3"),
    }
    for model, (name, own) in serves.items():
        (upstream,) = [upstream for upstream in router.upstreams if upstream.serves(model)]
        assert (upstream.name, upstream.model_for(model)) == (name, own)
    assert [up.weight for up in router.upstreams if up.serves("gpt-oss-120b")] == [3, 1]
    assert {up.name: up.settings.mode for up in router.upstreams} == {
        "local": "prompt", "big": "auto", "small": "auto", "openai": "native", "mistral": "native",
        "anthropic": "native", "google": "native",
    }  # fmt: skip
    assert router.reload()
    await router.aclose()


def commands() -> list[list[str]]:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(FOLDER / "toolcall-proxy.service")
    (container,) = re.findall(r"^CMD (\[.*\])$", (FOLDER / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    return [shlex.split(unit["Service"]["ExecStart"]), json.loads(container)]


@pytest.mark.parametrize("command", commands(), ids=["systemd", "container"])
def test_what_is_run_is_a_command_that_exists(command: list[str]) -> None:
    assert command[0].rpartition("/")[2] == "toolcall-middleware"
    args, rest = cli._parser().parse_known_args(command[1:])
    assert rest == []
    assert (args.upstreams, args.port, args.timeout_graceful) == ("/etc/toolcall/upstreams.toml", 8080, 60)


def test_the_variables_are_settings_or_keys_that_the_upstreams_want() -> None:
    lines = [line for line in (FOLDER / "proxy.env").read_text("utf-8").splitlines() if line and line[0] != "#"]
    given = dict(line.split("=", 1) for line in lines)
    settings = Settings.from_env({name: value for name, value in given.items() if name.startswith("TOOLCALL_")})
    assert (len(settings.api_keys), settings.access_log) == (2, "json")
    assert {name for name in given if not name.startswith("TOOLCALL_")} == set(VARIABLES)
