"""`replay` of a trace tells what the client got: the recorded exchange is run again by the machine that answered it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.formats.goldens import Case
from tests.helpers import asgi_client
from tests.helpers.answers import NativeBackend, answered, post
from tests.helpers.asgi_client import HELLO
from tests.helpers.fakes import Answer, Quirks, Refusal, TextBackend, write_calls
from tests.parsing.streams import read
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.cli.dispatch import main
from toolcall_middleware.explain import case_of, explain
from toolcall_middleware.formats import registry
from toolcall_middleware.hosts.proxy.inspector.store import Store
from toolcall_middleware.observe.traces import Trace, read_trace

W: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
T = {
    "type": "function",
    "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
WEATHER = write_calls("hermes", ("get_weather", {"city": "P"})).strip()
TIME = write_calls("hermes", ("get_time", {"city": "P"})).strip()
UNKNOWN = write_calls("hermes", ("nope", {"city": "P"})).strip()
BROKEN = '<tool_call>\n{"name": "get_weather", "arguments": {city: P}}\n</tool_call>'
OWN = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city":"P"}'},
}
NAMED = {"type": "function", "function": {"name": "get_time"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}

Exchanged = tuple[Any, dict[str, Any], dict[str, Any]]
"""What the backend writes, settings, and fields of the request."""

CASES: dict[str, Exchanged] = {
    "plain": ([f"Look: {WEATHER}"], {}, {}),
    "none": ([WEATHER], {}, {"tool_choice": "none"}),
    "one at a time": ([f"{WEATHER}\n{TIME}"], {}, {"parallel_tool_calls": False}),
    "at most one": ([f"{WEATHER}\n{TIME}"], {"max_tool_calls": 1}, {}),
    "never parallel": ([f"{WEATHER}\n{TIME}"], {"parallel": "never"}, {}),
    "allowed": ([WEATHER], {}, {"tool_choice": ALLOWED}),
    "named": ([WEATHER, WEATHER], {}, {"tool_choice": NAMED}),
    "second try": (["Well.", TIME], {}, {"tool_choice": "required"}),
    "refused arguments": (
        [write_calls("hermes", ("get_weather", {"city": 5})), WEATHER],
        {"validate_arguments": "retry"},
        {},
    ),
    "coerced": ([write_calls("hermes", ("get_weather", {"city": "P", "days": "2"}))], {}, {}),
    "not coerced": (
        [write_calls("hermes", ("get_weather", {"city": "P", "days": "2"}))],
        {"coerce_arguments": False},
        {},
    ),
    "renamed": ([write_calls("hermes", ("functions.get_weather", {"city": "P"}))], {}, {}),
    "not renamed": ([write_calls("hermes", ("GetWeather", {"city": "P"}))], {}, {"toolcall": {"repair_names": False}}),
    "closed thought": ([f"<think>hm {WEATHER}</think>Sunny."], {}, {}),
    "the same call in a thought": ([f"<think>hm {WEATHER}</think>{WEATHER}"], {}, {}),
    "thoughts are read": ([f"<think>hm {WEATHER}</think>Sunny."], {"reasoning": "parse"}, {}),
    "open thought": ([f"<think>hm {WEATHER}"], {}, {}),
    "opened thought": ([f"hm {WEATHER} no</think>Sunny"], {"reasoning_start": "open"}, {}),
    "reasoning field": ([Answer("", reasoning=f"hm {WEATHER}")], {}, {}),
    "unknown dropped": ([UNKNOWN], {"unknown_tool": "drop"}, {}),
    "unknown forwarded": ([UNKNOWN], {"unknown_tool": "forward"}, {}),
    "unknown is an error": ([UNKNOWN], {"unknown_tool": "error"}, {}),
    "malformed is text": ([BROKEN], {"malformed_arguments": "text"}, {}),
    "malformed is repaired": ([BROKEN], {}, {}),
    "cut": ([Answer(WEATHER[:-20], "length")], {}, {}),
    "another turn": ([f"{WEATHER}\n<tool_response>\n{{}}\n</tool_response>\n{TIME}"], {}, {}),
    "no prose": ([f"Look: {WEATHER} So."], {"prose": "drop"}, {}),
    "not on the list": ([WEATHER], {"allowlist": "get_*", "allowlist_mode": "enforce"}, {}),
}
EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


async def exchanged(backend: Any, *, stream: bool, request: dict[str, Any], **settings: Any) -> tuple[Any, Trace]:
    """The client's response, and the trace of it as it would be read from a file."""
    store = Store()
    app = ToolCallMiddleware(backend, **{"mode": "prompt", "format": "hermes", **settings})
    app._observers = [store]
    response = await post(app, **{"tools": [W, T], "stream": stream, **request})
    (entry,) = store.entries.values()
    assert entry.trace is not None
    return response, read_trace(entry.trace.encode())


