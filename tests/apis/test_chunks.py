"""Any chat stream on a face."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.apis.fed import Fed, MessagesFace, ResponsesFace, however_cut

TOOL = {"name": "f", "input_schema": {"type": "object"}}
MESSAGES = {
    "model": "m",
    "max_tokens": 9,
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [TOOL],
}
RESPONSES = {
    "model": "m",
    "stream": True,
    "input": "hi",
    "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "free"}],
}
THINKING = {**MESSAGES, "max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}}


def chunk(*choices: Any, **fields: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps({"id": "c", "created": 1, "model": "m", "choices": choices, **fields}).encode()


def said(delta: Any, index: int = 0, reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": reason}


def call(arguments: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **fields, "function": {"arguments": arguments}}]}


def opened(index: int, name: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": f"call_{index}", "function": {"name": name, "arguments": ""}}]}


def test_text_behind_the_end_of_an_answer_is_dropped() -> None:
    for face, body in ((MessagesFace(), MESSAGES), (ResponsesFace("m"), RESPONSES)):
        face.request(json.dumps(body).encode())
        more = chunk(said({"content": "more"}))
        for event in (more, more, chunk(said({}, reason="stop"))):
            face.feed(event)
        face.finish(cut=False)
        assert face.feed(more) == b""


_PLAIN = ["Hello", " there", "", "é", "\U0001f600", "d83d", "{", "}"]
_ESCAPED = ['"', "\\", "\\\\", 'a"b', "\n\t", "\\ud83d", "\\ude00", "\\u", '{"a": "', '"}']
TEXTS = st.sampled_from([*_PLAIN, *_ESCAPED])
DELTAS = st.one_of(
    TEXTS.map(lambda text: {"content": text}),
    TEXTS.map(lambda text: {"reasoning": text}),
    st.builds(call, TEXTS, st.integers(0, 1)),
    st.builds(opened, st.integers(0, 1), st.sampled_from(["f", "free"])),
    st.just({"refusal": "no"}),
)
EVENTS = st.one_of(
    DELTAS.map(lambda delta: chunk(said(delta))),
    st.tuples(st.sampled_from(["content", "reasoning"]), st.lists(TEXTS, max_size=6)).map(
        lambda run: b"".join(chunk(said({run[0]: text})) for text in run[1])
    ),
    st.tuples(st.integers(0, 1), st.lists(TEXTS, max_size=6)).map(
        lambda run: chunk(said(opened(run[0], "f"))) + b"".join(chunk(said(call(text, run[0]))) for text in run[1])
    ),
    st.sampled_from(
        [
            chunk(said({}, reason="stop")),
            chunk(said({}, reason="length")),
            chunk(usage={"prompt_tokens": 3, "completion_tokens": 4}),
            chunk(said({"content": "other"}, 1)),
            chunk(said({"content": "x"}), error={"message": "no"}),
            b"data: [DONE]\n\n",
            b": comment\n\n",
        ]
    ),
)


@given(st.lists(EVENTS, max_size=12).map(b"".join))
def test_any_stream_says_the_same_however_it_is_cut(stream: bytes) -> None:
    for new, body in ((MessagesFace, MESSAGES), (MessagesFace, THINKING), (ResponsesFace, RESPONSES)):
        however_cut(lambda new=new, body=body: opened_by(new(), body), stream)  # type: ignore[misc]


def opened_by(face: Any, body: dict[str, Any]) -> Fed:
    face.request(json.dumps(body).encode())
    return face  # type: ignore[no-any-return]
