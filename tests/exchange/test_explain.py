"""A recorded exchange, explained: what of the text became what, by which delta it left, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats.goldens import Case
from tests.helpers.asgi_client import Client, ask
from tests.helpers.fakes import Answer, TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.cli.dispatch import main
from toolcall_middleware.explain import answer_of, case_of, explain, prompt_parts
from toolcall_middleware.formats import registry
from toolcall_middleware.hosts.proxy.inspector.store import Store
from toolcall_middleware.observe.traces import Trace

CALL = write_calls("hermes", ("weather", {"city": "Paris"}))


async def recorded(text: str | Answer, *, body: bytes | None = None, **options: Any) -> Trace:
    store = Store()
    app = ToolCallMiddleware(TextBackend([text]), mode="prompt", format="hermes", **options)
    app._observers = [store]
    await Client(ask() if body is None else body).run(app)
    (entry,) = store.entries.values()
    assert entry.trace is not None
    return entry.trace


def shown(trace: Trace) -> dict[str, Any]:
    return explain(trace.rows, trace.summary)


def kinds(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Runs of one kind."""
    runs: list[tuple[str, str]] = []
    for span in found["spans"]:
        text = found["text"][span["start"] : span["end"]]
        if runs and runs[-1][0] == span["kind"]:
            runs[-1] = span["kind"], runs[-1][1] + text
        else:
            runs.append((span["kind"], text))
    return runs


async def test_thoughts_prose_and_calls_are_told_apart() -> None:
    found = shown(await recorded(f"<think>Hm.</think>Let me look. {CALL}"))
    assert [kind for kind, _ in kinds(found)][:5] == ["markup", "reasoning", "markup", "text", "call"]
    assert ("text", "Let me look. ") in kinds(found)
    (call,) = found["calls"]
    assert (call["name"], json.loads(call["arguments"])) == ("weather", {"city": "Paris"})
    assert found["text"][call["start"] : call["end"]] == CALL.strip()


async def test_of_a_call_in_a_thought_and_after_it_the_one_after_it_is_the_clients() -> None:
    found = shown(await recorded(f"<think>hm {CALL}</think>{CALL}"))
    assert [call["start"] > found["text"].index("</think>") for call in found["calls"]] == [True]


async def test_spans_cover_the_text_in_order() -> None:
    found = shown(await recorded(f"<think>a 🌧️</think> b {CALL}\n\n{CALL} "))
    assert "".join(text for _, text in kinds(found)) == found["text"]
    assert [span["start"] for span in found["spans"][1:]] == [span["end"] for span in found["spans"][:-1]]


async def test_each_piece_of_prose_left_by_the_delta_that_holds_it() -> None:
    trace = await recorded("One two three four five.")
    found = shown(trace)
    for span in found["spans"]:
        left = trace.rows[span["client"]]
        assert left["kind"] == "client"
        assert json.dumps(found["text"][span["start"] : span["end"]])[1:-1] in left["data"]


async def test_a_misspelt_tool_says_which_was_meant() -> None:
    found = shown(await recorded("Hm. " + write_calls("hermes", ("weathr", {"city": "Paris"}))))
    assert [fault["why"] for fault in found["faults"]] == [
        "looked like a call: unknown name `weathr`, did you mean `weather`?"
    ]
    assert {kind for kind, _ in kinds(found)} == {"text"}


@pytest.mark.parametrize("name", ["weathr", "Weather"])
async def test_a_request_that_cannot_be_run_again_has_its_tools(name: str) -> None:
    trace = await recorded(write_calls("hermes", (name, {"city": "Paris"})))
    rows = [{**row, "values": {"format": "hermes", "mode": "off"}} if "values" in row else row for row in trace.rows]
    found = explain(rows, trace.summary)
    why = f"looked like a call: unknown name `{name}`, did you mean `weather`?"
    assert (found["calls"], [fault["why"] for fault in found["faults"]]) == ([], [why])
    case = case_of(rows, trace.summary)
    assert case["expected_tool_calls"] == []
    assert case["tools"] == json.loads(ask())["tools"]


async def test_a_call_that_is_cut_off_says_so() -> None:
    found = shown(await recorded(Answer(CALL[:-20], "length")))
    assert any("cut off" in fault["why"] for fault in found["faults"])


