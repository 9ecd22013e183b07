"""The rooms of the house: imports point downward only, and the middleware's import stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import toolcall_middleware

PACKAGE = "toolcall_middleware"
ROOT = Path(toolcall_middleware.__file__).parent

# Who stands higher may import who stands lower. Rooms of one floor may not import each other. A room within a room has
# a floor of its own.
FLOORS: list[set[str]] = [
    {"__main__"},
    {"cli"},
    {"cli.check", "cli.demo", "cli.launch", "cli.replay"},
    {"cli.command", "cli._console", "cli._probe", "cli._serving", "cli.faces"},
    {"__init__"},
    {"hosts", "hosts.proxy"},
    {"hosts.proxy.upstream"},
    {"hosts.middleware"},
    {"hosts.http"},
    {"explain"},
    {"rerun", "text_spans"},
    {"exchange"},
    {"upstream"},
    {"response"},
    {"usage", "library"},
    {"request"},
    {"formats"},
    {"formats.template"},
    {"formats.families"},
    {"formats.family"},
    {"formats.syntax"},
    {"formats.prompt"},
    {"formats.base", "formats.markup"},
    {"apis.messages", "apis.google", "apis.responses"},
    {"apis", "usage.tokenizers"},
    {"answer"},
    {"observe"},
    {"wire", "settings"},
    {"parsing.text"},
    {"parsing.calls"},
    {"parsing.values"},
    {"parsing"},
    {"json_schema"},
    {"model", "errors", "installed", "lru_cache", "tool_names", "version"},
]
# Imports that still point upward, to be turned round.
UPWARD: set[str] = set()
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(path for path in ROOT.rglob("*.py"))

# What only the proxy, the command line or the checks of a schema need.
HEAVY = ("httpx", "httpx2", "uvicorn", "jsonschema", "rich", "argparse", "tiktoken", "tokenizers", "jinja2")


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The innermost room of a module of the package; the package itself is the room of its public names."""
    inner = module.split(".")[1:]
    names = (".".join(inner[:depth]) for depth in range(len(inner), 0, -1))
    return next((name for name in names if name in FLOOR), inner[0] if inner else "__init__")


def imports_of(path: Path) -> list[tuple[str, int]]:
    """(module, line) of each import, wherever in the file it stands."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(path, node)
            # `from . import x` names a module, `from .x import y` names one before it.
            names = [f"{base}.{alias.name}" for alias in node.names]
            found += [(name if _is_module(name) else base, node.lineno) for name in names]
    return found


def _base(path: Path, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def _is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _faults(path: Path) -> list[str]:
    own = room_of(module_of(path))
    faults: list[str] = []
    for name, line in imports_of(path):
        if name != PACKAGE and not name.startswith(f"{PACKAGE}."):
            continue
        room = room_of(name)
        if room != own and FLOOR[room] <= FLOOR[own]:
            fault = f"{path.relative_to(ROOT.parent)}:{line}: {own} must not import {room}"
            if f"{module_of(path)} -> {room}" not in UPWARD:
                faults.append(fault)
    return faults


def test_every_file_stands_in_a_room() -> None:
    assert {room_of(module_of(path)) for path in FILES} <= set(FLOOR)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_downward(path: Path) -> None:
    assert _faults(path) == []


def test_an_upward_import_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / PACKAGE
    for room in ("wire", "formats", "response"):
        (root / room).mkdir(parents=True)
        (root / room / "__init__.py").touch()
    (root / "exchange.py").touch()
    (root / "wire" / "sse.py").write_text(
        "from ..formats import base\nfrom .. import exchange\nfrom . import other\n"
        f"def f():\n    import {PACKAGE}.response.stream\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", root)
    assert [fault.rpartition(": ")[2] for fault in _faults(root / "wire" / "sse.py")] == [
        "wire must not import formats",
        "wire must not import exchange",
        "wire must not import response",
    ]


def test_only_hosts_and_commands_know_servers_and_clients() -> None:
    """The only httpx and uvicorn is in hosts; check, demo and cli run them."""
    for path in FILES:
        roots = {name.partition(".")[0] for name, _ in imports_of(path)}
        if room_of(module_of(path)).partition(".")[0] not in {"hosts", "cli"}:
            assert not roots & {"httpx", "httpx2", "uvicorn", "starlette", "asyncio", "anyio"}, path


def test_only_settings_read_the_environment() -> None:
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in FILES
        if any(
            (isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"})
            or (isinstance(node, ast.ImportFrom) and node.module == "os" and node.names[0].name == "environ")
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
        )
    ]
    # The command line writes there, for the worker processes that build the app anew, and hands it to agents.
    assert {reader for reader in readers if not reader.startswith("cli/")} == {"settings/settings.py"}


def test_the_middlewares_import_is_cheap() -> None:
    program = (
        f"import sys, {PACKAGE}\n"
        f"{PACKAGE}.ToolCallMiddleware(lambda scope, receive, send: None)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
