"""`extension_field` on the faces: beside the answer's own fields, in the last event of a stream, read by the SDKs."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from tests.apis.faces.asking import body_of, chat_tool
from tests.apis.faces.conftest import Open
from tests.helpers.fakes import write_calls

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GOOD, WRONG = ("lookup_code", {"city": "Paris"}), ("lookup_code", {"town": "Paris"})
TOOL = chat_tool("lookup_code", SCHEMA)
MESSAGES: Any = body_of("messages", TOOL)
RESPONSES: Any = body_of("responses", TOOL)
OURS = {"extension_field": "_toolcall", "validate_arguments": "warn", "format": "hermes"}


def said(client: Any, *, stream: bool) -> dict[str, Any]:
    """What the SDK gives of the answer or of the event that ends it, with what its types do not know."""
    if isinstance(client, anthropic.Anthropic):
        if not stream:
            return dict(client.messages.create(**MESSAGES).model_extra or {})
        with client.messages.stream(**MESSAGES) as events:
            (last,) = [event for event in events if event.type == "message_delta"]
            assert events.get_final_message().stop_reason in {"tool_use", "end_turn"}
        return dict(last.model_extra or {})
    if not stream:
        return dict(client.responses.create(**RESPONSES).model_extra or {})
    with client.responses.stream(**RESPONSES) as events:
        *_, last = events
        assert last.type == "response.completed"
        assert events.get_final_response().status == "completed"
    return dict(last.response.model_extra or {})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("face", ["anthropic", "openai"])
def test_warnings_stand_beside_the_answer(open_host: Open, face: str, *, stream: bool) -> None:
    served = open_host([write_calls("hermes", WRONG)], **OURS)
    extra = said(getattr(served, face)(), stream=stream)
    assert "town" in extra["_toolcall"]["warning"] or "city" in extra["_toolcall"]["warning"]
    assert extra["_toolcall"]["outcomes"] == {"invalid": 1}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("face", ["anthropic", "openai"])
def test_the_gateways_field_is_there(open_host: Open, face: str, *, stream: bool) -> None:
    served = open_host([write_calls("hermes", GOOD)], profile="gateway", format="hermes")
    assert "check them before you run them" in said(getattr(served, face)(), stream=stream)["_toolcall"]["warning"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("face", ["anthropic", "openai"])
def test_an_answer_without_calls_warns_of_nothing(open_host: Open, face: str, *, stream: bool) -> None:
    served = open_host(['It is "_toolcall".'], **OURS)
    told = said(getattr(served, face)(), stream=stream)["_toolcall"]
    assert (told.keys(), told["no_call"]) == ({"injected_prompt_tokens", "no_call"}, "prose")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("face", ["anthropic", "openai"])
def test_without_the_setting_there_is_none(open_host: Open, face: str, *, stream: bool) -> None:
    served = open_host([write_calls("hermes", WRONG)], validate_arguments="warn", format="hermes")
    assert "_toolcall" not in said(getattr(served, face)(), stream=stream)


@pytest.mark.parametrize("name", ["content", "status", "type"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("face", ["anthropic", "openai"])
def test_a_name_that_the_api_uses_stays_the_apis(open_host: Open, face: str, name: str, *, stream: bool) -> None:
    served = open_host([write_calls("hermes", GOOD)], **{**OURS, "extension_field": name})
    said(getattr(served, face)(), stream=stream)  # which the SDK can read
