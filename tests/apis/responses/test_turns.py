"""What comes behind a call that is not finished yet: it waits for the call, and neither is lost."""

from __future__ import annotations

import json

import pytest

from . import chat
from .asking import PATCH, WEATHER, asked, streamed
from .chat import call, text, thought
from .received import Received, check_stream, check_whole, read_events

TOOLS = [WEATHER, PATCH, {"type": "shell"}]
CITY = '{"city": "A"}'


def more(index: int, arguments: str) -> list[chat.Delta]:
    return [{"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}]


def received(deltas: list[chat.Delta], reason: str = "tool_calls") -> Received:
    return check_stream(streamed(chat.stream(deltas, reason), tools=TOOLS))


def whole_of(deltas: list[chat.Delta], reason: str) -> Received:
    face, _ = asked(tools=TOOLS)
    return check_whole(face.whole(200, {}, json.dumps(chat.pieces_of(deltas, reason)).encode()).body)


def told(got: Received) -> list[str]:
    """What the items are and say, without their order: a whole chat completion has none between text and calls."""
    said = ("name", "arguments", "input", "action", "content")
    return sorted(repr((item["type"], item["status"], [item.get(name) for name in said])) for item in got.output)


def item_events(got: Received) -> list[tuple[str, int]]:
    names = ("response.output_item.added", "response.output_item.done")
    return [(event["type"].rpartition(".")[2], event["output_index"]) for event in got.events if event["type"] in names]


@pytest.mark.parametrize("between", [text(" Done."), thought("so"), [*thought("so"), *text("Done", ".")]])
def test_the_end_of_a_call_that_comes_behind_other_items_belongs_to_it(between: list[chat.Delta]) -> None:
    """A call's missing brace is added when the call ends, which may be behind the text that the backend wrote next."""
    deltas = [*call(0, "get_weather", '{"city": "A'), *between, *more(0, '"}')]
    got = received(deltas)
    assert got.response["status"] == "completed"
    assert got.calls == [("function_call", "get_weather", None, CITY)]
    assert got.output[0]["status"] == "completed"
    assert told(got) == told(whole_of([*call(0, "get_weather", CITY), *between], "tool_calls"))
    places = range(len(got.output))
    assert item_events(got) == [event for place in places for event in (("added", place), ("done", place))]


def test_what_waits_is_told_as_soon_as_the_call_is_whole() -> None:
    face, _ = asked(tools=TOOLS, stream=True)
    for delta in call(0, "get_weather", '{"city": "{'):
        face.feed(chat.chunk(delta))
    assert face.feed(chat.chunk(text("Do")[0]) + chat.chunk(text("ne.")[0])) == b""
    out = read_events(face.feed(chat.chunk(more(0, '}"}')[0])))
    assert [event["type"].removeprefix("response.") for event in out] == [
        "function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "output_item.added",
        "content_part.added", "output_text.delta", "output_text.delta",
    ]  # fmt: skip
    assert [event["delta"] for event in out[-2:]] == ["Do", "ne."]
    assert [event["type"] for event in read_events(face.feed(chat.chunk(text("!")[0])))] == [
        "response.output_text.delta"
    ]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize(
    "cut",
    [call(0, "get_weather", '{"city": "A", "n": "5'), call(0, "apply_patch", '{"input": "*** B'),
     call(0, "shell", '{"commands": ["rm')],
)  # fmt: skip
def test_a_cut_call_is_incomplete_whatever_comes_behind_it(cut: list[chat.Delta], reason: str) -> None:
    got = received([*cut, *text("x")], reason)
    assert got.response["status"] == "incomplete"
    assert [item["status"] for item in got.output] == ["incomplete", "completed"]
    assert got.text == "x"
    assert told(got) == told(whole_of([*cut, *text("x")], reason))


def test_a_custom_call_whose_text_is_whole_takes_the_rest_of_its_arguments_behind_other_items() -> None:
    got = received([*call(0, "apply_patch", '{"input": "a"'), *text("x"), *more(0, "}")])
    assert [(item["type"], item["status"]) for item in got.output] == [
        ("custom_tool_call", "completed"), ("message", "completed"),
    ]  # fmt: skip
    cut = received([*call(0, "apply_patch", '{"input": "a"'), *text("x")], "length")
    assert [item["status"] for item in cut.output] == ["completed", "incomplete"]


def test_what_waits_is_in_an_answer_that_fails() -> None:
    got = check_stream(streamed(chat.stream([*call(0, "get_weather", '{"city'), *text("x")], None, done=False)))
    assert got.response["status"] == "failed"
    assert [(item["type"], item["status"]) for item in got.output] == [
        ("function_call", "incomplete"), ("message", "incomplete"),
    ]  # fmt: skip
    assert item_events(got) == [("added", 0)]


def test_many_calls_in_turns_come_out_whole() -> None:
    count = 300
    opened = [delta for index in range(count) for delta in call(index, "get_weather", '{"city": "')]
    rest = [delta for index in reversed(range(count)) for delta in more(index, f'{index}"}}')]
    got = received([*opened, *text("x"), *rest])
    assert [json.loads(called[3])["city"] for called in got.calls] == [str(index) for index in range(count)]
    assert got.text == "x"
