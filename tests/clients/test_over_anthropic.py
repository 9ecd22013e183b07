"""The client matrix once more, with an upstream that speaks Anthropic's API: the same tests, the same assertions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.anthropic_fake import AnthropicFace
from tests.helpers.fakes import Script, TextBackend
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.hosts.proxy.upstream.providers import PROVIDERS, Translator

from .common import matrix_of
from .conftest import Gateway, Stage

if TYPE_CHECKING:
    from tests.helpers.fakes import Model

MODULES = (
    "openai_sdk", "langgraph", "pydantic_ai", "openai_agents", "smolagents", "ai_sdk", "litellm", "instructor",
)  # fmt: skip
# What this API has not, or what looks at the backend's own requests and headers.
NOT_HERE = {
    "test_choices_do_not_mix",  # one choice a request
    "test_request_without_tools_keeps_text_that_looks_like_a_call",  # the body is not the client's
    "test_backend_that_knows_no_response_format_still_serves_required",  # it knows one
    "test_raw_response_says_how_it_was_made",  # its header names the mode
}


globals().update(matrix_of(*MODULES, but=NOT_HERE))


@pytest.fixture(params=["json"])
def format_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["native", "prompt"])
def open_gateway(stage: tuple[Stage, str], request: pytest.FixtureRequest) -> Iterator[Callable[..., Gateway]]:
    """As in the other modules, with the API between the middleware and the scripted model.

    In native mode the model server reads the calls by itself (with this package, which is a good server's parser).
    """
    one, url = stage

    def open_one(
        script: Model | Iterable[Script],
        *,
        format: str = "auto",  # noqa: A002 - the setting's own name
        usage: bool = True,
        **settings: Any,
    ) -> Gateway:
        backend = TextBackend(script, strict=True, usage=usage, chunk_size=4)
        server: Any = ToolCallMiddleware(backend, format=format) if request.param == "native" else backend
        translator = Translator(AnthropicFace(server), PROVIDERS["anthropic"], Settings(default_max_tokens=100))
        one.app = ToolCallMiddleware(translator, mode=request.param, format=format, **settings)
        return Gateway(f"{url}/v1", backend, closing)

    with contextlib.ExitStack() as closing:
        yield open_one
    one.app = None
