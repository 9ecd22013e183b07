"""Bodies that mean harm, or were sent by a broken client: a ToolCallError or a sound chat completion, never else."""

from __future__ import annotations

import copy
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apis.fed import Fed, MessagesFace, ResponsesFace, models_reply
from toolcall_middleware.apis.face import FaceRequest
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import read_request
from toolcall_middleware.settings import Settings

from .messages.chat import READ, asked, end, more, opening
from .messages.received import frames
from .responses.asking import asked as asked_for_a_response

HERE = Path(__file__).parent
MESSAGES = [HERE / "data" / f"{name}.json" for name in ("claude_code-02", "claude_code_mcp-02", "ai_sdk_anthropic-02")]
RESPONSES = sorted((HERE / "responses" / "recorded").glob("*.json"))
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**30, "", "x", "auto", "\ud83d", "\x00", [], {}, [None], [[]], [{}],
    {"type": "text"}, {"type": 1}, {"type": "x"}, {"type": "tool_use"}, [{"type": "text", "text": "t"}], {"type": []},
    {"a": {"b": []}}, "a" * 1000,
)  # fmt: skip
TYPES = [
    "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning",
    "item_reference", "additional_tools", "tool_search_call", "tool_search_output", "local_shell_call",
    "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
    "compaction", "web_search_call", "namespace", "function", "custom", "shell", "input_text", "input_image",
]  # fmt: skip
KEYS = ["type", "role", "content", "call_id", "id", "name", "arguments", "output", "input", "namespace", "tools",
        "action", "operation", "encrypted_content", "summary", "execution", "format", "text", "status"]  # fmt: skip


def read(face: Fed, data: bytes) -> FaceRequest | str:
    """The request as it was read, or the code of the refusal."""
    refused: ToolCallError | None = None
    try:
        return face.request(data)
    except ToolCallError as error:
        refused = error
    reply = face.error(refused)
    assert refused.status == reply.status == 400
    assert json.loads(reply.body)["error"]["message"]
    return str(refused.code)


def of_messages(data: bytes) -> str:
    """The code of the refusal; empty where the request becomes a chat completion that can be answered."""
    code = ""
    for face in (MessagesFace(), MessagesFace(native=True)):
        made = read(face, data)
        if isinstance(made, str):
            code = made
            continue
        chat_body = json.loads(made.body)
        assert isinstance(chat_body["model"], str)
        assert chat_body["messages"]
        out = face.feed(opening(0, "call_x", "Read") + more(0, "{}") + end("tool_calls")) + face.finish(cut=False)
        assert frames(out)[-1]["type"] == "message_stop"
    return code


def of_responses(data: bytes) -> str:
    """The same; the core may refuse the chat completion, in the client's words."""
    face = ResponsesFace()
    made = read(face, data)
    if isinstance(made, str):
        return made
    assert isinstance(json.loads(made.body)["messages"], list)
    try:
        read_request(made.body, Settings())
    except ToolCallError as error:
        param = json.loads(face.error(error).body)["error"]["param"]
        assert param is None or not param.startswith("messages")
    return ""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value in a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in inner for found in places(item, (*path, key)))]


def mutated(value: Any, path: tuple[Any, ...], odd: Any, change: int = 2) -> Any:
    """The body with an odd value in one place. change: 0 takes the value away, 1 repeats an item of a list."""
    if not path:
        return odd
    made = copy.deepcopy(value)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    if change == 0:
        del holder[path[-1]]
    elif change == 1 and isinstance(holder, list):
        holder.append(holder[path[-1]])
    else:
        holder[path[-1]] = odd
    return made


@pytest.mark.parametrize("path", [*MESSAGES, *RESPONSES], ids=lambda path: path.stem)
def test_recorded_bodies_with_broken_bytes_are_read_or_refused(path: Path) -> None:
    data = path.read_bytes()
    rng = random.Random(path.stem)
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            at = rng.randrange(len(broken))
            match rng.randrange(3):
                case 0:
                    broken[at] = rng.randrange(256)
                case 1:
                    del broken[at : at + rng.randrange(1, 40)]
                case _:
                    broken[at:at] = rng.choice((b'"', b"{", b"]", b"\\", b"null", b"\xff", b'\\ud800"', b"NaN"))
        (of_messages if path in MESSAGES else of_responses)(bytes(broken))


