"""Ids in an upstream's own form: the same at each turn, never two as one, and nothing else of the body changes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.apis.foreign_call_ids import FORMS, alphanumeric, mapped, with_ids
from toolcall_middleware.errors import ToolCallError

MISTRAL = FORMS["mistral"]
OURS = "call_abcdefghijklmnopqrstuvwx"


def turn(*ids: str) -> list[dict[str, Any]]:
    calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]
    results = [{"role": "tool", "tool_call_id": one, "content": one} for one in ids]
    return [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": calls}, *results]


def sent(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(with_ids(json.dumps({"messages": messages}).encode(), MISTRAL))["messages"]
    return made


def ids_of(messages: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    return calls, [message["tool_call_id"] for message in messages if "tool_call_id" in message]


def test_calls_and_results_get_the_same_new_id() -> None:
    calls, results = ids_of(sent(turn(OURS, "toolu_01", "D681PevKs")))
    assert calls == results
    assert calls[2] == "D681PevKs"
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", one) for one in calls)
    assert len(set(calls)) == 3


def test_an_id_is_the_same_at_each_turn_and_in_each_process() -> None:
    first = ids_of(sent(turn(OURS)))[0]
    later = ids_of(sent(turn(OURS) + turn("other", "more")))[0]
    assert later[0] == first[0]
    assert MISTRAL.derived(OURS) == "93GspqYXO"


def test_what_fits_already_is_not_touched() -> None:
    body = b'{ "messages":[{"role":"user","content":"x"}, {"role":"assistant","tool_calls":[{"id":"D681PevKs"}]}] }'
    assert with_ids(body, MISTRAL) is body
    assert with_ids(b'{"messages": [{"role": "user"}]}', MISTRAL) == b'{"messages": [{"role": "user"}]}'


@pytest.mark.parametrize("body", [b"", b"[]", b'{"messages": 7}', b'{"messages": [1]}', b'{"prompt": "x"}'])
def test_what_is_no_chat_passes(body: bytes) -> None:
    assert with_ids(body, MISTRAL) is body


def test_all_else_keeps_its_bytes() -> None:
    body = (
        b'{"x":1.50,"messages":[{"role":"assistant","odd":2.0e1,"tool_calls":[{"id":"a b","index":0,"function":'
        b'{"name":"f","arguments":"{ }"},"extra":0.10}]},{"role":"tool","tool_call_id":"a b","content":[1.0]}],"y":[]}'
    )
    made = with_ids(body, MISTRAL)
    assert made.replace(MISTRAL.derived("a b").encode(), b"a b") == body


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_result_of_no_earlier_call_is_refused(order: slice) -> None:
    messages = turn(OURS)[1:][order]
    stray = {"role": "tool", "tool_call_id": "nobody's", "content": "x"}
    messages = [*messages, stray] if order.step is None else messages
    with pytest.raises(ToolCallError) as caught:
        sent(messages)
    assert caught.value.code == "invalid_tool_call_id"
    assert caught.value.param == ("messages[2].tool_call_id" if order.step is None else "messages[0].tool_call_id")


def test_ids_that_collide_are_told_apart() -> None:
    form = alphanumeric(1)
    names = [f"client-{number}" for number in range(40)] + ["a", "B"]
    made = mapped(names, form)
    assert len(set(made.values())) == len(names)
    assert (made["a"], made["B"]) == ("a", "B")
    assert mapped(names, form) == made


@given(st.lists(st.text(min_size=1), max_size=20))
def test_any_ids_become_as_many_of_the_form(names: list[str]) -> None:
    made = mapped(names, MISTRAL)
    assert made.keys() == set(names)
    assert len(set(made.values())) == len(made)
    assert all(MISTRAL.fits(one) for one in made.values())
