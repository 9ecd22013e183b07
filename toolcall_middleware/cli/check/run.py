"""One check from its first question to its exit code: the questions, their order, and which may be skipped."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import logging
import shutil
import sys
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

import msgspec
from starlette.types import ASGIApp, Message

from ... import __version__
from ...errors import ToolCallError
from ...formats import registry
from ...hosts.http.answer import TooLongError, no_client
from ...hosts.proxy.upstream.providers import upstream_app
from ...hosts.proxy.upstreams_file import with_template
from ...settings import Settings, hide_login
from ...wire import openai
from .._probe import models_in, server_of
from ..command import UsageError, shown
from . import advice, probes, table
from . import report as published
from .asking import Asker, BudgetSpentError
from .findings import Finding, Report, Score, Verdict
from .trials import QuestionSet, Trial, built_in, formats_for, ways

# The user's own settings that a prompt for calls depends on; limits and policies are not the backend's doing.
_KEPT = ("messages", "system_role", "special_tokens", "drop_params", "template", "send")
_MOST_FAILURES = 3
_EVERY = 5.0  # seconds between plain lines of progress
_SURE = 3  # steps before an estimate


class CheckError(UsageError):
    """The server cannot be reached, or is not a backend. The message gives the reason in one line."""


class _GoneError(Exception):
    """The backend gave no answer at all, several times in a row."""


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
        published.prepare(folder)
    app = upstream_app(settings, forward_authorization=True)
    url = hide_login(settings.upstream_url or settings.upstream_api)
    # What the proxy would log is in the report.
    logging.getLogger("toolcall_middleware").addHandler(logging.NullHandler())

    async def over() -> Message:
        return {"type": "lifespan.shutdown"}

    async def check() -> Report:
        try:
            return await examine(app, url, options, settings, _secrets(settings))
        finally:  # it closes its connections
            await app({"type": "lifespan", "asgi": {"version": "3.0"}}, over, no_client)

    report = asyncio.run(check())
    if as_json:
        print(json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False))
    else:
        table.show(report)
    if folder is not None:
        print(f"check: the report is {published.publish(report, folder)}", file=sys.stderr)
    if any(score.came for score in report.calls):
        return 0
    return 1 if any(score.asked for score in report.calls) else 2


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
    asker = Asker(app, options.model or "", seconds=options.seconds, tokens=options.tokens, secrets=secrets or ())
    models, server = await _models(asker, options.model)
    asker.model = options.model or models[0]
    # A backend that does not identify itself is named by its API.
    named = {"anthropic": "Anthropic's API", "google": "Google's API"}.get(settings.upstream_api, "OpenAI-compatible")
    report = Report(
        version=__version__,
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        upstream=name,
        model=asker.model,
        models=models,
        backend=options.backend or server or named,
        api=options.api,
        questions=options.questions.published,
        template=settings.template,
    )
    kept = Settings(**{option: getattr(settings, option) for option in _KEPT})
    try:
        await _examine(asker, report, options, kept)
    except BudgetSpentError:
        report.complete = False
    except _GoneError as error:
        report.complete = False
        report.findings.append(Finding("gone", "answers, several times in a row", Verdict.NO, str(error)))
    advice.advise(report)
    if settings.choose and advice.working_constraint(report, "json") is None:
        nothing = "the backend constrains nothing: unset TOOLCALL_CHOOSE"
        report.findings.append(Finding("choose", advice.CHOOSE, Verdict.NO, nothing))
    report.requests, report.tokens, report.seconds = asker.requests, asker.tokens, round(asker.elapsed, 1)
    return report


async def _models(asker: Asker, wanted: str | None) -> tuple[list[str], str | None]:
    """The models that are listed, and which server lists them."""
    try:
        status, body = await asker.send("/v1/models")
    except (TimeoutError, BudgetSpentError):
        raise CheckError("the upstream is slow: it did not answer to /v1/models in time") from None
    except TooLongError:
        raise CheckError("the upstream's list of models has no end") from None
    except ToolCallError as broken:
        raise CheckError(asker.hide(shown(broken.message))) from None
    if status != 200:
        error = openai.read_error(body, status)
        message = asker.hide(shown(error.message))[:300]
        if status in {502, 504} and error.code in {"upstream_error", "upstream_timeout"}:
            raise CheckError(message.rstrip("."))
        if status in {401, 403}:
            raise CheckError(f"the upstream refuses the key (status {status}: {message}); set TOOLCALL_UPSTREAM_KEY")
        if wanted is None:
            raise CheckError(f"the upstream does not list its models (status {status}: {message}); give --model")
        return [], None
    listed = openai.read_value(body)
    models = models_in(listed)
    if not models and wanted is None:
        raise CheckError("the upstream lists no models; give --model, or is /v1 missing in its address?")
    return models, server_of(listed)


async def _examine(asker: Asker, report: Report, options: Options, settings: Settings) -> None:
    """Asks all questions, and adds what they find to the report. Raises CheckError, BudgetSpentError or _GoneError."""
    answer, findings = await probes.plain(asker)
    if not answer.ok:
        why = shown(answer.refusal)
        if answer.late:
            raise CheckError(f"the upstream is {why} to a short question")
        raise CheckError(f"the upstream does not answer chat completions for {report.model!r}: {why}")
    unlisted = f"{report.model} is not in it" if report.models and report.model not in report.models else ""
    verdict = Verdict.YES if report.models else Verdict.NO
    report.findings += [Finding("models", "the list of models", verdict, unlisted), *findings]
    if options.api != "chat":
        report.findings.append(Finding("api", "the API in which calls are asked for", Verdict.YES, options.api))
    rows = [*probes.natives(), *probes.constraints(), *probes.stops(answer.text), *probes.histories()]
    steps: list[tuple[str, Callable[[Asker], Awaitable[list[Finding]]]]] = [
        ("streamed answers", probes.streaming),
        ("native calls", probes.reach),
        *((row.what, row.ask) for row in rows),
    ]
    formats = formats_for(report.model, options.formats, report.template)
    # The most steps that are possible; those that prove useless are skipped.
    asked = options.questions
    tried, constrained = len(asked.choices), "required" in asked.choices
    total = len(steps) + len(asked.questions) * (tried + (tried + constrained) * len(formats) + constrained)
    with progress(total) as step:
        in_a_row = 0
        for what, question in steps:
            step(what)
            found = await question(asker)
            report.findings += found
            # A backend that has died must not be asked sixty times.
            dead = [one for one in found if "no answer within" in one.detail or "cannot be reached" in one.detail]
            in_a_row = in_a_row + 1 if dead else 0
            if in_a_row >= _MOST_FAILURES:
                raise _GoneError(dead[0].detail)
        if (role := advice.system_role(report)) is not None:
            settings = settings.replace(system_role=role)
        constraints = {fmt: advice.working_constraint(report, fmt) for fmt in formats}
        report.calls += ways(asked, constraints, native=_may_bring_calls(report))

        async def ask(trials: list[Trial]) -> None:
            # In turns: where time runs out, all ways have been asked the same. Every second prompt is streamed.
            for number, prompt in enumerate(asked.questions):
                for one in trials:
                    score = one.score
                    step("choose" if score.choose else f"{score.mode} {score.format} {score.tool_choice}")
                    await one.ask(asker, prompt, stream=bool(number % 2))

        trials = [Trial.of(way, asker, settings, options.api) for way in report.calls]
        await ask(trials)
        mode, fmt = advice.best_way(report) or ("", "")
        kind = advice.working_constraint(report, fmt) if mode == "prompt" and constrained else None
        free = next((one for one in trials if (one.score.format, one.score.tool_choice) == (fmt, "auto")), None)
        if kind is None or free is None or free.score.came == free.score.asked:
            return
        chosen = Trial.of(Score(mode, fmt, "auto", kind, choose=True), asker, settings, options.api)
        report.calls.append(chosen.score)
        await ask([chosen])
        for one in (free, chosen):
            await one.ask_for_words(asker, asked.questions[0])
        report.findings.append(advice.choosing(free, chosen))


def _may_bring_calls(report: Report) -> bool:
    """Whether tools sent to the backend can bring a call: not where it refuses them, nor where it drops them, unless
    one came all the same (a named one, by force).
    """
    own = [one for one in report.findings if one.key.startswith("native.")]
    refused = [one for one in own if one.detail.startswith("refused")]
    dropped = report.verdict(probes.REACH) is Verdict.NO and all(one.verdict is Verdict.NO for one in own)
    return len(refused) < len(own) - 1 and not dropped


@contextlib.contextmanager
def progress(total: int, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[str], None]]:
    """Shows `total` steps on stderr, with an estimate of the seconds left; gives what to call before each step.

    In a terminal one line is written over; elsewhere a plain line comes now and then.
    """
    is_terminal = sys.stderr.isatty()
    begun = said = clock()
    number = 0

    def over(line: str) -> None:
        columns = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:columns]:<{columns}}", end="", file=sys.stderr, flush=True)

    def step(name: str) -> None:
        nonlocal number, said
        now, done = clock(), number
        number += 1
        left = ""
        if done >= _SURE:  # if the steps to come take as long as those before; at most all of them are asked
            seconds = (now - begun) / done * (total - done)
            left = f", at most {seconds:.0f} s left" if seconds < 90 else f", at most {seconds / 60:.0f} min left"
        line = f"check: {number}/{total} {name}{left}"
        if is_terminal:
            over(line)
        elif number == 1 or now - said >= _EVERY:
            said = now
            print(line, file=sys.stderr, flush=True)

    try:
        yield step
    finally:
        if is_terminal:
            over("")
            print("\r", end="", file=sys.stderr, flush=True)