@pytest.mark.slow
@pytest.mark.parametrize("path", RESPONSES, ids=lambda path: path.stem)
def test_recorded_bodies_with_one_change_are_read_or_refused(path: Path) -> None:
    body = json.loads(path.read_text("utf-8"))
    rng = random.Random(path.stem)
    spots = [spot for spot in places(body) if len(spot) < 7]
    codes = {
        of_responses(json.dumps(mutated(body, spot, rng.choice([*ODD, rng.choice(TYPES)]), rng.randrange(3))).encode())
        for spot in rng.sample(spots, min(250, len(spots)))
    }
    assert {"", "invalid_request"} <= codes


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


def test_the_rich_body_is_taken() -> None:
    assert MessagesFace().request(json.dumps(RICH).encode()).dropped_tools == ("web_search", "x")


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD, ids=[repr(odd)[:20] for odd in ODD])
def test_odd_values_anywhere_are_read_or_refused(odd: Any) -> None:
    for path in places(RICH):
        of_messages(json.dumps(mutated(RICH, path, odd)).encode())


JSON = st.recursive(
    st.sampled_from(ODD[:9]) | st.sampled_from(TYPES) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.slow
@given(items=JSON | st.lists(JSON), tools=JSON | st.lists(JSON), choice=JSON)
@settings(max_examples=200, deadline=None)
def test_any_json_is_read_or_refused(items: Any, tools: Any, choice: Any) -> None:
    of_responses(json.dumps({"model": "m", "input": items, "tools": tools, "tool_choice": choice}).encode())


@pytest.mark.slow
@given(st.lists(st.sampled_from(TYPES).flatmap(
    lambda kind: st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6).map(lambda more: {**more, "type": kind})
), max_size=5))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_items_with_fields_of_any_kind_are_read_or_refused(items: list[Any]) -> None:
    of_responses(json.dumps({"model": "m", "input": items}).encode())


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_refused_as_a_request_and_read_as_an_answer(data: bytes) -> None:
    of_messages(data)
    of_responses(data)
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
def test_odd_chunks_end_in_an_answer_or_an_error(odd: Any) -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    for path in places(CHUNK):
        face = asked(**thinking)
        data = json.dumps(mutated(CHUNK, path, odd)).encode()
        out = face.feed(b"data: " + data + b"\n\n" + end("stop")) + face.finish(cut=False)
        assert frames(out)[-1]["type"] in {"error", "message_stop"}
        given_whole = data.replace(b'"delta"', b'"message"')
        assert asked(**thinking).whole(200, {}, given_whole).status in {200, 500, 502}


@pytest.mark.slow
def test_a_large_history_costs_what_it_is_long() -> None:
    def seconds(turns: int) -> float:
        items: list[Any] = []
        for number in range(turns):
            items += [
                {"type": "function_call", "call_id": f"c{number}", "name": "f", "namespace": "n", "arguments": "{}"},
                {"type": "function_call_output", "call_id": f"c{number}", "output": "x" * 50},
            ]
        data = json.dumps({"model": "m", "input": items}).encode()
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            ResponsesFace().request(data)
            best = min(best, time.process_time() - began)
        return best

    seconds(100)
    assert seconds(4000) < 12 * seconds(1000)


@pytest.mark.parametrize(
    "description", ["JSON " * 40_000, "a.b" * 60_000 + " JSON", "not JSON. " * 20_000, "." * 90_000]
)
def test_a_long_description_is_read_in_no_time(description: str) -> None:
    tool = {"type": "custom", "name": "x", "description": description}
    began = time.process_time()
    asked_for_a_response(tools=[tool])
    assert time.process_time() - began < 1


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
