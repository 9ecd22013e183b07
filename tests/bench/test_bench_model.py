"""The benchmark of a real model, as far as it can be held without the model."""

from __future__ import annotations

from jsonschema import Draft202012Validator

from tests.bench.model import RUNS, asked_of_backend
from tests.bench.questions import QUESTIONS, TOOLS


def test_sixty_requests_stand_for_ten_tools() -> None:
    names = [tool["function"]["name"] for tool in TOOLS]
    assert list(QUESTIONS) == names
    assert len(names) == 10
    assert [len(questions) for questions in QUESTIONS.values()] == [6] * 10
    assert len({question for questions in QUESTIONS.values() for question in questions}) == 60
    for tool in TOOLS:
        Draft202012Validator.check_schema(tool["function"]["parameters"])


def test_only_a_call_that_must_come_is_constrained() -> None:
    asked = {run: asked_of_backend(*run) for run in RUNS}
    for fmt in ("json", "hermes"):
        assert asked[fmt, "auto", "auto"] == asked[fmt, "auto", "off"]
        assert asked[fmt, "required", "auto"] != asked[fmt, "required", "off"]
        assert b"response_format" in asked[fmt, "required", "auto"]
        assert b"response_format" not in asked[fmt, "required", "off"]
