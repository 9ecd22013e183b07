"""The files of examples/proxy: the upstreams load, and what the unit and the container run are commands that exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from toolcall_middleware import Settings
from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.hosts.proxy.router import Router

FOLDER = Path(__file__).parent.parent.parent.parent / "examples" / "proxy"
VARIABLES = ("OPENAI_API_KEY", "MISTRAL_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, f"key-of-{name}")


async def test_the_upstreams_load_and_serve_what_they_say() -> None:
    router = Router(Settings(upstreams_file=str(FOLDER / "upstreams.toml")))
    configs = [upstream.config for upstream in router.apps()]
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
        (upstream,) = [upstream for upstream in configs if upstream.serves(model)]
        assert (upstream.name, upstream.model_for(model)) == (name, own)
    assert [up.weight for up in configs if up.serves("gpt-oss-120b")] == [3, 1]
    assert {up.name: up.settings.mode for up in configs} == {
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
    args, rest = cli.build_parser().parse_known_args(command[1:])
    assert rest == []
    assert (args.upstreams_file, args.port, args.shutdown_grace) == ("/etc/toolcall/upstreams.toml", 8080, 60)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "toolcall-middleware"
    program.touch(mode=0o755)  # it has to be there
    text = (FOLDER / "toolcall-proxy.service").read_text("utf-8")
    unit = tmp_path / "toolcall-proxy.service"
    unit.write_text(text.replace("/opt/toolcall/bin/toolcall-middleware", str(program)), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    # It reads other units of the machine, too, and has its opinion of them.
    assert [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line] == []


def test_what_the_container_copies_is_all_that_its_installation_needs(tmp_path: Path) -> None:
    root = FOLDER.parent.parent
    for line in re.findall(r"^COPY (.+) \S+$", (FOLDER / "Dockerfile").read_text("utf-8"), re.MULTILINE):
        for name in line.split():
            if (root / name).is_dir():
                shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(root / name, tmp_path)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        modules = {name for name in archive.namelist() if name.endswith(".py")}
    package = root / "toolcall_middleware"
    assert modules == {str(path.relative_to(root)) for path in package.rglob("*.py")}


def test_the_variables_are_settings_or_keys_that_the_upstreams_want() -> None:
    lines = [line for line in (FOLDER / "proxy.env").read_text("utf-8").splitlines() if line and line[0] != "#"]
    given = dict(line.split("=", 1) for line in lines)
    settings = Settings.from_env({name: value for name, value in given.items() if name.startswith("TOOLCALL_")})
    assert (len(settings.api_keys), settings.access_log) == (2, "json")
    assert {name for name in given if not name.startswith("TOOLCALL_")} == set(VARIABLES)


def test_the_manifest_fits_the_schemas_of_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text("utf-8")))
    assert [document["kind"] for document in documents] == ["Deployment", "Service", "PodDisruptionBudget"]
    for document in documents:
        validate.validate(document, "1.34", strict=True)


def test_the_manifest_runs_a_command_that_exists_and_leaves_it_time() -> None:
    text = (FOLDER / "kubernetes.yaml").read_text("utf-8")
    (line,) = re.findall(r"^ +args: \[(.*)\]$", text, re.MULTILINE)
    words = [word.strip().strip('"') for word in line.split(",")]
    args, rest = cli.build_parser().parse_known_args(words[1:])
    assert (words[0], rest, args.upstreams_file) == ("toolcall-middleware", [], "/etc/toolcall/upstreams.toml")
    (grace,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", text)
    (before,) = re.findall(r'command: \[sleep, "(\d+)"\]', text)
    assert int(grace) > args.shutdown_grace + int(before)


def test_the_container_has_the_extras_that_its_tenants_need_and_is_not_root() -> None:
    text = (FOLDER / "Dockerfile").read_text("utf-8")
    assert "rate_limit" in (FOLDER / "tenants.toml").read_text("utf-8")
    assert "'.[limits,metrics,redis]'" in text
    assert re.search(r"^USER [1-9]\d*", text, re.MULTILINE)


def test_no_request_is_sent_to_a_proxy_that_has_no_upstream() -> None:
    text = (FOLDER / "kubernetes.yaml").read_text("utf-8")
    assert re.search(r"readinessProbe:\n\s+httpGet: \{path: /readyz, port: http\}", text)


def test_the_compose_file_starts_the_proxy_and_what_shows_its_metrics() -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))["services"]
    assert set(services) == {"proxy", "prometheus", "grafana"}
    words = services["proxy"]["command"]
    args, rest = cli.build_parser().parse_known_args(words[1:])
    assert (words[0], rest, args.upstreams_file) == ("toolcall-middleware", [], "/etc/toolcall/upstreams.toml")
    given = services["proxy"]["environment"]
    settings = Settings.from_env(given)
    assert settings.metrics == "on"
    # Every file that a service is given is there, and nothing listens beyond this machine.
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (FOLDER / source).exists(), source
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    scraped = yaml.safe_load((FOLDER / "prometheus.yaml").read_text("utf-8"))["scrape_configs"]
    assert scraped[0]["static_configs"][0]["targets"] == ["proxy:8080"]
    sources = yaml.safe_load((FOLDER.parent / "grafana" / "datasource.yaml").read_text("utf-8"))["datasources"]
    assert sources[0]["url"] == "http://prometheus:9090"
