"""A backend's stream becomes the client's: what is not changed keeps its bytes, what is keeps its unknown fields."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.policies import policy as made_policy
from tests.helpers.stream_rules import Answered, check_stream
from toolcall_middleware.parsing.events import CallEnd, Event
from toolcall_middleware.response.choice import ChoiceAnswer
from toolcall_middleware.response.stream import Hold, StreamRewriter
from toolcall_middleware.usage.meter import UsageMeter

from .streams import DONE, HEAD, ScriptParser, chat_stream, chunk, event, pieces, role, says, stream

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
ID = re.compile(rb"call_[a-zA-Z0-9]{24}")


def rewriter(*, policy: dict[str, Any] | None = None, include_usage: bool = False, **options: Any) -> StreamRewriter:
    def make_choice() -> ChoiceAnswer:
        return ChoiceAnswer(ScriptParser(), made_policy(**(policy or {})))

    return chat_stream(make_choice, UsageMeter(), include_usage=include_usage, **options)


def run(body: bytes, *, size: int | None = None, cut: bool = False, **options: Any) -> bytes:
    """What the client gets of a stream that ends properly."""
    made = rewriter(**options)
    step = size or max(len(body), 1)
    out = b"".join(made.feed(body[at : at + step]) for at in range(0, len(body), step))
    out += made.finish(cut=cut)
    return out + made.end()


def checked(body: bytes, *, rules: dict[str, Any] | None = None, **options: Any) -> Answered:
    """The same answer, whichever way the bytes are cut, and one that keeps the rules."""
    rules = {"include_usage": options.get("include_usage", False), **(rules or {})}
    out = run(body, **options)
    for size in (1, 7, 64):
        assert _same(run(body, size=size, **options), out)
    return check_stream(out, **rules)


def _same(one: bytes, other: bytes) -> bool:
    return ID.sub(b"ID", one) == ID.sub(b"ID", other)


def events_of(body: bytes) -> list[bytes]:
    return [part + b"\n\n" for part in body.split(b"\n\n")[:-1]]


def payloads_of(body: bytes) -> list[Any]:
    return [json.loads(part[6:]) for part in events_of(body) if part != DONE]


FINISH = chunk({}, "stop")
NO_ERRORS: tuple[Any, ...] = (None, "", {}, False)
NO_DELTAS: tuple[Any, ...] = (None, [], "x")


# -- what is not changed -------------------------------------------------------------------------------------------

ODD = '"big":123456789012345678901234567890,"f":1.0,"e":1e5,"u":"\\u00fc\\/\\ud83d\\ude00","z":{ "b" : [1 , 2] }'


def odd(delta: str, reason: str = "null", choice: str = "") -> bytes:
    """A chunk with an unknown field on each level, and odd spellings."""
    return (
        f'data:  {{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m",{ODD},'
        f'"choices":[{{"index":0,"delta":{delta},{choice}"c":{{{ODD}}},"finish_reason":{reason}}}]}}\n\n'
    ).encode()


def test_a_stream_without_calls_leaves_with_its_own_bytes() -> None:
    body = b": hello\n\n" + odd('{"role":"assistant","content":""}')
    body += b"".join(odd(f'{{"content":"{text}","d":1.0}}') for text in ("a", "\\u00fc", "b\\n", "")) + odd(
        "{}", '"stop"'
    )
    assert run(body + DONE) == body + DONE
    for size in (1, 5, 100):
        assert run(body + DONE, size=size) == body + DONE


@pytest.mark.parametrize(
    "wrap",
    [
        lambda body: body.replace(b"data: ", b"data:"),
        lambda body: body.replace(b"data: ", b": ping\n\ndata: "),
        lambda body: body.replace(b"data: ", b"event: message\nid: 1\ndata: "),
        lambda body: b"\xef\xbb\xbf" + body,
    ],
    ids=["no space", "comments", "event names", "bom"],
)
def test_the_spelling_of_events_stays(wrap: Callable[[bytes], bytes]) -> None:
    body = wrap(stream(role(), *says("one", " two"), FINISH, done=False))
    assert run(body + DONE) == body + DONE
    assert run(body + DONE, size=3) == body + DONE


@pytest.mark.parametrize(
    "payload",
    [
        {**HEAD, "choices": [], "prompt_filter_results": [1]},
        chunk({"role": "assistant", "content": None}),
        chunk({"reasoning": "hm"}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": None, "refusal": "no"}),
        chunk({"content": ""}),
        chunk({"content": [{"type": "image", "text": "part"}]}),
        chunk({"content": "x", "annotations": []}),
        {"type": "ping"},
        {},
        "not json",
        chunk({"content": "NaN or Infinity"}, logprobs={"content": [{"token": "NaN"}]}),
        *({**says("x")[0], "error": error} for error in NO_ERRORS),
    ],
    ids=str,
)
def test_what_the_middleware_has_no_opinion_on_keeps_its_bytes(payload: Any) -> None:
    for last in [FINISH, *(chunk({}, reason) for reason in ("length", "content_filter", "abort"))]:
        for end in (
            last,
            {**last, "choices": [{**last["choices"][0], "delta": {"content": "."}, "stop_reason": None}]},
        ):
            body = stream(role(), payload, end)
            assert run(body) == body


# -- calls ---------------------------------------------------------------------------------------------------------


def leaves(name: str, *payloads: Any, content: str | None = None, calls: Any = (), **more: Any) -> Any:
    """A row: what the client reads of these payloads, which end in FINISH unless `more` has `end`."""
    end = more.pop("end", [FINISH])
    return pytest.param(stream(*payloads, *end), {"content": content, "named_calls": list(calls), **more}, id=name)


F, G = ("f", "{}"), ("g", "{}")
NO_INDEX = {**HEAD, "choices": [{"delta": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]}
SEVERAL = says("Hi [f", '|{"a": ', "1}] and ", "[g|{}", "]", ".")


@pytest.mark.parametrize(
    ("body", "due"),
    [
        leaves(
            "calls", role(), *SEVERAL, content="Hi  and .", calls=[("f", '{"a": 1}'), G], finish_reason="tool_calls",
        ),
        leaves("one event", chunk({"role": "assistant", "content": "a[f|{}][g|{}]b"}), content="ab", calls=[F, G]),
        leaves("closes and opens", role(), *says("[f|{", "}][g|{", "}]"), calls=[F, G]),
        leaves("held to the end", role(), *says("a[f"), content="a[f", finish_reason="stop"),
        leaves(
            "held beside the end", role(), chunk({"content": "a[f"}, "stop"), content="a[f", finish_reason="stop",
            end=[],
        ),
        leaves(
            "cut", role(), *says("[f|{", '"a'), calls=[("f", '{"a')], finish_reason="length", end=[chunk({}, "length")],
        ),
        leaves("no call", role(), *says("x"), content="x", finish_reason="stop", end=[chunk({}, "tool_calls")]),
        leaves("a call", role(), *says("[f|{}]"), calls=[F], finish_reason="tool_calls"),
        leaves("no reason", role(), *says("x"), content="x", finish_reason="stop", end=[]),
        leaves("no reason, a call", role(), *says("[f|{}]"), calls=[F], finish_reason="tool_calls", end=[]),
        leaves(
            "reasoning beside", role(), chunk({"content": "[f", "reasoning": "hm"}), *says("|{}]"), calls=[F],
            reasoning="hm",
        ),
        *(
            leaves(
                f"no role, {first} {text}", chunk({**first, "content": text}), *says("y"), content=said, calls=calls,
                role="assistant",
            )
            for first in ({}, {"role": None})
            for text, said, calls in (("x", "xy", []), ("[f|{}]", "y", [F]), ("[f", "[fy", []))
        ),
        leaves("the end alone", role="assistant"),
        leaves("reasoning alone", chunk({"reasoning": "hm"}), role="assistant", reasoning="hm"),
        leaves("no index", NO_INDEX, content="x", end=[]),
        *(
            leaves(
                f"a delta that is {delta}", role(),
                {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, *says("x"), content="x",
            )
            for delta in NO_DELTAS
        ),
    ],
)  # fmt: skip
def test_what_leaves(body: bytes, due: dict[str, Any]) -> None:
    choice = checked(body).only
    assert {name: getattr(choice, name) for name in due} == due


def test_pieces_of_arguments_leave_as_they_come() -> None:
    fragments = checked(stream(role(), *SEVERAL, FINISH)).only.calls[0].fragments
    assert [part for part in fragments if part] == ['{"a": ', "1}"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\ndata: [DONE]"])
def test_an_event_without_its_blank_line_counts(end: bytes) -> None:
    body = stream(role(), *says("x"), FINISH, done=False).removesuffix(b"\n\n") + end
    assert check_stream(run(body)).only.content == "x"


def test_deprecated_calls_leave_as_function_call() -> None:
    body = stream(role(), *says("Hi ", '[f|{"a"', ": 1}]"), FINISH)
    answer = checked(body, policy={"legacy": True, "max_tool_calls": 1}, legacy=True, rules={"legacy": True})
    assert (answer.only.named_calls, answer.only.finish_reason) == ([("f", '{"a": 1}')], "function_call")


def test_custom_calls_leave_as_custom() -> None:
    out = run(stream(role(), *says('[run|{"input": "ls"}]'), FINISH), policy={"custom": frozenset({"run"})})
    calls = [call for part in payloads_of(out) for call in part["choices"][0]["delta"].get("tool_calls", [])]
    assert calls[0].pop("id").startswith("call_")
    assert calls == [
        {"index": 0, "type": "custom", "custom": {"name": "run", "input": ""}},
        {"index": 0, "custom": {"input": "ls"}},
    ]


@pytest.mark.parametrize("field", [None, "reasoning", "reasoning_content"])
def test_reasoning_goes_where_it_is_wanted(field: str | None) -> None:
    body = stream(role(), *says("(h", "m)", "x"), FINISH)
    answer = checked(body, policy={"reasoning_field": field}, reasoning_field=field)
    assert (answer.only.content, answer.only.reasoning) == (("(hm)x", "") if field is None else ("x", "hm"))
    assert field is None or any(field in part["choices"][0]["delta"] for part in answer.chunks)


# -- what rides along ----------------------------------------------------------------------------------------------


def test_unknown_fields_of_changed_chunks_keep_their_bytes() -> None:
    body = odd('{"role":"assistant","content":"a[f|{}]b","d":1e5}', choice='"logprobs":{"content":[1.0]},')
    out = events_of(run(body + odd('{"content":"c"}', '"length"', '"stop_reason":1.0,') + DONE))
    assert all(ODD.encode() in part for part in out[:-1])
    first, *middle, finish, done = out
    assert b'"d":1e5' in first
    assert b'"logprobs":{"content":[1.0]}' in first
    assert f'"c":{{{ODD}}}'.encode() in first
    assert not any(b"logprobs" in part or b'"d"' in part for part in middle)
    assert b'"stop_reason":1.0' in finish
    assert done == DONE


def test_logprobs_and_token_ids_leave_once_and_with_their_text() -> None:
    def token(text: str, reason: str | None = None) -> dict[str, Any]:
        return chunk({"content": text}, reason, logprobs={"content": [{"token": text}]}, token_ids=[len(text)])

    texts = ["Hi ", "[f", "|", "{", "}]", "[g|{}]x", "y"]
    answer = checked(stream(role(), *(token(text) for text in texts), token("z", "stop")))
    assert [entry["token"] for entry in answer.only.logprobs] == [*texts, "z"]
    ids = [part["choices"][0].get("token_ids") for part in answer.chunks]
    assert [one for one in ids if one is not None] == [[len(text)] for text in [*texts, "z"]]


def test_text_held_back_to_the_end_repeats_no_logprobs() -> None:
    held = chunk({"content": "a[f"}, logprobs={"content": [{"token": "a[f"}]})
    answer = checked(stream(role(), held, done=True))
    assert (answer.only.content, len(answer.only.logprobs)) == ("a[f", 1)


def test_new_fields_of_a_chunk_leave_although_its_text_is_held_back() -> None:
    body = stream(
        role(), *says("[f|{"), {**chunk({"content": ""}), "x": 1}, {**says("}")[0], "y": 2}, *says("]"), FINISH
    )
    assert [part.get("x") or part.get("y") for part in payloads_of(run(body))].count(1) == 1
    held = stream(role(), {**says("[f")[0], "timings": {"n": 1}}, *says("|{}]"), FINISH)
    assert [part["timings"] for part in payloads_of(run(held)) if "timings" in part] == [{"n": 1}]


def test_fields_that_each_chunk_has_are_no_reason_for_empty_chunks() -> None:
    body = stream(*({**one, "provider": "p"} for one in (role(), *says("[", "f", "|{}]"), FINISH)))
    out = payloads_of(run(body))
    assert all(part["provider"] == "p" for part in out)
    assert len(out) == 4


def test_null_fields_of_deltas_are_no_reason_for_empty_chunks() -> None:
    nulls = {"role": None, "reasoning_content": None, "tool_calls": None}
    out = run(stream(role(), *(chunk({**nulls, "content": text}) for text in "a[f|{}]"), FINISH))
    assert check_stream(out).only.named_calls == [("f", "{}")]
    # Role, text, opening, two fragments, finish.
    assert len(payloads_of(out)) == 6


def test_half_an_emoji_survives() -> None:
    body = stream(role(), done=False)
    for text in ("\\ud83d", "\\ude00", '[f|{\\"a\\": \\"', "\\ud83d", '\\"}]'):
        body += odd(f'{{"content":"{text}"}}').replace(b"c-1", b"chatcmpl-1")
    answer = checked(body + stream(FINISH))
    assert answer.only.content == "\ud83d\ude00"
    assert answer.only.calls[0].arguments == '{"a": "\ud83d"}'


INFINITE = {"content": [{"token": "NaN", "logprob": float("-inf"), "top_logprobs": [float("nan"), float("inf")]}]}


def test_logprobs_that_are_no_json_do_not_hide_a_call() -> None:
    answer = checked(stream(role(), chunk({"content": "[f|{}]"}, logprobs=INFINITE), FINISH))
    assert answer.only.named_calls == [("f", "{}")]
    assert answer.only.logprobs == [{"token": "NaN", "logprob": None, "top_logprobs": [None, None]}]


@pytest.mark.parametrize("count", [1, 40])
def test_what_leaves_is_json_where_the_backend_has_written_none(count: int) -> None:
    """Not those alone that are changed: JavaScript's clients end at a NaN."""
    chunks = [chunk({"content": f"NaN {at}, "}, logprobs=INFINITE) for at in range(count)]
    answer = checked(stream(role(), *chunks, FINISH))
    assert answer.only.content == "".join(f"NaN {at}, " for at in range(count))
    assert [entry["logprob"] for entry in answer.only.logprobs] == [None] * count


