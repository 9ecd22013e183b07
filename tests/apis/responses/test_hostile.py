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

from tests.apis.fed import ResponsesFace
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import read_request
from toolcall_middleware.settings import Settings

from . import chat
from .asking import asked
from .received import check_stream

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))
ODD: list[Any] = [None, True, 0, -1, 1.5, "", "x", "auto", [], {}, [[]], [{}], {"type": "x"}, {"a": {"b": []}}, "\x00"]
TYPES = [
    "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning",
    "item_reference", "additional_tools", "tool_search_call", "tool_search_output", "local_shell_call",
    "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
    "compaction", "web_search_call", "namespace", "function", "custom", "shell", "input_text", "input_image",
]  # fmt: skip
KEYS = ["type", "role", "content", "call_id", "id", "name", "arguments", "output", "input", "namespace", "tools",
        "action", "operation", "encrypted_content", "summary", "execution", "format", "text", "status"]  # fmt: skip


def tried(data: bytes) -> str:
    """The code of the refusal; empty where the core could go on with the body, or refuses it in the client's words."""
    face = ResponsesFace()
    refused: ToolCallError | None = None
    try:
        request = face.request(data)
    except ToolCallError as error:
        refused = error
    if refused is not None:
        assert refused.status == 400
        return str(refused.code)
    assert isinstance(json.loads(request.body)["messages"], list)
    try:
        read_request(request.body, Settings())
    except ToolCallError as error:
        param = json.loads(face.error(error).body)["error"]["param"]
        assert param is None or not param.startswith("messages")
    return ""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in inner for found in places(item, (*path, key)))]


def mutated(value: Any, path: tuple[Any, ...], rng: random.Random) -> Any:
    value = copy.deepcopy(value)
    if not path:
        return rng.choice(ODD)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    match rng.randrange(3):
        case 0:
            del holder[path[-1]]
        case 1 if isinstance(holder, list):
            holder.append(holder[path[-1]])
        case _:
            holder[path[-1]] = rng.choice([*ODD, rng.choice(TYPES)])
    return value


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_bodies_with_one_change_are_read_or_refused(path: Path) -> None:
    body = json.loads(path.read_text("utf-8"))
    rng = random.Random(path.stem)
    spots = [spot for spot in places(body) if len(spot) < 7]
    codes = {tried(json.dumps(mutated(body, spot, rng)).encode()) for spot in rng.sample(spots, min(250, len(spots)))}
    assert "" in codes
    assert "invalid_request" in codes


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_bodies_with_broken_bytes_are_read_or_refused(path: Path) -> None:
    data = path.read_bytes()
    rng = random.Random(path.stem)
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        tried(bytes(broken))


JSON = st.recursive(
    st.sampled_from(ODD[:9]) | st.sampled_from(TYPES) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.slow
@given(items=JSON | st.lists(JSON), tools=JSON | st.lists(JSON), choice=JSON)
@settings(max_examples=200, deadline=None)
def test_any_json_is_read_or_refused(items: Any, tools: Any, choice: Any) -> None:
    tried(json.dumps({"model": "m", "input": items, "tools": tools, "tool_choice": choice}).encode())


@pytest.mark.slow
@given(st.lists(st.sampled_from(TYPES).flatmap(
    lambda kind: st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6).map(lambda more: {**more, "type": kind})
), max_size=5))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_items_with_fields_of_any_kind_are_read_or_refused(items: list[Any]) -> None:
    tried(json.dumps({"model": "m", "input": items}).encode())


CHUNK = st.dictionaries(
    st.sampled_from(["id", "model", "created", "choices", "usage", "error", "object"]), JSON, max_size=4
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(CHUNK | JSON | st.just({"choices": [{"index": 0, "delta": {"content": "a"}}]}), max_size=5))
@settings(max_examples=200, deadline=None)
def test_any_chunks_end_in_a_sound_stream(chunks: list[Any]) -> None:
    face, _ = asked(stream=True)
    left = face.feed(b"".join(map(chat.event, chunks))) + face.finish(cut=False)
    check_stream(left)


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
    asked(tools=[tool])
    assert time.process_time() - began < 1
