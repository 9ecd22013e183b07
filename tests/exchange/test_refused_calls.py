"""Calls that a setting refuses: what the client is told, when the answer has not begun and when it has; and retries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.answers import BAD, GOOD, STREAMS, Case, answered, calling, case, cases, check, own, post
from tests.helpers.driven import Driven
from tests.helpers.fakes import Answer, Quirks, TextBackend, write_calls
from tests.helpers.stream_rules import check_stream
from toolcall_middleware import Settings, ToolCallMiddleware

BROKEN = '<tool_call>\n{"name": "f", "arguments": {"x": 1,}}\n</tool_call>'
UNKNOWN = write_calls("hermes", ("nope", {"x": 1}))
BAD_X: Any = {"code": "invalid_tool_arguments", "status": 422, "param": "tool_calls[0].function.arguments.x"}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "invalid_tool_arguments": (BAD, {"validate_arguments": "error"}, "arguments.x"),
    "malformed_tool_arguments": (BROKEN, {"malformed_arguments": "error"}, "arguments"),
    "unknown_tool_call": (UNKNOWN, {"unknown_tool": "error"}, "name"),
}
AS_EVER = {"Just text.": 0, GOOD: 1, f"Let me see. {GOOD}": 1, "": 0}
THREE = ("f", '{"x": 3}')
LATER: Any = {"calls": [THREE, THREE], "finish": "tool_calls", "tries": 2, "format": "hermes", "constrain": "off"}


def first(code: str, says: tuple[str, ...]) -> Any:
    written, settings, param = REFUSED[code]
    return case(code, written, code=code, status=422, param=f"tool_calls[0].function.{param}", says=says, **settings)


@cases(
    first("invalid_tool_arguments", ("x: 'no'", '{"x": "no"}')),
    first("malformed_tool_arguments", (BROKEN,)),
    first("unknown_tool_call", ("'nope'", UNKNOWN)),
    case("no retry is left", BAD, says="x: 'no'", validate_arguments="retry", retries=0, **BAD_X),
    case("a native call", calling(own('{"x": "no"}')), tries=2, mode="native", validate_arguments="retry", **BAD_X),
    *(
        case(f"{policy} refuses not {said!r}", said, calls=[THREE] * count, retries=0, **{policy: "error"})
        for policy in ("validate_arguments", "malformed_arguments", "unknown_tool")
        for said, count in AS_EVER.items()
    ),
    # The first one waits for the answer's end: had it left, the client would have half of what is tried again.
    case("a later call is retried", [f"{GOOD}\n{BAD}", f"{GOOD}\n{GOOD}"], validate_arguments="retry", **LATER),
    case(
        "a later call that must come", [f"{GOOD}\n{BAD}", f"{GOOD}\n{GOOD}"], asked={"tool_choice": "required"},
        validate_arguments="retry", **LATER,
    ),
)  # fmt: skip
async def test_answers(one: Case) -> None:
    await check(one)


@pytest.mark.parametrize("code", REFUSED)
async def test_it_is_an_event_where_text_has_left(code: str) -> None:
    written, settings, _ = REFUSED[code]
    response = await post(ToolCallMiddleware(TextBackend([f"Let me see.\n{written}"]), **settings), stream=True)
    answer = check_stream(response.content, error=True)
    assert ((answer.error or {})["code"], answer.only.content, answer.only.calls) == (code, "Let me see.\n", [])


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
