"""Chunks one by one and all at once say the same on a face."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.apis.fed import Fed, MessagesFace, ResponsesFace

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


# -- one by one, and all at once, which is never compared -----------------------------------------------------------

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


def answered(face: Fed, body: dict[str, Any], pieces: list[bytes]) -> bytes:
    face.request(json.dumps(body).encode())
    return b"".join([*map(face.feed, pieces), face.finish(cut=False)])


@given(st.lists(EVENTS, max_size=12).map(b"".join))
def test_events_one_by_one_make_what_they_make_together(stream: bytes) -> None:
    single = [part + b"\n\n" for part in stream.split(b"\n\n")[:-1]]
    for new, body in ((MessagesFace, MESSAGES), (MessagesFace, THINKING), (ResponsesFace, RESPONSES)):
        one, other = (answered(new(), body, pieces) for pieces in (single, [stream]))
        assert _without_new(one) == _without_new(other)


def _without_new(stream: bytes) -> list[Any]:
    """The events, without times and ids, which are new in each."""
    events = [json.loads(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: ")]
    return [_bare(event) for event in events]


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        new = {"created_at", "completed_at", "id", "item_id", "call_id", "request_id"}
        return {name: _bare(item) for name, item in value.items() if name not in new}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def test_half_a_character_that_is_cut_between_repeated_chunks_is_found() -> None:
    pieces = ['{"a": "', "xy", "\\", "ud83d", " ", '"}']
    stream = [
        chunk(said(opened(0, "f"))),
        *(chunk(said(call(piece))) for piece in pieces),
        chunk(said({}, reason="stop")),
    ]
    one, other = (_without_new(answered(MessagesFace(), MESSAGES, part)) for part in (stream, [b"".join(stream)]))
    written = [
        "".join(event["delta"].get("partial_json", "") for event in events if "delta" in event)
        for events in (one, other)
    ]
    assert written == ['{"a": "xy\\ufffd "}'] * 2
