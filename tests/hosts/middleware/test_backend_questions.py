"""Counts that have to be waited for: the backend's `/tokenize`, long texts, and whole answers without usage."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.asgi_client import JSON_TYPE, SSE_TYPE, Client, Message, Receive, Scope, Send, ask, read_body
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.hosts.middleware import backend_questions
from toolcall_middleware.usage.tokenizers.vocabularies import load

from ...response.streams import DONE, chunk, completion, role, says, stream
from ...usage.tiny import save_model

FINISH = chunk({}, "stop")
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
TOKENIZED = b'{"count":%d,"max_model_len":99,"tokens":[1,2]}'


class Engine:
    """A backend with a chat and a `/tokenize` of its own. `asked`: (path, body) of all that is not chat."""

    def __init__(self, kind: str = "vllm", *, answer: bytes | None = None, fault: str = "") -> None:
        self.kind = kind
        self.answer = stream(role(), *says("one", " two"), FINISH) if answer is None else answer
        self.fault = fault
        self.asked: list[tuple[str, Any]] = []
        self.scopes: list[Scope] = []
        self.chats: list[Any] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = json.loads(await read_body(receive))
        if scope["path"].endswith("/chat/completions"):
            self.chats.append(body)
            kind = SSE_TYPE if self.answer.startswith(b"data:") else JSON_TYPE
            await self.send(send, 200, self.answer, kind)
            return
        self.asked.append((scope["path"], body))
        self.scopes.append(scope)
        await self._count(scope, body, receive, send)

    async def _count(self, scope: Scope, body: Any, receive: Receive, send: Send) -> None:
        match self.fault:
            case "404":
                await self.send(send, 404, b'{"detail":"Not Found"}')
            case "raises":
                raise RuntimeError("no such route")
            case "hangs":
                assert (await receive())["type"] == "http.disconnect"
            case "silent":
                return
            case "html":
                await self.send(send, 200, b"<html>")
            case "empty":
                await self.send(send, 200, b'{"tokens":null}')
            case "true":
                await self.send(send, 200, b'{"count":true}')
            case _:
                await self.send(send, 200, self._tokens(scope["path"], body))

    def _tokens(self, path: str, body: Any) -> bytes:
        if self.kind == "vllm":
            return TOKENIZED % (100 if "messages" in body else len(body["prompt"].split()))
        if path.endswith("/apply-template"):
            return json.dumps({"prompt": " ".join(each["content"] for each in body["messages"])}).encode()
        return json.dumps({"tokens": list(range(len(body.get("content", "").split())))}).encode()

    @staticmethod
    async def send(send: Send, status: int, body: bytes, kind: tuple[bytes, bytes] = JSON_TYPE) -> None:
        headers = [kind, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body[:10], "more_body": True})
        await send({"type": "http.response.body", "body": body[10:], "more_body": False})


def asking(*, streamed: bool = True, tools: bool = True, **fields: Any) -> Client:
    options = {"stream_options": {"include_usage": True}} if streamed else {}
    offered = {} if tools else {"tools": ()}
    return Client(ask(stream=streamed, **options, **offered, **fields))


async def usage_of(engine: Engine, client: Client, app: ToolCallMiddleware | None = None, **settings: Any) -> Any:
    made = await client.run(app or ToolCallMiddleware(engine, tokenizer="upstream", **settings))
    assert made.status == 200
    if made.body.startswith(b"data:"):
        return check_stream(made.body, include_usage=True).usage
    return check_whole(made.json).usage


# -- the backend counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("tools", [True, False])
async def test_a_backend_like_vllm_counts_messages_and_text(streamed: bool, tools: bool) -> None:
    engine = Engine(answer=None if streamed else completion("one two"))
    usage = await usage_of(engine, asking(streamed=streamed, tools=tools))
    # The end of the answer is a token, too.
    assert usage == {"prompt_tokens": 100, "completion_tokens": 3, "total_tokens": 103}
    assert [path for path, _ in engine.asked] == ["/tokenize"] * 2
    assert engine.asked[0][1] == {
        "model": "m",
        "messages": engine.chats[0]["messages"],
        "add_generation_prompt": True,
    }
    assert engine.asked[1][1] == {"model": "m", "prompt": "one two", "add_special_tokens": False}


async def test_a_backend_like_llama_cpp_counts_text_and_renders_messages() -> None:
    engine = Engine("llama.cpp")
    app = ToolCallMiddleware(engine, tokenizer="upstream")
    words = 0
    for turn in range(2):
        usage = await usage_of(engine, asking(), app)
        words = sum(len(each["content"].split()) for each in engine.chats[turn]["messages"])
        assert usage == {"prompt_tokens": words, "completion_tokens": 3, "total_tokens": words + 3}
    paths = [path for path, _ in engine.asked]
    # What its first answer taught is remembered.
    assert paths == ["/tokenize", *["/apply-template", "/tokenize", "/tokenize"] * 2]
    assert engine.asked[2][1]["add_special"] is True
    assert engine.asked[3][1] == {"model": "m", "content": "one two", "add_special": False, "parse_special": True}


async def test_questions_go_the_way_of_the_clients_request() -> None:
    engine = Engine()
    client = Client(
        ask(stream_options={"include_usage": True}),
        path="/llm/v1/chat/completions",
        root_path="/llm",
        query_string=b"a=b",
        headers=[JSON_TYPE, (b"content-length", b"5"), (b"authorization", b"Bearer k")],
        state={"x": 1},
    )
    await usage_of(engine, client)
    scope = engine.scopes[0]
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/llm/tokenize", b"/llm/tokenize", b"")
    assert (scope["method"], scope["root_path"], scope["state"]) == ("POST", "/llm", {"x": 1})
    headers = dict(scope["headers"])
    assert headers[b"authorization"] == b"Bearer k"
    assert int(headers[b"content-length"]) > 50
    assert len(headers) == len(scope["headers"])


async def test_a_backend_that_counts_is_not_asked() -> None:
    counted = stream(role(), *says("one"), FINISH, {**chunk({}), "choices": [], "usage": USAGE})
    for engine, client in (
        (Engine(answer=counted), asking()),
        (Engine(answer=counted), asking(tools=False)),
        (Engine(answer=completion("one two", usage=USAGE)), asking(streamed=False)),
        (Engine(answer=completion("one two", usage=USAGE)), asking(streamed=False, tools=False)),
    ):
        assert await usage_of(engine, client) == USAGE
        assert engine.asked == []
        assert (await usage_of(engine, asking_like(client), usage="count"))["prompt_tokens"] == 100


def asking_like(client: Client) -> Client:
    return Client(bytes(client.sent[0]["body"]))


async def test_nobody_is_asked_for_who_does_not_ask() -> None:
    engine = Engine()
    made = await Client(ask()).run(ToolCallMiddleware(engine, tokenizer="upstream"))
    assert b"usage" not in made.body
    assert engine.asked == []


@pytest.mark.parametrize("fault", ["404", "raises", "hangs", "silent", "html", "empty", "true"])
async def test_a_backend_that_cannot_count_is_remembered_and_the_count_estimated(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backend_questions, "_COUNT_SECONDS", 0.05)
    engine = Engine(fault=fault)
    app = ToolCallMiddleware(engine, tokenizer="upstream")
    with caplog.at_level(logging.WARNING, "toolcall_middleware"):
        usage = await usage_of(engine, asking(), app)
        assert usage["estimated"] is True
        assert usage["completion_tokens"] == 2
        assert usage["total_tokens"] == usage["prompt_tokens"] + 2
        assert await usage_of(engine, asking(), app) == usage
    assert len(engine.asked) == 2  # the second time with a text that nothing can be wrong with
    assert len([each for each in caplog.records if "does not count tokens" in each.message]) == 1


async def test_a_proxy_whose_upstream_closed_an_old_connection_is_asked_again() -> None:
    class Broken(Engine):
        async def _count(self, scope: Scope, body: Any, receive: Receive, send: Send) -> None:
            if len(self.asked) % 2:
                await self.send(send, 502, b'{"error": {}}')
            else:
                await super()._count(scope, body, receive, send)

    engine = Broken()
    assert (await usage_of(engine, asking()))["prompt_tokens"] == 100
    assert len(engine.asked) == 4


async def test_a_client_that_leaves_takes_the_question_with_it() -> None:
    reached, cancelled = asyncio.Event(), False

    class Slow(Engine):
        async def _count(self, scope: Scope, body: Any, receive: Receive, send: Send) -> None:
            nonlocal cancelled
            reached.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled = True
                raise

    client = asking()
    task = asyncio.ensure_future(client.run_with_others(ToolCallMiddleware(Slow(), tokenizer="upstream")))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled


async def test_all_tries_are_asked_for_and_add_up() -> None:
    engine = Engine(answer=completion("no call"))
    made = await asking(streamed=False, tool_choice="required").run(
        ToolCallMiddleware(engine, tokenizer="upstream", constrain="off")
    )
    assert made.status == 422
    assert engine.asked == []  # an error has no usage
    call = completion('```json\n{"tool_calls": [{"name": "weather", "arguments": {}}]}\n```')
    answers = [completion("no call"), call]

    class Learning(Engine):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"].endswith("/chat/completions"):
                self.answer = answers.pop(0)
            await super().__call__(scope, receive, send)

    engine = Learning()
    usage = await usage_of(engine, asking(streamed=False, tool_choice="required"), constrain="off")
    assert usage["prompt_tokens"] == 200
    assert len(engine.asked) == 4


# -- long texts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_long_prompt_is_counted_in_a_thread(
    streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    tokenizer = f"hf:{save_model(tmp_path)}"
    real = load(tokenizer)._one

    def one(text: str) -> int:
        threads.add(threading.get_ident())
        return real(text)

    app = ToolCallMiddleware(Engine(answer=None if streamed else completion("one two")), tokenizer=tokenizer)
    monkeypatch.setattr(load(tokenizer), "_one", one)
    engine = Engine()
    short = await usage_of(engine, asking(streamed=streamed, tools=False), app)
    assert threads == {threading.get_ident()}
    threads.clear()
    long = [{"role": "user", "content": "hello" + "x" * 50_000}]
    usage = await usage_of(engine, asking(streamed=streamed, tools=False, messages=long), app)
    assert threads
    assert threading.get_ident() not in threads
    assert usage["prompt_tokens"] == short["prompt_tokens"] + 50_000
    assert "estimated" not in usage


async def test_streamed_usage_is_that_of_the_whole_answer(tmp_path: Path) -> None:
    text = 'Hello. ```json\n{"tool_calls": [{"name": "weather", "arguments": {"city": "Paris"}}]}\n``` é'
    pieces = says(*(text[at : at + 3] for at in range(0, len(text), 3)))
    tokenizer = f"hf:{save_model(tmp_path)}"
    for tools in (True, False):
        whole = Engine(answer=completion(text))
        streamed = Engine(answer=stream(role(), *pieces, FINISH))
        usages = [
            await usage_of(engine, asking(streamed=one, tools=tools), ToolCallMiddleware(engine, tokenizer=tokenizer))
            for engine, one in ((whole, False), (streamed, True))
        ]
        assert usages[0] == usages[1]
        assert usages[0]["completion_tokens"] == len(text.encode()) + 1


# -- whole answers without tools -----------------------------------------------------------------------------------


class Passing:
    """An app that sends these messages."""

    def __init__(self, *messages: Message, fails: bool = False) -> None:
        self.messages = messages
        self.fails = fails

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        for message in self.messages:
            await send(message)
        if self.fails:
            raise RuntimeError("broken")


def answered(*parts: bytes, status: int = 200, headers: Any = (JSON_TYPE,), more: bool = False) -> list[Message]:
    last = len(parts) - 1
    return [
        {"type": "http.response.start", "status": status, "headers": list(headers)},
        *(
            {"type": "http.response.body", "body": part, "more_body": more or at < last}
            for at, part in enumerate(parts)
        ),
    ]


COUNTED = completion("one two", usage=USAGE)


@pytest.mark.parametrize(
    ("messages", "fails"),
    [
        (answered(COUNTED), False),
        (answered(COUNTED[:50], COUNTED[50:], b""), False),
        (answered(completion("one two"), status=201), False),
        (answered(completion("one two"), headers=[(b"content-type", b"text/plain")]), False),
        (answered(completion("one two"), headers=[JSON_TYPE, (b"content-encoding", b"gzip")]), False),
        (answered(b'{"choices": []}'), False),
        (answered(b'{"choices": [{"message": 5}]}'), False),
        (answered(b"[1]"), False),
        (answered(b""), False),
        (answered(b"x" * (9 << 20)), False),
        (answered(completion("x" * (5 << 20)), b"y" * (5 << 20)), False),
        (answered(completion("one two")[:40], more=True), False),
        (answered(completion("one two")[:40], more=True), True),
        (answered(stream(role(), FINISH), headers=[SSE_TYPE]), False),
        ([*answered(completion("one two"))[:1], {"type": "http.response.pathsend", "path": "/x"}], False),
    ],
    ids=range(15),
)
async def test_messages_pass_as_they_came_where_nothing_is_to_be_added(messages: list[Message], fails: bool) -> None:
    app = ToolCallMiddleware(Passing(*messages, fails=fails), tokenizer="upstream")
    made = Client(ask(tools=(), stream=False))
    if fails:
        with pytest.raises(RuntimeError, match="broken"):
            await made.run(app)
    else:
        await made.run(app)
    assert len(made.got) == len(messages)
    assert all(got == sent for got, sent in zip(made.got, messages, strict=True))


@pytest.mark.parametrize("given", [{}, {"usage": None}, {"usage": {"prompt_tokens": 0, "completion_tokens": 0}}])
async def test_a_whole_answer_without_numbers_gets_them_where_an_operator_counts(given: Any, tmp_path: Path) -> None:
    body = completion("one two", odd=1.0, **given)
    headers = [JSON_TYPE, (b"Content-Length", str(len(body)).encode()), (b"x-odd", b"1")]
    app = ToolCallMiddleware(Passing(*answered(body, headers=headers)), tokenizer=f"hf:{save_model(tmp_path)}")
    made = await Client(ask(tools=(), stream=False)).run(app)
    assert made.json["usage"]["completion_tokens"] == len("one two") + 1
    assert "estimated" not in made.json["usage"]
    assert (made.headers["x-odd"], made.headers["x-toolcall"]) == ("1", "mode=pass")
    assert int(made.headers["content-length"]) == len(made.body)
    if not given:
        assert made.body.startswith(body[:-1])


async def test_headers_that_tell_of_the_old_bytes_go_where_usage_is_added() -> None:
    old = [(b"ETag", b"1"), (b"Content-MD5", b"2"), (b"Digest", b"3"), (b"content-digest", b"4"), (b"x-odd", b"5")]
    app = ToolCallMiddleware(Passing(*answered(completion("one two"), headers=[JSON_TYPE, *old])), usage="count")
    made = await Client(ask(tools=(), stream=False)).run(app)
    assert made.json["usage"]["completion_tokens"] == 2
    assert made.headers["x-odd"] == "5"
    assert not {"etag", "content-md5", "digest", "content-digest"} & made.headers.keys()


async def test_a_count_of_ones_own_replaces_the_backends() -> None:
    app = ToolCallMiddleware(Passing(*answered(COUNTED)), usage="count")
    made = await Client(ask(tools=(), stream=False)).run(app)
    assert made.json["usage"]["completion_tokens"] == 2
    assert made.json["usage"]["estimated"] is True
    assert made.headers["x-toolcall"] == "mode=pass; usage=estimated"
    counted = [{**one, "usage": USAGE} for one in (role(), *says("one", " two"), FINISH)]
    body = stream(*counted, {**chunk({}), "choices": [], "usage": {**USAGE, "prompt_tokens_details": {"cached": 1}}})
    made = await asking(tools=False).run(ToolCallMiddleware(Engine(answer=body), usage="count"))
    answer = check_stream(made.body, include_usage=True)
    assert answer.usage is not None
    assert answer.usage["completion_tokens"] == 2
    assert answer.usage["prompt_tokens_details"] == {"cached": 1}
    assert made.headers["x-toolcall"] == "mode=pass; usage=estimated"


@pytest.mark.parametrize("settings", [{}, {"usage": "backend", "tokenizer": "upstream"}, {"usage": "off"}])
async def test_nothing_is_looked_at_where_nobody_said_how_to_count(settings: dict[str, Any]) -> None:
    messages = answered(completion("one two"))
    made = await Client(ask(tools=(), stream=False)).run(ToolCallMiddleware(Passing(*messages), **settings))
    assert all(got is sent for got, sent in zip(made.got, messages, strict=True))


# -- a backend that knows no stream_options ------------------------------------------------------------------------


class Picky:
    """Refuses `stream_options` as servers of older days do."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.refusal = answered(b'{"error":{"message":"Unknown field: stream_options"}}', status=400)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = json.loads(await read_body(receive))
        self.bodies.append(body)
        answer = answered(stream(role(), *says("one", " two"), FINISH), headers=[SSE_TYPE])
        for message in self.refusal if "stream_options" in body else answer:
            await send(message)


