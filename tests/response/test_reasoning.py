"""`reasoning=parse`: a call in the backend's own reasoning field is a call, and all else in that field stays there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.driven import Driven
from tests.helpers.stream_rules import Answered, Choice, check_stream, check_whole, same_answer
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from .streams import chunk, completion, role, stream

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("weather", "clock")]
CITY = '{"city": "Zürich"}'
FIELDS = ("reasoning", "reasoning_content")


def tag(name: str = "weather", arguments: str = CITY) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


OPENING = {
    "hermes": f"Hm, é <b> I look.\n{tag()}\nThen so.",
    "harmony": "".join(
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>analysis to=functions.weather",
            f"<|message|>{CITY}<|call|>",
        )
    ),
}


def exchange(*, ask: dict[str, Any] | None = None, memory: BackendMemory | None = None, **chosen: Any) -> Driven:
    made = Driven(
        Settings(**{"mode": "prompt", "format": "hermes", "reasoning": "parse", **chosen}), memory or BackendMemory()
    )
    made.asks(**{"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, **(ask or {})})
    return made


def sent(*deltas: dict[str, Any], reason: str = "stop") -> bytes:
    return stream(role(), *(chunk(delta) for delta in deltas), chunk({}, reason))


def raw_stream(data: bytes, *, ask: dict[str, Any] | None = None, **chosen: Any) -> bytes:
    made = exchange(ask={"stream": True, **(ask or {})}, **chosen)
    return made.streams(*(event + b"\n\n" for event in data.split(b"\n\n")[:-1]))


def streamed(*deltas: dict[str, Any], reason: str = "stop", **chosen: Any) -> Answered:
    return check_stream(raw_stream(sent(*deltas, reason=reason), **chosen))


def raw_whole(message: dict[str, Any], *, reason: str = "stop", **chosen: Any) -> bytes:
    return exchange(**chosen).answers(completion(message, reason)).body


def whole(message: dict[str, Any], **chosen: Any) -> Choice:
    return check_whole(raw_whole(message, **chosen)).only


def message_of(body: bytes) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(body)["choices"][0]["message"]
    return message


# -- what is read --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["prompt", "native"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_call_in_the_field_is_read_wherever_it_is_cut(mode: str, field: str) -> None:
    text = OPENING["hermes"]
    expected = check_whole(raw_whole({field: text, "content": "Done."}, mode=mode))
    assert expected.only.named_calls == [("weather", CITY)]
    assert expected.only.finish_reason == "tool_calls"
    assert expected.only.content == "Done."
    assert message_of(raw_whole({field: text}, mode=mode))[field] == "Hm, é <b> I look.\n\nThen so."
    for cut in range(1, len(text)):
        answer = streamed({field: text[:cut]}, {field: text[cut:]}, {"content": "Done."}, mode=mode)
        same_answer(answer, expected)
    pieces = raw_stream(sent(*({field: char} for char in text), {"content": "Done."}), mode=mode)
    same_answer(check_stream(pieces), expected)
    other = FIELDS[1 - FIELDS.index(field)]
    assert f'"{field}"'.encode() in pieces
    assert f'"{other}"'.encode() not in pieces


@pytest.mark.slow
@pytest.mark.parametrize("name", ["harmony", "hermes"])
def test_it_is_read_by_the_format_of_the_text(name: str) -> None:
    text = OPENING[name]
    expected = check_whole(raw_whole({"reasoning": text}, format=name))
    assert expected.only.named_calls == [("weather", CITY)]
    for cut in range(1, len(text)):
        same_answer(streamed({"reasoning": text[:cut]}, {"reasoning": text[cut:]}, format=name), expected)


def test_ignore_leaves_the_field_alone() -> None:
    # Text behind it closes the thought: calls in one that never ends are calls (test_open_thoughts.py).
    data = sent({"reasoning": OPENING["hermes"]}, {"content": "Done."})
    assert raw_stream(data, reasoning="ignore") == data
    message = message_of(raw_whole({"reasoning_content": OPENING["hermes"], "content": "Done."}, reasoning="ignore"))
    assert message["reasoning_content"] == OPENING["hermes"]
    assert "tool_calls" not in message


def test_without_tools_to_call_nothing_is_read() -> None:
    answer = streamed({"reasoning": OPENING["hermes"]}, ask={"tool_choice": "none"})
    assert answer.only.reasoning == OPENING["hermes"]
    assert not answer.only.calls


def test_calls_of_all_sources_are_numbered_in_one_row() -> None:
    own = [
        {"index": 0, "id": "call_" + "x" * 24, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    ]
    parts = ({"reasoning": f"a{tag()}{tag('clock')}b"}, {"content": f"c{tag('clock')}"}, {"tool_calls": own})
    answer = streamed(*parts, mode="native").only
    assert [call.name for call in answer.calls] == ["weather", "clock", "clock", "weather"]
    assert (answer.reasoning, answer.content) == ("ab", "c")
    message = {**parts[0], "tool_calls": own}
    assert whole(message, mode="native").named_calls == [("weather", CITY), ("clock", CITY), ("weather", "{}")]
    assert streamed(parts[0], parts[2], mode="native").only.named_calls == whole(message, mode="native").named_calls


def test_chunks_that_differ_in_content_alone_are_read_for_their_reasoning() -> None:
    answer = streamed(*({"reasoning": tag(), "content": char} for char in "abc"))
    assert (answer.only.named_calls, answer.only.content) == ([("weather", CITY)] * 3, "abc")
    assert answer.only.reasoning == ""


def test_calls_that_interleave_leave_one_after_the_other() -> None:
    one, two = tag(), tag("clock")
    cut = len(one) - 20
    answer = streamed({"content": one[:cut]}, {"reasoning": f"x{two}y"}, {"content": f"{one[cut:]} z"})
    assert answer.only.named_calls == [("weather", CITY), ("clock", CITY)]
    assert answer.only.reasoning == "xy"
    # Content ends reasoning: a call that was open there is cut, and nothing leaves behind it.
    answer = streamed({"reasoning": f"x{two[:cut]}"}, {"content": one}, {"reasoning": "y"})
    assert [call.name for call in answer.only.calls] == ["clock"]
    assert answer.only.finish_reason == "length"


PARTS = st.tuples(st.sampled_from(["content", "reasoning"]), st.integers(1, 60))


@pytest.mark.slow
@example([("reasoning", 29), ("content", 1), ("reasoning", 17), ("reasoning", 60), ("content", 1)])
@given(st.lists(PARTS, max_size=12))
@settings(max_examples=80, deadline=None)
def test_no_way_of_interleaving_breaks_a_rule(parts: list[tuple[str, int]]) -> None:
    left = {"content": f"a{tag()}b{tag()}c", "reasoning": f"d{tag('clock')}e{tag('clock')}f"}
    deltas = []
    for field, size in [*parts, ("reasoning", 999), ("content", 999)]:
        deltas.append({field: left[field][:size]})
        left[field] = left[field][size:]
    answer = streamed(*deltas).only
    if answer.finish_reason == "length":  # content cut a call in reasoning, which the client has begun to read
        *whole, cut = [call.arguments for call in answer.calls]
        assert set(whole) <= {CITY, "{}"}  # the second: content ended the reasoning directly after the call's name
        assert CITY.startswith(cut)
        return
    assert [call.arguments for call in answer.calls if call.name == "weather"] == [CITY] * 2
    assert answer.content == "abc"
    assert answer.finish_reason == "tool_calls"


def test_each_choice_has_its_own_reader() -> None:
    text = f"x{tag()}y"
    deltas = [chunk({"reasoning": char}, index=index) for char in text for index in (0, 1)]
    roles = [chunk({"role": "assistant"}, index=index) for index in (0, 1)]
    ends = [chunk({}, "stop", index=index) for index in (0, 1)]
    answer = check_stream(raw_stream(stream(*roles, *deltas, *ends), ask={"n": 2}), n=2)
    assert [choice.named_calls for choice in answer.choices] == [[("weather", CITY)]] * 2
    assert [choice.reasoning for choice in answer.choices] == ["xy"] * 2


# -- what stays ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(["<", "<tool_", "tool_call>", "é", "\n", " a", "```", "`", "{", "<think>", "</think>"]))
)
@settings(max_examples=60, deadline=None)
def test_what_is_no_call_stays_in_its_field_to_the_byte(pieces: list[str]) -> None:
    answer = streamed(*({"reasoning_content": piece} for piece in pieces), {"content": "x"})
    assert answer.only.reasoning == "".join(pieces)
    assert answer.only.content == "x"
    body = raw_whole({"reasoning_content": "".join(pieces), "content": "x"})
    assert message_of(body)["reasoning_content"] == "".join(pieces)


def test_a_chunk_of_plain_reasoning_leaves_with_its_own_bytes() -> None:
    data = sent({"reasoning": "So, "}, {"reasoning": "well.", "reasoning_content": "well."}, {"content": "Hi"})
    assert raw_stream(data) == data


def test_what_is_held_back_leaves_before_the_content_that_follows() -> None:
    out = raw_stream(sent({"reasoning": "a <tool_"}, {"content": "x"}, {"content": "y"}))
    assert out.index(b"<tool_") < out.index(b'"x"')
    # ... also where such content has been before, and goes past what would look for reasoning.
    said = [{"content": char} for char in "0123456789"]
    out = raw_stream(sent(*said, {"reasoning": "a <tool_"}, {"content": "x"}))
    assert out.index(b"<tool_") < out.index(b'"x"')


def test_a_name_that_is_not_offered_stays_where_it_was_written() -> None:
    text = f"x{tag('nobody')}y"
    for answer in (streamed({"reasoning": text[:9]}, {"reasoning": text[9:]}).only, whole({"reasoning": text})):
        assert (answer.reasoning, answer.calls, answer.content) == (text, [], None)
        assert answer.finish_reason == "stop"


def test_a_call_that_is_refused_stays_where_it_was_written() -> None:
    text = f"x{tag(arguments='{city: 1')}"
    for answer in (
        streamed({"reasoning": text}, malformed_arguments="text").only,
        whole({"reasoning": text}, malformed_arguments="text"),
    ):
        assert (answer.reasoning, answer.calls) == (text, [])


def test_the_field_that_is_twice_there_is_read_once() -> None:
    text = f"x{tag()}y"
    both = dict.fromkeys(FIELDS, text)
    assert streamed(both).only.named_calls == [("weather", CITY)]
    out = message_of(raw_whole(both))
    assert (out["reasoning"], out["reasoning_content"], len(out["tool_calls"])) == ("xy", "xy", 1)
    pieces = raw_stream(sent(*(dict.fromkeys(FIELDS, char) for char in f"x{tag()}!")))
    assert pieces.count(b'"!"') == 2


def test_reasoning_field_renames_it() -> None:
    text = f"x{tag()}y"
    out = raw_stream(sent({"reasoning": text}), reasoning_field="reasoning_content")
    assert b'"reasoning":' not in out
    assert check_stream(out).only.reasoning == "xy"
    message = message_of(raw_whole({"reasoning": text}, reasoning_field="reasoning_content"))
    assert (message["reasoning_content"], message["reasoning"]) == ("xy", None)


def test_what_is_read_is_counted_once() -> None:
    ask = {"stream_options": {"include_usage": True}}
    data = sent({"reasoning": "So be it, "}, {"reasoning": "then."}, {"content": "Hi"})
    numbers = [
        check_stream(raw_stream(data, ask=ask, reasoning=setting), include_usage=True).usage
        for setting in ("parse", "ignore")
    ]
    assert numbers[0]
    assert numbers[0] == numbers[1]


def test_a_field_of_nothing_but_a_call_is_null() -> None:
    assert message_of(raw_whole({"reasoning": tag()}))["reasoning"] is None


# -- the end -------------------------------------------------------------------------------------------------------


def test_a_call_cut_off_in_the_field_ends_with_length() -> None:
    text = tag()[:-20]
    for answer in (
        streamed({"reasoning": text}, reason="length").only,
        whole({"reasoning": text}, reason="length"),
    ):
        assert answer.finish_reason == "length"
        assert answer.calls[0].name == "weather"


@pytest.mark.parametrize("mode", ["prompt", "native"])
def test_required_is_kept_by_a_call_in_the_field(mode: str) -> None:
    ask = {"tool_choice": "required"}
    assert whole({"reasoning": OPENING["hermes"]}, ask=ask, mode=mode).named_calls == [("weather", CITY)]
    pieces = [{"reasoning": char} for char in OPENING["hermes"]]
    assert streamed(*pieces, ask=ask, mode=mode).only.named_calls == [("weather", CITY)]
    with pytest.raises(ToolCallError, match="did not call"):
        raw_whole({"reasoning": tag("nobody")}, ask=ask, mode=mode, retries=0)


def test_one_call_only_where_calls_are_not_parallel() -> None:
    ask = {"parallel_tool_calls": False}
    text = tag() + tag("clock")
    assert streamed({"reasoning": text}, {"content": text}, ask=ask).only.named_calls == [("weather", CITY)]
    assert whole({"reasoning": text, "content": text}, ask=ask).named_calls == [("weather", CITY)]


def test_mode_auto_does_not_take_it_for_a_backend_without_parser() -> None:
    memory = BackendMemory()
    assert whole({"reasoning": tag()}, mode="auto", memory=memory).calls
    again = exchange(mode="auto", memory=memory)
    assert again.native


# -- reasoning in the text -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("field", [None, "reasoning"])
@pytest.mark.parametrize("end", ["</think>Done.", ""])
def test_calls_inside_of_think_tags_are_read(field: str | None, end: str) -> None:
    text = f"<think>Hm.{tag()} And {tag('clock')} so.{end}"
    expected = check_whole(raw_whole({"content": text}, reasoning_field=field))
    assert [call.name for call in expected.only.calls] == ["weather", "clock"]
    for cut in range(1, len(text)):
        same_answer(
            streamed({"content": text[:cut]}, {"content": text[cut:]}, reasoning_field=field),
            expected,
        )


@pytest.mark.slow
def test_calls_in_harmonys_analysis_are_read() -> None:
    text = OPENING["harmony"]
    expected = check_whole(raw_whole({"content": text}, format="harmony"))
    assert (expected.only.named_calls, expected.only.reasoning) == ([("weather", CITY)], "Hm.")
    for cut in range(1, len(text)):
        same_answer(streamed({"content": text[:cut]}, {"content": text[cut:]}, format="harmony"), expected)


GEMMA_CHANNEL = "<|channel>thought\n{}<channel|>"
HARMONY_CHANNEL = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>"
GEMMA = '<|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|>'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "reasoning", "content"),
    [
        ("gemma4", f"<|channel>thought\nHm {GEMMA} so<channel|>Done", "Hm  so", "Done"),
        ("gemma4", f"<|channel>thought\nHm {GEMMA}", "Hm ", None),
        ("auto", f"<|channel|>analysis<|message|>Hm {tag()} so<|end|>", "Hm  so", None),
    ],
)
def test_markup_inside_of_a_reasoning_channel_is_read(
    name: str, text: str, reasoning: str, content: str | None
) -> None:
    expected = check_whole(raw_whole({"content": text}, format=name))
    assert [call.name for call in expected.only.calls] == ["weather"]
    assert (expected.only.reasoning, expected.only.content) == (reasoning, content)
    for cut in range(1, len(text)):
        same_answer(streamed({"content": text[:cut]}, {"content": text[cut:]}, format=name), expected)
    ignored = whole({"content": text}, format=name, reasoning="ignore")
    # A thought that never ends is read at its end, wherever its calls are told from.
    is_closed = text.endswith(("<|end|>", "Done"))
    assert len(ignored.calls) == (0 if is_closed else 1)
    assert "call" in ignored.reasoning


@pytest.mark.parametrize("channel", [GEMMA_CHANNEL, HARMONY_CHANNEL])
@pytest.mark.parametrize(
    ("call", "settings"),
    [
        (tag("nobody"), {}),
        (tag(arguments='{"city": }'), {"malformed_arguments": "text"}),
        (tag("nobody") + tag("nobody"), {}),
    ],
)
def test_a_refused_call_inside_of_a_reasoning_channel_stays_in_it(
    channel: str, call: str, settings: dict[str, Any]
) -> None:
    thought = f"Hm {call} so"
    text = f"{channel.format(thought)}Done"
    expected = check_whole(raw_whole({"content": text}, format="auto", **settings))
    assert (expected.only.reasoning, expected.only.content, expected.only.calls) == (thought, "Done", [])
    for size in (1, 3, 20):
        pieces = [{"content": text[at : at + size]} for at in range(0, len(text), size)]
        same_answer(streamed(*pieces, format="auto", **settings), expected)


def test_a_channel_without_calls_stays_as_it_was_written() -> None:
    thought = f"Hm <|tool_call {GEMMA.replace('weather', 'nobody')}"
    text = f"<|channel>thought\n{thought}<channel|>Done <|channel>thought\nx"
    for reasoning in ("parse", "ignore"):
        answer = streamed(*({"content": char} for char in text), format="gemma4", reasoning=reasoning).only
        assert (answer.reasoning, answer.content) == (f"{thought}x", "Done ")


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_what_is_open_in_a_channel_ends_with_it(reason: str) -> None:
    text = f"<|channel>thought\nHm {GEMMA[:-18]}<channel|>Done at last"
    expected = check_whole(raw_whole({"content": text}, format="gemma4", reason=reason))
    assert expected.only.finish_reason == "length"
    assert [call.arguments for call in expected.only.calls] == ['{"city": "Oslo']
    for size in (1, 3, 20):
        pieces = [{"content": text[at : at + size]} for at in range(0, len(text), size)]
        same_answer(streamed(*pieces, format="gemma4", reason=reason), expected)


def test_fields_that_differ_both_stay() -> None:
    differing = {"reasoning": "one", "reasoning_content": "two"}
    for field in (None, *FIELDS):
        data = sent(differing, {"content": "x"})
        out = raw_stream(data, reasoning_field=field)
        assert b'"one"' in out
        assert b'"two"' in out
