"""Each finished call has one outcome, told in the header, the extension field, the log and the exchange's report."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import pytest

from tests.helpers.answers import BAD, GOOD, NativeBackend, answered, post
from tests.helpers.fakes import Answer, TextBackend, write_calls
from tests.helpers.stream_rules import read_events
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.response.outcome import CallOutcome, CallOutcomes, FinishedCall, OpenCall, as_header

COMMA = '<tool_call>\n{"name": "f", "arguments": {"x": 1,}}\n</tool_call>'
LIST = '<tool_call>\n{"name": "f", "arguments": [1]}\n</tool_call>'
CUT = Answer('<tool_call>\n{"name": "f", "arguments": {"x": 1', finish_reason="length")
UNKNOWN = write_calls("hermes", ("nope", {"x": 1}))
OTHERS = "{} begins a call of another format; here calls are read as {} writes them"
CASES: dict[str, tuple[list[Any], dict[str, Any], str, str]] = {
    "clean": ([GOOD], {}, "clean", "-"),
    "repaired": ([COMMA], {}, "repaired", "arguments"),
    "cut": ([CUT], {}, "cut", "arguments"),
    "warned": ([BAD], {"validate_arguments": "warn"}, "invalid", "arguments.x"),
    "invalid": ([BAD], {"validate_arguments": "error"}, "invalid", "arguments.x"),
    "malformed": ([COMMA], {"malformed_arguments": "error"}, "malformed", "arguments"),
    "malformed as text": ([COMMA], {"malformed_arguments": "text"}, "malformed", "arguments"),
    "no object as text": ([LIST], {"malformed_arguments": "text"}, "malformed", "arguments"),
    "no object": ([LIST], {}, "malformed", "arguments"),
    "retried": ([BAD, GOOD], {"validate_arguments": "retry"}, "retried", "-"),
    "unknown": ([UNKNOWN], {"unknown_tool": "error"}, "unknown_tool", "name"),
    "as text": ([UNKNOWN], {}, "unknown_tool", "name"),
    "dropped": ([UNKNOWN], {"unknown_tool": "drop"}, "unknown_tool", "name"),
    "forwarded": ([UNKNOWN], {"unknown_tool": "forward"}, "unknown_tool", "name"),
    "in_reasoning": ([f"<think>{GOOD}</think>"], {"reasoning": "parse"}, "in_reasoning", "-"),
}


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("call: ")]


def near_misses(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("no call: ") and " why=" in line]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("scripts", "settings", "outcome", "path"), CASES.values(), ids=CASES)
async def test_the_log_tells_each_call_once_and_nothing_of_what_it_says(
    scripts: list[Any],
    settings: dict[str, Any],
    outcome: str,
    path: str,
    stream: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        await post(ToolCallMiddleware(TextBackend(scripts), **settings), stream=stream)
    told = lines(caplog)
    assert len(told) == len(scripts)  # an attempt each
    name = "nope" if outcome == "unknown_tool" else "f"
    place = "" if path == "-" else f" path={path}"
    assert told[-1] == f"call: model=m mode=prompt format=json tool={name} outcome={outcome}{place}"
    assert 'arguments":' not in "".join(told)


async def test_the_header_and_the_extension_field_tell_what_is_not_clean() -> None:
    app = ToolCallMiddleware(TextBackend([COMMA + GOOD] * 2), extension_field="_t")
    response = await post(app)
    assert response.headers["x-toolcall"] == "mode=prompt; format=json; calls=2; repaired=1"
    assert response.json()["_t"]["outcomes"] == {"repaired": 1}
    streamed = await post(app, stream=True)
    told = [event["_t"] for event in map(json.loads, read_events(streamed.content)[:-1]) if "_t" in event]
    assert [one["outcomes"] for one in told] == [{"repaired": 1}]
    assert "repaired" not in streamed.headers["x-toolcall"]


async def test_nothing_is_told_of_clean_calls() -> None:
    response = await post(ToolCallMiddleware(TextBackend([GOOD]), extension_field="_t"))
    assert response.headers["x-toolcall"] == "mode=prompt; format=json; calls=1"
    assert "outcomes" not in response.json()["_t"]


@pytest.mark.parametrize("policy", ["text", "drop", "forward"])
async def test_the_header_tells_a_tool_that_is_not_offered(policy: str) -> None:
    response = await post(ToolCallMiddleware(TextBackend([UNKNOWN + GOOD]), unknown_tool=policy))
    assert f"; calls={1 + (policy == 'forward')}; unknown_tool=1" in response.headers["x-toolcall"]
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "nope", "arguments": "{}"}}
    for mode in ("prompt", "native"):
        app = ToolCallMiddleware(NativeBackend({"tool_calls": [call]}), mode=mode, unknown_tool=policy)
        assert "; unknown_tool=1" in (await post(app)).headers["x-toolcall"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (UNKNOWN.replace("nope", "ff"), "unknown name `ff`, did you mean `f`?"),
        ('<my_tool_call name="f" secret="s">{"x": 1}</my_tool_call>', "unknown marker `<my_tool_call`"),
        (f"So:\n```\n{GOOD}\n```\n", "`<tool_call` is an example in a fence"),
        ("Write `<tool_call>` first.", "`<tool_call` is an example in a code span"),
        ('Well: {"name": "f", "arguments": {"x": "secret"}} it is.', "JSON that names `f` follows no marker"),
    ],
    ids=["name", "marker", "fence", "code", "json"],
)
async def test_what_looks_like_a_call_and_is_none_is_one_line_at_debug(
    text: str, why: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    app = ToolCallMiddleware(TextBackend([text, text]), format="hermes")
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        quiet = await post(app, stream=stream)
    assert not near_misses(caplog)
    with caplog.at_level(logging.DEBUG, "toolcall_middleware"):
        response = await post(app, stream=stream)
    told = near_misses(caplog)
    assert len(told) == 1
    assert told[0].startswith('no call: model=m mode=prompt format=hermes why="looked like a call: ')
    assert json.loads(told[0].partition(" why=")[2]).endswith(why)
    assert "secret" not in "".join(caplog.messages)
    # What is logged changes nothing of what leaves.
    assert answered(response).content == answered(quiet).content == text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("text", "settings", "whys"),
    [
        (GOOD, {"format": "mistral_v11"}, [OTHERS.format("`<tool_call`", "mistral_v11")]),
        ('[TOOL_CALLS]f{"x": 1}', {"format": "hermes"}, [OTHERS.format("`[TOOL_CALLS]`", "hermes")]),
        (
            "<tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>",
            {"format": "hermes"},
            [OTHERS.format("`<tool_call`", "hermes")],
        ),
        ("<tool_call> is it.", {"format": "mistral_v11"}, ["what follows `<tool_call` cannot be read as one"]),
        ("[TOOL_CALLS] is it.", {"format": "auto"}, ["what follows `[TOOL_CALLS]` cannot be read as one"]),
        ('<tool_call>\n{"name": "f', {}, ["the answer ends before the call after `<tool_call` is complete"]),
        ("[TOOL_CALLS][", {"format": "auto"}, ["the answer ends before the call after `[TOOL_CALLS]` is complete"]),
        (f"<think>Hm. {GOOD}</think>Hi.", {}, ["`f` is called in the model's reasoning"]),
        (f"Hm. {GOOD}</think>Hi.", {"reasoning_start": "open"}, ["`f` is called in the model's reasoning"]),
        (
            f"<think>Hm. {GOOD}</think>As in\n```\n{GOOD}\n```\n",
            {},
            ["`f` is called in the model's reasoning", "`<tool_call` is an example in a fence"],
        ),
        (f"<think>Hm. {GOOD}", {}, []),
        (f"<think>Hm. {GOOD}</think>Hi.", {"reasoning": "parse"}, []),
        (
            f"<think>Hm. {GOOD}</think>Hi.",
            {"reasoning_field": "reasoning"},
            ["`f` is called in the model's reasoning"],
        ),
    ],
    ids=[
        "another family's", "a pattern", "the same marker", "nothing", "nothing behind a pattern", "cut", "cut, auto",
        "thought", "opened thought", "thought and fence", "open thought", "thoughts are read",
        "thoughts leave the text",
    ],
)  # fmt: skip
async def test_the_reason_at_debug_is_the_true_one(
    text: str, settings: dict[str, Any], whys: list[str], stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    app = ToolCallMiddleware(TextBackend([text]), **{"format": "hermes", **settings})
    with caplog.at_level(logging.DEBUG, "toolcall_middleware"):
        await post(app, stream=stream)
    told = [line.partition(" why=")[2] for line in near_misses(caplog)]
    assert told == [json.dumps(f"looked like a call: {why}") for why in whys]


async def test_plain_text_is_no_near_miss(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "toolcall_middleware"):
        await post(ToolCallMiddleware(TextBackend(["The function f(x) = 2 < 3 [sic], a tool: <b>bold</b>."])))
    assert not [line for line in caplog.messages if line.startswith("no call: ")]


def test_the_weightiest_note_is_the_outcome() -> None:
    call, outcomes = OpenCall("f", None, math.inf), CallOutcomes()
    call.note(CallOutcome.RETRIED)
    call.note(CallOutcome.RENAMED, "name")
    call.note(CallOutcome.INVALID, "arguments.x")
    call.note(CallOutcome.REPAIRED, "arguments")
    outcomes.end(call)
    outcomes.end(OpenCall("g", None, math.inf))
    assert outcomes.finished == [
        FinishedCall("f", CallOutcome.INVALID, "arguments.x"),
        FinishedCall("g", CallOutcome.CLEAN),
    ]
    assert as_header(outcomes.finished) == "; invalid=1"


def test_refused_calls_are_kept_up_to_a_bound() -> None:
    outcomes = CallOutcomes()
    for _ in range(1000):
        outcomes.refuse("nope")
    assert len(outcomes.finished) == 128
