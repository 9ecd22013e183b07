"""The first request with tools finds loaded what it needs, and importing or making the middleware has not loaded it."""

from __future__ import annotations

import subprocess
import sys

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
