"""Apps and backends that fail: the client gets a clear answer, the server the exception, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import time
import tracemalloc
import zlib
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.helpers.asgi_client import (
    BLOCK,
    CALL,
    JSON_TYPE,
    SSE_TYPE,
    TOOL,
    App,
    Backend,
    Client,
    Message,
    Receive,
    Scope,
    Send,
    ask,
    middleware,
    read_body,
)
from tests.helpers.fakes import Answer, Quirks, TextBackend
from tests.helpers.stream_rules import Answered, check_error, check_stream, check_whole
from toolcall_middleware import ToolCallError

from ...response.streams import DONE, HEAD, chunk, completion, event, role, says, stream

FINISH = chunk({}, "stop")
HTML = b"<html><body>Bad Gateway</body></html>"
BEGUN = (event(role()), *map(event, says("Hi ", "`", "``json\n")))


class BrokenError(Exception):
    """What a broken app raises."""


def broken(*parts: bytes, **options: Any) -> Backend:
    """Sends a start and some parts, and raises."""
    return Backend(*parts, **{"more": True, "error": BrokenError("broken"), **options})


def said(made: Client, **expected: Any) -> Answered:
    """A stream that ends in an error."""
    assert made.complete
    return check_stream(made.body, error=True, **expected)


# -- apps that raise -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream_it", [True, False])
@pytest.mark.parametrize(
    "app", [broken(start=False), broken(), broken(b"da"), broken(b"  "), broken(b'{"choices":')], ids=range(5)
)
async def test_an_app_that_raises_before_there_is_an_answer_is_the_servers_matter(app: App, stream_it: bool) -> None:
    made = Client(ask(stream=stream_it))
    with pytest.raises(BrokenError):
        await made.run(middleware(app))
    assert not made.started


async def test_an_app_that_raises_in_its_stream_ends_in_an_error_event_and_the_servers_log() -> None:
    made = Client(ask())
    with pytest.raises(BrokenError):
        await made.run(middleware(broken(*BEGUN)))
    answer = said(made)
    assert (answer.only.content, answer.only.finish_reason) == ("Hi ```json\n", None)
    assert answer.error is not None
    assert answer.error["code"] == "upstream_error"


async def test_an_app_that_raises_in_a_call_leaves_the_call_open() -> None:
    made = Client(ask())
    with pytest.raises(BrokenError):
        await made.run(middleware(broken(*BEGUN, event(says(CALL[:-10])[0]))))
    answer = said(made)
    assert [call.name for call in answer.only.calls] == ["weather"]
    assert answer.only.finish_reason is None


async def test_an_app_that_raises_after_its_answer_changes_nothing_for_the_client() -> None:
    made = Client(ask())
    with pytest.raises(BrokenError):
        await made.run(middleware(broken(stream(role(), *says(BLOCK), FINISH), more=False)))
    assert made.complete
    assert len(check_stream(made.body).only.calls) == 1


async def test_an_app_that_raises_because_it_was_stopped_is_no_error_and_any_other_is() -> None:
    parts = (event(role()), event(says(BLOCK)[0]))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await broken(*parts, *parts)(scope, receive, send)
        except OSError as error:
            raise RuntimeError("something of its own") from error

    single = ask(parallel_tool_calls=False)
    check_stream((await Client(single).run(middleware(app))).body)

    async def careless(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(OSError):
            await broken(*parts, *parts)(scope, receive, send)
        raise BrokenError

    made = Client(single)
    with pytest.raises(BrokenError):
        await made.run(middleware(careless))
    check_stream(made.body)


async def test_exception_groups_of_our_own_are_no_error_and_mixed_ones_are() -> None:
    parts = (event(role()), event(says(BLOCK)[0]), event(says("x")[0]))

    def app(*more: Exception) -> App:
        async def grouped(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await broken(*parts)(scope, receive, send)
            except OSError as error:
                raise ExceptionGroup("tasks", [error, *more]) from None

        return grouped

    single = ask(parallel_tool_calls=False)
    check_stream((await Client(single).run(middleware(app()))).body)
    with pytest.raises(ExceptionGroup):
        await Client(single).run(middleware(app(BrokenError())))


async def test_an_app_may_say_itself_what_the_client_is_told() -> None:
    slow = ToolCallError("upstream_timeout", "too slow")
    for parts in ((), (b"",)):
        made = await Client(ask()).run(middleware(broken(*parts, error=slow)))
        assert (made.status, check_error(made.json)["message"]) == (504, "too slow")
    made = await Client(ask()).run(middleware(broken(*BEGUN, error=slow)))
    answer = said(made)
    assert answer.error is not None
    assert (answer.only.content, answer.error["code"]) == ("Hi ```json\n", "upstream_timeout")


async def test_an_app_that_raises_when_the_client_has_gone_too_raises_its_own() -> None:
    async def gone(message: Message) -> None:
        if message.get("body", b"").startswith(b'data: {"error"'):
            raise OSError("client is gone")

    made = Client(ask())
    made.on_send = gone
    with pytest.raises(BrokenError):
        await made.run(middleware(broken(*BEGUN[:2])))


# -- apps that end too early ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream_it", [True, False])
async def test_an_app_that_never_answers_is_the_servers_matter(stream_it: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)

    made = await Client(ask(stream=stream_it)).run(middleware(app))
    assert not made.started


async def test_an_app_that_never_answers_the_second_try_is_not_asked_for_ever() -> None:
    asked: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(1)
        if len(asked) == 1:
            await Backend(stream(role(), *says("no"), FINISH))(scope, receive, send)

    made = await Client(ask(tool_choice="required")).run(middleware(app, retries=5))
    assert len(asked) == 2
    assert not made.started


async def test_an_app_that_returns_in_the_middle_of_its_stream_has_broken_off() -> None:
    made = await Client(ask()).run(middleware(Backend(*BEGUN, more=True)))
    answer = said(made)
    assert answer.only.content == "Hi ```json\n"
    assert answer.error is not None
    assert "broke off" in answer.error["message"]


@pytest.mark.parametrize("end", [(), (event(FINISH),), (event(FINISH), DONE)], ids=["nothing", "finish", "done"])
async def test_how_a_stream_ends_tells_whether_it_is_complete(end: tuple[bytes, ...]) -> None:
    made = await Client(ask()).run(middleware(Backend(*BEGUN, *end)))
    if end:
        assert check_stream(made.body).only.content == "Hi ```json\n"
    else:
        assert said(made).only.content == "Hi ```json\n"


async def test_an_app_that_returns_before_the_body_has_answered_nothing() -> None:
    for stream_it in (True, False):
        made = await Client(ask(stream=stream_it)).run(middleware(Backend(b"", more=True)))
        assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")


async def test_a_body_before_the_start_is_the_apps_fault() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": b"x"})

    with pytest.raises(RuntimeError, match=r"before http\.response\.start"):
        await Client(ask()).run(middleware(app))


async def test_messages_after_the_end_are_ignored() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Backend(stream(role(), *says("x"), FINISH))(scope, receive, send)
        await send({"type": "http.response.body", "body": b"more", "more_body": True})

    made = await Client(ask()).run(middleware(app))
    assert check_stream(made.body).only.content == "x"


# -- bad streams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"\n\n", DONE, b": ping\n\n" + DONE, stream({**HEAD, "choices": []})])
async def test_a_stream_that_holds_no_answer_is_an_error(body: bytes) -> None:
    made = await Client(ask()).run(middleware(Backend(body)))
    if made.headers["content-type"] == "application/json":
        assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")
    else:
        # Something had left before.
        assert b'"upstream_error"' in made.body
        assert made.body.endswith(DONE)


@pytest.mark.parametrize(
    "quirks",
    [
        {"line_end": "\r\n"},
        {"line_end": "\r"},
        {"comments": True},
        {"space": False},
        {"role_chunk": False},
        {"done": False},
        {"finish": False},
        {"finish_with_text": True},
        {"empty_choices": True},
        {"last_blank_line": False},
        {"events_per_write": 3},
        {"bytes_per_write": 1},
        {"bytes_per_write": 7},
        {"content_type": "text/plain"},
        {"content_type": "application/json"},
    ],
    ids=str,
)
@pytest.mark.parametrize("chunk_size", [1, 5, None])
async def test_every_quirk_of_a_backend_gives_the_right_answer(quirks: dict[str, Any], chunk_size: int | None) -> None:
    backend = TextBackend([f"Hi\n{BLOCK}\nBye"], quirks=Quirks(**quirks), chunk_size=chunk_size)
    made = await Client(ask(stream_options={"include_usage": True})).run(middleware(backend))
    answer = check_stream(made.body, include_usage=True, empty_choices="empty_choices" in quirks)
    assert (answer.only.content or "").split() == ["Hi", "Bye"]
    assert answer.only.named_calls == [("weather", '{"city": "Paris"}')]


@pytest.mark.parametrize("quirks", [{"cut_after": 4}, {"error_after": 4}, {"error_after": 4, "done": False}], ids=str)
async def test_a_stream_that_fails_in_the_middle_keeps_its_text(quirks: dict[str, Any]) -> None:
    backend = TextBackend(["some text that is not short"], quirks=Quirks(**quirks))
    made = await Client(ask()).run(middleware(backend))
    assert said(made).only.content == "some text th"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "boom", "type": "t", "code": 400}, 400),
        ({"message": "boom", "code": 503}, 503),
        ({"message": "boom", "code": "upstream_timeout"}, 504),
        ({"message": "boom"}, 502),
        ("boom", 502),
    ],
)
async def test_an_error_event_before_anything_else_is_a_status(error: Any, status: int) -> None:
    backend = Backend(event({"error": error}), DONE)
    made = await Client(ask()).run(middleware(backend))
    assert (made.status, check_error(made.json)["message"]) == (status, "boom")
    whole = await Client(ask(stream=False)).run(middleware(Backend(json.dumps({"error": error}).encode())))
    assert (whole.status, check_error(whole.json)["message"]) == (status, "boom")


async def test_an_error_event_in_the_middle_ends_the_answer() -> None:
    backend = Backend(*BEGUN, event({"error": {"message": "boom", "code": 500}}), DONE, listen=True)
    made = await Client(ask()).run(middleware(backend))
    answer = said(made)
    assert answer.error is not None
    assert (answer.only.content, answer.error["message"]) == ("Hi ```json\n", "boom")


@pytest.mark.parametrize("stream_it", [True, False])
async def test_answers_are_bounded(stream_it: bool) -> None:
    # An event without an end, and a body without an end.
    parts = [b'data: {"x": "' if stream_it else b'{"x": "', *[b"x" * 1000] * 50]
    backend = Backend(*parts, headers=[SSE_TYPE if stream_it else JSON_TYPE])
    made = await Client(ask(stream=stream_it)).run(middleware(backend, max_response_bytes=10_000))
    assert made.status == 502
    assert "10000" in check_error(made.json)["message"]
    assert backend.written < 20
    assert backend.errors


async def test_a_limit_of_the_request_bounds_its_answer() -> None:
    backend = Backend(b"{", *[b" " * 100] * 50, headers=[JSON_TYPE])
    body = ask(stream=False, toolcall={"max_response_bytes": 1000})
    made = await Client(body).run(middleware(backend))
    assert "1000" in check_error(made.json)["message"]
    assert backend.written < 20


async def test_events_over_a_megabyte_are_read() -> None:
    text = "x" * 1_500_000
    made = await Client(ask()).run(middleware(Backend(stream(role(), *says(text), FINISH))))
    assert check_stream(made.body).only.content == text


# -- bad whole answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"null", b"hello", HTML, b'{"choices":[]}', b'{"choices":[{"index":0', b"\xff", b"[" * 100_000],
)
@pytest.mark.parametrize("stream_it", [True, False])
async def test_what_is_no_completion_is_an_upstream_error(body: bytes, stream_it: bool) -> None:
    made = await Client(ask(stream=stream_it)).run(middleware(Backend(body, headers=[JSON_TYPE])))
    assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")


async def test_a_stream_nobody_asked_for_is_an_upstream_error() -> None:
    made = await Client(ask(stream=False)).run(middleware(Backend(stream(role(), *says("x"), FINISH))))
    assert made.status == 502
    assert "event stream" in check_error(made.json)["message"]


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"gzip, br"])
async def test_a_coding_that_cannot_be_read_is_an_upstream_error(coding: bytes) -> None:
    backend = Backend(b"x", b"y", headers=[JSON_TYPE, (b"Content-Encoding", coding)])
    made = await Client(ask()).run(middleware(backend))
    assert made.status == 502
    assert coding.decode() in check_error(made.json)["message"]
    assert backend.errors


@pytest.mark.parametrize("stream_it", [True, False])
async def test_packed_garbage_is_an_upstream_error(stream_it: bool) -> None:
    backend = Backend(b"no gzip", headers=[SSE_TYPE, (b"content-encoding", b"gzip")])
    made = await Client(ask(stream=stream_it)).run(middleware(backend))
    assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")


async def test_a_packed_stream_that_turns_to_garbage_ends_in_an_error_event() -> None:
    packer = zlib.compressobj(wbits=31)
    good = packer.compress(b"".join(BEGUN)) + packer.flush(zlib.Z_SYNC_FLUSH)
    backend = Backend(good, b"\xff" * 50, headers=[SSE_TYPE, (b"content-encoding", b"gzip")])
    made = await Client(ask()).run(middleware(backend))
    assert said(made).only.content == "Hi ```json\n"


async def test_a_packed_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    backend = Backend(bomb, headers=[JSON_TYPE, (b"content-encoding", b"gzip")])
    # What is imported and cached at first is not the bomb's.
    await Client(ask()).run(middleware(Backend(b"x")))
    tracemalloc.start()
    made = await Client(ask()).run(middleware(backend, max_response_bytes=100_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "100000" in check_error(made.json)["message"]
    assert peak < 5_000_000


async def test_a_wrong_length_is_corrected() -> None:
    whole = completion(BLOCK)
    for length in (b"1", b"99999", b"x"):
        backend = Backend(whole, headers=[JSON_TYPE, (b"content-length", length)])
        made = await Client(ask(stream=False)).run(middleware(backend))
        assert len(check_whole(made.json).only.calls) == 1


# -- refusals of the backend ---------------------------------------------------------------------------------------

VLLM = {"error": {"message": "too long", "type": "BadRequestError", "param": "messages", "code": 400}}


@pytest.mark.parametrize("stream_it", [True, False])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 501, 503, 529])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (json.dumps(VLLM).encode(), "too long"),
        (json.dumps({"object": "error", **VLLM["error"]}).encode(), "too long"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"detail": [{"msg": "bad"}]}', '[{"msg":"bad"}]'),
        (b'{"error": "plain"}', "plain"),
        (HTML, "Bad Gateway"),
        (b"Internal Server Error", "Internal Server Error"),
        (b"", "The backend answered with status {} and no text."),
    ],
    ids=["vllm", "vllm old", "fastapi", "fastapi list", "text in json", "html", "text", "empty"],
)
async def test_refusals_keep_their_status_and_text(body: bytes, message: str, status: int, stream_it: bool) -> None:
    headers = [(b"Content-Type", b"text/html"), (b"Retry-After", b"7"), (b"x-request-id", b"r"), (b"etag", b"1")]
    headers += [(b"Content-Length", str(len(body)).encode())]
    backend = Backend(body, status=status, headers=headers)
    made = await Client(ask(stream=stream_it)).run(middleware(backend))
    assert made.status == status
    assert check_error(made.json)["message"] == message.replace("{}", str(status))
    assert (made.headers["retry-after"], made.headers["x-request-id"]) == ("7", "r")
    assert "etag" not in made.headers
    assert len(backend.bodies) == 1


async def test_a_refusal_keeps_type_param_and_code() -> None:
    made = await Client(ask()).run(middleware(Backend(json.dumps(VLLM).encode(), status=400, headers=[JSON_TYPE])))
    assert made.json == VLLM


async def test_a_refusal_to_a_request_without_tools_passes() -> None:
    made = await Client(ask(tools=())).run(middleware(Backend(b'{"detail":1}', status=400, headers=[JSON_TYPE])))
    assert (made.status, made.body) == (400, b'{"detail":1}')


# -- faults of the model -------------------------------------------------------------------------------------------

UNKNOWN = BLOCK.replace("weather", "nothing")


async def test_a_fault_of_the_model_is_a_422_that_is_not_tried_again() -> None:
    for stream_it in (True, False):
        backend = TextBackend([UNKNOWN])
        made = await Client(ask(stream=stream_it)).run(middleware(backend, unknown_tool="error"))
        if made.status == 200:
            # The role had left.
            assert stream_it
            error = said(made).error
            assert error is not None
        else:
            error = check_error(made.json)
            assert made.status == 422
            assert made.headers["x-should-retry"] == "false"
        assert (error["code"], error["type"]) == ("unknown_tool_call", "model_error")


async def test_a_fault_in_the_middle_keeps_what_came_before() -> None:
    backend = TextBackend([f"First {BLOCK} then {UNKNOWN} late"])
    made = await Client(ask()).run(middleware(backend, unknown_tool="error"))
    answer = said(made)
    assert answer.only.named_calls == [("weather", '{"city": "Paris"}')]
    assert (answer.only.content or "").split()[0] == "First"
    assert "late" not in (answer.only.content or "")


# -- hostile requests ----------------------------------------------------------------------------------------------

DEEP = "[" * 100_000 + "]" * 100_000
TOOLS = json.dumps([TOOL])


def hostile(schema: str) -> bytes:
    """A request whose tool has these parameters."""
    tool = f'{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}'
    return f'{{"model":"m","messages":[{{"role":"user","content":"x"}}],"tools":[{tool}]}}'.encode()


@pytest.mark.parametrize(
    "body",
    [
        f'{{"model":"m","messages":[],"tools":{DEEP}}}'.encode(),
        f'{{"model":"m","messages":{DEEP},"tools":{TOOLS}}}'.encode(),
        f'{{"model":"m","x":{DEEP},"messages":[{{"role":"user","content":"x"}}],"tools":{TOOLS}}}'.encode(),
        ask()[:-1],
        ask() + b"}",
        ask().replace(b"hello", b"\xff\xfe"),
        b'{"tools": [nope]}',
        b'["tools"]',
        f'["tools", {TOOLS}]'.encode(),
        ask(tools=("nope",)),
        ask(tools=({"type": "function"},)),
        ask(tools=(TOOL, TOOL)),
        ask(tools=(TOOL,) * 1000),
        ask(tool_choice={"type": "function", "function": {"name": "nope"}}),
        ask(tool_choice="nope"),
        ask(n=0),
        ask(temperature="hot"),
        ask(messages=[]),
        ask(messages=[{"role": "tool", "content": "x", "tool_call_id": "1"}]),
        ask(toolcall={"mode": "off"}),
        ask(toolcall={"nope": 1}),
        hostile('"x"'),
        hostile(DEEP),
        hostile('{"type":"array"}'),
        hostile('{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}'),
        hostile('{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}'),
        hostile('{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}'),
    ],
    ids=range(27),
)
async def test_a_bad_request_is_refused_clearly_and_at_once(body: bytes) -> None:
    backend = TextBackend([BLOCK])
    begin = time.process_time()
    made = await Client(body).run(middleware(backend))
    assert time.process_time() - begin < 1
    assert 400 <= made.status < 500
    error = check_error(made.json)
    assert error["type"] == "invalid_request_error"
    assert backend.seen == []


@pytest.mark.parametrize(
    "schema",
    [
        '{"type":"object","properties":{"a":{"type":"string","pattern":"(a+)+$"}}}',
        '{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a"}}}',
        '{"type":"object","$ref":"#"}',
        '{"type":"object","properties":{' + ",".join(f'"p{at}":{{"type":"string"}}' for at in range(5000)) + "}}",
        '{"allOf":[' * 200 + "{}" + "]}" * 200,
        '{"type":"object","properties":' * 300 + "{}" + "}" * 300,
    ],
    ids=["pattern", "loop", "self", "wide", "allOf", "deep"],
)
async def test_a_hostile_schema_holds_nothing_up(schema: str) -> None:
    for body in (hostile(schema), hostile(schema)[:-1] + b',"tool_choice":"required"}'):
        begin = time.process_time()
        made = await Client(body).run(middleware(TextBackend([BLOCK.replace("weather", "f")])))
        assert time.process_time() - begin < 2
        assert made.status in {200, 400}
        assert made.status == 200 or check_error(made.json)["code"] == "invalid_tool_schema"


async def test_a_hundred_megabytes_are_refused() -> None:
    part = b"x" * (1 << 20)
    recorder = TextBackend([])
    made = await Client([part] * 100, headers=[JSON_TYPE]).run(middleware(recorder))
    assert (made.status, check_error(made.json)["code"]) == (413, "request_too_large")
    assert recorder.seen == []
    assert made.received == 33


async def test_the_last_of_duplicated_keys_counts_everywhere() -> None:
    backend = TextBackend([BLOCK], strict=True)
    body = ask()[:-1] + b', "tools": ' + TOOLS.replace("weather", "storm").encode() + b', "stream": false}'
    made = await Client(body).run(middleware(backend))
    assert check_whole(made.json).only.calls == []
    assert "## storm\n" in backend.last.text
    assert "## weather\n" not in backend.last.text
    assert backend.last.raw.count(b'"stream"') == 1


# -- a promise that is not kept ------------------------------------------------------------------------------------

NAMED = {"type": "function", "function": {"name": "weather"}}


CUT = Answer('```json\n{"tool_calls": [{"', finish_reason="length")
THOUGHT = Answer("", "length", reasoning="Let me think of the weather.")


@pytest.mark.parametrize("stream_it", [True, False])
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
@pytest.mark.parametrize(
    ("answer", "retries", "tries", "says"),
    [
        ("no", 0, 1, "(1 try). It wrote: no"),
        ("no", 1, 2, "(2 tries). It wrote: no"),
        ("no", 3, 4, "(4 tries). It wrote: no"),
        (CUT, 1, 1, "(1 try). Its answer ended at the limit of tokens. It wrote: "),
        (THOUGHT, 1, 1, "Its answer ended at the limit of tokens. It wrote: (only thoughts)"),
    ],
)
async def test_a_call_that_never_comes_is_a_422(
    choice: Any, stream_it: bool, answer: Any, retries: int, tries: int, says: str
) -> None:
    backend = TextBackend([answer] * 10)
    made = await Client(ask(stream=stream_it, tool_choice=choice, max_tokens=8)).run(
        middleware(backend, retries=retries)
    )
    assert (made.status, made.headers["x-should-retry"]) == (422, "false")
    error = check_error(made.json)
    assert (error["code"], error["type"], error["param"]) == ("tool_choice_not_satisfied", "model_error", "tool_choice")
    assert says in error["message"]
    assert THOUGHT.reasoning not in error["message"]
    assert len(backend.seen) == tries
    assert "stream" not in made.headers["content-type"]


async def test_every_choice_must_call() -> None:
    backend = TextBackend([[BLOCK, "no"], [BLOCK, BLOCK]])
    made = await Client(ask(tool_choice="required", n=2)).run(middleware(backend))
    answer = check_stream(made.body, n=2, must_call=True)
    assert len(backend.seen) == 2
    assert [len(choice.calls) for choice in answer.choices] == [1, 1]


async def test_a_stop_string_before_the_call_is_tried_again() -> None:
    backend = TextBackend(["Well END " + "blah " * 500, BLOCK], pause=0)
    made = await Client(ask(tool_choice="required", stop="END")).run(middleware(backend))
    assert check_stream(made.body).only.named_calls == [("weather", '{"city": "Paris"}')]
    assert not backend.seen[0].finished
    assert backend.bodies[1]["messages"][-2] == {"role": "assistant", "content": "Well "}


async def test_a_stream_that_breaks_off_before_the_call_is_a_502() -> None:
    backend = TextBackend(["some text"], quirks=Quirks(cut_after=2, done=False))
    made = await Client(ask(tool_choice="required")).run(middleware(backend))
    assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")


async def test_a_second_try_that_is_refused_is_the_backends_word() -> None:
    made = await Client(ask(tool_choice="required")).run(middleware(TextBackend(["no"])))
    assert (made.status, check_error(made.json)["message"]) == (500, "the script is used up")


NO = {SSE_TYPE: stream(role(), *says("no"), FINISH), JSON_TYPE: completion("no")}


@pytest.mark.parametrize("first", NO, ids=["stream", "whole"])
async def test_a_second_try_is_read_as_what_it_is_whatever_the_first_was(first: tuple[bytes, bytes]) -> None:
    answers = [Backend(NO[first], headers=[first]), Backend(completion(BLOCK), headers=[JSON_TYPE])]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answers.pop(0)(scope, receive, send)

    made = await Client(ask(tool_choice="required")).run(middleware(app))
    assert len(check_stream(made.body).only.calls) == 1
    assert made.headers["content-type"] == "text/event-stream"


# -- what is added and refused -------------------------------------------------------------------------------------


async def test_what_the_client_sent_itself_is_not_left_out() -> None:
    backend = TextBackend([BLOCK], refused_fields=["logit_bias"])
    made = await Client(ask(logit_bias={"1": 2})).run(middleware(backend))
    assert (made.status, check_error(made.json)["param"]) == (400, "logit_bias")
    assert len(backend.seen) == 1


# -- usage alone ---------------------------------------------------------------------------------------------------

COUNTED = ask(tools=(), stream_options={"include_usage": True})


async def test_an_app_that_fails_without_tools_fails_as_without_us() -> None:
    made = Client(COUNTED)
    with pytest.raises(BrokenError):
        await made.run(middleware(broken(*BEGUN, b'data: {"x"')))
    assert made.body == b"".join(BEGUN) + b'data: {"x"'
    assert not made.complete
    made = await Client(COUNTED).run(middleware(Backend(*BEGUN, b'data: {"x"', more=True)))
    assert made.body == b"".join(BEGUN) + b'data: {"x"'
    assert not made.complete
    made = Client(COUNTED)
    with pytest.raises(BrokenError):
        await made.run(middleware(broken(start=False)))
    assert not made.started


# -- Starlette -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
async def test_an_exception_in_starlettes_stream_reaches_client_and_server(spec_version: str) -> None:
    async def generate() -> Any:
        for part in BEGUN:
            yield part
            await asyncio.sleep(0)
        raise BrokenError

    async def endpoint(request: Request) -> StreamingResponse:
        await request.body()
        return StreamingResponse(generate(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", endpoint, methods=["POST"])])
    made = Client(ask(), spec_version=spec_version)
    with pytest.raises((BrokenError, ExceptionGroup)):
        await made.run(middleware(app))
    assert said(made).only.content == "Hi ```json\n"
