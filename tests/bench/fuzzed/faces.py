"""An exchange on the faces of Messages and Responses: what the chat says, in the clients' own words.

The model's text goes through the exchange, streamed at random cuts and whole, and through the face, which gets the chat
stream in other pieces. The clients' SDKs accumulate what leaves. Nothing may be lost: calls, text, thoughts and usage
are the chat's, and stream and whole say the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.apis.fed import Fed, MessagesFace, ResponsesFace
from tests.apis.messages import received as by_messages
from tests.apis.responses import received as by_responses
from tests.helpers.driven import Driven
from tests.helpers.stream_rules import Answered, check_stream, check_whole
from tests.response.streams import chunk, completion, role, says
from toolcall_middleware.apis.face import FaceRequest
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory
from toolcall_middleware.wire.json_input import without_lone_surrogates

from .dice import Dice, pick, pieces
from .frames import cuts
from .texts import FORMATS, TOOLS, text_of
from .told import told

_ACCUMULATED = 16  # one of so many streams also goes through the SDK's accumulator, which takes most of the time
_ENDED = {"tool_calls": "tool_use", "length": "max_tokens", "stop": "end_turn"}


@dataclass(frozen=True)
class _Got:
    """What a client has in the end. calls: name, and the arguments as JSON text, or the object that they are."""

    calls: list[tuple[str, Any]]
    text: str
    thought: str
    usage: tuple[int, int]
    reason: str


@dataclass(frozen=True)
class _Way:
    """One face. body: of a request. stream, whole: what a client makes of what leaves, the first by
    the SDK's accumulator where that is asked for. reason: the chat's as its own.

    objects: arguments are an object, whatever the model wrote.
    """

    make: Callable[[], Fed]
    body: dict[str, Any]
    stream: Callable[[bytes, bool], _Got]
    whole: Callable[[bytes], _Got]
    reason: Callable[[str], str]
    objects: bool


def one(dice: Dice) -> str:
    """See the module."""
    way = pick(dice, _WAYS)
    settings = _settings(dice)
    text = text_of(dice, settings.format)[0]
    reason = ("stop", "stop", "length")[dice.below(3)]
    sent = pieces(dice, text)
    with told(api=way.make().api, text=text, reason=reason, sent=sent, settings=settings):
        return _checked(dice, way, settings, text, sent, reason)


def _settings(dice: Dice) -> Settings:
    name = pick(dice, ("auto", "auto", *FORMATS))
    unknown = pick(dice, ("text", "forward"))
    # An empty answer would be asked for again.
    return Settings(format=name, unknown_tool=unknown, stream_arguments=dice.below(3) > 0, retries=0)


def _checked(dice: Dice, way: _Way, settings: Settings, text: str, sent: list[str], reason: str) -> str:
    try:
        chat, whole = _collected(way, settings, text, reason)
    except ToolCallError as refusal:
        _refused(way, refusal)
        return "refused"
    answer, face = _streamed(way, settings, sent, reason)
    streamed = check_stream(answer, tools=None, objects=False, include_usage=True)
    accumulate = dice.below(_ACCUMULATED) == 0
    at_once = way.stream(face.feed(answer) + face.finish(cut=False), accumulate)
    face, _ = _requested(way, stream=True)
    cut = way.stream(b"".join([face.feed(piece) for piece in cuts(dice, answer)]) + face.finish(cut=False), accumulate)
    assert cut == at_once
    if "\ud800" not in text:  # half a surrogate pair has no bytes
        _compare(way, at_once, streamed)
        _compare(way, whole, chat)
        last = -1 if chat.choices[0].finish_reason == "length" else None  # what was cut is no JSON
        assert _sayable(at_once.calls[:last]) == _sayable(whole.calls[:last])
        assert _words(at_once.text) == _words(whole.text)
    return "calls" if at_once.calls else "text"


def _refused(way: _Way, refusal: ToolCallError) -> None:
    """The model's fault is told in the API's own form."""
    face = way.make()
    face.request(json.dumps(way.body).encode())
    reply = face.error(refusal)
    told_error = json.loads(reply.body)["error"]
    assert (reply.status, told_error["message"]) == (500 if way.objects else 400, refusal.message)


def _requested(way: _Way, *, stream: bool) -> tuple[Fed, FaceRequest]:
    face = way.make()
    return face, face.request(json.dumps({**way.body, "stream": stream}).encode())


def _asked(way: _Way, settings: Settings, *, stream: bool) -> tuple[Fed, Driven]:
    face, request = _requested(way, stream=stream)
    exchange = Driven(settings.layer(dict(face.settings), "face"), BackendMemory())
    assert exchange.on_request(request.body) is not None
    return face, exchange


def _streamed(way: _Way, settings: Settings, sent: list[str], reason: str) -> tuple[bytes, Fed]:
    face, exchange = _asked(way, settings, stream=True)
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    out = b""
    for payload in (role(), *says(*sent), chunk({}, reason)):
        out += exchange.feed(b"data: %b\n\n" % json.dumps(payload).encode())
        if exchange.stopped:
            return out, face
    return out + exchange.feed(b"data: [DONE]\n\n") + exchange.finish(), face


def _collected(way: _Way, settings: Settings, text: str, reason: str) -> tuple[Answered, _Got]:
    face, exchange = _asked(way, settings, stream=False)
    exchange.on_response_start(200, [(b"content-type", b"application/json")])
    reply = exchange.whole(completion(text, reason))
    assert reply is not None
    chat = check_whole(reply.body, tools=None, objects=False)
    return chat, way.whole(face.whole(reply.status, {}, reply.body).body)


def _compare(way: _Way, got: _Got, chat: Answered) -> None:
    choice = chat.choices[0]
    reason = choice.finish_reason or ""
    assert [name for name, _ in got.calls] == [call.name for call in choice.calls]
    # What was cut is no JSON, and an object has to be one all the same.
    known = choice.calls[:-1] if reason == "length" and way.objects else choice.calls
    for (_, arguments), call in zip(got.calls, known, strict=False):
        assert _sayable(arguments) == _sayable(_as_object(call.arguments) if way.objects else call.arguments)
    assert _words(got.text) == _words(choice.content or "")
    assert _words(got.thought) == _words(choice.reasoning)
    usage = chat.usage or {}
    assert got.usage == (usage["prompt_tokens"], usage["completion_tokens"])
    assert got.reason == way.reason(reason)


def _as_object(arguments: str) -> Any:
    value = json.loads(arguments) if arguments.strip() else {}
    return value if isinstance(value, dict) else {} if value is None else {"arguments": value}


def _sayable(value: Any) -> str:
    """The value as JSON, with U+FFFD for half a surrogate pair: a stream of Messages cannot say it in arguments."""
    return without_lone_surrogates(json.dumps(value).encode()).decode()


def _words(text: str) -> str:
    """Without white space: what stands alone between blocks is left out, and whole answers join the rest."""
    return "".join(text.split())


def _of_messages(got: by_messages.Received) -> _Got:
    usage = got.usage["input_tokens"], got.usage["output_tokens"]
    return _Got(got.calls, got.text, got.thinking, usage, str(got.message.stop_reason))


def _of_responses(got: by_responses.Received) -> _Got:
    usage = got.response["usage"]["input_tokens"], got.response["usage"]["output_tokens"]
    calls = [(str(call[1]), call[3]) for call in got.calls]
    return _Got(calls, got.text, got.thought, usage, str(got.response["status"]))


_WAYS = (
    _Way(
        MessagesFace,
        {
            "model": "m",
            "max_tokens": 4096,
            "thinking": {"type": "adaptive"},
            "messages": [{"role": "user", "content": "Go."}],
            "tools": [
                {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS
            ],
        },
        lambda data, _: _of_messages(by_messages.read_stream(data)),
        lambda data: _of_messages(by_messages.read_whole(data)),
        lambda reason: _ENDED[reason],
        objects=True,
    ),
    _Way(
        ResponsesFace,
        {
            "model": "m",
            "input": "Go.",
            "tools": [{"type": "function", **tool["function"]} for tool in TOOLS],
        },
        lambda data, accumulate: _of_responses(by_responses.check_stream(data, accumulate=accumulate)),
        lambda data: _of_responses(by_responses.check_whole(data)),
        lambda reason: "incomplete" if reason == "length" else "completed",
        objects=False,
    ),
)
