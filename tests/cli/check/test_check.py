"""`check` says of each engine what is true of it, within its limits, and recommends what fits."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from typing import Any

import msgspec
import pytest
from starlette.types import Receive, Scope, Send

from toolcall_middleware.cli.check import table
from toolcall_middleware.cli.check.asking import Asker
from toolcall_middleware.cli.check.findings import Finding, Report, Verdict
from toolcall_middleware.cli.check.run import CheckError, Options, examine
from toolcall_middleware.settings import Settings

from .engines import (
    Engine,
    LlamaCppPython,
    LlamaServer,
    RefusalError,
    Said,
    TextOnly,
    Vllm,
    VllmHermes,
    VllmWithoutItsParser,
)

MOST_REQUESTS = 80
YES, PARTLY, NO, UNKNOWN = Verdict.YES, Verdict.PARTLY, Verdict.NO, Verdict.UNKNOWN


async def check(engine: Engine, **options: Any) -> Report:
    async with asyncio.timeout(20):
        report = await examine(engine, "http://backend/v1", Options(**options), Settings())
    assert len(engine.requests) <= MOST_REQUESTS
    assert report.requests == len(engine.requests) + 2  # and the list of models, and `/props`
    return report


def printed(report: Report) -> str:
    """The report as `check` prints it where standard output is no terminal."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        table.show(report)
    return out.getvalue()


def details(report: Report) -> dict[str, str]:
    return {finding.key: finding.detail for finding in report.findings}


def verdicts(report: Report, start: str) -> dict[str, Verdict]:
    found = {finding.key: finding.verdict for finding in report.findings if finding.key.startswith(start)}
    return {key.removeprefix(f"{start}."): verdict for key, verdict in found.items()}


def right(report: Report) -> dict[tuple[str, str, str, str], str]:
    return {
        (score.mode, score.format, score.tool_choice, score.constrain): f"{score.came}/{score.asked}"
        for score in report.calls
    }


async def test_the_setting_choose_is_refused_where_nothing_constrains() -> None:
    options = Options(model="m")
    assert (await examine(TextOnly(), "http://backend/v1", options, Settings(choose=True))).verdict("choose") is NO
    assert (await examine(TextOnly(), "http://backend/v1", options, Settings())).verdict("choose") is UNKNOWN


class CallsAlways(LlamaServer):
    """Its model takes the first option of any constraint: a call, never the tool for words."""

    def constraint(self, body: dict[str, Any]) -> str | None:
        made = super().constraint(body)
        return made and made.replace('"respond"', '"get_time"').replace('"text"', '"city"')


class CallsTheWrongTool(LlamaServer):
    """Each of its calls is one of `add` where it may choose."""

    def constraint(self, body: dict[str, Any]) -> str | None:
        made = super().constraint(body)
        if made is None or "respond" not in json.dumps(body):
            return made
        return made.replace("get_weather", "add").replace("get_time", "add")


class NoSystemMessages(LlamaServer):
    """Its chat template knows no system messages."""

    def refuse(self, body: dict[str, Any]) -> None:
        if any(message["role"] == "system" for message in body["messages"]):
            raise RefusalError(400, "System role not supported")


@pytest.mark.parametrize(
    ("make", "verdict", "detail"),
    [
        (LlamaServer, YES, "right calls under auto 4/4 instead of 0/4"),
        (CallsAlways, YES, "right calls under auto 4/4 instead of 0/4, but also a call where no tool fits"),
        (CallsTheWrongTool, YES, "right calls under auto 1/4 instead of 0/4"),
        # Its tools are in the user's message, where this model takes them for the question.
        (NoSystemMessages, YES, "right calls under auto 4/4 instead of 0/4, but also a call where no tool fits"),
        (VllmHermes, UNKNOWN, None),  # its calls under `auto` are right without it
    ],
)
async def test_choose_is_advised_where_it_measures_better(
    make: type[Engine], verdict: Verdict, detail: str | None
) -> None:
    report = await check(make())
    assert (report.verdict("choose"), details(report).get("choose")) == (verdict, detail)
    assert (report.settings.get("TOOLCALL_CHOOSE") == "true") is (verdict is YES)
    tried = [score for score in report.calls if score.choose]
    assert len(tried) == (verdict is not UNKNOWN)


