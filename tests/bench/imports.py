"""Import time of the package over what it imports, and what the plug-in adds to the start of a server like vLLM's."""

from __future__ import annotations

import subprocess
import sys

from . import measure
from .report import Table

_LIST = """
import sys
before = set(sys.modules)
import toolcall_middleware
toolcall_middleware.ToolCallMiddleware
print(*[name for name in sys.modules if name not in before and not name.startswith("toolcall_middleware")])
"""
_TIME = """
import sys, time
begin = time.perf_counter()
for name in sys.argv[1:]:
    try:
        __import__(name)
    except ImportError:
        pass
middle = time.perf_counter()
import toolcall_middleware
toolcall_middleware.ToolCallMiddleware
print(middle - begin, time.perf_counter() - middle)
"""
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


def _python(code: str, *arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.split()


def run(*, smoke: bool) -> Table:
    needed = _python(_LIST)

    def once() -> tuple[float, float]:
        others, own = map(float, _python(_TIME, *needed))
        return others, own

    times = [once() for _ in range(1 if smoke else 15)]
    others, own = min(time[0] for time in times), min(time[1] for time in times)
    table = Table("Import", ("ms", "x its dependencies"))
    third = sorted({name.partition(".")[0] for name in needed} - set(sys.stdlib_module_names))
    table.add(f"what it imports ({', '.join(third)} and the standard library)", f"{others * 1e3:.1f}")
    table.add("toolcall_middleware itself", f"{own * 1e3:.1f}", f"{own / others:.2f}")
    starts = [tuple(map(float, _python(_START, *_OF_VLLM.split()))) for _ in range(1 if smoke else 15)]
    made, warm, cpu = (min(times) for times in zip(*starts, strict=True))
    table.add("in a server that has vLLM's imports: import and middleware", f"{made * 1e3:.1f}", "", "<= 300")
    table.add(
        "... and what is warmed beside the start, in a thread", f"{warm * 1e3:.1f}", f"(CPU {cpu * 1e3:.0f})", "<= 300"
    )
    return table


__all__ = ["measure", "run"]
