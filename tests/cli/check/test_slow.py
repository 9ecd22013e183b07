"""A slow backend is told as slow; what was cut is told as cut; what was not tried is no verdict."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.helpers.fakes import serve
from toolcall_middleware.cli import main
from toolcall_middleware.cli.check.findings import Verdict
from toolcall_middleware.cli.check.run import CheckError

from .engines import RefusalError, Said, Vllm, VllmHermes
from .test_check import check, details, printed
from .test_command import run

NO, UNKNOWN = Verdict.NO, Verdict.UNKNOWN


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcall_middleware.cli.check.asking.QUESTION_SECONDS", 0.05)


class SlowWhere(VllmHermes):
    """Takes its time with the requests that `is_slow` picks."""

    def is_slow(self, body: dict[str, Any]) -> bool:
        raise NotImplementedError

    async def _chat(self, send: Any, body: dict[str, Any]) -> None:
        if self.is_slow(body):
            await asyncio.sleep(0.3)
        await super()._chat(send, body)


@pytest.mark.usefixtures("impatient")
async def test_a_question_without_an_answer_in_time_is_no_verdict() -> None:
    class Slow(SlowWhere):
        def is_slow(self, body: dict[str, Any]) -> bool:
            return body.get("stop") is not None or body.get("response_format", {}).get("type") == "json_schema"

    report = await check(Slow({"hermes"}))
    assert report.verdict("constrain.response_format") is UNKNOWN
    assert details(report)["constrain.response_format"] == "slow: no answer within 0.05 s"
    assert "refused" not in details(report)["stop.whole"]


@pytest.mark.usefixtures("impatient")
async def test_a_slow_backend_is_told_as_slow_and_not_as_one_that_has_nothing() -> None:
    class Slow(SlowWhere):
        def is_slow(self, body: dict[str, Any]) -> bool:
            return len(self.requests) > 2

    report = await check(Slow({"hermes"}))
    said = printed(report)
    assert "slow: no answer within 0.05 s" in said
    assert not any(one.verdict is NO and one.key != "gone" for one in report.findings)
    assert not any(score.asked for score in report.calls)


@pytest.mark.usefixtures("impatient")
async def test_prompts_that_got_no_answer_in_time_do_not_count_as_wrong() -> None:
    class Slow(SlowWhere):
        def is_slow(self, body: dict[str, Any]) -> bool:
            return not body.get("tools") and "get_weather" in json.dumps(body["messages"][:1])

        def refuse(self, body: dict[str, Any]) -> None:
            if body.get("tools"):
                raise RefusalError(400, "no tools here")

    report = await check(Slow({"json"}))
    late = [score for score in report.calls if score.late]
    assert late
    assert all(score.asked + score.late for score in late)
    assert not any("no answer within" in fault for score in report.calls for fault in score.faults)


@pytest.mark.usefixtures("impatient")
async def test_a_first_question_without_an_answer_says_slow() -> None:
    class Slow(SlowWhere):
        def is_slow(self, body: dict[str, Any]) -> bool:
            return True

    with pytest.raises(CheckError, match="slow: no answer within"):
        await check(Slow())


def test_nothing_tried_for_lack_of_time_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    class Slow(Vllm):
        async def _chat(self, send: Any, body: dict[str, Any]) -> None:
            await asyncio.sleep(0.2)
            await super()._chat(send, body)

    with serve(Slow()) as url:
        code, said, _ = run(capsys, "--upstream", url, "--seconds", "1")
    assert code == 2
    assert "not everything was asked" in said
    assert "none: nothing was tried" in said


CUT_TEXT = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Pa'


@pytest.mark.parametrize(
    ("text", "arguments", "told", "fault"),
    [
        (CUT_TEXT, None, "the answer", "not JSON"),
        (None, '{"city": "P', "a call came, and", "not JSON"),
        (None, '{"city": "Paris"}', "a call came, and", "finish_reason is length"),
    ],
)
async def test_what_was_cut_says_nothing_of_a_parser(
    text: str | None, arguments: str | None, told: str, fault: str
) -> None:
    class Cut(VllmHermes):
        def native(self, body: dict[str, Any]) -> Said | None:
            call = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
            return Said(text, [call] if arguments else [], "length")

    report = await check(Cut())
    assert report.verdict("native.whole") is UNKNOWN
    assert details(report)["native.whole"] == f"{told} was cut at its limit of 128 tokens"
    assert fault in report.calls[0].faults[0]


async def test_a_model_that_the_backend_does_not_list_is_told() -> None:
    report = await check(Vllm(), model="another")
    assert (report.verdict("models"), details(report)["models"]) == (Verdict.YES, "another is not in it")


@pytest.mark.parametrize("ending", ["/v1/chat/completions", "/v1/chat/completions/", "/v1/Chat/Completions"])
@pytest.mark.parametrize("way", ["option", "environment"])
def test_an_address_with_the_whole_path_is_told_what_to_leave_out(
    ending: str, way: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://user:hunter2@127.0.0.1:9{ending}"
    arguments = ["check"]
    if way == "option":
        arguments += ["--upstream", address]
    else:
        monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", address)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "leave out /chat/completions" in said
    assert said.rstrip().endswith("127.0.0.1:9/v1")
    assert "hunter2" not in said
