"""The backend's own calls, in native mode or made by itself in prompt mode: with what engines get wrong, and at the end
it may break off.

What the client has to get is known: the text, and the calls with their arguments to the character.
"""

from __future__ import annotations

import json
from typing import Any

from tests.helpers.stream_rules import Answered, check_stream, check_whole, same_answer
from tests.response.streams import HEAD, chunk, completion
from toolcall_middleware.settings import Settings

from .asked import USAGE
from .dice import Dice, chance, pick, pieces
from .driven import Outcome, stream, whole
from .frames import cuts, frame, payloads
from .texts import TOOLS, VALUES
from .told import told

_PROSE = ("", "", "The rain in Paris. ", "雨が降る。", "x < y && y > z ", "😀 {a: [1]}\n")
_REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS}
_FAULTS = ("none", "none", "index", "name again", "id again", "cumulative", "late id", "index 0", "object", "whole")


def one(dice: Dice) -> str:
    """See the module."""
    mode = "prompt" if chance(dice, 3) else "native"
    settings = Settings(
        retries=0,  # an empty answer would be asked for again
        mode=mode,
        stream_arguments=not chance(dice, 3),
        validate_arguments="warn" if chance(dice, 4) else "off",
        rewrite_ids=chance(dice, 4),
        reasoning_field=pick(dice, (None, "reasoning")),
    )
    text = "".join(pick(dice, _PROSE) for _ in range(2))
    calls = [_call(dice) for _ in range(dice.below(4))]
    fault = pick(dice, _FAULTS)
    asked = chance(dice, 2)
    reason = "length" if chance(dice, 5) else pick(dice, ("tool_calls", "stop")) if calls else "stop"
    usage = None if dice.below(2) else USAGE
    events = _events(dice, text, calls, fault, reason)
    if usage is not None:
        events.append({**HEAD, "choices": [], "usage": usage})
    ending = pick(dice, ("done", "done", "done", "no done", "error", "cut"))
    if ending in {"error", "cut"}:
        events = events[: 1 + dice.below(len(events))]
    if ending == "error":
        events.append({"error": {"message": "engine died", "code": 500}})
    sent = cuts(dice, frame(dice, events, done=ending == "done"))
    with told(text=text, calls=calls, fault=fault, ending=ending, usage=usage, reason=reason, settings=settings):
        request: dict[str, Any] = {**_REQUEST, **({"stream_options": {"include_usage": True}} if asked else {})}
        outcome = stream(settings, request, sent, cut=ending == "cut")
        if ending in {"error", "cut"}:
            return _broken(outcome, text, calls, ending, streams=settings.stream_arguments)
        assert outcome.error is None, outcome.error
        rules: dict[str, Any] = {"tools": {"weather", "find_all"}, "own_ids": mode == "prompt"}
        got = check_stream(payloads(outcome.body), include_usage=asked, **rules)
        answer = _completion(text, calls, reason)
        had = check_whole(whole(settings, _REQUEST, answer).body, **rules)
        if fault != "object":  # which is spelled anew
            same_answer(got, had)
        _as_sent(got, text, calls)
        if asked and usage is not None:
            assert got.usage is not None
            assert {name: got.usage[name] for name in usage} == usage, got.usage
    return "calls" if calls else "text"


def _call(dice: Dice) -> tuple[str, str]:
    values = {key: pick(dice, VALUES) for key in ("city", "days", "at")[: dice.below(4)]}
    spaced = None if dice.below(2) else (",", ":")
    written = json.dumps(values, ensure_ascii=bool(dice.below(2)), separators=spaced)
    return pick(dice, ("weather", "find_all")), written


def _events(dice: Dice, text: str, calls: list[tuple[str, str]], fault: str, reason: str) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if dice.below(2) else None}]
    deltas += [{"content": piece} for piece in pieces(dice, text)]
    for number, (name, arguments) in enumerate(calls):
        deltas += [{"tool_calls": [entry]} for entry in _entries(dice, number, name, arguments, fault)]
    return [*map(chunk, deltas), chunk({}, reason)]


def _entries(dice: Dice, number: int, name: str, arguments: str, fault: str) -> list[dict[str, Any]]:
    """A call's deltas, with the engine's fault."""
    identity = f"call_{number}"
    if fault == "object":
        return [{"index": number, "id": identity, "function": {"name": name, "arguments": json.loads(arguments)}}]
    if fault in {"whole", "index 0"}:
        index = 0 if fault == "index 0" else number
        return [
            {"index": index, "id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
        ]
    opening: dict[str, Any] = {"index": number, "id": identity, "type": "function", "function": {"name": name}}
    if dice.below(2):
        opening["function"]["arguments"] = ""
    entries = [opening]
    sofar = ""
    for piece in pieces(dice, arguments):
        sofar += piece
        if fault == "cumulative" and sofar != arguments and sofar.rstrip()[-1] in ":[,":
            continue  # an object may follow: no telling whether it is all of them again
        entry: dict[str, Any] = {"index": number, "function": {"arguments": sofar if fault == "cumulative" else piece}}
        if fault == "name again":
            entry["function"]["name"] = name
        if fault == "id again":
            entry |= {"id": identity, "type": "function"}
        entries.append(entry)
    if fault == "index":
        for entry in entries:
            del entry["index"]
    if fault == "late id":
        del opening["id"]
        entries[-1]["id"] = identity
    return entries


def _completion(text: str, calls: list[tuple[str, str]], reason: str) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": text or None if calls else text}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(calls)
        ]
    return completion(message, reason, usage=USAGE)


def _as_sent(got: Answered, text: str, calls: list[tuple[str, str]]) -> None:
    choice = got.only
    assert (choice.content or "") == text, (choice.content, text)
    assert [call.name for call in choice.calls] == [name for name, _ in calls], choice.named_calls
    for call, (_, arguments) in zip(choice.calls, calls, strict=True):
        assert call.parsed == json.loads(arguments), (call.arguments, arguments)


def _broken(outcome: Outcome, text: str, calls: list[tuple[str, str]], ending: str, *, streams: bool) -> str:
    """The backend broke off: an error, and what had come before it is the beginning of the answer.

    streams: half a call is one; otherwise it is text.
    """
    body = outcome.body
    if not body:
        assert outcome.error is not None, "neither an answer nor an error"
        return ending
    told_of = '"error"' in payloads(body)[-2]
    got = check_stream(
        payloads(body), tools={"weather", "find_all"}, own_ids=False, error=told_of, include_usage=b'"usage":{' in body
    )
    if not told_of:  # all of it had come but the last word
        assert got.only.finish_reason is not None, "it broke off, and nobody said so"
    for choice in got.choices:
        content = choice.content or ""
        assert text.startswith(content) or (not streams and content.startswith(text + '{"name":')), (content, text)
        for call, (name, _) in zip(choice.calls, calls, strict=False):
            assert call.name == name, choice.named_calls
        assert len(choice.calls) <= len(calls)
    return ending
