"""Usage of streams that the middleware ends itself: a named tool, `parallel_tool_calls: false`, `stop`.

A backend that is told to end gives no numbers any more. vLLM gives them in each chunk when it is asked to
(`continuous_usage_stats`); a constrained answer ends by itself some tokens behind its call; and how long a prompt is
has been learned where it came before.
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
UNKNOWN = b'{"error": {"message": "Unknown parameter: stream_options.continuous_usage_stats", "code": 400}}'


@dataclass
class Backend:
    """A server whose model writes `texts` in turn, four characters a token, and counts as vLLM does.

    continuous: it gives numbers in each chunk to who asks for that; None where it refuses to be asked.
    behind: what the model would go on with behind its answer if nobody told it to end.
    """

    texts: list[str]
    prompt: int = 338
    continuous: bool | None = True
    behind: int = 0
    native: bool = False
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def refuses(self, body: dict[str, Any]) -> bool:
        return self.continuous is None and "continuous_usage_stats" in (body.get("stream_options") or {})

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
        asked = self.continuous and (body.get("stream_options") or {}).get("continuous_usage_stats")
        if last or asked:
            chunk["usage"] = self.usage(written)
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    def usage(self, written: int) -> dict[str, Any]:
        return {"prompt_tokens": self.prompt, "total_tokens": self.prompt + written, "completion_tokens": written}


def ask(
    backend: Backend,
    memory: BackendMemory | None = None,
    settings: dict[str, Any] | None = None,
    *,
    most: int = 10_000,
    **fields: Any,
) -> tuple[Answered, int]:
    """(the client's answer, how many events of the last attempt were read). most: events that the backend gives."""
    exchange = Driven(Settings(**{"mode": "prompt", **(settings or {})}), memory or BackendMemory())
    request = {
        "model": "m", "messages": [{"role": "user", "content": "Weather in Paris?"}], "tools": [TOOL], "stream": True,
        "stream_options": {"include_usage": True}, **fields,
    }  # fmt: skip
    raw = exchange.on_request(json.dumps(request).encode())
    while True:
        assert raw is not None
        backend.bodies.append(json.loads(raw))
        if backend.refuses(backend.bodies[-1]):
            exchange.on_response_start(400, [(b"content-type", b"application/json")])
            exchange.whole(UNKNOWN)
        else:
            exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
            out, read = b"", 0
            for event in backend.events(backend.bodies[-1]):
                if exchange.stopped or read >= most:
                    break
                out += exchange.feed(event)
                read += 1
            else:
                out += exchange.finish()
        raw = exchange.take_next()
        if raw is None:
            return check_stream(out, include_usage=True), read


def counts(answered: Answered) -> tuple[int, int, bool]:
    usage = answered.usage
    assert usage is not None
    return usage["prompt_tokens"], usage["completion_tokens"], usage.get("estimated", False)


# -- numbers in each chunk --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"parallel_tool_calls": False}, {"tool_choice": NAMED}, {"stop": ["END"]}], ids=str)
def test_a_stream_that_may_be_ended_asks_for_numbers_in_each_chunk(fields: dict[str, Any]) -> None:
    backend = Backend([CALL])
    ask(backend, **fields)
    assert backend.bodies[0]["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_another_stream_asks_for_none() -> None:
    backend = Backend([CALL])
    ask(backend)
    assert backend.bodies[0]["stream_options"] == {"include_usage": True}


def test_a_stream_that_a_stop_string_ends_has_the_backends_own_numbers() -> None:
    answered, read = ask(Backend(["Some text END"], behind=100), stop=["END"])
    assert answered.only.content == "Some text "
    assert read < 10
    assert counts(answered) == (338, 4, False)


def test_one_call_of_a_model_that_goes_on_has_the_backends_own_numbers() -> None:
    # Nothing constrains it, so it is ended at once.
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    answered, read = ask(Backend([text], behind=100), None, {"format": "hermes"}, parallel_tool_calls=False)
    assert [call.name for call in answered.only.calls] == ["get_weather"]
    prompt, completion, estimated = counts(answered)
    assert (prompt, estimated) == (338, False)
    assert completion == read - 1  # the first event is the role's


def test_no_number_of_a_chunk_reaches_the_client() -> None:
    answered, _ = ask(Backend(["Some text END"]), stop=["END"])
    assert all(chunk.get("usage") is None for chunk in answered.chunks if chunk["choices"])


# -- where the engine does not know that ------------------------------------------------------------------------------


def test_an_engine_that_refuses_to_be_asked_is_asked_without_and_remembered() -> None:
    backend, memory = Backend(["Some text END"], continuous=None), BackendMemory()
    answered, _ = ask(backend, memory, stop=["END"])
    assert answered.only.content == "Some text "
    assert [body["stream_options"] for body in backend.bodies] == [
        {"include_usage": True, "continuous_usage_stats": True},
        {"include_usage": True},
    ]
    ask(backend, memory, stop=["END"])
    assert backend.bodies[2]["stream_options"] == {"include_usage": True}


def test_in_mode_auto_such_a_refusal_is_not_taken_for_one_of_the_tools() -> None:
    backend = Backend([json.dumps({"city": "Paris"})], continuous=None, native=True)
    ask(backend, None, {"mode": "auto"}, parallel_tool_calls=False)
    assert [("tools" in body) for body in backend.bodies] == [True, True]


def test_an_engine_that_ignores_it_is_not_asked_again() -> None:
    backend, memory = Backend(["Just some text."], continuous=False), BackendMemory()
    ask(backend, memory, stop=["END"])
    ask(backend, memory, stop=["END"])
    assert backend.bodies[1]["stream_options"] == {"include_usage": True}


def test_a_client_that_asks_for_it_itself_has_its_own_options() -> None:
    backend = Backend([CALL])
    own = {"include_usage": True, "continuous_usage_stats": False}
    ask(backend, stop=["END"], stream_options=own)
    assert backend.bodies[0]["stream_options"] == own


# -- a constrained answer ends by itself ------------------------------------------------------------------------------


@pytest.mark.parametrize("continuous", [True, False])
def test_a_constrained_answer_may_end_by_itself(continuous: bool) -> None:
    backend = Backend([CALL], continuous=continuous)
    answered, read = ask(backend, tool_choice=NAMED)
    assert [call.name for call in answered.only.calls] == ["get_weather"]
    assert counts(answered) == (338, 1 + -(-len(CALL) // 4), False)
    assert read == 1 + -(-len(CALL) // 4) + 3  # to the last


@pytest.mark.parametrize("continuous", [True, False])
def test_one_that_does_not_end_is_ended(continuous: bool) -> None:
    backend = Backend([CALL[:-2]], continuous=continuous, behind=1000)
    answered, read = ask(backend, tool_choice=NAMED)
    assert [call.name for call in answered.only.calls] == ["get_weather"]
    assert len(CALL) // 4 < read < len(CALL) // 4 + 40
    assert counts(answered)[2] is not continuous


def test_a_backends_own_named_call_ends_by_itself() -> None:
    backend = Backend([json.dumps({"city": "Paris"})], prompt=39, continuous=False, native=True)
    answered, _ = ask(backend, None, {"mode": "native"}, tool_choice=NAMED)
    assert counts(answered) == (39, 2 + 5, False)


def test_without_wish_for_usage_it_is_ended_at_once() -> None:
    backend = Backend([CALL], behind=1000)
    exchange = Driven(Settings(mode="prompt"), BackendMemory())
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [TOOL], "tool_choice": NAMED}
    raw = exchange.on_request(json.dumps({**body, "stream": True}).encode())
    assert raw is not None
    backend.bodies.append(json.loads(raw))
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    read = 0
    for event in backend.events(backend.bodies[0]):
        if exchange.stopped:
            break
        exchange.feed(event)
        read += 1
    assert read <= 2 + len(CALL) // 4


# -- what was learned of the prompt -----------------------------------------------------------------------------------


def test_a_prompt_that_came_before_has_the_length_that_was_told_then() -> None:
    backend, memory = Backend(["Just some text.", "Some text END"], continuous=False, behind=30), BackendMemory()
    first, _ = ask(backend, memory, stop=["NEVER"])
    second, _ = ask(backend, memory, stop=["END"])
    assert counts(first)[0] == counts(second)[0] == 338
    assert counts(second)[2] is True  # what the model wrote is a guess


def test_a_longer_prompt_of_the_same_tools_is_estimated_from_what_is_known() -> None:
    backend, memory = Backend(["Just some text.", "Some text END"], continuous=False, behind=30), BackendMemory()
    ask(backend, memory, stop=["NEVER"])
    guessed, _ = ask(
        backend, memory, stop=["END"],
        messages=[{"role": "user", "content": "Weather in Paris?"}, {"role": "assistant", "content": "Rain."},
                  {"role": "user", "content": "And in Rome?"}],
    )  # fmt: skip
    assert 338 < counts(guessed)[0] < 338 + 40


def test_what_one_client_sent_changes_no_estimate_of_another() -> None:
    memory = BackendMemory()
    backend = Backend(["Just some text.", "Some text END"], prompt=90_000, continuous=False, behind=30)
    ask(backend, memory.of(b"mallory"), stop=["NEVER"])
    guessed, _ = ask(backend, memory.of(b"alice"), stop=["END"], messages=[{"role": "user", "content": "Else?"}])
    assert counts(guessed)[0] < 1000
