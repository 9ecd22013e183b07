"""Prompts for calls, through the middleware as a client would send them: what comes out is counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from starlette.types import ASGIApp

from ...formats import registry
from ...hosts.middleware.asgi import ToolCallMiddleware
from ...settings import Settings
from ..faces.questions import PATHS
from .asking import Asker
from .findings import Tally
from .tools import PROMPTS, TOOLS, fault_of

TOKENS = 160
_MOST_FAULTS = 4


@dataclass(slots=True)
class Trial:
    """One way to get calls, and how it does. All of its prompts go through one middleware, as they would in service."""

    tally: Tally
    app: ASGIApp = field(repr=False)
    api: str = "chat"

    async def ask(self, asker: Asker, number: int) -> None:
        """Prompt `number` of PROMPTS; every second one is streamed."""
        question, wanted = PROMPTS[number]
        tally = self.tally
        answer = await asker.ask(
            [{"role": "user", "content": question}],
            tokens=TOKENS,
            app=self.app,
            api=self.api,
            tools=TOOLS,
            tool_choice=tally.tool_choice,
            stream=bool(number % 2),
        )
        if answer.late:
            tally.late += 1
            return
        tally.asked += 1
        fault = answer.refusal if not answer.ok else fault_of(answer.calls)
        if fault is None and answer.finish_reason != "tool_calls":
            fault = f"finish_reason is {answer.finish_reason}"
        if fault is not None:
            if len(tally.faults) < _MOST_FAULTS:
                tally.faults.append(f"{question} {fault}")
            return
        tally.valid += 1
        tally.right += {call.name for call in answer.calls} == {wanted}


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
    chosen = registry.for_model(fmt, model, template)
    return str(getattr(chosen, "prompt_name", chosen.name))


def trials(
    asker: Asker, settings: Settings, formats: list[str], *, native: bool, constraints: dict[str, str | None], api: str
) -> Iterator[Trial]:
    """The ways to try. native: whether the backend takes tools. constraints: by format, the kind that works. api: in
    which calls are asked for.
    """
    make = partial(_trial, asker, settings.replace(faces=tuple(PATHS)), api)
    if native:
        for choice in ("auto", "required"):
            yield make("native", "auto", choice, "off")
    for fmt in formats:
        for choice in ("auto", "required"):
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
    tally = Tally(mode, fmt if mode == "prompt" else "", choice, constrain)
    return Trial(tally, ToolCallMiddleware(asker.meter, settings=own), api)
