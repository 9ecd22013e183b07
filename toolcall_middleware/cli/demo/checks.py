"""Checks of a received answer. Every one is computed from what arrived; none is taken on trust."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ..command import cut, many
from ..faces.answers import Received, ReceivedCall
from .cases import Case

_ID = re.compile(r"call_[a-zA-Z0-9]+")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the demo's verdict. `why` says what was found, and what was expected where that differs."""

    ok: bool
    what: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange. `checks`: of its answer, and of the whole one where `received` is the streamed one.

    rows: (label, text) that the page shows of it.
    """

    title: str
    wrote: str
    received: Received
    checks: Sequence[Check]
    rows: Sequence[tuple[str, str]] = field(default=())


def form_check(answer: Received) -> Check:
    """The wire's form: events in their order, ids, calls, a truthful end, usage that adds up."""
    faults = [fault.text for fault in answer.faults]
    faults += [f"the id {call.id!r} of a call" for call in answer.calls if not _ID.fullmatch(call.id)]
    good = f"{answer.events} events" if answer.streamed else "a whole answer"
    why = answer.refusal if answer.status != 200 else "; ".join(faults) or good
    return _check(answer, "well-formed", ok=answer.ok and not faults, why=why)


def checks_of(case: Case, answer: Received, wrote: str, requests: Sequence[Mapping[str, Any]] = ()) -> list[Check]:
    """Whether an answer is in good form and the one that the case has to get.

    wrote: the model's last text, which a final answer of the real model has to be; it may be cut at its limit.
    requests: what the scripted model was asked.
    """
    ending = partial(_same, answer, "finish_reason", answer.finish_reason)
    if case.calls is None:
        return [form_check(answer), schema_check(answer, case.tools, name=case.name), ending("tool_calls")]
    calls, content = [(one.name, one.decoded()) for one in answer.calls], case.content if case.texts else wrote
    checks = [
        form_check(answer),
        _same(answer, "the calls that the model meant", calls, [*case.calls]),
        _same(answer, "the model's text, to the byte", answer.content, content),
    ]
    if case.texts:
        times = len(case.texts)
        prompt = "\n".join(str(one.get("content")) for asked in requests[-1:] for one in asked.get("messages", ()))
        checks += [
            ending("tool_calls" if case.calls else "stop"),
            _check(answer, f"the model was asked {many(times, 'time')}", ok=len(requests) == times),
            _check(answer, f"the model was shown {case.shown!r}", ok=case.shown in prompt),
        ]
    return checks


def schema_check(answer: Received, tools: Sequence[dict[str, Any]], *, name: str | None = None) -> Check:
    """Whether there is a call, each of an offered tool (of `name`, where given), valid by its schema."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    faults = [] if answer.calls else [f"no call: {answer.error or _shown(answer.content)}"]
    for call in answer.calls:
        if call.name not in schemas or name not in {None, call.name}:
            faults.append(f"a call of {call.name!r}")
        elif error := best_match(Draft202012Validator(schemas[call.name]).iter_errors(call.decoded())):
            faults.append(f"{show_call(call)}: {error.message}")
    why = faults[0] if faults else ", ".join(map(show_call, answer.calls))
    return _check(answer, f"a valid call of {name or 'an offered tool'}", ok=not faults, why=why)


def agreement_check(streamed: Received, whole: Received) -> Check:
    """Whether both modes carry the same content, calls, ending and usage. Answers that are errors do not."""
    ok = streamed.ok and whole.ok and streamed.same_answer() == whole.same_answer()
    why = "" if ok else f"streamed {streamed.same_answer()}, whole {whole.same_answer()}"
    return Check(ok=ok, what="streamed and whole say the same", why=why)


def show_call(call: ReceivedCall) -> str:
    """A call in one line."""
    return f"{call.name}({_shown(call.decoded())})"


def _check(answer: Received, what: str, *, ok: bool, why: str = "") -> Check:
    return Check(ok=ok, what=f"{'streamed' if answer.streamed else 'whole'}: {what}", why=why)


def _same(answer: Received, what: str, got: Any, wanted: Any) -> Check:
    why = _shown(got) if got == wanted else f"got {_shown(got)}; expected {_shown(wanted)}"
    return _check(answer, what, ok=got == wanted, why=why)


def _shown(value: Any) -> str:
    return cut(json.dumps(value, ensure_ascii=False), 160)


def received(turn: Turn) -> list[tuple[str, str]]:
    """What the model wrote, and what the client got of it."""
    answer = turn.received
    got = [answer.content] if answer.content else []
    got += [f"{show_call(call)}, id {call.id}" for call in answer.calls]
    got.append(f"finish_reason {answer.finish_reason}" if answer.ok else f"an error: {answer.refusal}")
    return [("the model wrote", turn.wrote), ("the client gets", "\n".join(got))]
