"""`toolcall-middleware replay`: text, stream or whole answer, read offline."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcall_middleware.cli import main
from toolcall_middleware.cli.command import MAX_FILE

TEXT = (
    'Let me see. <tool_call>\n{"name": "f", "arguments": {"x": 1,}}\n</tool_call>\n'
    '<tool_call>{"name":"g"}</tool_call> ok'
)

GOOD = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


def replay(tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str | bytes, *flags: str) -> tuple[int, Any]:
    file = tmp_path / "captured"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    code = main(["replay", str(file), "--json", *flags])
    return code, json.loads(capsys.readouterr().out)


def test_calls_come_with_their_place_in_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, (choice,) = replay(tmp_path, capsys, TEXT)
    assert [(call["name"], json.loads(call["arguments"])) for call in choice["tool_calls"]] == [
        ("f", {"x": 1}),
        ("g", {}),
    ]
    first, second = choice["tool_calls"]
    assert TEXT[first["begin"] : first["end"]].startswith("<tool_call>\n{")
    assert TEXT[second["begin"] : second["end"]].startswith('<tool_call>{"name":"g"}')
    assert choice["content"] == "Let me see.  ok"
    assert choice["finish_reason"] == "tool_calls"
    assert code == 1
    assert choice["faults"] == [{"at": first["begin"], "what": "the arguments of f were repaired"}]


def test_a_stream_and_a_whole_answer_are_read_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"content": TEXT[at : at + 7]}}]} for at in range(0, len(TEXT), 7)]
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    whole = json.dumps({"choices": [{"index": 0, "message": {"content": TEXT}, "finish_reason": "stop"}]})
    plain = replay(tmp_path, capsys, TEXT)
    assert replay(tmp_path, capsys, stream) == plain
    assert replay(tmp_path, capsys, whole) == plain


def test_a_backends_own_calls_are_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [{"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}]
    whole = json.dumps(
        {"choices": [{"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}]}
    )
    code, (choice,) = replay(tmp_path, capsys, whole)
    assert code == 0
    assert [(call["name"], call["arguments"], call["id"]) for call in choice["tool_calls"]] == [("f", '{"x":1}', "a")]


def test_a_call_of_a_thought_is_none_beside_the_backends_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [
        {"id": name, "index": index, "function": {"name": name, "arguments": "{}"}}
        for index, name in ((0, "a"), (1, "b"))
    ]
    message = {"reasoning": f"Hm. {GOOD}", "content": None, "tool_calls": calls}
    _, (choice,) = replay(tmp_path, capsys, json.dumps({"choices": [{"message": message}]}))
    assert [call["name"] for call in choice["tool_calls"]] == ["a", "b"]


def test_choices_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choices = [{"index": 1, "message": {"content": "one"}}, {"index": 0, "message": {"content": GOOD}}]
    _, read = replay(tmp_path, capsys, json.dumps({"choices": choices}))
    assert [(one["index"], one["content"], one["finish_reason"]) for one in read] == [
        (0, None, "tool_calls"),
        (1, "one", None),
    ]
    assert main(["replay", str(tmp_path / "captured")]) == 0
    assert capsys.readouterr().out == (
        f"== choice 0\ncontent: (none)\ncall 0 at 0-{len(GOOD)}: f {{}}\nfinish_reason: tool_calls\n"
        "== choice 1\ncontent: one\nfinish_reason: stop\n"
    )


def test_where_generation_would_have_been_stopped_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{GOOD}\n<|im_start|>user\nAnd now?"
    _, (choice,) = replay(tmp_path, capsys, text, "--format", "hermes")
    assert choice["stopped_at"] == text.index("<|im_start|>")
    main(["replay", str(tmp_path / "captured"), "--format", "hermes"])
    assert f"! generation would have been stopped at {choice['stopped_at']}\n" in capsys.readouterr().out


def test_tools_say_what_can_be_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"type": "function", "function": {"name": "g"}}]))
    _, (choice,) = replay(tmp_path, capsys, TEXT, "--tools", str(tools), "--format", "hermes")
    assert [call["name"] for call in choice["tool_calls"]] == ["g"]
    assert '"name": "f"' in choice["content"]


def test_a_cut_call_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '<tool_call>{"name": "f", "arguments": {"x": "ab'
    whole = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "length"}]})
    code, (choice,) = replay(tmp_path, capsys, whole)
    assert code == 1
    assert choice["finish_reason"] == "length"
    assert "cut off" in choice["faults"][0]["what"]


def test_a_person_can_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "captured"
    file.write_text(TEXT)
    assert main(["replay", str(file)]) == 1
    shown = capsys.readouterr().out
    assert 'call 0 at 12-74: f {"x": 1}' in shown
    assert "! the arguments of f were repaired" in shown


IN_A_FENCE = f"You would write this:\n```\n{GOOD}\n```\nok?"
HERMES = ["--format", "hermes"]
OTHERS = "begins a call of another format; here calls are read as pythonic writes them"
OFFERED = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize(
    ("text", "flags", "why", "at"),
    [
        (IN_A_FENCE, HERMES, "`<tool_call` is an example in a fence", "<tool_call"),
        (GOOD, ["--format", "pythonic"], f"`<tool_call` {OTHERS}", "<tool_call"),
        (f"<think>Hm. {GOOD}</think>Hi.", HERMES, "`<tool_call` is in the model's reasoning", "<tool_call"),
        (f"So: {GOOD.replace('f', 'ff', 1)}", HERMES, "unknown name `ff`, did you mean `f`?", "<tool_call"),
        ('So: {"name": "f", "arguments": {}} it is.', [], "JSON that names `f` follows no marker", '"name"'),
    ],
    ids=["fence", "format", "thought", "name", "json"],
)  # fmt: skip
def test_what_is_no_call_comes_with_the_reason(
    text: str, flags: list[str], why: str, at: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(OFFERED))
    code, (choice,) = replay(tmp_path, capsys, text, "--tools", str(tools), *flags)
    assert (code, choice["tool_calls"], choice["content"]) == (0, [], text)
    assert choice["near_misses"] == [{"at": text.index(at), "what": f"looked like a call: {why}"}]
    assert main(["replay", str(tmp_path / "captured"), "--tools", str(tools), *flags]) == 0
    assert f"no call: looked like a call: {why} (at {text.index(at)}: {at}" in capsys.readouterr().out


@pytest.mark.parametrize("text", [TEXT, f"<think>Hm. {GOOD}", "The function f(x) = 2 < 3 [sic]."])
def test_a_call_and_plain_text_are_no_near_misses(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(tmp_path, capsys, text, "--format", "hermes")[1][0]["near_misses"] == []


@pytest.mark.parametrize(("flags", "said"), [(["missing"], "missing"), (["-", "--tools", "missing"], "missing")])
def test_a_file_that_is_not_there_is_one_line(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert main(["replay", *flags]) == 2
    assert said in capsys.readouterr().err


ERROR = {"error": {"message": "The context is full.", "type": "invalid_request_error"}}


@pytest.mark.parametrize(
    ("data", "error", "content"),
    [
        (f"data: {json.dumps(ERROR)}\n\ndata: [DONE]\n\n", "The context is full.", None),
        (
            'data: {"choices": [{"index": 0, "delta": {"content": "Well"}}]}\n\n' + f"data: {json.dumps(ERROR)}\n\n",
            "The context is full.",
            "Well",
        ),
        (json.dumps(ERROR), "The context is full.", None),
        ('{"error": "The context is full."}', "The context is full.", None),
        ("data: [DONE]\n\n", "there is no answer in it", None),
        ('data: {"choices": 5}\n\n', "there is no answer in it", None),
        ('{"choices": 5}', "there is no answer in it", None),
    ],
)
def test_a_captured_error_is_told_and_is_no_good_end(
    data: str, error: str, content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, (choice,) = replay(tmp_path, capsys, data)
    assert (code, choice["error"], choice["content"], choice["finish_reason"]) == (1, error, content, None)
    assert main(["replay", str(tmp_path / "captured")]) == 1
    printed = capsys.readouterr().out
    assert printed.endswith(f"! error: {error}\n")
    assert "finish_reason" not in printed


HOSTILE = "[/bold][red]:smile: a\x1b[2J\x9b31m\x07\u202eb\r\x00\x7f\ud83d tab\tend é🎉\n"


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"choices": [{"message": {"content": HOSTILE, "reasoning": HOSTILE}, "finish_reason": HOSTILE}]}),
        json.dumps({"choices": [{"message": {"tool_calls": [{"function": {"name": HOSTILE, "arguments": HOSTILE}}]}}]}),
        json.dumps({"choices": [{"message": {"content": HOSTILE}, "finish_reason": [HOSTILE]}]}),
        json.dumps({"error": {"message": HOSTILE}}),
        json.dumps({"choices": [{"message": {"content": '<tool_call>{"name": "f", "arguments": {"x": "' + HOSTILE}}]}),
    ],
    ids=["text", "calls", "reason", "error", "cut"],
)
@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_what_a_terminal_would_obey_is_not_printed(
    data: str, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "captured"
    file.write_text(data)
    main(["replay", str(file), *flags])
    shown = capsys.readouterr().out
    assert "[2J" in shown
    assert "[/bold][red]:smile: a" in shown  # no markup of the library that prints
    assert all(char.isprintable() or char in "\n\t" or (flags and char == "\x7f") for char in shown)
    if not flags:
        assert re.search(r"\\(?:x1b|u001b)\[2J\\(?:x9b|u009b)31m", shown)
        assert "é🎉" in shown or r"\u00e9\ud83c\udf89" in shown


@pytest.mark.parametrize(("end", "called"), [("", 1), ("</think>", 0), ("</think>Done.", 0)])
def test_a_call_in_a_thought_is_one_where_the_answer_ends_in_it(
    end: str, called: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
    _, (choice,) = replay(tmp_path, capsys, f"<think>Hm. {call}{end}", "--format", "hermes")
    assert [(one["name"], one["begin"]) for one in choice["tool_calls"]] == [("look", 11)] * called
    body = json.dumps({"choices": [{"message": {"reasoning": f"Hm. {call}", "content": end}}]})
    assert len(replay(tmp_path, capsys, body, "--format", "hermes")[1][0]["tool_calls"]) == called


def test_what_is_no_file_is_neither_waited_for_nor_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    large = tmp_path / "large.jsonl"
    with large.open("wb") as file:
        file.truncate(MAX_FILE + 1)
    odd = [
        (str(tmp_path / "pipe"), "no regular file"),
        ("/dev/zero", "no regular file"),
        (str(tmp_path), "a folder"),
        (str(large), "more than 256 MiB"),
        ("a\0b", "null"),
    ]
    for command in (["replay"], ["prompt"], ["replay", str(large), "--tools"], ["inspect"]):
        for name, why in odd:
            if command == ["inspect"] and name == str(tmp_path):
                continue
            assert main([*command, name]) == 2
            written = capsys.readouterr().err
            assert why in written or str(large) in command
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bytes(2000))))
    monkeypatch.setattr("toolcall_middleware.cli.command.MAX_FILE", 1000)
    assert main(["replay", "-"]) == 2
    assert "-: it has more than" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no /dev/fd")
def test_a_pipe_that_a_shell_has_opened_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, GOOD.encode())
    os.close(theirs)
    assert main(["replay", f"/dev/fd/{ours}", "--json"]) == 0
    os.close(ours)
    assert json.loads(capsys.readouterr().out)[0]["tool_calls"][0]["name"] == "f"
