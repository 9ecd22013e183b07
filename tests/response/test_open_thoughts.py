"""A call in a thought is one where the answer ends in that thought, and none where the thought is closed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.formats.test_families import NAMES
from tests.helpers.stream_rules import check_stream, check_whole, same_answer
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall
from toolcall_middleware.parsing.events import Reasoning
from toolcall_middleware.parsing.text import reasoning as opened_module
from toolcall_middleware.parsing.text.reasoning import OpenedAnswer, OpenedReasoning
from toolcall_middleware.response import choice
from toolcall_middleware.response.choice import OpenThought

from ..parsing.streams import calls_in, one_cut, read, text_in, thought_in
from ..parsing.test_scanner import CALL, fresh
from .streams import completion
from .test_reasoning import CITY, GEMMA, exchange, raw_stream, sent, streamed, tag, whole
from .test_reasoning import raw_whole as _raw_whole

WRITTEN = ToolCall("weather", CITY, "call_1")
HM = "Hm, é < b. I look.\n"


def raw_whole(message: dict[str, Any], **chosen: Any) -> bytes:
    return _raw_whole(message, **{"reasoning": "ignore", **chosen})


def pieces(text: str, *, name: str = "content", size: int = 1, **chosen: Any) -> Any:
    deltas = [{name: text[at : at + size]} for at in range(0, len(text), size)]
    return streamed(*deltas, **{"reasoning": "ignore", **chosen})


def agreed(text: str, *, field: str = "content", **chosen: Any) -> Any:
    """The one choice of an answer, which is the same whole and streamed."""
    answer = check_whole(raw_whole({field: text}, **chosen))
    for size in (1, 7, len(text)):
        same_answer(pieces(text, name=field, size=size, **chosen), answer)
    return answer.only


# -- every family, every kind of thought ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lead", ["", HM])
def test_a_call_of_each_family_in_a_thought_that_never_ends_is_a_call(name: str, lead: str) -> None:
    written = registry.get(name).render_calls([WRITTEN])
    for field, text in (("content", f"<think>{lead}{written}"), ("reasoning", lead + written)):
        answer = agreed(text, field=field, format=name, reasoning_field="reasoning")
        assert [call.name for call in answer.calls] == ["weather"]
        assert json.loads(answer.calls[0].arguments) == json.loads(CITY)
        assert answer.finish_reason == "tool_calls"


UNMARKED = [
    ("pythonic", '[weather(city="Zürich")]'),
    ("pythonic", '[\n  functions.weather(city="Zürich"),\n]'),
    ("llama4_pythonic", "[weather(city='Zürich')]"),
    ("xlam", f'[{{"name": "weather", "arguments": {CITY}}}]'),
    ("hermes", f'{{"name": "weather", "arguments": {CITY}}}'),
    ("hermes", f'[\n {{"name": "weather", "arguments": {CITY}}}\n]'),
    ("auto", '[weather(city="Zürich")]'),
    ("auto", f'[{{"name": "weather", "arguments": {CITY}}}]'),
]


@pytest.mark.parametrize(("name", "written"), UNMARKED)
@pytest.mark.parametrize("parsed", ["ignore", "parse"])
def test_calls_that_nothing_marks_are_some_as_the_last_lines_of_a_thought(name: str, written: str, parsed: str) -> None:
    for behind in ("", "\n \n", "<|im_end|>"):
        for field, text in (("content", f"<think>{HM}{written}{behind}"), ("reasoning", HM + written + behind)):
            answer = agreed(text, field=field, format=name, reasoning=parsed)
            assert answer.named_calls == [("weather", CITY)], (field, behind)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "written"), UNMARKED)
def test_they_are_none_beside_other_text_in_code_or_in_a_thought_that_is_closed(name: str, written: str) -> None:
    other = written.replace("weather", "nobody")
    thoughts = [
        f"{HM}{written}\nSo I should.",
        f"{HM}{written} it is",
        f"{HM}As in {written}",
        f"{HM}```python\n{written}\n```",
        f"{HM}```\n{written}",
        f"{HM}{other}",
        f"{HM}{written}\n{other}",
        HM + written[: written.index("rich")],
    ]
    for thought in thoughts:
        assert not agreed(thought, field="reasoning", format=name).calls, thought
        assert not agreed(f"<think>{thought}", format=name).calls, thought
    assert not agreed(f"<think>{HM}{written}</think>Done.", format=name).calls


def test_they_are_the_same_whole_and_streamed_in_a_thought_that_the_prompt_opened() -> None:
    written = f'{HM}{{"name": "weather", "arguments": {CITY}}}'
    half = '<tool_call>\n{"name": "weather", "arguments": {"ci'  # the stream holds it back up to the end
    opened_by = {"format": "hermes", "reasoning_start": "open"}
    assert agreed(written, **opened_by).named_calls == [("weather", CITY)]
    assert not agreed(written + half, reason="length", **opened_by).calls
    assert agreed(written + tag(arguments='{"city": "Oslo"}'), **opened_by).named_calls == [
        ("weather", '{"city": "Oslo"}')
    ]


# Llama 4 explains itself before its list, which is a call there.
@pytest.mark.parametrize(("name", "written"), [row for row in UNMARKED if row[0] not in {"auto", "llama4_pythonic"}])
@pytest.mark.parametrize("parsed", ["ignore", "parse"])
def test_behind_the_text_of_an_answer_they_are_none(name: str, written: str, parsed: str) -> None:
    for text in (HM + written, f"<think>Hm</think>{HM}{written}"):
        answer = agreed(text, format=name, reasoning=parsed)
        assert (answer.content, answer.calls) == (text, [])


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("mode", ["prompt", "native"])
def test_it_is_one_in_the_backends_reasoning_field_too(field: str, mode: str) -> None:
    answer = agreed(HM + tag(), field=field, mode=mode)
    assert answer.named_calls == [("weather", CITY)]
    assert answer.reasoning == HM + tag()  # it had left
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gemma4", f"<|channel>thought\nHm {GEMMA}"),
        ("minimax_m3", f"<mm:think>Hm\n{registry.get('minimax_m3').render_calls([WRITTEN])}"),
        ("seed_oss", f"<seed:think>Hm\n{registry.get('seed_oss').render_calls([WRITTEN])}"),
        ("kimi_k3", f"<|open|>think<|sep|>Hm{registry.get('kimi_k3').render_calls([WRITTEN])}"),
        ("mistral_v11", f"[THINK]Hm {registry.get('mistral_v11').render_calls([WRITTEN])}"),
    ],
)
def test_it_is_one_in_the_familys_own_thought(name: str, text: str) -> None:
    answer = agreed(text, format=name)
    assert [call.name for call in answer.calls] == ["weather"]
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{HM}{tag()}</think>",
        f"<think>{HM}{tag()}</think>Done.",
        f"<think>{HM}{tag()}</think>\n\n",
        f"<think>{HM}{tag()}</think>Done.\n<think>Well",
        f"<|channel>thought\nHm {tag()}<channel|>",
        f"<|channel|>analysis<|message|>Hm {tag()}<|end|>",
        f"<|channel|>analysis<|message|>Hm {tag()}",  # the token that ends a message may have been left out
    ],
)
def test_in_a_closed_thought_it_is_none_and_that_is_told(text: str) -> None:
    answer = agreed(text, format="auto", reasoning_field="reasoning")
    assert not answer.calls
    assert answer.finish_reason == "stop"
    reply = exchange(reasoning="ignore", format="auto").answers(completion(text))
    assert (reply.headers or {})["x-toolcall"].startswith("mode=prompt; format=json; calls=0; in_reasoning=1")


def test_what_follows_the_field_closes_its_thought() -> None:
    for follows in ({"content": "Done."}, {"content": "\n\n"}):
        message = {"reasoning": tag(), **follows}
        expected = check_whole(raw_whole(message))
        assert not expected.only.calls
        same_answer(streamed({"reasoning": tag()}, follows, reasoning="ignore"), expected)
    call = {"index": 0, "id": f"call_{'x' * 24}", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    own = {"tool_calls": [call]}
    for answer in (
        streamed({"reasoning": tag()}, own, reasoning="ignore", mode="native").only,
        whole({"reasoning": tag(), **own}, reasoning="ignore", mode="native"),
    ):
        assert answer.named_calls == [("clock", "{}")]


# -- what of it is a call ---------------------------------------------------------------------------------------------


def test_only_complete_calls_are_calls() -> None:
    for reason in ("stop", "length"):
        answer = agreed(f"<think>{HM}{tag()} and {tag('clock')[:-30]}", reason=reason, reasoning_field="reasoning")
        assert answer.named_calls == [("weather", CITY)]
        assert answer.finish_reason == ("tool_calls" if reason == "stop" else "length")
        assert not agreed(f"<think>{HM}{tag()[:-30]}", reason=reason).calls


def test_a_name_that_is_not_offered_and_an_example_stay_thoughts() -> None:
    for text in (tag("nobody"), f"like so:\n```\n{tag()}\n```", f"as in `{tag().replace(chr(10), ' ')}`"):
        assert not agreed(f"<think>{HM}{text}").calls


def test_the_text_stays_where_it_was() -> None:
    text = f"<think>{HM}{tag()}"
    assert agreed(text).content == text
    answer = agreed(text, reasoning_field="reasoning_content")
    assert (answer.content, answer.reasoning) == (None, HM + tag())
    # Many thoughts: the last one counts.
    answer = agreed(f"<think>{tag('clock')}</think>So.\n<think>{tag()}", reasoning_field="reasoning")
    assert (answer.named_calls, answer.content) == ([("weather", CITY)], "So.\n")


def test_the_policies_hold_for_it() -> None:
    broken = tag(arguments='{"city": "Zürich",}')
    assert agreed(f"<think>{broken}").named_calls[0][0] == "weather"
    with pytest.raises(ToolCallError, match="are not JSON"):
        raw_whole({"content": f"<think>{broken}"}, malformed_arguments="error")
    assert not agreed(f"<think>{broken}", malformed_arguments="text").calls
    assert agreed(f"<think>{broken}", malformed_arguments="text").content == f"<think>{broken}"
    with pytest.raises(ToolCallError, match="do not fit its schema"):
        raw_whole({"reasoning": tag(arguments='{"city": 3}')}, validate_arguments="error")
    with pytest.raises(ToolCallError, match="not among the tools"):
        raw_whole({"reasoning": tag("nobody")}, unknown_tool="error")
    one = agreed(f"<think>{tag()}{tag('clock')}", ask={"parallel_tool_calls": False})
    assert one.named_calls == [("weather", CITY)]


@pytest.mark.parametrize("field", ["content", "reasoning"])
def test_a_call_that_must_come_may_come_there(field: str) -> None:
    text = f"<think>{HM}{tag()}" if field == "content" else HM + tag()
    assert agreed(text, field=field, ask={"tool_choice": "required"}).named_calls == [("weather", CITY)]


def test_its_outcome_is_in_reasoning() -> None:
    reply = exchange(reasoning="ignore").answers(completion(f"<think>{tag()}"))
    assert (reply.headers or {})["x-toolcall"].startswith("mode=prompt; format=hermes; calls=1; in_reasoning=1")


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_thought_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MAX_KEPT", 2000)
    thought = OpenThought(fresh)
    for _ in range(100):
        thought.feed(f"So be it. {CALL}")
    assert thought.finish(cut=False) == []
    thought = OpenThought(fresh)
    thought.feed("x" * 1_000_000)
    thought.feed(CALL)
    assert len(calls_in(thought.finish(cut=False))) == 1


def test_an_endless_call_in_a_thought_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MAX_KEPT", 2000)
    thought = OpenThought(fresh)
    thought.feed('<tool_call>{"name": "f", "arguments": {"x": "')
    for _ in range(100):
        thought.feed("y" * 100)
    assert not thought._open
    thought.feed('"}}</tool_call>')
    assert thought.finish(cut=False) == []
    thought = OpenThought(fresh)
    thought.feed(f'<tool_call>{{"name": "f", "arguments": {{"x": "{"y" * 5000}"}}')  # without the last brace
    assert thought.finish(cut=False) == []


def opened(*, sure: bool, **more: Any) -> OpenedAnswer:
    return OpenedAnswer(fresh, OpenedReasoning(), sure=sure, **more)


# -- thoughts that the prompt opened ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "thought", "shown", "calls"),
    [
        ("a b</think>c", "a b", "c", 0),
        ("</think>c", "", "c", 0),
        (f"a</think>{CALL}", "a", "", 1),
        (f"a {CALL}</think>c", f"a {CALL}", "c", 0),
        ("<think>a</think>c", "a", "c", 0),  # the model opens it again
        ("\n <think>\na</think>c", "\na", "c", 0),
        ("<thin", "<thin", "", 0),
        ("  a</think>c", "  a", "c", 0),
        ("a", "a", "", 0),
        ("a</think>b\n<think>c</think>d", "ac", "b\nd", 0),
    ],
)
def test_an_answer_that_begins_in_a_thought(text: str, thought: str, shown: str, calls: int) -> None:
    events = read(opened(sure=True), [text])
    for cut in [*one_cut(text), list(text)]:
        assert read(opened(sure=True), cut) == events
    assert (thought_in(events), text_in(events), len(calls_in(events))) == (thought, shown, calls)


QUOTING = '<tool_call>{"name": "f", "arguments": {"x": "a</think>b"}}</tool_call>'
"""A call with the closing tag in a value."""


@pytest.mark.parametrize(
    ("text", "thought", "shown", "calls", "is_opened"),
    [
        ("a b</think>c", "a b", "c", 0, True),
        ("a\n```\nb</think>c", "a\n```\nb", "c", 0, True),  # code in a thought need not be closed
        (f"a {CALL} b</think>c", f"a {CALL} b", "c", 0, True),
        (f"a {CALL}</think>{CALL}", f"a {CALL}", "", 1, True),
        (f"a {CALL[:-25]}</think>c", f"a {CALL[:-25]}", "c", 0, True),  # in half a call
        ("a", "", "a", 0, False),
        ("", "", "", 0, False),
        ("<thin", "", "<thin", 0, False),
        (CALL, "", "", 1, False),
        (f"a\n{CALL}", "", "a\n", 1, False),
        (f"a {QUOTING}", "", "a ", 1, False),
        (f"a {QUOTING} b</think>c", "", "a  b</think>c", 1, False),
        ("<think>a</think>c", "a", "c", 0, False),
        (f"\n<think>a {CALL}", f"a {CALL}", "", 0, False),
    ],
)
def test_a_guess_is_revised_by_what_is_seen(text: str, thought: str, shown: str, calls: int, is_opened: bool) -> None:
    whole = opened(sure=False)
    whole.is_whole = True
    events = read(whole, [text])
    assert (thought_in(events), text_in(events), len(calls_in(events))) == (thought, shown, calls)
    for cut in [*one_cut(text), [text], list(text)]:
        # What was emitted as reasoning is text where there was no thought: once, or again if reasoning has a field.
        once, again = (opened(sure=False, repeats=repeats) for repeats in (False, True))
        events = read(once, cut)
        assert thought_in(events) + text_in(events) == thought + shown
        assert (len(calls_in(events)), once.opened) == (calls, is_opened)
        events = read(again, cut)
        assert text_in(events) == shown
        assert thought_in(events) == thought or (not is_opened and shown.startswith(thought_in(events)))
        assert (len(calls_in(events)), again.opened) == (calls, is_opened)


def test_a_thought_that_the_limit_cut_stays_one() -> None:
    for text in ("I look", f"I look {CALL[:-25]}", "I look </thi"):
        for cut in (list(text), [text]):
            parser = opened(sure=False, repeats=True)
            events = [event for piece in cut for event in parser.feed(piece)] + parser.finish(cut=True)
            assert (thought_in(events), text_in(events), len(calls_in(events))) == (text, "", 0)
            assert parser.opened is None


def test_what_is_kept_of_a_guessed_thought_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_module, "MAX_KEPT", 2000)
    parser = opened(sure=False, repeats=True)
    events = [event for _ in range(300) for event in parser.feed("So be it. ")]
    assert text_in(events)[:2000] == ("So be it. " * 200)
    parser = opened(sure=False)  # where nothing is emitted twice, nothing is kept
    assert not text_in([event for _ in range(300) for event in parser.feed("So be it. ")])
    assert not parser._said
    assert len("".join(parser._ahead)) < 20


def test_a_thought_in_a_channel_that_the_prompt_opened() -> None:
    tags = OpenedReasoning("<|open|>think<|sep|>", "<|close|>think<|sep|>", channel=True)
    events = read(OpenedAnswer(fresh, tags, sure=True), ["a<|close|>think<|sep|>c"])
    assert [event for event in events if isinstance(event, Reasoning)] == [
        Reasoning("a", channel=True),
        Reasoning("", markup=True, channel=True),
    ]
    assert text_in(events) == "c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{CALL}</think>", ""),
        (f"{CALL}\n</think>\n\nDone", "\n\n\nDone"),
        (f"{CALL}</think>{CALL}", ""),
        (f"{CALL} so </think>b", " so </think>b"),
        (f"{CALL}`</think>`", "`</think>`"),
        (f"{CALL}[/THINK]b", "b"),
    ],
)
def test_an_end_directly_behind_a_call_is_markup(text: str, shown: str) -> None:
    events = read(fresh(), [text])
    for cut in [*one_cut(text), list(text)]:
        assert read(fresh(), cut) == events
    assert text_in(events) == shown


def test_streams_whole_and_pieces_of_a_stray_end_agree_on_the_wire() -> None:
    answer = agreed(f"{tag()}</think>", format="hermes")
    assert (answer.content, answer.named_calls) == (None, [("weather", CITY)])
    assert check_stream(raw_stream(sent({"content": f"{tag()}</think>"}), reasoning="ignore")).only.content is None
