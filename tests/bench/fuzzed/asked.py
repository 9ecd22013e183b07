"""An exchange in prompt mode in which the client asks for something: tool_choice, n, stop, usage, logprobs, policies.

The answer is streamed at random cuts and whole, and both must be the same. Prose must arrive as it was written. The
text is in the content, in a thought there that may never end, or in the backend's reasoning field.
"""

from __future__ import annotations

import json
from typing import Any

from tests.helpers.stream_rules import Answered, check_stream, check_whole, same_answer
from tests.response.streams import HEAD, chunk
from toolcall_middleware.settings import Settings

from .dice import Dice, chance, pick, pieces
from .driven import Outcome, stream, whole
from .frames import cuts, frame, payloads
from .texts import FORMATS, TOOLS, text_of
from .told import told

USAGE = {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}
_NAMED = {"type": "function", "function": {"name": "weather"}}
_CHOICES: tuple[Any, ...] = (
    None, None, "auto", "required", _NAMED, "none",
    {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [_NAMED]}},
)  # fmt: skip
_STOPS = (None, None, "Paris", ["\n\n", "x <"], ["雨"])
_REASONS = ("stop", "stop", "stop", "length", "content_filter", "tool_calls")
_PLACES = ("content", "content", "content", "content", "<think>", "reasoning")


def settings_of(dice: Dice) -> Settings:
    """An operator's settings."""
    return Settings(
        format="auto" if dice.below(2) else pick(dice, FORMATS),
        unknown_tool=pick(dice, ("text", "text", "forward", "drop", "error")),
        malformed_arguments=pick(dice, ("repair", "repair", "repair", "text", "error", "forward")),
        validate_arguments=pick(dice, ("off", "off", "off", "warn", "error", "retry")),
        stream_arguments=not chance(dice, 4),
        reasoning=pick(dice, ("ignore", "ignore", "parse")),
        reasoning_field=pick(dice, (None, "reasoning", "reasoning_content")),
        reasoning_start=pick(dice, ("auto", "auto", "auto", "open")),
        prose="drop" if chance(dice, 6) else "keep",
        max_tool_calls=pick(dice, (128, 128, 1, 2)),
        usage=pick(dice, ("auto", "auto", "count")),
        retries=dice.below(2),
        extension_field="_toolcall" if chance(dice, 6) else None,
        arguments_as_object=chance(dice, 6),
        max_arguments_bytes=pick(dice, (1 << 22, 1 << 22, 1 << 22, 24)),
        parallel="never" if chance(dice, 8) else "client",
    )


def request_of(dice: Dice) -> dict[str, Any]:
    """What the client asks for."""
    request: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS}
    choice = pick(dice, _CHOICES)
    if choice is not None:
        request["tool_choice"] = choice
    if chance(dice, 4):
        request["parallel_tool_calls"] = False
    stop = pick(dice, _STOPS)
    if stop is not None:
        request["stop"] = stop
    if chance(dice, 4):
        request["n"] = 2
    if chance(dice, 4):
        request["logprobs"] = True
    if chance(dice, 8):
        _make_legacy(request)
    return request


def _make_legacy(request: dict[str, Any]) -> None:
    """The same in the words of the deprecated API."""
    request["functions"] = [tool["function"] for tool in request.pop("tools")]
    choice = request.pop("tool_choice", None)
    request.pop("parallel_tool_calls", None)
    if choice == _NAMED:
        request["function_call"] = {"name": "weather"}
    elif choice in {"auto", "none"} if isinstance(choice, str) else False:
        request["function_call"] = choice


def one(dice: Dice) -> str:
    """See the module."""
    settings, request = settings_of(dice), request_of(dice)
    place = pick(dice, _PLACES)
    opening = "<think>" if place == "<think>" else ""
    made = [text_of(dice, settings.format) for _ in range(request.get("n", 1))]
    texts = [opening + text for text, _ in made]
    field = "reasoning" if place == "reasoning" and "logprobs" not in request else "content"
    reasons = [pick(dice, _REASONS) for _ in texts]
    usage = None if dice.below(2) else USAGE
    asked = chance(dice, 2)
    events = _events(dice, texts, reasons, usage, field, logprobs="logprobs" in request)
    answer = _completion(request, texts, reasons, usage, field)
    if chance(dice, 10):  # the backend does not stream
        sent = cuts(dice, json.dumps(answer, indent=pick(dice, (None, 1))).encode())
    else:
        sent = cuts(dice, frame(dice, events, done=not chance(dice, 8)))
    with told(texts=texts, field=field, reasons=reasons, usage=usage, request=request, settings=settings, sent=sent):
        options = {"stream_options": {"include_usage": True}} if asked else {}
        streamed = stream(settings, {**request, **options}, sent)
        answered = whole(settings, request, json.dumps(answer).encode())
        prose = place == "content" and all(is_prose for _, is_prose in made)
        return _compare(settings, request, texts, streamed, answered, asked=asked, prose=prose)


