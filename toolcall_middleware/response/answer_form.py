"""The form of the client's answer: a chat stream or completion, or what an `AnswerWriter` of another API writes.

A backend's whole answer becomes the client's here. Its text goes through the same parser as a stream's, in one piece.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..answer.operations import Arguments, CallOpened, Content, Image, Op, ReasoningText, Refusal, Signed, Step
from ..answer.writer import AnswerWriter
from ..errors import ToolCallError
from ..request.parse import ChatRequest
from ..settings import Settings
from ..usage.meter import ENDED, UsageMeter
from ..wire import openai
from ..wire.openai import Fields, with_plain_content
from ..wire.sse import DONE
from . import said
from .choice import AnswerOutcome, ChoiceAnswer
from .chunk import take_calls
from .chunk_writer import ChatEmitter
from .stream import Gate, Hold, StreamRewriter, size_of

_encode = msgspec.json.encode
_ASSISTANT = openai.raw("assistant")
_MAX_SHOWN = 500
_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response for the client. `headers` replace the backend's of the same name; None: its head as it came."""

    status: int
    body: bytes
    headers: dict[str, str] | None


def is_stream(data: bytes, *, told: bool) -> bool | None:
    """Whether a body that begins with `data` is an event stream; None where more of it must be seen.

    told: what the content type says. Content types lie.
    """
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(_STREAM_STARTS) or (told and start and start[:1] not in b"{[<"):
        return True
    return None if any(mark.startswith(start) for mark in _STREAM_STARTS) else False


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """A rewritten answer, and what it came to."""

    body: bytes
    outcome: AnswerOutcome
    steps: list[Step] = dataclasses.field(default_factory=list)
    """For a writer."""
    usage: Any = None
    """For a writer; None where its count is due, or nothing is known."""


def rewrite_whole(
    data: bytes,
    make_choice: Callable[[], ChoiceAnswer],
    usage: UsageMeter,
    *,
    legacy: bool = False,
    indexed: bool = False,
    as_object: bool = False,
    reasoning_field: str | None = None,
    defer: bool = False,
    head: Fields | None = None,
    as_steps: bool = False,
) -> WholeAnswer | None:
    """The answer for the client, or None when `data` is no chat completion.

    as_object: arguments are a JSON object, not a string. legacy: the call is the deprecated `function_call`. indexed:
    calls carry their `index` as in a stream (profile gateway). head: what it says of itself where the backend does not.
    defer: leave usage out when its count is due. as_steps: the answer is steps for an
    `AnswerWriter`, and no body.
    Raises ToolCallError for a fault of the model that a setting makes an error.
    """
    top = openai.read_object(data)
    choices = _choices(top)
    if top is None or choices is None:
        return None
    numbers = openai.usage_of(top)
    usage.saw(numbers)  # they may tell whether the token limit has cut a call
    answers: list[ChoiceAnswer] = []
    made: list[Fields] = []
    steps: list[Step] = []
    for number, (choice, given) in enumerate(choices):
        if (broken := openai.broken_choice(choice)) is not None:
            raise broken
        message = with_plain_content(given)
        text = said.text_of(message.get("content"))
        usage.wrote_beside(message, number)
        usage.wrote(text, number)
        if openai.read_text(choice.get("finish_reason")) in ENDED:
            usage.ended()
        answer = make_choice()
        begun = answer.take_whole()
        answers.append(answer)
        ops, message = _ops_of(answer, message, text)
        ops = begun + ops
        last, reason = answer.finish(openai.read_text(choice.get("finish_reason")) or None)
        answer.inner.note_left(ops + last)
        for op in (*ops, *last):
            if type(op) is ReasoningText and not op.names:
                usage.thought(op.text)
        if answer.fault is not None:
            raise answer.fault
        if as_steps:
            if not number:
                steps += [said.opened(top), *_in_order(message, ops + last), said.finished(answer, choice, reason)]
            continue
        shown = _fold(message, ops + last, text, legacy=legacy, indexed=indexed, reasoning=reasoning_field)
        for name in openai.REASONING_FIELDS if answer.reads_reasoning else ():
            if name in given and openai.read_value(shown[name]) == openai.read_value(given[name]):
                shown[name] = given[name]  # to the byte
        if as_object:
            _open_arguments(shown)
        shown.setdefault("refusal", openai.NULL)  # OpenAI's document demands both
        choice.setdefault("logprobs", openai.NULL)
        stop = {name: openai.raw(value) for name, value in answer.stop_reason.items()}
        made.append({**choice, "message": openai.raw(shown), "finish_reason": openai.raw(reason), **stop})
    if as_steps:
        told = numbers if usage.saw(numbers) else None
        if told is None and not (defer and usage.is_due):
            told = usage.total()  # also of an answer that is asked for again: it is counted while it is there
        return WholeAnswer(b"", AnswerOutcome.of(answers), steps, told)
    left_out = openai.missing(head, top) if head is not None else {}
    body: dict[str, Any] = {**left_out, **top, **left_out, "choices": made}
    good = usage.saw(numbers) and not openai.is_null(top.get("usage"))
    if not good and not (defer and usage.is_due) and (total := usage.total()) is not None:
        body["usage"] = total
    return WholeAnswer(_encode(body), AnswerOutcome.of(answers))


