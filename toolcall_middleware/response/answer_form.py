"""The form of the client's answer: a chat stream or completion, or the output of another API's `AnswerWriter`.

This module turns a backend's non-streaming answer into the client's. The parser of streams reads its text in one piece.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..answer.operations import (
    AnswerWriter,
    Arguments,
    CallClosed,
    CallOpened,
    Content,
    Image,
    Op,
    ReasoningText,
    Refusal,
    Signed,
    Step,
)
from ..errors import ToolCallError
from ..request.parse import ChatRequest
from ..settings import Settings
from ..usage.meter import UsageMeter
from ..wire import openai
from ..wire.openai import Fields, with_plain_content
from ..wire.sse import DONE
from . import said
from .choice import AnswerOutcome, ChoiceAnswer
from .chunk import CALLS, Choices, Part
from .chunk_writer import ChatEmitter
from .stream import Gate, Hold, StreamRewriter, size_of

_encode = msgspec.json.encode
_ASSISTANT = openai.raw("assistant")
_SIGNED = "reasoning_details"
_OF_CALLS = (CallOpened, Arguments, CallClosed)
_MAX_SHOWN = 500
_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response for the client. `headers` replace the backend's of the same name; None keeps them all."""

    status: int
    body: bytes
    headers: dict[str, str] | None


def is_stream(data: bytes, *, told: bool) -> bool | None:
    """Whether a body that begins with `data` is an event stream; None where more bytes are needed to decide.

    told: whether the content type says so. It may be wrong.
    """
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(_STREAM_STARTS) or (told and start and start[:1] not in b"{[<"):
        return True
    return None if any(mark.startswith(start) for mark in _STREAM_STARTS) else False


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """A backend's non-streaming answer, read. `messages`: each choice's message, as received and as read."""

    top: Fields
    messages: list[tuple[Fields, Part]]
    outcome: AnswerOutcome
    usage: Any
    """The backend's own usage, where it can be sent to the client unchanged."""
    counted: Any
    """The usage that replaces the backend's; None where its count is due, or nothing is known."""


def read_whole(data: bytes, make_choice: Callable[[], ChoiceAnswer], usage: UsageMeter) -> WholeAnswer | None:
    """Read a non-streaming answer; None when `data` is not a chat completion. Usage whose count is due is left out.

    Raises ToolCallError for a fault of the model that a setting makes an error.
    """
    top = openai.read_object(data)
    given = _choices(top)
    if top is None or given is None:
        return None
    numbers = openai.usage_of(top)
    usage.saw(numbers)  # they may show that the token limit cut a call
    choices = Choices(make_choice, usage, expected=len(given), counts=usage.listens)
    messages: list[tuple[Fields, Part]] = []
    for number, (fields, message) in enumerate(given):
        plain = with_plain_content(message)
        messages.append((plain, choices.read_message(fields, plain, said.text_of(plain.get("content")), number)))
    own = numbers if usage.saw(numbers) else None
    counted = None
    if (own is None or openai.is_null(top.get("usage"))) and not usage.is_due:
        counted = usage.total()  # also for an answer that is retried: it must be counted now
    return WholeAnswer(top, messages, choices.outcome, own, counted)


_ORDER: dict[Any, int] = {ReasoningText: 0, Signed: 0, Content: 1, Refusal: 2, Image: 3}


def _in_order(part: Part) -> list[Step]:
    """The steps of a choice of a whole answer: thoughts before text, text before calls, as a chat message has them."""
    steps: list[Step] = []
    said.say(part.delta, part.ops, steps)
    return sorted(steps, key=lambda step: _ORDER.get(type(step), len(_ORDER)))


def as_stream(data: bytes) -> bytes | None:
    """A backend's non-streaming answer as the stream that was requested; None when `data` is not a chat completion."""
    top = openai.read_object(data)
    choices = _choices(top)
    if top is None or choices is None:
        return None
    head = {**top, "object": "chat.completion.chunk"}
    usage = head.pop("usage", None)
    events: list[dict[str, Any]] = []
    for choice, message in choices:
        delta = with_plain_content(message)
        if text := said.text_of(delta.get("content")):
            delta = {**delta, "content": openai.raw(text)}
        index = choice.pop("index", openai.raw(0))
        rest = {name: value for name, value in choice.items() if name != "message"}
        events.append({**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]})
        events.append({**head, "choices": [{"index": index, **rest, "delta": {}}]})
    if usage is not None:
        events.append({**head, "choices": [], "usage": usage})
    # JSON written over several lines must be emitted on one.
    return b"".join(openai.event(openai.one_line(_encode(event))) for event in events) + DONE


