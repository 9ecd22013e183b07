"""What the plug-in adds to the start of a server like vLLM's: import, middleware, and what is warmed beside it."""

from __future__ import annotations

import subprocess
import sys

from .report import Table

# What vLLM's server has loaded by itself when it loads its middleware, as far as it is installed here.
_OF_VLLM = (
    "asyncio openai pydantic starlette.applications starlette.requests msgspec httpx uvicorn jsonschema regex jinja2"
)
_START = """
import asyncio, sys, threading, time
for name in sys.argv[1:]:
    try:
        __import__(name)
    except ImportError:
        pass
from starlette.applications import Starlette
begin = time.perf_counter(), time.process_time()
import toolcall_middleware
app = toolcall_middleware.ToolCallMiddleware(Starlette())
made = time.perf_counter()

async def start():
    left = asyncio.Queue()
    left.put_nowait({"type": "lifespan.startup"})
    started = asyncio.Event()
    async def send(message):
        started.set()
    running = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, left.get, send))
    await started.wait()
    left.put_nowait({"type": "lifespan.shutdown"})
    await running

asyncio.run(start())
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
print(made - begin[0], time.perf_counter() - begin[0], time.process_time() - begin[1])
"""


def run(*, smoke: bool) -> Table:
    """The smallest of 15 starts of an interpreter."""
    command = [sys.executable, "-c", _START, *_OF_VLLM.split()]
    said = (subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(1 if smoke else 15))
    made, warm, cpu = (
        min(times) * 1e3 for times in zip(*(map(float, one.stdout.split()) for one in said), strict=True)
    )
    table = Table("Start of a server that has vLLM's imports", ("ms", ""))
    table.add("import and middleware", f"{made:.1f}", "", "<= 300")
    table.add("... and what is warmed beside the start, in a thread", f"{warm:.1f}", f"(CPU {cpu:.0f})", "<= 300")
    return table