_ORDER: dict[Any, int] = {ReasoningText: 0, Signed: 0, Content: 1, Refusal: 2, Image: 3}


def _in_order(message: Fields, ops: list[Op]) -> list[Step]:
    """The steps of a whole answer: thoughts before text, text before calls, as a chat message has them."""
    steps: list[Step] = []
    said.say(message, ops, steps)
    return sorted(steps, key=lambda step: _ORDER.get(type(step), len(_ORDER)))


def _ops_of(answer: ChoiceAnswer, message: Fields, text: str) -> tuple[list[Op], Fields]:
    """What becomes of a message whose content is `text`, and the message without what was read of it."""
    answer.watch(message, text)
    ops: list[Op] = []
    if answer.reads_reasoning:
        ops, rest, _ = answer.take_reasoning(message, text)
        message = {name: rest.get(name, openai.NULL) for name in message}
    own: list[Any] = []
    if answer.native is not None:
        own, message = take_calls(message, answer.native)
    return ops + (answer.feed_both(text, own) if own else answer.feed(text)), message


def as_stream(data: bytes) -> bytes | None:
    """A backend's whole answer as the stream that was asked for; None when `data` is no chat completion."""
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
    # What was written over several lines has to leave in one.
    return b"".join(openai.event(openai.one_line(_encode(event))) for event in events) + DONE


def is_completion(data: bytes) -> bool:
    """Whether a body is a chat completion."""
    return _choices(openai.read_object(data)) is not None


def no_completion(data: bytes) -> ToolCallError:
    """A successful answer that is none: an event stream nobody asked for, an error with status 200, HTML."""
    stripped = data.lstrip()
    if stripped.startswith(_STREAM_STARTS):
        return ToolCallError("upstream_error", "The backend answered with an event stream to a request without one.")
    fields = openai.read_object(data)
    if fields is not None and openai.is_error(fields):
        return openai.read_error(data)
    text = stripped[:_MAX_SHOWN].decode("utf-8", "replace")
    return ToolCallError("upstream_error", f"The backend's answer is no chat completion: {text or '(empty)'}")


def _open_arguments(message: dict[str, Any]) -> None:
    """Arguments as the JSON that their string holds."""
    single = openai.read_value(message.get("function_call"))
    if isinstance(single, dict) and isinstance(single.get("arguments"), str):
        message["function_call"] = {**single, "arguments": _as_json(single["arguments"])}
    calls = openai.read_value(message.get("tool_calls"))
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call.get("function"), dict) and isinstance(call["function"].get("arguments"), str):
            call["function"]["arguments"] = _as_json(call["function"]["arguments"])
    if calls:
        message["tool_calls"] = calls


def _as_json(text: str) -> msgspec.Raw:
    if openai.read_value(text.encode("utf-8", "replace")) is None:
        return openai.raw(text)  # a backend's own, of which nobody has made a call
    # A lone surrogate, which has no bytes, stays an escape.
    return msgspec.Raw(openai.without_constants(text.encode("utf-8", "backslashreplace")))


def _choices(top: Fields | None) -> list[tuple[Fields, Fields]] | None:
    """Each choice with its message; None when it is no chat completion."""
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


