"""Import time of the package over what it imports."""

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
    return table


__all__ = ["measure", "run"]
