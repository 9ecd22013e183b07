"""A whole answer says what the stream of the same text says, and keeps what nobody asked about."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.policies import policy as made_policy
from tests.helpers.policies import written_whole
from tests.helpers.stream_rules import Answered, check_stream, check_whole, same_answer
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.response.answer_form import as_stream
from toolcall_middleware.response.choice import AnswerOutcome, ChoiceAnswer
from toolcall_middleware.usage.meter import UsageMeter

from .streams import ScriptParser, chat_stream, chunk, stream

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
ODD = '"big":123456789012345678901234567890,"f":1.0,"e":1e5,"u":"\\u00fc\\/","z":{ "b" : [1 , 2] }'


def body(*contents: Any, reason: str | None = "stop", usage: Any = USAGE, **message: Any) -> bytes:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": content, **message},
            "finish_reason": reason,
        }
        for index, content in enumerate(contents)
    ]
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**head, "choices": choices, "usage": usage}).encode()


def rewritten(
    data: bytes, *, policy: dict[str, Any] | None = None, **options: Any
) -> tuple[bytes, AnswerOutcome] | None:
    def make_choice() -> ChoiceAnswer:
        return ChoiceAnswer(ScriptParser(), made_policy(**(policy or {})))

    return written_whole(data, make_choice, **options)


def whole(data: bytes, *, policy: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    answer = rewritten(data, policy=policy, **options)
    assert answer is not None
    made: dict[str, Any] = json.loads(answer[0])
    return made


def told(data: bytes) -> dict[str, Any]:
    """What a client gets of an answer that has no call, with the fields that OpenAI's document demands."""
    made: dict[str, Any] = json.loads(data)
    for choice in made["choices"]:
        choice["message"].setdefault("refusal", None)
        choice.setdefault("logprobs", None)
    return made


def checked(data: bytes, **options: Any) -> Answered:
    return check_whole(whole(data, **options))


def test_calls_and_text_are_told_apart() -> None:
    answer = checked(body('Hi [f|{"a": 1}] and [g|{}].'))
    assert answer.only.content == "Hi  and ."
    assert answer.only.named_calls == [("f", '{"a": 1}'), ("g", "{}")]
    assert answer.only.finish_reason == "tool_calls"


def test_content_is_null_beside_calls_without_text() -> None:
    assert whole(body("[f|{}]"))["choices"][0]["message"]["content"] is None
    assert whole(body(" [f|{}]"))["choices"][0]["message"]["content"] == " "


@pytest.mark.parametrize("content", ["text", "", None])
def test_an_answer_without_calls_stays_as_it_is(content: Any) -> None:
    data = body(content, annotations=[])
    assert whole(data) == told(data)


def test_a_refusal_and_logprobs_of_the_backend_stay() -> None:
    data = json.loads(body("x", refusal="No."))
    data["choices"][0]["logprobs"] = {"content": []}
    assert whole(json.dumps(data).encode()) == data


@pytest.mark.parametrize(
    ("reason", "text", "due"),
    [
        ("tool_calls", "x", "stop"),
        (None, "x", "stop"),
        ("", "x", "stop"),
        ("length", "[f|{}]", "length"),
        ("stop", "[f|{}]", "tool_calls"),
        (None, "[f|{}]", "tool_calls"),
    ],
)
def test_the_finish_reason_is_true(reason: str | None, text: str, due: str) -> None:
    assert checked(body(text, reason=reason)).only.finish_reason == due


def test_unknown_fields_keep_their_bytes() -> None:
    data = (
        f'{{{ODD},"id":"x","object":"y","created":1,"model":"m","choices":[{{"index":0,{ODD},"message":{{"role":"assistant",{ODD},"content":"[f|{{}}]"}},'
        f'"logprobs":{{"content":[1.0]}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":1,"completion_tokens":2,'
        f'"total_tokens":3,{ODD}}}}}'
    ).encode()
    answer = rewritten(data)
    assert answer is not None
    assert answer[0].count(ODD.encode()) == 4
    assert b'"logprobs":{"content":[1.0]}' in answer[0]
    assert list(json.loads(answer[0])) == list(json.loads(data))


