"""Harmony's messages without their special tokens, as backends give them that leave such tokens out."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcall_middleware.formats.families.messages import HARMONY
from toolcall_middleware.formats.registry import for_model, get
from toolcall_middleware.parsing.calls.harmony_messages import called
from toolcall_middleware.parsing.events import Event, Stop

from .bodies import Reader, hostile, started
from .streams import calls_in, text_in, thought_in

TOOLS: dict[str, dict[str, Any]] = {"f": {}, "g": {}, "two_json": {}, "python": {"properties": {"code": {}}}}
ANSWERS = Reader(HARMONY.openers, TOOLS, ends=HARMONY.markup.ends)
ANY_MODEL = Reader(get("auto").openers, TOOLS)  # type: ignore[attr-defined]
GPT_OSS = Reader(for_model("auto", "openai/gpt-oss-20b").openers, TOOLS)  # type: ignore[attr-defined]
A = '{"n": 1}'


def shown(events: list[Event]) -> tuple[str, str, list[tuple[str, Any]]]:
    calls = [(call.name, json.loads(call.arguments)) for call in calls_in(events)]
    return text_in(events), thought_in(events), calls


F: list[tuple[str, Any]] = [("f", {"n": 1})]
# Text, content, thoughts, calls.
EVERY_MODEL: list[tuple[str, str, str, list[tuple[str, Any]]]] = [
    (f"analysisWe need f.assistantcommentary to=functions.f json{A}", "", "We need f.", F),
    (f"analysisUser asks for it.assistantcommentary to=functions.fjson{A}", "", "User asks for it.", F),
    (f"analysisLet's see.assistantanalysis to=functions.f code{A}", "", "Let's see.", F),
    (f"analysisI go on.assistantcommentary to=f json{A}", "", "I go on.", F),
    (f"assistantanalysisOk.assistant to=functions.fcommentary json{A}", "", "Ok.", F),
    (f"commentary to=functions.f json{A}", "", "", F),
    (f"assistantcommentary to=functions.fcommentary json{A}", "", "", F),
    (f" to=functions.fcommentary json{A}", "", "", F),
    (f"assistant to=functions.fcommentary{A}", "", "", F),
    (f"analysis to=functions.two_jsonjson{A}", "", "", [("two_json", {"n": 1})]),
    ("analysisWe greet.assistantfinalHello!", "Hello!", "We greet.", []),
    ("assistantfinal\n\nHello!", "\n\nHello!", "", []),
    ("analysisEasy.assistantfinalHello!", "Hello!", "Easy.", []),
    ("finalHello there.", "Hello there.", "", []),
    ('final{"a": 1}', '{"a": 1}', "", []),
    ("final**Yes**", "**Yes**", "", []),
    (f"commentaryChecking it now.assistantcommentary to=functions.f json{A}", "Checking it now.", "", F),
    ("analysisWe greet. The assistant answers.", "", "We greet. The assistant answers.", []),
    (f"analysisSo f.assistantcommentaryI look.assistantcommentary to=functions.f json{A}", "I look.", "So f.", F),
    (
        f"analysisWe do.assistantcommentary to=functions.f json{A}\nassistantcommentary to=functions.g json{{}}",
        "",
        "We do.",
        [*F, ("g", {})],
    ),
    (
        f"analysisWe do.assistantcommentary to=functions.f json{A}assistantanalysisDone.assistantfinalYes.",
        "Yes.",
        "We do.Done.",
        F,
    ),
    (f"analysisWe do.assistantcommentary to=functions.f json{A} I did.", " I did.", "We do.", F),
    (f'assistantfinal{{"tool_calls": [{{"name": "f", "arguments": {A}}}]}}', "", "", F),
    (
        f'analysisSo be it.assistantcommentary json{{"tool_calls": [{{"name": "f", "arguments": {A}}}]}}',
        "",
        "So be it.",
        F,
    ),
]
GPT_OSS_ONLY: list[tuple[str, str, str, list[tuple[str, Any]]]] = [
    (f"I look.assistantcommentary to=functions.f json{A}", "I look.", "", F),
    (f"Banana assistant at work.assistant to=functions.fcommentary json{A}", "Banana assistant at work.", "", F),
]


@pytest.mark.parametrize("row", EVERY_MODEL, ids=[row[0][:70] for row in EVERY_MODEL])
@pytest.mark.parametrize("reader", [ANSWERS, GPT_OSS, ANY_MODEL], ids=["harmony", "auto, gpt-oss", "auto"])
def test_words_are_messages(reader: Reader, row: tuple[str, str, str, list[tuple[str, Any]]]) -> None:
    for pieces in ([row[0]], list(row[0])):
        assert shown(reader.events(pieces)) == row[1:]


@pytest.mark.parametrize("row", GPT_OSS_ONLY, ids=[row[0][:70] for row in GPT_OSS_ONLY])
def test_a_call_in_words_stands_behind_text_where_the_model_is_known(
    row: tuple[str, str, str, list[tuple[str, Any]]],
) -> None:
    for pieces in ([row[0]], list(row[0])):
        for reader in (ANSWERS, GPT_OSS):
            assert shown(reader.events(pieces)) == row[1:]
        assert shown(ANY_MODEL.events(pieces)) == (row[0], "", [])


PROSE = [
    "analysis",
    "analysis of the data",
    "analysis: We looked at it.",
    "analysis, We think, is hard",
    "analysis\nWe looked at it.",
    "analysis We looked at it.",
    "analysist We see",
    "analysis2.py holds it",
    "analysisResult is 5",
    "analysisUserName is set",
    "finalScore and finalResult are set",
    "commentaryText, as said",
    "analysis_The end",
    "Analysis We did.",
    "assistant",
    "assistants to=functions",
    "assistant to the king",
    "assistant to=me",
    'assistant to={"n": 1}',
    "assistantship",
    "commentary to follow",
    'commentary to=all {"n": 1}',
    "final",
    "final answer: 3",
    "final\n\nHello",
    "finalize it",
    "finally, We did",
    'to=functions.zz json{"n": 1}',
    'The assistantcommentary to=functions.zz json{"n": 1} and',
    'The `assistantcommentary to=functions.f json{"n": 1}` and',
    '```\nassistantcommentary to=functions.f json{"n": 1}\n```',
    "An assistantfinal word",
]


@pytest.mark.parametrize("text", PROSE)
@pytest.mark.parametrize("reader", [ANSWERS, GPT_OSS, ANY_MODEL], ids=["harmony", "auto, gpt-oss", "auto"])
def test_prose_with_these_words_is_prose(reader: Reader, text: str) -> None:
    text = f"So:\n{text}" if text.startswith("```") else text
    for pieces in ([text], list(text)):
        assert shown(reader.events(pieces)) == (text, "", [])


@pytest.mark.parametrize("end", ["", "assistantfinalDone."])
def test_a_call_of_a_tool_that_is_not_offered_comes_out_as_it_was(end: str) -> None:
    call = f"assistantcommentary to=functions.zz json{A}"
    assert ANSWERS.text(f"analysisWe do.{call}{end}") == call + end.removeprefix("assistantfinal")
    assert ANSWERS.text(f"analysisWe do.{call}{end}", unknown_tool="drop") == end.removeprefix("assistantfinal")
    assert not ANSWERS.calls(f"analysisWe do.{call}{end}")


def test_a_recipient_without_json_is_no_call() -> None:
    text = "assistantanalysis to=python codeprint(1)"
    assert shown(ANSWERS.events([f"analysisWe do.{text}"])) == (text, "We do.", [])
    assert shown(ANSWERS.events([text])) == (text, "", [])
    assert shown(ANSWERS.events(["assistantcommentary to=functions.f"])) == (
        "assistantcommentary to=functions.f",
        "",
        [],
    )


def test_the_next_turn_is_not_read() -> None:
    text = f'commentary to=functions.f json{A}functions.f to=assistantcommentary{{"t": 3}}assistantfinalIt is 3.'
    for pieces in ([text], list(text)):
        events = ANSWERS.events(pieces)
        assert shown(events) == ("", "", F)
        assert events[-1] == Stop("functions.f to=assistant")


@pytest.mark.parametrize("header", ["assistantcommentary to=functions.f js", "assistant to=functions.f"])
def test_a_header_that_was_cut_off_is_no_content(header: str) -> None:
    for pieces in ([f"analysisWe do.{header}"], list(f"analysisWe do.{header}")):
        assert shown(ANSWERS.events(pieces, cut=True)) == ("", "We do.", [])


def test_a_cut_call_is_a_prefix_of_json() -> None:
    text = 'analysisWe do.assistantcommentary to=functions.f json{"s": "say \\"hi\\"", "n": 15}'
    ANSWERS.check_cut(text, text.index("{") + 1, text.index("}"))


@pytest.mark.parametrize(
    ("recipient", "name"),
    [("functions.f", "f"), ("f", "f"), ("functions.fjson", "f"), ("fcommentary", "f"), ("fcommentaryjson", "f"),
     ("two_json", "two_json"), ("two_jsoncode", "two_json"), ("zzjson", "zzjson"), ("json", "json"), ("", "")],
)  # fmt: skip
def test_what_is_glued_to_a_name_is_none_of_it(recipient: str, name: str) -> None:
    assert called(recipient, TOOLS.__contains__) == name


def test_everything_streams() -> None:
    begin = "analysisWe do it. "
    assert started(ANSWERS.fresh().feed(f"{begin}assistantcommentary to=functions.f json{{")) == ["f"]
    scanner = ANSWERS.fresh()
    scanner.feed(begin)
    assert all(scanner.feed(char) for char in "some words of it")
    head = "commentary to=functions.f json"
    assert ANSWERS.delay(head + '{"s": "', "abc def " * 9, '"}') == 0


WORDS = ["assistant", "analysis", "commentary", "final", " to=functions.f", " to=zz", " json", "json", A, "We do.",
         "functions.f to=assistant", "{", "}", "assistantcommentary to=functions.g", "assistantfinal"]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=100)
@example("assistantfinal to=functions.f", random.Random(1), True)
@given(hostile(*WORDS), st.randoms(use_true_random=False), st.booleans())
def test_any_text_reads_the_same_however_it_is_cut(text: str, rng: random.Random, cut: bool) -> None:
    for begin in ("", "analysisWe ", f"commentary to=functions.f json{A}"):
        ANSWERS.check_any(begin + text, rng, cut=cut)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(), max_size=4), st.text())
def test_any_arguments_and_any_thought_come_back(arguments: dict[str, Any], thought: str) -> None:
    if "assistant" in thought:
        return
    text = f"analysisWe {thought}assistantcommentary to=functions.f json{json.dumps(arguments)}"
    assert shown(ANSWERS.events([text])) == ("", f"We {thought}", [("f", arguments)])


@pytest.mark.parametrize("unit", ["a b ", "assistant ", "assistantcommentary ", "assistantanalysis", "a", "to=f "])
@pytest.mark.parametrize("begin", ["", "analysisWe ", f"commentary to=functions.f json{A}", "assistantcommentary "])
@pytest.mark.parametrize("step", [4, 0])
def test_work_grows_with_the_text_and_no_faster(
    unit: str, begin: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ANSWERS.check_linear(begin, unit, monkeypatch, step=step, size=3_000)
