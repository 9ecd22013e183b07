"""The tables of docs/reference/providers.md agree with what each provider's translation does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.hosts.proxy.upstream.providers import PROVIDERS
from toolcall_middleware.settings import Settings

PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: dict[str, Any] = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
NAMED = {"type": "function", "function": {"name": "weather"}}
STRICT = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


def says(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, *parts]}]}


def gives(**fields: Any) -> dict[str, Any]:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "sunny", **fields}
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    return {"tools": [WEATHER], "messages": [{"role": "user", "content": "hi"}, asked, result]}


# A request for each feature, and the names that it must not leave in the body where the feature is left out.
REQUESTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "tools": ({"tools": [WEATHER]}, ()),
    "tool_choice: required": ({"tools": [WEATHER], "tool_choice": "required"}, ()),
    "tool_choice: named": ({"tools": [WEATHER], "tool_choice": NAMED}, ()),
    "tool_choice: allowed_tools": (
        {
            "tools": [WEATHER],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}},
        },
        (),
    ),
    "parallel_tool_calls: false": ({"tools": [WEATHER], "parallel_tool_calls": False}, ()),
    "tools: strict": ({"tools": [STRICT]}, ("strict",)),
    "arguments as a stream": ({"tools": [WEATHER], "stream": True}, ()),
    "tool: is_error": (gives(is_error=True), ("is_error",)),
    "tool: image_url": (gives(content=[PNG]), ()),
    "user: image_url": (says(PNG), ()),
    "user: file": (says(PDF), ()),
    "user: input_audio": (says(AUDIO), ()),
    "response_format": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        ("json_schema",),
    ),
    "reasoning_effort": ({"reasoning_effort": "low"}, ("reasoning_effort",)),
    "temperature, top_p": ({"temperature": 0.5, "top_p": 0.5}, ("temperature",)),
    "stop": ({"stop": ["END"]}, ("END",)),
    "max_tokens": ({"max_completion_tokens": 100}, ()),
    "n": ({"n": 2}, ()),
    "logprobs": ({"logprobs": True, "top_logprobs": 2}, ("logprobs",)),
    "seed": ({"seed": 7}, ("seed",)),
    "frequency_penalty, presence_penalty": ({"frequency_penalty": 1, "presence_penalty": 1}, ("penalty",)),
    "logit_bias": ({"logit_bias": {"1": 1}}, ("logit",)),
}
PAGE = Path(__file__).parents[3] / "docs/reference/providers.md"
MODELS = {"anthropic": "claude-sonnet-4-5", "google": "gemini-2.5-flash"}


def tables() -> dict[str, dict[str, str]]:
    """How far each feature goes, by provider."""
    found: dict[str, dict[str, str]] = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        rows = re.findall(r"^\| (.+?) \| (.+?) \|", section, re.MULTILINE)
        found[section.partition("\n")[0]] = dict(rows[2:])
    return found


@pytest.mark.parametrize("api", PROVIDERS)
def test_each_feature_has_a_row(api: str) -> None:
    found = tables()[api]
    assert tuple(found) == tuple(REQUESTS)
    assert set(found.values()) <= {"yes", "by model", "made up for", "left out", "refused"}


@pytest.mark.parametrize("api", PROVIDERS)
@pytest.mark.parametrize("feature", REQUESTS)
def test_a_row_says_what_happens(api: str, feature: str) -> None:
    support = tables()[api][feature]
    fields, names = REQUESTS[feature]
    body = {"model": MODELS[api], "messages": [{"role": "user", "content": "hi"}], **fields}
    translation = PROVIDERS[api].make(Settings())
    if support == "refused":
        with pytest.raises(ToolCallError) as caught:
            translation.request(json.dumps(body).encode())
        assert caught.value.status == 400
        assert caught.value.param
        return
    sent = translation.request(json.dumps(body).encode()).body.decode()
    if support == "left out":
        assert not [name for name in names if name.lower() in sent.lower()]
