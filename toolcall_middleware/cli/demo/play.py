"""The demo's order: the real model where it is installed, then the scripted one, then the sum."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ..faces.answers import Received
from .checks import Check, show_call
from .show import Screen, merged, received_lines

Rows = list[tuple[str, str]]


def run(*, only: str | None = None, verify: bool = False, plain: bool = False) -> int:
    """Plays the demo and prints it. Returns 0 when all checks came out right, 1 when not, 2 for what cannot run.

    only: `scripted` or `local` (the real model). verify: print every exchange and check, not a page of one
    conversation; checks that fail are always printed. plain: no colours.
    """
    logging.getLogger("toolcall_middleware").addHandler(logging.NullHandler())  # what it learns is not the page's
    shown = Screen(plain=plain)
    checks: list[Check] = []
    if only != "scripted":
        from . import local  # httpx and uvicorn: the scripted part does without

        absent = local.missing()
        if absent is None:
            checks += _real(shown, verify=verify)
        else:
            shown.line(absent)
            if only == "local":
                return 2
    if only != "local":
        checks += _scripted(shown, verify=verify, page=not checks)
    failed = [check for check in checks if not check.ok]
    if not verify:
        shown.verdict(merged(failed))
    more = "" if verify else " (--verify shows them)"
    total = f"{len(failed)} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks came out right"
    shown.end(total + more, ok=not failed)
    return 1 if failed else 0


def _real(shown: Screen, *, verify: bool) -> list[Check]:
    from ...hosts.http.client_library import httpx
    from . import local

    shown.heading(
        f"A real model: {local.MODEL} on llama.cpp, behind the proxy, over HTTP on loopback",
        "135 million parameters, which pick the wrong tool half the time; the form is what is checked. Temperature 0.",
    )
    checks: list[Check] = []
    turns: list[local.Turn] = []
    try:
        for turn in local.converse():
            turns.append(turn)
            checks += turn.checks
            if verify:
                shown.exchange(f"{turn.title} ({turn.seconds:.1f} s)", turn.wrote, turn.received)
                shown.verdict(merged(turn.checks))
        checks.append(Check(ok=True, what="model and proxy started and stopped"))
    except (httpx.HTTPError, RuntimeError) as error:
        checks.append(Check(ok=False, what="model and proxy ran to the end", why=f"{type(error).__name__}: {error}"))
    if not verify and turns:
        rows = _page(turns[0].asked, turns[0].tools, turns[0].alone, [turns[0].wrote], turns[0].received)
        if turns[-1].result:
            rows += [("its result", turns[-1].result), ("the final answer", str(turns[-1].received.content))]
        shown.page(rows)
    return checks


def _scripted(shown: Screen, *, verify: bool, page: bool) -> list[Check]:
    from .cases import CASES
    from .scripted import alone, play

    shown.heading(
        "A scripted text model, in this process",
        f"Its words are known, so every byte is checked. {len(CASES)} answers, each streamed three characters at a time"
        " and whole: prose, parallel calls, broken JSON, examples that are no calls, on all three APIs.",
    )
    checks: list[Check] = []
    for number, case in enumerate(CASES):
        outcome = asyncio.run(play(case))
        checks += outcome.checks
        if verify:
            shown.exchange(outcome.title, "\n⟲ asked again\n".join(outcome.wrote), outcome.streamed)
            shown.verdict(merged(outcome.checks))
        elif page and number == 0:
            asked = str(case.messages[-1]["content"])
            shown.page(_page(asked, case.tools, asyncio.run(alone(case)), outcome.wrote, outcome.streamed))
    return checks


def _page(asked: str, tools: Iterable[dict[str, object]], alone: str, wrote: Iterable[str], received: Received) -> Rows:
    functions = [tool["function"] for tool in tools]
    offered = ", ".join(
        f"{function['name']}({', '.join(function['parameters']['properties'])})"
        for function in functions
        if isinstance(function, dict)
    )
    calls = [f"{show_call(call.name, call.decoded())}, id {call.id}" for call in received.calls]
    got = [*calls, f"finish_reason {received.finish_reason}"] if calls else received_lines(received)
    return [
        ("the user asks", asked),
        ("the tools", offered),
        ("the backend alone", alone),
        ("the model wrote", "\n".join(wrote)),
        ("the client gets", "\n".join(got)),
    ]
