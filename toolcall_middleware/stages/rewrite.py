"""A backend's stream of chunks becomes the client's: content and tool_call deltas, finish reasons, one `[DONE]`.

A chunk in which nothing is to be changed leaves with its own bytes. What is changed keeps its unknown fields: those of
the chunk stay on each chunk made from it, those of its choice (logprobs, token ids) and of its delta leave once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..errors import ToolCallError
from ..parsing.lane import unescaped
from ..wire import openai
from ..wire.openai import Fields, Shape, Shell
from ..wire.sse import DONE, EventReader, ServerEvent, TooLargeError
from .alike import Known
from .answer import ChoiceAnswer
from .chunk_parts import Choice, Part, is_plain, says, take_calls
from .deltas import DeltaWriter
from .hold import Hold
from .operations import Arguments, Content, Op
from .outcome import Outcome, all_called
from .said import read_said
from .short_ways import MAX_PASSED, MAX_PIECE, ShortWays
from .usage import ENDED, UsageMeter, usage_chunk

_encode = msgspec.json.encode
_decode_text = msgspec.json.Decoder(str).decode
_MAX_UNLIKE = 16
_OWN_FIELDS = frozenset({"index", "delta", "finish_reason"})
_ASSISTANT = openai.raw("assistant")


class StreamRewriter(ShortWays):
    """Bytes of the backend's event stream in, bytes for the client out. One per try.

    make_choice: a new ChoiceAnswer. include_usage: whether the client asked for usage. choices: how many it asked
    for. hold: what nothing leaves before. legacy: calls leave as the deprecated `function_call`. as_object: arguments
    are a JSON object, whole, in the call's last delta; its first has an empty string there, as ever:
    `{"arguments": ""}`, then `{"arguments": {"city": "Paris"}}`.
    max_bytes: of one event, and of what is held. Never raises: `failed` tells why the answer cannot go on.
    """

    def __init__(
        self,
        make_choice: Callable[[], ChoiceAnswer],
        usage: UsageMeter,
        *,
        include_usage: bool,
        choices: int = 1,
        hold: Hold = Hold.NOTHING,
        legacy: bool = False,
        as_object: bool = False,
        reasoning_field: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(usage, counts=include_usage or usage.limit is not None)
        self._make_choice = make_choice
        self._include_usage = include_usage
        self._expected = choices
        self._hold = hold
        self._said = False  # something that a client shows has come
        self._as_object = as_object
        self._deltas = DeltaWriter(usage, legacy=legacy, as_object=as_object, reasoning_field=reasoning_field)
        self._reader = EventReader(max_bytes)
        self._limit = max_bytes
        self._choices: dict[int, Choice] = {}
        self._top: Fields = {}  # the last chunk without its choices and usage
        self._unlike = 0  # chunks in a row of which none was like the one before, for there are logprobs in each
        self._odd = b""  # an event that is no JSON
        self._usage_event = b""  # the backend's own, if it can go to the client as it is
        self._held: list[bytes] = []
        self._held_size = 0
        self.failed: ToolCallError | None = None

    # -- what the exchange asks ----------------------------------------------------------------------------------

    @property
    def outcome(self) -> Outcome:
        """What all choices came to so far."""
        return Outcome.of(self._answers)

    @property
    def _answers(self) -> list[ChoiceAnswer]:
        return [choice.answer for choice in self._choices.values()]

    @property
    def calls(self) -> int:
        """The calls of all choices so far."""
        return sum(choice.answer.calls for choice in self._choices.values())

    @property
    def begun(self) -> bool:
        """Whether the backend has answered at all."""
        return bool(self._choices)

    @property
    def complete(self) -> bool:
        """Whether the backend's stream came to its own end."""
        return self.done or (self.begun and self.failed is None and self._all_finished)

    @property
    def done(self) -> bool:
        """Whether the backend said `[DONE]` behind an answer: however its stream ends then, nothing is missing."""
        return self.begun and self.failed is None and self._over

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the backend."""
        past = self._past
        if past is not None:
            piece = data[past.middle]
            if (
                piece
                and piece.join(past.around) == data
                and (not piece.lstrip(past.safe) or past.plain(piece))
                and len(piece) < MAX_PIECE
            ):
                passed = past.passed
                passed.append(piece)
                if len(passed) == MAX_PASSED:
                    self._close_past()
                    self._open_past(past.known)
                if past.head is None:
                    return data
                return b"".join((past.head, unescaped(piece) if past.twice else piece, past.foot))
            self._close_past()
        flow = self._flow
        if flow is not None:
            written = data[flow.middle]
            if written.join(flow.around) == data and len(written) < MAX_PIECE:
                try:
                    text = _decode_text(written)
                except openai.FAILURES:
                    said = None
                else:
                    said = flow.run(text)
                if said is not None:
                    return self._flowed(flow, text, said)
            self._close_flow()
        known = self._known
        if known is not None and not self._reader.buffer and self._hold is Hold.NOTHING:
            # What nearly every engine sends: one event a message, and it is like the one before.
            content = known.shape.content(data)
            if content is not None:
                return self._text_chunk(data, known, content, alone=True)
        out: list[bytes] = []
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            message = f"An event of the backend's stream exceeds max_response_bytes ({self._limit})."
            self._fail(ToolCallError("upstream_error", message))
            return b""
        for event in events:
            if self._over:
                break
            self._event(event, out)
        self._see_stop()
        return self._let(out, all_there=len(self._choices) >= self._expected)

    def finish(self, *, cut: bool = False) -> bytes:
        """The end of the backend's stream: what is held back and missing finish reasons. `end` follows, or an error.

        cut: the stream broke off. Then no choice is finished that the backend did not finish.
        """
        self._close_past()
        self._close_flow()
        out: list[bytes] = []
        for event in self._reader.finish():
            if not self._over and not self.stopped and event.data is not None:
                # It has no blank line of its own.
                self._event(ServerEvent(event.raw + b"\n\n", event.data, event.name), out)
        lost = (cut or not self.complete) and not self.stopped
        for index, choice in self._choices.items():
            if not choice.finished:
                broken = lost and not choice.answer.stopped
                ops, reason = choice.answer.finish(None, lost=broken)
                self._blame(choice)
                choice.finished = not broken and self.failed is None
                told = reason if choice.finished else None
                self._said = self._said or bool(ops) or told is not None
                self._put(Part(choice, {"index": openai.raw(index)}, {}, "", ops, told, unchanged=False), out)
                ops.clear()
        if self._hold is not Hold.CALL and not lost and self.failed is None:
            self._over = True
        return self._let(out, all_there=True)

    def end(self) -> bytes:
        """The usage chunk, if the client asked for it, and `[DONE]`. Once, and last."""
        if not self._include_usage:
            return DONE
        return (self._usage_event or usage_chunk(self._top, self._usage)) + DONE

    @property
    def is_due(self) -> bool:
        """Whether `end` should wait for a count."""
        return self._include_usage and self._usage.is_due

    @property
    def _all_finished(self) -> bool:
        return all(choice.finished for choice in self._choices.values())

    def _see_stop(self) -> None:
        choices = self._choices.values()
        if any(choice.answer.stopped for choice in choices):
            done = all(choice.answer.stopped or choice.finished for choice in choices)
            self.stopped = done and len(choices) >= self._expected

    def _end_events(self) -> None:
        """Whatever else the backend sends is not read."""
        self._over = True
        self._known = None

    def _fail(self, error: ToolCallError) -> None:
        self.failed = error
        self._end_events()

    def _blame(self, choice: Choice) -> None:
        """A fault of the model that a setting makes an error ends the whole answer."""
        if choice.answer.fault is not None:
            self._fail(choice.answer.fault)

    def _let(self, out: list[bytes], *, all_there: bool) -> bytes:
        """Let `out` go, or keep it until every choice has a call."""
        if self._hold is not Hold.NOTHING:
            self._held += out
            self._held_size += sum(map(len, out))
            if self._limit is not None and self._held_size > self._limit:
                message = f"What came before the first call exceeds max_response_bytes ({self._limit})."
                self._fail(ToolCallError("upstream_error", message))
            over = self._over and self.failed is None
            match self._hold:
                case Hold.SPEECH:
                    free = self._said or (all_there and over)
                case Hold.END:
                    free = over or (all_there and all_called(self._answers))
                case Hold.CALL:
                    free = all_there and all_called(self._answers)
            if not free:
                return b""
            self._hold = Hold.NOTHING
            out, self._held = self._held, []
        return out[0] if len(out) == 1 else b"".join(out)

    # -- events in -----------------------------------------------------------------------------------------------

    def _event(self, event: ServerEvent, out: list[bytes]) -> None:
        data = event.data
        if data is None:
            # Without a colon it is the beginning of a word where a stream broke off.
            if b":" in event.raw or not event.raw.strip():
                self._said = True  # a comment keeps the connection alive: that is what it is for
                out.append(event.raw)
            return
        known = self._known
        if known is not None and (text := known.shape.content(event.raw)) is not None:
            out.append(self._text_chunk(event.raw, known, text))
            return
        if self._unlike >= _MAX_UNLIKE and not event.name and self._just_said(event.raw, data, out):
            return
        if data.strip() == b"[DONE]":
            self._let_odd(out)
            self._end_events()
            return
        top = openai.read_object(data)
        if event.name == "error" or (top is not None and openai.is_error(top)):
            self._fail(openai.read_error(data))
        elif top is None:
            self._let_odd(out)
            self._odd, self._known = event.raw, None
        else:
            self._let_odd(out)
            self._chunk(event, top, out)

    def _just_said(self, raw: bytes, data: bytes, out: list[bytes]) -> bool:
        """A chunk that says some text, and beside it what only the client reads. False: it is another, and not read."""
        found = read_said(data) if self._hold is Hold.NOTHING else None
        choice = None if found is None else self._choices.get(found[0])
        if found is None or choice is None or choice.finished or not choice.has_role or not found[1]:
            return False
        index, text = found
        answer = choice.answer
        if answer.native is not None or answer.thinks:
            return False
        if self._counts:
            self._usage.wrote(text, index)
        self._let_odd(out)
        ops = answer.feed(text)
        if is_plain(ops, text):
            out.append(raw)
        else:
            top = openai.read_object(data) or {}
            fields = (openai.read_objects(top.get("choices")) or [{}])[0]
            delta = openai.read_object(fields.get("delta")) or {}
            self._turn_to(top)
            self._put(Part(choice, fields, delta, text, ops, None, unchanged=False, index=index), out)
        self._blame(choice)
        return True

    def _let_odd(self, out: list[bytes]) -> None:
        """Let an event go that is no JSON, now that it was not the last: half an event is where a stream broke off,
        and a client that cannot read it never sees the error behind it.
        """
        if self._odd:
            out.append(self._odd)
            self._odd = b""

    def _text_chunk(self, raw: bytes, known: Known, text: str, *, alone: bool = False) -> bytes:
        """What leaves for the event `raw`, which differs from an earlier one in its content alone.

        alone: it is all that the backend sent for now.
        """
        news = self._top is not known.top and self._turn_to(known.top)
        part = known.part
        choice = part.choice
        known.met = True
        if choice.finished:
            return b""
        if self._counts:
            self._usage.wrote(text, part.index)
        answer = choice.answer
        said = answer.read(text)
        if isinstance(said, str):
            index = answer.calls - 1
            if said and (frame := known.frames.get(index)) is not None:
                if alone and not self._open_flow(known) and said == text:  # as inside of a string
                    self._open_past(known)
                return b"".join((frame[0], _encode(said) if said.isascii() else openai.encode(said), frame[1]))
            if not said and text and known.silent and not news:
                if alone:
                    self._open_flow(known)
                return b""
            ops: list[Op] = [Arguments(index, said)] if said else []
        else:
            ops = said
        if len(ops) == 1 and not answer.stopped:
            op = ops[0]
            if type(op) is Content:
                if op.text == text:
                    if alone:
                        self._open_past(known)
                    return raw
                if (frame := known.frames.get(-1)) is not None:
                    return b"".join((frame[0], openai.encode(op.text), frame[1]))
        elif not ops and not answer.stopped and text and known.silent and not news:
            return b""
        self._see_stop()
        if is_plain(ops, text):
            return raw
        part.text, part.ops = text, ops
        out: list[bytes] = []
        self._put(part, out, shell=known.shell, news=news)
        self._expect(known, silent=not out)
        ops.clear()
        self._blame(choice)
        return b"".join(out)

    def _expect(self, known: Known, *, silent: bool) -> None:
        """Prepare for more chunks like this one: with no effect, or with one piece of text or arguments."""
        op = known.part.ops[-1] if known.part.ops else None
        if op is None:
            known.silent = silent
        elif known.part.delta.keys() <= {"content", "role"}:
            shell = known.shell
            if type(op) is Content:
                known.frames[-1] = (shell.before + b'{"content":', b"}" + shell.after)
            elif type(op) is Arguments and not op.custom and not self._as_object:
                begin, end = self._deltas.around_arguments(op)
                known.frames = {op.index: (shell.before + begin, end + shell.after)}

    def _chunk(self, event: ServerEvent, top: Fields, out: list[bytes]) -> None:
        counted = not openai.is_null(top.get("usage"))
        good = counted and self._usage.saw(openai.read_value(top["usage"]))
        choices = openai.read_objects(top.get("choices"))
        if not choices:
            if not counted:
                out.append(event.raw)
                return
            # For the end of the stream, wherever it stands here.
            self._usage_event = event.raw if good and choices is not None else b""
            self._top = self._top or top
            return
        parts = [part for fields in choices if (part := self._part(fields)) is not None]
        news = self._turn_to(top)
        self._said = self._said or any(map(says, parts))
        if not counted and len(parts) == len(choices) and all(part.unchanged for part in parts):
            out.append(event.raw)
            for part in parts:
                part.choice.has_role = True
        else:
            for part in parts:
                self._put(part, out, news=news)
                news = False
        if len(choices) == len(parts) == 1 and not counted and not parts[0].beside:
            self._learn(event, parts[0])
        for part in parts:
            self._blame(part.choice)

    def _part(self, fields: Fields) -> Part | None:
        """A choice of a chunk, read by its parser; None after the end of that choice."""
        index = openai.read_value(fields.get("index"))
        unchanged = isinstance(index, int)
        if not isinstance(index, int):
            index, fields = 0, {"index": openai.raw(0), **fields}
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = Choice(self._make_choice())
        if choice.finished:
            return None
        delta = openai.read_object(fields.get("delta"))
        if delta is None:
            unchanged, delta = False, {}
        text = openai.read_text(delta.get("content")) or ""
        beside = self._counts and self._usage.wrote_beside(delta, index)
        if text and self._counts:
            self._usage.wrote(text, index)
        thoughts: list[Op] = []
        if choice.answer.thinks:
            thoughts, rest, same = choice.answer.take_thoughts(delta, text)
            if rest is not delta:
                self._known = None  # it may go on as content, and that ends it
                beside, delta = True, rest
            unchanged = unchanged and same
        if choice.answer.native is not None and ("tool_calls" in delta or "function_call" in delta):
            calls, delta = take_calls(delta)
            ops = choice.answer.feed_both(text, calls)
            plain = not calls and is_plain(ops, text)
        else:
            ops = choice.answer.feed(text) if text else []
            plain = is_plain(ops, text)
        # Some engines send an empty finish_reason until the end.
        reason = told = openai.read_text(fields.get("finish_reason")) or None
        if told is not None:
            last, reason = choice.answer.finish(told)
            ops += last
            if choice.answer.fault is None:
                choice.finished = True
            else:
                reason = None
        unchanged = unchanged and (plain and is_plain(ops, text)) and reason == told
        ops = thoughts + ops if thoughts else ops
        if reason is not None and (choice.answer.extras or (text and choice.answer.calls)):
            unchanged = False  # behind calls, a delta that finishes is empty
        if not choice.has_role and openai.is_null(delta.get("role")):
            unchanged = False
        if told in ENDED:
            self._usage.ended()
        return Part(choice, fields, delta, text, ops, reason, unchanged, index, beside)

    def _turn_to(self, top: Fields) -> bool:
        """Keep the head of this chunk. True when it holds something that the last one did not."""
        last, self._top = self._top, top
        return last is not top and any(
            name not in openai.HEAD
            and name not in {"choices", "usage"}
            and not openai.is_null(value)
            and last.get(name) != value
            for name, value in top.items()
        )

    def _learn(self, event: ServerEvent, part: Part) -> None:
        """Remember this chunk: most of an answer looks like it."""
        content = part.delta.get("content")
        if self._known is not None:
            self._unlike = 0 if self._known.met else self._unlike + 1
        if self._unlike >= _MAX_UNLIKE or not part.text:
            return
        if part.reason is None and content is not None and event.data is not None:
            shape = Shape.of(event.data, content)
            shape = None if shape is None else shape.in_event(event.raw, event.data)
            self._known = None if shape is None else Known(shape, part, self._top, Shell(self._top, part.fields))

    # -- chunks out ----------------------------------------------------------------------------------------------

    def _put(self, part: Part, out: list[bytes], *, shell: Shell | None = None, news: bool = False) -> None:
        """Chunks for what a part has become. `shell`: of its fields. `news`: its chunk's own fields must leave."""
        choice, fields, reason = part.choice, part.fields, part.reason
        rest = {name: value for name, value in part.delta.items() if name != "content" or not part.text}
        if choice.has_role:
            rest.pop("role", None)
        else:
            rest["role"] = _ASSISTANT
            choice.has_role = True
        bare = {"index": fields["index"]}
        if shell is None:
            # A finish_reason has a chunk of its own, and what stands beside it goes there.
            shell = Shell(self._top, bare if reason is not None else fields)
        for number, op in enumerate(part.ops):
            delta = self._deltas.parts(op)
            if number == 0 and rest:
                delta = (_encode({**rest, **(openai.read_object(b"".join(delta)) or {})}),)
            elif number == 1:
                shell = Shell(self._top, bare)
            # In parts: a whole call may be long, and is joined once.
            out += (shell.before, *delta, shell.after)
        if not part.ops:
            extras = reason is None and any(
                name not in _OWN_FIELDS and not openai.is_null(value) for name, value in fields.items()
            )
            if extras or any(not openai.is_null(value) for value in rest.values()) or (news and reason is None):
                out.append(shell.around(_encode(rest)))
        if reason is not None:
            out.append(self._finish_chunk(fields, reason, choice.answer))

    def _finish_chunk(self, fields: Fields, reason: str, answer: ChoiceAnswer) -> bytes:
        """An empty delta with the finish_reason."""
        choice = {**fields, "delta": {}, "finish_reason": reason}
        body = {name: value for name, value in self._top.items() if name != "usage"}
        return openai.event(_encode({**body, "choices": [choice], **answer.extras}))