# -- roles ---------------------------------------------------------------------------------------------------------


def test_a_role_in_every_delta_is_not_repeated_in_calls() -> None:
    deltas = [{"role": "assistant", "content": text} for text in ("a", "[f|", "{}", "]")]
    answer = checked(stream(*map(chunk, deltas), FINISH), rules={"role_once": False})
    assert answer.only.named_calls == [("f", "{}")]
    roles = ["role" in part["choices"][0]["delta"] for part in answer.chunks]
    assert roles == [True, False, False, False]


# -- endings -------------------------------------------------------------------------------------------------------


def test_an_empty_finish_reason_is_none() -> None:
    deltas = [chunk({"role": "assistant", "content": text}, "") for text in ("a", "b")]
    assert run(stream(*deltas, FINISH)) == stream(*deltas, FINISH)
    calls = [chunk({"role": "assistant", "content": text}, "") for text in ("[f|{}", "]")]
    assert payloads_of(run(stream(*calls, FINISH)))[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_missing_done_is_added_and_a_second_one_is_not() -> None:
    body = stream(role(), *says("x"), FINISH, done=False)
    assert run(body) == run(body + DONE) == run(body + DONE + DONE) == body + DONE


def test_nothing_comes_after_the_finish_reason() -> None:
    late = [*says("late"), chunk({}, "length"), chunk({"content": ""})]
    body = stream(role(), *says("x"), FINISH)
    assert run(stream(role(), *says("x"), FINISH, *late)) == body
    assert run(body + stream(*says("late"))) == body


def test_a_stream_that_breaks_off_has_no_finish_reason() -> None:
    made = rewriter()
    out = made.feed(stream(role(), *says("x[f"), done=False))
    assert not made.complete
    out += made.finish(cut=True)
    assert not made.complete
    assert b"".join(events_of(out)[:1]) == event(role())
    assert "".join(part["choices"][0]["delta"].get("content", "") for part in payloads_of(out)) == "x[f"
    assert all(part["choices"][0]["finish_reason"] is None for part in payloads_of(out))


def test_a_stream_that_ends_without_a_word_is_not_complete() -> None:
    made = rewriter()
    made.feed(stream(role(), *says("x"), done=False))
    made.finish()
    assert not made.complete
    done = rewriter()
    done.feed(stream(role(), *says("x"), FINISH, done=False))
    done.finish()
    assert done.complete


@pytest.mark.parametrize("body", [b"", DONE, b": ping\n\n", stream({**HEAD, "choices": []})])
def test_a_stream_without_an_answer_is_not_complete(body: bytes) -> None:
    made = rewriter()
    made.feed(body)
    made.finish()
    assert not made.choices.begun
    assert not made.complete


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        event({"error": {"message": "boom", "code": 500}}),
        event({"error": "boom"}),
        event({"object": "error", "message": "boom", "type": "BadRequestError", "code": 400}),
        b'event: error\ndata: {"message": "boom"}\n\n',
        b"event: error\ndata: boom\n\n",
        event({**HEAD, "choices": [], "error": {"message": "boom"}}),
    ],
)
def test_an_error_event_ends_the_answer(error: bytes) -> None:
    made = rewriter()
    out = made.feed(stream(role(), *says("x[f"), done=False) + error + stream(*says("late")))
    assert made.failed is not None
    assert made.failed.message == "boom"
    out += made.finish()
    assert "".join(part["choices"][0]["delta"].get("content", "") for part in payloads_of(out)) == "x[f"
    assert b'"stop"' not in out
    assert b"late" not in out


