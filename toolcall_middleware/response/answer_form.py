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
from ..usage.meter import UsageMeter, usage_chunk
from ..wire import openai
from ..wire.openai import Fields, Frame, with_plain_content
from ..wire.sse import DONE, ServerEvent
from . import said
from .choice import CALLS, AnswerOutcome, ChoiceAnswer
from .chunk import Choices, Part, Template, has_other_fields
from .stream import Emitter, Gate, Hold, StreamRewriter, size_of

_encode = msgspec.json.encode
_ASSISTANT = openai.raw("assistant")
_SIGNED = "reasoning_details"
_OF_CALLS = (CallOpened, Arguments, CallClosed)
_Written = Content | ReasoningText | CallOpened | Arguments
"""A chat stream does not say that a call is closed."""
_BEFORE_ARGUMENTS = b'{"tool_calls":[{"index":%d,"function":{"arguments":'
_MOST_HELD = 64  # chunks without a word at the beginning of an answer
_MAX_SHOWN = 500
_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response for the client. `headers` replace the backend's of the same name; None keeps them all."""

    status: int
    body: bytes
    headers: dict[str, str] | None


def is_stream(data: bytes, *, declared: bool) -> bool | None:
    """Whether a body that begins with `data` is an event stream; None where more bytes are needed to decide.

    declared: whether the content type says so. It may be wrong.
    """
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(_STREAM_STARTS) or (declared and start and start[:1] not in b"{[<"):
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
    choices = Choices(make_choice, usage, expected=len(given))
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
            images = [{"type": "image_url", "image_url": {"url": image.url}} for image in said.images_of(delta)]
            if images and openai.is_odd_content(delta):  # its parts are left out
                delta = {**delta, "images": openai.raw(images)}
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


def _call(op: CallOpened, *, indexed: bool) -> dict[str, Any]:
    """A call that begins. indexed: with its `index`, as in a stream."""
    kind, key = ("custom", "input") if op.custom else ("function", "arguments")
    call = {"id": op.id, "type": kind, kind: {"name": op.name, key: ""}, **(op.extra or {})}
    return {"index": op.index, **call} if indexed else call


def _calls(ops: list[Op], *, indexed: bool, as_object: bool) -> list[dict[str, Any]]:
    """The calls of a message. as_object: their arguments are JSON."""
    calls: list[dict[str, Any]] = []
    arguments: list[list[str]] = []
    for op in ops:
        if isinstance(op, CallOpened):
            calls.append(_call(op, indexed=indexed))
            arguments.append([])
        elif isinstance(op, Arguments):
            arguments[-1].append(op.text)
    for made, written in zip(calls, map("".join, arguments), strict=True):
        if made["type"] == "custom":
            made["custom"]["input"] = written
        else:
            made["function"]["arguments"] = _as_json(written) if as_object else written
    return calls


# -- a chat stream ---------------------------------------------------------------------------------------------------


