"""What the model wrote as a call can come out as it was written, to the byte: the text beside calls, and the raw text
that each call's end carries, are together the whole answer.
"""

from __future__ import annotations

import pytest

from tests.helpers.policies import policy as made_policy
from toolcall_middleware.answer.operations import Content
from toolcall_middleware.formats import markup, registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.events import CallEnd, Event, Malformed, Reasoning, Text
from toolcall_middleware.response.choice import ChoiceAnswer

from ..parsing.streams import random_cuts
from . import goldens

FORMATS = goldens.formats()


def written(events: list[Event]) -> str:
    """All that the events say was written."""
    parts = [
        event.text if isinstance(event, (Text, Reasoning)) else event.raw
        for event in events
        if isinstance(event, (Text, Reasoning, CallEnd))
    ]
    return "".join(parts)


# Markup around plain text, which is no call's and never content.
OTHER_MARKUP = (
    "<response>", "<answer>", "<|channel>thought", "<|START_RESPONSE|>", "<|START_TEXT|>", "all\n",
    "<|open|>response", "<|open|>think", "<|close|>message",
    "<|begin|>", "<|think|>", "<|content|>", "<|tool_calls|>", "<|calls|>",
    "<|content_text|>", "<|content_thinking|>", "<|message_model|>", "calls><|message_sep|>",
    "<|channel|>final", "analysisWe", "analysis<|message|>We",
)  # fmt: skip


def cases(name: str) -> list[goldens.Case]:
    """Those that hold nothing but calls, text and reasoning."""
    return [
        case
        for case in goldens.load(name)
        if not case.options
        and case.expected_stop is None
        and not case.text.rstrip().endswith(markup.gathered().ends)
        and not (name in {"harmony", "llm-jp-harmony", "beam"} and case.text.count("<|message|>") > 1)
        and not (name == "muse_glimmer" and "<|message|>" in case.text)
        and not any(markup in case.text for markup in OTHER_MARKUP)
    ]


def in_pieces(text: str) -> list[list[str]]:
    return [[text], list(text), *random_cuts(text, 3)]


@pytest.mark.parametrize("name", FORMATS)
def test_text_and_raw_calls_are_all_that_was_written(name: str) -> None:
    fmt = registry.get(name)
    calls = 0
    for case in cases(name):
        for pieces in in_pieces(case.text):
            parser = fmt.parser(case.offered, ParserOptions(keep_raw=True))
            events = [event for piece in pieces for event in parser.feed(piece)]
            events += parser.finish(cut=case.ends_cut)
            if any(isinstance(event, CallEnd) for event in events):
                calls += 1
                # What ends calls, behind one that it does not end, is nobody's.
                said, closers = written(events), markup.gathered().closers
                assert said == case.text or case.text.removeprefix(said).strip() in closers, case.id
    assert calls


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_that_is_text_comes_out_as_it_was_written(name: str) -> None:
    fmt = registry.get(name)
    policy = made_policy(stream_arguments=False, malformed_arguments="text")
    for case in cases(name):
        parser = fmt.parser(case.offered, ParserOptions(keep_raw=True))
        events = [*parser.feed(case.text), *parser.finish(cut=case.ends_cut)]
        ends = [event for event in events if isinstance(event, CallEnd)]
        if not ends or not all(event.repaired or not event.complete for event in ends):
            continue
        for pieces in in_pieces(case.text):
            answer = ChoiceAnswer(fmt.parser(case.offered, ParserOptions(keep_raw=True)), policy)
            ops = [op for piece in pieces for op in answer.feed(piece)]
            ops += answer.finish("length" if case.ends_cut else "stop")[0]
            assert "".join(op.text for op in ops if isinstance(op, Content)) == case.text, case.id
            assert answer.message.calls == 0


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "mistral_v11", "deepseek_v31", "harmony", "kimi_k2"])
def test_a_refused_call_is_told_of_whole(name: str) -> None:
    fmt = registry.get(name)
    text = "Let me look. " * (name != "harmony") + fmt.render_calls([ToolCall("nope", '{"x": [1, "}"]}')])
    for pieces in in_pieces(text):
        parser = fmt.parser(ToolSet.of([Tool("f")]), ParserOptions(keep_raw=True, unknown_tool="error"))
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
        (told,) = [event for event in events if isinstance(event, Malformed)]
        assert told.name == "nope"
        assert told.raw == text.removeprefix("Let me look. ")
        assert written(events) == text