async def test_vllm_without_its_flags() -> None:
    report = await check(Vllm({"json"}))
    assert set(verdicts(report, "native").values()) == {NO}
    assert "--enable-auto-tool-choice" in details(report)["native.whole"]
    assert verdicts(report, "constrain") == {
        "response_format": YES,
        "llama_cpp": NO,
        "structured_outputs": YES,
        "structural_tag": YES,
        "structural_tag.hermes": YES,
        "grammar": NO,
    }
    assert details(report)["constrain.llama_cpp"] == "the answer is JSON, but the schema is ignored in silence"
    assert details(report)["constrain.grammar"] == "ignored in silence"
    assert verdicts(report, "usage") == {"whole": YES, "stream": YES}
    assert verdicts(report, "stop") == {"whole": YES, "stream": YES}
    # A backend that refuses tools is not asked for native calls once more.
    assert right(report) == {
        ("prompt", "auto", "auto", "off"): "4/4",
        ("prompt", "auto", "required", "off"): "4/4",
        ("prompt", "auto", "required", "response_format"): "4/4",
        ("prompt", "hermes", "auto", "off"): "0/4",
        ("prompt", "hermes", "required", "off"): "0/4",
        ("prompt", "hermes", "required", "structural_tag"): "4/4",
    }
    assert report.settings == {"TOOLCALL_MODE": "prompt"}
    assert report.complete


async def test_vllm_with_its_parser() -> None:
    report = await check(VllmHermes({"hermes"}))
    native = verdicts(report, "native")
    assert {native[key] for key in ("whole", "stream", "required", "required_stream")} == {YES}
    assert native["named"] is PARTLY
    assert details(report)["native.named"] == "has to be repaired: finish_reason is stop"
    assert right(report)["native", "", "auto", "off"] == "4/4"
    assert right(report)["native", "", "required", "off"] == "4/4"
    # The model's family writes hermes: it is what `auto` prompts for, and not tried twice.
    assert ("prompt", "hermes", "auto", "off") not in right(report)
    assert report.settings == {"TOOLCALL_MODE": "native"}


async def test_calls_that_stay_in_the_text_are_found() -> None:
    report = await check(VllmWithoutItsParser({"hermes"}))
    assert "stays in the text" in details(report)["native.whole"]
    assert verdicts(report, "native")["stream"] is NO
    # Reading the text mends that, in either mode.
    assert right(report)["native", "", "auto", "off"] == "4/4"


async def test_llama_cpp_python() -> None:
    report = await check(LlamaCppPython())
    assert verdicts(report, "constrain") == {
        "response_format": NO,
        "llama_cpp": YES,
        "structured_outputs": NO,
        "structural_tag": NO,
        "structural_tag.hermes": NO,
        "grammar": YES,
    }
    assert "'json_schema'" in details(report)["constrain.response_format"]
    assert details(report)["constrain.structured_outputs"] == "ignored in silence"
    assert verdicts(report, "usage") == {"whole": YES, "stream": NO}
    assert details(report)["usage.stream"] == "none: it is counted here"
    history = verdicts(report, "history")
    assert {key for key, verdict in history.items() if verdict is NO} == {"tool", "null", "developer"}
    native = verdicts(report, "native")
    assert (native["required"], native["named"]) == (NO, YES)
    assert details(report)["native.required"] == "the promise is not kept: no call came"
    # Its model follows no prompt: only the constraint brings calls, and `auto` finds it by being refused once.
    assert right(report)["prompt", "auto", "required", "off"] == "0/4"
    assert right(report)["prompt", "auto", "required", "llama_cpp"] == "4/4"
    assert report.settings == {"TOOLCALL_MODE": "prompt", "TOOLCALL_CHOOSE": "true"}


async def test_llama_server() -> None:
    report = await check(LlamaServer())
    constrain = verdicts(report, "constrain")
    assert {key for key, verdict in constrain.items() if verdict is YES} == {"response_format", "llama_cpp", "grammar"}
    assert details(report)["constrain.structural_tag"].startswith("refused: status 400")
    assert details(report)["native.whole"].startswith("no call came")
    assert right(report)["prompt", "auto", "required", "response_format"] == "4/4"


async def test_a_constrained_list_that_runs_on_is_constrained_all_the_same() -> None:
    class RunsOn(LlamaServer):
        def constraint(self, body: dict[str, Any]) -> str | None:
            made = super().constraint(body)
            if made is None or "zq_probe" not in made:
                return made
            call = json.dumps(json.loads(made)["tool_calls"][0])
            return f'{{"tool_calls": [{call}, {call}, {call[:30]}'

    report = await check(RunsOn())
    assert verdicts(report, "constrain")["response_format"] is YES


async def test_what_a_loose_constraint_leaves_open_is_told() -> None:
    class Loose(LlamaServer):
        def constraint(self, body: dict[str, Any]) -> str | None:
            return (super().constraint(body) or "").replace("k7w", "anything")

    report = await check(Loose())
    assert verdicts(report, "constrain")["llama_cpp"] is PARTLY
    assert "its arguments are not those of the schema" in details(report)["constrain.llama_cpp"]


