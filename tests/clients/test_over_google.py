"""The client matrix once more, with Google's API for an upstream: the same tests, the same assertions.

The model is scripted as there; between it and the client stand the middleware, the translation, and an API that keeps
Gemini 3's rules. It sends calls whole (`in_pieces`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.google_face import GeminiFace
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.apis.google.translation import GoogleTranslation
from toolcall_middleware.apis.passage import Passage
from toolcall_middleware.apis.upstream import TranslatedRequest
from toolcall_middleware.hosts.proxy.upstream.providers import PROVIDERS, Translator

from .common import matrix_of
from .conftest import Gateway, OpenGateway, Stage

MODULES = (
    "openai_sdk", "langgraph", "pydantic_ai", "openai_agents", "smolagents", "ai_sdk", "litellm", "instructor",
)  # fmt: skip
# What looks at the backend's own requests and headers.
NOT_HERE = {
    "test_backend_that_knows_no_response_format_still_serves_required",  # it knows one
    "test_raw_response_says_how_it_was_made",  # its header names the mode
    "test_request_without_tools_keeps_text_that_looks_like_a_call",  # the body is not the client's
}

globals().update(matrix_of(*MODULES, but=NOT_HERE))


class _Gemini3(GoogleTranslation):
    """The clients' model is one that wants its signatures back."""

    def request(self, body: bytes, _passage: Passage | None = None, /) -> TranslatedRequest:
        return super().request(json.dumps({**json.loads(body), "model": "gemini-3-fake"}).encode())


_GEMINI_3 = replace(PROVIDERS["google"], make=lambda _settings: _Gemini3())


@pytest.fixture
def format_name() -> str:
    """In which the scripted model writes."""
    return "hermes"


@pytest.fixture
def in_pieces() -> bool:
    """Gemini sends calls whole."""
    return False


@pytest.fixture
def open_gateway(open_gateway: OpenGateway, stage: tuple[Stage, str]) -> OpenGateway:
    """The same gateway, with a Gemini API between the middleware and the scripted model."""
    one, _ = stage

    def open_one(script: Any, *, format: str = "hermes", usage: bool = True, **settings: Any) -> Gateway:  # noqa: A002
        gateway = open_gateway(script, format=format, usage=usage)
        model = one.app
        assert model is not None
        one.app = ToolCallMiddleware(Translator(GeminiFace(model), _GEMINI_3, Settings()), mode="native", **settings)
        return gateway

    return open_one
