"""Calls that a setting refuses: what the client is told, when the answer has not begun and when it has; and retries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchange.test_modes import BAD, GOOD, NativeBackend, answered, post
from tests.helpers.driven import Driven
from tests.helpers.fakes import Answer, Quirks, TextBackend, write_calls
from tests.helpers.stream_rules import check_error, check_stream
from toolcall_middleware import Settings, ToolCallMiddleware

BROKEN = '<tool_call>\n{"name": "f", "arguments": {"x": 1,}}\n</tool_call>'
UNKNOWN = write_calls("hermes", ("nope", {"x": 1}))
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
CASES = pytest.mark.parametrize(
    ("written", "settings", "code", "param", "told"),
    [
        (BAD, {"validate_arguments": "error"}, "invalid_tool_arguments", "arguments.x", ["x: 'no'", '{"x": "no"}']),
        (BAD, {"validate_arguments": "retry", "retries": 0}, "invalid_tool_arguments", "arguments.x", ["x: 'no'"]),
        (BROKEN, {"malformed_arguments": "error"}, "malformed_tool_arguments", "arguments", [BROKEN]),
        (UNKNOWN, {"unknown_tool": "error"}, "unknown_tool_call", "name", ["'nope'", UNKNOWN]),
    ],
    ids=["error", "retry", "malformed", "unknown"],
)


@STREAMS
@CASES
async def test_a_refusal_is_the_answer_where_nothing_was_said(
    written: str, settings: dict[str, Any], code: str, param: str, told: list[str], stream: bool
) -> None:
    response = await post(ToolCallMiddleware(TextBackend([written]), **settings), stream=stream)
    assert (response.status_code, response.headers["x-should-retry"]) == (422, "false")
    error = check_error(response.content)
    assert (error["code"], error["type"]) == (code, "model_error")
    assert error["param"] == f"tool_calls[0].function.{param}"
    for piece in told:
        assert piece in error["message"]


@CASES
async def test_it_is_an_event_where_text_has_left(
    written: str, settings: dict[str, Any], code: str, param: str, told: list[str]
) -> None:
    if settings.get("validate_arguments") == "retry":
        pytest.skip("a retry holds all of it")
    response = await post(ToolCallMiddleware(TextBackend([f"Let me see.\n{written}"]), **settings), stream=True)
    assert response.status_code == 200
    answer = check_stream(response.content, error=True)
    assert (answer.error or {})["code"] == code
    assert answer.only.content == "Let me see.\n"
    assert answer.only.calls == []
    assert param
    assert told


@pytest.mark.parametrize("policy", ["validate_arguments", "malformed_arguments", "unknown_tool"])
async def test_what_is_not_refused_leaves_as_ever(policy: str) -> None:
    for said in ("Just text.", GOOD, f"Let me see. {GOOD}", ""):
        settings: dict[str, Any] = {policy: "error", "retries": 0}
        response = await post(ToolCallMiddleware(TextBackend([said]), **settings), stream=True)
        choice = answered(response, tools={"f"})
        assert [call.parsed for call in choice.calls] == ([{"x": 3}] if GOOD in said else [])


async def test_reasoning_leaves_before_a_call_is_refused() -> None:
    backend = TextBackend([Answer(BAD, reasoning="Hm.")])
    response = await post(ToolCallMiddleware(backend, validate_arguments="error"), stream=True)
    assert response.status_code == 200
    assert check_stream(response.content, error=True).only.reasoning == "Hm."


@STREAMS
@pytest.mark.parametrize(
    ("bad", "settings", "note"),
    [
        (BAD, {}, "x: 'no' is not of type 'integer'"),
        (BROKEN, {"malformed_arguments": "error"}, "are not JSON"),
        (UNKNOWN, {"unknown_tool": "error"}, "'nope', which is not among the tools"),
    ],
    ids=["invalid", "malformed", "unknown"],
)
async def test_a_retry_tells_the_model_its_own_call_and_what_was_wrong(
    bad: str, settings: dict[str, Any], note: str, stream: bool
) -> None:
    backend = TextBackend([f"Let me see. {bad}", f"Again: {GOOD}"])
    app = ToolCallMiddleware(backend, validate_arguments="retry", **settings)
    options = {"stream_options": {"include_usage": True}} if stream else {}
    response = await post(app, stream=stream, **options)
    choice = answered(response, tools={"f"}, **({"include_usage": True} if stream else {}))
    assert [call.parsed for call in choice.calls] == [{"x": 3}]
    assert choice.content == "Again: "  # nothing of the first try has left
    first, second = (seen.body["messages"] for seen in backend.seen)
    assert second[:-2] == first
    assert [message["role"] for message in second[-2:]] == ["assistant", "user"]
    assert second[-2]["content"] == bad
    assert note in second[-1]["content"]
    # Both tries are counted; that of a stream which was cut short by estimate.
    usage = json.loads(response.content)["usage"] if not stream else _usage_of(response.text)
    bad_tokens, good_tokens = (-(-len(text) // 4) for text in (f"Let me see. {bad}", f"Again: {GOOD}"))
    if stream:
        assert usage["completion_tokens"] > good_tokens + bad_tokens // 2
    else:
        assert usage["completion_tokens"] == good_tokens + bad_tokens


@STREAMS
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_a_later_call_is_retried_as_the_first_one_is(choice: str, stream: bool) -> None:
    """The first one waits for the answer's end: had it left, the client would have half of what is tried again."""
    backend = TextBackend([f"{GOOD}\n{BAD}", f"{GOOD}\n{GOOD}"])
    app = ToolCallMiddleware(backend, format="hermes", constrain="off", validate_arguments="retry")
    response = await post(app, stream=stream, tool_choice=choice)
    made = answered(response, tools={"f"})
    assert [call.parsed for call in made.calls] == [{"x": 3}, {"x": 3}]
    assert made.finish_reason == "tool_calls"
    assert len(backend.seen) == 2