async def test_a_backend_that_knows_text_only() -> None:
    report = await check(TextOnly({"json"}), model="tiny")
    assert report.model == "tiny"
    assert set(verdicts(report, "constrain").values()) == {NO}
    assert verdicts(report, "stop") == {"whole": NO, "stream": NO}
    assert details(report)["usage.stream"].startswith("stream_options is refused")
    assert verdicts(report, "history")["system"] is NO
    # Calls come right because the tools then stand in a user message.
    assert right(report)["prompt", "auto", "auto", "off"] == "4/4"
    assert report.settings == {
        "TOOLCALL_MODE": "prompt",
        "TOOLCALL_CONSTRAIN": "off",
        "TOOLCALL_SYSTEM_ROLE": "user",
    }


async def test_a_constraint_that_auto_cannot_find_is_recommended() -> None:
    class Odd(Vllm):
        def constraint(self, body: dict[str, Any]) -> str | None:
            # response_format is ignored in silence, as old engines do.
            return super().constraint({**body, "response_format": None})

    report = await check(Odd({"json"}), formats=["json"])
    assert verdicts(report, "constrain")["response_format"] is NO
    assert report.settings["TOOLCALL_CONSTRAIN"] == "structured_outputs"


async def test_a_better_format_than_the_models_family_is_recommended() -> None:
    report = await check(Vllm({"hermes"}))
    assert report.settings == {"TOOLCALL_MODE": "prompt", "TOOLCALL_FORMAT": "hermes"}


async def test_a_model_that_never_calls_gets_no_advice() -> None:
    report = await check(Engine())
    assert not any(score.came for score in report.calls)
    assert report.settings == {}
    assert "no call came out right in any way" in printed(report)


async def test_a_reasoning_model_gets_more_room() -> None:
    class Thinker(Engine):
        def say(self, body: dict[str, Any]) -> Said:
            said = super().say(body)
            return Said(f"<think>They greet me.</think>{said.text}" if body["max_tokens"] > 200 else "<think>They gre")

    engine = Thinker({"json"})
    report = await check(engine)
    assert engine.requests[0]["max_tokens"] * 6 == engine.requests[1]["max_tokens"]
    assert details(report)["whole"] == "the model reasons before it answers"
    assert right(report)["prompt", "auto", "auto", "off"] == "4/4"


async def test_a_backend_that_wants_the_newer_name_of_max_tokens_gets_it() -> None:
    class Newer(Engine):
        def refuse(self, body: dict[str, Any]) -> None:
            if "max_tokens" in body:
                raise RefusalError(400, "Unsupported parameter: use 'max_completion_tokens' instead.")

    engine = Newer({"json"})
    assert (await check(engine)).verdict("whole") is YES
    older = [number for number, body in enumerate(engine.requests) if "max_completion_tokens" not in body]
    assert len(older) == 3  # the first of all, and two that look whether tools reach the model


async def test_tokens_are_a_limit() -> None:
    engine = Vllm({"json"})
    report = await check(engine, tokens=100)
    assert not report.complete
    assert report.tokens <= 100
    assert 0 < len(engine.requests) < 45
    assert report.verdict("stream") is YES
    assert report.verdict("native.whole") is UNKNOWN
    assert "not everything was asked" in printed(report)


async def test_time_is_a_limit() -> None:
    class Slow(Vllm):
        async def _chat(self, send: Any, body: dict[str, Any]) -> None:
            await asyncio.sleep(0.05)
            await super()._chat(send, body)

    engine = Slow({"json"})
    report = await check(engine, seconds=0.4)
    assert not report.complete
    assert report.seconds < 1.5
    assert len(engine.requests) <= 9


async def test_a_backend_that_falls_silent_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcall_middleware.cli.check.asking.QUESTION_SECONDS", 0.05)

    class Silent(Vllm):
        async def _chat(self, send: Any, body: dict[str, Any]) -> None:
            if len(self.requests) > 2:
                await asyncio.Event().wait()
            await super()._chat(send, body)

    engine = Silent()
    report = await check(engine)
    assert not report.complete
    assert report.verdict("gone") is NO
    assert len(engine.requests) < 8


async def test_an_answer_without_end_is_cut() -> None:
    class Endless(Engine):
        async def _chat(self, send: Any, body: dict[str, Any]) -> None:
            if not body.get("stream"):
                await super()._chat(send, body)
                return
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})

    report = await check(Endless())
    assert details(report)["stream"] == "an answer without end"


async def test_a_list_of_models_without_end_is_one_line() -> None:
    class Endless(Engine):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b" " * 100_000, "more_body": True})

    with pytest.raises(CheckError, match="no end"):
        await check(Endless())


