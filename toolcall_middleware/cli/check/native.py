"""Questions about the backend's own tool calls. They go to it as they are: what it sends is looked at unrepaired."""

from __future__ import annotations

from typing import Any

from ...formats import registry
from ...formats.base import ParserOptions
from ...model import Tool, ToolSet
from ...parsing.events import CallStart
from ...upstream.backend_memory import BackendMemory
from ...upstream.tool_support import PendingProof, ToolSupport
from .answers import Answer
from .asking import Asker
from .findings import Finding, Verdict
from .tools import PROMPTS, TOOLS, fault_of

TOKENS = 128
_NAMED = {"type": "function", "function": {"name": "get_weather"}}

# (key, what, the request's fields, whether a call must come)
QUESTIONS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("native.whole", "tools, whole", {}, False),
    ("native.stream", "tools, streamed", {"stream": True}, False),
    ("native.required", "tool_choice required, whole", {"tool_choice": "required"}, True),
    ("native.required_stream", "tool_choice required, streamed", {"tool_choice": "required", "stream": True}, True),
    ("native.named", "a named tool, whole", {"tool_choice": _NAMED}, True),
    ("native.named_stream", "a named tool, streamed", {"tool_choice": _NAMED, "stream": True}, True),
]


REACH = "native.reach"


async def reach(asker: Asker) -> list[Finding]:
    """Whether tools reach the model, by the questions that `mode=auto` asks."""
    questions = PendingProof(asker.model, BackendMemory()).questions()
    support: ToolSupport | None = None
    try:
        question = next(questions)
        while True:
            question = questions.send(await asker.told(question.path, question.body))
    except StopIteration as over:
        support = over.value.support
    what = "tools reach the model"
    if support is None:
        return [Finding(REACH, what, Verdict.UNKNOWN, "neither /props nor a count of tokens shows it")]
    if support is ToolSupport.NONE:
        return [Finding(REACH, what, Verdict.NO, "they are refused or dropped: mode=auto goes by prompt")]
    return [Finding(REACH, what, Verdict.YES)]


async def ask(asker: Asker, key: str, what: str, fields: dict[str, Any], *, must: bool) -> list[Finding]:
    """One of QUESTIONS."""
    messages = [{"role": "user", "content": PROMPTS[0][0] + " Use the tool."}]
    answer = await asker.ask(messages, tokens=TOKENS, tools=TOOLS, **fields)
    return [Finding(key, what, *_judge(answer, must=must))]


def _judge(answer: Answer, *, must: bool) -> tuple[Verdict, str]:
    if not answer.ok:
        return answer.verdict, answer.fault
    if answer.was_cut:
        what = "a call came, and" if answer.calls else "the answer"
        return Verdict.UNKNOWN, f"{what} was cut at its limit of {TOKENS} tokens"
    if not answer.calls:
        written = _written(answer.text)
        if written is not None:
            return Verdict.NO, f"the call ({written}) stays in the text: the backend has no parser for it"
        if must:
            return Verdict.NO, "the promise is not kept: no call came"
        return Verdict.NO, "no call came: the model may not want to, or is not shown the tools"
    fault = fault_of(answer.calls)
    if fault is not None:
        return Verdict.PARTLY, f"a call came, but {fault}"
    if answer.faults:
        return Verdict.PARTLY, f"has to be repaired: {', '.join(answer.faults)}"
    return Verdict.YES, ""


def _written(text: str) -> str | None:
    """The name of a call of our tools that stands in `text` in any family's syntax."""
    tools = ToolSet.of([Tool(one["function"]["name"]) for one in TOOLS])
    parser = registry.get("auto").parser(tools, ParserOptions())
    events = [*parser.feed(text), *parser.finish()]
    return next((event.name for event in events if isinstance(event, CallStart)), None)