def got(response: Any) -> list[tuple[str, str]]:
    """The calls that a client reads, an error being none."""
    if b'"error"' in response.content:
        return []
    return [(call.name, call.arguments) for call in answered(response, own_ids=False).calls]


def shown(trace: Trace) -> list[tuple[str, str]]:
    return [(call["name"], call["arguments"]) for call in explain(trace.rows, trace.summary)["calls"]]


@WAYS
@EACH
async def test_replay_shows_the_calls_that_the_client_got(case: Exchanged, stream: bool) -> None:
    texts, settings, request = case
    response, trace = await exchanged(TextBackend(texts), stream=stream, request=request, **settings)
    assert shown(trace) == got(response)
    found = explain(trace.rows, trace.summary)
    assert [one["outcome"] for one in found["outcomes"]] == trace.summary["outcomes"]
    assert "".join(found["text"][span["start"] : span["end"]] for span in found["spans"]) == found["text"]
    in_text = [(number, call) for number, call in enumerate(found["calls"]) if "start" in call]
    assert [(number, call["start"], call["end"]) for number, call in in_text] == [
        (span["call"], span["start"], span["end"]) for span in found["spans"] if span["kind"] == "call"
    ]


@WAYS
@EACH
async def test_a_saved_case_is_what_a_parser_reads(case: Exchanged, stream: bool) -> None:
    texts, settings, request = case
    _, trace = await exchanged(TextBackend(texts), stream=stream, request=request, **settings)
    golden = Case(**json.loads(json.dumps(case_of(trace.rows, trace.summary))))
    golden.check(read(golden.reader(registry.get(golden.format)), golden.text, cut=golden.ends_cut))


@pytest.mark.parametrize(
    "name", ["none", "allowed", "renamed", "not renamed", "closed thought", "open thought", "opened thought"]
)
async def test_a_saved_case_expects_the_calls_that_the_client_got(name: str) -> None:
    texts, settings, request = CASES[name]
    response, trace = await exchanged(TextBackend(texts), stream=False, request=request, **settings)
    expected = case_of(trace.rows, trace.summary)["expected_tool_calls"]
    assert [(call["name"], call["arguments_text"]) for call in expected] == got(response)


async def test_a_saved_case_says_what_the_settings_made_of_its_calls() -> None:
    texts, settings, request = CASES["coerced"]
    _, trace = await exchanged(TextBackend(texts), stream=False, request=request, **settings)
    case = case_of(trace.rows, trace.summary)
    assert case["expected_tool_calls"][0]["arguments"]["days"] == "2"
    assert 'the client got [["get_weather", "{\\"city\\": \\"P\\", \\"days\\": 2}"]]' in case["note"]


