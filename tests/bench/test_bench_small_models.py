"""What the benchmark of small models counts, without a model."""

from __future__ import annotations

import argparse
from typing import Any

from tests.helpers.fakes import TextBackend, serve

from . import small_models as bench
from .questions import SETS, Question, QuestionSet

RIGHT = '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}'
WRONG_CITY = RIGHT.replace("Oslo", "Rome")
GIVEN = argparse.Namespace(choice="required", choose=False, constrain="off", limit=None, required=False, log=None)


def test_the_questions_fit_their_tools() -> None:
    for group in SETS:
        functions = {tool["function"]["name"]: tool["function"]["parameters"] for tool in group.tools}
        assert len(functions) == 8
        assert len(group.questions) == 24
        for question in group.questions:
            names = {name for name, _ in question.arguments}
            schema = functions[question.tool]
            assert set(schema["required"]) <= names <= set(schema["properties"])


async def test_answers_are_counted() -> None:
    group = SETS[0]
    few = QuestionSet(group.name, group.tools, group.questions[:2], (Question("Hello"),))

    def model(body: dict[str, Any]) -> str:
        return RIGHT if few.questions[0].text in str(body["messages"][-1]["content"]) else WRONG_CITY

    with serve(TextBackend(model)) as url:
        score = await bench.run(f"{url}/v1", [few], GIVEN)
    assert bench.row(score).split("|")[1:4] == [" 1 of 2 ", " 2 ", " 2 "]
    assert bench.row(score).split("|")[5:7] == [" 0 of 1 ", " 1 of 1 "]


def test_an_argument_is_compared_without_case_or_accepts_any_value() -> None:
    assert bench._fits("OSLO.", ("oslo",))
    assert bench._fits(3.0, (3,))
    assert bench._fits("x", ())
    assert not bench._fits("", ())
    assert not bench._fits("Rome", ("oslo", "bergen"))
