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
from toolcall_middleware.model import Tool, ToolSet
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
    def stopped(self) -> bool:
        return self.answer.message.stopped

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


F, G = [0, "f", '{"a": 1}'], [1, "g", "{}"]
EMPTY = [0, "f", "{}"]
CUT = '[g|{"a"'
WAITS: dict[str, Any] = {"stream_arguments": False}
DROP: dict[str, Any] = {"prose": "drop", "may_call": True}
HELD: dict[str, Any] = {"hold_prose": True}
RUN: dict[str, Any] = {"custom": frozenset({"run"})}
ERROR: dict[str, Any] = {"malformed_arguments": "error", **WAITS}
REASONS = {
    "x": ["stop", "length", "content_filter", "model_length", "abort"],
    ONE: ["length", "content_filter"],
}


def row(name: str, text: str, reason: str | None = "stop", due: dict[str, Any] | None = None, **policy: Any) -> Any:
    """due: what of `Played` is to come of the text under this policy."""
    return pytest.param(text, reason, due or {}, policy, id=name)


def stopped(name: str, text: str, said: str, *stops: str, **due: Any) -> Any:
    """A row whose client has stop strings, one of which ends the answer where the text holds one."""
    ends = any(one in text for one in stops)
    told = {"said": said, "reason": "stop" if ends else "length", "stopped": ends, **due}
    return row(f"stop, {name}", text, "length", told, stop=stops)


def test_the_tools_that_may_be_called_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[frozenset[str]] = []
    only = ToolSet.only

    def counted(tools: ToolSet, names: frozenset[str]) -> ToolSet:
        looked.append(names)
        return only(tools, names)

    monkeypatch.setattr(ToolSet, "only", counted)
    got = Played(['[f|{"a": 1}]'] * 20, tools=ToolSet.of([Tool("f"), Tool("g")]))
    assert len(got.calls) == 20
    assert len(looked) == 1


@pytest.mark.parametrize(
    ("text", "reason", "due", "policy"),
    [
        row("calls are counted", TWO, due={"calls": [F, G], "said": " and ", "reason": "tool_calls"}),
        # -- the finish_reason is true
        *(row(f"{one} is true", text, one, {"reason": one}) for text, reasons in REASONS.items() for one in reasons),
        *(row(f"{one} without a call", "x", one, {"reason": "stop"}) for one in (None, "tool_calls", "function_call")),
        *(row(f"{one}, a call", ONE, one, {"reason": "tool_calls"}) for one in ("stop", "tool_calls", None, "abort")),
        row("model_length and a call", ONE, "model_length", {"reason": "length"}),
        row("deprecated", ONE, due={"reason": "function_call"}, legacy=True),
        row("deprecated, no call", "x", due={"reason": "stop"}, legacy=True),
        # -- stop strings
        stopped("in the middle", "one STOP two", "one ", "STOP"),
        stopped("half of it", "one STO two", "one STO two", "STOP"),
        stopped("half of it at the end", "one ST", "one ST", "STOP"),
        stopped("two of them", "one END STOP", "one ", "STOP", "END"),
        stopped("its beginning twice", "STSTOP", "ST", "STOP"),
        stopped("nothing else", "STOP", "", "STOP"),
        stopped("its first character twice", "aab", "a", "ab"),
        stopped("not there", "x", "x", "STOP"),
        *(
            row(f"{one} cuts no call, {streams}", '[f|{"a": 1}]', due={"calls": [F], "reason": "tool_calls"},
                stop=(one,), stream_arguments=streams)
            for one in ("a", "]", "[", "f|", '": ', "{")
            for streams in (True, False)
        ),
        stopped("after a call", "[f|{}] x STOP [g|{}]", " x ", "STOP", calls=[EMPTY], reason="tool_calls"),
        row("a call interrupts a stop", "ST[f|{}]OP", due={"said": "STOP", "calls": [EMPTY]}, stop=("STOP",)),
        row("a stop in a cut call", 'x [f|{"a', "length", {"said": 'x [f|{"a'}, stop=('"a',), **WAITS),
        # -- how many calls
        *(
            row(f"the last wanted call, {streams}", f"a{TWO}b", "length",
                {"calls": [F], "said": "a", "reason": "tool_calls", "stopped": True},
                max_tool_calls=1, stream_arguments=streams)
            for streams in (True, False)
        ),
        row("three of five", "[f|{}]" * 5, due={"calls": [[at, "f", "{}"] for at in range(3)]}, max_tool_calls=3),
        row("three of four", "[f|{}]" * 3, due={"stopped": False}, max_tool_calls=4),
        row("another turn", "[f|{}]#x", due={"calls": [EMPTY], "said": "", "reason": "tool_calls", "stopped": True}),
    ],
)  # fmt: skip
def test_how_an_answer_ends(text: str, reason: str | None, due: dict[str, Any], policy: dict[str, Any]) -> None:
    played = play(text, reason, **policy)
    assert {name: getattr(played, name) for name in due} == due