@pytest.mark.parametrize(
    ("more", "message", "status"),
    [
        ({"error": {"message": "boom", "code": 429}}, "boom", 429),
        ({"error": "boom"}, "boom", 502),
        ({"error": None}, "with an error", 502),
        ({}, "with an error", 502),
    ],
)
def test_a_choice_that_ends_with_an_error_is_no_answer(more: dict[str, Any], message: str, status: int) -> None:
    end = chunk({"content": ""}, "error")
    end["choices"][0] |= more
    for before in ([role(), *says("x[f")], [role()], []):
        made = rewriter()
        out = made.feed(stream(*before, end, *says("late")))
        assert bool(out) is bool(before)  # else it can still be an answer with a status
        assert made.failed is not None
        assert message in made.failed.message
        assert made.failed.status == status
        out += made.finish()
        assert "".join(part["choices"][0]["delta"].get("content") or "" for part in payloads_of(out)) == (
            "x[f" if len(before) > 1 else ""
        )
        assert b'"stop"' not in out
        assert b'"finish_reason":"error"' not in out


@pytest.mark.parametrize("empty", [b"data:\n\n", b"data: \n\n", b"event: ping\ndata: \n\n"])
def test_an_event_without_data_is_a_comment(empty: bytes) -> None:
    said = [event(payload) for payload in (role(), *says("x"), FINISH)]
    assert run(empty.join([b"", *said, DONE])) == b":\n\n".join([b"", *said, DONE])


