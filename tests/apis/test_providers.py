"""What both providers' translations do: conversations there and back, and streams, ends and errors of answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apis import translated
from tests.apis.translated import HELLO, chunks, streamed_by, whole_by
from tests.helpers import anthropic_api, google_fake
from toolcall_middleware.apis.google.request import NO_SIGNATURE
from toolcall_middleware.apis.google.translation import GoogleTranslation
from toolcall_middleware.apis.messages.upstream.translation import AnthropicTranslation
from toolcall_middleware.apis.upstream import Translation
from toolcall_middleware.errors import ToolCallError

Calls = list[tuple[str, dict[str, Any]]]
NAMES = ("weather", "send_mail", "a-b")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]
SIGNATURE = b"signed"

# No surrogates: half an emoji has its own test.
letters = st.characters(exclude_categories=["Cs"])
spoken = st.text(letters, max_size=12).filter(str.strip)
texts = st.just("") | spoken
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
# Of this package, of the providers, and of others.
ids = st.sampled_from(["call_1", "call_" + "a" * 24, "toolu_01A", "functions.weather:0", "ü", "a b"]) | st.text(
    letters, min_size=1, max_size=8
)


@st.composite
def turns(draw: st.DrawFn) -> list[dict[str, Any]]:
    """What the user says, what the model says and calls, and what the tools give, in any order."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(spoken)}]
    calls = [
        {"id": call_id, "type": "function",
         "function": {"name": draw(st.sampled_from(NAMES)), "arguments": json.dumps(draw(objects))}}
        for call_id in draw(st.lists(ids, unique=True, max_size=3))
    ]  # fmt: skip
    messages.append(
        {"role": "assistant", "content": draw(st.none() | texts), **({"tool_calls": calls} if calls else {})}
    )
    for call in draw(st.permutations(calls)):
        result = {"role": "tool", "tool_call_id": call["id"], "content": draw(texts | json_values)}
        messages.append({**result, "is_error": True} if draw(st.booleans()) else result)
    return messages


conversations = st.lists(turns(), min_size=1, max_size=3).map(lambda parts: [item for part in parts for item in part])


def told(messages: list[dict[str, Any]]) -> list[Any]:
    """What an OpenAI conversation says: texts by role, and each call with its result beside it."""
    said: list[Any] = []
    waiting: dict[str, list[Any]] = {}
    for message in messages:
        if message["role"] == "tool":
            waiting[message["tool_call_id"]][2:] = [message["content"], message.get("is_error", False)]
            continue
        if message["content"]:
            said.append([message["role"], message["content"]])
        for call in message.get("tool_calls", ()):
            waiting[call["id"]] = [call["function"]["name"], json.loads(call["function"]["arguments"])]
            said.append(waiting[call["id"]])
    return said


def told_to_anthropic(built: dict[str, Any]) -> list[Any]:
    said: list[Any] = []
    waiting: dict[str, list[Any]] = {}
    for message in built["messages"]:
        for block in anthropic_api.blocks_of(message):
            match block["type"]:
                case "text":
                    said.append([message["role"], block["text"]])
                case "tool_use":
                    waiting[block["id"]] = [block["name"], block["input"]]
                    said.append(waiting[block["id"]])
                case "tool_result":
                    waiting[block["tool_use_id"]] += [block.get("content", ""), block.get("is_error", False)]
    return said


def told_to_google(built: dict[str, Any]) -> list[Any]:
    """Results are matched by their order."""
    said: list[Any] = []
    waiting: list[list[Any]] = []
    for content in built["contents"]:
        role = {"model": "assistant"}.get(content["role"], content["role"])
        for part in content["parts"]:
            if "functionCall" in part:
                waiting.append([part["functionCall"]["name"], part["functionCall"]["args"]])
                said.append(waiting[-1])
            elif "functionResponse" in part:
                call, ((kind, value),) = waiting.pop(0), part["functionResponse"]["response"].items()
                assert call[0] == part["functionResponse"]["name"]
                call += [value, kind == "error"]
            else:
                said.append([role, part["text"]])
    return said


def is_same(mine: Any, theirs: Any) -> bool:
    """Whether both say the same: a result that is JSON may be text, and the last answer ends without white space."""
    if isinstance(mine, str) or not isinstance(theirs, str):
        return bool(mine == theirs or (isinstance(mine, str) and mine.rstrip() == theirs))
    return json.loads(theirs) == mine if theirs else mine in (None, [])


