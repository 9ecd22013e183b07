"""Random exchanges guided by coverage: atheris (libFuzzer for Python) throws the dice of tests/bench/fuzz.py.

Only the package itself is instrumented, so that it looks for new ways through parsers and stages and not through the
checks. It goes on after a failure; each is told once, by the place that raised it.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .fuzzed.dice import Dice, FromBytes
from .fuzzed.told import describe

_LONGEST = 320  # bytes; an exchange takes fewer than that many choices
_FIRST = 400  # inputs to begin with: an empty corpus only grows by a byte a time


def guided(one: Callable[[Dice], str], seconds: int) -> int:
    """Run `one` for so long. It ends the process itself (libFuzzer does): status 1 when something failed."""
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    print(f"{_instrument(atheris)} functions are watched", flush=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number in range(_FIRST):
            Path(corpus, str(number)).write_bytes(random.Random(number).randbytes(60 + number % 200))
        # A failure is told and not raised, for libFuzzer would end with it.
        search = _Search(one, time.monotonic() + seconds, corpus)
        atheris.Setup(
            [sys.argv[0], f"-max_len={_LONGEST}", "-len_control=0", "-verbosity=0", "-timeout=60", corpus], search
        )
        atheris.Fuzz()
    return 0


def _instrument(atheris: Any) -> int:
    functions = [
        value
        for value in gc.get_objects()
        if isinstance(value, types.FunctionType) and (value.__module__ or "").startswith("toolcall_middleware")
    ]
    for function in functions:
        atheris.instrument_func(function)
    return len(functions)


class _Search:
    def __init__(self, one: Callable[[Dice], str], until: float, corpus: str) -> None:
        self._corpus = corpus
        self._one = one
        self._until = until
        self._done = 0
        self._found: set[str] = set()

    def __call__(self, data: bytes) -> None:
        try:
            self._one(FromBytes(data))
        except Exception as error:  # noqa: BLE001 - whatever is raised is a finding
            what = describe(error)
            place = what.partition("\n")[0][:120]
            if place not in self._found:
                self._found.add(place)
                print(f"--bytes {data.hex()}: {what}", flush=True)
        self._done += 1
        if time.monotonic() > self._until:
            print(f"{self._done} exchanges, {len(self._found)} failures of different kinds", flush=True)
            shutil.rmtree(self._corpus)  # nothing after this line is run
            os._exit(1 if self._found else 0)