def test_a_fault_of_the_model_ends_the_answer_after_what_came_before() -> None:
    made = rewriter(policy={"malformed_arguments": "error", "stream_arguments": False})
    out = made.feed(stream(role(), *says("a[f|{}]b[g|{~}]c[h|{}]"), FINISH))
    assert made.failed is not None
    assert made.failed.code == "malformed_tool_arguments"
    out += made.finish()
    assert [part["choices"][0]["finish_reason"] for part in payloads_of(out)] == [None] * len(payloads_of(out))
    assert "".join(part["choices"][0]["delta"].get("content", "") for part in payloads_of(out)) == "ab"


def test_a_fault_at_the_very_end_leaves_no_finish_reason() -> None:
    for last in (FINISH, "[DONE]"):
        made = rewriter(policy={"malformed_arguments": "error", "stream_arguments": False})
        out = made.feed(stream(role(), *says("a[f|{"), last)) + made.finish()
        assert made.failed is not None
        assert not made.complete
        assert all(part["choices"][0]["finish_reason"] is None for part in payloads_of(out))


def test_an_event_that_never_ends_is_refused() -> None:
    made = rewriter(max_bytes=1000)
    made.feed(b"data: " + b"x" * 900)
    assert made.failed is None
    made.feed(b"x" * 200)
    assert made.failed is not None
    assert made.failed.code == "upstream_error"
    assert "1000" in made.failed.message


