"""Thoughts on the faces: a client gives them back, and the model reads them again; a call in one that never ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apis.faces.asking import body_of, chat_tool, post
from tests.helpers.fakes import TextBackend, write_calls
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.cli.faces.answers import read_answer
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall

CALL = write_calls("hermes", ("lookup_code", {"city": "Paris"}))
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def body(api: str, **more: Any) -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {
        "messages": {"max_tokens": 2000, "thinking": {"type": "adaptive"}},
        "responses": {"include": ["reasoning.encrypted_content"]},
    }
    return body_of(api, chat_tool("lookup_code", SCHEMA), **own.get(api, {}), **more)


async def answered(app: Any, api: str, **more: Any) -> Any:
    answer = await post(app, api, {**body(api), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("api", "display"), [("messages", {}), ("messages", {"display": "omitted"}), ("responses", {})]
)
async def test_a_thought_that_comes_back_is_read_again(api: str, display: dict[str, str]) -> None:
    backend = TextBackend([f"<think>Hm, Paris.</think>{CALL}", "It is 7."], strict=True)
    app = ToolCallMiddleware(backend, faces=api, format="hermes")
    hi = {"role": "user", "content": "The code?"}
    if api == "messages":
        thinking = {"type": "adaptive", **display}
        thought, call = (await answered(app, api, messages=[hi], thinking=thinking))["content"]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "7"}
        said = [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
        await answered(app, api, messages=[hi, *said], thinking=thinking)
    else:
        thought, call = (await answered(app, api, input=[hi]))["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "7"}
        await answered(app, api, input=[hi, thought, call, result])
    assert (thought["type"], call["type"]) in {("thinking", "tool_use"), ("reasoning", "function_call")}
    (shown,) = [message["content"] for message in backend.last.body["messages"] if message["role"] == "assistant"]
    assert shown.startswith("<think>\nHm, Paris.\n</think>\n\n<tool_call>")


async def test_a_call_in_a_thought_that_never_ends_is_one_on_each_face() -> None:
    text = f"<think>Hm, Paris. {CALL}"
    app = ToolCallMiddleware(TextBackend([text] * 2, strict=True), faces="messages,responses", format="hermes")
    first = await answered(app, "messages")
    assert [block["type"] for block in first["content"]] == ["thinking", "tool_use"]
    assert (first["stop_reason"], first["content"][1]["input"]) == ("tool_use", {"city": "Paris"})
    second = await answered(app, "responses")
    assert [item["type"] for item in second["output"]] == ["reasoning", "function_call"]


# -- a thought that a model's name promises ---------------------------------------------------------------------------

OFF = ["Qwen/Qwen3.5-35B-A3B", "zai-org/GLM-4.7", "MiniMaxAI/MiniMax-M2.1", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B",
       "stepfun-ai/Step-3.5-Flash", "moonshotai/Kimi-K2.5"]  # fmt: skip
"""Models whose templates open a thought, served with thinking switched off."""


async def asked(face: str, text: str, model: str, *, stream: bool, size: int = 3, **settings: Any) -> dict[str, Any]:
    """The text, thoughts and calls of an answer, whatever the face."""
    app = ToolCallMiddleware(
        TextBackend([text], strict=True, chunk_size=size), faces="chat,messages,responses", **settings
    )
    answer = await post(app, face, body(face, model=model, stream=stream))
    assert answer.status_code == 200, answer.text
    if face == "chat":
        said = (check_stream if stream else check_whole)(answer.content).only
        calls = [(call.name, call.parsed) for call in said.calls]
        return {"text": said.content or "", "thought": said.reasoning, "calls": calls, "end": said.finish_reason}
    got = read_answer(face, answer.content)
    calls = [(call.name, json.loads(call.arguments)) for call in got.calls]
    return {"text": got.text, "thought": got.reasoning, "calls": calls, "end": got.finish_reason}


WAYS = [("chat", {}), ("chat", {"reasoning_field": "reasoning_content"}), ("messages", {}), ("responses", {})]


@pytest.mark.parametrize("model", OFF)
@pytest.mark.parametrize(("face", "settings"), WAYS)
@pytest.mark.parametrize("stream", [False, True])
async def test_thinking_that_is_switched_off_on_the_server_empties_no_answer(
    face: str, settings: dict[str, Any], model: str, *, stream: bool
) -> None:
    written = registry.get(registry.family_of(model) or "")
    call = written.render_calls([ToolCall("lookup_code", '{"city": "Paris"}', "call_1")])
    for text, calls in (("Hello, how are you?", 0), (call, 1), (f"I will look.\n{call}", 1)):
        said = text.removesuffix(call).strip()
        for size in (1, 3, 40) if stream else (40,):
            got = await asked(face, text, model, stream=stream, size=size, **settings)
            assert got["text"].strip() == said
            assert got["calls"] == [("lookup_code", {"city": "Paris"})] * calls
            # A stream's reasoning has left before its end shows that it was none.
            assert got["thought"].strip() in ({"", said} if stream else {""})


@pytest.mark.parametrize(("face", "settings"), WAYS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_thought_that_is_closed_is_one(face: str, settings: dict[str, Any], *, stream: bool) -> None:
    text = f"Should I <b>?\n{CALL} no.</think>Done.{CALL}"
    for size in (1, 3, 40):
        got = await asked(face, text, "Qwen/Qwen3-30B-A3B-Thinking-2507", stream=stream, size=size, **settings)
        thought, _, _ = text.partition("</think>")
        if face == "chat" and not settings:
            assert (got["thought"], got["text"]) == ("", f"{thought}</think>Done.")
        else:
            assert (got["thought"], got["text"]) == (thought, "Done.")
        assert got["calls"] == [("lookup_code", {"city": "Paris"})]