@pytest.mark.parametrize(
    ("text", "reason", "due", "policy"),
    [
        # -- text beside calls
        row("dropped", ONE, due={"said": ""}, **DROP),
        row("dropped between", TWO, due={"said": ""}, **DROP),
        row("kept without a call", "only text", due={"said": "only text"}, **DROP),
        row("kept beside half a call", "text [f|{", "length", {"said": "text [f|{"}, **DROP, **WAITS),
        row("held until the call", ONE, due={"said": "Hi  there", "calls": [F]}, **HELD),
        row("held for the retry", "no call", due={"said": "", "held": "no call"}, **HELD),
        row("held, though it is dropped", "no call", due={"held": "no call"}, **HELD, **DROP),
        row("held up to a stop", "no call", due={"held": "no "}, stop=("call",), **HELD),
        row("held with half a call", "x [f|{", "length", {"held": "x [f|{"}, **HELD, **WAITS),
        row("held and dropped", ONE, due={"said": "", "calls": [F]}, **HELD, **DROP),
        # -- calls that wait for their end
        *(
            row(f"cut by {one}, waiting", f"Hi [f|{{}}] x {CUT}", one,
                {"calls": [EMPTY], "said": f"Hi  x {CUT}", "reason": one}, **WAITS)
            for one in ("length", "content_filter")
        ),
        row("the backend is lost", CUT, None, {"said": CUT, "calls": []}, lost=True, **WAITS),
        *(
            row(f"cut by {one}", CUT, one, {"said": "", "calls": [[0, "g", '{"a"']], "reason": "length"})
            for one in ("length", "model_length")
        ),
        row("waiting behind the first", TWO, due={"calls": [F, G]}, hold_later=True),
        *(
            row(f"cut by {one} behind others", '[f|{"a": 1}][g|{"b": ', one,
                {"calls": [F], "said": "", "reason": one}, hold_later=True)
            for one in ("length", "content_filter")
        ),
        row("the first has left by then", '[f|{"a": ', "length", {"calls": [[0, "f", '{"a": ']]}, hold_later=True),
        # -- what is malformed or too large
        row("repaired", "[f|{~}]", due={"said": "", "calls": [[0, "f", "{~}"]], "code": None}, **WAITS),
        row("as text", "[f|{~}]", due={"said": "[f|{~}]", "calls": []}, malformed_arguments="text", **WAITS),
        row("an error", "[f|{~}]", due={"said": "", "calls": [], "code": "malformed_tool_arguments"}, **ERROR),
        row("an error behind text", "a [f|{}] b [g|{~}] c [h|{}]", due={"said": "a  b ", "calls": [EMPTY]}, **ERROR),
        row("a malformed event", "a [?|{}]", due={"said": "a ", "code": "unknown_tool_call"}),
        *(
            row(f"{text}, {streams}", text, due={"code": None}, max_arguments_bytes=4, stream_arguments=streams)
            for text in ("[f|{ü}]", "[f|{1}][f|{1}]")  # of each call, not of all
            for streams in (True, False)
        ),
        # -- reasoning and custom tools
        row("reasoning is text", "(hm) x", due={"said": "(hm) x"}),
        row("reasoning has a field", "(hm) x", due={"thought": "hm", "said": " x"}, reasoning_field="reasoning"),
        *(
            row(f"custom {one}", f"[run|{one}]", due={"calls": [[0, "run", text]]}, **RUN)
            for one, text in [
                *((one, one) for one in ('{"other": 1}', '{"input": 5}', "1", "broken")),
                ('{"input": "\\ud83d"}', "\ud83d"), ('"a\\nb"', "a\nb"), ('{"command": "a\\nb"}', "a\nb"),
                ('{"note": "n", "input": "a"}', "a"), ("{}", ""),
            ]
        ),
        row("custom, cut", '[run|{"input": "a', "length", {"said": '[run|{"input": "a'}, **RUN),
    ],
)  # fmt: skip
def test_what_becomes_of_a_text(text: str, reason: str | None, due: dict[str, Any], policy: dict[str, Any]) -> None:
    played = play(text, reason, **policy)
    assert {name: getattr(played, name) for name in due} == due


