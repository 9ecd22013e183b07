"""An integer that no float holds (400 digits), and one that Python does not read (5,000), wherever a number may be."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest

from toolcall_middleware.apis.google.request import translate
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.wire import openai

from ...helpers.asgi_client import BLOCK, HELLO, JSON_TYPE, Client, middleware
from ...helpers.fakes import TextBackend

HUGE = ["1" * 400, "-" + "1" * 400, "9" * 5000]
BOUNDS = ("minimum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxLength", "minItems", "const", "default")
SCHEMA = {"type": "object", "properties": {name: {"type": "integer", name: 7} for name in BOUNDS}}
PARAMETERS = dict.fromkeys(
    (
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "n",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "created",
    ),
    7,
)
CHAT = {
    **{name: value for name, value in PARAMETERS.items() if name != "n"},
    "model": "m",
    "messages": [*HELLO, {"role": "user", "content": "x", "extra": 7}],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
    "toolcall": {"max_tools": 7},
    "thinking": {"type": "enabled", "budget_tokens": 7},
    "unknown": {"deep": [7]},
}
MESSAGES = {**CHAT, "tools": [{"name": "weather", "input_schema": SCHEMA}]}
RESPONSES = {
    **{name: value for name, value in CHAT.items() if name != "messages"},
    "input": [*HELLO, {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}", "id": 7}],
    "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA}],
}
PATHS = {"/v1/chat/completions": CHAT, "/v1/messages": MESSAGES, "/v1/responses": RESPONSES}


def spelled(body: dict[str, Any], digits: str) -> list[bytes]:
    """The body once for each 7 in it, with `digits` in its place; the other numbers are 1."""
    text = json.dumps(body)
    places = [found.start() for found in re.finditer(r"\b7\b", text)]
    return [(text[:at].replace("7", "1") + digits + text[at + 1 :].replace("7", "1")).encode() for at in places]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("digits", HUGE, ids=len)
async def test_a_request_with_it_is_answered_or_refused(path: str, digits: str) -> None:
    for body in spelled(PATHS[path], digits):
        app = middleware(TextBackend([BLOCK]), faces="chat,messages,responses")
        client = await Client(body, path=path, headers=[JSON_TYPE, (b"anthropic-version", b"1")]).run(app)
        assert client.status in {200, 400}, client.body


@pytest.mark.parametrize("digits", HUGE, ids=len)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_that_writes_it_is_read(digits: str, *, stream: bool) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    body = json.dumps({"model": "m", "stream": stream, "messages": HELLO, "tools": [tool]}).encode()
    for policy in ("off", "warn"):
        for sample in spelled({"tool_calls": [{"name": "weather", "arguments": dict.fromkeys(BOUNDS, 7)}]}, digits):
            app = middleware(TextBackend([f"```json\n{sample.decode()}\n```"]), validate_arguments=policy)
            client = await Client(body).run(app)
            assert client.status == 200
            assert b"weather" in client.body


@pytest.mark.parametrize("digits", HUGE, ids=len)
def test_google_s_form_is_made_or_refused(digits: str) -> None:
    for body in spelled(CHAT, digits):
        fields = openai.read_object(body)
        if fields is None:
            continue
        with contextlib.suppress(ToolCallError):
            translate(fields)
