"""The demo's order: the real model where it is installed, then the scripted one, then the sum."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from .checks import Check
from .show import Screen, merged, screen


def run(*, only: str | None = None, plain: bool = False) -> int:
    """Plays the demo and prints it. Returns 0 when all checks came out right, 1 when not, 2 for what cannot run.

    `only`: `scripted` or `local` (the real model). `plain`: no colours and no tables.
    """
    shown = screen(plain=plain)
    checks: list[Check] = []
    if only != "scripted":
        from . import local  # httpx and uvicorn: the scripted part does without

        absent = local.missing()
        if absent is None:
            checks += _real(shown)
        else:
            shown.line(absent)
            if only == "local":
                return 2
    if only != "local":
        checks += _scripted(shown)
    failed = sum(not check.ok for check in checks)
    total = len(checks)
    shown.end(f"{failed} of {total} checks failed" if failed else f"all {total} checks came out right", ok=not failed)
    return 1 if failed else 0


def _real(shown: Screen) -> Iterator[Check]:
    from ...hosts.http.client_library import httpx
    from . import local

    shown.heading(
        f"A real model: {local.MODEL} on llama.cpp, behind the proxy, over HTTP on loopback",
        "It has 135 million parameters and picks the wrong tool half the time; the form is always right, and the form"
        " is what is checked. Temperature 0, fixed seed.",
    )
    start = time.monotonic()
    try:
        for turn in local.converse():
            shown.exchange(f"{turn.title} ({turn.seconds:.1f} s)", turn.wrote, turn.received)
            shown.verdict(merged(turn.checks))
            yield from turn.checks
        checks = [
            Check(ok=True, what="model and proxy started and stopped", why=f"{time.monotonic() - start:.1f} s in all")
        ]
    except (httpx.HTTPError, RuntimeError) as error:
        checks = [Check(ok=False, what="model and proxy ran to the end", why=f"{type(error).__name__}: {error}")]
    shown.verdict(merged(checks))
    yield from checks


def _scripted(shown: Screen) -> Iterator[Check]:
    from .cases import CASES
    from .scripted import play

    shown.heading(
        "A scripted text model, in this process",
        "Its words are known, so everything is checked. It streams three characters at a time, and refuses tools as"
        " text-only servers do. Each case is played streamed and whole; what is shown is the stream.",
    )
    for case in CASES:
        outcome = asyncio.run(play(case))
        shown.exchange(outcome.title, "\n⟲ asked again\n".join(outcome.wrote), outcome.streamed)
        shown.verdict(merged(outcome.checks))
        yield from outcome.checks
