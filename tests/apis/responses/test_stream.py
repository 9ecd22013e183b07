"""The events of a stream: in order, complete, numbered, the same for every cut, the same as the whole answer."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import OpenAI

from tests.apis.fed import ResponsesFace
from tests.helpers.thorough import places

from . import chat
from .asking import CODES, PATCH, WEATHER, asked, body, chat_of, streamed
from .chat import call, text, thought
from .received import Received, check_response, check_stream, check_whole, read_events

TOOLS = [WEATHER, PATCH, CODES, {"type": "shell"}, {"type": "apply_patch"}]
OTHER_PATCH = chat_of(tools=TOOLS)["tools"][4]["function"]["name"]  # the name is the custom tool's
STAMP = re.compile(rb'(?<=ed_at":)\d+')
PATCH_TEXT = '*** Begin Patch\n+a "quoted" \\ \U0001f600 end\n*** End Patch\n'


def cut(written: str, size: int) -> list[str]:
    return [written[at : at + size] for at in range(0, len(written), size)]


ANSWERS: dict[str, tuple[list[chat.Delta], str]] = {
    "text": (text("Hel", "lo", " wörld \U0001f600"), "stop"),
    "call": (call(0, "get_weather", '{"ci', 'ty": "Pa', 'ris"}'), "tool_calls"),
    "text and calls": (
        [*text("One ", "moment."), *call(0, "get_weather", "{}"), *call(1, "mcp__codes__lookup_code", '{"a', '": 1}')],
        "tool_calls",
    ),
    "thought": ([*thought("let ", "me see"), *text("four")], "stop"),
    "thought and call": ([*thought("I must look"), *call(0, "get_weather", "{}")], "tool_calls"),
    "custom": (call(0, "apply_patch", *cut(json.dumps({"input": PATCH_TEXT}), 11)), "tool_calls"),
    "local": (
        [*call(0, "shell", '{"commands": ["ls"', "]}"), *call(1, OTHER_PATCH, '{"type": "delete_file", "path": "a"}')],
        "tool_calls",
    ),
    "text behind calls": ([*text("a"), *call(0, "get_weather", "{}"), *text("b")], "tool_calls"),
    "cut text": (text("and then"), "length"),
    "full context": (text("and then"), "model_length"),
    "cut call": ([*text("x"), *call(0, "get_weather", '{"city": "Par')], "length"),
    "cut custom": (call(0, "apply_patch", '{"input": "*** Begin'), "length"),
    "cut shell": (call(0, "shell", '{"commands": ["rm'), "length"),
    "filtered": (text("so"), "content_filter"),
    "refusal": ([*text("Hm. "), {"refusal": "I will "}, {"refusal": "not."}], "stop"),
    "nothing": ([], "stop"),
    "only a thought": (thought("hm"), "stop"),
}
# The items of each, `!` after one that is incomplete, and its calls.
ITEMS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "text": ("message", []),
    "call": ("function_call", [("get_weather", None, '{"city": "Paris"}')]),
    "text and calls": (
        "message function_call function_call",
        [("get_weather", None, "{}"), ("lookup_code", "mcp__codes", '{"a": 1}')],
    ),
    "thought": ("reasoning message", []),
    "thought and call": ("reasoning function_call", [("get_weather", None, "{}")]),
    "custom": ("custom_tool_call", [("apply_patch", None, PATCH_TEXT)]),
    "local": (
        "shell_call apply_patch_call",
        [
            (None, None, {"commands": ["ls"], "max_output_length": None, "timeout_ms": None}),
            (None, None, {"type": "delete_file", "path": "a"}),
        ],
    ),
    "text behind calls": ("message function_call message", [("get_weather", None, "{}")]),
    "cut text": ("message!", []),
    "full context": ("message!", []),
    "cut call": ("message function_call!", [("get_weather", None, '{"city": "Par')]),
    "cut custom": ("custom_tool_call!", [("apply_patch", None, "*** Begin")]),
    "cut shell": ("shell_call!", [(None, None, {"commands": [], "max_output_length": None, "timeout_ms": None})]),
    "filtered": ("message!", []),
    "refusal": ("message", []),
    "nothing": ("message", []),
    "only a thought": ("reasoning message", []),
}
CUT = {"length": "max_output_tokens", "model_length": "max_output_tokens", "content_filter": "content_filter"}


def answered(name: str, **fields: Any) -> Received:
    deltas, reason = ANSWERS[name]
    return check_stream(streamed(chat.stream(deltas, reason), tools=TOOLS, **fields))


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_keeps_the_rules_and_says_the_same_as_the_whole_one(name: str) -> None:
    deltas, reason = ANSWERS[name]
    stream = answered(name)
    face, _ = asked(tools=TOOLS)
    whole = check_whole(face.whole(200, {}, json.dumps(chat.pieces_of(deltas, reason)).encode()).body)
    for got in (stream, whole):
        assert got.text == "".join(delta.get("content", "") for delta in deltas)
        assert got.refusal == "".join(delta.get("refusal", "") for delta in deltas)
        assert got.thought == "".join(delta.get("reasoning", "") for delta in deltas)
        assert [call[1:] for call in got.calls] == ITEMS[name][1]
        assert got.response["incomplete_details"] == ({"reason": CUT[reason]} if reason in CUT else None)
    assert " ".join(item["type"] + "!" * (item["status"] == "incomplete") for item in stream.output) == ITEMS[name][0]
    assert stream.ids == whole.ids
    assert len(stream.calls) == sum("id" in entry for delta in deltas for entry in delta.get("tool_calls", ()))
    assert stream.response["usage"] == whole.response["usage"]
    assert stream.response["status"] == whole.response["status"] == ("incomplete" if reason in CUT else "completed")


def test_text_is_told_in_the_documented_order() -> None:
    assert answered("text").types == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_a_call_is_told_in_the_documented_order() -> None:
    got = answered("call")
    assert got.types[2:] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    item = got.output[0]
    assert item["call_id"] == "call_" + "0" * 24
    assert item["id"].startswith("fc_")
    assert "namespace" not in item


def test_a_thought_is_an_item_before_the_text() -> None:
    got = answered("thought")
    assert got.output[0]["summary"] == []
    assert got.output[0]["content"] == [{"type": "reasoning_text", "text": "let me see"}]
    assert "encrypted_content" not in got.output[0]


def test_a_thought_is_carried_where_the_client_asks_for_it() -> None:
    got = answered("thought", include=["reasoning.encrypted_content"])
    again = [{"role": "user", "content": "hi"}, {**got.output[0], "content": None}, got.output[1]]
    face, request = asked(input=again)
    assert face.api == "responses"
    assert json.loads(request.body)["messages"][1] == {
        "role": "assistant",
        "content": "four",
        "reasoning_content": "let me see",
    }


def test_a_custom_tool_gets_its_text_in_deltas() -> None:
    got = answered("custom")
    assert len(got.of("response.custom_tool_call_input.delta")) > 5
    assert got.output[0]["id"].startswith("ctc_")


def test_a_name_in_a_namespace_is_mapped_back() -> None:
    got = answered("text and calls")
    added = [event["item"] for event in got.of("response.output_item.added")]
    assert added[2]["namespace"] == "mcp__codes"


@pytest.mark.parametrize("name", ["cut custom", "cut shell"])
def test_a_cut_call_that_looks_whole_is_never_told_to_be_done(name: str) -> None:
    """Codex runs what is done, whatever its status; a cut text, unlike cut JSON, cannot be seen to be cut."""
    got = answered(name)
    assert "response.output_item.done" not in got.types


def test_a_call_that_was_complete_stays_complete_when_the_answer_is_cut_behind_it() -> None:
    deltas = call(0, "get_weather", '{"city": "Paris"}')
    got = check_stream(streamed(chat.stream(deltas, "length"), tools=TOOLS))
    assert got.response["status"] == "incomplete"
    assert got.output[0]["status"] == "completed"


def test_usage_has_the_names_of_responses() -> None:
    assert answered("text").response["usage"] == {
        "input_tokens": 116,
        "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 0},
        "output_tokens": 70,
        "output_tokens_details": {"reasoning_tokens": 9},
        "total_tokens": 186,
    }


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "prompt_tokens_details": 3}])
def test_usage_that_nobody_counted_is_zero(usage: Any) -> None:
    got = check_stream(streamed(chat.stream(text("a"), usage=usage)))
    assert got.response["usage"]["total_tokens"] == 0


def test_the_response_repeats_what_was_asked() -> None:
    fields = {
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "max_output_tokens": 9,
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
        "tool_choice": "auto",
        "tools": TOOLS,
        "temperature": 0.5,
        "top_p": 0.25,
        "truncation": "auto",
        "prompt_cache_key": "k",
        "store": True,
    }
    for response in (e["response"] for e in read_events(streamed(chat.stream(text("a")), **fields)) if "response" in e):
        assert response["model"] == "backend-model"
        assert response["reasoning"] == {"effort": "low", "summary": None}
        assert response["text"] == {"verbosity": "low", "format": {"type": "text"}}
        assert response["store"] is False
        for name in ("instructions", "metadata", "max_output_tokens", "parallel_tool_calls", "tool_choice",
                     "temperature", "top_p", "truncation", "prompt_cache_key"):  # fmt: skip
            assert response[name] == fields[name]
        told = [{"strict": False, **tool} if tool["type"] == "function" else tool for tool in TOOLS]
        assert response["tools"] == told


def test_a_wait_is_filled_with_events_that_are_numbered_too() -> None:
    face, _ = asked(stream=True)
    assert face.keepalive() == b""
    data = face.feed(chat.chunk({"role": "assistant", "content": "a"}))
    waited = face.keepalive() + face.keepalive()
    assert [event["type"] for event in read_events(waited)] == ["response.in_progress"] * 2
    rest = face.feed(chat.stream([*text("b")]))
    assert check_stream(data + waited + rest).text == "ab"
    assert face.keepalive() == b""
    assert face.finish(cut=False) == b""


@pytest.mark.parametrize("reason", [None, "stop"])
def test_a_stream_without_done_ends_as_far_as_it_was_said(reason: str | None) -> None:
    got = check_stream(streamed(chat.stream(text("a"), reason, done=False, usage=None)))
    assert got.response["status"] == ("completed" if reason else "failed")


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_a_stream_that_breaks_off_anywhere_ends_in_an_event(name: str) -> None:
    data = chat.stream(*ANSWERS[name])
    seen: set[bytes] = set()
    for place in places(len(data), name):
        face, _ = asked(tools=TOOLS, stream=True)
        left = face.feed(data[:place]) + face.finish(cut=True)
        if (left := STAMP.sub(b"1", left)) in seen:
            continue  # half an event says nothing
        seen.add(left)
        got = check_stream(left)
        said_all = any(b'"finish_reason": "' in line and line.endswith(b"}]}") for line in data[:place].split(b"\n"))
        assert (got.response["status"] == "failed") == (not said_all)
        if not said_all:
            assert got.response["error"]["code"] == "server_error"
            for event in got.of("response.output_item.done"):
                assert event["item"]["status"] == "completed"


@pytest.mark.parametrize("name", ["text", "call", "thought", "custom"])
@pytest.mark.parametrize("size", [1, 10_000_000], ids=["in bytes", "whole"])
def test_an_answer_that_is_too_long_to_be_kept_fails(name: str, size: int) -> None:
    deltas, reason = ANSWERS[name]
    again = [*deltas[:-1], *([deltas[-2]] * 500), deltas[-1]]
    for max_kept, failed in ((20_000, True), (2_000_000, False), (None, False)):
        face = ResponsesFace(mark="m", max_kept=max_kept)
        face.request(body(stream=True, tools=TOOLS))
        sent = chat.stream(again, reason)
        said = b"".join(face.feed(sent[at : at + size]) for at in range(0, len(sent), size)) + face.finish(cut=False)
        got = check_stream(said, accumulate=False)
        error = got.response["error"]
        assert (got.response["status"] == "failed") is failed
        assert ("max_response_bytes (20000)" in error["message"]) if failed else error is None


def test_ids_are_new_in_each_answer() -> None:
    def once() -> Received:
        from tests.apis.fed import ResponsesFace

        face = ResponsesFace()
        face.request(body(stream=True))
        return check_stream(face.feed(chat.stream(text("a"))))

    first, second = once(), once()
    assert first.response["id"] != second.response["id"]
    assert first.output[0]["id"] != second.output[0]["id"]


def test_calls_that_have_the_same_id_get_others() -> None:
    deltas = [*call(0, "get_weather", "{}", call_id="call_a"), *call(1, "get_weather", "{}", call_id="call_a")]
    first, second = check_stream(streamed(chat.stream(deltas, "tool_calls"), tools=TOOLS)).ids
    assert first == "call_a"
    assert second.startswith("call_")
    assert second != first


def test_arguments_that_are_objects_become_text() -> None:
    entry = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    deltas = [{"tool_calls": [entry]}, {"tool_calls": [{"index": 0, "function": {"arguments": {"city": "Paris"}}}]}]
    got = check_stream(streamed(chat.stream(deltas, "tool_calls"), tools=TOOLS))
    assert json.loads(got.output[0]["arguments"]) == {"city": "Paris"}


def test_half_an_emoji_and_not_a_number_leave_as_json() -> None:
    chunk = chat.chunk({"content": "a\ud83d"}).replace(b'"finish_reason"', b'"logprobs": NaN, "finish_reason"')
    assert check_stream(streamed(chunk + chat.stream([]))).text == "a�"


WRITTEN = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.mark.slow
@given(
    said=st.lists(
        st.one_of(
            WRITTEN.map(lambda t: [{"content": t}]),
            WRITTEN.map(lambda t: [{"reasoning": t}]),
            st.tuples(st.sampled_from(["get_weather", "apply_patch", "mcp__codes__lookup_code"]), WRITTEN).map(list),
        ),
        max_size=6,
    ),
    size=st.integers(1, 9),
    reason=st.sampled_from(["stop", "length", "content_filter"]),
)
@settings(max_examples=150, deadline=None)
def test_nothing_is_lost_and_stream_equals_whole(said: list[Any], size: int, reason: str) -> None:
    deltas: list[chat.Delta] = []
    calls: list[str] = []
    for entry in said:
        if isinstance(entry[0], dict):
            deltas += entry
            continue
        name, written = entry
        arguments = json.dumps({"input": written})
        deltas += call(len(calls), name, *cut(arguments, size))
        calls.append(written)
    stream = check_stream(streamed(chat.stream(deltas, reason), tools=TOOLS))
    face, _ = asked(tools=TOOLS)
    whole = check_whole(face.whole(200, {}, json.dumps(chat.pieces_of(deltas, reason)).encode()).body)
    assert stream.text == whole.text == "".join(delta.get("content", "") for delta in deltas)
    assert stream.thought == whole.thought == "".join(delta.get("reasoning", "") for delta in deltas)
    assert stream.calls == whole.calls
    got = [c[3] if c[0] == "custom_tool_call" else json.loads(c[3])["input"] for c in stream.calls]
    assert got == calls


def sdk(payload: bytes, content_type: str) -> OpenAI:
    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=payload, headers={"content-type": content_type})

    return OpenAI(
        base_url="http://test/v1", api_key="k", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))
    )


@pytest.mark.parametrize("name", [name for name, (_, reason) in ANSWERS.items() if reason in {"stop", "tool_calls"}])
def test_the_sdks_stream_helper_reads_it(name: str) -> None:
    data = streamed(chat.stream(*ANSWERS[name]), tools=TOOLS)
    with sdk(data, "text/event-stream").responses.stream(model="m", input="hi") as stream:
        final = stream.get_final_response()
    got = check_response(json.loads(final.to_json()))
    assert got.calls == check_stream(data).calls
    assert final.output_text == check_stream(data).text


def test_the_sdk_reads_a_whole_answer() -> None:
    face, _ = asked(tools=TOOLS)
    reply = face.whole(200, {}, chat.whole("One moment.", [("get_weather", '{"city": "Paris"}')], "tool_calls"))
    got = sdk(reply.body, "application/json").responses.create(model="m", input="hi")
    assert got.output_text == "One moment."
    assert [item.type for item in got.output] == ["message", "function_call"]
    assert got.usage is not None
    assert got.usage.total_tokens == 186
