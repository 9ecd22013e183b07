"""Which result answers which call, and what is refused, whatever API the messages are translated to."""

from __future__ import annotations

import time
from typing import Any

import pytest

from toolcall_middleware.apis.turns import read_turns
from toolcall_middleware.errors import ToolCallError

HELLO = {"role": "user", "content": "hi"}


def asks(*ids: Any) -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def gives(call_id: Any, content: str = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([asks("a", "b"), gives("b", "2"), gives("a", "1")], [["1"], ["2"]]),
        ([asks("a"), HELLO, {"role": "assistant", "content": "ok"}, gives("a", "late")], [["late"]]),
        # Some engines number the calls of each turn alike.
        ([asks("0", "0"), gives("0", "1"), gives("0", "2"), asks("0"), gives("0", "3")], [["1"], ["2"], ["3"]]),
        ([asks("0"), gives("0", "1"), asks("0", "0"), gives("0", "2"), gives("0", "3")], [["1"], ["2"], ["3"]]),
        # The last turn's call first, then the one that still waits, then the one that was answered last.
        ([asks("0"), asks("0"), gives("0", "1"), gives("0", "2"), gives("0", "3")], [["2", "3"], ["1"]]),
        ([asks("a"), gives("a", "1"), gives("a", "2")], [["1", "2"]]),
        ([asks("a", "b"), gives("b", "1")], [[], ["1"]]),
    ],
)
def test_each_call_has_its_results(messages: list[Any], expected: list[list[str]]) -> None:
    turns = read_turns([HELLO, *messages])
    assert [[one.message["content"] for one in call.results] for turn in turns for call in turn.calls] == expected
    assert "tool" not in {turn.role for turn in turns}


@pytest.mark.slow
def test_many_calls_of_one_id_cost_no_more_than_others() -> None:
    begun = time.process_time()
    turns = read_turns([HELLO, asks(*["0"] * 20_000), *[gives("0")] * 20_010])
    assert time.process_time() - begun < 2
    assert [len(call.results) for call in turns[1].calls[-2:]] == [1, 11]


CALL = asks("a")
NO_IDS: tuple[Any, ...] = (None, 1, [], {}, "", "other")
NO_RESULT_OF = [(given, "invalid_tool_call_id", "messages[2].tool_call_id") for given in NO_IDS]


@pytest.mark.parametrize(
    ("messages", "code", "param"),
    [
        ([], "invalid_request", "messages"),
        ("hello", "invalid_request", "messages"),
        (["hello"], "invalid_request", "messages[0]"),
        ([{"role": "function", "name": "w", "content": "1"}], "invalid_request", "messages[0].role"),
        ([{"content": "1"}], "invalid_request", "messages[0].role"),
        ([gives("a"), CALL], "invalid_tool_call_id", "messages[0].tool_call_id"),
        ([asks(""), gives("")], "invalid_tool_call_id", "messages[1].tool_call_id"),
        *(([HELLO, CALL, gives(given)], code, param) for given, code, param in NO_RESULT_OF),
        ([{"role": "assistant", "tool_calls": {}}], "invalid_request", "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{"id": "a"}]}], "invalid_request", "messages[0].tool_calls[0]"),
        ([{"role": "assistant", "tool_calls": ["a"]}], "invalid_request", "messages[0].tool_calls[0]"),
        *(
            (
                [{"role": "assistant", "tool_calls": [{"id": "a", **call}]}],
                "invalid_request",
                f"messages[0].tool_calls[0]{name}",
            )
            for call, name in (
                ({"function": 5}, ".function"),
                ({"function": ["f"]}, ".function"),
                ({"type": "custom", "custom": "f"}, ".custom"),
                ({"function": {"name": 5}}, ""),
                ({"function": None}, ""),
            )
        ),
    ],
)
def test_what_no_api_takes_is_refused_before_sending(messages: Any, code: str, param: str) -> None:
    with pytest.raises(ToolCallError) as caught:
        read_turns(messages)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


def test_content_of_another_type_is_refused_where_it_is_read() -> None:
    (turn,) = read_turns([{"role": "user", "content": 1}])
    with pytest.raises(ToolCallError) as caught:
        list(turn.parts())
    assert caught.value.param == "messages[0].content"
