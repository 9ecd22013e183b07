"""Answers of providers as chat completions: asked for, fed in pieces, and read by OpenAI's own types."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from toolcall_middleware.apis.upstream import Translation, UpstreamAnswer

HELLO = {"role": "user", "content": "hi"}
DONE = b"data: [DONE]\n\n"


def begun(translation: Translation, model: str, *, stream: bool = False, **fields: Any) -> Translation:
    """The translation after a request."""
    translation.request(json.dumps({"model": model, "messages": [HELLO], "stream": stream, **fields}).encode())
    assert (translation.streamed is not None) is stream
    return translation


def stream_of(translation: Translation) -> UpstreamAnswer:
    """The reader of the stream that was asked for."""
    assert translation.streamed is not None
    return translation.streamed


def whole_by(translation: Translation, data: bytes) -> dict[str, Any]:
    status, body = translation.whole(200, data)
    assert status == 200
    made: dict[str, Any] = json.loads(body)
    ChatCompletion.model_validate(made)
    return made


def streamed_by(translation: Translation, data: bytes, cuts: Iterable[int] = ()) -> bytes:
    reader = stream_of(translation)
    out = b"".join(reader.feed(data[begin:end]) for begin, end in pairwise([0, *cuts, len(data)]))
    out += reader.finish(cut=False)
    assert reader.done
    return out


def chunks(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(DONE)
    made = [json.loads(event.removeprefix(b"data: ")) for event in data[: -len(DONE)].split(b"\n\n") if event]
    for one in made:
        if "error" not in one:
            ChatCompletionChunk.model_validate(one)
    return made