@WAYS
async def test_the_backends_own_call_is_shown(stream: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    response, trace = await exchanged(NativeBackend({"tool_calls": [OWN]}), stream=stream, request={}, mode="native")
    assert shown(trace) == got(response) == [("get_weather", '{"city":"P"}')]
    path = tmp_path / "trace.jsonl"
    path.write_bytes(trace.encode())
    assert main(["replay", str(path)]) == 0
    assert 'call 0: get_weather {"city":"P"} (clean)' in capsys.readouterr().out


@WAYS
async def test_a_call_has_the_id_that_the_client_got(stream: bool) -> None:
    response, trace = await exchanged(TextBackend([f"{WEATHER}\n{TIME}"]), stream=stream, request={})
    found = explain(trace.rows, trace.summary)
    assert [call["id"] for call in found["calls"]] == [call.id for call in answered(response).calls]


@pytest.mark.parametrize("face", ["messages", "responses"])
async def test_a_request_of_another_api_is_run_as_it_was(face: str) -> None:
    """It is answered here also where it offers no tools; its custom tools and ids are those of the chat form."""
    store = Store()
    app = ToolCallMiddleware(TextBackend([f"<think>{TIME}</think>{WEATHER}"]), format="hermes", faces=face)
    app._observers = [store]
    tool = W["function"]
    bodies: dict[str, dict[str, Any]] = {
        "messages": {
            "max_tokens": 9,
            "messages": HELLO,
            "tools": [{"name": tool["name"], "input_schema": tool["parameters"]}],
        },
        "responses": {"input": "hi", "tools": [{"type": "function", **tool}]},
    }
    response = await asgi_client.post(app, {"model": "m", **bodies[face]}, f"/v1/{face}")
    trace = store.entries[1].trace
    assert trace is not None
    (call,) = explain(trace.rows, trace.summary)["calls"]
    assert (call["name"], call["arguments"]) == ("get_weather", '{"city": "P"}')
    assert call["id"] in response.text


async def test_what_was_known_of_the_backend_is_known_again() -> None:
    """A model whose earlier answer showed that its prompt opens the thought: nothing in this request says so."""
    store = Store()
    app = ToolCallMiddleware(TextBackend(["hm</think>Hi", f"hm {WEATHER} no</think>Sunny"]), format="hermes")
    app._observers = [store]
    await post(app, tools=[W])
    response = await post(app, tools=[W])
    last = store.entries[2].trace
    assert last is not None
    assert shown(read_trace(last.encode())) == got(response) == []


async def test_why_a_readable_call_is_none_of_the_clients() -> None:
    whys: dict[str, list[str]] = {}
    for name in ("closed thought", "one at a time", "malformed is text"):
        texts, settings, request = CASES[name]
        _, trace = await exchanged(TextBackend(texts), stream=False, request=request, **settings)
        found = explain(trace.rows, trace.summary)
        whys[name] = [one["why"] for one in (*found["near_misses"], *found["faults"])]
    none = "none of the client's: it"
    assert whys == {
        "closed thought": [f"the call of get_weather is {none} is in the model's reasoning"],
        "one at a time": [f"the call of get_time is {none} follows the last allowed call, number 1"],
        "malformed is text": [f"the call of get_weather is {none}s arguments are no complete JSON as written"],
    }


async def test_each_place_is_told_of_once() -> None:
    for name in ("unknown dropped", "not renamed", "malformed is text", "closed thought", "open thought"):
        texts, settings, request = CASES[name]
        _, trace = await exchanged(TextBackend(texts), stream=True, request=request, **settings)
        found = explain(trace.rows, trace.summary)
        assert len(found["near_misses"]) + len(found["faults"]) == (name != "open thought"), name


@WAYS
@pytest.mark.parametrize(
    ("text", "settings", "request_fields", "why"),
    [
        (f"So:\n```\n{WEATHER}\n```\nok?", {}, {}, "`<tool_call` is an example in a fence"),
        (
            WEATHER,
            {"format": "pythonic"},
            {},
            "`<tool_call` begins a call of another format; here calls are read as pythonic writes them",
        ),
        ("<think>Write <tool_call> then.</think>Hi.", {}, {}, "`<tool_call` is in the model's reasoning"),
        (WEATHER, {}, {"tool_choice": "none"}, "`<tool_call` calls nothing: no tool may be called"),
    ],
    ids=["fence", "format", "thought", "none"],
)
async def test_text_that_looks_like_a_call_is_shown_with_the_reason(
    text: str, settings: dict[str, Any], request_fields: dict[str, Any], why: str, stream: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    _, trace = await exchanged(TextBackend([text]), stream=stream, request=request_fields, **settings)
    found = explain(trace.rows, trace.summary)
    assert [one["why"] for one in found["near_misses"]] == [f"looked like a call: {why}"]
    (one,) = found["near_misses"]
    assert text[one["start"] : one["end"]] == "<tool_call"
    path = tmp_path / "trace.jsonl"
    path.write_bytes(trace.encode())
    assert main(["replay", str(path)]) == 0
    assert f"no call: looked like a call: {why} (at {one['start']}: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "tokens", "told"), [("", 20, True), ("", 1, False), ("", 0, False), ("Hi.", 20, False)]
)
async def test_an_empty_answer_whose_tokens_were_counted_is_told(
    text: str, tokens: int, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = {"usage": {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}} if tokens else {}
    backend = TextBackend([Answer(text, extra=counted)], usage=False)
    _, trace = await exchanged(backend, stream=False, request={}, retries=0)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(trace.encode())
    assert main(["replay", str(path)]) == 0
    says = "no call: the backend's answer is empty, though it counted 20 tokens: "
    assert (says in capsys.readouterr().out) is told


@pytest.mark.parametrize(
    ("script", "quirks"),
    [
        (Refusal(400, {"error": {"message": "engine died", "type": "x", "code": 400}}), Quirks()),
        ("Hi, there it is.", Quirks(error_after=3)),
    ],
    ids=["status", "event"],
)
async def test_what_the_backend_said_instead_of_the_rest_is_shown(
    script: Any, quirks: Quirks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, trace = await exchanged(TextBackend([script] * 2, quirks=quirks), stream=True, request={}, retries=0)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(trace.encode())
    main(["replay", str(path)])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("! the backend said: "))
    assert "engine died" in line


@pytest.mark.parametrize(("name", "code"), [("renamed", 0), ("coerced", 0), ("closed thought", 0), ("cut", 1)])
async def test_replay_fails_for_what_is_malformed_alone(name: str, code: int, tmp_path: Path) -> None:
    texts, settings, request = CASES[name]
    _, trace = await exchanged(TextBackend(texts), stream=True, request=request, **settings)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(trace.encode())
    assert main(["replay", str(path)]) == code


async def test_the_settings_in_a_trace_hold_no_secret(tmp_path: Path) -> None:
    _, trace = await exchanged(
        TextBackend([WEATHER]), stream=False, request={}, upstream_key="sk-secret", max_tool_calls=3
    )
    (row,) = (row for row in trace.rows if row["kind"] == "settings")
    assert row["values"] == {"mode": "prompt", "format": "hermes", "max_tool_calls": "3"}
    assert b"sk-secret" not in trace.encode()


@pytest.mark.parametrize("name", ["renamed", "closed thought", "open thought", "one at a time", "coerced"])
async def test_a_trace_without_settings_is_read_by_the_defaults(name: str) -> None:
    texts, settings, request = CASES[name]
    response, trace = await exchanged(TextBackend(texts), stream=True, request=request, **settings)
    trace.rows = [row for row in trace.rows if row["kind"] != "settings"]
    for row in trace.rows:
        row.pop("of", None)
    assert shown(trace) == got(response)


async def test_nothing_that_a_trace_names_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostile_format.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    _, trace = await exchanged(TextBackend([WEATHER]), stream=False, request={})
    (row,) = (row for row in trace.rows if row["kind"] == "settings")
    row["values"] |= {
        "format": "hostile_format:FAMILY",
        "template": "/no/such",
        "send": "completions",
        "tokenizer": "hf:no/such",
        "retries": "many",
        "a_later_versions": "x",
    }
    assert shown(trace) == [("get_weather", '{"city": "P"}')]


async def test_what_was_logged_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    _, trace = await exchanged(TextBackend([WEATHER]), stream=False, request={})
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "toolcall_middleware"):
        assert shown(trace)
    assert not caplog.messages


JUNK: list[Any] = [
    "", "junk", None, [1], {"a": 1}, "\\ud800",
    'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": "x", "function": {"name": [1]}}]}}]}\n\n',
    'data: {"choices": [{"delta": {"tool_calls": [{"index": 7, "function": {"name": 5, "arguments": 5}}]}}]}\n\n',
]  # fmt: skip


async def test_a_trace_may_hold_anything() -> None:
    """It may come from anybody: what cannot be read says nothing."""
    _, trace = await exchanged(TextBackend([f"Look: {WEATHER}"], chunk_size=20), stream=True, request={})
    rows = trace.rows
    for at, row in enumerate(rows):
        for name in [name for name in row if name not in {"kind", "at"}]:
            for junk in JUNK:
                case_of([*rows[:at], {**row, name: junk}, *rows[at + 1 :]], trace.summary)
        explain([*rows[:at], *rows[at + 1 :]], trace.summary)
        explain([*rows[: at + 1], *rows[at:]], trace.summary)
    for name in trace.summary:
        for junk in JUNK:
            explain(rows, {**trace.summary, name: junk})
