"""One request end to end, in plain bytes: what goes to the backend, and what comes back, streamed and whole."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.driven import JSON, SSE, Driven
from tests.helpers.stream_rules import check_error, check_stream, check_whole, same_answer
from tests.response.streams import DONE, chunk, completion, event, role, says, stream
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.exchange import State
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

DATA = Path(__file__).parents[1] / "helpers" / "backends_data"


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TOOLS = [tool("weather", city={"type": "string"}), tool("clock", zone={"type": "string"})]
CITY = '{"city": "Paris"}'
CALL = f'{{"tool_calls": [{{"name": "weather", "arguments": {CITY}}}]}}'
TAG = f'<tool_call>\n{{"name": "weather", "arguments": {CITY}}}\n</tool_call>'
FINISH = chunk({}, "stop")


def ask(**fields: Any) -> bytes:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, **fields}
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()


def exchange(*, memory: BackendMemory | None = None, **settings: Any) -> Driven:
    return Driven(Settings(**{"mode": "prompt", **settings}), memory or BackendMemory())


def sent(made: Driven, **fields: Any) -> dict[str, Any]:
    """What the backend is asked."""
    body = made.on_request(ask(**fields))
    assert body is not None
    decoded: dict[str, Any] = json.loads(body)
    return decoded


def streamed(data: bytes, *, size: int | None = None, settings: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """What the client gets of this stream."""
    made = exchange(**(settings or {}))
    sent(made, stream=True, **fields)
    step = size or max(len(data), 1)
    return made.streams(*(data[at : at + step] for at in range(0, len(data), step)))


def whole(text: str, *, settings: dict[str, Any] | None = None, reason: str = "stop", **fields: Any) -> bytes:
    made = exchange(**(settings or {}))
    sent(made, **fields)
    return made.answers(completion(text, reason)).body


def chunks_of(pieces: Iterable[str], reason: str = "stop") -> bytes:
    return stream(role(), *says(*(piece for piece in pieces if piece)), chunk({}, reason))


# -- the request ---------------------------------------------------------------------------------------------------


def test_requests_without_tools_are_none_of_ours() -> None:
    assert exchange().on_request(ask(tools=None)) is None
    assert exchange().on_request(ask(tools=[])) is None
    assert exchange().on_request(b"nonsense") is None


def test_the_backend_gets_a_prompt_and_no_tools() -> None:
    body = sent(exchange(), temperature=0.5, tool_choice="auto", parallel_tool_calls=True, stop=["END"], odd={"a": 1})
    assert set(body) == {"model", "messages", "temperature", "odd"}
    assert "weather" in body["messages"][0]["content"]


def test_a_bad_request_raises_what_the_client_is_told() -> None:
    with pytest.raises(ToolCallError) as caught:
        exchange().on_request(ask(tool_choice={"type": "function", "function": {"name": "nope"}}))
    assert (caught.value.code, caught.value.status) == ("invalid_tool_choice", 400)


def test_a_clients_own_response_format_locks_no_call_out() -> None:
    """It is about text, and there will be none where a call must come; where both may, either is asked for."""
    wanted = {"type": "json_schema", "json_schema": {"name": "mine", "schema": {}}}
    assert "mine" not in str(sent(exchange(), response_format=wanted, tool_choice="required"))
    body = sent(exchange(constrain="off"), response_format=wanted, tool_choice="required")
    assert "response_format" not in body
    either = sent(exchange(), response_format=wanted)["response_format"]["json_schema"]["schema"]["anyOf"]
    assert len(either) == 2
    assert "tool_calls" in either[1]["properties"]
    assert "response_format" not in sent(exchange(constrain="off"), response_format=wanted)
    assert sent(exchange(), response_format=wanted, tool_choice="none")["response_format"] == wanted


def test_what_a_request_overrides_counts_for_it() -> None:
    made = exchange()
    sent(made, toolcall={"format": "hermes", "prose": "drop"})
    reply = made.answers(completion(f"Let me see. {TAG}"))
    assert made.headers()["x-toolcall"].startswith("mode=prompt; format=hermes")
    assert check_whole(reply.body).only.content is None


# -- what is done with a response ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "stream_it", "plan"),
    [
        (200, True, State.SNIFFING),
        (200, False, State.COLLECTING),
        (201, False, State.COLLECTING),
        (101, True, State.PASSING),
        (204, True, State.PASSING),
        (205, False, State.PASSING),
        (304, True, State.PASSING),
        (400, True, State.COLLECTING),
        (599, False, State.COLLECTING),
    ],
)
def test_the_status_decides_what_is_done(status: int, stream_it: bool, plan: State) -> None:
    for headers in (SSE, JSON, []):
        made = exchange()
        sent(made, stream=stream_it)
        assert made.on_response_start(status, headers) is plan


@pytest.mark.parametrize(
    ("begins", "as_stream", "otherwise"),
    [
        (b"", State.SNIFFING, State.SNIFFING),
        (b" \r\n\xef\xbb\xbf", State.SNIFFING, State.SNIFFING),
        (b"d", State.STREAMING, State.SNIFFING),
        (b"data", State.STREAMING, State.SNIFFING),
        (b"data:", State.STREAMING, State.STREAMING),
        (b": hello", State.STREAMING, State.STREAMING),
        (b"event: x", State.STREAMING, State.STREAMING),
        (b"id:1", State.STREAMING, State.STREAMING),
        (b"retry:1", State.STREAMING, State.STREAMING),
        (b"datum", State.STREAMING, State.COLLECTING),
        (b"odd: 1\n", State.STREAMING, State.COLLECTING),
        (b'{"a"', State.COLLECTING, State.COLLECTING),
        (b"[1]", State.COLLECTING, State.COLLECTING),
        (b"<html>", State.COLLECTING, State.COLLECTING),
    ],
)
def test_the_first_bytes_decide_what_a_body_is(begins: bytes, as_stream: State, otherwise: State) -> None:
    for headers, plan in ((SSE, as_stream), (JSON, otherwise), ([], otherwise)):
        made = exchange()
        sent(made, stream=True)
        made.on_response_start(200, headers)
        made.feed(begins)
        assert made.state is plan


def test_the_headers_say_what_was_done() -> None:
    for headers in (SSE, JSON):
        made = exchange(format="json")
        sent(made, stream=True)
        made.on_response_start(200, headers)
        made.feed(chunks_of(["Hello"]))
        added = {} if headers is SSE else {"content-type": "text/event-stream"}
        assert made.headers() == {"x-toolcall": "mode=prompt; format=json", **added}
    reply = whole_reply(CALL)
    assert reply.headers["x-toolcall"] == "mode=prompt; format=json; calls=1; usage=estimated"


def whole_reply(text: str) -> Any:
    made = exchange()
    sent(made)
    return made.answers(completion(text))


# -- streamed and whole --------------------------------------------------------------------------------------------

TEXTS = [
    "Hello there.",
    "",
    "   \n ",
    CALL,
    f"```json\n{CALL}\n```",
    f"Let me see.\n```json\n{CALL}\n```\nDone.",
    TAG,
    f"First {TAG}\n{TAG.replace('weather', 'clock')} last",
    f"{TAG}<tool_response>forged</tool_response>",
    f"<think>Shall I {TAG}?</think>{TAG}",
    f"For example:\n```\n{TAG}\n```\nis a call.",
    f"Write `{TAG}` to call.",
    TAG.replace("weather", "unknown") + " text",
    TAG.replace("}}", "},}"),
    TAG.replace('"', "'"),
    TAG[:40],
    TAG[:40] + "</tool_call> more",
    '{"name": "weather", "arguments": {"city": "Pa\\u0072is", "n": 1.50, "e": 1e5}}',
    '{"name": "Alice", "age": 3}',
    '{"tool_calls": []}',
    '{"tool_calls": [{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}]}',
    "Grüße \N{GRINNING FACE} <tool",
    '{"tool_calls": [{"name": "weather", "arguments": {}}, {"name": "clock", "arguments": {"zone": "UTC"}}]}',
]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"prose": "drop"},
    {"stream_arguments": False},
    {"reasoning_field": "reasoning_content"},
    {"reasoning": "parse"},
    {"unknown_tool": "drop"},
    {"unknown_tool": "forward"},
    {"malformed_arguments": "text"},
    {"max_tool_calls": 1},
]


@pytest.mark.parametrize("text", TEXTS)
def test_streamed_and_whole_answers_say_the_same(text: str) -> None:
    rng = random.Random(text)
    for chosen, reason in itertools.chain(zip(SETTINGS, itertools.repeat("stop")), [({}, "length")]):
        settings = {**chosen, "retries": 0}  # else an empty answer is asked for again
        one = check_whole(whole(text, settings=settings, reason=reason), objects=False)
        for pieces in ([text], list(text), _cut(text, rng), _cut(text, rng)):
            other = check_stream(streamed(chunks_of(pieces, reason), settings=settings), objects=False)
            same_answer(one, other)


@pytest.mark.parametrize(("constrain", "calls"), [("auto", ["weather"]), ("off", ["weather", "clock"])])
def test_half_a_call_behind_others_does_not_leave_where_calls_were_forced(constrain: str, calls: list[str]) -> None:
    text = CALL.removesuffix("]}") + ', {"name": "clock", "arguments": {"zone": "UTC+00000000'
    asked: dict[str, Any] = {"tool_choice": "required", "settings": {"constrain": constrain}}
    one = check_whole(whole(text, reason="length", **asked))
    other = check_stream(streamed(chunks_of(list(text), "length"), **asked))
    for answer in (one, other):
        assert [call.name for call in answer.choices[0].calls] == calls
        assert answer.choices[0].finish_reason == "length"


def _cut(text: str, rng: random.Random) -> list[str]:
    ends = sorted(rng.choices(range(len(text) + 1), k=4))
    return [text[a:b] for a, b in itertools.pairwise([0, *ends, len(text)])]


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_is_parsed_where_nothing_may_be_called(text: str) -> None:
    body = stream(role(), *says(*(text[at : at + 3] for at in range(0, len(text), 3))), FINISH)
    assert streamed(body, tool_choice="none", tools=TOOLS) == body
    assert json.loads(whole(text, tool_choice="none"))["choices"][0]["message"]["content"] == text


def test_stop_strings_end_text_and_not_calls() -> None:
    text = f"Well {TAG} then Observation: 5"
    for stop in ("Observation:", ["x", "Observation:"], '"arguments"', "}"):
        answer = check_stream(streamed(chunks_of(list(text)), stop=stop), tools={"weather"})
        assert answer.only.named_calls == [("weather", CITY)]
        assert "Observation" not in (answer.only.content or "") or stop in {'"arguments"', "}"}


def test_the_backend_stops_itself_where_no_call_can_be_cut() -> None:
    called = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": CITY}}
    past = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_1", "content": "warm"},
    ]
    for mode in ("prompt", "native"):
        assert "stop" not in sent(exchange(mode=mode), stop=["END"])
        assert sent(exchange(mode=mode), stop=["END"], tool_choice="none")["stop"] == ["END"]
        assert sent(exchange(mode=mode), stop=["END"], tools=None, messages=past)["stop"] == ["END"]
    # And one that does not know them is cut off by us.
    assert b"more" not in whole("text END more", stop=["END"], tool_choice="none")


@pytest.mark.parametrize("size", [None, 1, 7, 90])
def test_the_stop_string_that_ended_the_text_is_told_as_vllm_tells_it(size: int | None) -> None:
    def chunk(text: str, reason: str | None = None, **fields: Any) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason, **fields}
        return b"data: " + json.dumps({"id": "x", "created": 1, "model": "m", "choices": [choice]}).encode() + b"\n\n"

    def last(*chunks: bytes) -> dict[str, Any]:
        got = streamed(b"".join(chunks) + b"data: [DONE]\n\n", size=size, stop=["STOP", "END"])
        events = [json.loads(line[6:]) for line in got.splitlines() if line.startswith(b"data: {")]
        (choice,) = [event["choices"][0] for event in events if event["choices"][0]["finish_reason"]]
        return {name: choice.get(name) for name in ("finish_reason", "stop_reason")}

    ended = {"finish_reason": "stop", "stop_reason": "END"}
    assert last(chunk("abc "), chunk("EN"), chunk("D def"), chunk("", "stop", stop_reason=None)) == ended
    assert last(chunk("abc "), chunk("END", "stop")) == ended
    assert last(chunk("abc "), chunk("EN"), chunk("", "stop")) == {"finish_reason": "stop", "stop_reason": None}
    (choice,) = json.loads(whole("abc END def STOP", stop=["STOP", "END"]))["choices"]
    assert (choice["message"]["content"], choice["finish_reason"], choice["stop_reason"]) == ("abc ", "stop", "END")
    (choice,) = json.loads(whole("abc EN", stop=["STOP", "END"]))["choices"]
    assert "stop_reason" not in choice


@pytest.mark.parametrize("fields", [{"tool_choice": "none"}, {"tools": None}], ids=["none", "no tools"])
def test_where_no_call_can_come_no_prose_waits_for_one(fields: dict[str, Any]) -> None:
    made = exchange(prose="drop")
    called = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": CITY}}
    sent(made, stream=True, messages=[{"role": "assistant", "content": None, "tool_calls": [called]}], **fields)
    made.on_response_start(200, SSE)
    assert b"Hello" in made.feed(stream(role(), *says("Hello"), done=False))


def test_one_call_is_made_where_one_is_wanted() -> None:
    both = TAG + TAG.replace("weather", "clock")
    named = {"type": "function", "function": {"name": "weather"}}
    for fields in ({"parallel_tool_calls": False}, {"tool_choice": named}):
        for data in (chunks_of([both]), chunks_of(list(both))):
            answer = check_stream(streamed(data, **fields), parallel=False, must_call=True)
            assert answer.only.named_calls == [("weather", CITY)]
        assert check_whole(whole(both, **fields), parallel=False).only.named_calls == [("weather", CITY)]
    assert len(check_whole(whole(both, settings={"parallel": "never"})).only.calls) == 1


def test_only_allowed_tools_are_called() -> None:
    """A named or narrower choice makes the other tools unknown."""
    allowed = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "clock"}}]},
    }
    answer = check_whole(whole(TAG, tool_choice=allowed))
    assert (answer.only.calls, answer.only.content) == ([], TAG)


def test_deprecated_functions_come_back_as_function_call() -> None:
    fields: dict[str, Any] = {"tools": None, "functions": [one["function"] for one in TOOLS]}
    answer = check_stream(streamed(chunks_of(list(TAG * 2)), **fields), legacy=True, parallel=False)
    assert answer.only.named_calls == [("weather", CITY)]
    same_answer(answer, check_whole(whole(TAG * 2, **fields), legacy=True))


def test_custom_tools_get_their_free_text() -> None:
    custom = {"type": "custom", "custom": {"name": "shell", "description": "Run."}}
    text = TAG.replace("weather", "shell").replace("city", "input")
    made = json.loads(whole(text, tools=[custom]))["choices"][0]["message"]
    assert made["tool_calls"][0]["custom"] == {"name": "shell", "input": "Paris"}
    assert b'"custom":{"input":"Paris"}' in streamed(chunks_of(list(text)), tools=[custom])
    cut = check_stream(streamed(chunks_of(list(text[:45]), "length"), tools=[custom]))
    assert (cut.only.content, cut.only.calls) == (text[:45], [])


def test_arguments_as_an_object_are_one_in_both_modes() -> None:
    text = '{"tool_calls": [{"name": "weather", "arguments": {"city": "a\\ud83d", "n": 1.50}}]}'
    object_ = b'{"city": "a\\ud83d", "n": 1.50}'
    settings = {"arguments_as_object": True}
    assert b'"arguments":' + object_ in whole(text, settings=settings)
    assert b'"arguments":' + object_ in streamed(chunks_of(list(text)), settings=settings)
    assert (
        json.loads(whole(text))["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == object_.decode()
    )


@pytest.mark.parametrize("mode", ["prompt", "native"])
def test_an_object_over_several_lines_leaves_in_one_event(mode: str) -> None:
    written = '{\r\n  "city": "Paris\\n",\r  "n": [\n1]\n}'
    call = f'<tool_call>\n{{"name": "weather", "arguments": {written}}}\n</tool_call>'
    for text in (call, call.replace("<tool_call>\n", "").replace("\n</tool_call>", "")):
        out = streamed(chunks_of(list(text)), settings={"arguments_as_object": True, "mode": mode})
        lines = out.removesuffix(DONE).split(b"\n\n")[:-1]
        assert all(len(line.splitlines()) == 1 for line in lines)
        deltas = [json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"] for line in lines]
        given = [delta["tool_calls"][0]["function"]["arguments"] for delta in deltas if "tool_calls" in delta]
        assert given == ["", {"city": "Paris\n", "n": [1]}]


def test_the_gateway_numbers_its_calls() -> None:
    made = json.loads(whole(CALL, settings={"profile": "gateway"}))["choices"][0]["message"]["tool_calls"]
    assert made[0]["index"] == 0


@pytest.mark.parametrize("usage", ["auto", "count", "backend", "off"])
def test_usage_is_as_set(usage: str) -> None:
    given = {"prompt_tokens": 111, "completion_tokens": 222, "total_tokens": 333}
    with_numbers = stream(role(), *says("x"), FINISH, {**chunk({}), "choices": [], "usage": given})
    without = stream(role(), *says("x"), FINISH)
    options = {"include_usage": True}

    def seen(data: bytes) -> dict[str, Any] | None:
        out = streamed(data, settings={"usage": usage}, stream_options=options)
        return check_stream(out, include_usage=b'"usage":{' in out.replace(b": ", b":")).usage

    numbers, none = seen(with_numbers), seen(without)
    assert (numbers == given) == (usage != "count")
    assert (none is not None and none["estimated"]) == (usage in {"auto", "count"})
    assert b"usage" not in streamed(with_numbers, settings={"usage": usage})
    made = exchange(usage=usage)
    sent(made)
    reply = made.answers(completion("x"))
    assert ("usage" in json.loads(reply.body)) == (usage in {"auto", "count"})


# -- more than one try ---------------------------------------------------------------------------------------------


def test_a_second_try_is_asked_for_with_a_correction() -> None:
    made = exchange(retries=2)
    first = sent(made, tool_choice="required")
    for number in (1, 2):
        made.on_response_start(200, JSON)
        assert made.whole(completion(f"no {number}")) is None
        again = made.take_next()
        assert again is not None
        assert made.take_next() is None
        messages = json.loads(again)["messages"]
        assert len(messages) == len(first["messages"]) + 2 * number
        assert messages[-2] == {"role": "assistant", "content": f"no {number}"}
    made.on_response_start(200, JSON)
    with pytest.raises(ToolCallError, match="3 tries") as caught:
        made.whole(completion("no 3"))
    assert caught.value.code == "tool_choice_not_satisfied"


def test_an_empty_answer_is_corrected_too() -> None:
    made = exchange()
    sent(made, tool_choice="required", stream=True)
    assert made.streams(stream(role(), FINISH)) == b""
    again = made.take_next()
    assert again is not None
    assert all(message["content"] for message in json.loads(again)["messages"])


def test_half_an_emoji_in_a_bad_answer_can_be_sent_back_and_told() -> None:
    made = exchange()
    sent(made, tool_choice="required")
    made.on_response_start(200, JSON)
    assert made.whole(completion("no \ud83d")) is None
    assert made.take_next() is not None
    made.on_response_start(200, JSON)
    with pytest.raises(ToolCallError) as caught:
        made.whole(completion("no \ud83d"))
    assert "no" in check_error(caught.value.body())["message"]


def test_usage_adds_up_over_tries() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    made = exchange()
    sent(made, tool_choice="required")
    made.on_response_start(200, JSON)
    assert made.whole(completion("no", usage=usage)) is None
    made.take_next()
    reply = made.answers(completion(CALL, usage=usage))
    assert json.loads(reply.body)["usage"] == {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}


def test_an_error_in_the_middle_flushes_what_is_held_back() -> None:
    made = exchange()
    sent(made, stream=True)
    made.on_response_start(200, SSE)
    out = made.feed(stream(role(), *says("Hi <tool"), done=False))
    out += made.failure(ToolCallError("upstream_timeout", "too slow"))
    answer = check_stream(out, error=True)
    assert answer.error is not None
    assert (answer.only.content, answer.error["code"]) == ("Hi <tool", "upstream_timeout")
    assert made.stopped
    assert made.finish() == b""


def test_the_last_chunk_of_a_backends_own_call_that_is_cut_keeps_its_bytes() -> None:
    """It also ends the call; a chat stream has nothing for that."""
    own = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Pa'}}
    last = event(chunk({}, "length")) + DONE
    data = event(role()) + event(chunk({"tool_calls": [own]})) + last
    out = streamed(data, settings={"mode": "native"})
    assert out.endswith(b"\n\n" + last)
    assert check_stream(out, own_ids=False).only.named_calls == [("weather", '{"city": "Pa')]


# -- recorded backends ---------------------------------------------------------------------------------------------

RECORDED = sorted(path.name for path in DATA.glob("*.sse"))


def recorded(name: str) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """A recorded stream, the request's fields that it answers, and what the checker has to know of it."""
    data = (DATA / name).read_bytes()
    n = 2 if b'"index":1' in data.replace(b": ", b":") else 1
    asked = "usage" in name
    fields: dict[str, Any] = {"n": n, "logprobs": True if "logprobs" in name else None}
    if asked:
        fields["stream_options"] = {"include_usage": True}
    # llama.cpp's clock goes on in a stream.
    return data, fields, {"n": n, "include_usage": asked, "same_head": "llama_server" not in name}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_text_passes(name: str) -> None:
    data, fields, expected = recorded(name)
    counted = b'"usage"' in data
    # `auto` holds back more than this text shows: the beginnings of many markers.
    fields["settings"] = {"format": "json"}
    out = streamed(data, **fields)
    check_stream(out, **expected)
    if "continuous" not in name or not counted:
        assert out.startswith(data.removesuffix(DONE))
        assert (out == data) == (counted or not expected["include_usage"])
    for size in (1, 13, 500):
        assert streamed(data, size=size, **fields) == out


