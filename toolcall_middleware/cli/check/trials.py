"""Prompts for calls, sent through the middleware as a client would, with scores of the answers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from ...formats import registry
from ...hosts.http.request_record import RECORD, Record
from ...hosts.middleware.asgi import ToolCallMiddleware
from ...json_schema.validate_arguments import ArgumentChecker
from ...model import Tool, ToolCall, ToolSet
from ...settings import Settings
from ..faces.answers import Received
from ..faces.requests import PATHS, tool
from .asking import Asker
from .findings import Latency, Questions, Score, Tokens

_MOST_FAULTS = 4
_TOKENS = 160
_NO_TOOL = "Write one short sentence about the sea."
"""A question that none of TOOLS fits."""


TOOLS: list[dict[str, Any]] = [
    tool(
        "get_weather", "The current weather in a city.", ["city"],
        city={"type": "string"}, unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
    ),
    tool("get_time", "The current local time in a city.", ["city"], city={"type": "string"}),
    tool("add", "Adds two numbers.", ["a", "b"], a={"type": "number"}, b={"type": "number"}),
]  # fmt: skip

# (what a user says, the tool that is meant)
PROMPTS: list[tuple[str, str]] = [
    ("What is the weather in Paris right now?", "get_weather"),
    ("What time is it in Tokyo?", "get_time"),
    ("Add 17 and 25 with the tool.", "add"),
    ("How warm is it in Cairo, in fahrenheit?", "get_weather"),
]

_SET = ToolSet.of([Tool(one["function"]["name"], "", one["function"]["parameters"]) for one in TOOLS])
_CHECKER = ArgumentChecker(_SET)


def calls_of(answer: Received) -> list[ToolCall]:
    """The calls of an answer, as they are judged."""
    return [ToolCall(call.name, call.arguments or "{}") for call in answer.calls]


def fault_of(calls: Sequence[ToolCall]) -> str | None:
    """The fault of an answer's calls. None: it has calls, each of one of TOOLS and with fitting arguments."""
    if not calls:
        return "no call"
    for call in calls:
        if call.name not in _SET.by_name:
            return f"a call of {call.name!r}"
        faults = _CHECKER.faults(call.name, call.arguments)
        if faults:
            return f"{call.name}: {faults[0]}"
    return None


Judgement = tuple[str | None, bool]
"""The fault of an answer's calls, None where they are valid, and whether they are the expected calls."""


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt. `label` names it in a fault, and may be published; `tokens` limits its answer."""

    label: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    judge: Callable[[Sequence[ToolCall]], Judgement]
    tokens: int = _TOKENS


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """All prompts of a check. `source` says where they are from.

    choices: the values of `tool_choice` to try. Constrained decoding is tried with `required`.
    """

    source: str
    questions: list[Question]
    choices: tuple[str, ...] = ("auto", "required")

    @property
    def published(self) -> Questions:
        """What a report says of it."""
        labels = tuple(question.label for question in self.questions)
        return Questions(self.source, len(labels), labels if self.source == Questions().source else ())


def built_in() -> QuestionSet:
    """PROMPTS with TOOLS."""

    def judge(wanted: str, calls: Sequence[ToolCall]) -> Judgement:
        fault = fault_of(calls)
        return fault, fault is None and {call.name for call in calls} == {wanted}

    asked = [
        Question(prompt, [{"role": "user", "content": prompt}], TOOLS, partial(judge, wanted))
        for prompt, wanted in PROMPTS
    ]
    return QuestionSet(Questions().source, asked)


@dataclass(slots=True)
class Trial:
    """One way to get calls, and how it does. All of its prompts go through one middleware, as they would in service.

    api: in which calls are asked for. in_words: a question that no tool fits was answered without a call.
    """

    score: Score
    app: ToolCallMiddleware
    api: str
    in_words: bool = False
    _record: Record = field(default_factory=Record)
    _seconds: list[float] = field(default_factory=list)
    _prompts: list[int] = field(default_factory=list)
    _written: int = 0

    @classmethod
    def of(cls, way: Score, asker: Asker, settings: Settings, api: str) -> Trial:
        """A trial of `way`, which gets the counts. settings: those of the user's that a prompt for calls depends on."""
        # One try each: what the first answer is worth is the question.
        own = settings.replace(
            mode=way.mode, constrain=way.constrain, choose=way.choose, retries=0, faces=tuple(PATHS), format="auto"
        )
        if way.mode == "native":
            own = own.replace(send="chat")
        else:
            own = own.replace(format=way.format)
            way.writes = written_by(asker.model, way.format, settings.template)
        return cls(way, ToolCallMiddleware(asker, settings=own), api)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The middleware. It records the outcome of each call, which a stream does not contain."""
        self._record = scope[RECORD] = Record()
        await self.app(scope, receive, send)

    async def _answer(self, asker: Asker, question: Question, choice: str, *, stream: bool) -> Received:
        given = {"tools": question.tools, "tool_choice": choice, "stream": stream}
        return await asker.ask(question.messages, tokens=question.tokens, app=self, api=self.api, **given)

    async def ask(self, asker: Asker, question: Question, *, stream: bool) -> None:
        """Asks `question`, and adds the answer to the score."""
        score = self.score
        began, written = asker.elapsed, asker.tokens
        answer = await self._answer(asker, question, score.tool_choice, stream=stream)
        if answer.late:
            score.late += 1
            return
        fault, right = question.judge(calls_of(answer)) if answer.ok else (answer.refusal, False)
        if fault is None and answer.calls and answer.finish_reason != "tool_calls":
            fault = f"finish_reason is {answer.finish_reason}"
        if fault is not None and len(score.faults) < _MOST_FAULTS:
            score.faults.append(f"{question.label} {fault}")
        score.asked += 1
        score.valid += fault is None
        if fault is not None or not right:
            score.wrong += 1
        elif any(outcome != "clean" for outcome in self._record.outcomes):
            score.repaired += 1
        else:
            score.right += 1
        prompt = (answer.usage or {}).get("prompt_tokens")
        self._seconds.append(asker.elapsed - began)
        self._prompts += [prompt] if type(prompt) is int else []
        self._written += asker.tokens - written
        score.latency = Latency(round(statistics.median(self._seconds), 3), round(max(self._seconds), 3))
        tokens = round(statistics.fmean(self._prompts), 1) if self._prompts else None
        score.tokens = Tokens(tokens, round(self._written / score.asked, 1))

    async def ask_for_words(self, asker: Asker, question: Question) -> None:
        """Asks a question that no tool fits. Its tools are those of `question`."""
        asked = Question("", [{"role": "user", "content": _NO_TOOL}], question.tools, question.judge)
        answer = await self._answer(asker, asked, "auto", stream=False)
        self.in_words = answer.ok and bool(answer.text) and not answer.calls


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
    """The format in which the prompt is written: `auto` picks one by the model's name, or by its template."""
    return registry.prompt_name(registry.for_model(fmt, model, template))


def ways(asked: QuestionSet, constraints: dict[str, str | None], *, native: bool) -> list[Score]:
    """The ways to try. constraints: the formats, each with the kind that works. native: the backend takes tools."""
    found = [Score("native", "", choice) for choice in asked.choices if native]
    for fmt, kind in constraints.items():
        found += [Score("prompt", fmt, choice) for choice in asked.choices]
        if kind is not None and "required" in asked.choices:
            found.append(Score("prompt", fmt, "required", kind))
    return found