def is_completion(data: bytes) -> bool:
    """Whether a body is a chat completion."""
    return _choices(openai.read_object(data)) is not None


def no_completion(data: bytes) -> ToolCallError:
    """The error for a 200 answer that is not a chat completion: an unrequested event stream, an error, HTML."""
    stripped = data.lstrip()
    if stripped.startswith(_STREAM_STARTS):
        return ToolCallError("upstream_error", "The backend answered with an event stream to a request without one.")
    fields = openai.read_object(data)
    if fields is not None and openai.is_error(fields):
        return openai.read_error(data)
    text = stripped[:_MAX_SHOWN].decode("utf-8", "replace")
    return ToolCallError("upstream_error", f"The backend's answer is no chat completion: {text or '(empty)'}")


def _as_json(text: str) -> msgspec.Raw:
    if openai.read_value(text.encode("utf-8", "replace")) is None:
        return openai.raw(text)  # a backend's own text, which was not parsed as a call
    # A lone surrogate, which has no bytes, stays an escape.
    return msgspec.Raw(openai.without_constants(text.encode("utf-8", "backslashreplace")))


def _choices(top: Fields | None) -> list[tuple[Fields, Fields]] | None:
    """Each choice with its message; None when it is not a chat completion."""
    choices = openai.read_objects(top.get("choices")) if top is not None else None
    if not choices:
        return None
    pairs: list[tuple[Fields, Fields]] = []
    for choice in choices:
        message = openai.read_object(choice.get("message"))
        if message is None:
            return None
        pairs.append((choice, message))
    return pairs


def _calls(ops: list[Op], *, indexed: bool, as_object: bool) -> list[dict[str, Any]]:
    """The calls of a message. indexed: with their `index`, as in a stream. as_object: their arguments are JSON."""
    calls: list[dict[str, Any]] = []
    arguments: list[list[str]] = []
    for op in ops:
        match op:
            case CallOpened(index, call_id, name, custom, extra):
                kind = "custom" if custom else "function"
                call: dict[str, Any] = {"id": call_id, "type": kind, kind: {"name": name}, **(extra or {})}
                calls.append({"index": index, **call} if indexed else call)
                arguments.append([])
            case Arguments(_, piece):
                arguments[-1].append(piece)
    for made, pieces in zip(calls, arguments, strict=True):
        kind, written = made["type"], "".join(pieces)
        if kind == "custom":
            made[kind]["input"] = written
        else:
            made[kind]["arguments"] = _as_json(written) if as_object else written
    return calls