async def test_a_backend_that_refuses_stream_options_is_asked_without_and_remembered() -> None:
    engine = Picky()
    app = ToolCallMiddleware(engine)
    for _ in range(2):
        made = await asking(tools=False).run(app)
        answer = check_stream(made.body, include_usage=True)
        assert answer.usage is not None
        assert answer.usage["completion_tokens"] == 2
    assert ["stream_options" in body for body in engine.bodies] == [True, False, False]
    made = await asking().run(app)
    assert check_stream(made.body, include_usage=True).usage is not None
    assert len(engine.bodies) == 4


async def test_another_refusal_passes_as_it_came() -> None:
    messages = answered(b'{"odd": 1}', status=400, headers=[JSON_TYPE, (b"x-odd", b"1")])
    made = await asking(tools=False).run(ToolCallMiddleware(Passing(*messages)))
    assert (made.status, made.got[0]["headers"], made.body) == (400, messages[0]["headers"], b'{"odd": 1}')


async def test_a_refusal_that_quotes_the_request_is_not_remembered() -> None:
    refusals = [answered(b'{"error": "no such model in {\\"stream_options\\": 1}"}', status=400)] * 2
    answer = answered(stream(role(), FINISH, {**chunk({}), "choices": [], "usage": USAGE}), headers=[SSE_TYPE])
    bodies: list[Any] = []

    async def engine(scope: Scope, receive: Receive, send: Send) -> None:
        bodies.append(json.loads(await read_body(receive)))
        for message in refusals.pop() if refusals else answer:
            await send(message)

    app = ToolCallMiddleware(engine)
    assert (await asking(tools=False).run(app)).status == 400
    assert check_stream((await asking(tools=False).run(app)).body, include_usage=True).usage == USAGE
    assert ["stream_options" in body for body in bodies] == [True, False, True]