# -- several choices -----------------------------------------------------------------------------------------------


def test_interleaved_choices_are_read_apart() -> None:
    turns = zip(says("a[f", "|{}]", "b"), says("[g|", "{", "}]", index=1), strict=True)
    both = [one for turn in turns for one in turn]
    roles = [chunk({"role": "assistant"}, index=index) for index in (0, 1)]
    body = stream(*roles, *both, chunk({}, "stop"), chunk({}, "length", index=1))
    answer = checked(body, choices=2, rules={"n": 2})
    assert [choice.named_calls for choice in answer.choices] == [[("f", "{}")], [("g", "{}")]]
    assert [choice.finish_reason for choice in answer.choices] == ["tool_calls", "length"]
    assert answer.choices[0].content == "ab"


def test_choices_of_one_chunk_pass_together_or_not_at_all() -> None:
    def both(one: dict[str, Any], other: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choices = [
            {"index": 0, "delta": one, "finish_reason": reason},
            {"index": 1, "delta": other, "finish_reason": reason},
        ]
        return {**HEAD, "choices": choices}

    roles = both({"role": "assistant"}, {"role": "assistant"})
    plain = stream(roles, both({"content": "a"}, {"content": "b"}), both({}, {}, "stop"))
    assert run(plain, choices=2) == plain
    mixed = stream(roles, both({"content": "a"}, {"content": "[f|{}]"}), both({}, {}, "stop"))
    answer = checked(mixed, choices=2, rules={"n": 2})
    assert (answer.choices[0].content, answer.choices[1].named_calls) == ("a", [("f", "{}")])
    assert [choice.finish_reason for choice in answer.choices] == ["stop", "tool_calls"]


# -- an early end --------------------------------------------------------------------------------------------------


def test_generation_is_stopped_when_every_choice_is() -> None:
    made = rewriter(policy={"max_tool_calls": 1}, choices=2)
    out = made.feed(stream(role(), *says("[f|{}]more"), done=False))
    assert not made.ended
    out += made.feed(stream(chunk({"role": "assistant"}, index=1), *says("[g|{}", index=1), done=False))
    assert not made.ended
    out += made.feed(stream(*says("]", index=1), done=False))
    assert made.ended
    out += made.finish() + made.end()
    answer = check_stream(out, n=2)
    assert [choice.named_calls for choice in answer.choices] == [[("f", "{}")], [("g", "{}")]]
    assert made.complete


def test_generation_is_stopped_when_the_other_choice_has_finished() -> None:
    made = rewriter(policy={"max_tool_calls": 1}, choices=2)
    made.feed(stream(role(), *says("[f|{}]"), chunk({"role": "assistant"}, "stop", index=1), done=False))
    assert made.ended


def test_generation_goes_on_as_long_as_nothing_stops_it() -> None:
    made = rewriter(choices=1)
    made.feed(stream(role(), *says("[f|{}]"), FINISH, done=False))
    assert not made.ended


def test_a_stop_string_ends_the_stream() -> None:
    made = rewriter(policy={"stop": ("END",)})
    out = made.feed(stream(role(), *says("one E", "ND two"), done=False))
    assert made.ended
    answer = check_stream(out + made.finish() + made.end())
    assert (answer.only.content, answer.only.finish_reason) == ("one ", "stop")


# -- holding until there is a call -----------------------------------------------------------------------------------


def test_nothing_leaves_before_the_call_that_was_asked_for() -> None:
    made = rewriter(hold=Hold.CALL, policy={"hold_prose": True})
    assert made.feed(stream(b": ping".decode(), role(), *says("Hi "), done=False)) == b""
    out = made.feed(stream(*says("[f|{"), done=False))
    assert out
    out += made.feed(stream(*says("}]"), FINISH)) + made.finish() + made.end()
    assert b": ping" in out
    answer = check_stream(out.replace(b"data: : ping\n\n", b""))
    assert (answer.only.content, answer.only.named_calls) == ("Hi ", [("f", "{}")])


def test_nothing_leaves_when_the_call_does_not_come() -> None:
    made = rewriter(hold=Hold.CALL, policy={"hold_prose": True})
    assert made.feed(stream(role(), *says("no"), FINISH)) == b""
    assert made.finish() == b""
    assert not made.choices.outcome.satisfied
    assert made.choices.outcome.text == "no"


def test_nothing_leaves_until_each_choice_has_its_call() -> None:
    made = rewriter(hold=Hold.CALL, choices=2, policy={"hold_prose": True})
    assert made.feed(stream(role(), *says("[f|{}]"), done=False)) == b""
    assert made.feed(stream(chunk({"role": "assistant", "content": "x"}, index=1), done=False)) == b""
    assert made.feed(stream(*says("[g|{}]", index=1), done=False))


def test_a_backend_that_gives_one_choice_of_two_is_not_held_for_ever() -> None:
    made = rewriter(hold=Hold.CALL, choices=2, policy={"hold_prose": True})
    assert made.feed(stream(role(), *says("[f|{}]"), FINISH)) == b""
    assert check_stream(made.finish() + made.end()).only.named_calls == [("f", "{}")]


def test_fields_beside_dropped_text_do_not_open_the_answer() -> None:
    made = rewriter(hold=Hold.SPEECH, policy={"prose": "drop", "may_call": True})
    dropped = [chunk({"content": text}, token_ids=[1]) for text in ("a", "b", "c")]
    assert made.feed(stream(role(), *dropped, done=False)) == b""
    assert b'"token_ids":[1]' in made.feed(stream(*says("[f|{}]"), done=False))


def test_a_chunk_that_fits_a_template_opens_the_answer() -> None:
    made = rewriter(hold=Hold.SPEECH, policy={"stop": ("END",)})
    assert made.feed(stream(role(), *says("E"), done=False)) == b""
    assert b'"Ex"' in made.feed(stream(*says("x"), done=False))


def test_what_is_held_is_bounded() -> None:
    made = rewriter(hold=Hold.CALL, policy={"hold_prose": True}, max_bytes=2000)
    for _ in range(40):
        made.feed(event(chunk({"reasoning": "x" * 100})))
    assert made.failed is not None
    assert made.failed.code == "upstream_error"


# -- usage ---------------------------------------------------------------------------------------------------------


def usage_chunk(**more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": [], "usage": USAGE, **more}


TEXT = (role(), *says("x"), FINISH)


def test_the_backends_own_usage_chunk_passes_to_who_asked() -> None:
    body = stream(*TEXT, usage_chunk(odd=1.0))
    assert run(body, include_usage=True) == body
    assert run(body) == stream(*TEXT)


@pytest.mark.parametrize(
    "body",
    [
        stream(usage_chunk(), *TEXT),
        stream(role(), usage_chunk(), *says("x"), FINISH),
        stream(*TEXT, usage_chunk(usage={**USAGE, "prompt_tokens": 1, "total_tokens": 5}), usage_chunk()),
        stream(*TEXT) + stream(usage_chunk()),
        stream(*TEXT[:-1], {**FINISH, "usage": USAGE}),
        stream(*({**one, "usage": USAGE} for one in TEXT)),
        stream(*({**one, "usage": USAGE} for one in TEXT), usage_chunk()),
        stream({**HEAD, "usage": USAGE}, *TEXT),
        stream({**HEAD, "choices": None, "usage": USAGE}, *TEXT),
        stream(*({**one, "usage": None} for one in TEXT), usage_chunk()),
    ],
    ids=["first", "early", "twice", "after done", "finish", "each", "each and last", "no choices", "null", "nulls"],
)
def test_usage_comes_once_and_last_wherever_the_backend_puts_it(body: bytes) -> None:
    late = body.startswith(stream(*TEXT))
    answer = checked(body, include_usage=True)
    assert answer.usage is not None
    assert answer.only.content == "x"
    if not late:
        assert {name: answer.usage[name] for name in USAGE} == USAGE
        assert "estimated" not in answer.usage
    checked(body)


def test_usage_that_grows_with_each_chunk_never_leaks() -> None:
    texts = ["x", "y", "[f|{", "}]", "z"]
    counted = [{**one, "usage": {**USAGE, "completion_tokens": at}} for at, one in enumerate(says(*texts))]
    same = [{**one, "usage": USAGE} for one in says(*texts)]
    for chunks in (counted, same):
        answer = checked(stream(role(), *chunks, FINISH))
        assert answer.only.content == "xyz"
        assert checked(stream(role(), *chunks, FINISH), include_usage=True).usage is not None


def test_missing_usage_is_estimated_and_says_so() -> None:
    answer = checked(stream(*TEXT), include_usage=True)
    assert answer.usage is not None
    assert answer.usage["estimated"] is True
    assert answer.usage["completion_tokens"] == 1
    assert set(answer.chunks[-1]) == {*HEAD, "choices", "usage"}


@pytest.mark.parametrize("usage", [{"completion_tokens": 4}, {**USAGE, "total_tokens": None}, {"x": 1}, 5, []])
def test_usage_with_gaps_is_filled(usage: Any) -> None:
    answer = checked(stream(*TEXT, usage_chunk(usage=usage)), include_usage=True)
    assert answer.usage is not None


def test_usage_after_an_error_is_not_sent() -> None:
    made = rewriter(include_usage=True)
    out = made.feed(stream(role(), {"error": {"message": "boom"}}, usage_chunk())) + made.finish()
    assert b"usage" not in out


# -- the short way -------------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["a", "b", "", "é", '"', "\\", "[", "f|", "{", "}", "]", "[f|{}]", "#", "(", ")", "~"])
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "content": TEXTS | st.none(),
        "role": st.sampled_from(["assistant", None]),
        "reasoning": st.sampled_from(["hm", "", None]),
        "refusal": st.none(),
    },
)
CHOICE = st.fixed_dictionaries(
    {"index": st.sampled_from([0, 0, 0, 1]), "delta": DELTA | st.builds(lambda text: {"content": text}, TEXTS)},
    optional={
        "logprobs": st.none() | st.just({"content": [{"token": "a", "content": "a"}]}),
        "finish_reason": st.sampled_from([None] * 9 + ["stop"]),
        "token_ids": st.just([1]),
    },
)
CHUNK = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, min_size=1, max_size=2) | st.lists(CHOICE, min_size=1, max_size=1)},
    optional={
        "created": st.integers(1, 2),
        "usage": st.sampled_from([None, None, USAGE, {"completion_tokens": 1}]),
        "content": st.just("a"),
        "timings": st.integers(1, 2),
    },
)
CHUNKS = st.lists(CHUNK, min_size=1, max_size=8).flatmap(
    # Chunks that return are what the short way is for.
    lambda some: st.lists(st.sampled_from(some), max_size=24).map(lambda more: some + more)
)
POLICY = st.sampled_from(
    [
        {},
        {"max_tool_calls": 1},
        {"prose": "drop", "may_call": True},
        {"stream_arguments": False},
        {"stop": ("ab",)},
        {"hold_prose": True},
    ]
)


