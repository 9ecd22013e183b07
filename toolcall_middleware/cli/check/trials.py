"""Prompts for calls, through the middleware as a client would send them: what comes out is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from ...formats import registry
from ...hosts.http.request_record import RECORD, Record
from ...hosts.middleware.asgi import ToolCallMiddleware
from ...settings import Settings
from ..faces.requests import PATHS
from .asking import Asker
from .findings import Score
from .questions import Judgement, Question

_MOST_FAULTS = 4


class Recorded:
    """An app, and what its middleware says of the last request: streams tell their calls' outcomes nowhere else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._record = Record()

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Of the calls of the last answer."""
        return self._record.outcomes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._record = scope[RECORD] = Record()
        await self._app(scope, receive, send)


@dataclass(slots=True)
class Trial:
    """One way to get calls, and how it does. All of its prompts go through one middleware, as they would in service."""

    score: Score
    app: Recorded = field(repr=False)
    api: str = "chat"

    async def ask(self, asker: Asker, question: Question, *, stream: bool) -> None:
        """Asks `question`, and counts what comes."""
        score, meter = self.score, asker.meter
        began, written = meter.elapsed, meter.tokens
        answer = await asker.ask(
            question.messages,
            tokens=question.tokens,
            app=self.app,
            api=self.api,
            tools=question.tools,
            tool_choice=score.tool_choice,
            stream=stream,
        )
        if answer.late:
            score.late += 1
            return
        score.asked += 1
        score.seconds.append(meter.elapsed - began)
        score.completion_tokens += meter.tokens - written
        told = (answer.usage or {}).get("prompt_tokens")
        if type(told) is int:
            score.prompt_tokens.append(told)
        judged = question.judge(answer.calls) if answer.ok else Judgement(answer.refusal, right=False)
        fault = judged.fault
        if fault is None and answer.calls and answer.finish_reason != "tool_calls":
            fault = f"finish_reason is {answer.finish_reason}"
        if fault is not None:
            if len(score.faults) < _MOST_FAULTS:
                score.faults.append(f"{question.label} {fault}")
            return
        score.valid += 1
        score.right += judged.right
        score.repaired += judged.right and any(outcome != "clean" for outcome in self.app.outcomes)


def formats_for(model: str, wanted: list[str], template: str | None) -> list[str]:
    """The values of `format` to try: those that are asked for, else `auto`, and `json`, `hermes` and the `template`
    where they are not what `auto` writes.
    """
    if wanted:
        return list(dict.fromkeys(wanted))
    others = ("json", "hermes", *([registry.TEMPLATE] if template is not None else []))
    usual = written_by(model, "auto", template)
    return ["auto", *(name for name in others if name != usual)]


def written_by(model: str, fmt: str, template: str | None) -> str:
    """The format in which the prompt stands: `auto` picks one by the model's name, or by its template."""
    return registry.prompt_name(registry.for_model(fmt, model, template))


def trials(
    asker: Asker,
    settings: Settings,
    formats: list[str],
    *,
    native: bool,
    constraints: dict[str, str | None],
    api: str,
    choices: Sequence[str],
) -> Iterator[Trial]:
    """The ways to try. native: whether the backend takes tools. constraints: by format, the kind that works. api: in
    which calls are asked for. choices: the values of `tool_choice` without a constraint.
    """
    make = partial(_trial, asker, settings.replace(faces=tuple(PATHS)), api)
    if native:
        for choice in choices:
            yield make("native", "auto", choice, "off")
    for fmt in formats:
        for choice in choices:
            yield make("prompt", fmt, choice, "off")
        kind = constraints.get(fmt)
        if kind is not None:
            yield make("prompt", fmt, "required", kind)


def _trial(  # noqa: PLR0917 - the first three are the same for all
    asker: Asker, settings: Settings, api: str, mode: str, fmt: str, choice: str, constrain: str
) -> Trial:
    # One try each: what the first answer is worth is the question.
    own = settings.replace(mode=mode, format=fmt, constrain=constrain, retries=0)
    if mode == "native":
        own = own.replace(send="chat")
    score = Score(mode, fmt if mode == "prompt" else "", choice, constrain)
    return Trial(score, Recorded(ToolCallMiddleware(asker.meter, settings=own)), api)
