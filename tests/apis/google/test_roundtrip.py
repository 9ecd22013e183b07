"""A conversation goes to Google's API and comes back: every call, result, id and text is kept."""

from __future__ import annotations

import json
import re
import string
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.google_fake import Answer, check, events, wire
from toolcall_middleware.apis.google.request import NO_SIGNATURE
from toolcall_middleware.apis.google.translation import GoogleTranslation

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
# An id that Google gave, one that we made, and one of somebody else.
GIVEN = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=20)
MADE = st.text(string.ascii_letters + string.digits, min_size=24, max_size=24).map(lambda letters: f"call_{letters}")
# Google's numbers are doubles; these keep their value.
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
SIGNATURES = st.none() | st.binary(min_size=1, max_size=9).map(lambda data: types.Part(text="", thought_signature=data))


@st.composite
def calls(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for call_id in draw(st.lists(GIVEN | MADE, min_size=1, max_size=3, unique=True)):
        arguments = json.dumps(draw(st.dictionaries(TEXTS, VALUES, max_size=3)), ensure_ascii=draw(st.booleans()))
        call = {"id": call_id, "type": "function", "function": {"name": draw(NAMES), "arguments": arguments}}
        part = draw(SIGNATURES)
        if part is not None:
            spelled = json.loads(part.model_dump_json(by_alias=True))["thoughtSignature"]
            call["extra_content"] = {"google": {"thought_signature": spelled}}
        made.append(call)
    return made


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns as agents have them; the ids of a conversation are unique, the results come in any order."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(WORDS)}]
    seen: set[str] = set()
    for _ in range(draw(st.integers(1, 3))):
        made = [call for call in draw(calls()) if call["id"] not in seen]
        seen |= {call["id"] for call in made}
        if made:
            messages.append({"role": "assistant", "content": draw(st.none() | WORDS), "tool_calls": made})
            results: list[dict[str, Any]] = [
                {"role": "tool", "tool_call_id": call["id"], "content": draw(TEXTS)} for call in made
            ]
            for result in results:
                if draw(st.booleans()):
                    result["is_error"] = True
            messages += draw(st.permutations(results))
        else:
            messages.append({"role": "assistant", "content": draw(WORDS)})
        if draw(st.booleans()):
            messages.append({"role": "user", "content": draw(WORDS)})
    return messages


def translated(messages: list[dict[str, Any]], **fields: Any) -> tuple[GoogleTranslation, dict[str, Any]]:
    translation = GoogleTranslation()
    body = json.dumps({"model": "gemini-3-pro", "messages": messages, **fields}).encode()
    return translation, json.loads(translation.request(body).body)


def back(content: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """A turn of the model as an answer of Google's, which becomes a message again; and its stream."""
    turn = types.Content.model_validate(content)
    candidate = types.Candidate(content=turn, finish_reason=types.FinishReason.STOP)
    one = Answer(candidates=[candidate])
    whole, _ = translated([{"role": "user", "content": "x"}])
    stream, _ = translated([{"role": "user", "content": "x"}], stream=True)
    message: dict[str, Any] = json.loads(whole.whole(200, wire(one))[1])["choices"][0]["message"]
    return message, stream.feed(events(one)) + stream.finish(cut=False)


def same_calls(sent: list[dict[str, Any]], read: list[dict[str, Any]]) -> None:
    assert len(sent) == len(read)
    for number, (one, other) in enumerate(zip(sent, read, strict=True)):
        assert one["function"]["name"] == other["function"]["name"]
        assert json.loads(one["function"]["arguments"]) == json.loads(other["function"]["arguments"])
        if re.fullmatch(r"call_[a-zA-Z0-9]{24}", one["id"]):
            # Not Google's: a new one, of the same form.
            assert re.fullmatch(r"call_[a-zA-Z0-9]{24}", other["id"])
        else:
            assert one["id"] == other["id"]
        kept = one.get("extra_content") or ({"google": {"thought_signature": NO_SIGNATURE}} if number == 0 else None)
        assert other.get("extra_content") == kept


@pytest.mark.slow
@given(conversations())
def test_a_conversation_comes_back_as_it_went(messages: list[dict[str, Any]]) -> None:
    _, body = translated(messages)
    check(body, "gemini-3-pro")
    said = [message for message in messages if message["role"] == "assistant"]
    turns = [content for content in body["contents"] if content["role"] == "model"]
    # Neighbours are merged.
    groups: list[list[dict[str, Any]]] = []
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            before = messages[place - 1]
            if before["role"] == "assistant" and not before.get("tool_calls"):
                groups[-1].append(message)
            else:
                groups.append([message])
    assert sum(map(len, groups)) == len(said)
    for group, content in zip(groups, turns, strict=True):
        message, stream = back(content)
        assert (message["content"] or "") == "".join(one["content"] or "" for one in group)
        sent = [call for one in group for call in one.get("tool_calls", ())]
        same_calls(sent, message.get("tool_calls", []))
        deltas = [
            delta
            for event in stream.split(b"\n\n")
            if event.startswith(b"data: {")
            for choice in json.loads(event[6:])["choices"]
            for delta in choice["delta"].get("tool_calls", ())
        ]
        opened = [delta for delta in deltas if "id" in delta]
        for delta in opened:
            pieces = [one["function"]["arguments"] for one in deltas if one["index"] == delta["index"]]
            delta["function"]["arguments"] = "".join(pieces)
        same_calls(sent, opened)
    results = [
        (message["content"], message.get("is_error", False))
        for one in said
        for call in one.get("tool_calls", ())
        for message in messages
        if message.get("tool_call_id") == call["id"]
    ]
    answers = [
        part["functionResponse"]
        for content in body["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]
    assert [(next(iter(one["response"].values())), "error" in one["response"]) for one in answers] == results
    users = [message["content"] for message in messages if message["role"] == "user"]
    heard = [
        part["text"]
        for content in body["contents"]
        if content["role"] == "user"
        for part in content["parts"]
        if "text" in part
    ]
    assert heard == users
