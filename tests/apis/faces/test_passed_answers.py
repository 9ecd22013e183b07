"""Answers that pass as Messages, where the exchange refuses, repairs or drops some of what they say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from tests.apis.faces.messages_upstream import CALL, READ, THOUGHT, Start, Upstream, ask, body, events, message, spelled
from toolcall_middleware.answer.operations import AnswerWriter, Content, Finished, Opened
from toolcall_middleware.apis.messages.client.face import MessagesFace
from toolcall_middleware.apis.messages.upstream.translation import AnthropicAnswer

TEXT: dict[str, Any] = {"type": "text", "text": "Let me look it up."}
TAIL: dict[str, Any] = {"type": "text", "text": "That was all."}
UNKNOWN = {"type": "tool_use", "id": "toolu_bad", "name": "delete_file", "input": {"file": "/etc/passwd"}}
SHOWN = '{"name":"delete_file","arguments":"{\\"file\\": \\"/etc/passwd\\"}"}'
SECOND = {**CALL, "id": "toolu_02", "input": {"path": "/b"}}
RENAMED = {**SECOND, "name": "read"}
SECOND_THOUGHT = {**THOUGHT, "thinking": "And /b.", "signature": "other=="}


class SlowUpstream(Upstream):
    """Each event comes by itself."""

    async def _pieces(self, stream: list[bytes]) -> AsyncIterator[bytes]:
        for piece in stream:
            yield piece
            await asyncio.sleep(0.003)


def blocks_of(answer: httpx.Response) -> tuple[list[dict[str, Any]], str]:
    """(blocks, stop reason) of a stream, as the SDK would have them; each rule of the order of events is checked."""
    assert answer.status_code == 200
    told = [json.loads(line[6:]) for line in answer.content.splitlines() if line.startswith(b"data: ")]
    kinds = [one["type"] for one in told]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("message_delta") == kinds.count("message_stop") == 1
    blocks: list[dict[str, Any]] = []
    is_open = False
    for one in told:
        if "index" in one:
            assert one["index"] == len(blocks) - (one["type"] != "content_block_start")
        match one["type"]:
            case "content_block_start":
                assert not is_open
                is_open = True
                blocks.append({**one["content_block"], "parts": []})
            case "content_block_delta":
                assert is_open
                name = next(name for name in one["delta"] if name != "type")
                if name in {"text", "thinking", "partial_json"}:
                    blocks[-1]["parts"].append(one["delta"][name])
                else:
                    blocks[-1][name] = one["delta"][name]
            case "content_block_stop":
                assert is_open
                is_open = False
    assert not is_open
    for block in blocks:
        said = "".join(block.pop("parts"))
        if block["type"] == "tool_use":
            block["input"] = json.loads(said) if said else block["input"]
        elif said:
            block[block["type"]] = said
    return blocks, told[-2]["delta"]["stop_reason"]


@pytest.fixture(params=["slow", "one piece", "whole"])
def received(request: pytest.FixtureRequest, start: Start) -> Callable[..., tuple[list[dict[str, Any]], str]]:
    """What a client reads of an answer of these blocks: a stream, however it is cut, or a whole answer."""

    def read(*blocks: dict[str, Any], fields: dict[str, Any] | None = None, **settings: str) -> Any:
        told = events(*blocks)
        if request.param == "whole":
            plain = [{name: value for name, value in block.items() if name != "raw"} for block in blocks]
            _, url = start(Upstream(json.dumps(message(*plain)).encode()), **settings)
            answer = ask(url, body(**(fields or {}))).json()
            return answer["content"], answer["stop_reason"]
        upstream = SlowUpstream(stream=told) if request.param == "slow" else Upstream(stream=[b"".join(told)])
        _, url = start(upstream, **settings)
        return blocks_of(ask(url, body(stream=True, **(fields or {}))))

    return read


Read = Callable[..., tuple[list[dict[str, Any]], str]]


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    ("settings", "before"),
    [
        ({}, []), ({}, [TEXT]), ({}, [CALL]), ({}, [TEXT, CALL]), ({"unknown_tool": "drop"}, [TEXT, CALL]),
        ({"stream_arguments": "false"}, [TEXT, CALL]), ({"prose": "drop"}, [TEXT, CALL]),
        ({"max_tool_calls": "2"}, [TEXT, CALL]), ({"max_repeated_calls": "3"}, [TEXT, CALL]),
    ],
)  # fmt: skip
def test_a_call_behind_a_refused_one_keeps_its_arguments_and_its_id(
    received: Read, settings: dict[str, str], before: list[dict[str, Any]]
) -> None:
    got, reason = received(*before, UNKNOWN, SECOND, **settings)
    calls = [block for block in got if block["type"] == "tool_use"]
    assert calls == [block for block in [*before, SECOND] if block["type"] == "tool_use"]
    assert reason == "tool_use"


@pytest.mark.parametrize(
    "told", [[TEXT, UNKNOWN], [TEXT, UNKNOWN, SECOND], [TEXT, CALL, UNKNOWN], [THOUGHT, UNKNOWN, SECOND]]
)
def test_text_before_a_refused_call_is_said_once_and_the_call_behind_it(
    received: Read, told: list[dict[str, Any]]
) -> None:
    got, reason = received(*told)
    assert got == [text(SHOWN) if block is UNKNOWN else block for block in told]
    assert reason == ("tool_use" if {CALL["id"], SECOND["id"]} & {block.get("id") for block in told} else "end_turn")


@pytest.mark.parametrize("settings", [{}, {"validate_arguments": "error"}, {"malformed_arguments": "text"}])
def test_text_behind_a_refused_call_is_said_once(received: Read, settings: dict[str, str]) -> None:
    got, reason = received(UNKNOWN, TAIL, **settings)
    said = "".join(block["text"] for block in got)
    assert said in {SHOWN + TAIL["text"], TAIL["text"] + SHOWN}
    assert reason == "end_turn"


def test_arguments_that_are_coerced_while_they_stream_leave_so(received: Read) -> None:
    tool = {**READ, "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    told = {**CALL, "input": {"n": "7", "path": "/a"}}
    got, _ = received(told, fields={"tools": [tool]})
    assert got == [{**told, "input": {"n": 7, "path": "/a"}}]


@pytest.mark.parametrize("before", [[], [UNKNOWN], [TEXT, UNKNOWN]])
@pytest.mark.parametrize("call", [CALL, {**CALL, "name": "read"}, {**CALL, "input": {"n": "7", "path": "/a"}}])
def test_fields_of_a_call_stay_where_the_answer_is_changed(
    received: Read, before: list[dict[str, Any]], call: dict[str, Any]
) -> None:
    """The API wants `caller` back."""
    tool = {**READ, "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    got, _ = received(*before, {**call, "caller": caller}, fields={"tools": [tool]})
    given = {**call["input"], "n": 7} if "n" in call["input"] else call["input"]
    assert got[-1] == {**CALL, "input": given, "caller": caller}


def test_text_of_a_refused_call_in_a_whole_answer_stays_after_a_coerced_one(start: Start) -> None:
    tool = {**READ, "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    coerced = {**CALL, "input": {"n": "7"}}
    _, url = start(Upstream(json.dumps(message(coerced, UNKNOWN, SECOND)).encode()))
    answer = ask(url, body(tools=[tool])).json()
    assert answer["content"] == [{**CALL, "input": {"n": 7}}, text(SHOWN), SECOND]


def test_a_tool_without_arguments_is_called(received: Read) -> None:
    now = {"name": "now", "input_schema": {"type": "object", "properties": {}}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
    got, _ = received(call, UNKNOWN, {**call, "id": "toolu_2"}, fields={"tools": [now]}, unknown_tool="drop")
    assert got == [call, {**call, "id": "toolu_2"}]


def test_calls_of_one_id_are_two_calls(received: Read) -> None:
    got, _ = received(CALL, {**SECOND, "id": CALL["id"]})
    assert [block["input"] for block in got] == [CALL["input"], SECOND["input"]]
    assert len({block["id"] for block in got}) == 2


def test_a_call_in_the_text_is_one(received: Read) -> None:
    written = '<tool_call>\n{"name": "Read", "arguments": {"path": "/a"}}\n</tool_call>'
    got, reason = received(text("Well. " + written))
    assert got[0] == text("Well. ")
    assert [(block["name"], block["input"]) for block in got[1:]] == [("Read", {"path": "/a"})]
    assert reason == "tool_use"


def test_blocks_of_a_stream_stay_where_they_were(received: Read) -> None:
    got, _ = received(THOUGHT, TEXT, CALL, SECOND_THOUGHT, RENAMED)
    assert got == [THOUGHT, TEXT, CALL, SECOND_THOUGHT, SECOND]


def test_thoughts_stay_between_calls_where_one_is_repaired(received: Read) -> None:
    """The API wants its thoughts back where they were."""
    cut = {**CALL, "raw": '{"path": "/a"'}
    got, _ = received(cut, SECOND_THOUGHT, SECOND, text("Let me <look>"), THOUGHT)
    assert [block for block in got if block["type"] != "text"] == [CALL, SECOND_THOUGHT, SECOND, THOUGHT]
    assert text("Let me <look>") in got


def test_fields_of_a_whole_answer_that_nobody_reads_stay(start: Start) -> None:
    _, url = start(Upstream(spelled(message(TEXT, RENAMED, new=[1.50]))))
    assert ask(url, body()).json() == message(TEXT, SECOND, new=[1.50])


def passing() -> tuple[AnswerWriter, Callable[[bytes], bytes]]:
    """(the writer of a passed stream, what takes an event of the upstream)."""
    face = MessagesFace(native=True)
    face.request(body(stream=True))
    passage, writer = face.passage, face.writer
    assert passage is not None
    assert writer is not None
    passage.used = True
    reader = AnthropicAnswer(created=0, on_event=passage.add)
    return writer, reader.feed


def test_text_after_half_a_thought_is_sent_where_the_exchange_ends_the_answer() -> None:
    writer, note = passing()
    for raw in events(TEXT, THOUGHT)[:7]:
        note(raw)
    for step in (Opened(), Content("Other words."), Finished("stop")):
        writer.take(step)
        if isinstance(step, Content):
            half = writer.leaving()
            writer.take(Content(" And more."))
    writer.end(None, {})
    got, _ = blocks_of(httpx.Response(200, content=half + writer.leaving()))
    assert [block["type"] for block in got] == ["text", "thinking", "text"]
    assert "".join(block.get("text", "") for block in got) == "Other words. And more."


def test_a_thought_in_a_changed_answer_is_sent_as_it_comes() -> None:
    writer, note = passing()
    sent = events(TEXT, THOUGHT)
    for raw in sent[:5]:
        note(raw)
    writer.take(Opened())
    writer.take(Content("Other words."))
    assert b"Other words." in writer.leaving()
    for raw in sent[5:8]:
        note(raw)
        writer.take(Opened())  # any step of the exchange
        assert writer.leaving().endswith(raw)


def test_a_second_beginning_is_not_sent() -> None:
    writer, note = passing()
    sent = events(TEXT)
    for raw in [sent[0], *sent]:
        note(raw)
    for step in (Opened(), Content(TEXT["text"]), Finished("stop")):
        writer.take(step)
    writer.end(None, {})
    assert writer.leaving() == b"".join(sent)


@pytest.mark.parametrize(
    "strange",
    [
        {"type": []},
        {"type": "content_block_start", "index": [0], "content_block": {"type": "text", "text": 5}},
        {"type": "content_block_start", "index": {}, "content_block": []},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": [1], "input": 7}},
        {"type": "content_block_delta", "index": [], "delta": 5},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
        {"type": "content_block_stop", "index": "0"},
    ],
)
def test_strange_events_do_not_end_the_answer(start: Start, strange: dict[str, Any]) -> None:
    told = events(TEXT, CALL)
    odd = b"data: %b\n\n" % json.dumps(strange).encode()
    _, url = start(Upstream(stream=[b"".join([*told[:2], odd, *told[2:]])]))
    got = ask(url, body(stream=True)).content
    assert got.endswith(told[-1])
    assert b"".join(told[-4:-2]) in got or b'"name":"Read"' in got


# -- settings of answers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "fields"), [({"prose": "drop"}, {}), ({}, {"toolcall": {"prose": "drop"}})])
def test_prose_beside_calls_is_dropped(received: Read, settings: dict[str, str], fields: dict[str, Any]) -> None:
    got, reason = received(THOUGHT, TEXT, CALL, TAIL, SECOND, fields=fields, **settings)
    assert (got, reason) == ([THOUGHT, CALL, SECOND], "tool_use")


def test_prose_without_calls_is_kept(received: Read) -> None:
    assert received(THOUGHT, TEXT, prose="drop") == ([THOUGHT, TEXT], "end_turn")


@pytest.mark.parametrize("reason", [["end_turn"], {"a": 1}, [], 5])
def test_a_reason_that_is_no_text_gives_way_to_what_the_answer_holds(received: Read, start: Start, reason: Any) -> None:
    told = events(TEXT, CALL)
    told[-2] = told[-2].replace(b'"tool_use"', json.dumps(reason).encode())
    assert b'"tool_use"' not in told[-2]
    _, url = start(Upstream(stream=told))
    assert blocks_of(ask(url, body(stream=True))) == received(TEXT, CALL)


@pytest.mark.parametrize("pieces", ["events", "one"])
def test_a_stream_without_its_last_event_gets_that_alone(start: Start, pieces: str) -> None:
    told = events(TEXT, CALL)[:-1]
    _, url = start(Upstream(stream=told if pieces == "events" else [b"".join(told)]))
    got = ask(url, body(stream=True)).content
    assert got.startswith(b"".join(told))
    assert got.removeprefix(b"".join(told)) == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


@pytest.mark.parametrize(
    ("settings", "fields"), [({"rewrite_ids": "true"}, {}), ({}, {"toolcall": {"rewrite_ids": True}})]
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_whose_ids_are_rewritten_is_translated(
    start: Start, settings: dict[str, str], fields: dict[str, Any], *, stream: bool
) -> None:
    upstream, url = start(Upstream(spelled(message(THOUGHT, TEXT, CALL)), events(THOUGHT, TEXT, CALL)), **settings)
    answer = ask(url, body(stream=stream, **fields))
    blocks = blocks_of(answer)[0] if stream else answer.json()["content"]
    (call,) = (block for block in blocks if block["type"] == "tool_use")
    assert call["id"].startswith("call_")
    assert {**call, "id": CALL["id"]} == CALL
    assert "cache_control" not in json.loads(upstream.bodies[0])["tools"][0]


def test_an_option_that_no_request_may_set_is_refused(start: Start) -> None:
    upstream, url = start(Upstream(spelled(message(CALL))))
    answer = ask(url, body(toolcall={"upstream_url": "https://elsewhere.example"}))
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert upstream.bodies == []
