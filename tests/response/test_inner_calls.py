"""What is taken out of an answer for the middleware is bounded, whatever the model writes."""

from __future__ import annotations

import logging

import pytest

from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Text
from toolcall_middleware.response import outcome
from toolcall_middleware.response.inner_calls import MOST_HELD, InnerCalls, InnerTools, OuterEvents
from toolcall_middleware.response.outcome import CallOutcomes, CallReport

PIECE = "x" * 4096
MANY = 4 * MOST_HELD // len(PIECE)


def state() -> InnerCalls:
    return InnerCalls(InnerTools(find="find_tools", unshown=("deferred",), faults=lambda _name, _arguments: ["no"]))


def test_of_a_long_text_before_a_search_the_beginning_is_kept() -> None:
    inner = state()
    outer = OuterEvents(inner)
    for _ in range(MANY):
        assert outer.take([Text(PIECE)]) == [Text(PIECE)]
    outer.take([CallStart("find_tools"), CallArgs('{"query": "a"}'), CallEnd()])
    assert inner.asked is not None
    assert inner.asked.said == "x" * MOST_HELD
    assert inner.asked.arguments == '{"query": "a"}'


def test_of_long_arguments_of_a_search_the_beginning_is_kept() -> None:
    inner = state()
    outer = OuterEvents(inner)
    outer.take([CallStart("find_tools")])
    for _ in range(MANY):
        outer.take([CallArgs(PIECE)])
    outer.take([CallEnd()])
    assert inner.asked is not None
    assert len(inner.asked.arguments) == MOST_HELD


def test_a_deferred_tool_s_call_that_is_too_long_is_the_client_s() -> None:
    inner = state()
    outer = OuterEvents(inner)
    got = outer.take([CallStart("deferred")])
    for _ in range(MANY):
        got += outer.take([CallArgs(PIECE)])
    got += outer.take([CallEnd()])
    assert inner.asked is None
    assert "".join(event.text for event in got if isinstance(event, CallArgs)) == PIECE * MANY
    assert (type(got[0]), type(got[-1])) == (CallStart, CallEnd)


def test_names_like_an_unknown_one_are_looked_for_only_where_they_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def unknown_name(name: str, _offered: object) -> str:
        looked.append(name)
        return "unknown"

    monkeypatch.setattr(outcome, "unknown_name", unknown_name)
    log = logging.getLogger("toolcall_middleware")
    for level, expected in ((logging.INFO, []), (logging.DEBUG, ["wether"])):
        monkeypatch.setattr(log, "level", level)
        log.manager._clear_cache()  # type: ignore[attr-defined]
        CallOutcomes(ToolSet.of([Tool("weather")]), report=CallReport("m")).refuse("wether")
        assert looked == expected