def test_a_tokenizer_that_is_not_there_is_an_error_at_start() -> None:
    from toolcall_middleware.errors import SettingsError

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    with pytest.raises(SettingsError, match="there is no file"):
        ToolCallMiddleware(app, settings=Settings(tokenizer="hf:/nowhere/tokenizer.json"))


async def test_the_injection_is_told_where_an_extension_field_is(tmp_path: Path) -> None:
    tokenizer = f"hf:{save_model(tmp_path)}"
    for engine, streamed in ((Engine(), True), (Engine(answer=completion("one two", usage=USAGE)), False)):
        app = ToolCallMiddleware(engine, tokenizer=tokenizer, extension_field="_toolcall")
        made = await asking(streamed=streamed).run(app)
        if streamed:
            last = json.loads(made.body.removesuffix(DONE).rpartition(b"data: ")[2])
        else:
            last = made.json
            assert last["usage"] == USAGE
        own = engine.chats[0]["messages"][0]["content"]
        told = last["_toolcall"]["injected_prompt_tokens"]
        assert 0.9 * len(own) < told <= len(own.encode()) + 2


# -- with the rest of the middleware -------------------------------------------------------------------------------

CALL = '{"tool_calls": [{"name": "weather", "arguments": {"city": "Paris"}}]}'


