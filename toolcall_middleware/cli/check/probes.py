"""The questions about a backend itself: chat, tools of its own, constraints, what a history may hold.

A probe is a row: what is asked, and what the answer says. They go to the backend as they are, unrepaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from ...errors import ToolCallError
from ...exchange import Ask, Exchange, Request
from ...hosts.http.answer import TooLongError
from ...hosts.middleware.backend_questions import converse
from ...library import ReadCall, read_calls
from ...settings import OPTIONS, Settings
from ...upstream.backend_memory import BackendMemory, BackendReply, PendingProof, ToolSupport
from ...usage.upstream_tokenizer import Question
from ..faces.answers import Received
from ..faces.requests import PATHS, tool
from .asking import Asker
from .findings import Finding, Verdict
from .trials import PROMPTS, TOOLS, calls_of, fault_of

_TOKENS = 48
_NATIVE_TOKENS = 128
_CONSTRAINED_TOKENS = 96
_HISTORY_TOKENS = 16

Messages = Sequence[dict[str, Any]]
Judged = tuple[Verdict, str]


def _answered(_answer: Received) -> Judged:
    return Verdict.YES, ""


@dataclass(frozen=True, slots=True)
class Probe:
    """One question. judge: what an answer says that is no error."""

    key: str
    what: str
    messages: Messages
    judge: Callable[[Received], Judged] = _answered
    fields: Mapping[str, Any] = field(default_factory=dict)
    tokens: int = _TOKENS

    async def ask(self, asker: Asker) -> list[Finding]:
        """Asks it."""
        answer = await asker.ask(self.messages, tokens=self.tokens, **self.fields)
        return [_found(self.key, self.what, answer, self.judge)]


def _found(key: str, what: str, answer: Received, judge: Callable[[Received], Judged] = _answered) -> Finding:
    """What an answer says."""
    if answer.ok:
        return Finding(key, what, *judge(answer))
    if answer.late:
        return Finding(key, what, Verdict.UNKNOWN, answer.refusal)
    return Finding(key, what, Verdict.NO, f"refused: {answer.refusal}")


# Plain chat.

HELLO: Messages = [{"role": "user", "content": "Say hello in one short sentence."}]
_WORD = re.compile(r"[^\W\d_]{2,}")


async def plain(asker: Asker) -> tuple[Received, list[Finding]]:
    """A whole answer: the question that all others rest on. Asked again where the answer says how."""
    answer = await asker.ask(HELLO, tokens=_TOKENS)
    if "max_completion_tokens" in (answer.error or ""):  # OpenAI's newer models
        asker.limit = "max_completion_tokens"
        answer = await asker.ask(HELLO, tokens=_TOKENS)
    if answer.ok and (answer.reasoning or "<think>" in answer.text):
        asker.reasons = True
        answer = await asker.ask(HELLO, tokens=_TOKENS)
    detail = "the model reasons before it answers" if asker.reasons else ""
    whole = Finding("whole", "whole answers", Verdict.YES, detail)
    return answer, [whole, _found("usage.whole", "usage in whole answers", answer, _usage)]


def _usage(answer: Received) -> Judged:
    usage = answer.usage or {}
    if all(type(usage.get(f"{name}_tokens")) is int for name in ("prompt", "completion", "total")):
        return Verdict.YES, ""
    return Verdict.NO, "none: it is counted here" if not usage else f"it lacks counts: {usage}"


async def streaming(asker: Asker) -> list[Finding]:
    """A streamed answer, and its usage."""
    asked = await asker.ask(HELLO, tokens=_TOKENS, stream=True, stream_options={"include_usage": True})
    answer = asked if asked.ok else await asker.ask(HELLO, tokens=_TOKENS, stream=True)
    stream = Finding("stream", "streamed answers", _found("", "", answer).verdict, "" if answer.ok else answer.refusal)
    usage = _found("usage.stream", "usage in streams", asked, _usage)
    if answer.ok and not asked.ok and not asked.late:
        usage = replace(usage, detail=f"stream_options is refused, {asked.refusal}")
    return [stream, usage]


def stops(said: str) -> list[Probe]:
    """Stop strings, by a word out of `said`, the model's answer to HELLO at temperature 0; none where that is short."""
    # Not the first: an answer cut there is empty, and could be so for any reason.
    word = next((word for word in _WORD.findall(said)[1:] if said.index(word) > 0), None)
    if word is None:
        return []

    def judge(answer: Received) -> Judged:
        if word in answer.text:
            return Verdict.NO, "the answer continues after the stop string"
        if not said.startswith(answer.text.rstrip()) or len(answer.text) >= len(said):
            return Verdict.UNKNOWN, "the same question got another answer"
        return Verdict.YES, ""

    return [
        Probe("stop.whole", "stop strings, whole", HELLO, judge, {"stop": [word], "stream": False}),
        Probe("stop.stream", "stop strings, streamed", HELLO, judge, {"stop": [word], "stream": True}),
    ]


