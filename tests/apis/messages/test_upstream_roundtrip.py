"""A conversation goes to Anthropic's API and comes back: every call, result, id and text is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.apis.messages.upstream.translation import AnthropicTranslation

from . import anthropic_api as api

NAMES = ("weather", "send_mail", "a-b")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]

# No surrogates: half an emoji has its own test.
letters = st.characters(exclude_categories=["Cs"])
texts = st.text(letters, max_size=12)
spoken = texts.filter(str.strip)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
ids = st.sampled_from(["call_1", "call_2", "toolu_01A", "functions.weather:0", "ü", "a b"]) | st.text(
    letters, min_size=1, max_size=8
)


@st.composite
def turns(draw: st.DrawFn) -> list[dict[str, Any]]:
    """What the user says, what the model says and calls, and what the tools give, in any order."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(spoken)}]
    said = draw(st.none() | texts)
    calls = draw(st.lists(ids, unique=True, max_size=3))
    answer: dict[str, Any] = {"role": "assistant", "content": said}
    if calls:
        answer["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": draw(st.sampled_from(NAMES)), "arguments": json.dumps(draw(objects))},
            }
            for call_id in calls
        ]
    messages.append(answer)
    for call_id in draw(st.permutations(calls)):
        result = {"role": "tool", "tool_call_id": call_id, "content": draw(texts | json_values)}
        if draw(st.booleans()):
            result["is_error"] = True
        messages.append(result)
    return messages


conversations = st.lists(turns(), min_size=1, max_size=3).map(lambda parts: [item for part in parts for item in part])


def told(messages: list[dict[str, Any]]) -> list[Any]:
    """What an OpenAI conversation says: texts by role, and each call with its result beside it."""
    said: list[Any] = []
    waiting: dict[str, list[Any]] = {}
    for message in messages:
        if message["role"] == "tool":
            content = message["content"]
            shown = content if isinstance(content, str) else "" if content is None else content
            waiting[message["tool_call_id"]][2:] = [shown, message.get("is_error", False)]
            continue
        if (message["content"] or "").strip():
            said.append((message["role"], message["content"]))
        for call in message.get("tool_calls", ()):
            entry = [call["function"]["name"], json.loads(call["function"]["arguments"])]
            waiting[call["id"]] = entry
            said.append(entry)
    return said


def told_to_the_api(built: dict[str, Any]) -> list[Any]:
    """The same of a request for Anthropic."""
    said: list[Any] = []
    waiting: dict[str, list[Any]] = {}
    for message in built["messages"]:
        for block in api.blocks_of(message):
            match block["type"]:
                case "text":
                    said.append((message["role"], block["text"]))
                case "tool_use":
                    waiting[block["id"]] = [block["name"], block["input"]]
                    said.append(waiting[block["id"]])
                case "tool_result":
                    waiting[block["tool_use_id"]] += [block.get("content", ""), block.get("is_error", False)]
    return said


def same(one: list[Any], other: list[Any]) -> bool:
    """Whether both say the same. A result that is JSON is text for the API; white space alone is nothing there."""
    if len(one) != len(other):
        return False
    for mine, theirs in zip(one, other, strict=True):
        if isinstance(mine, tuple):
            # The last answer may not end in white space.
            if (mine[0], mine[1].rstrip()) != (theirs[0], theirs[1].rstrip()):
                return False
            continue
        if mine[:2] != theirs[:2] or mine[3] != theirs[3]:
            return False
        shown = mine[2] if isinstance(mine[2], str) else None
        if shown is None and json.loads(theirs[2]) != mine[2]:
            return False
        if shown is not None and theirs[2] != (shown if shown.strip() else ""):
            return False
    return True


def build(messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = {"model": "claude-sonnet-4-5", "messages": messages, "tools": TOOLS}
    request = AnthropicTranslation(default_max_tokens=100).request(json.dumps(body).encode())
    built: dict[str, Any] = json.loads(request.body)
    return built


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(conversations)
def test_a_conversation_says_the_same_to_the_api(messages: list[dict[str, Any]]) -> None:
    built = build(messages)
    api.check_request(built)
    assert same(told(messages), told_to_the_api(built))
    # The same bytes each time: no state, and the provider's cache keeps working.
    assert built == build(messages)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), objects), max_size=3), texts, st.integers(1, 9), st.booleans())
def test_what_the_api_says_comes_back_to_it_unchanged(
    calls: list[tuple[str, Any]], said: str, size: int, thinks: bool
) -> None:
    blocks: list[Any] = [api.thought("Hm. " + said), api.hidden("eA==")] if thinks else []
    blocks += [api.text(said)] if said.strip() else []
    for number, (name, arguments) in enumerate(calls):
        if thinks and number:
            # Between calls, too; newer models show no text of it.
            blocks.append(api.thought("", f"c2ln{number}"))
        blocks.append(api.call(f"toolu_{number}", name, arguments))
    message = api.answer(*blocks, stop_reason="tool_use" if calls else "end_turn")

    whole = AnthropicTranslation(default_max_tokens=1)
    whole.request(b'{"model": "claude-opus-4-5", "messages": [{"role": "user", "content": "hi"}]}')
    answer = json.loads(whole.whole(200, message.model_dump_json().encode())[1])["choices"][0]["message"]

    streaming = AnthropicTranslation(default_max_tokens=1)
    streaming.request(b'{"model": "claude-opus-4-5", "stream": true, "messages": [{"role": "user", "content": "hi"}]}')
    out = streaming.feed(api.wire(api.events(message, size=size))) + streaming.finish(cut=False)
    joined = join(out)

    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in answer.get("tool_calls", ())]
    for given_back in (answer, joined):
        # A client's library hands the message on as it came.
        built = build([{"role": "user", "content": "hi"}, given_back, *results])
        api.check_request(built)
        sent = api.blocks_of(built["messages"][1]) if blocks else []
        expected = [block.model_dump(exclude_none=True) for block in message.content]
        assert [strip(block) for block in sent] == [strip(block) for block in expected]


def strip(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "text": block["text"].rstrip()} if "text" in block else block


def join(stream: bytes) -> dict[str, Any]:
    """A streamed answer as the message that a client makes of it."""
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [], "reasoning_details": []}
    for event in stream.split(b"\n\n")[:-2]:
        delta = json.loads(event.removeprefix(b"data: "))["choices"][0]["delta"]
        message["content"] += delta.get("content") or ""
        message["reasoning_details"] += delta.get("reasoning_details", [])
        for item in delta.get("tool_calls", ()):
            if "id" in item:
                message["tool_calls"].append({**item, "function": dict(item["function"])})
            else:
                message["tool_calls"][item["index"]]["function"]["arguments"] += item["function"]["arguments"]
    return message
