"""What random exchanges (tests/bench/fuzz.py) have found beyond the parsers, each as the exchange that showed it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench.fuzzed.driven import stream, whole
from tests.bench.fuzzed.texts import TOOLS
from tests.helpers.stream_rules import check_stream, check_whole
from tests.response.streams import chunk, completion
from toolcall_middleware.settings import Settings

REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def event(content: str | None, reason: str | None = None, *, indent: int | None = None, **fields: Any) -> bytes:
    made = chunk({} if content is None else {"content": content}, reason, **fields)
    text = json.dumps(made, indent=indent)
    return b"".join(b"data: %s\n" % line.encode() for line in text.split("\n")) + b"\n"


def test_an_event_of_several_lines_leaves_in_one() -> None:
    logprobs = {"content": [{"token": "x", "logprob": -0.5}]}
    pieces = [event(CALL, indent=1, logprobs=logprobs), event("Done.", "stop", indent=1)]
    answer = check_stream(stream(Settings(), REQUEST, pieces).body)
    assert answer.only.named_calls == [("weather", '{"city": "Paris"}')]
    assert answer.only.content == "Done."
    assert answer.only.logprobs == logprobs["content"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_whole_answer_over_several_lines_can_be_the_stream(end: str) -> None:
    answer = json.loads(completion(f"Look: {CALL}"))
    answer["choices"][0]["logprobs"] = {"content": [{"token": "x", "logprob": -0.5}]}
    body = json.dumps(answer, indent=1).replace("\n", end).encode()
    outcome = stream(Settings(), REQUEST, [body])
    got = check_stream(outcome.body)
    assert (got.only.content, len(got.only.calls)) == ("Look: ", 1)


def test_what_stops_at_a_stop_string_leaves_under_retry() -> None:
    settings = Settings(validate_arguments="retry")
    pieces = [event("One, "), event("two, STOP three")]
    answer = check_stream(stream(settings, {**REQUEST, "stop": "STOP"}, pieces).body)
    assert (answer.only.content, answer.only.finish_reason) == ("One, two, ", "stop")


def test_text_beside_the_end_leaves_before_it_where_there_are_calls() -> None:
    answer = check_stream(stream(Settings(), REQUEST, [event(CALL), event(" So."), event(" Bye.", "stop")]).body)
    assert answer.only.content == " So. Bye."
    last = answer.chunks[-1]["choices"][0]
    assert (last["delta"], last["finish_reason"]) == ({}, "tool_calls")


@pytest.mark.parametrize("policy", ["warn", "error", "retry"])
def test_half_an_emoji_in_arguments_is_no_fault_of_the_check(policy: str) -> None:
    settings = Settings(validate_arguments=policy, extension_field="_toolcall")
    text = CALL.replace("Paris", "\ud83d")
    assert check_whole(whole(settings, REQUEST, completion(text)).body).only.calls[0].name == "weather"
    wrong = CALL.replace('"Paris"', '3, "at": "\ud83d"')
    outcome = whole(settings, REQUEST, completion(wrong))
    if policy == "warn":
        assert b"is not of type" in outcome.body
    else:
        assert outcome.error == "invalid_tool_arguments"


def test_arguments_that_come_with_all_before_them_are_told_from_the_second_delta() -> None:
    grown = ['{"cit', '{"city": "Par', '{"city": "Paris"}']
    calls: list[dict[str, Any]] = [{"index": 0, "id": "c1", "function": {"name": "weather", "arguments": ""}}]
    calls += [{"index": 0, "function": {"arguments": text}} for text in grown]
    chunks = [*(chunk({"tool_calls": [call]}) for call in calls), chunk({}, "tool_calls")]
    pieces = [b"data: %s\n\n" % json.dumps(one).encode() for one in chunks]
    answer = check_stream(stream(Settings(mode="native"), REQUEST, pieces).body, own_ids=False)
    assert answer.only.named_calls == [("weather", '{"city": "Paris"}')]


_OLD_CALL = '{"function_call": {"name": "%s", "arguments": "{}"}}'
_UNKNOWN = _OLD_CALL % "unknown"


@pytest.mark.parametrize("behind", [_UNKNOWN, f"\n{_UNKNOWN}", _UNKNOWN.replace("arguments", "argumen- item\nts")])
def test_a_refused_call_on_the_last_lines_takes_nothing_along(behind: str) -> None:
    text = f"So:\n{_OLD_CALL % 'weather'}{behind}"
    settings = Settings(format="function_call")
    at_once = check_whole(whole(settings, REQUEST, completion(text)).body)
    pieces = [event(char) for char in text]
    cut = check_stream(stream(settings, REQUEST, [*pieces, event(None, "stop")]).body)
    assert at_once.only.content == cut.only.content == text
    assert not at_once.only.calls
    assert not cut.only.calls


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_call_that_another_one_breaks_off_is_the_answers_last(reason: str) -> None:
    begun = "<|start|>assistant to=functions.weather<|channel|>commentary <|constrain|> json<|message|>"
    # The code span may still close: nothing is decided before the end.
    text = f'``{begun}{{"city": {begun}{{}}'
    answer = completion(text, reason)
    settings = Settings(format="llm-jp-harmony")
    at_once = check_whole(whole(settings, REQUEST, answer).body)
    cut = check_stream(stream(settings, REQUEST, [*map(event, text), event(None, reason)]).body)
    for got in (at_once.only, cut.only):
        assert [call.arguments for call in got.calls] == ['{"city": ']
        assert got.finish_reason == "length"


@pytest.mark.parametrize("comment", ["// b}", "# b}", "/* b}", "// b]}"])
def test_a_comma_before_a_comment_without_an_end_is_a_trailing_one(comment: str) -> None:
    text = f'<tool_call>{{"name": "weather", "arguments": {{"days": 3, {comment}}}</tool_call> So.'
    parts = [[text], list(text), *([text[:at], text[at:]] for at in range(40, len(text)))]
    for pieces in parts:
        answer = check_stream(stream(Settings(), REQUEST, [*map(event, pieces), event(None, "stop")]).body)
        assert answer.only.named_calls == [("weather", '{"days": 3}')]
        assert answer.only.content == " So."


@pytest.mark.parametrize("size", range(60, 140))
def test_a_long_line_behind_a_fence_is_text_wherever_a_marker_stands_in_it(size: int) -> None:
    text = f"```json{'x' * size}<|end_message|>So."
    answer = check_whole(whole(Settings(format="inkling"), REQUEST, completion(text)).body)
    assert (answer.only.content or "").startswith(f"```json{'x' * size}")


def test_arguments_without_a_name_take_no_text_along() -> None:
    entry = '{"name": "weather", "arguments": {}}'
    behind = ', {"x": "", "arguments": {"city": "a", "b: 0}}]</tool_calls> So.'
    answer = check_whole(whole(Settings(format="jamba"), REQUEST, completion(f"<tool_calls>[{entry}{behind}")).body)
    assert answer.only.named_calls == [("weather", "{}")]
    assert answer.only.content == behind


@pytest.mark.parametrize(
    "behind", [', {"name": "So it is. ', ', {"id": "<b>So', ', {"note": "So it is. ', ', {"name": "a [b] ']
)
def test_an_entry_that_breaks_off_takes_no_text_along(behind: str) -> None:
    text = f'<tool_calls>[{{"name": "weather", "arguments": {{}}}}{behind * 9}'
    at_once = check_whole(whole(Settings(format="jamba"), REQUEST, completion(text)).body)
    cut = check_stream(stream(Settings(format="jamba"), REQUEST, [*map(event, text), event(None, "stop")]).body)
    for got in (at_once.only, cut.only):
        assert got.named_calls == [("weather", "{}")]
        assert got.content == behind * 9


@pytest.mark.parametrize("behind", [', {"name": "wea', ', {"id": "call_1', ', {"no', ', {"name": "'])
def test_half_an_entry_is_none_of_the_text(behind: str) -> None:
    text = f'<tool_calls>[{{"name": "weather", "arguments": {{}}}}{behind}'
    answer = check_whole(whole(Settings(format="jamba"), REQUEST, completion(text)).body)
    assert answer.only.named_calls == [("weather", "{}")]
    assert answer.only.content is None
