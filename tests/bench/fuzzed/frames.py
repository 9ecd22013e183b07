"""Event streams as servers write them: line ends, comments, several data lines; cut at any byte."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .dice import Dice, chance, pick

_LINE_ENDS = ("\n", "\n", "\n", "\r\n", "\r")
_COMMENTS = (": ping", ":", "id: 7", "retry: 1000", "event: message")


def frame(dice: Dice, payloads: Iterable[dict[str, Any]], *, done: bool = True, named: bool = False) -> bytes:
    """The payloads as one stream. done: with `[DONE]`. named: each has its `type` as the event's name."""
    end = pick(dice, _LINE_ENDS)
    indent = 1 if chance(dice, 6) else None
    plain = not chance(dice, 3)  # one event like the other
    escaped = chance(dice, 4)
    space = "" if chance(dice, 6) else " "
    lines: list[str] = ["\ufeff: begins"] if chance(dice, 12) else []
    for payload in payloads:
        if not plain and chance(dice, 5):
            lines += [pick(dice, _COMMENTS[:2]), ""]
        if named:
            lines.append(f"event:{space}{payload['type']}")
        elif not plain and chance(dice, 5):
            lines.append(pick(dice, _COMMENTS))
        text = json.dumps(payload, indent=indent, ensure_ascii=escaped or "\\ud8" in json.dumps(payload))
        lines += [f"data:{space}{line}" for line in text.split("\n")]
        lines.append("")
    if done:
        lines += [f"data:{space}[DONE]", ""]
    return "".join(line + end for line in lines).encode()


def cuts(dice: Dice, stream: bytes) -> list[bytes]:
    """The stream in the pieces that a connection brings: by event, by byte, or of any size."""
    kind = dice.below(4)
    if kind == 0:
        return [stream]
    if kind == 1:
        return [event + b"\n\n" for event in stream.removesuffix(b"\n\n").split(b"\n\n")]
    sizes = [1 + dice.below(7 if kind == 2 else 200) for _ in range(4)]
    cut: list[bytes] = []
    at = 0
    while at < len(stream):
        size = sizes[len(cut) % 4]
        cut.append(stream[at : at + size])
        at += size
    return cut


def payloads(stream: bytes) -> list[str]:
    """The data of each event, as a client reads it (WHATWG HTML, 9.2.6)."""
    text = stream.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
    found: list[str] = []
    data: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            found.append("\n".join(data))
            data = []
    assert not data, "the last event has no end"
    return found