@pytest.mark.parametrize("name", RECORDED)
def test_a_call_in_the_chunks_of_a_real_engine_is_read(name: str) -> None:
    """The recorded stream with another text: all that the engine writes around it stays its own."""
    data, fields, expected = recorded(name)
    payloads = [json.loads(part[6:]) for part in data.split(b"\n\n") if part.startswith(b"data: {")]
    slots: dict[int, list[dict[str, Any]]] = {}
    for payload in payloads:
        for choice in payload["choices"]:
            if choice["delta"].get("content"):
                slots.setdefault(choice["index"], []).append(choice["delta"])
    text = f"Hi {TAG}"
    for deltas in slots.values():
        size = -(-len(text) // len(deltas))
        for at, delta in enumerate(deltas):
            delta["content"] = text[at * size : (at + 1) * size]
    body = b"".join(map(event, payloads)) + DONE
    answer = check_stream(streamed(body, **fields), tools={"weather"}, **expected)
    for choice in answer.choices:
        assert choice.named_calls == [("weather", CITY)]
        assert (choice.content or "").strip() == "Hi"
        assert choice.finish_reason == ("length" if b'"length"' in data else "tool_calls")
        tokens = [
            entry
            for payload in payloads
            for one in payload["choices"]
            if one["index"] == choice.index
            for entry in (one.get("logprobs") or {}).get("content") or []
        ]
        assert choice.logprobs == tokens
    if expected["include_usage"] and "llama_cpp_python" not in name:
        assert answer.usage is not None
        assert "estimated" not in answer.usage
    for size in (1, 50):
        same_answer(answer, check_stream(streamed(body, size=size, **fields), **expected))


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.json")))
def test_recorded_refusals_come_out_in_openais_form(name: str) -> None:
    data = (DATA / name).read_bytes()
    made = exchange()
    sent(made, stream=True)
    reply = made.answers(data, 400)
    assert reply.status == 400
    said = json.loads(data)["error"]["message"] if data.startswith(b"{") else data.decode()
    assert check_error(reply.body)["message"] == said


def test_every_cut_of_a_recorded_stream_gives_the_same() -> None:
    data, fields, expected = recorded("vllm.stream_logprobs.sse")
    due = check_stream(streamed(data, **fields), **expected)
    for cut in range(0, len(data), 7):
        made = exchange()
        sent(made, stream=True, **fields)
        same_answer(check_stream(made.streams(data[:cut], data[cut:]), **expected), due)