def _events(
    dice: Dice,
    texts: list[str],
    reasons: list[str],
    usage: dict[str, int] | None,
    field: str = "content",
    *,
    logprobs: bool,
) -> list[dict[str, Any]]:
    """The chunks of all choices, each in its order, between each other as the dice fall."""
    queues: list[list[dict[str, Any]]] = []
    for index, (text, reason) in enumerate(zip(texts, reasons, strict=True)):
        first: dict[str, Any] = {"role": "assistant"}
        if dice.below(2):
            first["content"] = ""
        queue = [
            chunk({field: piece}, None, index=index, **({"logprobs": _logprobs(piece)} if logprobs else {}))
            for piece in pieces(dice, text)
        ]
        queue.insert(0, chunk(first, index=index))
        if len(queue) > 1 and chance(dice, 5):
            queue[-1]["choices"][0]["finish_reason"] = reason  # beside the last text
        else:
            queue.append(chunk({}, reason, index=index))
        queues.append(queue)
    events: list[dict[str, Any]] = []
    while any(queues):
        queue = pick(dice, [queue for queue in queues if queue])
        events.append(queue.pop(0))
    if usage is not None:
        events.append({**HEAD, "choices": [], "usage": usage})
    return events


def _completion(
    request: dict[str, Any], texts: list[str], reasons: list[str], usage: dict[str, int] | None, field: str = "content"
) -> dict[str, Any]:
    choices: list[dict[str, Any]] = [
        {"index": index, "message": {"role": "assistant", "content": None, field: text}, "finish_reason": reason}
        for index, (text, reason) in enumerate(zip(texts, reasons, strict=True))
    ]
    if "logprobs" in request:
        for text, choice in zip(texts, choices, strict=True):
            choice["logprobs"] = _logprobs(text)
    return {**HEAD, "object": "chat.completion", "choices": choices, **({"usage": usage} if usage else {})}


def _logprobs(token: str) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []}]}


def _compare(
    settings: Settings,
    request: dict[str, Any],
    texts: list[str],
    streamed: Outcome,
    answered: Outcome,
    *,
    asked: bool,
    prose: bool,
) -> str:
    choice = request.get("tool_choice", request.get("function_call", "auto"))
    legacy = "functions" in request
    named = isinstance(choice, dict) and choice.get("type") != "allowed_tools"
    single = request.get("parallel_tool_calls") is False or settings.parallel == "never" or named or legacy
    limited = isinstance(choice, dict)
    rules: dict[str, Any] = {
        "n": len(texts),
        "verbatim": settings.malformed_arguments == "forward",
        "tools": None if settings.unknown_tool == "forward" else {"weather"} if limited else {"weather", "find_all"},
        "parallel": not single and settings.max_tool_calls != 1,
        "must_call": choice == "required" or named,
        "legacy": legacy,
        "objects": False,
        "as_object": settings.arguments_as_object,
    }
    if answered.error is not None:
        # Of two choices that are at fault, the one is told of that comes first.
        several = len(texts) > 1 and streamed.error is not None
        assert several or streamed.error == answered.error, (streamed.error, answered.error)
        if streamed.body:
            check_stream(payloads(streamed.body), **rules, include_usage=asked, error=True)
        return str(answered.error)
    assert streamed.error is None, streamed.error
    had = check_whole(answered.body, **rules)
    got = check_stream(payloads(streamed.body), **rules, include_usage=asked)
    exact = not any("\ud800" in text for text in texts)
    if exact:
        same_answer(got, had)
    if asked and not streamed.stopped:
        assert (got.usage or {}) == (had.usage or {})
    _check_logprobs(request, texts, streamed, got)
    if prose and exact and settings.reasoning_field is None and settings.prose == "keep" and "stop" not in request:
        for text, made in zip(texts, got.choices, strict=True):
            # A thought that the prompt opened may be a channel's, which is never content.
            said = "".join((made.reasoning + (made.content or "")).split())
            assert said == "".join(text.split()), "prose was changed"
    return "calls" if any(made.calls for made in got.choices) else "text"


def _check_logprobs(request: dict[str, Any], texts: list[str], streamed: Outcome, got: Answered) -> None:
    """Each token's, once and in order."""
    if "logprobs" in request and not streamed.stopped:
        for text, choice in zip(texts, got.choices, strict=True):
            told_of = "".join(token["token"] for token in choice.logprobs)
            assert text.startswith(told_of), "logprobs that no token had"
            if choice.finish_reason in {"stop", "length"} and not choice.calls and not request.get("stop"):
                assert told_of == text, "logprobs were lost"