@pytest.mark.parametrize("extra", [{"refusal": "no"}, {"reasoning": "hm"}, {"reasoning_content": "hm"}])
def test_other_fields_of_the_message_stay(extra: dict[str, Any]) -> None:
    assert extra.items() <= whole(body("[f|{}]", **extra))["choices"][0]["message"].items()


def test_reasoning_goes_where_it_is_wanted() -> None:
    for field in ("reasoning", "reasoning_content"):
        message = whole(body("(hm)x"), policy={"reasoning_field": field}, reasoning_field=field)["choices"][0][
            "message"
        ]
        assert (message[field], message["content"]) == ("hm", "x")
    both = whole(body("(b)x", reasoning="a"), policy={"reasoning_field": "reasoning"}, reasoning_field="reasoning")
    assert both["choices"][0]["message"]["reasoning"] == "ab"
    assert whole(body("(hm)x"))["choices"][0]["message"]["content"] == "(hm)x"


def test_content_as_parts_is_read_as_text() -> None:
    parts = [{"type": "text", "text": "Hi [f|"}, {"type": "x"}, {"type": "text", "text": "{}]"}]
    assert checked(body(parts)).only.named_calls == [("f", "{}")]
    assert whole(body([{"type": "text", "text": "only text"}])) == told(body("only text"))
    odd = body([{"type": "text", "text": "see"}, {"type": "x"}])
    assert whole(odd) == told(odd)


def test_choices_are_read_apart() -> None:
    made = whole(body("[f|{}]", "x", "[g|{}]"))
    answer = check_whole(made, n=3)
    assert [choice.named_calls for choice in answer.choices] == [[("f", "{}")], [], [("g", "{}")]]
    assert [choice.finish_reason for choice in answer.choices] == ["tool_calls", "stop", "tool_calls"]


def test_role_and_content_are_filled_in() -> None:
    data = b'{"choices":[{"index":0,"message":{"role":null,"tool_calls":null},"finish_reason":"stop"}]}'
    message = {"role": "assistant", "content": None, "tool_calls": None, "refusal": None}
    assert whole(data)["choices"][0]["message"] == message


def test_the_deprecated_call_is_one() -> None:
    made = whole(body("[f|{}]"), policy={"legacy": True, "max_tool_calls": 1}, legacy=True)
    assert check_whole(made, legacy=True).only.named_calls == [("f", "{}")]


def test_calls_of_the_gateway_have_an_index() -> None:
    calls = whole(body("[f|{}][g|{}]"), call_index=True)["choices"][0]["message"]["tool_calls"]
    assert [call["index"] for call in calls] == [0, 1]
    assert "index" not in whole(body("[f|{}]"))["choices"][0]["message"]["tool_calls"][0]


def test_a_custom_call_has_an_input() -> None:
    made = whole(body('[run|{"input": "ls"}]'), policy={"custom": frozenset({"run"})})
    (call,) = made["choices"][0]["message"]["tool_calls"]
    assert call.pop("id").startswith("call_")
    assert call == {"type": "custom", "custom": {"name": "run", "input": "ls"}}


def test_usage_is_always_there() -> None:
    assert whole(body("x"))["usage"] == USAGE
    missing: Any
    for missing in (None, {}, 5):
        usage = checked(body("x", usage=missing)).usage
        assert usage is not None
        assert usage["estimated"] is True


def test_what_is_no_completion_is_none() -> None:
    for data in (b"", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[{"text":"x"}]}', b'{"choices":{}}', b"<html>"):
        assert rewritten(data) is None
        assert as_stream(data) is None


def test_the_answer_says_whether_there_is_a_call() -> None:
    yes, no = rewritten(body("[f|{}]", "[f|{}][g|{}]")), rewritten(body("[f|{}]", "x"))
    assert yes is not None
    assert no is not None
    assert (yes[1].calls, yes[1].satisfied, no[1].calls, no[1].satisfied) == (3, True, 1, False)
    held = rewritten(body("no call"), policy={"hold_prose": True})
    assert held is not None
    assert held[1].text == "no call"


