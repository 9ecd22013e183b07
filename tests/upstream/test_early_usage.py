"""Usage of streams that the middleware ends itself: a named tool, `parallel_tool_calls: false`, `stop`.

A backend that is stopped gives no numbers, and they are estimated. A constrained answer ends by itself some tokens
after its call. A client that wants exact numbers asks for them in each chunk (`continuous_usage_stats`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.helpers.driven import Driven
from tests.helpers.stream_rules import Answered, check_stream
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
CALL = '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]}'
EACH = {"include_usage": True, "continuous_usage_stats": True}
"""vLLM's and SGLang's: numbers in each chunk."""


@dataclass
class Backend:
    """A server whose model writes `texts` in turn, four characters a token, and counts as vLLM does.

    Numbers in each chunk come where the request asks for them. behind: how many words the model writes after its
    answer unless the stream is stopped.
    """

    texts: list[str]
    prompt: int = 338
    behind: int = 0
    native: bool = False
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def events(self, body: dict[str, Any]) -> Iterator[bytes]:
        text = self.texts[min(len(self.bodies), len(self.texts)) - 1] + " more" * self.behind
        pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if self.native:
            opening = {"index": 0, "id": f"call_{1:024}", "type": "function", "function": {"name": "get_weather"}}
            deltas.append({"tool_calls": [opening]})
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
        else:
            deltas += [{"content": piece} for piece in pieces]
        for number, delta in enumerate(deltas):
            yield self._event(body, number, [{"index": 0, "delta": delta, "finish_reason": None}])
        yield self._event(body, len(deltas), [{"index": 0, "delta": {}, "finish_reason": "stop"}])
        if (body.get("stream_options") or {}).get("include_usage"):
            yield self._event(body, len(deltas), [], last=True)
        yield b"data: [DONE]\n\n"

    def _event(self, body: dict[str, Any], written: int, choices: list[dict[str, Any]], *, last: bool = False) -> bytes:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
        asked = (body.get("stream_options") or {}).get("continuous_usage_stats")
        if last or asked:
            chunk["usage"] = self.usage(written)
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    def usage(self, written: int) -> dict[str, Any]:
        return {"prompt_tokens": self.prompt, "total_tokens": self.prompt + written, "completion_tokens": written}


def ask(
    backend: Backend,
    memory: BackendMemory | None = None,
    settings: dict[str, Any] | None = None,
    **fields: Any,
) -> tuple[Answered, int]:
    """(the client's answer, how many events of the last attempt were read)."""
    exchange = Driven(Settings(**{"mode": "prompt", **(settings or {})}), memory or BackendMemory())
    request: dict[str, Any] = {
        "model": "m", "messages": [{"role": "user", "content": "Weather in Paris?"}], "tools": [TOOL], "stream": True,
        "stream_options": {"include_usage": True}, **fields,
    }  # fmt: skip
    raw = exchange.on_request(json.dumps(request).encode())
    while True:
        assert raw is not None
        backend.bodies.append(json.loads(raw))
        exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
        out, read = b"", 0
        for event in backend.events(backend.bodies[-1]):
            if exchange.stopped:
                break
            out += exchange.feed(event)
            read += 1
        else:
            out += exchange.finish()
        raw = exchange.take_next()
        if raw is None:
            return check_stream(out, include_usage=request["stream_options"] is not None), read


def counts(answered: Answered) -> tuple[int, int, bool]:
    usage = answered.usage
    assert usage is not None
    return usage["prompt_tokens"], usage["completion_tokens"], usage.get("estimated", False)


# -- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"parallel_tool_calls": False}, {"tool_choice": NAMED}, {"stop": ["END"]}], ids=str)
def test_a_stream_is_asked_for_what_its_client_asks_for(fields: dict[str, Any]) -> None:
    backend = Backend([CALL])
    ask(backend, **fields)
    assert backend.bodies[0]["stream_options"] == {"include_usage": True}


def test_a_client_can_ask_for_numbers_in_each_chunk() -> None:
    answered, read = ask(Backend(["Some text END"], behind=100), stop=["END"], stream_options=EACH)
    assert answered.only.content == "Some text "
    assert read < 10
    assert counts(answered) == (338, 4, False)


def test_a_stream_that_is_ended_early_has_estimates_otherwise() -> None:
    answered, read = ask(Backend(["Some text END"], behind=100), stop=["END"])
    assert answered.only.content == "Some text "
    assert read < 10
    assert counts(answered)[2] is True


def test_no_number_of_a_chunk_reaches_the_client() -> None:
    answered, _ = ask(Backend(["Some text END"]), stop=["END"], stream_options=EACH)
    assert all(chunk.get("usage") is None for chunk in answered.chunks if chunk["choices"])


# -- a constrained answer ends by itself ------------------------------------------------------------------------------


def test_a_constrained_answer_may_end_by_itself() -> None:
    backend = Backend([CALL])
    answered, read = ask(backend, tool_choice=NAMED)
    assert [call.name for call in answered.only.calls] == ["get_weather"]
    assert counts(answered) == (338, 1 + -(-len(CALL) // 4), False)
    assert read == 1 + -(-len(CALL) // 4) + 3  # to the last


def test_one_that_does_not_end_is_ended() -> None:
    backend = Backend([CALL[:-2]], behind=1000)
    answered, read = ask(backend, tool_choice=NAMED)
    assert [call.name for call in answered.only.calls] == ["get_weather"]
    assert len(CALL) // 4 < read < len(CALL) // 4 + 40
    assert counts(answered)[2] is True


def test_a_backends_own_named_call_ends_by_itself() -> None:
    backend = Backend([json.dumps({"city": "Paris"})], prompt=39, native=True)
    answered, _ = ask(backend, None, {"mode": "native"}, tool_choice=NAMED)
    assert counts(answered) == (39, 2 + 5, False)


def test_without_wish_for_usage_it_is_ended_at_once() -> None:
    _, read = ask(Backend([CALL], behind=1000), tool_choice=NAMED, stream_options=None)
    assert read <= 2 + len(CALL) // 4