def from_anthropic(calls: Calls, said: str, size: int, *, thinks: bool) -> tuple[bytes, bytes, list[Any]]:
    """(a whole answer, its stream, the blocks of it that the API wants back)."""
    api = anthropic_api
    blocks: list[Any] = [api.thought("Hm. " + said), api.hidden("eA==")] if thinks else []
    blocks += [api.text(said)] if said else []
    for number, (name, arguments) in enumerate(calls):
        # Thoughts come between calls, too; newer models show no text of them.
        blocks += [api.thought("", f"c2ln{number}")] if thinks and number else []
        blocks.append(api.call(f"toolu_{number}", name, arguments))
    message = api.answer(*blocks, stop_reason="tool_use" if calls else "end_turn")
    kept = [block.model_dump(exclude_none=True) for block in message.content]
    if not calls and said:
        kept[-1]["text"] = said.rstrip()
    return message.model_dump_json().encode(), api.wire(api.events(message, size=size)), kept


def from_google(calls: Calls, said: str, _size: int, *, thinks: bool) -> tuple[bytes, bytes, list[Any]]:
    signature = SIGNATURE if thinks else None
    parts = [google_fake.text("Hm. " + said, thought=True)] if thinks else []
    parts += [google_fake.text(said, signature=signature)] if said else []
    for number, (name, arguments) in enumerate(calls):
        made = types.FunctionCall(name=name, args=arguments, id=f"given-{number}" if number else None)
        parts.append(types.Part(function_call=made, thought_signature=None if number else signature))
    kept = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in parts if not part.thought]
    for part in kept:
        if "functionCall" in part and not part["functionCall"].get("id"):
            part.setdefault("thoughtSignature", NO_SIGNATURE)
    pieces = [google_fake.answer(part, reason=None) for part in parts]
    return google_fake.wire(google_fake.answer(*parts)), google_fake.events(*pieces, google_fake.answer()), kept


class Api(NamedTuple):
    model: str
    new: Callable[[], Translation]
    check: Callable[[dict[str, Any]], None]
    told: Callable[[dict[str, Any]], list[Any]]
    answer: Callable[..., tuple[bytes, bytes, list[Any]]]
    blocks: Callable[[dict[str, Any]], list[Any]]
    """What a request holds after the user's first message."""


APIS = {
    "anthropic": Api(
        "claude-opus-4-5", partial(AnthropicTranslation, default_max_tokens=100), anthropic_api.check_request,
        told_to_anthropic, from_anthropic, lambda built: anthropic_api.blocks_of(built["messages"][1]),
    ),
    "google": Api(
        "gemini-3-pro", GoogleTranslation, lambda built: google_fake.check(built, "gemini-3-pro"),
        told_to_google, from_google, lambda built: list(built["contents"][1]["parts"]),
    ),
}  # fmt: skip


def build(api: Api, *messages: dict[str, Any]) -> dict[str, Any]:
    body = {"model": api.model, "messages": messages, "tools": TOOLS}
    built: dict[str, Any] = json.loads(api.new().request(json.dumps(body).encode()).body)
    api.check(built)
    return built


@pytest.mark.slow
@pytest.mark.parametrize("name", APIS)
@settings(max_examples=100, deadline=None)
@given(conversations)
def test_a_conversation_says_the_same_to_the_api(name: str, messages: list[dict[str, Any]]) -> None:
    api = APIS[name]
    built = build(api, *messages)
    for mine, theirs in zip(told(messages), api.told(built), strict=True):
        assert len(mine) == len(theirs)
        assert all(map(is_same, mine, theirs)), (mine, theirs)
    # The same bytes each time: no state, and the provider's cache keeps working.
    assert built == build(api, *messages)


@pytest.mark.slow
@pytest.mark.parametrize("name", APIS)
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), objects), max_size=3), texts, st.integers(1, 9), st.booleans())
def test_what_the_api_says_comes_back_to_it_unchanged(
    name: str, calls: Calls, said: str, size: int, thinks: bool
) -> None:
    api = APIS[name]
    whole, stream, kept = api.answer(calls, said, size, thinks=thinks)
    answer = whole_by(begun(name), whole)["choices"][0]["message"]
    for message in (answer, join(pieces(name, stream))):
        # A client's library hands the message on as it came.
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in message.get("tool_calls", ())
        ]
        built = build(api, HELLO, message, *results)
        assert (api.blocks(built) if kept else []) == kept


