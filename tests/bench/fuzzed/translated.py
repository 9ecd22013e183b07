"""Answers of Anthropic's and Google's APIs as chat completions: a stream, cut anywhere, and whole say the same."""

from __future__ import annotations

import json
from typing import Any

from tests.apis.translated import stream_of
from tests.helpers.stream_rules import Answered, check_stream, check_whole, same_answer
from toolcall_middleware.apis.google.translation import GoogleTranslation
from toolcall_middleware.apis.messages.upstream.translation import AnthropicTranslation
from toolcall_middleware.apis.upstream import Translation

from .dice import Dice, chance, pick, pieces
from .frames import cuts, frame, payloads
from .texts import PROSE, TOOLS, VALUES
from .told import told

_TEXTS = tuple(text for text in PROSE if text != "\ud800")


def anthropic(dice: Dice) -> str:
    """An answer of the Messages API."""
    blocks: list[dict[str, Any]] = []
    if chance(dice, 3):
        blocks.append({"type": "thinking", "thinking": pick(dice, _TEXTS), "signature": "c2ln"})
    for number in range(dice.below(4)):
        if dice.below(2):
            blocks.append({"type": "text", "text": "".join(pick(dice, _TEXTS) for _ in range(1 + dice.below(4)))})
        else:
            name = pick(dice, ("weather", "find_all"))
            blocks.append({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": _values(dice)})
    called = any(block["type"] == "tool_use" for block in blocks)
    reason = pick(dice, ("tool_use" if called else "end_turn", "max_tokens"))
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    usage = {"input_tokens": 5, "output_tokens": 7}
    whole = {**head, "content": blocks, "stop_reason": reason, "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}}
    ]
    for index, block in enumerate(blocks):
        events += _block(dice, index, block)
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    sent = cuts(dice, frame(dice, events, done=False, named=True))
    with told(whole=whole, sent=sent):
        return _compare(dice, lambda: AnthropicTranslation(default_max_tokens=100), whole, sent)


def _block(dice: Dice, index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    """A content block as the events of a stream."""
    match block:
        case {"type": "text", "text": text}:
            empty: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(dice, text)]
        case {"type": "thinking", "thinking": text}:
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(dice, text)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case _:
            empty = {**block, "input": {}}
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(dice, written))]
    events: list[dict[str, Any]] = [{"type": "content_block_start", "index": index, "content_block": empty}]
    if chance(dice, 4):
        events.append({"type": "ping"})
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}]


def google(dice: Dice) -> str:
    """An answer of `generateContent`."""
    parts: list[dict[str, Any]] = []
    streamed: list[dict[str, Any]] = []
    if chance(dice, 3):
        thought = {"text": pick(dice, _TEXTS), "thought": True}
        parts.append(thought)
        streamed.append(thought)
    for _ in range(dice.below(4)):
        if dice.below(2):
            text = "".join(pick(dice, _TEXTS) for _ in range(1 + dice.below(4)))
            parts.append({"text": text})
            streamed += [{"text": piece} for piece in pieces(dice, text)]
        else:
            call = {"functionCall": {"name": pick(dice, ("weather", "find_all")), "args": _values(dice)}}
            parts.append(call)
            streamed.append(call)
    reason = pick(dice, ("STOP", "STOP", "MAX_TOKENS"))
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}
    head = {"responseId": "r1", "modelVersion": "gemini-3-pro"}
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": reason}
    whole = {**head, "candidates": [candidate], "usageMetadata": usage}
    events: list[dict[str, Any]] = []
    while streamed:
        size = 1 + dice.below(3)
        taken, streamed = streamed[:size], streamed[size:]
        events.append({**head, "candidates": [{"index": 0, "content": {"role": "model", "parts": taken}}]})
    last = {"index": 0, "content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": reason}
    events.append({**head, "candidates": [last], "usageMetadata": usage})
    sent = cuts(dice, frame(dice, events, done=False))
    with told(whole=whole, sent=sent):
        return _compare(dice, GoogleTranslation, whole, sent)


def _values(dice: Dice) -> dict[str, Any]:
    return {key: pick(dice, VALUES) for key in ("city", "days", "at")[: dice.below(4)]}


def _compare(dice: Dice, make: Any, whole: dict[str, Any], sent: list[bytes]) -> str:
    asked = chance(dice, 2)
    broken = chance(dice, 5)
    request: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS}
    translation: Translation = make()
    translation.request(json.dumps(request).encode())
    had = check_whole(translation.whole(200, json.dumps(whole).encode())[1], own_ids=False)
    translation = make()
    options = {"stream_options": {"include_usage": True}} if asked else {}
    translation.request(json.dumps({**request, "stream": True, **options}).encode())
    if broken:
        sent = sent[: dice.below(len(sent) + 1)]
    reader = stream_of(translation)
    out = b"".join(map(reader.feed, sent)) + reader.finish(cut=False)
    assert reader.done
    failed = '"error"' in payloads(out)[-2] if len(payloads(out)) > 1 else True
    got = check_stream(payloads(out), own_ids=False, include_usage=asked and not failed, error=failed)
    if failed:
        assert broken, "an error in a whole stream"
        _begins(got, had)
        return "broken"
    same_answer(got, had)
    if asked:
        assert got.usage == had.usage, (got.usage, had.usage)
    return "calls" if got.only.calls else "text"


def _begins(got: Answered, had: Answered) -> None:
    """What had come of a stream that broke off is the beginning of the answer."""
    for choice in got.choices:
        full = had.only
        assert (full.content or "").startswith(choice.content or ""), (choice, full)
        for call, whole in zip(choice.calls, full.calls, strict=False):
            assert call.name == whole.name
            assert whole.arguments.startswith(call.arguments), (call, whole)
        assert len(choice.calls) <= len(full.calls)
