"""One check from its first question to its exit code: what is asked, in which order, and what may be left out."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

from starlette.types import ASGIApp, Message

from ...errors import ToolCallError
from ...formats import registry
from ...hosts.proxy.props import with_template
from ...hosts.proxy.upstream.providers import upstream_app
from ...settings import Settings, hide_login
from ...wire import openai
from .._probe import server_of
from ..command import UsageError, has_colours
from . import advice, basics, constraints, native, table, trials
from .asking import Asker, BudgetSpentError, Meter, TooLargeError
from .findings import Finding, Report, Verdict
from .progress import Step, progress
from .questions import QuestionSet, built_in
from .report.folder import prepare, publish

# The user's own settings that a prompt for calls depends on; limits and policies are not the backend's doing.
_KEPT = ("messages", "system_role", "special_tokens", "drop_params", "template", "send")
_MOST_FAILURES = 3

Question = Callable[[Asker], Awaitable[list[Finding]]]


class CheckError(UsageError):
    """Nothing can be checked: the backend is not there, or is none. The message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to check and how long. `seconds` and `tokens` are limits of the whole check. `api`: in which API calls are
    asked for of the middleware (`chat`, `messages`, `responses`). `questions`: the prompts for calls. `backend`: what
    a published report calls the backend, where it is not to be what it says it is.
    """

    model: str | None = None
    formats: list[str] = field(default_factory=list)
    seconds: float = 300.0
    tokens: int = 20_000
    api: str = "chat"
    questions: QuestionSet = field(default_factory=built_in)
    backend: str | None = None


def run(options: Options, settings: Settings, *, as_json: bool, folder: Path | None = None) -> int:
    """Checks the upstream of `settings`, prints the report, gives the exit code: 0 where calls come out right in some
    way, 1 where in none, 2 where none was tried, for lack of time or tokens or because the backend is gone.

    folder: where a report goes that can be published.
    Raises CheckError where nothing can be checked, SettingsError for an upstream that cannot be, UsageError for a
    folder that cannot be written.
    """
    settings = with_template(settings)
    if folder is not None:
        prepare(folder)
    app = upstream_app(settings, forward_authorization=True)
    url = settings.upstream_url or settings.upstream_api
    # What the proxy would log stands in the report.
    logging.getLogger("toolcall_middleware").addHandler(logging.NullHandler())
    report = asyncio.run(
        _with_lifespan(app, partial(examine, app, hide_login(url), options, settings, _secrets(settings)))
    )
    if as_json:
        print(json.dumps(report.as_json(), indent=2, ensure_ascii=False))
    else:
        text = table.text(report)
        print(table.coloured(text) if has_colours() else text, end="")
    if folder is not None:
        print(f"check: the report is {publish(report, folder)}", file=sys.stderr)
    if report.calls_come_right:
        return 0
    return 1 if report.calls_were_tried else 2


def _secrets(settings: Settings) -> list[str]:
    """What must not be shown, in each form in which a backend could quote it."""
    login = (settings.upstream_url or "").partition("://")[2].partition("/")[0].rpartition("@")[0]
    password = login.partition(":")[2]
    basic = b64encode(unquote_to_bytes(login)).decode()
    return [text for text in (settings.upstream_key, login, basic, password, unquote(password)) if text]


async def examine(
    app: ASGIApp, name: str, options: Options, settings: Settings, secrets: list[str] | None = None
) -> Report:
    """Checks the backend `app` and says what was found. `name` is what it is called, `secrets` what is never shown.

    Raises CheckError where the backend does not answer at all.
    """
    for fmt in options.formats:
        registry.for_model(fmt, "", settings.template)
    meter = Meter(app, seconds=options.seconds, tokens=options.tokens)
    asker = Asker(meter, options.model or "", secrets=secrets or ())
    models, server = await _models(asker, options.model)
    asker.model = options.model or models[0]
    report = Report(name, asker.model, models, options.backend or server or _named(settings.upstream_api), options.api)
    report.source, report.questions = options.questions.source, options.questions.labels
    report.template = settings.template
    kept = Settings(**{option: getattr(settings, option) for option in _KEPT})
    try:
        await _examine(asker, report, options, kept)
    except BudgetSpentError:
        report.complete = False
    except _GoneError as error:
        report.complete = False
        report.findings.append(Finding("gone", "answers, several times in a row", Verdict.NO, str(error)))
    advice.advise(report)
    if settings.choose:
        report.findings.append(advice.choosing(report))
    report.requests, report.tokens, report.seconds = meter.requests, meter.tokens, meter.elapsed
    return report


def _named(api: str) -> str:
    """A backend that does not say what it is, by the API that it speaks."""
    return {"anthropic": "Anthropic's API", "google": "Google's API"}.get(api, "OpenAI-compatible")


async def _models(asker: Asker, wanted: str | None) -> tuple[list[str], str | None]:
    """The models that are listed, and which server lists them."""
    try:
        status, body = await asker.get("/v1/models")
    except (TimeoutError, BudgetSpentError):
        raise CheckError("the upstream is slow: it did not answer to /v1/models in time") from None
    except TooLargeError:
        raise CheckError("the upstream's list of models has no end") from None
    except ToolCallError as broken:
        raise CheckError(asker.hide(table.shown(broken.message))) from None
    if status != 200:
        error = openai.read_error(body, status)
        message = asker.hide(table.shown(error.message))[:300]
        if status in {502, 504} and error.code in {"upstream_error", "upstream_timeout"}:
            raise CheckError(message.rstrip("."))
        if status in {401, 403}:
            raise CheckError(f"the upstream refuses the key (status {status}: {message}); set TOOLCALL_UPSTREAM_KEY")
        if wanted is None:
            raise CheckError(f"the upstream does not list its models (status {status}: {message}); give --model")
        return [], None
    listed = openai.read_value(body)
    models = basics.models_in(listed)
    if not models and wanted is None:
        raise CheckError("the upstream lists no models; give --model, or is /v1 missing in its address?")
    return models, server_of(listed)


class _GoneError(Exception):
    """The backend gave no answer at all, several times in a row."""


async def _examine(asker: Asker, report: Report, options: Options, settings: Settings) -> None:
    answer, findings = await basics.plain(asker)
    if not answer.ok:
        why = table.shown(answer.refusal)
        if answer.late:
            raise CheckError(f"the upstream is {why} to a short question")
        raise CheckError(f"the upstream does not answer chat completions for {report.model!r}: {why}")
    report.findings += [_models_finding(report), *findings]
    if options.api != "chat":
        report.findings.append(Finding("api", "the API in which calls are asked for", Verdict.YES, options.api))
    kinds = constraints.kinds()
    questions: list[tuple[str, Question]] = [("streamed answers", basics.streaming), ("native calls", native.reach)]
    questions += [(what, partial(native.ask, key=key, what=what, fields=fields, must=must))
                  for key, what, fields, must in native.QUESTIONS]  # fmt: skip
    questions += [(what, partial(constraints.ask, key=key, what=what, fields=fields)) for key, what, _, fields in kinds]
    questions.append(("stop strings", basics.stops(answer.text)))
    questions += [(what, partial(basics.history, key=key, what=what, messages=messages))
                  for key, what, messages in basics.HISTORIES]  # fmt: skip
    formats = trials.formats_for(report.model, options.formats, report.template)
    # As many as there can be; what is found to make no sense is left out.
    ways = len(options.questions.choices)
    most = ways + (ways + options.questions.constrained) * len(formats)
    total = len(questions) + len(options.questions.questions) * most
    with progress(total) as step:
        failures = _Failures()
        for what, question in questions:
            step(what)
            found = await question(asker)
            report.findings += found
            failures.count(found)
        await _try(asker, report, settings, formats, step, options)


def _models_finding(report: Report) -> Finding:
    if not report.models:
        return Finding("models", "the list of models", Verdict.NO)
    listed = report.model in report.models
    return Finding("models", "the list of models", Verdict.YES, "" if listed else f"{report.model} is not in it")


class _Failures:
    """A backend that has died must not be asked sixty times."""

    def __init__(self) -> None:
        self._row = 0

    def count(self, found: list[Finding]) -> None:
        dead = [one for one in found if "no answer within" in one.detail or "cannot be reached" in one.detail]
        self._row = self._row + 1 if dead else 0
        if self._row >= _MOST_FAILURES:
            raise _GoneError(dead[0].detail)


async def _try(
    asker: Asker, report: Report, settings: Settings, formats: list[str], step: Step, options: Options
) -> None:
    asked = options.questions
    kinds = {fmt: advice.working_constraint(report, fmt) for fmt in formats}
    role = advice.system_role(report.findings)
    if role is not None:
        settings = settings.replace(system_role=role)
    own = [one for one in report.findings if one.key.startswith("native.")]
    refused = [one for one in own if one.detail.startswith("refused")]
    # Tools that are dropped can bring no call, unless one came all the same: a named one, by force.
    dropped = report.verdict(native.REACH) is Verdict.NO and all(one.verdict is Verdict.NO for one in own)
    ways = list(
        trials.trials(
            asker,
            settings,
            formats,
            api=options.api,
            native=len(refused) < len(native.QUESTIONS) and not dropped,
            constraints=kinds if asked.constrained else {},
            choices=asked.choices,
        )
    )
    report.scores += [way.score for way in ways]
    # In turns: where time runs out, all ways have been asked the same. Every second prompt is streamed.
    for number, question in enumerate(asked.questions):
        for way in ways:
            score = way.score
            step(f"{score.mode} {score.format} {score.tool_choice}")
            await way.ask(asker, question, stream=bool(number % 2))


async def _with_lifespan(app: ASGIApp, work: Callable[[], Awaitable[Report]]) -> Report:
    """Runs `work` while `app` is up, so that it closes its connections."""
    down = asyncio.Event()
    asked: Iterator[str] = iter(("lifespan.startup", "lifespan.shutdown"))

    async def receive() -> Message:
        kind = next(asked)
        if kind == "lifespan.shutdown":
            await down.wait()
        return {"type": kind}

    async def send(message: Message) -> None:
        pass

    living: asyncio.Future[None] = asyncio.ensure_future(
        app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
    )
    try:
        return await work()
    finally:
        down.set()
        await living
