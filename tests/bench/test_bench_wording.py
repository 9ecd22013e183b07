"""What the benchmark of wordings counts, without a model."""

from __future__ import annotations

import argparse
from typing import Any

from tests.helpers.fakes import TextBackend, serve

from .wording import __main__ as bench
from .wording.questions import ANY, SETS, Question, QuestionSet
from .wording.wordings import WORDINGS

RIGHT = '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}'
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


async def test_answers_are_counted_and_the_wording_is_what_the_model_is_sent() -> None:
    group = SETS[0]
    few = QuestionSet(group.name, group.tools, group.questions[:2], (Question("Hello"),))
    seen: list[Any] = []

    def model(body: dict[str, Any]) -> str:
        seen.append(body["messages"])
        return RIGHT if "tool_calls" not in str(body["messages"][-1]["content"]) or len(seen) < 3 else "Hi"

    with serve(TextBackend(model)) as url:
        score = await bench.run(f"{url}/v1", WORDINGS[4], [few], GIVEN)
    assert (score.asked, score.right, score.named, score.single) == (2, 1, 2, 2)
    assert (score.unfitting, score.uncalled, score.fitting, score.called) == (1, 0, 1, 1)
    assert seen[0][1]["content"] == f"{WORDINGS[4].sentence}\n\n{few.questions[0].text}"
    assert seen[2][1]["content"] == "Hello"
    assert "TOOL_NAME" in seen[0][0]["content"]


async def test_the_products_own_wording_is_left_as_it_is() -> None:
    group = SETS[1]
    few = QuestionSet(group.name, group.tools, group.questions[:1], ())
    backend = TextBackend([RIGHT, RIGHT])
    with serve(backend) as url:
        await bench.run(f"{url}/v1", None, [few], GIVEN)
    functions = [tool["function"] for tool in group.tools]
    assert bench._product_block(functions) == backend.bodies[0]["messages"][0]["content"]


def test_an_argument_is_compared_without_case_or_accepts_any_value() -> None:
    assert bench._fits("OSLO.", ("oslo",))
    assert bench._fits(3.0, (3,))
    assert bench._fits("x", ANY)
    assert not bench._fits("", ANY)
    assert not bench._fits("Rome", ("oslo", "bergen"))
