"""Rules that hold for any answer and any body: nothing is lost, cuts change nothing, and only our errors are raised."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.apis.fed import MessagesFace, however_cut

from .chat import asked, body, chunk, end, more, opening
from .received import frames, read_stream

THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(text, json_values, max_size=4)
steps = st.lists(
    st.tuples(st.just("text"), text) | st.tuples(st.just("thought"), text) | st.tuples(st.just("call"), objects),
    max_size=8,
)


def pieces_of(value: str, rng: random.Random) -> list[str]:
    pieces = []
    while value:
        size = rng.choice((1, 2, 5, 20))
        pieces.append(value[:size])
        value = value[size:]
    return pieces


def chat_stream(said: list[tuple[str, Any]], rng: random.Random, *, in_turns: bool) -> bytes:
    """The answer as a chat stream. in_turns: the pieces of the calls come in any order among each other."""
    out = [chunk({"role": "assistant", "content": ""})]
    late: list[tuple[int, list[str]]] = []
    index = 0
    for kind, value in said:
        if kind == "call":
            out.append(opening(index, f"call_{index}", f"tool{index}"))
            pieces = pieces_of(json.dumps(value), rng)
            if in_turns:
                late.append((index, pieces))
            else:
                out += [more(index, piece) for piece in pieces]
            index += 1
        else:
            field = "content" if kind == "text" else "reasoning"
            out += [chunk({field: piece}) for piece in pieces_of(value, rng)]
    while late:
        number, pieces = rng.choice(late)
        if pieces:
            out.append(more(number, pieces.pop(0)))
        else:
            late.remove((number, pieces))
    return b"".join(out) + end("tool_calls" if index else "stop")


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(steps, st.integers(0, 2**32))
@example([("text", "\r"), ("thought", "0")], 0)  # white space of the text is none of the thought
def test_what_the_model_says_comes_out_once_and_in_order(said: list[tuple[str, Any]], seed: int) -> None:
    turns, data = (chat_stream(said, random.Random(seed), in_turns=in_turns) for in_turns in (True, False))
    assert frames(however_cut(lambda: asked(**THINKING), turns))[-1]["type"] == "message_stop"
    received = read_stream(however_cut(lambda: asked(**THINKING), data))
    assert received.calls == [(f"tool{n}", value) for n, value in enumerate(v for kind, v in said if kind == "call")]
    for kind, name, field in (("text", "text", "text"), ("thought", "thinking", "thinking")):
        wanted = "".join(value for step, value in said if step == kind)
        at = 0
        for block in received.content:
            if block["type"] == name:
                at = wanted.index(block[field], at) + len(block[field])  # to the character, and in order
        found = "".join(block[field] for block in received.content if block["type"] == name)
        assert "".join(found.split()) == "".join(wanted.split())  # white space between blocks is all that is missing


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(steps)
def test_an_answer_comes_back_in_the_next_request(said: list[tuple[str, Any]]) -> None:
    face = asked(**THINKING)
    received = read_stream(face.feed(chat_stream(said, random.Random(2), in_turns=False)) + face.finish(cut=False))
    results = [
        {"type": "tool_result", "tool_use_id": b["id"], "content": "r"}
        for b in received.content
        if b["type"] == "tool_use"
    ]
    history = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": received.content},
        {"role": "user", "content": [*results, {"type": "text", "text": "go"}]},
    ]
    made = json.loads(MessagesFace().request(body(messages=history)).body)["messages"]
    assert [message["role"] for message in made] == ["user", "assistant", *["tool"] * len(results), "user"]
    calls = [json.loads(call["function"]["arguments"]) for call in made[1].get("tool_calls", ())]
    assert calls == [value for kind, value in said if kind == "call"]
    assert made[1].get("reasoning_content", "").replace("\n\n", "") == received.thinking.replace("\n\n", "")
