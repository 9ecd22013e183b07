"""The checker of the wire is itself checked: a sound answer passes, and each broken rule is seen and named."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.stream_rules import RuleBrokenError, check_error, check_stream, check_whole, read_events, same_answer

if TYPE_CHECKING:
    from collections.abc import Callable

IDS = ("call_abcdefghijklmnopqrstuvwx", "call_ABCDEFGHIJKLMNOPQRSTUVW1")
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
Events = list[Any]


def chunk(delta: dict[str, Any], finish_reason: str | None = None, index: int = 0) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}]}


def opening(index: int, name: str = "f") -> dict[str, Any]:
    call = {"index": index, "id": IDS[index], "type": "function", "function": {"name": name, "arguments": ""}}
    return chunk({"tool_calls": [call]})


def fragment(index: int, arguments: Any) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def two_calls() -> Events:
    return [
        chunk({"role": "assistant", "content": ""}),  # 0
        chunk({"content": "Let me look."}),  # 1
        opening(0),  # 2
        fragment(0, '{"x"'),  # 3
        fragment(0, ": 1}"),  # 4
        opening(1, "g"),  # 5
        fragment(1, "{}"),  # 6
        chunk({}, "tool_calls"),  # 7
        {**HEAD, "choices": [], "usage": USAGE},  # 8
        "[DONE]",  # 9
    ]


def whole() -> dict[str, Any]:
    calls = [
        {"id": IDS[0], "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": IDS[1], "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    message = {"role": "assistant", "content": "Let me look.", "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}


def test_sound_stream_passes_and_is_joined() -> None:
    answer = check_stream(two_calls(), tools={"f", "g"}, include_usage=True, must_call=True, model="m")
    assert answer.only.content == "Let me look."
    assert answer.only.named_calls == [("f", '{"x": 1}'), ("g", "{}")]
    assert answer.only.calls[0].fragments == ['{"x"', ": 1}"]
    assert answer.usage == USAGE
    same_answer(answer, check_whole(whole(), tools={"f", "g"}))


def test_bytes_are_read_with_any_line_end_and_comments() -> None:
    for end in ("\n", "\r\n", "\r"):
        events = [event if isinstance(event, str) else json.dumps(event) for event in two_calls()]
        body = "".join(f": note{end}{end}data: {event}{end}{end}" for event in events).encode()
        assert check_stream(body, include_usage=True).only.finish_reason == "tool_calls"


def test_answer_cut_by_length_may_end_inside_its_last_call() -> None:
    events: Events = [*two_calls()[:4], chunk({}, "length"), "[DONE]"]
    assert check_stream(events).only.calls[0].arguments == '{"x"'
    with pytest.raises(RuleBrokenError, match="valid JSON"):
        check_stream([*events[:4], opening(1), *events[4:]])


def test_legacy_call_is_known() -> None:
    events: Events = [
        chunk({"role": "assistant", "content": None}),
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk({}, "function_call"),
        "[DONE]",
    ]
    assert check_stream(events, legacy=True).only.named_calls == [("f", "{}")]
    with pytest.raises(RuleBrokenError, match="unasked"):
        check_stream(events)


def test_arguments_may_be_asked_for_as_an_object() -> None:
    events = [*two_calls()[:3], fragment(0, {"x": 1}), chunk({}, "tool_calls"), "[DONE]"]
    answer = whole()
    for call in answer["choices"][0]["message"]["tool_calls"]:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    del answer["choices"][0]["message"]["tool_calls"][1]
    same_answer(check_stream(events, as_object=True), check_whole(answer, as_object=True))
    with pytest.raises(RuleBrokenError, match="are text"):
        check_stream(events)
    with pytest.raises(RuleBrokenError, match="are an object"):
        check_stream(two_calls(), as_object=True, include_usage=True)
    with pytest.raises(RuleBrokenError, match="once"):
        check_stream([*events[:4], *events[3:]], as_object=True)


def test_error_event_ends_a_stream_where_it_is_due() -> None:
    error = {"error": {"message": "engine died", "type": "upstream_error", "param": None, "code": "upstream_error"}}
    events: Events = [*two_calls()[:4], error, "[DONE]"]
    answer = check_stream(events, error=True)
    assert answer.error is not None
    assert answer.error["message"] == "engine died"
    with pytest.raises(RuleBrokenError, match="iff one is due"):
        check_stream(events)
    with pytest.raises(RuleBrokenError, match="iff one is due"):
        check_stream(two_calls(), include_usage=True, error=True)
    with pytest.raises(RuleBrokenError, match="nothing but"):
        check_stream([*events[:5], *two_calls()[7:8], "[DONE]"], error=True)
    with pytest.raises(RuleBrokenError, match="message, type"):
        check_stream([*events[:4], {"error": {"message": "x", "type": "y"}}, "[DONE]"], error=True)


def _call(events: Events, at: int) -> dict[str, Any]:
    call: dict[str, Any] = events[at]["choices"][0]["delta"]["tool_calls"][0]
    return call


def _choice(events: Events, at: int) -> dict[str, Any]:
    choice: dict[str, Any] = events[at]["choices"][0]
    return choice


STREAM_FAULTS: dict[str, tuple[str, Callable[[Events], object]]] = {
    "no_done": ("exactly one", lambda e: e.pop()),
    "two_dones": ("exactly one", lambda e: e.append("[DONE]")),
    "chunk_after_done": ("comes last", lambda e: e.append(e[1])),
    "no_role": ("role assistant", lambda e: e.pop(0)),
    "role_twice": ("role comes once", lambda e: _choice(e, 1)["delta"].update(role="assistant")),
    "no_index": ("index of a call is a number", lambda e: _call(e, 2).pop("index")),
    "no_id": ("opens with index, id", lambda e: _call(e, 2).pop("id")),
    "no_type": ("opens with index, id", lambda e: _call(e, 2).pop("type")),
    "other_type": ("type is function", lambda e: _call(e, 2).update(type="custom")),
    "no_name": ("name and arguments", lambda e: _call(e, 2)["function"].pop("name")),
    "empty_name": ("name of a call", lambda e: _call(e, 2)["function"].update(name="")),
    "opens_without_arguments": ("name and arguments", lambda e: _call(e, 2)["function"].pop("arguments")),
    "opens_with_arguments": ("empty arguments", lambda e: _call(e, 2)["function"].update(arguments="{")),
    "id_of_another_form": ("id of a call", lambda e: _call(e, 2).update(id="chatcmpl-tool-1")),
    "id_twice": ("unique", lambda e: _call(e, 5).update(id=IDS[0])),
    "name_again": ("only arguments", lambda e: _call(e, 3)["function"].update(name="f")),
    "id_again": ("only index and function", lambda e: _call(e, 3).update(id=IDS[0])),
    "type_again": ("only index and function", lambda e: _call(e, 3).update(type="function")),
    "arguments_an_object": ("arguments are text", lambda e: _call(e, 3)["function"].update(arguments={"x": 1})),
    "gap_in_index": ("no gap", lambda e: _call(e, 5).update(index=2)),
    "interleaved": ("interleave", lambda e: e.insert(7, fragment(0, " "))),
    "opened_before_the_other_is_complete": ("before the next call opens", lambda e: e.pop(4)),
    "last_call_incomplete": ("valid JSON", lambda e: e.pop(6)),
    "two_entries_of_one_call": ("one entry a call", lambda e: _choice(e, 3)["delta"]["tool_calls"].append(_call(e, 4))),
    "tool_not_offered": ("offered", lambda e: _call(e, 2)["function"].update(name="h")),
    "arguments_no_object": ("an object", lambda e: _call(e, 6)["function"].update(arguments="[]")),
    "arguments_nan": ("valid JSON", lambda e: _call(e, 6)["function"].update(arguments='{"x": NaN}')),
    "no_finish": ("has a finish_reason", lambda e: (e.pop(8), e.pop(7))),
    "finish_twice": ("after finish_reason", lambda e: e.insert(8, e[7])),
    "text_after_finish": ("after finish_reason", lambda e: e.insert(8, e[1])),
    "finish_with_arguments": (
        "delta that finishes is empty",
        lambda e: (_choice(e, 6).update(finish_reason="tool_calls"), e.pop(7)),
    ),
    "finish_stop": ("iff there are calls", lambda e: _choice(e, 7).update(finish_reason="stop")),
    "finish_unknown": ("finish_reason is known", lambda e: _choice(e, 7).update(finish_reason="eos")),
    "finish_tool_calls_without_call": ("iff there are calls", lambda e: e.__delitem__(slice(2, 7))),
    "no_usage": ("when asked for", lambda e: e.pop(8)),
    "usage_twice": ("after the usage chunk", lambda e: e.insert(8, e[8])),
    "usage_before_finish": ("every finish_reason", lambda e: e.insert(7, e.pop(8))),
    "usage_in_another_chunk": ("without choices", lambda e: e[4].update(usage=USAGE)),
    "usage_is_no_sum": ("the sum", lambda e: e[8].update(usage={**USAGE, "total_tokens": 8})),
    "empty_choices": ("has choices", lambda e: e.insert(1, {**HEAD, "choices": []})),
    "other_object": ("object is", lambda e: e[3].update(object="chat.completion")),
    "other_id": ("stays the same", lambda e: e[3].update(id="chatcmpl-2")),
    "other_model": ("stays the same", lambda e: e[3].update(model="n")),
    "unknown_choice": ("index of the choice", lambda e: _choice(e, 3).update(index=1)),
    "content_a_number": ("content is text", lambda e: _choice(e, 1)["delta"].update(content=1)),
    "no_json": ("JSON", lambda e: e.insert(1, "{")),
    "key_twice": ("twice", lambda e: e.insert(1, '{"id": "a", "id": "a"}')),
}  # fmt: skip


@pytest.mark.parametrize("fault", STREAM_FAULTS)
def test_broken_rule_of_a_stream_is_seen(fault: str) -> None:
    rule, edit = STREAM_FAULTS[fault]
    events = copy.deepcopy(two_calls())
    edit(events)
    with pytest.raises(RuleBrokenError, match=rule):
        check_stream(events, tools={"f", "g"}, include_usage=True)


def test_what_the_request_asked_for_is_checked() -> None:
    with pytest.raises(RuleBrokenError, match="unasked"):
        check_stream(two_calls())
    without_usage = [event for event in two_calls() if not isinstance(event, dict) or "usage" not in event]
    with pytest.raises(RuleBrokenError, match="at most one call"):
        check_stream(without_usage, parallel=False)
    with pytest.raises(RuleBrokenError, match="model is"):
        check_stream(without_usage, model="other")
    with pytest.raises(RuleBrokenError, match="2 choices"):
        check_stream(without_usage, n=2)
    text: Events = [chunk({"role": "assistant", "content": "No."}), chunk({}, "stop"), "[DONE]"]
    assert check_stream(text).only.content == "No."
    with pytest.raises(RuleBrokenError, match="has a call"):
        check_stream(text, must_call=True)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"data: {}", "line end"),
        (b"data: {}\n", "blank line"),
        (b"data: {}\ndata: {}\n\n", "one line of data"),
        (b"event: x\ndata: {}\n\n", "lines are data"),
        (b'{"error": 1}\n\n', "lines are data"),
    ],
)
def test_bytes_that_are_no_clean_sse_are_refused(body: bytes, rule: str) -> None:
    with pytest.raises(RuleBrokenError, match=rule):
        read_events(body)


def _message(body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = body["choices"][0]["message"]
    return message


WHOLE_FAULTS: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "no_usage": ("usage is an object", lambda b: b.pop("usage")),
    "no_content": ("content is there", lambda b: _message(b).pop("content")),
    "empty_content": ("null, not empty", lambda b: _message(b).update(content="")),
    "no_role": ("role is assistant", lambda b: _message(b).pop("role")),
    "finish_stop": ("iff there are calls", lambda b: b["choices"][0].update(finish_reason="stop")),
    "no_finish": ("finish_reason is known", lambda b: b["choices"][0].pop("finish_reason")),
    "no_calls": ("iff there are calls", lambda b: _message(b).pop("tool_calls")),
    "no_type": ("id, type and function", lambda b: _message(b)["tool_calls"][0].pop("type")),
    "wrong_index": ("counts the calls", lambda b: _message(b)["tool_calls"][1].update(index=0)),
    "bad_arguments": ("valid JSON", lambda b: _message(b)["tool_calls"][0]["function"].update(arguments="{")),
    "chunk": ("object is", lambda b: b.update(object="chat.completion.chunk")),
    "no_choices": ("list with entries", lambda b: b.update(choices=[])),
}  # fmt: skip


@pytest.mark.parametrize("fault", WHOLE_FAULTS)
def test_broken_rule_of_a_whole_answer_is_seen(fault: str) -> None:
    rule, edit = WHOLE_FAULTS[fault]
    body = whole()
    edit(body)
    with pytest.raises(RuleBrokenError, match=rule):
        check_whole(body, tools={"f", "g"})


def test_answers_that_differ_are_seen() -> None:
    other = whole()
    _message(other)["content"] = "Let me see."
    with pytest.raises(RuleBrokenError, match="say the same"):
        same_answer(check_stream(two_calls(), include_usage=True), check_whole(other))


def test_error_body_is_the_openai_envelope() -> None:
    error = {"message": "no", "type": "invalid_request_error", "param": "tools[0]", "code": "invalid_tool_schema"}
    assert check_error(json.dumps({"error": error}).encode())["param"] == "tools[0]"
    no_text = {"error": {**error, "message": ""}}
    for wrong in ({"detail": "no"}, {"error": "no"}, no_text, {"error": error, "object": "error"}):
        with pytest.raises(RuleBrokenError):
            check_error(wrong)
