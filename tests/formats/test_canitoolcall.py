"""The fixtures of canitoolcall (https://pypi.org/project/canitoolcall/): outputs of real families, and its own checks.

Three of its rules meet settings of ours. A call that was cut off is none (`stream_arguments=false`): incomplete ones
do not count. Where it wants an error, a call that had to be repaired is none (`malformed_arguments=text`). And where
the prompt had opened the reasoning, that opening belongs to the text.
"""

from __future__ import annotations

import importlib.util
import os
import random

import pytest

from toolcall_middleware.formats import markup, registry
from toolcall_middleware.formats.base import ParserOptions, ToolFormat
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Text

from ..parsing.streams import cut_at, read, thought_in

if importlib.util.find_spec("canitoolcall") is None:
    if os.environ.get("CI"):
        pytest.fail("canitoolcall is not installed: pip install canitoolcall==0.1.1", pytrace=False)
    pytest.skip("canitoolcall is not installed: pip install canitoolcall==0.1.1", allow_module_level=True)

from canitoolcall import checks, fixtures, results

# Which of our formats reads a fixture: by the beginning of its reference model's name, the longest first.
FORMATS = {
    "Qwen/Qwen3-0.6B": "hermes",
    "Qwen/Qwen3-4B": "hermes",
    "Qwen/Qwen3-Coder": "qwen3_coder",
    "Qwen/Qwen3.": "qwen3_coder",
    "deepseek-ai/DeepSeek-V3-": "deepseek_v3",
    "deepseek-ai/DeepSeek-V3.1": "deepseek_v31",
    "deepseek-ai/DeepSeek-V3.2": "deepseek_v32",
    "deepseek-ai/DeepSeek-V4": "deepseek_v4",
    "deepseek-ai/DeepSeek-V4.1": "deepseek_v41",
    "google/gemma-4": "gemma4",
    "meta-llama/Llama-3": "llama3_json",
    "meta-llama/Llama-4": "llama4_pythonic",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral_old",
    "mistralai/": "mistral_v11",
    "moonshotai/Kimi-K2": "kimi_k2",
    "moonshotai/Kimi-K3": "kimi_k3",
    "openai/gpt-oss": "harmony",
    "zai-org/GLM-4.5": "glm45",
    "zai-org/GLM": "glm47",
}
# Where a setting of ours gives what a fixture wants.
OPTIONS = {
    # A call within the reasoning.
    "qwen3-xml/llamacpp-q35-call-inside-think": ParserOptions(parse_reasoning=True),
    # A call of a tool that is not offered: by default it stays text, since it may be all that the model says.
    "gpt-oss/llamacpp-builtin-python-recipient": ParserOptions(unknown_tool="drop"),
}
# Where we do otherwise, and why.
DEVIATIONS = {
    "llama/l4-truncated-missing-close-bracket": "the first of two calls is whole, and elsewhere such a call is kept",
    "deepseek/vllm-v3-malformed-missing-call-tokens": "the name and the arguments are whole: what is meant is plain",
}
FIXTURES = fixtures.load_fixtures()
FAMILIES = fixtures.load_families()


def _format_of(fixture: fixtures.Fixture) -> str:
    model = fixture.reference_model
    return FORMATS[max((start for start in FORMATS if model.startswith(start)), key=len)]


def test_every_fixture_has_a_format() -> None:
    assert {_format_of(fixture) for fixture in FIXTURES} == set(FORMATS.values())


@pytest.mark.parametrize("fixture", [pytest.param(fixture, id=fixture.id) for fixture in FIXTURES])
def test_fixture(fixture: fixtures.Fixture) -> None:
    name = _format_of(fixture)
    if name not in registry.names():
        pytest.skip(f"the format {name} is not registered")
    for reader in (name, "auto"):
        rows = checks.run_checks(fixture, FAMILIES[fixture.family], _observe(registry.get(reader), fixture))
        bad = [row for row in rows if row.status not in {results.Status.PASS, results.Status.SOFT_PASS}]
        if fixture.id in DEVIATIONS:
            # Nothing else than the number of calls, and the same in every stream.
            assert {row.check for row in bad} == {"expected_error"}, reader
        else:
            assert not bad, f"{reader}: {bad[0].check} {bad[0].detail}"


def _observe(fmt: ToolFormat, fixture: fixtures.Fixture) -> results.Observation:
    text = _opened(fixture) + fixture.raw_output
    streams = {"one": [text], "rand:1:1": list(text)}
    for seed in range(2, 8):
        rng = random.Random(seed)
        cuts = sorted(rng.sample(range(1, len(text)), min(len(text) - 1, len(text) // 5)))
        streams[f"rand:{seed}:8"] = cut_at(text, cuts)
    parses = {label: _parse(fmt, fixture, pieces) for label, pieces in streams.items()}
    return results.Observation(nonstream=parses["one"], streams=parses)


def _parse(fmt: ToolFormat, fixture: fixtures.Fixture, pieces: list[str]) -> results.ParseResult:
    functions = [tool["function"] for tool in fixture.tools]
    tools = ToolSet.of([Tool(f["name"], f.get("description", ""), f.get("parameters") or {}) for f in functions])
    options = OPTIONS.get(fixture.id, ParserOptions())
    events = read(fmt.parser(tools, options), pieces, cut=fixture.truncated)
    calls, content = _as_client(events, strict=fixture.expected_error is not None)
    return results.ParseResult(content or None, thought_in(events) or None, tuple(calls))


def _as_client(events: list[Event], *, strict: bool) -> tuple[list[results.ParsedToolCall], str]:
    """Calls that are complete, and the text around calls. strict: without those that had to be repaired."""
    calls: list[results.ParsedToolCall] = []
    content = name = arguments = ""
    for event in events:
        match event:
            case Text(text):
                content += text
            case CallStart():
                name, arguments = event.name, ""
            case CallArgs(text):
                arguments += text
            case CallEnd(complete=True) if not (strict and event.repaired):
                calls.append(results.ParsedToolCall(name, arguments))
    return calls, content


def _opened(fixture: fixtures.Fixture) -> str:
    """The end of the prompt, where it has opened the reasoning."""
    prompt = fixture.generation_prompt
    if prompt is None:
        model = FAMILIES[fixture.family].reference_for(fixture.reference_model)
        prompt = (model.default_generation_prompt if model is not None else None) or ""
    for opening, close in markup.gathered().reasoning:
        at = prompt.rfind(opening)
        if at >= 0 and close not in prompt[at:]:
            return prompt[at:]
    return ""