# -- answers -------------------------------------------------------------------------------------------------------

CALLED: Calls = [("weather", {"city": "Zürich 🌍", "n": 2.5, "deep": {"a": [None]}}), ("a-b", {})]
PROVIDERS = pytest.mark.parametrize("name", APIS)


def begun(name: str, **fields: Any) -> Translation:
    return translated.begun(APIS[name].new(), APIS[name].model, **fields)


def stream_of(name: str) -> bytes:
    return APIS[name].answer(CALLED, "Let me look 🌍.", 5, thinks=True)[1]


def pieces(name: str, data: bytes, *cuts: int) -> bytes:
    return streamed_by(begun(name, stream=True), data, cuts)


@pytest.mark.slow
@PROVIDERS
def test_a_stream_is_the_same_wherever_it_is_cut(name: str) -> None:
    def said(out: bytes) -> Any:
        message = join(out)
        return {**message, "tool_calls": [call["function"] for call in message["tool_calls"]]}

    data = stream_of(name)
    expected = said(pieces(name, data))
    assert (expected["content"], len(expected["tool_calls"])) == ("Let me look 🌍.", 2)
    for cuts in ([at] for at in range(1, len(data))):
        assert said(pieces(name, data, *cuts)) == expected, cuts
    assert said(pieces(name, data, *range(1, len(data)))) == expected
    lines = data.replace(b"\r\n", b"\n")
    assert said(pieces(name, lines)) == said(pieces(name, lines.replace(b"\n", b"\r\n"))) == expected


@PROVIDERS
def test_usage_is_told_once_to_those_who_ask(name: str) -> None:
    counted = b'"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":8},"responseId"'
    data = stream_of(name).replace(b'"responseId"', counted)  # each piece of Google's counts
    made = translated.stream_of(begun(name, stream=True, stream_options={"include_usage": True}))
    out = made.feed(data) + made.finish(cut=False)
    last = chunks(out)[-1]
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] > 0
    assert out.count(b'"usage":{') == 1
    assert b'"usage"' not in pieces(name, data)


@PROVIDERS
def test_a_stream_that_breaks_off_says_so_unless_the_host_will(name: str) -> None:
    data = stream_of(name)
    half, between = data[: len(data) // 2], b"\r\n\r\n" if b"\r" in data else b"\n\n"
    cut = translated.stream_of(begun(name, stream=True))
    assert not half.endswith(between)  # the rest of an event is no error of the upstream's
    out = cut.feed(half) + cut.finish(cut=True)
    assert not cut.done
    assert b'"error"' not in out
    ended = translated.stream_of(begun(name, stream=True))
    out = ended.feed(half[: half.rindex(between)] + between) + ended.finish(cut=False)
    assert b"broke off before the answer was complete" in out
    assert out.endswith(b"data: [DONE]\n\n")
    assert ended.feed(data) == b""
    assert b"ended without an answer" in translated.stream_of(begun(name, stream=True)).finish(cut=False)


@PROVIDERS
def test_an_error_that_the_host_has_made_stays(name: str) -> None:
    own = ToolCallError("upstream_timeout", "Slow.")
    assert begun(name).whole(504, own.body()) == (504, own.body())
    made = translated.stream_of(begun(name, stream=True))
    assert b"Slow." in made.feed(own.sse() + b"data: [DONE]\n\n")
    assert made.done


@PROVIDERS
@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b"{}", b'{"candidates": []}', b'{"content": "x"}', b"null"])
def test_a_success_that_is_no_answer_is_an_upstream_error(name: str, data: bytes) -> None:
    with pytest.raises(ToolCallError) as caught:
        begun(name).whole(200, data)
    assert (caught.value.code, caught.value.status) == ("upstream_error", 502)


def join(stream: bytes) -> dict[str, Any]:
    """A streamed answer as the message that a client makes of it."""
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [], "reasoning_details": []}
    for chunk in chunks(stream):
        delta = chunk["choices"][0]["delta"]
        message["content"] += delta.get("content") or ""
        message["reasoning_details"] += delta.get("reasoning_details", [])
        message |= {"extra_content": delta["extra_content"]} if "extra_content" in delta else {}
        for item in delta.get("tool_calls", ()):
            if "id" in item:
                message["tool_calls"].append({**item, "function": dict(item["function"])})
            else:
                message["tool_calls"][item["index"]]["function"]["arguments"] += item["function"]["arguments"]
    return message