def test_ids_are_random() -> None:
    assert len({new_call_id() for _ in range(1000)}) == 1000
    assert all(re.fullmatch(r"call_[a-zA-Z0-9]{24}", call_id) for call_id in Played([TWO]).ids)


@pytest.mark.parametrize(
    ("texts", "streamed", "kinds"),
    [
        (["Hi ", "[f|{", '"a"', ": 1}", "]"], True, [Content, CallOpened, *[Arguments] * 3, CallClosed]),
        (['[f|{"a"', ": 1}", "]"], False, [CallOpened, Arguments, CallClosed]),
    ],
)
def test_text_and_arguments_leave_as_they_come_unless_they_wait(
    texts: list[str], streamed: bool, kinds: list[type]
) -> None:
    assert [type(op) for op in Played(texts, stream_arguments=streamed).fed] == kinds


def test_nothing_is_said_after_the_end() -> None:
    played = Played(["x"])
    assert played.answer.feed("y") == []
    assert played.answer.finish("stop") == ([], "stop")


def test_held_prose_leaves_with_the_first_call() -> None:
    assert isinstance(Played([ONE], hold_prose=True).ops[0], Content)
    assert Played(["Hi "], hold_prose=True).fed == []


@pytest.mark.parametrize("policy", [HELD, DROP])
def test_text_that_waits_is_bounded(policy: dict[str, Any]) -> None:
    answer = ChoiceAnswer(ScriptParser(), made_policy(max_response_bytes=10, **policy))
    answer.feed("x" * 10)
    assert answer.message.fault is None
    answer.feed("x")
    assert answer.message.fault is not None
    assert (answer.message.fault.code, answer.message.fault.status) == ("upstream_error", 502)
    assert answer.message.stopped


@pytest.mark.parametrize(
    ("text", "policy", "quoted"), [("a [g|{~}] c", ERROR, "[g|{~}]"), ("a [?|{}]", {}, "'?'")], ids=["call", "name"]
)
def test_a_fault_says_what_was_written(text: str, policy: dict[str, Any], quoted: str) -> None:
    fault = play(text, **policy).answer.message.fault
    assert isinstance(fault, ToolCallError)
    assert quoted in fault.message
    assert fault.headers == {"x-should-retry": "false"}


@pytest.mark.parametrize("streamed", [True, False])
def test_arguments_are_bounded_in_bytes(streamed: bool) -> None:
    for texts in (["[f|{ü1}]"], list("[f|{ü1}]")):
        assert Played(texts, max_arguments_bytes=4, stream_arguments=streamed).code == "limit_exceeded"
    for text, index in (("[f|{123}]", 0), ("[f|{1}][g|{123}]", 1)):
        fault = Played([text], max_arguments_bytes=4, stream_arguments=streamed).answer.message.fault
        assert fault is not None
        assert fault.param == f"tool_calls[{index}].function.arguments"


def test_a_custom_tool_gets_its_free_text() -> None:
    played = Played(['[run|{"input": "a\\nb"}][f|{"input": "x"}]'], custom=frozenset({"run"}))
    assert played.calls == [[0, "run", "a\nb"], [1, "f", '{"input": "x"}']]
    assert [op.custom for op in played.ops if isinstance(op, CallOpened | Arguments)][:2] == [True, True]
    assert not any(op.custom for op in played.ops[2:] if isinstance(op, CallOpened | Arguments))


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
    answer = ChoiceAnswer(ScriptParser(), made_policy(hold_later=True))
    assert [type(op) for op in answer.feed('[f|{"a')] == [CallOpened, Arguments]
    assert answer.feed('": 1}][g|{"b') == [Arguments(0, '": 1}'), CallClosed(0)]
    assert [type(op) for op in answer.feed('": 2}]')] == [CallOpened, Arguments, CallClosed]
