"""The bench of real engines, against fakes of them: what holds is told to hold, and what does not is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.bench import engine
from tests.bench.questions import QUESTIONS, TOOLS
from tests.cli.check.engines import HELLO, LlamaServer, RefusalError, Vllm
from tests.helpers.fakes import serve

UNKNOWN = 'Grammar error: Unimplemented keys: ["uniqueItems"]'  # as vLLM 0.32 says it


class Grammars(Vllm):
    """vLLM without a parser, whose grammars know no `uniqueItems`, and no request of more than 2,000 words."""

    def refuse(self, body: dict[str, Any]) -> None:
        super().refuse(body)
        if '"uniqueItems"' in json.dumps(body.get("response_format")):
            raise RefusalError(400, UNKNOWN)
        if '"a": true' in json.dumps(body.get("response_format")):
            raise RefusalError(400, "Invalid schema: unrecognized schema true")
        if len(body["messages"][-1]["content"].split()) > 2000:
            raise RefusalError(400, "This model's maximum context length is 2048 tokens.")


class Grudging(LlamaServer):
    """Constrains nothing, and its model does not call."""

    def constraint(self, body: dict[str, Any]) -> str | None:
        return None


async def test_an_engine_that_constrains_holds() -> None:
    backend = Grammars()
    with serve(backend) as url:
        results = await engine.run(f"{url}/v1", limit=4, words=3000)
    assert results.holds, (results.faults, results.poisoned, results.ended, results.long)
    assert (results.asked, results.valid, results.constrained, results.attempts) == (4, 4, 4, 4)
    assert [what for what, _, _ in results.poisoned] == list(engine.POISON)
    assert [what for what, _, _ in results.long] == ["whole", "streamed"]
    asked = [body["messages"][-1]["content"] for body in backend.requests]
    assert all(any(questions[0] in text for text in asked) for questions in list(QUESTIONS.values())[:4])


def test_the_command_prints_a_table_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(Grammars()) as url:
        assert engine.main(["--url", f"{url}/v1", "--limit", "2"]) == 0
    said = capsys.readouterr().out
    assert "| valid calls of `required`" in said
    assert "poisoned: uniqueItems" in said
    assert "DOES NOT HOLD" not in said


def test_an_engine_whose_model_does_not_call_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(Grudging()) as url:
        assert engine.main(["--url", f"{url}/v1", "--limit", "2"]) == 1
    said = capsys.readouterr().out
    assert "DOES NOT HOLD" in said
    assert HELLO.split(",", maxsplit=1)[0] in said


def test_where_nothing_answers_nothing_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine.main(["--url", "http://127.0.0.1:9/v1"]) == 2
    assert "nothing can be asked" in capsys.readouterr().err


def test_sixty_requests_are_about_ten_tools() -> None:
    names = [tool["function"]["name"] for tool in TOOLS]
    assert list(QUESTIONS) == names
    assert len(names) == 10
    assert [len(questions) for questions in QUESTIONS.values()] == [6] * 10
    assert len({question for questions in QUESTIONS.values() for question in questions}) == 60
    for tool in TOOLS:
        Draft202012Validator.check_schema(tool["function"]["parameters"])