class AnswerForm:
    """Writes the answers to one request. settings: the server's. writer: None for chat completions.

    make_choice, usage: as `StreamRewriter` and `rewrite_whole` take them.
    """

    def __init__(self, chat: ChatRequest, settings: Settings, writer: AnswerWriter | None) -> None:
        self._chat = chat
        self._settings = settings
        self._writer = writer
        # What a continued non-streaming answer begins with: a message, or steps for the writer.
        self._before: Fields = {}
        self._steps: list[Step] = []
        self.goes_on = False
        """The next response continues the answer that the last one began."""
        self._emitter: ChatEmitter | said.StepEmitter | None = None  # of the current stream

    def begin(self) -> None:
        """Begin a response. The writer is not in use until `stream` or `whole` is called."""
        if self._writer is not None:
            self._writer.in_use = False

    def stream(
        self,
        make_choice: Callable[[], ChoiceAnswer],
        usage: UsageMeter,
        settings: Settings,
        hold: Hold,
        accepts: Callable[[], bool] | None,
    ) -> StreamRewriter:
        """Return the rewriter of a streamed response. settings: with the request's own. hold: see `Gate`.

        accepts: called at the end: whether the answer may be emitted. All of it is held until then.
        """
        chat, writer = self._chat, self._writer
        limit = settings.max_response_bytes
        emitter: ChatEmitter | said.StepEmitter
        begun = None
        if writer is not None:
            writer.in_use = True
        if self.goes_on and self._emitter is not None:
            emitter = self._emitter
            emitter.gate.rewind()
            begun = {name: said for name, said in emitter.top.items() if name in openai.HEAD}
        elif writer is None:
            emitter = ChatEmitter(chat, settings, usage, Gate[bytes](hold, limit, size=len))
        else:
            emitter = said.StepEmitter(usage, Gate[Step](hold, limit, size=size_of), writer)
        self._emitter = emitter
        head = openai.new_head(chat.model, "chat.completion.chunk")
        made = StreamRewriter(make_choice, usage, emitter, chat, max_bytes=limit, head=head, begun=begun)
        made.accepts = accepts
        return made

    def broken(self, error: ToolCallError) -> bytes:
        """Return the last bytes of a streamed answer that has begun and fails."""
        if self._writer is None:
            return error.sse() + DONE
        self._writer.fail(error)
        return self._writer.leaving()

    def keep(self, answer: WholeAnswer) -> None:
        """Keep a non-streaming answer, without its calls, as the client's beginning; the next response continues it."""
        given, part = answer.messages[0]
        if self._writer is not None:
            self._steps += [step for step in _in_order(part) if not isinstance(step, _OF_CALLS)]
        else:
            self._before = self._message(given, part)

    def whole(self, answer: WholeAnswer, remarks: dict[str, Any]) -> bytes:
        """Return the client's body. remarks: fields beside the API's."""
        writer = self._writer
        if writer is None:
            return self._completion(answer, remarks)
        writer.in_use = True
        part = answer.messages[0][1]
        end = said.finished(part.choice.answer, part.fields, part.reason or "")
        for step in (said.opened(answer.top), *self._steps, *_in_order(part), end):
            writer.take(step)
        writer.end(answer.counted if answer.usage is None else answer.usage, remarks)
        return writer.whole()

    def _completion(self, answer: WholeAnswer, remarks: dict[str, Any]) -> bytes:
        made: list[Fields] = []
        for given, part in answer.messages:
            message = openai.raw(self._message(given, part))
            stop = {name: openai.raw(value) for name, value in part.choice.answer.stop_reason.items()}
            part.fields.setdefault("logprobs", openai.NULL)  # OpenAI's specification requires it
            made.append({**part.fields, "message": message, "finish_reason": openai.raw(part.reason), **stop})
        left_out = openai.missing(openai.new_head(self._chat.model, "chat.completion"), answer.top)
        body: dict[str, Any] = {**left_out, **answer.top, **left_out, "choices": made}
        if answer.counted is not None:
            body["usage"] = openai.raw(answer.counted)
        return _encode({**body, **{name: openai.raw(value) for name, value in remarks.items()}})

    def _message(self, given: Fields, part: Part) -> Fields:
        """Return the client's message for a choice received as `given`. An unchanged text keeps its bytes."""
        before, settings = self._before, self._settings
        kept = {name: part.delta.get(name, openai.NULL) for name in given if name in part.delta or name not in CALLS}
        texts: dict[str, list[str]] = {}
        for name, fields in [("content", before), *itertools.product(openai.REASONING_FIELDS, (before, kept))]:
            if text := openai.read_text(fields.get(name)):
                texts.setdefault(name, []).append(text)
        for op in part.ops:
            if isinstance(op, Content):
                texts.setdefault("content", []).append(op.text)
            elif isinstance(op, ReasoningText):
                for name in op.names or (settings.reasoning_field or "reasoning",):
                    texts.setdefault(name, []).append(op.text)
        calls = _calls(part.ops, indexed=settings.call_index, as_object=settings.arguments_as_object)
        made: Fields = {"role": _ASSISTANT, "content": openai.NULL, **kept}
        if openai.is_null(made["role"]):
            made["role"] = _ASSISTANT
        content = "".join(texts.pop("content", ()))
        for name, pieces in texts.items():
            text = "".join(pieces)
            made[name] = given[name] if openai.read_text(given.get(name)) == text else openai.raw(text)
        if content != part.text or (calls and not content):
            made["content"] = openai.raw(content or None if calls else content)
        signed, own = (openai.read_value(fields.get(_SIGNED)) for fields in (before, kept))
        if isinstance(signed, list) and signed:
            made[_SIGNED] = openai.raw([*signed, *(own if isinstance(own, list) else ())])
        if calls and self._chat.legacy:
            made["function_call"] = openai.raw(calls[0]["function"])
        elif calls:
            made["tool_calls"] = openai.raw(calls)
        made.setdefault("refusal", openai.NULL)  # OpenAI's specification requires it
        return made
