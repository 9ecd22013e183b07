"""What a Responses client receives, read by the rules of the wire and by the OpenAI SDK's own types and accumulator."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, get_args

from openai import omit
from openai._models import construct_type
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent

# The SDK's union of events, by the type that each says; to try one after the other takes a hundred times as long.
_EVENTS = {
    get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(get_args(ResponseStreamEvent)[0])
}
_TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
# Of an item's content: what is added empty comes whole in its `done` events.
_DELTAS = {
    "response.output_text.delta": ("response.output_text.done", "text"),
    "response.refusal.delta": ("response.refusal.done", "refusal"),
    "response.reasoning_text.delta": ("response.reasoning_text.done", "text"),
    "response.function_call_arguments.delta": ("response.function_call_arguments.done", "arguments"),
    "response.custom_tool_call_input.delta": ("response.custom_tool_call_input.done", "input"),
}


@dataclass(slots=True)
class Received:
    """An answer that keeps the rules. `calls`: type, name, namespace and what is called; `ids`: their call ids."""

    response: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def output(self) -> list[dict[str, Any]]:
        output: list[dict[str, Any]] = self.response["output"]
        return output

    @property
    def text(self) -> str:
        return self._joined("message", "text")

    @property
    def refusal(self) -> str:
        return self._joined("message", "refusal")

    @property
    def thought(self) -> str:
        return self._joined("reasoning", "text")

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        return [
            (item["type"], item.get("name"), item.get("namespace"), _called(item))
            for item in self.output
            if item["type"].endswith("_call")
        ]

    @property
    def ids(self) -> list[str]:
        return [item["call_id"] for item in self.output if "call_id" in item]

    def of(self, event_type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == event_type]

    def _joined(self, item_type: str, name: str) -> str:
        parts = [part for item in self.output if item["type"] == item_type for part in item["content"]]
        return "".join(part.get(name, "") for part in parts)


def _called(item: dict[str, Any]) -> Any:
    names = ("arguments", "input", "action", "operation")
    return next(item[name] for name in names if name in item)


def read_events(body: bytes) -> list[dict[str, Any]]:
    """The events' data; each has the `event:` line that it says."""
    events: list[dict[str, Any]] = []
    assert body.endswith(b"\n\n") or not body
    for block in body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        events.append(payload)
    return events


def check_stream(body: bytes, *, accumulate: bool = True) -> Received:
    """Checks a complete stream against the wire's rules and the SDK's types, and gives what it says.

    accumulate: also by what the SDK's helper makes of it, which takes most of the time.
    """
    events = read_events(body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] in _TERMINAL
    assert not any(event["type"] in _TERMINAL for event in events[:-1])
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        if event["type"] == "response.failed":  # Codex reads codes that the SDK's type does not list
            event = {**event, "response": {**event["response"], "error": None}}  # noqa: PLW2901
        _EVENTS[event["type"]].model_validate(event)
        if accumulate:
            state.handle_event(construct_type(type_=_EVENTS[event["type"]], value=event))  # type: ignore[arg-type]
    lifecycle = [event["response"] for event in events if "response" in event]
    assert len({(response["id"], response["created_at"], response["model"]) for response in lifecycle}) == 1
    assert all(r["output"] == [] and r["usage"] is None and r["status"] == "in_progress" for r in lifecycle[:-1])
    received = Received(lifecycle[-1], events)
    assert events[-1]["type"] == f"response.{received.response['status']}"
    _check_items(received)
    check_response(received.response)
    if accumulate and events[-1]["type"] == "response.completed":
        final = state._completed_response
        assert final is not None
        assert final.output_text == received.text
    return received


def _check_items(received: Received) -> None:
    """One item at a time, each opened empty, told by deltas, done once and whole, and in the output as it was done.

    A call that was cut off may never be told to be done, and what waited behind it when an answer failed is not begun.
    """
    opened: dict[str, Any] | None = None
    joined: dict[tuple[int, str], str] = {}
    content: dict[int, int] = {}
    done: list[dict[str, Any]] = []
    undone: list[dict[str, Any]] = []
    places = 0
    for event in received.events:
        kind = event["type"]
        if kind == "response.output_item.added":
            if opened is not None:
                assert received.response["status"] == "incomplete", "one item at a time"
                assert opened["type"] not in {"function_call", "message", "reasoning"}
                undone.append(opened)
            assert event["output_index"] == places
            opened, places = event["item"], places + 1
            assert opened["id"]
            assert opened["status"] == "in_progress"
            assert not opened.get("content")
            assert opened.get("arguments", "") in ("", {})
            joined = {}
            content = {}
        elif kind == "response.output_item.done":
            assert opened is not None
            assert event["output_index"] == places - 1
            assert event["item"]["id"] == opened["id"]
            assert event["item"].get("call_id") == opened.get("call_id")
            assert event["item"]["type"] == opened["type"]
            assert event["item"]["status"] != "in_progress"
            done.append(event["item"])
            opened = None
        elif "item_id" in event:
            assert opened is not None
            assert event.get("name") == (opened["name"] if kind == "response.function_call_arguments.done" else None)
            assert event["item_id"] == opened["id"]
            assert event["output_index"] == places - 1
            if "content_index" in event:
                assert event["content_index"] == len(content) - (kind != "response.content_part.added")
            if kind == "response.content_part.added":
                content[event["content_index"]] = 1
                joined = {}
            elif kind in _DELTAS:
                assert event["delta"], "a delta says something"
                key = (event.get("content_index", 0), _DELTAS[kind][0])
                joined[key] = joined.get(key, "") + event["delta"]
            elif kind.endswith(".done") and kind != "response.content_part.done":
                name = next(name for end, name in _DELTAS.values() if end == kind)
                assert event[name] == joined.get((event.get("content_index", 0), kind), "")
    output = received.output
    if opened is not None:  # cut off in an item that is not told to be done
        assert received.response["status"] in {"incomplete", "failed"}
        undone.append(opened)
    left = {item["id"] for item in undone}
    assert all(item["status"] != "completed" for item in output if item["id"] in left)
    assert [item["id"] for item in output if item["id"] in left] == [item["id"] for item in undone]
    assert [item for item in output[:places] if item["id"] not in left] == done
    assert len(output) == places or received.response["status"] == "failed"
    assert len({item["id"] for item in output}) == len(output)


def check_response(response: dict[str, Any]) -> Received:
    """Checks a whole response, or the one in the last event."""
    parsed = Response.model_validate({**response, "error": None})
    assert parsed.status == response["status"]
    assert response["object"] == "response"
    assert response["id"].startswith("resp_")
    assert response["created_at"] > 0
    assert (response["error"] is not None) == (response["status"] == "failed")
    assert (response["incomplete_details"] is not None) == (response["status"] == "incomplete")
    assert response["output"] or response["status"] != "completed"
    if response["status"] != "failed":
        usage = response["usage"]
        assert usage["input_tokens"] + usage["output_tokens"] == usage["total_tokens"]
        assert set(usage) == {
            "input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"
        }  # fmt: skip
    call_ids = [item["call_id"] for item in response["output"] if "call_id" in item]
    assert len(set(call_ids)) == len(call_ids)
    for item in response["output"]:
        assert isinstance(item.get("arguments", ""), str | dict)
        for part in item.get("content") or ():
            assert part["type"] != "output_text" or part["annotations"] == part["logprobs"] == []
    return Received(response)


def check_whole(body: bytes) -> Received:
    """The same for the body of a whole answer."""
    return check_response(json.loads(body))
