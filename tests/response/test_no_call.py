"""Why an answer holds no call, in the answer itself, for observers, and once in the log."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers import asgi_client
from tests.helpers.answers import GOOD, TOOL, NativeBackend, post
from tests.helpers.fakes import Answer, TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.near_misses import NearMiss, NoCall
from toolcall_middleware.model import ToolSet
from toolcall_middleware.response import outcome
from toolcall_middleware.response.outcome import CURES, CallOutcomes, CallReport, first_of

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "no-calls.md"
UNKNOWN = write_calls("hermes", ("nope", {"x": 1}))
FENCED = f"So:\n```\n{GOOD}\n```\n"
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
CASES = pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("It is sunny.", "prose"),
        ("The function f(x) = 2 < 3 [sic], a tool: <b>bold</b>.", "prose"),
        ("", "empty"),
        (" \n", "empty"),
        (FENCED, "example"),
        ("Write `<tool_call>` first.", "example"),
        (f"<think>Hm. {GOOD}</think>Hi.", "thought"),
        ("<think>Hm.</think>", "thought"),
        (Answer("", reasoning="Hm."), "thought"),
        (Answer("Hi.", reasoning=f"Hm. {GOOD}"), "thought"),
        (Answer("Hi.", reasoning="I could call f."), "prose"),
        ('<my_tool_call name="f">{"x": 1}</my_tool_call>', "other_format"),
        ("[TOOL_CALLS]f{", "other_format"),
        ("f(x=1)", "other_format"),
        ('functions.f({"x": 1})', "other_format"),
        ('f {"x": 1}', "other_format"),
        ("f\n<x>1</x>", "other_format"),
        ('{"name": "f", "arguments": [1]} it is', "other_format"),
        (Answer("It is", finish_reason="length"), "cut"),
        (Answer("<tool_call>\n", finish_reason="length"), "cut"),
        ('<tool_call>\n{"name": "f', "cut"),
        (UNKNOWN, "unknown_tool"),
        (UNKNOWN + FENCED, "unknown_tool"),
        (Answer(FENCED, finish_reason="length"), "cut"),
        (f"<think>{GOOD}</think>{FENCED}", "thought"),
    ],
)  # fmt: skip


def extra_of(response: httpx.Response) -> dict[str, Any]:
    """The extension field of an answer, wherever the API has it."""
    if response.headers["content-type"].startswith("text/event-stream"):
        found = re.findall(r'"_t":(\{[^{}]*(?:\{[^{}]*\})?[^{}]*\})', response.text)
        assert len(found) == 1, response.text
        extra: dict[str, Any] = json.loads(found[0])
        return extra
    body: dict[str, dict[str, Any]] = response.json()
    return body["_t"]


@STREAMS
@CASES
async def test_the_reason_is_in_the_answer(said: Any, reason: str, stream: bool) -> None:
    app = ToolCallMiddleware(TextBackend([said]), format="hermes", extension_field="_t", retries=0)
    response = await post(app, stream=stream)
    assert response.status_code == 200
    assert extra_of(response)["no_call"] == reason
    assert "warning" not in extra_of(response)
    if not stream:
        assert f"; no_call={reason}" in response.headers["x-toolcall"]


FACES: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": "f", "input_schema": TOOL["function"]["parameters"]}],  # type: ignore[index]
    },
    "/v1/responses": {"input": "hi", "tools": [{"type": "function", **TOOL["function"]}]},  # type: ignore[dict-item]
}


@STREAMS
@pytest.mark.parametrize("path", FACES)
async def test_it_is_on_each_face(path: str, stream: bool) -> None:
    backend = TextBackend([FENCED])
    app = ToolCallMiddleware(backend, format="hermes", extension_field="_t", faces="chat,messages,responses")
    response = await asgi_client.post(app, {"model": "m", "stream": stream, **FACES[path]}, path)
    assert extra_of(response)["no_call"] == "example"
    if not stream:
        assert "; no_call=example" in response.headers["x-toolcall"]


@STREAMS
async def test_it_is_said_of_native_answers(stream: bool) -> None:
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "nope", "arguments": "{}"}}
    for delta, reason in (({"tool_calls": [call]}, "unknown_tool"), ({"content": "Hi."}, "prose")):
        app = ToolCallMiddleware(NativeBackend(delta), mode="native", extension_field="_t")
        assert extra_of(await post(app, stream=stream))["no_call"] == reason


@STREAMS
@pytest.mark.parametrize("fields", [{"tool_choice": "none"}, {"tools": None}, {"tools": []}])
async def test_nothing_is_said_where_no_call_can_come(fields: dict[str, Any], stream: bool) -> None:
    response = await post(ToolCallMiddleware(TextBackend(["Hi."]), extension_field="_t"), stream=stream, **fields)
    assert "no_call" not in response.text + response.headers.get("x-toolcall", "")


@STREAMS
async def test_nothing_is_said_where_one_came(stream: bool) -> None:
    response = await post(ToolCallMiddleware(TextBackend([FENCED + GOOD]), extension_field="_t"), stream=stream)
    assert "no_call" not in response.text + response.headers["x-toolcall"]


async def test_of_several_choices_the_first_reason_is_told() -> None:
    app = ToolCallMiddleware(TextBackend([["Hi.", FENCED]]), format="hermes")
    assert "; no_call=example" in (await post(app, n=2)).headers["x-toolcall"]
    app = ToolCallMiddleware(TextBackend([["Hi.", GOOD]]), format="hermes")
    assert "no_call" not in (await post(app, n=2)).headers["x-toolcall"]


async def test_an_answer_that_is_asked_for_again_says_what_the_last_one_was() -> None:
    app = ToolCallMiddleware(TextBackend(["", GOOD, "", "Hi."]))
    assert "no_call" not in (await post(app)).headers["x-toolcall"]
    assert "; no_call=prose" in (await post(app)).headers["x-toolcall"]


async def test_the_log_tells_a_reason_once_for_a_model_with_its_cure(caplog: pytest.LogCaptureFixture) -> None:
    app = ToolCallMiddleware(TextBackend([FENCED, FENCED, "Hi.", UNKNOWN, FENCED]), format="hermes")
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        for model in ("m", "m", "m", "m", "other"):
            await post(app, model=model)
    told = [line for line in caplog.messages if line.startswith("no call: ")]
    assert [re.findall(r"model=(\w+).*no_call=(\w+)", line) for line in told] == [
        [("m", "example")], [("m", "unknown_tool")], [("other", "example")]
    ]  # fmt: skip
    assert told[0].endswith('see="docs/how-to/no-calls.md#example"')
    assert CURES[NoCall.EXAMPLE] in told[0]


def test_each_reason_has_a_place_on_the_page() -> None:
    anchors = re.findall(r"^### `(\w+)`", PAGE.read_text("utf-8"), re.MULTILINE)
    assert anchors == [reason.value for reason in NoCall]
    assert CURES.keys() == set(NoCall) - {NoCall.PROSE}


def test_what_is_kept_of_a_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(text: str, **_: object) -> list[NearMiss]:
        looked.append(text)
        return []

    monkeypatch.setattr(outcome, "places", look)
    seen = CallOutcomes(ToolSet(), registry.get("hermes"), CallReport("m"))
    for _ in range(100):
        seen.see_text("x" * 100_000)
    seen.see_text(" the end")
    for _ in range(100_000):
        seen.see("y")
    assert seen.why_no_call(called=False, cut=False, thinks=False) is NoCall.PROSE
    assert looked == ["y" * 512]
    nothing = CallOutcomes(report=CallReport("m"))
    nothing.see("x")
    nothing.see_text("x" * 1000)
    assert nothing.why_no_call(called=False, cut=True, thinks=True) is None


def test_a_hostile_text_is_read_by_few_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcall_middleware.formats import near_misses, registry

    made = 0
    syntax = registry.get("hermes")
    parser = type(syntax).parser

    def counted(self: Any, *given: Any) -> Any:
        nonlocal made
        made += 1
        return parser(self, *given)

    monkeypatch.setattr(type(syntax), "parser", counted)
    text = "".join(f"<tool_{number}>" for number in range(5000))
    assert near_misses.places(text, tools=None, syntax=syntax)
    assert made <= 16


def test_reasons_are_told_in_one_order() -> None:
    assert first_of({NoCall.PROSE, NoCall.EXAMPLE, NoCall.CUT}) is NoCall.CUT
    assert first_of({None}) is None
