"""Plays the demo: the real model where it is installed, then the scripted one, each through the proxy, over HTTP.

httpx ──> uvicorn: ToolCallMiddleware(Tap(Forwarder)) ──> llama.cpp's server, or the scripted model
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...hosts.http.client_library import httpx
from ...hosts.middleware.asgi import ToolCallMiddleware
from ...hosts.proxy.upstream.forwarder import Forwarder
from ...settings import Settings
from ...wire.chat_answer import ChatAnswer
from .._console import line
from .._serving import serving
from ..faces.answers import Received, read_answer, summary_of
from ..faces.requests import HEADERS, PATHS, request_body
from . import local
from .cases import CASES, NAMED, REQUIRED, Case, final
from .checks import Check, Turn, agreement_check, checks_of, received
from .scripted import ScriptedModel
from .show import Screen

_SECONDS = 10
"""An exchange with a model that waits for nothing takes milliseconds; a longer one hangs."""
_SECONDS_REAL = 120
"""Two slow cores need about three for one answer."""
_MOST_LINES = 22
_MOST_ON_THE_PAGE = 4


class Tap:
    """Between the middleware and the model: keeps the answers as the model wrote them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.answers: list[bytearray] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = bytearray()

        async def tapped(message: Message) -> None:
            answer.extend(message.get("body", b""))
            await send(message)

        if scope["type"] == "http":
            self.answers.append(answer)
        await self._app(scope, receive, tapped)

    def texts(self) -> list[str]:
        """What the model wrote, one text for each time that it was asked."""
        return [ChatAnswer.of(bytes(answer)).choice(0).text for answer in self.answers]


@dataclass(frozen=True, slots=True)
class Session:
    """A client of one proxy. model: the scripted one, which gets its script before each exchange."""

    client: httpx.Client
    tap: Tap
    upstream: str
    model: ScriptedModel | None = None

    def play(self, case: Case) -> Turn:
        """Plays a case streamed and whole, and checks both answers."""
        checks: list[Check] = []
        streamed, wrote = self._ask(case, checks, streamed=True)
        whole, wrote_whole = self._ask(case, checks, streamed=False)
        if self.model is not None:
            checks.append(agreement_check(streamed, whole))
        elif wrote_whole.startswith(wrote):
            # A stream is stopped after its one call; then the model wrote less, and only the usage may differ.
            checks.append(agreement_check(replace(streamed, usage=None), replace(whole, usage=None)))
        return Turn(case.title, wrote, streamed, checks)

    def _ask(self, case: Case, checks: list[Check], *, streamed: bool) -> tuple[Received, str]:
        """The answer, and what the model wrote for it. Adds the checks."""
        self._begin(case)
        body = case.body | ({"stream": True, "stream_options": {"include_usage": True}} if streamed else {})
        response = self.client.post(PATHS[case.api], json=request_body(case.api, body), headers=HEADERS[case.api])
        answer = read_answer(
            case.api,
            response.content,
            status=response.status_code,
            streamed=streamed,
            content_type=response.headers.get("content-type", ""),
        )
        texts = self.tap.texts()
        requests = self.model.requests if self.model is not None else ()
        checks += checks_of(case, answer, texts[-1] if texts else "", requests)
        return answer, "\n⟲ asked again\n".join(texts)

    def alone(self, case: Case) -> str:
        """What the backend makes of the same request without the proxy: its words, its calls or its error."""
        self._begin(case)
        answer = self.client.post(f"{self.upstream}/chat/completions", json=case.body)
        return summary_of(answer.status_code, answer.content)

    def _begin(self, case: Case) -> None:
        self.tap.answers = []
        if self.model is not None:
            self.model.texts, self.model.requests = list(case.texts), []


