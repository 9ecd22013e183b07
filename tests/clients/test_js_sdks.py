"""JavaScript on the two other APIs, before a text model: the AI SDK's own providers for Anthropic (Messages) and OpenAI
(Responses, its default), and the vendors' own SDKs (`@anthropic-ai/sdk`, `openai`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helpers.fakes import obedient_model

from .common import ARGUMENTS, CALL, Lookup, missing
from .test_ai_sdk import HERE, looped, node, run

if TYPE_CHECKING:
    from .conftest import OpenGateway

if not (HERE / "node_modules" / "@anthropic-ai" / "sdk").is_dir():
    missing("the SDKs are not installed; run `npm ci --prefix tests/clients/ai_sdk --no-audit --no-fund`")

FACES = pytest.mark.parametrize("face", ["messages", "responses"])
MODES = (
    "messages-whole", "messages-stream", "messages-runner", "responses-whole", "responses-stream", "responses-parse",
)  # fmt: skip


@FACES
@pytest.mark.parametrize("mode", ["whole", "stream"])
def test_agent_loop_runs_the_tool_and_answers(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, face: str, mode: str, *, in_pieces: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose="I will look it up.\n\n"), format=format_name)
    looped(gateway, lookup, mode, face, in_pieces=in_pieces)
    assert [one.path for one in gateway.backend.seen] == ["/v1/chat/completions"] * 2


@FACES
def test_named_tool_is_called(open_gateway: OpenGateway, format_name: str, lookup: Lookup, face: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, CALL), format=format_name)
    (step,) = run(gateway, lookup, "named", face)["steps"]
    assert step["calls"] == [["lookup_code", ARGUMENTS, False]]


@pytest.mark.parametrize("mode", MODES)
def test_the_tool_is_run_and_the_answer_made_from_its_result(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, mode: str
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose="I will look it up.\n\n"), format=format_name)
    seen = node("sdks.mjs", gateway.url, lookup.code, mode)
    assert seen["ends"] == ["tool_use", "end_turn" if mode.startswith("messages") else "completed"]
    assert (seen["text"], seen["calls"]) == (f"The code is {lookup.code}.", [ARGUMENTS])
    assert [one.path for one in gateway.backend.seen] == ["/v1/chat/completions"] * 2
    assert "usage" not in seen or seen["usage"]["output_tokens"] > 0