async def test_an_answer_that_is_stopped_early_is_counted_before_its_end(tmp_path: Path) -> None:
    written = f"```json\n{CALL}\n```\nUser: and now?"
    body = stream(role(), *says(*(written[at : at + 5] for at in range(0, len(written), 5))), FINISH)
    events = [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]

    class Streaming(Engine):
        told = 0

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if not scope["path"].endswith("/chat/completions"):
                await super().__call__(scope, receive, send)
                return
            self.chats.append(json.loads(await read_body(receive)))
            await send({"type": "http.response.start", "status": 200, "headers": [SSE_TYPE]})
            for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
                self.told += 1

    for tokenizer in ("upstream", f"hf:{save_model(tmp_path)}"):
        engine = Streaming()
        made = asking(parallel_tool_calls=False)
        with contextlib.suppress(OSError):  # how the app learns that nothing more is wanted
            await made.run(ToolCallMiddleware(engine, tokenizer=tokenizer))
        answer = check_stream(made.body, include_usage=True)
        assert engine.told < len(events)
        assert len(answer.only.calls) == 1
        assert answer.usage is not None
        assert "estimated" not in answer.usage
        assert 0 < answer.usage["completion_tokens"] < len(written)
        assert made.body.count(b"[DONE]") == 1


@pytest.mark.parametrize("text", ["one two", f"```json\n{CALL}\n```"])
async def test_a_whole_answer_to_a_request_for_a_stream_is_counted(text: str) -> None:
    engine = Engine(answer=completion(text))
    assert await usage_of(engine, asking()) == {
        "prompt_tokens": 100,
        "completion_tokens": len(text.split()) + 1,
        "total_tokens": 101 + len(text.split()),
    }