class ReadInFull(StreamRewriter):
    """Learns no template."""

    def feed(self, data: bytes) -> bytes:
        self._last = self._expected = None
        return super().feed(data)


@settings(deadline=None)
@given(CHUNKS, POLICY, st.booleans(), st.booleans(), st.integers(1, 400))
def test_a_chunk_says_the_same_whichever_way_it_is_read(
    chunks: list[dict[str, Any]], policy: dict[str, Any], include_usage: bool, ended: bool, size: int
) -> None:
    bodies = [event({**HEAD, **one}) for one in chunks] + [DONE] * ended
    body = b"".join(bodies)

    def answer(kind: type[StreamRewriter], sent: list[bytes]) -> bytes:
        made = chat_stream(
            lambda: ChoiceAnswer(ScriptParser(), made_policy(**policy)),
            UsageMeter(),
            kind=kind,
            include_usage=include_usage,
            choices=2,
        )
        return b"".join(map(made.feed, sent)) + made.finish(cut=not ended) + made.end()

    due = answer(ReadInFull, bodies)
    for sent in (bodies, [body], [body[at : at + size] for at in range(0, len(body), size)]):
        assert _same(answer(StreamRewriter, sent), due)


def test_behind_a_failure_no_chunk_is_read() -> None:
    made = chat_stream(lambda: ChoiceAnswer(ScriptParser(), made_policy()), UsageMeter())
    broken = {"index": 0, "delta": {"content": "f|"}, "token_ids": [1]}
    for one in (role(), *says("["), {**HEAD, "choices": [broken]}, {**HEAD, "choices": [broken]}):
        made.feed(event(one))
    assert made.failed is not None
    assert made.feed(event({**HEAD, "choices": [broken]})) == b""


