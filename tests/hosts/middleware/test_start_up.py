"""A wrong setting in an app: the server does not start, and says why; a type checker sees it before."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from toolcall_middleware import FormatError, SettingsError, ToolCallMiddleware

ROOT = Path(__file__).parents[3]


def lifespan(app: Any) -> list[dict[str, Any]]:
    """What an app answers to a server that starts it."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send))
    return sent


@pytest.mark.parametrize(("options", "said"), [({"retries": -1}, "retries: -1"), ({"format": "nix"}, "nix")])
def test_a_wrong_setting_fails_the_start_up_of_an_app(options: dict[str, Any], said: str) -> None:
    app = Starlette()
    app.add_middleware(ToolCallMiddleware, **options)
    [answer] = lifespan(app)
    assert answer["type"] == "lifespan.startup.failed"
    assert said in answer["message"]


async def _asked(app: Any) -> None:
    async def nothing(*_: Any) -> Any:
        return {"type": "http.request"}

    await app({"type": "http", "method": "GET", "path": "/", "headers": []}, nothing, nothing)


async def test_a_request_to_such_an_app_raises_what_is_wrong() -> None:
    made = ToolCallMiddleware(Starlette(), retries=-1)
    with pytest.raises(SettingsError, match="retries"):
        await _asked(made)


def test_where_no_server_runs_it_is_raised_at_once() -> None:
    with pytest.raises(SettingsError, match="retries"):
        ToolCallMiddleware(Starlette(), retries=-1)
    with pytest.raises(FormatError):
        ToolCallMiddleware(Starlette(), format="nix")


def test_a_server_exits_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from starlette.applications import Starlette\n"
        "from toolcall_middleware import ToolCallMiddleware\n"
        "app = Starlette()\n"
        "app.add_middleware(ToolCallMiddleware)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "uvicorn", "wrong:app", "--port", "0", "--app-dir", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TOOLCALL_RETRIES": "many"},
        capture_output=True, timeout=60, check=False, text=True,
    )  # fmt: skip
    assert ended.returncode != 0
    assert "TOOLCALL_RETRIES: 'many' is not allowed" in ended.stderr


def test_a_type_checker_sees_a_wrong_name_and_a_wrong_type(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "typed.py").write_text(
        "from starlette.applications import Starlette\n"
        "from toolcall_middleware import ToolCallMiddleware\n"
        "app = Starlette()\n"
        "app.add_middleware(ToolCallMiddleware, mode='auto', retries=2)\n"
        "ToolCallMiddleware(app, retires=2)\n"
        "ToolCallMiddleware(app, retries=[])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--config-file", "", str(tmp_path / "typed.py")],
        env={**os.environ, "MYPYPATH": str(ROOT)}, cwd=tmp_path,
        capture_output=True, timeout=300, check=False, text=True,
    )  # fmt: skip
    told = [line for line in ran.stdout.splitlines() if "typed.py" in line]
    assert [line.split(":")[1] for line in told if " error: " in line] == ["5", "6"], ran.stdout
    assert "retires" in told[0]
