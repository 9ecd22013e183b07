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


# --- what is loaded at start

SCRIPT = """
import asyncio, json, logging, sys, threading, time
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.hosts.middleware.start_up import warm

CALL = '```json\\n{{"tool_calls": [{{"name": "add", "arguments": {{}}}}]}}\\n```'
EVENT = {{"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}}
TOOL = {{"type": "function", "function": {{"name": "add", "parameters": {{"type": "object", "properties": {{}}}}}}}}

seen = []
logging.getLogger("toolcall_middleware").setLevel(logging.INFO)
handler = logging.Handler()
handler.emit = lambda record: seen.append(record.getMessage()[:4]) if record.getMessage().startswith("call") else None
logging.getLogger("toolcall_middleware").addHandler(handler)

async def inner(scope, receive, send):
    await receive()
    if scope["type"] == "http":
        headers = [(b"content-type", b"text/event-stream")]
        await send({{"type": "http.response.start", "status": 200, "headers": headers}})
        for delta, reason in (({{"content": CALL}}, None), ({{}}, "stop")):
            choice = {{"index": 0, "delta": delta, "finish_reason": reason}}
            event = b"data: " + json.dumps({{**EVENT, "choices": [choice]}}).encode() + b"\\n\\n"
            await send({{"type": "http.response.body", "body": event, "more_body": True}})
        await send({{"type": "http.response.body", "body": b"data: [DONE]\\n\\n", "more_body": False}})

async def request():
    asked = {{"model": "m", "messages": [{{"role": "user", "content": "x"}}], "tools": [TOOL], "stream": True}}
    async def receive():
        return {{"type": "http.request", "body": json.dumps(asked).encode(), "more_body": False}}
    async def send(message):
        pass
    path = {{"path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions", "query_string": b""}}
    await app({{"type": "http", "method": "POST", "headers": [], **path}}, receive, send)

settings = Settings({settings})
app = ToolCallMiddleware(inner, settings=settings)
assert "jsonschema" not in sys.modules

async def startup():
    async def receive():
        return {{"type": "lifespan.startup"}}
    before = time.process_time()
    await app({{"type": "lifespan", "asgi": {{"version": "3.0"}}}}, receive, None)
    return time.process_time() - before

print(asyncio.run(startup()))
if {warmed}:
    thread = warm(settings)
    assert thread is warm(settings)
    thread.join(30)
    assert not thread.is_alive()
    assert "jsonschema" in sys.modules
    assert "_Unheard" not in {{type(one).__name__ for one in logging.getLogger("toolcall_middleware").filters}}
    answered = not settings.require_descriptions
    before = set(sys.modules)
    asyncio.run(request())
    assert not set(sys.modules) - before, set(sys.modules) - before
    assert seen == (["call"] if answered else [])
    assert ("regex" in sys.modules) == {checked}
else:
    assert threading.active_count() == 1
    assert "jsonschema" not in sys.modules
"""


def run(settings: str, *, warmed: bool = True, checked: bool = False) -> float:
    """How long the start took."""
    script = SCRIPT.format(settings=settings, warmed=warmed, checked=checked)
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert made.returncode == 0, made.stderr
    assert not made.stderr
    return float(made.stdout)


def test_the_start_loads_in_a_thread_all_that_a_request_needs() -> None:
    assert run("") < 1.0


def test_the_checks_of_arguments_too_where_they_are_asked_for() -> None:
    run("validate_arguments='error'", checked=True)


def test_settings_that_refuse_the_request_are_no_matter() -> None:
    run("require_descriptions=True")


def test_an_allowlist_that_warns_says_nothing_of_it() -> None:
    run("allowlist='other', allowlist_mode='warn'")


def test_nothing_is_loaded_where_nothing_is_done() -> None:
    run("mode='off'", warmed=False)


def test_a_settled_process_is_warm_and_its_collector_has_little_to_look_at() -> None:
    script = (
        "import gc\n"
        "from toolcall_middleware import Settings\n"
        "from toolcall_middleware.hosts.middleware.start_up import settle, warm\n"
        "thread = warm(Settings())\n"
        "settle().join()\n"
        "print(thread.is_alive(), gc.get_freeze_count() > 20_000, len(gc.get_objects()) < 5_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


# --- a Starlette with a hole

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from toolcall_middleware import ToolCallMiddleware
for _ in range(2):
    ToolCallMiddleware(lambda scope, receive, send: None)
"""


def told(folder: Path, version: str) -> str:
    """What a process says that has this version installed, as far as it can be known."""
    installed = folder / f"starlette-{version}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: starlette\nVersion: {version}\n", "utf-8")
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr


@pytest.mark.parametrize("version", ["0.36.0", "0.52.1", "1.0.0", "1.0.0rc1"])
def test_a_hole_is_told_once(version: str, tmp_path: Path) -> None:
    said = told(tmp_path, version)
    assert said.count("CVE-2026-48710") == 1
    assert f"Starlette {version} " in said
    assert "1.0.1" in said


@pytest.mark.parametrize("version", ["1.0.1", "1.10.0", "2.0"])
def test_a_sound_one_is_not_told_of(version: str, tmp_path: Path) -> None:
    assert told(tmp_path, version) == ""