class ChatEmitter(Emitter[bytes]):
    """Writes the chunks of a chat stream.

    An operation on the client's message becomes a delta, with `tool_calls` or the deprecated `function_call`. An
    unchanged chunk is emitted with its own bytes. A changed chunk keeps its unknown fields: the chunk's own are on each
    chunk made from it; those of its choice (logprobs, token ids) and of its delta are emitted once.
    """

    def __init__(self, chat: ChatRequest, settings: Settings, usage: UsageMeter, gate: Gate[bytes]) -> None:
        super().__init__(usage, gate)
        self._include_usage = chat.include_usage
        self._usage_event = b""  # the backend's own, if it can be emitted unchanged
        self._legacy = chat.legacy
        self._as_object = settings.arguments_as_object
        self._reasoning_field = settings.reasoning_field or "reasoning"
        # The chunk that opens an answer with a role and empty content is held until the answer has text or a call. An
        # answer of calls alone has `content: null`, streamed or whole; one of text keeps the bytes of its first chunk.
        self._held_for: ChoiceAnswer | None = None  # it waits for text or a call, and so do all later chunks
        self._as_it_came: list[bytes] = []
        self._with_null: list[bytes] = []

    def usual(self, raw: bytes, template: Template, text: str, ops: list[Op], /) -> bytes:
        shown = ops if len(ops) < 2 else [op for op in ops if type(op) is not CallClosed]
        op = shown[0] if len(shown) == 1 else None
        if type(op) is Content and op.text == text:
            return raw
        if template.is_bare and (type(op) is Arguments or type(op) is Content or type(op) is ReasoningText):
            # A piece that is all of the text keeps its spelling.
            delta = self._delta(op, template.index, template.written if op.text is text else None)
            return b"".join(delta).join(template.frame)
        if not (shown or text):
            return b"" if template.choice.message.calls else raw  # empty content is not emitted after calls
        if not shown and template.is_silent and template.top is self.top:
            return b""
        template.complete()
        part, out = template.part, list[bytes]()
        news = self.turn_to(template.top)
        part.text, part.ops = text, ops
        self.put(part, out, frame=template.frame, news=news)
        ops.clear()
        return b"".join(out)

    def repeated(self, raw: bytes, template: Template, text: str, ops: list[Op], out: list[bytes], /) -> None:
        if left := self.usual(raw, template, text, ops):
            out.append(left)
        self.top = template.top

    def holds(self, event: ServerEvent, part: Part, /) -> bool:
        choice, begins = part.choice, self._held_for is None
        if not part.opens or (choice.has_role and begins):
            return False
        if len(self._as_it_came) >= _MOST_HELD:  # such an answer is no longer held
            self.gate.said = True
            return False
        if begins:
            self.put(msgspec.structs.replace(part, delta={**part.delta, "content": openai.NULL}), self._with_null)
            choice.has_role = False
        if part.unchanged:
            self._as_it_came.append(event.raw)
            choice.has_role = True
        else:
            self.put(part, self._as_it_came)
        self._held_for = choice
        self.gate.wait()
        return True

    def chunk(self, raw: bytes | None, parts: list[Part], out: list[bytes], /, *, news: bool) -> bool:
        if raw is not None and all(part.unchanged for part in parts):
            out.append(raw)
            for part in parts:
                part.choice.has_role = True
            return True
        for part in parts:
            self.put(part, out, news=news)
            news = False
        return True

    def unread(self, raw: bytes, out: list[bytes], /, *, comment: bool = False) -> None:  # noqa: ARG002 - both are sent
        out.append(raw)

    odd = unread

    def counted(self, raw: bytes, usage: Any, top: Fields, /) -> None:  # noqa: ARG002 - the bytes have it
        self._usage_event = raw
        self.top = self.top or top

    def opening(self) -> list[bytes]:
        choice, self._held_for = self._held_for, None
        if choice is None:
            return []
        return self._with_null if choice.message.calls else self._as_it_came

    def joined(self, out: list[bytes], /) -> bytes:
        return out[0] if len(out) == 1 else b"".join(out)

    def end(self) -> bytes:
        if not self._include_usage:
            return DONE
        return (self._usage_event or usage_chunk(self.top, self._usage)) + DONE

    # -- chunks --------------------------------------------------------------------------------------------------

    def turn_to(self, top: Fields, /) -> bool:
        """Keep the head of this chunk. True when it holds something that the last one did not."""
        last, self.top = self.top, top
        return last is not top and any(
            name not in openai.HEAD
            and name not in {"choices", "usage"}
            and not openai.is_null(value)
            and last.get(name) != value
            for name, value in top.items()
        )

    def put(self, part: Part, out: list[bytes], *, frame: Frame | None = None, news: bool = False) -> None:
        """Emit chunks for a part. `frame`: of its fields. `news`: its chunk's own new fields must be emitted."""
        choice, fields, reason = part.choice, part.fields, part.reason
        top = self.top
        rest = {name: value for name, value in part.delta.items() if name != "content" or not part.text}
        if choice.has_role:
            rest.pop("role", None)
        else:
            rest["role"] = _ASSISTANT
            choice.has_role = True
        bare = {"index": fields["index"]}
        if frame is None:
            # A finish_reason has its own chunk, which also holds the other fields of the choice.
            frame = openai.frame_of_delta(top, bare if reason is not None else fields)
        ops = [op for op in part.ops if not isinstance(op, CallClosed)]
        for number, op in enumerate(ops):
            delta = self._delta(op, part.index)
            if number == 0 and rest:
                made = openai.read_object(b"".join(delta)) or {}
                if any(name in made and not openai.is_null(rest.get(name)) for name in openai.REASONING_FIELDS):
                    # The backend's own reasoning, before a thought in its text.
                    out.append(_encode(rest).join(frame))
                    frame = openai.frame_of_delta(top, bare)
                else:
                    delta = (_encode({**rest, **made}),)
            elif number == 1:
                frame = openai.frame_of_delta(top, bare)
            # In parts, because a whole call may be long: it is joined once.
            out += (frame[0], *delta, frame[1])
        if not ops:
            extras = reason is None and has_other_fields(fields)
            if extras or any(not openai.is_null(value) for value in rest.values()) or (news and reason is None):
                out.append(_encode(rest).join(frame))
        if reason is not None:
            out.append(self._finish_chunk(fields, reason, choice))

    def _finish_chunk(self, fields: Fields, reason: str, choice: ChoiceAnswer) -> bytes:
        """An empty delta with the finish_reason."""
        delta = {"content": ""} if choice.owes_content and not choice.message.calls else {}
        last = {**fields, "delta": delta, "finish_reason": reason, **choice.stop_reason}
        body = {name: value for name, value in self.top.items() if name != "usage"}
        return openai.event(openai.encode({**body, "choices": [last], **choice.message.extras}))

    # -- deltas --------------------------------------------------------------------------------------------------

    def _delta(self, op: _Written, choice: int, written: bytes | None = None) -> tuple[bytes, ...]:
        """The JSON parts of a choice's delta. written: the operation's text as a JSON string, where it is known."""
        if isinstance(op, Arguments):
            if self._as_object and not op.custom:
                # Such a call is emitted once complete, so this is all of it. A lone surrogate stays an escape.
                written = openai.one_line(op.text.encode("utf-8", "backslashreplace"))
            written = written or openai.encode(op.text)
            if self._legacy:
                return b'{"function_call":{"arguments":', written, b"}}"
            before = b'{"tool_calls":[{"index":%d,"custom":{"input":' if op.custom else _BEFORE_ARGUMENTS
            return before % op.index, written, b"}}]}"
        if isinstance(op, Content):
            return b'{"content":', openai.encode(op.text), b"}"
        if isinstance(op, ReasoningText):
            if not op.names:  # else it is counted
                self._usage.thought(op.text, choice)
            return (openai.encode(dict.fromkeys(op.names or (self._reasoning_field,), op.text)),)
        if self._legacy:
            return (openai.encode({"function_call": {"name": op.name, "arguments": ""}}),)
        return (openai.encode({"tool_calls": [_call(op, indexed=True)]}),)