def test_a_fault_is_raised() -> None:
    with pytest.raises(ToolCallError, match="not JSON"):
        rewritten(body("a [g|{~}]"), policy={"malformed_arguments": "error", "stream_arguments": False})


@pytest.mark.parametrize("error", [{"message": "boom", "code": 503}, None])
def test_a_choice_that_ended_with_an_error_is_no_answer(error: Any) -> None:
    answer = json.loads(body("", reason="error"))
    answer["choices"][0]["error"] = error
    with pytest.raises(ToolCallError) as raised:
        rewritten(json.dumps(answer).encode())
    assert raised.value.status == (503 if error else 502)
    assert ("boom" if error else "with an error") in raised.value.message


def test_half_an_emoji_survives() -> None:
    text = 'x\ud83d[f|{"a": "\ud83d"}]'
    assert checked(body(text)).only.content == "x\ud83d"
    assert checked(body(text)).only.calls[0].parsed == {"a": "\ud83d"}


@pytest.mark.slow
def test_a_long_answer_is_read_in_linear_time() -> None:
    begin = time.process_time()
    made = whole(body("some text [f|{}]" * 10_000), policy={"max_tool_calls": None})
    assert len(made["choices"][0]["message"]["tool_calls"]) == 10_000
    assert time.process_time() - begin < 5


# -- as a stream ---------------------------------------------------------------------------------------------------


def test_a_whole_answer_becomes_chunks() -> None:
    data = json.loads(body("x", None, reasoning="hm"))
    data["choices"][0]["logprobs"] = {"content": []}
    made = as_stream(json.dumps(data).encode())
    assert made is not None
    answer = check_stream(made, n=2, include_usage=True)
    assert [choice.content for choice in answer.choices] == ["x", None]
    assert [choice.reasoning for choice in answer.choices] == ["hm", "hm"]
    assert answer.usage == USAGE
    logprobs = [choice.get("logprobs") for part in answer.chunks for choice in part["choices"]]
    assert logprobs == [None, {"content": []}, None, None]


def test_parts_become_text_in_a_stream() -> None:
    made = as_stream(body([{"type": "text", "text": "x"}]))
    assert made is not None
    assert check_stream(made, include_usage=True).only.content == "x"


# -- both modes ----------------------------------------------------------------------------------------------------


TOKENS = st.sampled_from(["a", "b", " ", "ST", "(hm)", "#", "[f|{}]", '[g|{"a": 1}]', "[f~|{}]", "[", "]"])
POLICIES: list[dict[str, Any]] = [
    {},
    {"max_tool_calls": 1},
    {"prose": "drop", "may_call": True},
    {"stream_arguments": False},
    {"stop": ("ab",)},
    {"reasoning_field": "reasoning"},
    {"malformed_arguments": "text", "stream_arguments": False},
]


@settings(deadline=None)
@given(st.lists(TOKENS), st.integers(1, 5), st.sampled_from(POLICIES), st.sampled_from(["stop", "length"]))
def test_the_stream_says_the_same(tokens: list[str], size: int, policy: dict[str, Any], reason: str) -> None:
    text = "".join(tokens) + ("[f|{" if reason == "length" else "")
    field = policy.get("reasoning_field")

    def streamed(data: bytes) -> Answered:
        rewriter = chat_stream(
            lambda: ChoiceAnswer(ScriptParser(), made_policy(**policy)),
            UsageMeter(),
            include_usage=False,
            reasoning_field=field,
        )
        return check_stream(rewriter.feed(data) + rewriter.finish() + rewriter.end())

    data = body(text, reason=reason)
    one = checked(data, policy=policy, reasoning_field=field)
    texts = [text[at : at + size] for at in range(0, len(text), size)]
    chunks = [chunk({"role": "assistant"}), *(chunk({"content": piece}) for piece in texts), chunk({}, reason)]
    same_answer(one, streamed(stream(*chunks)))
    same_answer(one, streamed(as_stream(data) or b""))
