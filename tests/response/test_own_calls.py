"""Calls that a backend makes by itself in `mode=prompt`, as vLLM does for gpt-oss whatever was asked: read as ours."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.helpers.answers import (
    GOOD,
    HISTORY,
    STREAMS,
    Case,
    NativeBackend,
    answered,
    calling,
    case,
    cases,
    check,
    own,
    post,
)
from toolcall_middleware import ToolCallMiddleware

ONE, TWO = ("f", '{"x": 1}'), ("f", '{"x": 2}')
NAMED = {"type": "function", "function": {"name": "f"}}
ONLY_G = {"asked": {"tools": [{"type": "function", "function": {"name": "g"}}]}, "unknown_tool": "forward"}
BOTH = calling(own(), own('{"x": 2}', index=1))
THREE = calling(*(own(index=at) for at in range(3)))
NOPE = calling(own(name="nope"))
OLD = NativeBackend({"function_call": {"name": "f", "arguments": '{"x": 1}'}}, finish="function_call")
HALF = '{"x": "rm -rf /home/me/t'
LONG = '{"x": 1, "y": "' + "word " * 40 + '"'
HEAD = "mode=prompt; format=json; calls=2"


@cases(
    case("two", BOTH, calls=[ONE, TWO], content=None, finish="tool_calls", head=HEAD),
    case(
        "two, and the backend says so", calling(own(), own('{"x": 2}', index=1), finish="tool_calls"),
        calls=[ONE, TWO], content=None, finish="tool_calls", head=HEAD,
    ),
    case("behind text", calling(own(), content="See."), calls=[ONE], content="See.", finish="tool_calls"),
    case("a single function_call of old", OLD, calls=[ONE], finish="tool_calls"),
    case("it satisfies required", calling(own()), asked={"tool_choice": "required"}, calls=[ONE], tries=1),
    case("it satisfies a named tool", calling(own()), asked={"tool_choice": NAMED}, calls=[ONE], tries=1),
    case("not offered, text", NOPE, calls=[], finish="stop", content='{"name":"nope","arguments":"{\\"x\\": 1}"}'),
    case("not offered, drop", NOPE, calls=[], finish="stop", content=None, unknown_tool="drop"),
    case("not offered, forward", NOPE, calls=[("nope", ONE[1])], finish="tool_calls", unknown_tool="forward"),
    case("not offered, error", NOPE, code="unknown_tool_call", unknown_tool="error"),
    case("schema", calling(own('{"x": "no"}')), code="invalid_tool_arguments", validate_arguments="error"),
    case("malformed", calling(own('{"x": 1,}')), code="malformed_tool_arguments", malformed_arguments="error"),
    case("cut, checked", calling(own('{"x": 1')), code="malformed_tool_arguments", validate_arguments="error"),
    case("no object", calling(own('["x"]')), code="malformed_tool_arguments", malformed_arguments="error"),
    case("size", calling(own(f'{{"x": "{"a" * 100}"}}')), code="limit_exceeded", max_arguments_bytes=50),
    case("allowlist", calling(own("{}")), code="tool_not_allowed", allowlist="g", allowlist_mode="enforce", **ONLY_G),
    case(
        "values, names and brackets are repaired", calling(own('{"x": "3"'), own('{"x": 4}', "functions.f", index=1)),
        calls=[("f", '{"x": 3}'), ("f", '{"x": 4}')], head="; calls=2; renamed=1; repaired=1",
    ),
    case("the most", THREE, calls=[ONE, ONE], max_tool_calls=2),
    case("not in parallel", THREE, asked={"parallel_tool_calls": False}, calls=[ONE]),
    case("cut, whatever the backend says", calling(own(HALF)), calls=[("f", HALF)], finish="length"),
    case("cut by the tokens", calling(own(LONG), finish="tool_calls"), asked={"max_tokens": 40}, finish="length"),
    case("choice none", calling(own()), asked={"tool_choice": "none"}, calls=[], finish="stop"),
    case("no tools, calls in the history", calling(own()), asked={"tools": [], "messages": HISTORY}, calls=[ONE]),
    case(
        "a refused one is asked for again", calling(own('{"x": "no"}')),
        code="invalid_tool_arguments", says="x: 'no'", tries=2, validate_arguments="retry",
    ),
)  # fmt: skip
async def test_it_is_read_as_ours(one: Case) -> None:
    await check(one)


@STREAMS
@pytest.mark.parametrize("first", [True, False], ids=["own first", "text first"])
async def test_calls_in_the_text_and_own_ones_are_numbered_together(first: bool, stream: bool) -> None:
    text = {"content": '<tool_call>\n{"name": "f", "arguments": {"x": 7}}\n</tool_call>'}
    calls: dict[str, Any] = {"tool_calls": [own('{"x": 1}', index=0), own('{"x": 2}', index=1)]}
    backend = NativeBackend(*([calls, text] if first else [text, calls]))
    made = answered(await post(ToolCallMiddleware(backend), stream=stream))
    assert sorted(call.parsed["x"] for call in made.calls) == [1, 2, 7]
    assert (made.content, made.finish_reason) == (None, "tool_calls")


@STREAMS
async def test_a_retry_says_what_was_wrong(stream: bool) -> None:
    backend = calling(own('{"x": "no"}'))
    await post(ToolCallMiddleware(backend, validate_arguments="retry"), stream=stream)
    assert "do not fit its schema" in backend.bodies[1]["messages"][-1]["content"]


@STREAMS
async def test_the_log_tells_it_as_every_call(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        answered(await post(ToolCallMiddleware(calling(own('{"x": 1,}'))), stream=stream))
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("call: ")]
    assert told == ["call: model=m mode=prompt format=json tool=f outcome=repaired path=arguments"]


async def test_an_answer_without_any_keeps_what_stands_beside() -> None:
    backend = NativeBackend({"content": "hi", "tool_calls": [], "function_call": None})
    whole = await post(ToolCallMiddleware(backend))
    message = whole.json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "hi", "tool_calls": [], "function_call": None, "refusal": None}
    streamed = await post(ToolCallMiddleware(backend), stream=True)
    assert b'"tool_calls":[]' in streamed.content


@pytest.mark.parametrize("reasoning", ["ignore", "parse"])
@pytest.mark.parametrize(
    ("arguments", "finish", "calls"),
    [*(('{"x": ', end, 1) for end in ("length", "stop", None)), ('{"x": 1}', "length", 2)],
)
async def test_a_call_in_a_thought_follows_one_that_is_whole_and_none_that_is_cut(
    reasoning: str, arguments: str, finish: str | None, calls: int
) -> None:
    backend = NativeBackend({"tool_calls": [own(arguments)]}, {"reasoning": GOOD}, finish=finish)
    response = await post(ToolCallMiddleware(backend, mode="native", reasoning=reasoning), stream=True)
    assert response.text.count('"name":"f"') == calls, response.text
    assert ('"finish_reason":"length"' in response.text.replace(" ", "")) or calls == 2
