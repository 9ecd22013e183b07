"""Random exchanges, written to a file once for both sides: `python -m tests.same.inputs FILE COUNT SEED`.

The dice are those of tests/bench/fuzzed, in the tree that the command is run in. A line is an exchange: the settings,
the request, the backend's stream (in pieces cut by the dice, base64) and how it ends, and its whole answer.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.fuzzed import asked, native, translated
from tests.bench.fuzzed.dice import Dice, Seeded, chance, pick, pieces
from tests.bench.fuzzed.frames import cuts, frame
from tests.bench.fuzzed.texts import FORMATS, TOOLS, text_of
from tests.response.streams import HEAD, chunk, completion, role, says

_PLAIN = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS}
_PROSE = native._PROSE


def by_prompt(dice: Dice) -> dict[str, Any]:
    """A model's text, and a client that may ask for anything."""
    settings: dict[str, Any] = {
        "format": "auto" if dice.below(2) else pick(dice, FORMATS),
        "mode": "auto" if chance(dice, 8) else "prompt",
        "unknown_tool": pick(dice, ("text", "text", "forward", "drop", "error")),
        "malformed_arguments": pick(dice, ("repair", "repair", "repair", "text", "error")),
        "validate_arguments": pick(dice, ("off", "off", "off", "warn", "error", "retry")),
        "stream_arguments": not chance(dice, 4),
        "reasoning": pick(dice, ("ignore", "ignore", "parse")),
        "reasoning_field": pick(dice, (None, "reasoning", "reasoning_content")),
        "prose": "drop" if chance(dice, 6) else "keep",
        "max_tool_calls": pick(dice, (128, 128, 1, 2)),
        "usage": pick(dice, ("auto", "auto", "count", "off", "backend")),
        "retries": dice.below(2),
        "extension_field": "_toolcall" if chance(dice, 6) else None,
        "arguments_as_object": chance(dice, 6),
        "max_arguments_bytes": pick(dice, (1 << 22, 1 << 22, 1 << 22, 24)),
        "parallel": "never" if chance(dice, 8) else "client",
    }
    plain = dice.below(3) == 0  # what most clients ask
    request: dict[str, Any] = dict(_PLAIN) if plain else asked.request_of(dice)
    texts = [text_of(dice, settings["format"])[0] for _ in range(int(request.get("n", 1)))]
    reasons = [pick(dice, ("stop", "stop", "stop", "length", "content_filter", "tool_calls")) for _ in texts]
    usage = None if dice.below(2) else asked.USAGE
    events = asked._events(dice, texts, reasons, usage, logprobs="logprobs" in request)
    whole = asked._completion(request, texts, reasons, usage)
    return _ended(dice, settings, request, events, whole)


def by_native(dice: Dice) -> dict[str, Any]:
    """A backend's own calls, with what engines get wrong."""
    settings = {
        "mode": pick(dice, ("native", "native", "auto")),
        "stream_arguments": not chance(dice, 3),
        "validate_arguments": "warn" if chance(dice, 4) else "off",
        "rewrite_ids": chance(dice, 4),
        "arguments_as_object": chance(dice, 6),
        "reasoning_field": pick(dice, (None, "reasoning")),
    }
    text = "".join(pick(dice, _PROSE) for _ in range(2))
    calls = [native._call(dice) for _ in range(dice.below(4))]
    fault = pick(dice, native._FAULTS)
    reason = "length" if chance(dice, 5) else pick(dice, ("tool_calls", "stop")) if calls else "stop"
    events = native._events(dice, text, calls, fault, reason)
    if dice.below(2):
        events.append({**HEAD, "choices": [], "usage": asked.USAGE})
    return _ended(dice, settings, dict(_PLAIN), events, json.loads(native._completion(text, calls, reason)))


def by_reasoning(dice: Dice) -> dict[str, Any]:
    """A backend that gives a field of its own for reasoning, and calls in it or in the text."""
    name = "auto" if dice.below(2) else pick(dice, FORMATS)
    settings: dict[str, Any] = {
        "format": name,
        "reasoning": pick(dice, ("ignore", "parse")),
        "reasoning_field": pick(dice, (None, "reasoning", "reasoning_content")),
        "stream_arguments": not chance(dice, 4),
    }
    key = pick(dice, ("reasoning", "reasoning_content"))
    thought, text = text_of(dice, name)[0], text_of(dice, name)[0]
    events = [role(), *(chunk({key: piece}) for piece in pieces(dice, thought)), *says(*pieces(dice, text))]
    events.append(chunk({}, "stop"))
    whole = json.loads(completion({key: thought, "content": text}))
    return _ended(dice, settings, dict(_PLAIN), events, whole)


def by_api(make: Callable[[Dice], str], dice: Dice) -> dict[str, Any]:
    """An answer of another API: what `make` would check is taken from it."""
    made: list[tuple[dict[str, Any], list[bytes]]] = []

    def kept(dice: Dice, make: Any, whole: dict[str, Any], sent: list[bytes]) -> str:
        made.append((whole, sent))
        return ""

    compares = translated._compare
    translated._compare = kept
    try:
        make(dice)
    finally:
        translated._compare = compares
    [(whole, sent)] = made
    broken = chance(dice, 5)
    return {
        "request": {**_PLAIN, **({"stream_options": {"include_usage": True}} if dice.below(2) else {})},
        "sent": [base64.b64encode(piece).decode() for piece in (sent[: dice.below(len(sent) + 1)] if broken else sent)],
        "cut": "raises" if broken and dice.below(2) else "",
        "whole": whole,
    }


KINDS: dict[str, Callable[[Dice], dict[str, Any]]] = {
    "prompt": by_prompt,
    "native": by_native,
    "reasoning": by_reasoning,
    "anthropic": partial(by_api, translated.anthropic),
    "google": partial(by_api, translated.google),
}
_WEIGHTED = ("prompt", "prompt", "prompt", "prompt", "native", "native", "reasoning", "anthropic", "google")


def _ended(
    dice: Dice, settings: dict[str, Any], request: dict[str, Any], events: list[dict[str, Any]], whole: dict[str, Any]
) -> dict[str, Any]:
    """The exchange, its stream written and broken off as the dice fall."""
    if dice.below(2):
        request["stream_options"] = {"include_usage": True}
    ending = pick(dice, ("done",) * 9 + ("no done", "error", "cut", "raises", "garbage", "not streamed"))
    if ending in {"error", "cut", "raises", "garbage"}:
        events = events[: 1 + dice.below(len(events))]
    if ending == "error":
        events = [*events, {"error": {"message": "engine died", "code": 500}}]
    data = frame(dice, events, done=ending == "done")
    if ending == "garbage":
        data += b"<html>502</html>"
    if ending == "not streamed":
        data = json.dumps(whole).encode()
    return {
        "settings": settings,
        "request": request,
        "sent": [base64.b64encode(piece).decode() for piece in cuts(dice, data)],
        "cut": ending if ending in {"cut", "raises"} else "",
        "kind": "application/json" if ending == "not streamed" else "text/event-stream",
        "whole": whole,
    }


def exchanges(count: int, seed: int) -> list[dict[str, Any]]:
    """`count` random exchanges, the same for the same seed."""
    made: list[dict[str, Any]] = []
    for number in range(count):
        dice = Seeded(seed * 10_000_000 + number)
        kind = pick(dice, _WEIGHTED)
        made.append({"name": f"{number:05}-{kind}", **KINDS[kind](dice)})
    return made


def main() -> None:
    path, count, seed = sys.argv[1:]
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(made) + "\n" for made in exchanges(int(count), int(seed)))


if __name__ == "__main__":
    main()
