"""An exchange with calls that the middleware answers itself: `find_tools`, `respond`, and calls of tools that were not
shown. The backend writes one text after another; the client gets one answer, streamed and whole the same.
"""

from __future__ import annotations

import json
from typing import Any

from tests.helpers.stream_rules import check_stream, check_whole, same_answer
from tests.response.streams import chunk, completion, role, says
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall
from toolcall_middleware.settings import Settings

from .asked import USAGE
from .dice import Dice, chance, pick, pieces
from .driven import stream, whole
from .frames import cuts, frame, payloads
from .texts import FORMATS, NAMES, PROSE, TOOLS, VALUES, text_of
from .told import told

_NAMES = ("find_tools", "find_tools", "respond", *NAMES)


def settings_of(dice: Dice) -> Settings:
    """An operator's settings."""
    return Settings(
        format="auto" if dice.below(2) else pick(dice, FORMATS),
        tools_budget=pick(dice, (None, 1, 1, 1, 300)),
        choose=chance(dice, 3),
        unknown_tool=pick(dice, ("text", "text", "drop", "error")),
        validate_arguments=pick(dice, ("off", "off", "warn", "error", "retry")),
        stream_arguments=not chance(dice, 4),
        reasoning=pick(dice, ("ignore", "ignore", "parse")),
        reasoning_field=pick(dice, (None, "reasoning")),
        prose="drop" if chance(dice, 6) else "keep",
        max_tool_calls=pick(dice, (128, 1)),
        retries=dice.below(2),
    )


def one(dice: Dice) -> str:
    """See the module."""
    settings = settings_of(dice)
    request: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS}
    if chance(dice, 4):
        request["tool_choice"] = "required"
    if chance(dice, 6):
        request["stop"] = "Paris"
    texts = [_text(dice, settings.format) for _ in range(4)]
    reasons = [pick(dice, ("stop", "stop", "stop", "length")) for _ in texts]
    streams = [cuts(dice, frame(dice, _events(dice, *said), done=True)) for said in zip(texts, reasons, strict=True)]
    with told(texts=texts, reasons=reasons, request=request, settings=settings, streams=streams):
        streamed = stream(settings, request, *streams, inner=True)
        body = streamed.body
        answered = whole(settings, request, *map(_completion, texts, reasons))
        rules: dict[str, Any] = {
            "tools": {"weather", "find_all"},
            "parallel": settings.max_tool_calls != 1,
            "must_call": "tool_choice" in request,
        }
        assert b"find_tools" not in body or any("find_tools" in text for text in texts)
        if answered.error is not None or streamed.error is not None:
            if body:
                check_stream(payloads(body), **rules, error=True)
            return str(answered.error or streamed.error)
        had = check_whole(answered.body, **rules)
        got = check_stream(payloads(body), **rules)
        if not any("\ud800" in text or "<think" in text or "analysis" in text for text in texts):
            same_answer(got, had)
        return "calls" if got.only.calls else "text"


def _text(dice: Dice, own: str) -> str:
    if chance(dice, 4):
        return text_of(dice, own)[0]
    prose = "".join(pick(dice, PROSE) for _ in range(dice.below(3)))
    calls = []
    for _ in range(1 + dice.below(2)):
        name = pick(dice, _NAMES)
        values: dict[str, Any] = {key: pick(dice, VALUES) for key in ("city", "days")[: dice.below(3)]}
        if name in {"find_tools", "respond"}:
            values = {"query" if name == "find_tools" else "text": pick(dice, VALUES)}
        calls.append(ToolCall(name, json.dumps(values, ensure_ascii=bool(dice.below(2)))))
    written = registry.get(own if dice.below(2) else pick(dice, FORMATS)).render_calls(calls)
    return prose + (written[: dice.below(len(written) + 1)] if chance(dice, 6) else written)


def _events(dice: Dice, text: str, reason: str) -> list[dict[str, Any]]:
    said = [role(), *says(*pieces(dice, text)), chunk({}, reason)]
    head = {"id": f"c{dice.below(1000)}"}
    return [{**one, **head} for one in said]


def _completion(text: str, reason: str) -> bytes:
    return completion(text, reason, usage=USAGE)
