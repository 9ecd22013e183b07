"""A backend that does one thing after the other, in any order: the client's stream keeps the rules all the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.bench.fuzzed.texts import MARKERS, PROSE, TOOLS
from tests.helpers.driven import Driven
from tests.helpers.stream_rules import check_stream
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

pytestmark = pytest.mark.slow

CALLS = (
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "at": {"x": [1, 2]}}}\n</tool_call>',
    '```json\n{"tool_calls": [{"name": "find_all", "arguments": {"days": 2}}]}\n```',
    "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
    "[TOOL_CALLS]find_all[ARGS]{}",
)
PIECES = st.one_of(st.sampled_from(PROSE), st.sampled_from(MARKERS), st.sampled_from(CALLS), st.text(max_size=5))
HEAD = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
NAMES = {"weather", "find_all"}


class Backend(RuleBasedStateMachine):
    """Streams an answer; what it does next is drawn."""

    @initialize(
        usage=st.booleans(),
        whole_calls=st.booleans(),
        mode=st.sampled_from(["prompt", "native"]),
        most=st.sampled_from([1, 128]),
    )
    def ask(self, *, usage: bool, whole_calls: bool, mode: str, most: int) -> None:
        self.usage = usage
        settings = Settings(
            mode=mode, stream_arguments=not whole_calls, max_tool_calls=most, reasoning_field="reasoning"
        )
        self.exchange = Driven(settings, BackendMemory())
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "stream": True}
        if usage:
            body["stream_options"] = {"include_usage": True}
        assert self.exchange.on_request(json.dumps({**body, "tools": TOOLS}).encode()) is not None
        self.out = b""
        self.error = False
        self.asked_again = False
        self._begin()

    def _begin(self) -> None:
        self.over = False
        self.exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
        self._send({"role": "assistant", "content": ""})

    def _feed(self, data: bytes, cut: int = 0) -> None:
        for part in (data[:cut], data[cut:]):
            if self.error or self.exchange.stopped:
                self.over = True
                return
            self._take(self.exchange.feed, part)
        self.over = self.over or self.exchange.stopped

    def _take(self, step: Callable[..., bytes], *given: Any, **named: Any) -> None:
        """What a step of the exchange sends. An error before the first byte is a status for the client."""
        try:
            self.out += step(*given, **named)
        except ToolCallError:
            assert not self.out
            self.error = self.over = True

    def _send(self, delta: dict[str, Any], reason: str | None = None, cut: int = 0, **fields: Any) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        self._feed(b"data: " + json.dumps({**HEAD, "choices": [choice], **fields}).encode() + b"\n\n", cut)

    @precondition(lambda self: not self.over)
    @rule(text=PIECES, cut=st.integers(0, 90))
    def write(self, text: str, cut: int) -> None:
        # A native backend leaves no calls in the text here: behind half of one its own would have to
        # wait until it is known what became of that, and the answer may break off before.
        if self.exchange.native and text in (*MARKERS, *CALLS):
            return
        self._send({"content": text}, cut=cut)

    @precondition(lambda self: not self.over)
    @rule(text=PIECES)
    def think(self, text: str) -> None:
        self._send({"reasoning": text})

    @precondition(lambda self: not self.over)
    @rule(
        name=st.sampled_from(sorted(NAMES)), index=st.integers(0, 2), arguments=st.sampled_from(["{}", '{"a"', ": 1}"])
    )
    def call(self, name: str, index: int, arguments: str) -> None:
        # A native backend's own; one that was given no tools says something nobody asked for, and it is left as it is.
        if self.exchange.native:
            entry = {"index": index, "id": f"b{index}", "type": "function"}
            self._send({"tool_calls": [{**entry, "function": {"name": name, "arguments": arguments}}]})

    @precondition(lambda self: not self.over)
    @rule(kind=st.sampled_from([b": still here\n\n", b"\n", b"\r\n\r\n", b"event: ping\ndata: {}\n\n"]))
    def chatter(self, kind: bytes) -> None:
        if not kind.startswith(b"event"):
            self._feed(kind)

    @precondition(lambda self: not self.over)
    @rule(tokens=st.integers(0, 9))
    def count(self, tokens: int) -> None:
        usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
        self._feed(b"data: " + json.dumps({**HEAD, "choices": [], "usage": usage}).encode() + b"\n\n")

    @precondition(lambda self: not self.over)
    @rule(reason=st.sampled_from(["stop", "length", "tool_calls", "content_filter"]), done=st.booleans())
    def finish(self, reason: str, *, done: bool) -> None:
        self._send({}, reason)
        if done and not self.exchange.stopped:
            self._feed(b"data: [DONE]\n\n")
        self._end(cut=False)

    @precondition(lambda self: not self.over)
    @rule()
    def fail(self) -> None:
        self._feed(b'data: {"error": {"message": "engine died", "code": 500}}\n\n')
        self._end(cut=False)

    @precondition(lambda self: not self.over)
    @rule()
    def break_off(self) -> None:
        self._end(cut=True)

    @precondition(lambda self: self.over)
    @rule()
    def rest(self) -> None:
        """Nothing comes after the end."""
        if not self.error:
            self._check()

    def _end(self, *, cut: bool) -> None:
        self.over = True
        if not (self.error or self.exchange.stopped):
            self._take(self.exchange.finish, cut=cut)
        if self.exchange.take_next() is not None:
            # The answer was empty, so the backend is asked once more. Nothing of the first answer has left.
            assert not self.out
            assert not self.error
            assert not self.asked_again
            self.asked_again = True
            self._begin()
        elif not self.error:
            self._check()

    def _check(self) -> None:
        failed = b'data: {"error"' in self.out
        usage = self.usage and not failed
        check_stream(
            self.out, tools=NAMES, include_usage=usage, error=failed, objects=False, own_ids=False, same_head=False
        )

    @invariant()
    def what_has_left_is_whole_events(self) -> None:
        out = getattr(self, "out", b"")
        assert not out or out.endswith((b"\n\n", b"\r\n\r\n", b"\n")), out[-80:]


Backend.TestCase.settings = hypothesis_settings(max_examples=150, stateful_step_count=25, deadline=None)
TestBackend = Backend.TestCase
