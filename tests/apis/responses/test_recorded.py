"""The second requests of real clients, as recorded: what the model is shown of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.apis.fed import ResponsesFace
from toolcall_middleware.request.parse import ChatRequest, read_request
from toolcall_middleware.settings import Settings

from . import chat
from .received import check_stream

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def chat_of(name: str) -> tuple[ResponsesFace, dict[str, Any], tuple[str, ...]]:
    face = ResponsesFace()
    request = face.request((FOLDER / f"{name}.json").read_bytes())
    assert isinstance(read_request(request.body, Settings()), ChatRequest)
    return face, json.loads(request.body), request.dropped_tools


@pytest.mark.parametrize("name", NAMES)
def test_the_core_takes_it_and_the_client_gets_a_sound_stream(name: str) -> None:
    face, made, _ = chat_of(name)
    tool = made["tools"][0]["function"]["name"]
    deltas = [*chat.thought("hm"), *chat.text("One moment."), *chat.call(0, tool, "{}")]
    got = check_stream(face.feed(chat.stream(deltas, "tool_calls")))
    assert [item["type"] for item in got.output] == ["reasoning", "message", "function_call"]
    asked = json.loads((FOLDER / f"{name}.json").read_bytes())
    assert got.response["tools"] == [
        {"strict": False, **tool} if tool["type"] == "function" else tool for tool in asked["tools"]
    ]
    assert ("encrypted_content" in got.output[0]) == bool(asked.get("include"))


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("-02")])
def test_a_call_and_its_result_reach_the_model(name: str) -> None:
    _, made, _ = chat_of(name)
    *_, said, result = made["messages"]
    assert said["role"] == "assistant"
    assert result["role"] == "tool"
    assert said["tool_calls"][0]["id"] == result["tool_call_id"]
    # The AI SDK refers to the text, which is stored nowhere.
    assert said["content"] == (None if name.startswith("ai_sdk") else "I will use the tool for that, one moment.")
    assert [message["role"] for message in made["messages"]].count("system") == 1


def test_codex_offers_its_namespaces_with_a_prefix() -> None:
    _, made, dropped = chat_of("codex_responses-01")
    names = [tool["function"]["name"] for tool in made["tools"]]
    assert "exec_command" in names
    assert "multi_agent_v1__spawn_agent" in names
    assert set(dropped) <= {"web_search"}


def test_codex_mcp_calls_keep_their_prefix_in_the_history() -> None:
    _, made, _ = chat_of("codex_mcp-02")
    assert made["messages"][-2]["tool_calls"][0]["function"]["name"] == "mcp__codes__lookup_code"
    assert [part["type"] for part in made["messages"][-1]["content"]] == ["text", "text"]


def test_codex_patch_is_a_function_of_one_text() -> None:
    _, made, _ = chat_of("codex_patch-02")
    tool = next(tool["function"] for tool in made["tools"] if tool["function"]["name"] == "apply_patch")
    assert "JSON" not in tool["description"]
    assert tool["parameters"]["required"] == ["input"]
    call = made["messages"][-2]["tool_calls"][0]["function"]
    assert json.loads(call["arguments"])["input"].startswith("*** Begin Patch\n")
