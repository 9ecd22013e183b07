"""A second opinion: llm-comply, which holds answers against OpenAI's, Anthropic's and Open Responses' documents.

Those call every field required that their own server always sends, also those that can only be null here; the SDKs do
not. Such fields are added before an answer is held against its schema. All else that it finds is a fault.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import write_calls

from .common import need

if TYPE_CHECKING:
    from .conftest import OpenGateway

llm_comply = need("llm_comply")
suites = need("llm_comply.tests")

SPECS = Path(llm_comply.__file__).parent / "specs"
FORMATS = {"openai-chat": "openai_chat", "anthropic": "anthropic", "open-responses": "openresponses"}
MODELS = ("claude-sonnet-4-local", "o3-local")  # by which it knows whether thoughts can be asked for
NOT_OURS = {
    # What offers no tools is the backend's to judge.
    "chat-error-handling": "HTTP 200",
    # No thought is summarized here: they come as they are.
    "reasoning-summary": "summary",
    # Its own fixture, which lacks nothing.
    "response-output-phase-schema": "",
}
_MESSAGE = {"container": None, "stop_details": None}
_USAGE = {
    "cache_creation": None, "inference_geo": None, "output_tokens_details": None, "server_tool_use": None,
    "service_tier": None,
}  # fmt: skip
_BLOCKS: dict[str, dict[str, Any]] = {"text": {"citations": None}, "tool_use": {"caller": {"type": "direct"}}}
_TOOL = {"description": None, "parameters": None, "strict": None}


def with_nulls(data: Any, schema: str) -> Any:
    """The answer with the fields that can only be null here, as the documents want them."""
    made = copy.deepcopy(data)
    if schema == "Message":
        made = {**_MESSAGE, **made, "usage": {**_USAGE, **made["usage"]}}
        made["content"] = [{**_BLOCKS.get(block["type"], {}), **block} for block in made["content"]]
    if schema == "ResponseResource":
        made["tools"] = [{**_TOOL, **tool} for tool in made["tools"]]
    return made


def model(body: dict[str, Any]) -> str:
    """Calls the tool that it is told of, else thinks and speaks."""
    if "get_weather" in json.dumps(body["messages"]):
        return write_calls("hermes", ("get_weather", {"location": "San Francisco"}))
    return "<think>Let me see.</think>Hello there."


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", FORMATS)
def test_no_answer_is_against_the_documents(open_gateway: OpenGateway, form: str, name: str) -> None:
    faces = {"openai-chat": "chat", "anthropic": "messages", "open-responses": "responses"}[form]
    gateway = open_gateway(model, format="hermes", faces=faces, reasoning_field="reasoning", constrain="off")
    headers = {"anthropic-version": "2023-06-01"} if form == "anthropic" else None
    config = llm_comply.ComplianceConfig(base_url=gateway.url, api_key="k", model=name, extra_headers=headers)
    spec = llm_comply.SpecLoader(str(SPECS / f"{FORMATS[form]}.json"))
    plain: Callable[[Any, str], list[str]] = spec.validate
    spec.validate = lambda data, schema: plain(with_nulls(data, schema), schema)
    results = {one.id: one for one in llm_comply.TestRunner(config, suites.get_tests(form), spec).run_all().results}
    assert len(results) >= 9
    faults = {name: one.errors for name, one in results.items() if one.status is llm_comply.TestStatus.FAILED}
    found = {name: [error for error in errors if not known(name, error)] for name, errors in faults.items()}
    assert not {name: errors for name, errors in found.items() if errors}


def known(test: str, error: str) -> bool:
    """Whether it is none of ours: the backend here takes no images, and the events of thoughts are newer than it."""
    return "image" in test or "response.reasoning_text" in error or (test in NOT_OURS and NOT_OURS[test] in error)
