"""What is random, made the same in each run."""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Iterator

_RANDOM = random.Random(0)


@contextlib.contextmanager
def seeded_secrets() -> Iterator[None]:
    """Inside, `secrets` starts from the same seed."""
    _RANDOM.seed(1)
    yield


def patch_secrets() -> None:
    """From here on `secrets` is no secret. To be called before the package is imported."""
    secrets.token_bytes = lambda nbytes=None: _RANDOM.randbytes(nbytes or 32)
    secrets.token_hex = lambda nbytes=None: _RANDOM.randbytes(nbytes or 32).hex()
    secrets.choice = _RANDOM.choice
    secrets.randbelow = _RANDOM.randrange
