"""What becomes of a parser's events: which call leaves and how, which text, and which finish_reason is true."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.policies import policy as made_policy
from toolcall_middleware.answer.operations import Arguments, CallClosed, CallOpened, Content, Op, ReasoningText
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.response.choice import ChoiceAnswer
from toolcall_middleware.wire.openai import new_call_id

from .streams import ScriptParser, pieces

ONE = 'Hi [f|{"a": 1}] there'
TWO = '[f|{"a": 1}] and [g|{}]'


class Played:
    """An answer that was fed, merged: `said` is its text, `calls` are [index, name, arguments]."""

    def __init__(self, texts: list[str], reason: str | None = "stop", *, lost: bool = False, **policy: Any) -> None:
        self.answer = ChoiceAnswer(ScriptParser(), made_policy(**policy))
        self.fed = [op for text in texts for op in self.answer.feed(text)]
        last, self.reason = self.answer.finish(reason, lost=lost)
        self.ops: list[Op] = self.fed + last
        self.said = "".join(op.text for op in self.ops if isinstance(op, Content))
        self.thought = "".join(op.text for op in self.ops if isinstance(op, ReasoningText))
        self.calls: list[list[Any]] = []
        self.ids: list[str] = []
        for op in self.ops:
            match op:
                case CallOpened(index, call_id, name):
                    self.calls.append([index, name, ""])
                    self.ids.append(call_id)
                case Arguments(index, text):
                    assert index == len(self.calls) - 1
                    self.calls[-1][2] += text

    @property
    def code(self) -> Any:
        return None if self.answer.message.fault is None else self.answer.message.fault.code

    @property
    def held(self) -> str:
        """The text that waits for a call which has not come."""
        return "".join(self.answer.message.prose)


def play(text: str, reason: str | None = "stop", **options: Any) -> Played:
    """The same, whole and by characters and by every two cuts; all say the same."""
    whole = Played([text], reason, **options)
    cuts = [range(len(text)), *itertools.combinations(range(len(text) + 1), 2)]
    for ends in cuts:
        other = Played(pieces(text, ends), reason, **options)
        assert (other.said, other.thought, other.calls) == (whole.said, whole.thought, whole.calls), ends
        assert (other.reason, other.code) == (whole.reason, whole.code), ends
        assert other.held == whole.held
    return whole


def test_calls_are_counted_and_named_once() -> None:
    played = play(TWO)
    assert played.calls == [[0, "f", '{"a": 1}'], [1, "g", "{}"]]
    assert (played.said, played.reason) == (" and ", "tool_calls")
    assert all(re.fullmatch(r"call_[a-zA-Z0-9]{24}", call_id) for call_id in played.ids)
    assert len(set(played.ids)) == 2


def test_ids_are_random() -> None:
    assert len({new_call_id() for _ in range(1000)}) == 1000


def test_text_and_arguments_leave_as_they_come() -> None:
    played = Played(["Hi ", "[f|{", '"a"', ": 1}", "]"])
    assert [type(op) for op in played.fed] == [Content, CallOpened, *[Arguments] * 3, CallClosed]


@pytest.mark.parametrize(
    ("text", "reason", "due"),
    [
        ("x", "stop", "stop"),
        ("x", "length", "length"),
        ("x", "content_filter", "content_filter"),
        ("x", "model_length", "model_length"),
        ("x", None, "stop"),
        ("x", "tool_calls", "stop"),
        ("x", "function_call", "stop"),
        ("x", "abort", "abort"),
        (ONE, "stop", "tool_calls"),
        (ONE, "tool_calls", "tool_calls"),
        (ONE, None, "tool_calls"),
        (ONE, "abort", "tool_calls"),
        (ONE, "length", "length"),
        (ONE, "content_filter", "content_filter"),
        (ONE, "model_length", "length"),
    ],
)
def test_the_finish_reason_is_true(text: str, reason: str | None, due: str) -> None:
    assert play(text, reason).reason == due


def test_the_deprecated_answer_has_its_own_finish_reason() -> None:
    assert play(ONE, legacy=True).reason == "function_call"
    assert play("x", legacy=True).reason == "stop"


# -- stop strings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stop", "said", "reason"),
    [
        ("one STOP two", ("STOP",), "one ", "stop"),
        ("one STO two", ("STOP",), "one STO two", "stop"),
        ("one ST", ("STOP",), "one ST", "stop"),
        ("one END STOP", ("STOP", "END"), "one ", "stop"),
        ("STSTOP", ("STOP",), "ST", "stop"),
        ("STOP", ("STOP",), "", "stop"),
        ("aab", ("ab",), "a", "stop"),
        ("x", ("STOP",), "x", "stop"),
    ],
)
def test_a_stop_string_ends_the_text(text: str, stop: tuple[str, ...], said: str, reason: str) -> None:
    played = play(text, "length", stop=stop)
    assert played.said == said
    assert played.reason == ("stop" if any(one in text for one in stop) else "length")
    assert played.answer.message.stopped == any(one in text for one in stop)


@pytest.mark.parametrize("stop", [("a",), ("]",), ("[",), ("f|",), ('": ',), ("{",)])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_stop_string_never_cuts_a_call(stop: tuple[str, ...], streamed: bool) -> None:
    played = play('[f|{"a": 1}]', stop=stop, stream_arguments=streamed)
    assert played.calls == [[0, "f", '{"a": 1}']]
    assert played.reason == "tool_calls"


def test_a_stop_string_after_a_call_ends_what_follows() -> None:
    played = play("[f|{}] x STOP [g|{}]", stop=("STOP",))
    assert (played.said, played.calls, played.reason) == (" x ", [[0, "f", "{}"]], "tool_calls")


def test_text_that_a_call_interrupts_is_no_stop_string() -> None:
    played = play("ST[f|{}]OP", stop=("STOP",))
    assert (played.said, played.calls) == ("STOP", [[0, "f", "{}"]])


def test_the_text_of_a_call_that_was_cut_off_is_not_searched_for_stop_strings() -> None:
    assert play('x [f|{"a', "length", stop=('"a',), stream_arguments=False).said == 'x [f|{"a'


# -- how many calls ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
def test_the_model_is_stopped_after_the_last_wanted_call(streamed: bool) -> None:
    played = play("a" + TWO + "b", "length", max_tool_calls=1, stream_arguments=streamed)
    assert played.calls == [[0, "f", '{"a": 1}']]
    assert (played.said, played.reason) == ("a", "tool_calls")
    assert played.answer.message.stopped
    assert len(play("[f|{}]" * 5, max_tool_calls=3).calls) == 3
    assert not play("[f|{}]" * 3, max_tool_calls=4).answer.message.stopped


def test_the_model_is_stopped_when_it_takes_another_turn() -> None:
    played = play("[f|{}]#result")
    assert (played.calls, played.said, played.reason) == ([[0, "f", "{}"]], "", "tool_calls")
    assert played.answer.message.stopped


def test_nothing_is_said_after_the_end() -> None:
    played = Played(["x"])
    assert played.answer.feed("y") == []
    assert played.answer.finish("stop") == ([], "stop")


# -- text beside calls ---------------------------------------------------------------------------------------------


def test_dropped_prose_is_kept_where_there_is_no_call() -> None:
    assert play(ONE, prose="drop", may_call=True).said == ""
    assert play(TWO, prose="drop", may_call=True).said == ""
    assert play("only text", prose="drop", may_call=True).said == "only text"
    assert play("text [f|{", "length", prose="drop", may_call=True, stream_arguments=False).said == "text [f|{"


def test_held_prose_leaves_with_the_first_call() -> None:
    played = play(ONE, hold_prose=True)
    assert (played.said, played.calls) == ("Hi  there", [[0, "f", '{"a": 1}']])
    assert isinstance(played.ops[0], Content)
    assert Played(["Hi "], hold_prose=True).fed == []


def test_held_prose_without_a_call_stays_for_the_retry() -> None:
    played = play("no call", hold_prose=True)
    assert (played.said, played.held) == ("", "no call")
    assert play("no call", hold_prose=True, prose="drop", may_call=True).held == "no call"
    assert play("no call", hold_prose=True, stop=("call",)).held == "no "
    assert play("x [f|{", "length", hold_prose=True, stream_arguments=False).held == "x [f|{"


def test_held_and_dropped_prose_is_dropped() -> None:
    played = play(ONE, hold_prose=True, prose="drop", may_call=True)
    assert (played.said, len(played.calls)) == ("", 1)


@pytest.mark.parametrize("policy", [{"hold_prose": True}, {"prose": "drop", "may_call": True}])
def test_text_that_waits_is_bounded(policy: dict[str, Any]) -> None:
    answer = ChoiceAnswer(ScriptParser(), made_policy(max_response_bytes=10, **policy))
    answer.feed("x" * 10)
    assert answer.message.fault is None
    answer.feed("x")
    assert answer.message.fault is not None
    assert (answer.message.fault.code, answer.message.fault.status) == ("upstream_error", 502)
    assert answer.message.stopped


# -- calls that wait for their end ---------------------------------------------------------------------------------


def test_a_call_that_waits_leaves_in_one_piece() -> None:
    played = Played(['[f|{"a"', ": 1}", "]"], stream_arguments=False)
    assert [type(op).__name__ for op in played.fed] == ["CallOpened", "Arguments", "CallClosed"]
    assert played.calls == [[0, "f", '{"a": 1}']]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_call_that_waits_and_is_cut_off_is_text(reason: str) -> None:
    played = play('Hi [f|{}] x [g|{"a"', reason, stream_arguments=False)
    assert played.calls == [[0, "f", "{}"]]
    assert (played.said, played.reason) == ('Hi  x [g|{"a"', reason)


def test_a_call_that_waits_when_the_backend_is_lost_is_text() -> None:
    played = play('[g|{"a"', None, lost=True, stream_arguments=False)
    assert (played.said, played.calls) == ('[g|{"a"', [])


@pytest.mark.parametrize("reason", ["length", "model_length"])
def test_a_streamed_call_that_is_cut_off_stays_open(reason: str) -> None:
    played = play('[g|{"a"', reason)
    assert (played.said, played.calls, played.reason) == ("", [[0, "g", '{"a"']], "length")


@pytest.mark.parametrize(
    ("malformed", "said", "calls", "code"),
    [
        ("repair", "", [[0, "f", "{~}"]], None),
        ("text", "[f|{~}]", [], None),
        ("error", "", [], "malformed_tool_arguments"),
    ],
)
def test_malformed_arguments_are_dealt_with_as_set(
    malformed: str, said: str, calls: list[Any], code: str | None
) -> None:
    played = play("[f|{~}]", malformed_arguments=malformed, stream_arguments=False)
    assert (played.said, played.calls, played.code) == (said, calls, code)


def test_a_fault_ends_the_answer_and_what_came_before_it_stays() -> None:
    played = play("a [f|{}] b [g|{~}] c [h|{}]", malformed_arguments="error", stream_arguments=False)
    assert played.said == "a  b "
    assert [call[1] for call in played.calls] == ["f"]
    assert isinstance(played.answer.message.fault, ToolCallError)
    assert played.answer.message.fault.headers == {"x-should-retry": "false"}
    assert "[g|{~}]" in played.answer.message.fault.message


def test_a_malformed_event_is_an_unknown_tool() -> None:
    played = play("a [?|{}]")
    assert (played.said, played.code) == ("a ", "unknown_tool_call")
    assert "'?'" in str(played.answer.message.fault)


@pytest.mark.parametrize("streamed", [True, False])
def test_arguments_are_bounded_in_bytes(streamed: bool) -> None:
    assert play("[f|{ü}]", max_arguments_bytes=4, stream_arguments=streamed).code is None
    for texts in (["[f|{ü1}]"], list("[f|{ü1}]")):
        assert Played(texts, max_arguments_bytes=4, stream_arguments=streamed).code == "limit_exceeded"
    # Of each call, not of all.
    assert play("[f|{1}][f|{1}]", max_arguments_bytes=4, stream_arguments=streamed).code is None
    for text, index in (("[f|{123}]", 0), ("[f|{1}][g|{123}]", 1)):
        fault = Played([text], max_arguments_bytes=4, stream_arguments=streamed).answer.message.fault
        assert fault is not None
        assert fault.param == f"tool_calls[{index}].function.arguments"


# -- reasoning and custom tools ------------------------------------------------------------------------------------


def test_reasoning_stays_in_the_text_unless_it_has_a_field() -> None:
    assert play("(hm) x").said == "(hm) x"
    played = play("(hm) x", reasoning_field="reasoning_content")
    assert (played.thought, played.said) == ("hm", " x")


def test_a_custom_tool_gets_its_free_text() -> None:
    played = Played(['[run|{"input": "a\\nb"}][f|{"input": "x"}]'], custom=frozenset({"run"}))
    assert played.calls == [[0, "run", "a\nb"], [1, "f", '{"input": "x"}']]
    assert [op.custom for op in played.ops if isinstance(op, CallOpened | Arguments)][:2] == [True, True]
    assert not any(op.custom for op in played.ops[2:] if isinstance(op, CallOpened | Arguments))


@pytest.mark.parametrize("arguments", ['{"other": 1}', '{"input": 5}', "1", "broken", '{"input": "\\ud83d"}'])
def test_a_custom_tool_gets_what_there_is(arguments: str) -> None:
    played = play(f"[run|{arguments}]", custom=frozenset({"run"}))
    assert played.calls == [[0, "run", "\ud83d" if "ud83d" in arguments else arguments]]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [('"a\\nb"', "a\nb"), ('{"command": "a\\nb"}', "a\nb"), ('{"note": "n", "input": "a"}', "a"), ("{}", "")],
)
def test_a_custom_tool_gets_the_text_that_is_meant(arguments: str, text: str) -> None:
    assert play(f"[run|{arguments}]", custom=frozenset({"run"})).calls == [[0, "run", text]]


def test_a_custom_tool_whose_input_is_cut_off_is_text() -> None:
    assert play('[run|{"input": "a', "length", custom=frozenset({"run"})).said == '[run|{"input": "a'


# -- all together --------------------------------------------------------------------------------------------------


@settings(deadline=None)
@example("[|SSS", [3], {"max_arguments_bytes": 2}, "stop")
@given(
    st.text(alphabet="ab []|#()~fST", max_size=40),
    st.lists(st.integers(0, 40), max_size=6),
    st.fixed_dictionaries(
        {},
        optional={
            "stop": st.just(("ST", "ab")),
            "max_tool_calls": st.integers(1, 2),
            "hold_prose": st.booleans(),
            "may_call": st.just(True),
            "prose": st.sampled_from(["keep", "drop"]),
            "stream_arguments": st.booleans(),
            "malformed_arguments": st.sampled_from(["repair", "text", "error"]),
            "reasoning_field": st.just("reasoning"),
            "max_arguments_bytes": st.integers(2, 6),
            "custom": st.just(frozenset({"f"})),
        },
    ),
    st.sampled_from(["stop", "length", None]),
)
def test_cuts_change_nothing(text: str, ends: list[int], policy: dict[str, Any], reason: str | None) -> None:
    # An error of a setting wants whole calls.
    if policy.get("malformed_arguments", "repair") != "repair":
        policy["stream_arguments"] = False
    whole = Played([text], reason, **policy)
    other = Played(pieces(text, sorted(min(end, len(text)) for end in ends)), reason, **policy)
    if whole.code == "limit_exceeded" and policy.get("stream_arguments", True):
        # How much has left before the limit depends on the pieces.
        assert other.code == whole.code
        return
    assert (other.said, other.thought, other.calls) == (whole.said, whole.thought, whole.calls)
    assert (other.reason, other.code, other.held) == (whole.reason, whole.code, whole.held)


def test_calls_behind_the_first_can_wait_for_their_end() -> None:
    assert play(TWO, hold_later=True).calls == play(TWO).calls
    answer = ChoiceAnswer(ScriptParser(), made_policy(hold_later=True))
    assert [type(op) for op in answer.feed('[f|{"a')] == [CallOpened, Arguments]
    assert answer.feed('": 1}][g|{"b') == [Arguments(0, '": 1}'), CallClosed(0)]
    assert [type(op) for op in answer.feed('": 2}]')] == [CallOpened, Arguments, CallClosed]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_one_that_is_cut_off_behind_others_is_no_call(reason: str) -> None:
    played = play('[f|{"a": 1}][g|{"b": ', reason, hold_later=True)
    assert (played.calls, played.said, played.reason) == ([[0, "f", '{"a": 1}']], "", reason)
    # The first has left by then.
    assert play('[f|{"a": ', reason, hold_later=True).calls == [[0, "f", '{"a": ']]
