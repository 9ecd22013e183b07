"""The first request with tools finds loaded what it needs, and importing or making the middleware has not loaded it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio, sys, threading, time
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.hosts.middleware.warmup import warm

async def inner(scope, receive, send):
    await receive()

settings = Settings({settings})
app = ToolCallMiddleware(inner, settings=settings)
assert "jsonschema" not in sys.modules

async def startup():
    async def receive():
        return {{"type": "lifespan.startup"}}
    before = time.perf_counter()
    await app({{"type": "lifespan", "asgi": {{"version": "3.0"}}}}, receive, None)
    return time.perf_counter() - before

print(asyncio.run(startup()))
if {warmed}:
    thread = warm(settings)
    assert thread is warm(settings)
    thread.join(30)
    assert not thread.is_alive()
    assert "jsonschema" in sys.modules
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


def test_the_start_loads_it_in_a_thread() -> None:
    assert run("") < 1.0


def test_the_checks_of_arguments_too_where_they_are_asked_for() -> None:
    run("validate_arguments='error'", checked=True)


def test_settings_that_refuse_the_request_are_no_matter() -> None:
    run("require_descriptions=True")


def test_an_allowlist_that_warns_says_nothing_of_it() -> None:
    run("allowlist='other', allowlist_mode='warn'")


def test_nothing_is_loaded_where_nothing_is_done() -> None:
    run("mode='off'", warmed=False)
