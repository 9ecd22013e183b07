"""Empty content beside and behind calls: streams say what whole answers say, `null`, and nothing behind a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.driven import SSE, Driven
from toolcall_middleware.settings import Settings

from .streams import DONE, chunk, completion, event

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}
CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
ENTRY = {"index": 0, "id": "call_" + "a" * 24, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def streamed(*deltas: tuple[dict[str, Any], str | None], mode: str = "prompt", **fields: Any) -> list[dict[str, Any]]:
    """The client's chunks for the backend's."""
    made = Driven(Settings(mode=mode, format="hermes", retries=0))
    made.asks(**ASKED, stream=True, **fields)
    out = made.streams(*(event(chunk(delta, reason)) for delta, reason in deltas), DONE)
    return [json.loads(line[6:]) for line in out.decode().split("\n\n") if line.startswith("data: {")]


def whole(message: dict[str, Any], mode: str = "prompt") -> Any:
    made = Driven(Settings(mode=mode, format="hermes", retries=0))
    made.asks(**ASKED)
    return json.loads(made.answers(completion(message)).body)["choices"][0]["message"]["content"]


def gathered(chunks: list[dict[str, Any]]) -> str | None:
    """The content as an SDK accumulates it: what is null adds nothing, and what is empty makes it a string."""
    content: str | None = None
    for one in chunks:
        for choice in one["choices"]:
            text = choice["delta"].get("content")
            if text is not None:
                content = (content or "") + text
    return content


ROLE = ({"role": "assistant", "content": ""}, None)
PROMPT = [({"content": CALL[at : at + 7]}, None) for at in range(0, len(CALL), 7)]
NATIVE = [({"tool_calls": [ENTRY]}, None)]
CALLED = pytest.mark.parametrize(("mode", "calls"), [("prompt", PROMPT), ("native", NATIVE)])


@CALLED
@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("last", [{}, {"content": ""}, {"content": None}], ids=["bare", "empty", "null"])
def test_a_streamed_answer_of_calls_alone_has_content_null_as_the_whole_one(
    mode: str, calls: list[Any], required: bool, last: dict[str, Any]
) -> None:
    choice = "required" if required else "auto"
    chunks = streamed(ROLE, *calls, (last, "stop"), mode=mode, tool_choice=choice)
    assert any(one["choices"][0]["delta"].get("tool_calls") for one in chunks)
    message = {"content": CALL} if mode == "prompt" else {"content": "", "tool_calls": [ENTRY]}
    assert gathered(chunks) is whole(message, mode) is None
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": None} or required


@CALLED
def test_no_empty_delta_stands_behind_a_call(mode: str, calls: list[Any]) -> None:
    empty: dict[str, Any] = {"content": ""}
    chunks = streamed(ROLE, *calls, (empty, None), (empty, None), (empty, "stop"), mode=mode)
    deltas = [one["choices"][0]["delta"] for one in chunks]
    first = next(at for at, delta in enumerate(deltas) if delta.get("tool_calls"))
    assert not any("content" in delta for delta in deltas[first:])
    assert deltas[-1] == {}
    assert all(deltas[first:-1])


def test_a_piece_without_text_that_looks_like_the_others_is_none() -> None:
    # Like the chunks before to the byte but for the text: it goes the short way.
    chunks = streamed(ROLE, *PROMPT, ({"content": ""}, None), ({"content": ""}, None), ({}, "stop"))
    assert gathered(chunks) is None


@pytest.mark.parametrize("pieces", [["Hello", " there"], ["Hello", "", " there"], ["", "Hello"]])
def test_text_is_text_as_ever(pieces: list[str]) -> None:
    chunks = streamed(ROLE, *(({"content": piece}, None) for piece in pieces), ({"content": ""}, "stop"))
    assert gathered(chunks) == "".join(pieces)
    assert chunks[-1]["choices"][0] == {"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}


@pytest.mark.parametrize("last", [{}, {"content": ""}])
def test_an_answer_that_says_nothing_has_empty_content_as_the_whole_one(last: dict[str, Any]) -> None:
    assert gathered(streamed(ROLE, (last, "stop"))) == whole({"content": ""}) == ""


@pytest.mark.parametrize("first", [{"role": "assistant", "content": ""}, {"role": "assistant"}, {"content": None}])
@pytest.mark.parametrize(("reason", "again"), [("stop", True), ("tool_calls", True), ("length", False)])
def test_a_streamed_answer_that_says_nothing_is_held_and_asked_for_again(
    first: dict[str, Any], reason: str, again: bool
) -> None:
    made = Driven(Settings(mode="prompt", format="hermes"))
    made.asks(**ASKED, stream=True)
    made.on_response_start(200, SSE)
    held = [made.feed(data) for data in (event(chunk(first)), event(chunk({}, reason)), DONE)]
    assert held == [b"", b"", b""]
    assert (made.finish() == b"") is again
    assert (made.take_next() is not None) is again


def test_one_that_was_null_stays_null() -> None:
    assert gathered(streamed(({"role": "assistant", "content": None}, None), ({}, "stop"))) is whole({"content": None})


def test_where_no_call_can_come_the_first_chunk_keeps_its_bytes() -> None:
    chunks = streamed(ROLE, ({"content": "Hello"}, None), ({}, "stop"), tool_choice="none")
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_the_first_chunk_of_a_text_leaves_as_it_came() -> None:
    made = Driven(Settings(mode="prompt", format="hermes"))
    made.asks(**ASKED, stream=True)
    made.on_response_start(200, SSE)
    sent = [event(chunk(delta)) for delta in ({"role": "assistant", "content": ""}, {"content": "Hello"})]
    assert made.feed(sent[0]) == b""  # it may still be a call
    assert made.feed(sent[1]) == sent[0] + sent[1]


@pytest.mark.parametrize("called", [0, 1])
def test_of_several_choices_each_has_its_own_content(called: int) -> None:
    def choice(index: int, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return event({**chunk({}), "choices": [{"index": index, "delta": delta, "finish_reason": reason}]})

    made = Driven(Settings(mode="prompt", format="hermes"))
    made.asks(**ASKED, stream=True, n=2)
    said = [choice(index, {"content": CALL if index == called else "Hi"}) for index in (0, 1)]
    ends = [choice(index, {}, "stop") for index in (0, 1)]
    out = made.streams(*(choice(index, ROLE[0]) for index in (0, 1)), *said, *ends, DONE)
    content: dict[int, str | None] = {0: None, 1: None}
    for line in out.decode().split("\n\n"):
        for one in json.loads(line[6:])["choices"] if line.startswith("data: {") else ():
            if (text := one["delta"].get("content")) is not None:
                content[one["index"]] = (content[one["index"]] or "") + text
    assert content[called] is None
    assert content[1 - called] == "Hi"
