"""Checks of a received answer. Every one is computed from what arrived; none is taken on trust."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ..command import many
from ..faces.answers import Received, ReceivedCall


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the demo's verdict. `why` says what was found, and what was expected where that differs.

    `mode` is `streamed`, `whole`, or empty for what concerns both.
    """

    ok: bool
    what: str
    why: str = ""
    mode: str = ""


def form_checks(answer: Received) -> list[Check]:
    """The wire's form: chunks, calls, ending, usage."""
    mode = mode_of(answer)
    if answer.status != 200:
        told = f"status {answer.status}: {answer.error}" if answer.error else answer.faults[0].text
        return [Check(ok=False, what="well-formed", why=told, mode=mode)]
    found = {area: [fault.text for fault in answer.faults if fault.area == area] for area in _AREAS}
    good = {
        "form": f"{answer.events} events, in their order" if answer.streamed else "a whole answer",
        "calls": ", ".join(f"{call.id[:9]}… in {many(call.pieces, 'piece')}" for call in answer.calls),
        "ending": f"finish_reason {answer.finish_reason}",
        "usage": usage_of(answer),
    }
    return [
        Check(ok=not found[area], what=what, why="; ".join(found[area]) or good[area], mode=mode)
        for area, what in _AREAS.items()
        if found[area] or good[area]
    ]


_AREAS = {
    "form": "well-formed",
    "calls": "ids, index, type, name once",
    "ending": "the end is truthful",
    "usage": "usage comes once and adds up",
}


def calls_check(answer: Received, expected: Sequence[tuple[str, Any]]) -> Check:
    """Whether exactly the calls `expected`, (name, decoded arguments) each, came out."""
    received = [(call.name, decoded(call)) for call in answer.calls]
    got, wanted = _shown(received), _shown(expected)
    ok = received == list(expected)
    what = f"{many(len(expected), 'call') if expected else 'no call'}, as the model meant it"
    return Check(ok=ok, what=what, why=got if ok else f"got {got}; expected {wanted}", mode=mode_of(answer))


def content_check(answer: Received, expected: str | None, *, exact: bool = False) -> Check:
    """Whether the text is `expected` (None: null); white space at the ends counts only where `exact`."""
    got = answer.content
    ok = got == expected if exact or got is None or expected is None else got.strip() == expected.strip()
    what = "content is the model's text to the byte" if exact else "content without markup"
    why = quote(got) if ok else f"got {quote(got)}; expected {quote(expected)}"
    return Check(ok=ok, what=what, why=why, mode=mode_of(answer))


def finish_check(answer: Received, expected: str) -> Check:
    """Whether the answer ended as it had to."""
    got = answer.finish_reason
    why = "" if got == expected else f"got {got!r}" + (f", error {answer.error}" if answer.error else "")
    return Check(ok=got == expected, what=f"finish_reason is {expected}", why=why, mode=mode_of(answer))


def schema_check(answer: Received, tools: Sequence[dict[str, Any]], *, name: str | None = None) -> Check:
    """Whether there is a call, each of an offered tool (of `name`, where given), valid by its schema."""
    what = f"a valid call of {name or 'an offered tool'}"
    why = _invalid(answer, {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}, name)
    shown = _shown([(call.name, decoded(call)) for call in answer.calls])
    return Check(ok=why is None, what=what, why=shown if why is None else why, mode=mode_of(answer))


def _invalid(answer: Received, schemas: Mapping[str, Any], name: str | None) -> str | None:
    if not answer.calls:
        return f"no call: {answer.error or quote(answer.content)}"
    for call in answer.calls:
        if call.name not in schemas or name not in {None, call.name}:
            return f"a call of {call.name!r}"
        error = best_match(Draft202012Validator(schemas[call.name]).iter_errors(decoded(call)))
        if error is not None:
            return f"{show_call(call.name, decoded(call))}: {error.message}"
    return None


def agreement_check(streamed: Received, whole: Received) -> Check:
    """Whether both modes carry the same content, calls, ending and usage. Answers that are errors do not."""
    names = ("content", "calls", "finish_reason", "usage")
    pairs = zip(names, streamed.same_answer(), whole.same_answer(), strict=True)
    differences = [f"{name}: streamed {one!r}, whole {other!r}" for name, one, other in pairs if one != other]
    differences += [
        f"{mode_of(answer)}: status {answer.status}" for answer in (streamed, whole) if answer.status != 200
    ]
    return Check(ok=not differences, what="streamed and whole say the same", why="; ".join(differences))


def show_call(name: str, arguments: Any) -> str:
    """A call in one line."""
    return f"{name}({_cut(json.dumps(arguments, ensure_ascii=False), 160)})"


def decoded(call: ReceivedCall) -> Any:
    """The call's arguments as a value, or as the text they are where they are no JSON."""
    try:
        return call.decoded()
    except ValueError:
        return call.arguments


def mode_of(answer: Received) -> str:
    """`streamed` or `whole`."""
    return "streamed" if answer.streamed else "whole"


def usage_of(answer: Received) -> str:
    """The usage as a sum; empty where there is none."""
    usage = answer.usage
    if usage is None:
        return ""
    total = f"{usage.get('prompt_tokens')} + {usage.get('completion_tokens')} = {usage.get('total_tokens')}"
    return f"{total}, estimated" if usage.get("estimated") else total


def quote(text: str | None) -> str:
    """A text, cut short and quoted; `null` for None."""
    return "null" if text is None else repr(_cut(text, 70))


def _shown(calls: Sequence[tuple[str, Any]]) -> str:
    return " · ".join(show_call(name, arguments) for name, arguments in calls) or "none"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