# Tools of its own.

REACH = "native.reach"


async def reach(asker: Asker) -> list[Finding]:
    """Whether tools reach the model, by the questions that `mode=auto` asks."""

    async def reply_to(question: Question) -> BackendReply | None:
        try:
            return await asker.send(question.path or PATHS["chat"], question.body)
        except (TimeoutError, ToolCallError, TooLongError):
            return None

    support = (await converse(PendingProof(asker.model, BackendMemory()).questions(), reply_to)).support
    what = "tools reach the model"
    if support is None:
        return [Finding(REACH, what, Verdict.UNKNOWN, "neither /props nor a count of tokens shows it")]
    if support is ToolSupport.NONE:
        return [Finding(REACH, what, Verdict.NO, "they are refused or dropped: mode=auto goes by prompt")]
    return [Finding(REACH, what, Verdict.YES)]


_NAMED = {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
_NATIVE: list[tuple[str, str, dict[str, Any]]] = [
    ("whole", "tools, whole", {}),
    ("stream", "tools, streamed", {"stream": True}),
    ("required", "tool_choice required, whole", {"tool_choice": "required"}),
    ("required_stream", "tool_choice required, streamed", {"tool_choice": "required", "stream": True}),
    ("named", "a named tool, whole", _NAMED),
    ("named_stream", "a named tool, streamed", {**_NAMED, "stream": True}),
]


def natives() -> list[Probe]:
    """Each `tool_choice`, whole and streamed."""
    messages = [{"role": "user", "content": PROMPTS[0][0] + " Use the tool."}]
    return [
        Probe(
            f"native.{key}",
            what,
            messages,
            partial(_native, must="tool_choice" in fields),
            {"tools": TOOLS, **fields},
            _NATIVE_TOKENS,
        )
        for key, what, fields in _NATIVE
    ]


def _native(answer: Received, *, must: bool) -> Judged:
    """must: whether a call was promised."""
    if answer.finish_reason == "length":
        what = "a call came, and" if answer.calls else "the answer"
        return Verdict.UNKNOWN, f"{what} was cut at its limit of {_NATIVE_TOKENS} tokens"
    if not answer.calls:
        written = _first_call(answer, TOOLS)
        if written is not None:
            return Verdict.NO, f"the call ({written.name}) stays in the text: the backend has no parser for it"
        if must:
            return Verdict.NO, "the promise is not kept: no call came"
        return Verdict.NO, "no call came: the model may not want to, or is not shown the tools"
    fault = fault_of(calls_of(answer))
    if fault is not None:
        return Verdict.PARTLY, f"a call came, but {fault}"
    faults = [one.text for one in answer.faults if one.area in {"calls", "ending"}]
    return (Verdict.PARTLY, f"has to be repaired: {', '.join(faults)}") if faults else (Verdict.YES, "")


def _first_call(answer: Received, tools: list[dict[str, Any]]) -> ReadCall | None:
    """The first call in an answer's text, in any family's syntax."""
    calls = read_calls(answer.text, tools, cut=answer.finish_reason == "length", coerce=False).calls
    return calls[0] if calls else None


# Constraints: the backend is asked for words, under a constraint that allows none. What is asked for is what the
# middleware would ask for; only the prompt is another: it names no tool and no JSON. Where the constrained call comes
# all the same, the constraint has made it.

_CODES = ["k7w", "m3x"]
_PROBE = tool("zq_probe", "", ["code"], code={"enum": _CODES})
_WORDS: Messages = [
    {"role": "user", "content": "Say hello to me in one short sentence. Write plain words, nothing else."}
]
# One fixed call, in the notation of llama.cpp's grammars. Nothing that `constrain` asks for, but good to know.
_GBNF = 'root ::= "{\\"tool_calls\\": [{\\"name\\": \\"zq_probe\\", \\"arguments\\": {\\"code\\": \\"k7w\\"}}]}"'
_ABOUT = {
    "response_format": "json_schema",
    "llama_cpp": "json_object with a schema (llama.cpp)",
    "structured_outputs": "structured_outputs.json (vLLM)",
}


def constraints() -> list[Probe]:
    """Each constraint that there is to ask for."""
    kinds = [kind for kind in OPTIONS["constrain"].allowed.split(", ") if kind not in {"auto", "off"}]
    found = [(kind, _ABOUT.get(kind, kind), _constrained(kind, "json")) for kind in kinds]
    # In tags of a format's own, in which several calls and text between them stay possible.
    found.append(("structural_tag.hermes", "structural_tag, calls in tags", _constrained("structural_tag", "hermes")))
    found.append(("grammar", "grammar (llama.cpp's GBNF)", {"grammar": _GBNF}))
    return [
        Probe(f"constrain.{kind}", what, _WORDS, _constraint, fields, _CONSTRAINED_TOKENS)
        for kind, what, fields in found
    ]


def _constrained(kind: str, fmt: str) -> dict[str, Any]:
    """The fields that the middleware adds to a request for one call."""
    body: dict[str, Any] = {"model": "m", "messages": _WORDS, "tools": [_PROBE], "tool_choice": "required"}
    # One call is enough: a model that is held to a list of them may go on and on.
    body["parallel_tool_calls"] = False
    settings = Settings(constrain=kind, format=fmt, special_tokens="off")
    action = Exchange(settings, BackendMemory()).receive(Request(json.dumps(body).encode()))[0]
    sent = action.body if isinstance(action, Ask) else b"{}"
    return {name: value for name, value in json.loads(sent).items() if name not in {"model", "messages"}}


def _constraint(answer: Received) -> Judged:
    call = _first_call(answer, [_PROBE])
    if call is None:
        is_json = isinstance(_json(answer.text), dict | list)
        ignored = "the answer is JSON, but the schema is ignored in silence" if is_json else "ignored in silence"
        return Verdict.NO, ignored
    if not call.complete:
        return Verdict.PARTLY, "the answer keeps to it, but found no end"
    value = _json(call.arguments)
    if isinstance(value, dict) and value.get("code") in _CODES:
        return Verdict.YES, ""
    return Verdict.PARTLY, "a call came, but its arguments are not those of the schema"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


# What a history may hold. That the model understands it is another matter.

_SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
_BRIEF = {"role": "system", "content": "Be brief."}
_CALL_ID = "call_a1B2c3D4e5F6g7H8i9J0k1L2"
_FUNCTION = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
_CALL = {
    "role": "assistant", "content": None,
    "tool_calls": [{"id": _CALL_ID, "type": "function", "function": _FUNCTION}],
}  # fmt: skip
_RESULT = {"role": "tool", "tool_call_id": _CALL_ID, "content": "18 degrees, light rain"}
_ASK = {"role": "user", "content": "What is the weather in Paris?"}
_AGAIN = {"role": "user", "content": "Thanks. And what do you say to that?"}
_PARTS = {"role": "user", "content": [{"type": "text", "text": "Say hello."}]}
_HISTORIES: list[tuple[str, str, Messages]] = [
    ("system", "a system message", [_SYSTEM, *HELLO]),
    ("tool", "calls and results, content null", [_ASK, _CALL, _RESULT]),
    ("tool_text", "calls and results, content as text", [_ASK, {**_CALL, "content": "I look."}, _RESULT]),
    ("null", "content null, no calls", [_ASK, {"role": "assistant", "content": None}, _AGAIN]),
    ("systems", "several system messages", [_SYSTEM, _BRIEF, *HELLO]),
    (
        "late_system",
        "a system message after others",
        [_ASK, {"role": "assistant", "content": "Rain."}, _BRIEF, _AGAIN],
    ),
    ("developer", "the role developer", [{"role": "developer", "content": "Be brief."}, *HELLO]),
    ("users", "two user messages in a row", [*HELLO, _AGAIN]),
    ("parts", "content as a list of parts", [_PARTS]),
]


def histories() -> list[Probe]:
    """Whether the backend answers to such a history at all."""
    return [Probe(f"history.{key}", what, messages, tokens=_HISTORY_TOKENS) for key, what, messages in _HISTORIES]