async def test_the_injected_part_of_the_prompt_is_marked() -> None:
    found = shown(await recorded("Hi."))
    parts = [part for message in found["prompt"] for part in message["parts"]]
    assert [part["text"] for part in parts if not part["injected"]] == ["hello"]
    assert any("weather" in part["text"] for part in parts if part["injected"])


def test_a_prompt_that_cannot_be_read_has_no_parts() -> None:
    assert prompt_parts("[", '{"messages": [1, {"role": "user", "content": null}]}') == [
        {"role": "user", "parts": [], "more": None}
    ]


async def test_a_whole_answer_is_one_piece() -> None:
    trace = await recorded(f"Look: {CALL}", body=ask(stream=False))
    assert len(answer_of(trace.rows).choices[0].pieces) == 1
    assert shown(trace)["calls"][0]["name"] == "weather"


async def test_a_case_is_read_as_it_says() -> None:
    trace = await recorded(f"<think>Hm.</think>Let me look. {CALL}")
    case = Case(**case_of(trace.rows, trace.summary))
    assert case.expected_content == "Let me look."
    assert case.expected_reasoning == "Hm."
    assert case.expected_tool_calls == [
        {"name": "weather", "arguments": {"city": "Paris"}, "arguments_text": '{"city": "Paris"}'}
    ]
    assert case.reader(registry.get(case.format)).feed(case.text)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", CALL, CALL[:9], "a\u202eb", "🌧", "\ud800", " ", "</tool_call>"]))
)
@settings(max_examples=80, deadline=None)
def test_whatever_a_model_writes_is_covered(texts: list[str]) -> None:
    rows: list[dict[str, Any]] = [{"at": 0.0, "kind": "ask", "data": "{}"}]
    rows += [
        {"at": 1.0, "kind": "backend", "data": f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n"}
        for text in texts
    ]
    found = explain(rows, {"format": "hermes"})
    assert "".join(text for _, text in kinds(found)) == found["text"]


@pytest.mark.parametrize(
    "data", ["", "data: [\n\n", '{"choices": 5}', '{"choices": [{"message": {"content": [5]}}]}', "\x00"]
)
def test_a_backend_that_writes_nonsense_is_no_error(data: str) -> None:
    assert explain([{"at": 0, "kind": "backend", "data": data}], {"format": "no-such"})["calls"] == []


# -- commands


async def written(folder: Path, text: str) -> Path:
    path = folder / "trace.jsonl"
    path.write_bytes((await recorded(text)).encode())
    return path


async def test_replay_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = await written(tmp_path, f"Let me \x1b[2J look. {CALL}")
    assert main(["replay", str(path)]) == 0
    out = capsys.readouterr().out
    assert "left as text" in out
    assert "became a call of weather" in out
    assert "format: hermes (format=hermes (keyword))" in out
    assert "\x1b" not in out


async def test_replay_saves_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = await written(tmp_path, CALL)
    assert main(["replay", str(path), "--save-case", str(tmp_path / "case.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["explained"]["calls"][0]["name"] == "weather"
    assert json.loads((tmp_path / "case.json").read_text("utf-8"))["text"].startswith("<tool_call>")


def test_only_a_trace_can_become_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("hello")
    assert main(["replay", str(tmp_path / "text"), "--save-case", "x"]) == 2
    assert "no trace" in capsys.readouterr().err


def body_file(folder: Path, **fields: Any) -> str:
    path = folder / "body.json"
    path.write_bytes(ask(**fields))
    return str(path)


def test_prompt_prints_what_the_model_would_be_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompt", body_file(tmp_path), "--format", "hermes"]) == 0
    out = capsys.readouterr().out
    assert "--- system\n# Tools" in out
    assert "# format: hermes" in out
    assert "--- user\nhello" in out


def test_prompt_takes_another_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompt", body_file(tmp_path), "--model", "Qwen/Qwen3-8B", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["model"] == "Qwen/Qwen3-8B"
    assert "<tools>" in body["messages"][0]["content"]
    assert "tools" not in body


def test_prompt_of_a_request_without_tools_is_the_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompt", body_file(tmp_path, tools=None)]) == 0
    assert "goes on as it is" in capsys.readouterr().err


def test_prompt_tells_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompt", body_file(tmp_path, tool_choice={"type": "function", "function": {"name": "no"}})]) == 2
    assert "tool_choice" in capsys.readouterr().err
    assert main(["prompt", str(tmp_path / "none.json")]) == 2
