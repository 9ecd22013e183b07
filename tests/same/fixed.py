"""What is random, or of the world around, made the same in each run."""

from __future__ import annotations

import contextlib
import random
import secrets
import sys
import time
from collections.abc import Iterator

from .library import httpx

_RANDOM = random.Random(0)


@contextlib.contextmanager
def seeded_secrets() -> Iterator[None]:
    """Inside, `secrets` starts from the same seed."""
    _RANDOM.seed(1)
    yield


def fix() -> None:
    """From here on nothing is random, no time passes on the calendar, and nothing is connected to.

    To be called before the package is imported, which may take these names for itself.
    """
    secrets.token_bytes = lambda nbytes=None: _RANDOM.randbytes(nbytes or 32)
    secrets.token_hex = lambda nbytes=None: _RANDOM.randbytes(nbytes or 32).hex()
    secrets.choice = _RANDOM.choice
    secrets.randbelow = lambda exclusive_upper_bound: int(_RANDOM.random() * exclusive_upper_bound)
    time.time = lambda: 1_795_000_000.0
    from .proxied import ScriptedTransport

    httpx.AsyncHTTPTransport = ScriptedTransport  # type: ignore[assignment,misc]
    # A tree whose own client needs this parser asks by httpx without it.
    sys.modules["httptools"] = None  # type: ignore[assignment]