def _fold(
    message: Fields, ops: list[Op], text: str, *, legacy: bool, indexed: bool, reasoning: str | None
) -> dict[str, Any]:
    """The message with what the operations say; where that is what it said before, its bytes stay."""
    content: list[str] = []
    thoughts: dict[str, list[str]] = {}
    calls: list[dict[str, Any]] = []
    arguments: list[list[str]] = []
    for op in ops:
        match op:
            case Content(piece):
                content.append(piece)
            case ReasoningText(piece, names):
                for name in names or (reasoning or "reasoning",):
                    thoughts.setdefault(name, []).append(piece)
            case CallOpened(index, call_id, name, custom, extra):
                kind = "custom" if custom else "function"
                call: dict[str, Any] = {"id": call_id, "type": kind, kind: {"name": name}, **(extra or {})}
                calls.append({"index": index, **call} if indexed else call)
                arguments.append([])
            case Arguments(_, piece):
                arguments[-1].append(piece)
    for made_call, pieces in zip(calls, arguments, strict=True):
        kind = made_call["type"]
        made_call[kind]["input" if kind == "custom" else "arguments"] = "".join(pieces)
    made: dict[str, Any] = {"role": _ASSISTANT, "content": openai.NULL, **message}
    if openai.is_null(made["role"]):
        made["role"] = _ASSISTANT
    for field, pieces in thoughts.items():
        made[field] = openai.raw((openai.read_text(message.get(field)) or "") + "".join(pieces))
    shown = "".join(content)
    if shown != text or (calls and not shown):
        made["content"] = openai.raw(shown or None if calls else shown)
    if calls and legacy:
        made["function_call"] = openai.raw(calls[0]["function"])
    elif calls:
        made["tool_calls"] = openai.raw(calls)
    return made


class AnswerForm:
    """Writes the answers to one request. settings: those of the server. writer: None for chat completions.

    make_choice, usage: as `StreamRewriter` and `rewrite_whole` take them.
    """

    def __init__(self, chat: ChatRequest, settings: Settings, writer: AnswerWriter | None) -> None:
        self._chat = chat
        self._settings = settings
        self._writer = writer
        self._usage: Any = None  # of a whole answer for the writer
        self.goes_on = False
        """The next response is the rest of the answer that the last one began."""
        self._emitter: ChatEmitter | said.StepEmitter | None = None  # of the stream at hand

    def begin(self) -> None:
        """A response begins. Until `stream` or `whole` is called it is not the writer's."""
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
        """Return what rewrites a streamed response. settings: with the request's own. hold: what it waits for.

        accepts: asked at the end whether the answer may leave; all of it is held until then.
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
            begun = {name: said for name, said in emitter.head().items() if name in openai.HEAD}
        elif writer is None:
            emitter = ChatEmitter(
                usage,
                Gate[bytes](hold, limit, size=len),
                include_usage=chat.include_usage,
                legacy=chat.legacy,
                as_object=settings.arguments_as_object,
                reasoning_field=settings.reasoning_field,
            )
        else:
            emitter = said.StepEmitter(usage, Gate[Step](hold, limit, size=size_of), writer)
        self._emitter = emitter
        made = StreamRewriter(
            make_choice,
            usage,
            emitter,
            include_usage=chat.include_usage,
            choices=chat.n,
            max_bytes=limit,
            head=openai.new_head(chat.model, "chat.completion.chunk"),
            begun=begun,
        )
        made.accepts = accepts
        return made

    def broken(self, error: ToolCallError) -> bytes:
        """Return the last bytes of a streamed answer that has begun and fails."""
        if self._writer is None:
            return error.sse() + DONE
        self._writer.fail(error)
        return self._writer.leaving()

    def read_whole(
        self, data: bytes, make_choice: Callable[[], ChoiceAnswer], usage: UsageMeter, *, defer: bool
    ) -> WholeAnswer | None:
        """Read a collected response; None if it is no chat completion. Raises ToolCallError as `rewrite_whole` does."""
        chat, settings = self._chat, self._settings
        return rewrite_whole(
            data,
            make_choice,
            usage,
            legacy=chat.legacy,
            indexed=settings.call_index,
            as_object=settings.arguments_as_object,
            reasoning_field=settings.reasoning_field,
            defer=defer,
            head=openai.new_head(chat.model, "chat.completion"),
            as_steps=self._writer is not None,
        )

    def take(self, answer: WholeAnswer) -> None:
        """The whole answer is the one that the client gets."""
        self._usage = answer.usage
        if self._writer is not None:
            self._writer.in_use = True
            for step in answer.steps:
                self._writer.take(step)

    def with_usage(self, body: bytes, usage: Any) -> bytes:
        """Return the body with a usage that had to be counted first."""
        self._usage = usage
        return body if self._writer is not None else openai.with_fields(body, {"usage": usage})

    def finished(self, body: bytes, remarks: dict[str, Any]) -> bytes:
        """Return the client's body. remarks: fields beside the API's."""
        if self._writer is None:
            return openai.with_fields(body, remarks) if remarks else body
        self._writer.end(self._usage, remarks)
        return self._writer.whole()
