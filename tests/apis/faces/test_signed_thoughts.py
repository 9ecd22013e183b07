"""Upstreams that want their signatures back, behind the face of Responses: what a client sends back reaches them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from tests.apis.faces.messages_upstream import THOUGHT, Upstream, events, message, spelled
from tests.helpers.fakes import serve
from tests.helpers.google_fake import KEY, FakeGemini, answer, call, text
from toolcall_middleware import create_proxy

TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
USE = {"type": "tool_use", "id": "toolu_8", "name": "get_weather", "input": {"city": "P"}}
REDACTED = {"type": "redacted_thinking", "data": "x=="}
Proxied = Callable[..., openai.OpenAI]


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxied]:
    """A client of a proxy with these settings before an upstream."""
    with contextlib.ExitStack() as stack:

        def start(upstream: Any, **settings: str) -> openai.OpenAI:
            url = stack.enter_context(serve(upstream))
            for name, value in {"upstream_url": url, "access_log": "off", **settings}.items():
                monkeypatch.setenv(f"TOOLCALL_{name.upper()}", value)
            base = stack.enter_context(serve(create_proxy())) + "/v1"
            return stack.enter_context(openai.OpenAI(base_url=base, api_key="k", max_retries=0))

        yield start


def two_turns(client: openai.OpenAI, model: str, *, stream: bool) -> None:
    """A call, its result, and what the model says to that; items go back as they came."""
    fields: Any = {
        "model": model,
        "tools": [TOOL],
        "store": False,
        "reasoning": {"effort": "high"},
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 30000,
    }
    history: Any = [{"role": "user", "content": "hi"}]
    if stream:
        with client.responses.stream(input=history, **fields) as got:
            output = got.get_final_response().output
    else:
        output = client.responses.create(input=history, **fields).output
    calls = [item for item in output if item.type == "function_call"]
    results = [{"type": "function_call_output", "call_id": item.call_id, "output": "sunny"} for item in calls]
    history += [*(item.to_dict() for item in output), *results]
    client.responses.create(input=history, **fields)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-6"])
def test_signed_and_redacted_thinking_goes_back_to_anthropic(proxied: Proxied, model: str, *, stream: bool) -> None:
    blocks = (THOUGHT, REDACTED, {"type": "text", "text": "Look."}, USE)
    upstream = Upstream(whole=spelled(message(*blocks)), stream=events(*blocks))
    two_turns(proxied(upstream.app, upstream_api="anthropic", upstream_key="real"), model, stream=stream)
    first, second = map(json.loads, upstream.bodies)
    assert second["messages"][1] == {"role": "assistant", "content": list(blocks)}
    assert second["thinking"] == first["thinking"]


@pytest.mark.parametrize("stream", [False, True])
def test_the_signature_of_a_call_goes_back_to_gemini(proxied: Proxied, *, stream: bool) -> None:
    thought = text("Hm.", thought=True)
    calls = [call("get_weather", None, b"a signature", city="P"), call("get_weather", None, city="Q")]
    fake = FakeGemini([[answer(thought, text("Look."), *calls)], [answer(text("Sunny."))]])
    two_turns(proxied(fake, upstream_api="google", upstream_key=KEY), "gemini-3-pro", stream=stream)
    parts = fake.bodies[1]["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts if "functionCall" in part] == ["YSBzaWduYXR1cmU=", None]
