"""An exchange in prompt mode, streamed at random cuts and whole: both must give the same answer."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

from tests.helpers.driven import Driven
from tests.helpers.stream_rules import Answered, check_stream, check_whole, same_answer
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from .dice import Dice
from .texts import FORMATS, TOOLS, text_of
from .told import told


def settings_of(dice: Dice) -> Settings:
    """An operator's settings."""
    return _SETTINGS[dice.below(len(_SETTINGS))]


_SETTINGS = [
    Settings(
        format=name,
        unknown_tool=unknown,
        stream_arguments=stream,
        reasoning_field=reasoning,
        reasoning_start=start,
        retries=0,  # an empty answer would be asked for again
    )
    for name, unknown, stream, reasoning, start in itertools.product(
        ("auto", "auto", "auto", *FORMATS), ("text", "forward"), (True, False), (None, "reasoning"), ("auto", "open")
    )
]
_PLACES = ("content", "content", "content", "<think>", "reasoning")
"""Where the text stands: in the content, in a thought there that may never end, or in the backend's reasoning field."""


def one(dice: Dice) -> str:
    """One exchange, streamed and whole. Raises AssertionError where a rule does not hold; gives what came of it."""
    settings = settings_of(dice)
    text, prose = text_of(dice, settings.format)
    reason = ("stop", "stop", "length")[dice.below(3)]
    sizes = [1 + dice.below(12) for _ in range(4)]
    place = _PLACES[dice.below(len(_PLACES))]
    field = "reasoning" if place == "reasoning" else "content"
    if place == "<think>":
        text, prose = place + text, False
    with told(text=text, field=field, reason=reason, sizes=sizes, settings=settings):
        return _checked(settings, text, field, reason, sizes, prose=prose)


def _checked(settings: Settings, text: str, field: str, reason: str, sizes: list[int], *, prose: bool) -> str:
    try:
        whole = _whole(settings, text, field, reason)
    except ToolCallError as refusal:
        if refusal.code != "malformed_tool_arguments":
            raise
        # Arguments that are no object are a fault of the model, which a stream tells as its last event.
        with contextlib.suppress(ToolCallError):
            assert b'"malformed_tool_arguments"' in _sent(settings, text, field, reason, sizes)
        return "refused"
    streamed = check_stream(_sent(settings, text, field, reason, sizes), **_expected(settings))
    if "\ud800" not in text:  # half a surrogate pair may leave as itself or as an escape: both are the same JSON
        same_answer(streamed, whole)
    choice = streamed.choices[0]
    plain = "".join(text.split())
    if prose and settings.reasoning_field is None and field == "content":
        # A thought that the prompt opened may be a channel's, which is never content.
        got = "".join((choice.reasoning + (choice.content or "")).split())
        assert got == plain.encode("utf-8", "replace").decode() or got == plain, "prose was changed"
    return "calls" if choice.calls else "text"


def _expected(settings: Settings) -> dict[str, Any]:
    return {"tools": None if settings.unknown_tool == "forward" else {"weather", "find_all"}, "objects": False}


def _body(*, stream: bool) -> bytes:
    messages = [{"role": "user", "content": "Go."}]
    return json.dumps({"model": "m", "messages": messages, "tools": TOOLS, "stream": stream}).encode()


_BODIES = {stream: _body(stream=stream) for stream in (True, False)}
_HEAD = {"id": "c", "created": 1, "model": "m"}


def _sent(settings: Settings, text: str, field: str, reason: str, sizes: list[int]) -> bytes:
    exchange = Driven(settings, BackendMemory())
    assert exchange.on_request(_BODIES[True]) is not None
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(text):
            break
        deltas.append(({field: text[at : at + size]}, None))
        at += size
    deltas.append(({}, reason))
    events = [
        b"data: %s\n\n"
        % json.dumps(
            {**_HEAD, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": r}]}
        ).encode()
        for d, r in deltas
    ]
    events.append(b"data: [DONE]\n\n")
    out = b""
    for event in events:
        out += exchange.feed(event)
        if exchange.stopped:
            break
    else:
        out += exchange.finish()
    return out


def _whole(settings: Settings, text: str, field: str, reason: str) -> Answered:
    exchange = Driven(settings, BackendMemory())
    exchange.on_request(_BODIES[False])
    exchange.on_response_start(200, [(b"content-type", b"application/json")])
    choice = {"index": 0, "message": {"role": "assistant", "content": None, field: text}, "finish_reason": reason}
    reply = exchange.whole(json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice]}).encode())
    assert reply is not None
    return check_whole(reply.body, **_expected(settings))
