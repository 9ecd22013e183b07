"""The demo's order: the real model where it is installed, then the scripted one, then the sum."""

from __future__ import annotations

import asyncio
import logging

from ...hosts.http.client_library import httpx
from .._console import line
from . import local, scripted
from .cases import CASES, TOOLS
from .checks import Check, Turn, question, received
from .show import Screen

_MOST_LINES = 22
_MOST_ON_THE_PAGE = 4


def run(*, only: str | None = None, verify: bool = False, plain: bool = False) -> int:
    """Plays the demo and prints it. Returns 0 when all checks pass, 1 when not, 2 when the demo cannot run.

    only: `scripted` or `local` (the real model). verify: print every exchange and check, not a page of one
    conversation; checks that fail are always printed. plain: no colours.
    """
    logging.getLogger("toolcall_middleware").addHandler(logging.NullHandler())  # its log lines are not part of the page
    screen = Screen(plain=plain)
    checks: list[Check] = []
    if only != "scripted":
        absent = local.missing()
        if absent is None:
            checks += _real(screen, verify=verify)
        else:
            line(screen.page, absent)  # it holds a command to copy
            if only == "local":
                return 2
    if only != "local":
        checks += _scripted(screen, verify=verify, page=not checks)
    failed = [check for check in checks if not check.ok]
    if not verify:
        screen.checks(failed)
    more = "" if verify else " (--verify shows them)"
    total = f"{len(failed)} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks came out right"
    screen.end(total + more, ok=not failed)
    return 1 if failed else 0


def _real(screen: Screen, *, verify: bool) -> list[Check]:
    screen.heading(
        f"A real model: {local.MODEL} on llama.cpp, behind the proxy, over HTTP on loopback",
        "135 million parameters, which pick the wrong tool half the time; the form is what is checked. Temperature 0.",
    )
    checks: list[Check] = []
    rows: list[tuple[str, str]] = []
    try:
        for turn in local.converse():
            checks += turn.checks
            rows += turn.rows
            if verify:
                _verify(screen, turn)
        checks.append(Check(ok=True, what="model and proxy started and stopped"))
    except (httpx.HTTPError, RuntimeError) as error:
        checks.append(Check(ok=False, what="model and proxy ran to the end", why=f"{type(error).__name__}: {error}"))
    if not verify and rows:
        screen.rows(rows, most=_MOST_ON_THE_PAGE)
    return checks


def _scripted(screen: Screen, *, verify: bool, page: bool) -> list[Check]:
    screen.heading(
        "A scripted text model, in this process",
        f"Its words are known, so every byte is checked. {len(CASES)} answers, each streamed three characters at a time"
        " and whole: prose, parallel calls, broken JSON, examples that are no calls, on all three APIs.",
    )
    checks: list[Check] = []
    for number, case in enumerate(CASES):
        turn = asyncio.run(scripted.play(case))
        checks += turn.checks
        if verify:
            _verify(screen, turn)
        elif page and number == 0:
            asked, alone = str(case.messages[-1]["content"]), asyncio.run(scripted.alone(case))
            screen.rows([*question(asked, TOOLS, alone), *received(turn)], most=_MOST_ON_THE_PAGE)
    return checks


def _verify(screen: Screen, turn: Turn) -> None:
    screen.heading(turn.title)
    screen.rows(received(turn), most=_MOST_LINES)
    screen.checks(turn.checks)