# -- the form --------------------------------------------------------------------------------------------------------


class AnswerForm:
    """Writes the answers to one request. settings: the server's. writer: None for chat completions.

    make_choice, usage: as `StreamRewriter` and `read_whole` take them.
    """

    def __init__(self, chat: ChatRequest, settings: Settings, writer: AnswerWriter | None) -> None:
        self._chat = chat
        self._settings = settings
        self._writer = writer
        # What a continued non-streaming answer begins with: a message, or steps for the writer.
        self._before: Fields = {}
        self._steps: list[Step] = []
        self.resumed = False
        """The next response continues the answer that the last one began."""
        self._emitter: Emitter[Any] | None = None  # of the current stream

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
        emitter: Emitter[Any]
        begun = None
        if writer is not None:
            writer.in_use = True
        if self.resumed and self._emitter is not None:
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
        end = said.finished(part.choice, part.fields, part.reason or "")
        for step in (said.opened(answer.top), *self._steps, *_in_order(part), end):
            writer.take(step)
        writer.end(answer.counted if answer.usage is None else answer.usage, remarks)
        return writer.whole()

    def _completion(self, answer: WholeAnswer, remarks: dict[str, Any]) -> bytes:
        made: list[Fields] = []
        for given, part in answer.messages:
            message = openai.raw(self._message(given, part))
            stop = {name: openai.raw(value) for name, value in part.choice.stop_reason.items()}
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