async def test_an_error_has_no_usage_and_asks_nothing() -> None:
    engine = Engine(answer=stream(role(), *says("one"), {"error": {"message": "boom"}}))
    made = await asking().run(ToolCallMiddleware(engine, tokenizer="upstream"))
    assert b"boom" in made.body
    assert b'"usage"' not in made.body
    assert engine.asked == []


async def test_choices_are_asked_for_each_by_itself() -> None:
    pieces = [says(text, index=index)[0] for text in ("one", " two") for index in (0, 1)]
    ends = [chunk({}, "stop", index=index) for index in (0, 1)]
    engine = Engine(answer=stream(*(chunk({"role": "assistant"}, index=index) for index in (0, 1)), *pieces, *ends))
    made = await asking(n=2).run(ToolCallMiddleware(engine, tokenizer="upstream"))
    answer = check_stream(made.body, include_usage=True, n=2)
    assert answer.usage == {"prompt_tokens": 100, "completion_tokens": 6, "total_tokens": 106}
    assert [body.get("prompt") for _, body in engine.asked] == [None, "one two", "one two"]


async def test_a_native_backends_tools_are_counted_with_the_prompt(tmp_path: Path) -> None:
    engine = Engine(answer=completion("one two"))
    await usage_of(engine, asking(streamed=False), mode="native")
    assert engine.asked[0][1]["tools"] == engine.chats[0]["tools"]
    template = "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}"
    app = ToolCallMiddleware(engine, tokenizer=f"hf:{save_model(tmp_path, template)}", mode="native")
    usage = await usage_of(engine, asking(streamed=False), app)
    assert usage["prompt_tokens"] == len(json.dumps(engine.chats[0]["tools"])) + len("hello")
    assert "estimated" not in usage
