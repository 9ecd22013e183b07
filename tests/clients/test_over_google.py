"""The clients again, with Google's API for an upstream: they notice no difference.

The tests are those of the other files. The model is scripted as there; between it and the client stand the middleware,
the translation, and an API that keeps Gemini 3's rules. What is about the text backend's own prompt is left out, as is
what wants the pieces of a call: Gemini sends calls whole.
"""

# ruff: noqa: F401 - the tests that are imported are collected here

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.hosts.translator import Translator
from toolcall_middleware.wire.google import GoogleTranslation
from toolcall_middleware.wire.translation import TranslatedRequest

from ..google_face import GeminiFace
from .conftest import Gateway, OpenGateway, Stage
from .test_langgraph import test_agent_runs_parallel_calls as test_langgraph_runs_parallel_calls
from .test_langgraph import test_agent_runs_the_tool_and_answers as test_langgraph_runs_the_tool
from .test_langgraph import test_structured_output_by_a_named_tool as test_langchain_named_tool
from .test_openai_agents import test_agent_runs_the_tool_and_answers as test_openai_agents_run_the_tool
from .test_openai_agents import test_hand_off_is_a_call_without_arguments as test_openai_agents_hand_off
from .test_openai_sdk import (
    test_async_client_gets_the_call_streamed_and_whole,
    test_choice_none_parses_nothing,
    test_choices_do_not_mix,
    test_deprecated_functions_get_a_function_call,
    test_parallel_calls_come_in_order_or_alone,
    test_required_and_named_give_a_call,
    test_required_that_fails_is_an_error_which_the_sdk_does_not_retry,
    test_stream_helper_parses_strict_tools,
    test_stream_helper_tells_each_step_of_the_call,
    test_usage_comes_when_asked_for_and_only_then,
)
from .test_pydantic_ai import test_agent_runs_the_tool_and_answers as test_pydantic_ai_runs_the_tool
from .test_pydantic_ai import (
    test_run_stream_takes_the_text_after_the_tool_for_its_answer as test_pydantic_ai_streams_text,
)
from .test_pydantic_ai import test_streamed_run_tells_of_the_call_and_answers as test_pydantic_ai_tells_of_the_call
from .test_pydantic_ai import test_structured_output_comes_by_a_required_tool as test_pydantic_ai_structured_output
from .test_smolagents import test_agent_runs_the_tool_and_then_calls_final_answer as test_smolagents_runs_the_tool


class _Gemini3(GoogleTranslation):
    """The clients' model is one that wants its signatures back."""

    def request(self, body: bytes, /) -> TranslatedRequest:
        return super().request(json.dumps({**json.loads(body), "model": "gemini-3-fake"}).encode())


@pytest.fixture
def format_name() -> str:
    """In which the scripted model writes."""
    return "hermes"


@pytest.fixture
def open_gateway(open_gateway: OpenGateway, stage: tuple[Stage, str]) -> OpenGateway:
    """The same gateway, with a Gemini API between the middleware and the scripted model."""
    one, _ = stage

    def open_one(script: Any, *, format: str = "hermes", usage: bool = True, **settings: Any) -> Gateway:  # noqa: A002
        gateway = open_gateway(script, format=format, usage=usage)
        model = one.app
        assert model is not None
        one.app = ToolCallMiddleware(Translator(GeminiFace(model), _Gemini3), mode="native", **settings)
        return gateway

    return open_one