@pytest.mark.parametrize("listed", [[], {}, {"data": 5}, {"data": [5, {"id": None}, {"id": ""}]}, None])
async def test_a_list_that_is_none_needs_the_name(listed: Any) -> None:
    class Odd(Engine):
        async def _json(self, send: Any, status: int, value: Any) -> None:
            await super()._json(send, status, listed if "data" in value else value)

    with pytest.raises(CheckError, match="give --model"):
        await check(Odd())
    assert any(score.came for score in (await check(Odd({"json"}), model="m\x1b[2J")).calls)


async def test_a_backend_is_never_shown_to_have_no_models_or_chat() -> None:
    with pytest.raises(CheckError, match="give --model"):
        await check(TextOnly())

    class NoChat(Engine):
        def refuse(self, body: dict[str, Any]) -> None:
            raise RefusalError(404, "The model `nope` does not exist.")

    with pytest.raises(CheckError, match=r"'nope'.*does not exist"):
        await check(NoChat(), model="nope")


async def test_a_quoted_key_is_hidden() -> None:
    class Quoting(Engine):
        def refuse(self, body: dict[str, Any]) -> None:
            if "tools" in body:
                raise RefusalError(400, "no tools for the key sk-secret-1234")

    report = await examine(Quoting({"json"}), "http://b/v1", Options(), Settings(), ["sk-secret-1234"])
    assert "sk-secret" not in str(msgspec.json.encode(report))
    assert "***" in details(report)["native.whole"]


async def test_what_a_backend_says_cannot_move_the_cursor() -> None:
    class Rude(Engine):
        def refuse(self, body: dict[str, Any]) -> None:
            if "tools" in body:
                raise RefusalError(400, "[red]\x1b[2J[/]\x07 gone\nSettings\n  TOOLCALL_MODE=off")

    shown = printed(await check(Rude({"json"})))
    assert "\x1b" not in shown
    assert "[red]\\x1b[2J[/]" in shown
    assert shown.count("\nSettings\n") == 1


async def test_the_meter_counts_what_the_backend_says_it_wrote() -> None:
    report = await check(Vllm({"json"}))
    assert report.tokens < 12 * report.requests
    meter = Asker(Vllm(), seconds=1, tokens=1, clock=iter([0.0, 5.0, 5.0]).__next__)
    assert (meter.elapsed, meter.seconds_left) == (5.0, 0.0)


@pytest.mark.parametrize(
    "pieces",
    [
        [b'{"choices": [], "usage": {"completion_tokens": 17}, "__verbose": "%s"}' % (b"p" * 9000)],  # llama.cpp -v
        [b'{"usage": {"completion_tokens": 17}, ', b'"id": "x", ', b'"model": "m", ', b'"choices": []}'],
        [b'{"choices" : [], "usage" : {\n  "completion_tokens" : 17}}'],
        [b'data: {"usage":{"completion_tokens":17}}\n\n', *[b": ping\n\n"] * 9, b"data: [DONE]\n\n"],
    ],
)
async def test_the_meter_reads_the_usage_wherever_it_is_in_an_answer(pieces: list[bytes]) -> None:
    async def backend(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    meter = Asker(backend, "m", seconds=60, tokens=1000)
    await meter.ask([{"role": "user", "content": "x"}], tokens=160)
    assert meter.tokens == 17


async def test_the_table_shows_each_finding_and_setting() -> None:
    report = await check(VllmHermes({"hermes"}))
    shown = printed(report)
    for finding in report.findings:
        assert finding.what in shown
    assert "TOOLCALL_MODE=native" in shown
    assert "format=auto (writes hermes)" in shown
    assert max(map(len, shown.splitlines())) <= 120
    assert "\x1b" not in shown


async def test_a_setting_is_whole_on_its_line_and_no_column_is_lost_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    report = await check(LlamaServer())
    report.settings["TOOLCALL_TEMPLATE"] = place = f"/models/{'x' * 200}"
    report.reasons["TOOLCALL_TEMPLATE"] = "whose form of calls that is"
    shown = printed(report)
    assert f"  TOOLCALL_TEMPLATE={place}  # whose form of calls that is\n" in shown
    assert "4/4" in shown
    assert "constrained" in shown


@pytest.mark.parametrize("width", [40, 60, 80])
async def test_verdicts_details_and_names_are_whole_in_a_narrow_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    report = await check(LlamaServer())
    report.findings = [Finding("stream", "W" * 60, Verdict.PARTLY, "Q" * 30)]
    report.calls[0].format = "Z" * 30
    shown = printed(report)
    assert [shown.count(letter) for letter in "WQZ"] == [60, 30, 30]
    assert "  partly  " in shown
    assert max(map(len, shown.splitlines()[-6:])) <= width


@pytest.mark.parametrize("api", ["messages", "responses"])
async def test_calls_are_asked_for_in_the_api_of_the_client(api: str) -> None:
    chat, face = await check(Vllm({"json"})), await check(Vllm({"json"}), api=api)
    assert right(face) == right(chat)
    assert details(face)["api"] == api