@pytest.mark.parametrize("settings", [{"validate_arguments": "retry"}, {"validate_arguments": "error"}])
async def test_a_call_that_only_the_end_of_a_stream_ends_is_refused_before_anything_leaves(
    settings: dict[str, Any],
) -> None:
    """Some engines send no finish_reason, and `[DONE]` may stand between a call without its closing tag and its end."""
    open_ended = BAD.removesuffix("\n</tool_call>")
    backend = TextBackend([open_ended, GOOD], quirks=Quirks(finish=False))
    response = await post(ToolCallMiddleware(backend, format="hermes", **settings), stream=True)
    if settings["validate_arguments"] == "error":
        assert response.status_code == 422
    else:
        assert [call.parsed for call in answered(response, tools={"f"}).calls] == [{"x": 3}]


def test_a_stream_in_which_no_call_can_come_waits_for_nothing() -> None:
    exchange = Driven(Settings(validate_arguments="retry"))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    messages = [{"role": "user", "content": "Hi."}]
    body = {"model": "m", "messages": messages, "tools": [tool], "tool_choice": "none", "stream": True}
    exchange.on_request(json.dumps(body).encode())
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    event = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello"}, "finish_reason": None}]}
    assert b"Hello" in exchange.feed(b"data: " + json.dumps(event).encode() + b"\n\n")


async def test_a_call_is_retried_before_the_other_choices_have_begun() -> None:
    """They have no call yet, so that nothing has left."""
    backend = TextBackend([[f"{GOOD}\n{BAD}", GOOD], GOOD], chunk_size=None, quirks=Quirks(role_chunk=False))
    app = ToolCallMiddleware(backend, format="hermes", validate_arguments="retry")
    response = await post(app, stream=True, n=2)
    choices = check_stream(response.content, n=2, tools={"f"}).choices
    assert [[call.parsed for call in choice.calls] for choice in choices] == [[{"x": 3}], [{"x": 3}]]
    assert len(backend.seen) == 2


def _usage_of(text: str) -> dict[str, Any]:
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    found: dict[str, Any] = chunks[-1]["usage"]
    return found


@STREAMS
async def test_a_native_call_is_refused_and_retried_as_well(stream: bool) -> None:
    backend = NativeBackend(
        {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f", "arguments": '{"x": "no"}'}}]}
    )
    app = ToolCallMiddleware(backend, mode="native", validate_arguments="retry")
    response = await post(app, stream=stream)
    assert response.status_code == 422
    assert check_error(response.content)["param"] == "tool_calls[0].function.arguments.x"
    assert len(backend.bodies) == 2
    assert backend.bodies[1]["messages"][-2]["content"] == '{"name":"f","arguments":"{\\"x\\": \\"no\\"}"}'
