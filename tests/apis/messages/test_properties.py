"""Rules that hold for any answer and any body: nothing is lost, cuts change nothing, and only our errors are raised."""

from __future__ import annotations

import copy
import json
import random
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.apis.fed import MessagesFace, however_cut, models_reply
from toolcall_middleware.apis.face import FaceRequest
from toolcall_middleware.errors import ToolCallError

from .chat import READ, asked, body, call, chunk, end, more, opening, recorded, whole
from .received import error_of, frames, read_stream, read_whole

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
@given(text, text, st.lists(objects, max_size=3))
def test_stream_and_whole_agree(thought: str, content: str, calls: list[Any]) -> None:
    said = [("thought", thought), ("text", content), *(("call", value) for value in calls)]
    stream = asked(**THINKING)
    streamed = read_stream(stream.feed(chat_stream(said, random.Random(1), in_turns=False)) + stream.finish(cut=False))
    made = [call(f"call_{n}", f"tool{n}", json.dumps(value)) for n, value in enumerate(calls)]
    message = {"content": content, "reasoning": thought, "tool_calls": made}
    reply = asked(**THINKING).whole(200, {}, whole(message, "tool_calls" if calls else "stop"))
    received = read_whole(reply.body)
    other = {"id": "", "stop_details": None}  # the accumulator adds this one
    assert {**streamed.message.to_dict(), **other} == {**received.message.to_dict(), **other}


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


# -- hostile -------------------------------------------------------------------------------------------------------

RICH: dict[str, Any] = {
    "model": "m",
    "max_tokens": 100,
    "stream": True,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    "stop_sequences": ["a"],
    "temperature": 1,
    "top_p": 1,
    "top_k": 1,
    "mcp_servers": [{"name": "x", "type": "url"}],
    "tool_choice": {"type": "tool", "name": "Read", "disable_parallel_tool_use": True},
    "tools": [
        READ,
        {"type": "bash_20250124", "name": "bash"},
        {
            "type": "computer_20251124",
            "name": "computer",
            "display_width_px": 1,
            "display_height_px": 2,
            "enable_zoom": True,
        },
        {"type": "web_search_20250305", "name": "web_search"},
        {"name": "Later", "input_schema": {}, "defer_loading": True},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "q"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}},
                {
                    "type": "document",
                    "title": "t",
                    "source": {"type": "content", "content": [{"type": "text", "text": "d"}]},
                },
                {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "d"}]},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "toolcall-v1.aG0="},
                {"type": "text", "text": "a"},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "/"}},
                {"type": "server_tool_use", "id": "t2", "name": "web_search", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "r"}, {"type": "tool_reference", "tool_name": "Later"}],
                }
            ],
        },
        {
            "role": "system",
            "content": [
                {
                    "type": "tool_addition",
                    "tool": {"type": "tool_definition", "definition": {"name": "New", "input_schema": {}}},
                },
                {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "New"}},
            ],
        },
    ],
}
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**30, "", "x", "\ud83d", [], {}, [None], [[]], [{}], {"type": "text"}, {"type": 1},
    {"type": "tool_use"}, [{"type": "text", "text": "t"}], {"type": []}, "a" * 1000,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value in a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def mutated(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    made = copy.deepcopy(value)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = odd
    return made


def request_or_refusal(face: MessagesFace, data: bytes) -> FaceRequest | ToolCallError:
    try:
        return face.request(data)
    except ToolCallError as error:
        return error


def survives(data: bytes) -> None:
    """A request is taken or refused, and what is taken is a chat completion that can be answered."""
    for face in (MessagesFace(), MessagesFace(inline_tools=True)):
        made = request_or_refusal(face, data)
        if isinstance(made, ToolCallError):
            assert made.status == 400
            assert face.error(made).status == 400
            assert error_of(face.error(made).body)["message"]
            continue
        chat = json.loads(made.body)
        assert isinstance(chat["model"], str)
        assert chat["messages"]
        out = face.feed(opening(0, "call_x", "Read") + more(0, "{}") + end("tool_calls")) + face.finish(cut=False)
        assert frames(out)[-1]["type"] == "message_stop"


def test_the_rich_body_is_taken() -> None:
    assert MessagesFace().request(json.dumps(RICH).encode()).dropped_tools == ("web_search", "x")


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD, ids=[repr(odd)[:20] for odd in ODD])
def test_odd_values_anywhere_are_taken_or_refused(odd: Any) -> None:
    for path in places(RICH):
        survives(json.dumps(mutated(RICH, path, odd)).encode())


@pytest.mark.parametrize("name", ["claude_code-02", "claude_code_mcp-02", "ai_sdk_anthropic-02"])
def test_broken_recordings_are_taken_or_refused(name: str) -> None:
    data = recorded(name)
    rng = random.Random(name)
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(broken))
            match rng.randrange(3):
                case 0:
                    broken[at] = rng.randrange(256)
                case 1:
                    del broken[at : at + rng.randrange(1, 40)]
                case _:
                    broken[at:at] = rng.choice((b'"', b"{", b"]", b"\\", b"null", b"\xff", b'\\ud800"', b"NaN"))
        survives(bytes(broken))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_refused_as_a_request_and_read_as_an_answer(data: bytes) -> None:
    survives(data)
    face = asked()
    assert face.whole(200, {}, data).status in {200, 500, 502}
    assert asked().whole(500, {}, data).status in {400, 500}
    out = face.feed(b"data: " + data.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n\n") + face.finish(cut=False)
    assert frames(out)[-1]["type"] in {"error", "message_stop"}
    assert models_reply(data).status in {200, 500, 502}
    assert models_reply(data, "x").status in {200, 404}


CHUNK: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "delta": {
                "role": "assistant",
                "content": "a",
                "reasoning": "b",
                "tool_calls": [
                    {"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            "finish_reason": "stop",
            "stop_reason": "x",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
    "error": None,
}


@pytest.mark.parametrize("odd", ODD, ids=[repr(odd)[:20] for odd in ODD])
def test_odd_chunks_end_in_a_message_or_an_error(odd: Any) -> None:
    for path in places(CHUNK):
        face = asked(**THINKING)
        data = json.dumps(mutated(CHUNK, path, odd)).encode()
        out = face.feed(b"data: " + data + b"\n\n" + end("stop")) + face.finish(cut=False)
        assert frames(out)[-1]["type"] in {"error", "message_stop"}
        message = mutated(CHUNK, path, odd)
        given_whole = json.dumps(message).replace('"delta"', '"message"').encode()
        assert asked(**THINKING).whole(200, {}, given_whole).status in {200, 500, 502}


# -- cost ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_call_in_small_pieces_costs_linear_time() -> None:
    def run(count: int) -> float:
        face = asked()
        face.feed(opening(0, "call_a", "Read") + opening(1, "call_b", "Read") + more(0, '{"a": "'))
        pieces = [more(0, "x}{") for _ in range(count)]
        begin = time.process_time()
        for piece in pieces:
            face.feed(piece)
        taken = time.process_time() - begin
        face.feed(more(0, '"}'))
        return taken

    run(500)
    short = min(run(2000) for _ in range(3))
    long = min(run(8000) for _ in range(3))
    assert long < short * 9


def test_many_calls_in_turns_cost_linear_time() -> None:
    face = asked()
    count = 300
    face.feed(b"".join(opening(n, f"call_{n}", "Read") + more(n, "{") for n in range(count)))
    face.feed(b"".join(more(n, '"a":1}') for n in reversed(range(count))))
    out = face.feed(end("tool_calls")) + face.finish(cut=False)
    assert frames(out)[-1]["type"] == "message_stop"