def test_fields_that_change_are_told_of_once() -> None:
    sent = [role(), *({**one, "x": x} for one, x in zip(says("a", "b", "[f", "|", "{}"), (1, 2, 2, 1, 1), strict=True))]
    made = chat_stream(lambda: ChoiceAnswer(ScriptParser(), made_policy()), UsageMeter())
    told = [payload.get("x") for one in sent for payload in payloads_of(made.feed(event(one)))]
    assert told[:5] == [None, 1, 2, 1, 1]


def test_a_field_that_the_last_chunk_lacked_is_emitted_although_the_text_is_held_back() -> None:
    piece = {**says("f")[0], "x": 1}
    sent = [{**role(), "x": 1}, {**says("[f")[0], "x": 1}, piece, chunk({"role": "assistant"}, index=1), piece]
    made = rewriter(choices=2)
    assert [payloads_of(made.feed(event(one))) for one in sent][2:] == [[], [sent[3]], [{**chunk({}), "x": 1}]]


class EndsLate(ScriptParser):
    """Ends a call with the text that follows, as readers do whose calls need no closing tag."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[Event] = []

    def feed(self, text: str, /) -> list[Event]:
        before, read = self.late, super().feed(text)
        self.late = [one for one in read if isinstance(one, CallEnd)]
        return [*before, *(one for one in read if not isinstance(one, CallEnd))]


@pytest.mark.parametrize("more", [{}, {"created": 2}], ids=["like the last chunk", "read in full"])
def test_text_that_comes_with_the_end_of_a_call_keeps_its_bytes(more: dict[str, Any]) -> None:
    made = chat_stream(lambda: ChoiceAnswer(EndsLate(), made_policy()), UsageMeter())
    made.feed(stream(role(), *says("x", "[f|{}]"), done=False))
    assert made.feed(event({**says("a")[0], **more})) == event({**says("a")[0], **more})


def test_chunks_of_a_choice_that_is_over_are_the_last_ones_too() -> None:
    other = {**chunk({}, index=1), "x": 1}
    out = run(stream(*says("a", "b"), FINISH, other, *says("a")), choices=2)
    assert "x" not in payloads_of(out)[-1]


def test_an_end_that_the_backend_did_not_send_looks_like_its_last_chunk() -> None:
    made = chat_stream(lambda: ChoiceAnswer(ScriptParser(), made_policy()), UsageMeter())
    for number, one in enumerate((role(), *says("a", "b"))):
        made.feed(event({**one, "x": number}))
    assert payloads_of(made.feed(DONE) + made.finish())[-1] == {**FINISH, "x": 2}


def test_the_short_way_is_taken() -> None:
    made = rewriter()
    made.feed(stream(role(), *says("a"), done=False))
    known = made._last
    assert known is not None
    made.feed(stream(*says("b", "[f|", "{}]", "c"), done=False))
    assert made._last is known
    made.feed(stream({**says("d")[0], "created": 2}, done=False))
    assert made._last is not None
    assert made._last is not known


@pytest.mark.slow
def test_work_is_linear_in_the_length_of_the_answer() -> None:
    def seconds(size: int) -> float:
        text = "[f|{" + "x" * size + "]"
        body = stream(role(), *says(*pieces(text, range(4, len(text), 4))), FINISH)
        messages = events_of(body)
        begin = time.thread_time()
        made = rewriter()
        sent = sum(len(made.feed(message)) for message in messages)
        assert sent > size
        return time.thread_time() - begin

    seconds(1000)
    small = min(seconds(10_000) for _ in range(3))
    large = min(seconds(80_000) for _ in range(2))
    # What no longer fits a processor's cache costs up to twice as much; work that grows with the square, eight times.
    assert large < 8 * 3 * small


@pytest.mark.parametrize("after", [says("Hello"), []], ids=["text", "nothing"])
def test_an_answer_that_begins_with_empty_content_for_ever_is_not_kept(after: list[dict[str, Any]]) -> None:
    """Its first chunk waits, because beside calls its content would be null; not what comes without an end."""
    made = rewriter(policy={"may_call": True})
    first, empty = event(role()), event(chunk({"content": ""}))
    left = b"".join(map(made.feed, [first, *[empty] * 1000]))
    assert left == first + empty * 1000
    behind = b"".join(map(event, after)) + event(chunk({}, "stop")) + DONE
    check_stream(left + made.feed(behind) + made.finish() + made.end())


@pytest.mark.parametrize("own", ["reasoning", "reasoning_content"])
def test_a_chunk_with_reasoning_of_its_own_and_a_thought_in_its_text_loses_neither(own: str) -> None:
    said = chunk({"role": "assistant", own: "why ", "content": "(hm)Hi."})
    answer = check_stream(
        run(stream(said, chunk({}, "stop")), policy={"reasoning_field": own}, reasoning_field=own)
    ).only
    assert (answer.reasoning, answer.content) == ("why hm", "Hi.")