@contextlib.contextmanager
def session(
    upstream: str, settings: Settings, model: ScriptedModel | None = None, *, seconds: float | None = None
) -> Iterator[Session]:
    """The proxy in front of the server at `upstream` (`/v1` included), and a client of it.

    seconds: the longest wait for an answer.
    """
    seconds = seconds or _SECONDS
    tap = Tap(Forwarder(upstream, Settings(upstream_timeout=seconds, upstream_retries=0)))
    # trust_env is off: a proxy from the environment must not come between two ends of loopback.
    with (
        serving(ToolCallMiddleware(tap, settings=settings), log_level="critical") as address,
        httpx.Client(base_url=address, timeout=seconds, trust_env=False) as client,
    ):
        yield Session(client, tap, upstream, model)


def real() -> Iterator[Turn]:
    """The conversation with the real model. Call only where `local.missing()` is None."""
    path = local.weights()
    if path is None:
        raise FileNotFoundError(local.WEIGHTS)
    with local.llama_server(path) as upstream, session(upstream, Settings(), seconds=_SECONDS_REAL) as asked:
        yield from converse(asked)


def converse(asked: Session) -> Iterator[Turn]:
    """A call that must come (of any tool, then of a named one), its result, the final answer."""
    turn = asked.play(REQUIRED)
    yield replace(turn, rows=[*REQUIRED.rows(asked.alone(REQUIRED)), *received(turn)])
    yield asked.play(NAMED)
    if turn.received.calls:
        last = final(turn.received)
        answer = asked.play(last)
        rows = [("its result", str(last.messages[-1]["content"])), ("the final answer", str(answer.received.content))]
        yield replace(answer, rows=rows)


def scripted() -> Iterator[Turn]:
    """All cases with the scripted model."""
    # Settings(), not from_env(): the demo must not depend on the variables of the machine that it runs on.
    model = ScriptedModel()
    with serving(model, log_level="critical") as upstream:
        for fmt, cases in itertools.groupby(CASES, key=lambda case: case.format):
            with session(f"{upstream}/v1", Settings(format=fmt, faces=tuple(PATHS)), model) as asked:
                for case in cases:
                    turn = asked.play(case)
                    rows = [*case.rows(asked.alone(case)), *received(turn)] if case is CASES[0] else ()
                    yield replace(turn, rows=rows)


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
            screen.heading(
                f"A real model: {local.MODEL} on llama.cpp, through the proxy, over HTTP on loopback",
                "135 million parameters, which pick the wrong tool half the time; the form is what is checked."
                " Temperature 0.",
            )
            checks += _show(screen, real(), verify=verify, page=True)
        else:
            line(screen.page, absent)  # it holds a command to copy
            if only == "local":
                return 2
    if only != "local":
        screen.heading(
            "A scripted text model, through the proxy",
            f"Its words are known, so every byte is checked. {len(CASES)} answers, each streamed three characters at a"
            " time and whole: prose, parallel calls, broken JSON, examples that are no calls, on all three APIs.",
        )
        checks += _show(screen, scripted(), verify=verify, page=not checks)
    failed = [check for check in checks if not check.ok]
    if not verify:
        screen.checks(failed)
    more = "" if verify else " (--verify shows them)"
    total = f"{len(failed)} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks came out right"
    screen.end(total + more, ok=not failed)
    return 1 if failed else 0


def _show(screen: Screen, turns: Iterable[Turn], *, verify: bool, page: bool) -> list[Check]:
    """Plays one part and prints it: all of it (verify), or the rows that are for the page. Returns its checks."""
    checks: list[Check] = []
    rows: list[tuple[str, str]] = []
    try:
        for turn in turns:
            checks += turn.checks
            rows += turn.rows
            if verify:
                screen.heading(turn.title)
                screen.rows(received(turn), most=_MOST_LINES)
                screen.checks(turn.checks)
        checks.append(Check(ok=True, what="model and proxy started and stopped"))
    except (httpx.HTTPError, RuntimeError) as error:
        checks.append(Check(ok=False, what="model and proxy ran to the end", why=f"{type(error).__name__}: {error}"))
    if page and rows and not verify:
        screen.rows(rows, most=_MOST_ON_THE_PAGE)
    return checks
