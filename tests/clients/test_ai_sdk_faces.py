"""The AI SDK's own providers for Anthropic (Messages) and OpenAI (Responses, its default), before a text model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.helpers.fakes import obedient_model

from .common import ARGUMENTS, CALL, Lookup
from .test_ai_sdk import run

if TYPE_CHECKING:
    from .conftest import OpenGateway

FACES = pytest.mark.parametrize("face", ["messages", "responses"])


@FACES
@pytest.mark.parametrize("mode", ["whole", "stream"])
def test_agent_loop_runs_the_tool_and_answers(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, face: str, mode: str, *, in_pieces: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose="I will look it up.\n\n"), format=format_name)
    seen = run(gateway, lookup, mode, face)
    called, answered = seen["steps"]
    assert called["text"].strip() == "I will look it up."
    assert called["calls"] == [["lookup_code", ARGUMENTS, False]]
    assert called["finish"] == "tool-calls"
    assert called["results"] == [f"code {lookup.code} for day 3"]
    assert (answered["text"], answered["finish"]) == (f"The code is {lookup.code}.", "stop")
    assert seen["calls"] == [ARGUMENTS]
    assert seen["usage"]["totalTokens"] > 0
    assert [one.path for one in gateway.backend.seen] == ["/v1/chat/completions"] * 2
    if mode == "stream":
        assert seen["errors"] == []
        assert json.loads(seen["input"]) == ARGUMENTS
        assert seen["parts"]["tool-input-start"] == seen["parts"]["tool-call"] == 1
        assert seen["parts"]["tool-input-delta"] > (3 if in_pieces else 0)


@FACES
def test_named_tool_is_called(open_gateway: OpenGateway, format_name: str, lookup: Lookup, face: str) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, CALL), format=format_name)
    (step,) = run(gateway, lookup, "named", face)["steps"]
    assert step["calls"] == [["lookup_code", ARGUMENTS, False]]
