"""The table of the exchange: which event leads to which actions in each state, and that nothing else is taken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.exchange.test_exchange import CALL, ask
from tests.helpers.driven import JSON, SSE
from tests.response.streams import DONE, chunk, completion, role, says, stream
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.exchange import (
    Action,
    Ask,
    Body,
    BrokenOff,
    Count,
    Done,
    Event,
    Exchange,
    Fail,
    Failed,
    Head,
    Pass,
    Request,
    Send,
    Start,
    State,
    StopUpstream,
)
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

ERROR = ToolCallError("upstream_error", "It broke.")
HELLO = stream(role(), *says("Hello"), done=False)
END = stream(chunk({}, "stop"))


def asked(*, defer: bool = False, settings: dict[str, Any] | None = None, **fields: object) -> Exchange:
    made = Exchange(Settings(**{"mode": "prompt", **(settings or {})}), BackendMemory(), defer=defer)
    assert kinds(made.receive(Request(ask(**fields)))) == [Ask]
    return made


def kinds(actions: Sequence[Action]) -> list[type]:
    return [type(action) for action in actions]


def state_of(made: Exchange) -> State:
    """Its state now: a type checker takes an attribute for what it was a line before."""
    return made.state


def test_a_request_without_tools_passes() -> None:
    made = Exchange(Settings(mode="prompt"), BackendMemory())
    assert made.receive(Request(ask(tools=None))) == [Pass()]
    assert state_of(made) is State.ENDED


def test_a_refused_request_fails() -> None:
    made = Exchange(Settings(mode="prompt"), BackendMemory())
    fail, stop = made.receive(Request(ask(tool_choice="nope")))
    assert isinstance(fail, Fail)
    assert stop == StopUpstream(early=True)
    assert state_of(made) is State.ENDED


def test_a_stream_starts_with_its_first_bytes_and_ends_once() -> None:
    made = asked(stream=True)
    assert kinds(made.receive(Head(200, SSE))) == []
    assert state_of(made) is State.SNIFFING
    assert kinds(made.receive(Body(b"\n"))) == []
    assert state_of(made) is State.SNIFFING
    assert kinds(made.receive(Body(HELLO))) == [Start, Send]
    assert state_of(made) is State.STREAMING
    assert kinds(made.receive(Body(END))) == [Send]
    closing = made.receive(Body(b"", last=True))
    assert closing == [Send(DONE), Send(b"", last=True), StopUpstream(early=False)]
    assert state_of(made) is State.ENDED


def test_the_backend_is_stopped_as_soon_as_the_answer_is_complete() -> None:
    made = asked(stream=True, parallel_tool_calls=False)
    made.receive(Head(200, SSE))
    actions = made.receive(Body(stream(role(), *says(CALL), *says("and more"), done=False)))
    assert kinds(actions) == [Start, Send, Send, StopUpstream]
    assert actions[-1] == StopUpstream(early=True)
    assert made.emitted_calls == 1


def test_another_attempt_is_asked_for_before_anything_leaves() -> None:
    made = asked(stream=True, tool_choice="required", settings={"constrain": "off"})
    made.receive(Head(200, SSE))
    made.receive(Body(HELLO))
    stop, again = made.receive(Body(END, last=True))
    assert stop == StopUpstream(early=False)
    assert isinstance(again, Ask)
    assert "Hello" in json.loads(again.body)["messages"][-2]["content"]
    assert state_of(made) is State.WAITING


def test_a_count_is_waited_for() -> None:
    made = asked(defer=True, messages=[{"role": "user", "content": "x" * 200_000}])
    made.receive(Head(200, JSON))
    assert state_of(made) is State.COLLECTING
    (count,) = made.receive(Body(completion("Hello"), last=True))
    assert isinstance(count, Count)
    assert state_of(made) is State.COUNTING
    count.pending.count()
    start, send, stop = made.receive(Done())
    assert isinstance(start, Start)
    assert isinstance(send, Send)
    assert json.loads(send.data)["usage"]["estimated"] is True
    assert (send.last, stop) == (True, StopUpstream(early=False))


def test_usage_is_added_to_a_stream_that_goes_on_as_it_came() -> None:
    made = asked(tools=None, stream=True, stream_options={"include_usage": True})
    assert kinds(made.receive(Head(200, SSE))) == [Start]
    assert state_of(made) is State.TAPPING
    assert made.receive(Body(HELLO)) == [Send(HELLO)]
    (send,) = made.receive(Body(END, last=True))
    assert isinstance(send, Send)
    assert send.last
    assert b'"usage"' in send.data
    assert made.receive(Failed(ERROR)) == ()


@pytest.mark.parametrize("last", [Body(b": bye\n\n", last=True), BrokenOff(), None], ids=["end", "broken off", "later"])
def test_what_follows_a_stream_that_is_counted_waits_for_the_count(last: Event | None) -> None:
    messages = [{"role": "user", "content": "x" * 200_000}]
    made = asked(defer=True, tools=None, stream=True, stream_options={"include_usage": True}, messages=messages)
    made.receive(Head(200, SSE))
    send, count = made.receive(Body(HELLO + END))
    assert send == Send(HELLO + END.removesuffix(DONE))
    assert isinstance(count, Count)
    assert list(made.receive(last or Body(b": bye\n\n"))) == []
    count.pending.count()
    (rest,) = made.receive(Done())
    assert isinstance(rest, Send)
    assert b'"estimated":true' in rest.data
    assert rest.data.endswith(DONE if isinstance(last, BrokenOff) else DONE + b": bye\n\n")
    assert rest.last is (last is not None)
    assert last or list(made.receive(Body(b"", last=True))) == [Send(b"", last=True)]
    assert state_of(made) is State.ENDED


def test_an_error_is_an_answer_before_the_start_and_an_event_after_it() -> None:
    event = Failed(ERROR)
    made = asked(stream=True)
    made.receive(Head(200, SSE))
    assert made.receive(event) == [Fail(ERROR), StopUpstream(early=True)]
    made = asked(stream=True)
    made.receive(Head(200, SSE))
    made.receive(Body(HELLO))
    send, close, stop = made.receive(event)
    assert isinstance(send, Send)
    assert send.data.endswith(ERROR.sse() + DONE)
    assert (close, stop) == (Send(b"", last=True), StopUpstream(early=True))


def test_what_fails_behind_the_end_changes_nothing() -> None:
    made = asked(stream=True)
    made.receive(Head(200, SSE))
    made.receive(Body(HELLO + END))
    assert made.receive(Failed(ERROR)) == [Send(DONE), Send(b"", last=True), StopUpstream(early=False)]


@pytest.mark.parametrize(("raised", "actions"), [(True, []), (False, [Fail, StopUpstream])])
def test_a_stream_that_breaks_off_before_it_begins_is_the_servers_where_the_app_raised(
    raised: bool, actions: list[type]
) -> None:
    made = asked(stream=True, tool_choice="required")
    made.receive(Head(200, SSE))
    made.receive(Body(HELLO))
    assert kinds(made.receive(BrokenOff(raised=raised))) == actions


def test_an_event_that_cannot_come_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Head cannot come while an exchange is new"):
        Exchange(Settings(), BackendMemory()).receive(Head(200, SSE))
    with pytest.raises(RuntimeError, match=r"http.response.body before http.response.start"):
        asked().receive(Body(b""))
    made = asked(stream=True)
    made.receive(Head(200, SSE))
    with pytest.raises(RuntimeError, match="Done cannot come while an exchange is sniffing"):
        made.receive(Done())


@pytest.mark.parametrize("event", [Body(b"x"), Body(b"", last=True), BrokenOff(), Failed(ERROR)])
def test_what_comes_behind_the_end_is_ignored(event: Event) -> None:
    made = asked()
    made.receive(Head(200, JSON))
    made.receive(Body(completion("Hello"), last=True))
    assert state_of(made) is State.ENDED
    assert made.receive(event) == ()
