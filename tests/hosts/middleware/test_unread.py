"""While a guard is on, no path, API, encoding or spelling carries tools past it."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest

from tests.helpers.answers import NativeBackend
from tests.helpers.asgi_client import HELLO, JSON_TYPE, TOOL, Backend, Client, Headers, ask, middleware, post
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.hosts.middleware.guards import is_guarded
from toolcall_middleware.settings import Settings

from ..http.test_paths import SPELLINGS

GUARDS: list[dict[str, Any]] = [
    {"allowlist": "other", "allowlist_mode": "enforce"},
    {"rate_limit": "1/day"},
    {"max_tools": 0},
    {"profile": "gateway"},
]


def noted() -> Backend:
    """An app that answers everything; what it was asked is in `raw`."""
    return Backend(b"{}", headers=[JSON_TYPE])


FUNCTION = TOOL["function"]
CARRIERS: dict[str, tuple[str, bytes]] = {
    "responses": ("/v1/responses", json.dumps({"model": "m", "input": "x", "tools": [FUNCTION]}).encode()),
    "messages": ("/v1/messages", json.dumps({"model": "m", "messages": HELLO, "tools": [FUNCTION]}).encode()),
    "ollama": ("/api/chat", ask()),
    "ollama, spelled in another case": ("/api/chat", ask(tools=(), Tools=[TOOL])),
    "sagemaker": ("/invocations", ask()),
    "completions": ("/v1/completions", ask()),
    "google": ("/v1beta/models/m:generateContent", json.dumps({"functionDeclarations": [FUNCTION]}).encode()),
    "batches": ("/v1/batch", json.dumps([{"body": json.loads(ask())}]).encode()),
    "escaped": ("/api/chat", ask().replace(b'"tools"', b'"\\u0074ools"').replace(b"function", b"f\\u0075nction")),
    "first of two": ("/api/chat", ask().replace(b'"model"', b'"tools": [{"a": 1}], "model"')[:-1] + b', "tools": []}'),
    "utf-16": ("/api/chat", ask().decode().encode("utf-16")),
    "a form": ("/api/chat", b"model=m&tools=%5B%5D"),
    "an escaped form": ("/api/chat", b"model=m&%74%6f%6fls=%5B1%5D"),
    "an MCP server in another spelling": (
        "/api/agents",
        json.dumps({"input": "x", "mcpServers": [{"url": "x"}]}).encode(),
    ),
    "a hosted tool": ("/v1/responses", json.dumps({"input": "x", "x": [{"type": "mcp_tool"}]}).encode()),
}


@pytest.mark.parametrize("guard", GUARDS, ids=str)
@pytest.mark.parametrize("kind", CARRIERS)
async def test_tools_do_not_pass_a_guard_by_another_api(kind: str, guard: dict[str, Any]) -> None:
    path, body = CARRIERS[kind]
    app = noted()
    made = await Client(body, path=path).run(middleware(app, faces="chat", **guard))
    assert made.status == 403
    assert made.json["error"]["code"] == "tool_not_allowed"
    assert not app.raw


UNKNOWN: list[dict[str, Any]] = [
    {"extra_body": {"tools": [TOOL]}},
    {"Extra_Body": {"a": [{"TOOLS": [TOOL]}]}},
    {"chat_template_kwargs": {"tools": [TOOL]}},
    {"body": {"functions": [FUNCTION]}},
    {"mcp_servers": [{"url": "https://evil.example"}]},
    {"compound_custom": {"tools": {"enabled_tools": ["web_search"]}}},
    {"config": {"functionDeclarations": [FUNCTION]}},
    {"chat_template_kwargs": {"custom_tools": [TOOL]}},  # Llama 3.1's template
    {"chat_template_kwargs": {"a": {"xml_tools": '{"name": "evil"}'}}},  # SmolLM3's
    {"builtin_tools": ["brave_search"]},
    {"parse_tool_calls": True},  # llama.cpp's server
    {"extra_body": {"Parse_Tool_Calls": 1}},
    {"guided_json": {"Tools": [TOOL]}},
    {"messages": [{"role": "developer", "content": "d", "tools": [TOOL]}, *HELLO]},  # read by vLLM
    {"messages": [*HELLO, {"role": "assistant", "content": "d", "x_functions": {"evil": {}}}]},
]


@pytest.mark.parametrize("offered", [(), (TOOL,)], ids=["no tools", "tools"])
@pytest.mark.parametrize("fields", UNKNOWN, ids=lambda fields: next(iter(fields)))
async def test_tools_do_not_pass_a_guard_in_fields_that_nobody_here_reads(
    fields: dict[str, Any], offered: tuple[dict[str, Any], ...]
) -> None:
    app = noted()
    guard: dict[str, Any] = {"allowlist": "weather", "allowlist_mode": "enforce"}
    made = await Client(ask(tools=offered, **fields)).run(middleware(app, **guard))
    assert made.status == 403
    assert made.json["error"]["code"] == "tool_not_allowed"
    assert not app.raw
    written = ask(tools=offered, **fields).replace(b"ools", b"\\u006fols")
    assert (await Client(written).run(middleware(app, **guard))).status == 403 or b"ools" not in ask(**fields)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/responses"])
async def test_nor_on_another_face(path: str) -> None:
    """With `upstream_api=anthropic` a request to Messages goes on as it is."""
    app = noted()
    body = {"model": "m", "max_tokens": 9, "extra_body": {"tools": [TOOL]}}
    body |= {"input": "x"} if path.endswith("responses") else {"messages": HELLO}
    guard: dict[str, Any] = {"allowlist": "a", "allowlist_mode": "enforce", "faces": ("messages", "responses")}
    made = await Client(json.dumps(body).encode(), path=path).run(middleware(app, upstream_api="anthropic", **guard))
    assert made.status == 403
    assert not app.raw


@pytest.mark.parametrize(
    "fields",
    [
        {"chat_template_kwargs": {"tools_in_user_message": False, "enable_thinking": True}},
        {"extra_body": {"top_k": 4, "tools": []}},
        {"metadata": {"tools": "three"}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"tools": {"a": 1}}}}}},
        {"guided_json": {"properties": {"tool_name": {"type": "string"}}}},
        {"chat_template_kwargs": {"tool_parser": "hermes", "tool_rounds": 3, "no_tools": True}},
        {"parse_tool_calls": False},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "tools": "a"}], "tool_hint": "a"}]},
    ],
    ids=str,
)
async def test_fields_that_hold_no_tools_pass_a_guard(fields: dict[str, Any]) -> None:
    app = noted()
    made = await Client(ask(tools=(), stream=False, **fields)).run(
        middleware(app, allowlist="a", allowlist_mode="enforce")
    )
    assert made.status == 200
    assert len(app.raw) == 1


ESCAPES = [
    "/images/x", "/v1/images/chat", "/v1/audio/", "/api/chat/images/", "/v1/images/edits/api/chat", "/audio/x/chat",
    "/api/chat/%2e%2e/images/edits", "/api/chat;/images/edits", "/api/chat//images/edits", "/v1/Images/Edits",
    "/images/edits;x", "/images/editsx", "/api/chat#/images/edits",
]  # fmt: skip


@pytest.mark.parametrize(
    "asked",
    [
        *({"method": method} for method in ("PUT", "PATCH", "QUERY", "post")),
        *({"path": path} for path in (*SPELLINGS, *ESCAPES)),
    ],
    ids=str,
)
async def test_tools_do_not_pass_a_guard_by_another_method_or_spelling_nor_as_media(asked: dict[str, Any]) -> None:
    app = noted()
    made = await Client(ask(), **asked).run(middleware(app, **GUARDS[0]))
    assert (made.status, made.json["error"]["code"]) == (403, "tool_not_allowed")
    assert not app.raw


async def test_tools_do_not_pass_a_guard_in_gzip_or_a_strange_charset() -> None:
    app = noted()
    body = gzip.compress(ask())
    coded: Headers = [JSON_TYPE, (b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(body))]
    assert (await Client(body, path="/api/chat", headers=coded).run(middleware(app, **GUARDS[0]))).status == 403
    utf7 = ask().replace(b"tool", b"+AHQ-ool").replace(b"function", b"+AGY-unction")
    headers: Headers = [(b"content-type", b"application/json; charset=UTF-7")]
    assert (await Client(utf7, path="/api/chat", headers=headers).run(middleware(app, **GUARDS[0]))).status == 403
    assert not app.raw


OTHERS: dict[str, Any] = {"input": "x", "max_tokens": 5}  # what other APIs require
EVIL = json.dumps([{"name": "evil", **FUNCTION}])
WHAT_A_LENIENT_PARSER_READS: dict[str, bytes] = {
    "a byte order mark": b"\xef\xbb\xbf" + ask(tools=(), **OTHERS, extra_body={"mcp_servers": [FUNCTION]}),
    "a byte order mark, another case": b"\xef\xbb\xbf" + ask(tools=(), **OTHERS, Tools=[TOOL]),
    "utf-16, another case": ask(tools=(), **OTHERS, Tools=[TOOL]).decode().encode("utf-16"),
    "utf-32, another case": ask(tools=(), **OTHERS, Tools=[TOOL]).decode().encode("utf-32"),
    "utf-32 without a mark": ask(tools=(), **OTHERS, Tools=[TOOL]).decode().encode("utf-32-be"),
    "not a number": ask(tools=(), **OTHERS, extra_body={"tools": [TOOL]}, x=float("nan")),
    "half a pair": ask(tools=(), **OTHERS, extra_body={"tools": [TOOL]}, x="\ud800"),
    "half a pair, another case": ask(tools=(), **OTHERS, Tools=[TOOL], x="\ud800"),
    "half a pair, with tools": ask(**OTHERS, extra_body={"tools": [TOOL]}, user="\ud800"),
    "no UTF-8": ask(tools=(), **OTHERS, extra_body={"tools": [TOOL]}, x="?").replace(b"?", b"\xff"),
    "a member twice": ask(tools=(), **OTHERS).replace(
        b'"model"', b'"extra_body": {"tools": ' + EVIL.encode() + b'}, "model"'
    )[:-1]
    + b', "extra_body": {}}',
    "a member inside twice": ask(tools=(), **OTHERS)[:-1]
    + b', "extra_body": {"tools": '
    + EVIL.encode()
    + b', "tools": []}}',
    "deep": ask(tools=(), **OTHERS, extra_body=0).replace(
        b'"extra_body": 0', b'"extra_body": ' + b'{"tools": [' * 40_000 + EVIL.encode() + b"]}" * 40_000
    ),
    "a form": b"model=m&tools=" + EVIL.encode(),
}


@pytest.mark.parametrize("body", WHAT_A_LENIENT_PARSER_READS.values(), ids=WHAT_A_LENIENT_PARSER_READS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_tools_do_not_pass_a_guard_in_what_is_no_json_here_and_json_to_others(path: str, body: bytes) -> None:
    app = noted()
    guard: dict[str, Any] = {"allowlist": FUNCTION["name"], "allowlist_mode": "enforce", "mode": "native"}
    made = await Client(body, path=path).run(middleware(app, **guard))
    leaves_out = path == "/v1/responses" or body == WHAT_A_LENIENT_PARSER_READS["a member twice"]
    assert made.status in {400, 403} or leaves_out
    assert not any(b"parameters" in got.replace(b"\0", b"") for got in app.raw)


@pytest.mark.parametrize("indent", [None, 1])
async def test_of_a_field_that_stands_twice_the_one_that_was_checked_leaves(indent: int | None) -> None:
    app = noted()
    last = json.dumps({"model": "m", "messages": HELLO, "extra_body": {"a": "tool"}}, indent=indent).encode()
    twice = b'{"extra_body": {"tools": ' + EVIL.encode() + b"}, " + last[1:]
    made = await Client(twice).run(middleware(app, **GUARDS[0]))
    assert made.status == 200
    pairs = json.loads(app.raw[0], object_pairs_hook=list)
    assert sorted(name for name, _ in pairs) == ["extra_body", "messages", "model"]
    assert json.loads(app.raw[0]) == json.loads(last)


async def test_of_a_message_s_member_that_stands_twice_the_one_that_was_checked_leaves() -> None:
    app = noted()
    body = ask(tools=()).replace(b'"role"', b'"tools": ' + EVIL.encode() + b', "role"', 1)
    assert (await Client(body).run(middleware(app, **GUARDS[0]))).status == 403
    twice = body.replace(b'"content"', b'"tools": null, "content"', 1)
    assert (await Client(twice).run(middleware(app, **GUARDS[0]))).status == 200
    assert b"weather" in twice
    assert b"weather" not in app.raw[0]
    assert json.loads(app.raw[0]) == json.loads(twice)


@pytest.mark.parametrize("messages", [[1, *HELLO], "x", {"tools": [TOOL]}, None], ids=str)
async def test_messages_that_are_none_are_the_backend_s_to_refuse(messages: Any) -> None:
    app = noted()
    made = await Client(ask(tools=(), messages=messages)).run(middleware(app, **GUARDS[0]))
    assert made.status == 200
    assert json.loads(app.raw[0])["messages"] == messages


@pytest.mark.parametrize("mode", ["native", "auto", "prompt"])
async def test_functions_beside_tools_are_read_by_nobody(mode: str) -> None:
    app = noted()
    guard: dict[str, Any] = {"allowlist": FUNCTION["name"], "allowlist_mode": "enforce", "mode": mode}
    body = ask(functions=[{"name": "evil"}], function_call={"name": "evil"}, stream=False)
    await Client(body).run(middleware(app, **guard))
    assert app.raw
    assert not any(b"evil" in got for got in app.raw)


@pytest.mark.parametrize("name", ["tools", "functions"])
async def test_a_field_of_tools_may_be_null_while_a_list_is_enforced(name: str) -> None:
    app = noted()
    guard: dict[str, Any] = {"allowlist": "a", "allowlist_mode": "enforce", "mode": "native"}
    call = {"id": "call_1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    turns = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}]
    turns.append({"role": "tool", "tool_call_id": "call_1", "content": "x"})
    body = {"model": "m", "messages": turns, name: None}
    await Client(json.dumps(body).encode()).run(middleware(app, **guard))
    assert json.loads(app.raw[0]) == body


@pytest.mark.parametrize("number", ["1" * 5000, "1e999", "-0"])
async def test_numbers_of_any_size_pass_a_guard(number: str) -> None:
    app = noted()
    body = json.dumps({"model": "m", "messages": HELLO, "note": "a tool", "n": 0}, indent=1)
    made = await Client(body.replace('"n": 0', f'"n": {number}').encode()).run(middleware(app, **GUARDS[0]))
    assert made.status == 200
    assert number.encode() in app.raw[0]


@pytest.mark.parametrize(
    "charset",
    ["utf-7", '"UTF-7"', "utf-8; charset=utf-7", "utf-16", "cp037", "utf-8-sig", "unknown"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"])
async def test_tools_do_not_pass_a_guard_in_a_charset_that_the_app_may_read(path: str, charset: str) -> None:
    app = noted()
    kind = f"application/json; charset={charset}".encode()
    made = await Client(ask(tools=(), **OTHERS), path=path, headers=[(b"content-type", kind)]).run(
        middleware(app, **GUARDS[0])
    )
    assert made.status == 403
    assert "charset" in made.json["error"]["message"]
    assert not app.raw
    extended: Headers = [(b"content-type", b"application/json; charset*=utf-8''utf-7")]
    assert (
        await Client(ask(tools=(), **OTHERS), path=path, headers=extended).run(middleware(app, **GUARDS[0]))
    ).status == 403
    assert not app.raw


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", json.dumps({"model": "m", "input": "a tool has a \u00e9 function"}).encode()),
        ("/v1/responses", json.dumps({"model": "m", "input": "x", "tools": []}).encode()),
        ("/v1/completions", b'{"prompt": "x"}'),
        ("/v1/audio/transcriptions", b"--x\r\ncontent-type: audio/wav\r\n\r\ntool\0\0\r\n--x--"),
        ("/tokenize", b""),
    ],
)
async def test_what_holds_no_tools_passes_a_guard_to_the_byte(path: str, body: bytes) -> None:
    app = noted()
    made = await Client(body, path=path).run(middleware(app, faces="chat", **GUARDS[0]))
    assert made.status == 200
    assert app.raw == [body]


MEDIA = [
    "/v1/audio/transcriptions", "/v1/audio/translations", "/audio/speech",
    "/v1/images/generations", "/openai/deployments/d/images/edits", "/images/variations",
]  # fmt: skip


@pytest.mark.parametrize("path", MEDIA)
async def test_recordings_and_pictures_pass_a_guard_unread(path: str) -> None:
    app = noted()
    made = await Client(b"--x\r\n\r\ntool\0\0\r\n--x--", path=path).run(middleware(app, **GUARDS[0]))
    assert made.status == 200


async def test_without_a_guard_other_apis_pass_unread() -> None:
    app = noted()
    assert not is_guarded(Settings())
    made = await Client(ask(), path="/api/chat").run(middleware(app))
    assert made.status == 200
    assert app.raw == [ask()]


async def test_a_websocket_does_not_pass_a_guard() -> None:
    app = noted()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await middleware(app, **GUARDS[0])({"type": "websocket", "path": "/v1/realtime", "headers": []}, receive, send)
    assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 1008)]


async def test_vllms_invocations_are_read_where_paths_name_them() -> None:
    app, other = noted(), b'{"model": "m", "prompt": "x"}'
    read = middleware(app, paths="/chat/completions,/invocations", max_tools=9)
    await Client(ask(), path="/invocations", headers=[JSON_TYPE]).run(read)
    made = await Client(other, path="/invocations", headers=[JSON_TYPE]).run(read)
    assert made.status == 200
    chat = json.loads(app.raw[0])
    assert "tools" not in chat
    assert TOOL["function"]["name"] in chat["messages"][0]["content"]
    assert app.raw[1] == other  # a text completion, which vLLM takes there too
    refused = await Client(ask(tools=[TOOL] * 10), path="/invocations", headers=[JSON_TYPE]).run(read)
    assert (refused.status, len(app.raw)) == (400, 2)


# --- calls that nobody offered

HI = [{"role": "user", "content": "Hi"}]
CALL = {
    "index": 0,
    "id": "call_abc",
    "type": "function",
    "function": {"name": "shell", "arguments": '{"command": "ls"}'},
}
OLD = {"function_call": CALL["function"]}


def agent(said: dict[str, Any]) -> NativeBackend:
    """A backend that calls tools of its own, or only answers (`said`)."""
    return NativeBackend({"role": "assistant", **said}, finish="stop" if "content" in said else "tool_calls")


async def ask_app(app: Any, body: dict[str, Any], path: str = "/v1/chat/completions") -> httpx.Response:
    return await post(app, {"model": "m", **body}, path, {"authorization": "Bearer t"})


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HI}),
    "usage": ("/v1/chat/completions", {"messages": HI, "stream_options": {"include_usage": True}}),
    "none": ("/v1/chat/completions", {"messages": HI, "tool_choice": "none"}),
    "messages": ("/v1/messages", {"messages": HI, "max_tokens": 100}),
    "responses": ("/v1/responses", {"input": "Hi"}),
}


@pytest.mark.parametrize("mode", ["prompt", "native", "auto"])
@pytest.mark.parametrize("face", BODIES)
@pytest.mark.parametrize("said", [{"tool_calls": [CALL]}, OLD], ids=["tool_calls", "function_call"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_enforced_list_stops_a_call_that_nobody_offered(
    mode: str, face: str, said: dict[str, Any], *, stream: bool
) -> None:
    path, body = BODIES[face]
    if face == "usage" and not stream:
        body = {"messages": HI}
    app = ToolCallMiddleware(
        agent(said), mode=mode, faces="chat,messages,responses", allowlist="search", allowlist_mode="enforce"
    )
    answer = await ask_app(app, {**body, "stream": stream}, path)
    assert "shell" not in answer.text or "tool_not_allowed" in answer.text + str(answer.headers)
    assert '"command' not in answer.text
    if face in {"chat", "usage", "none"}:
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "tool_not_allowed"


@pytest.mark.parametrize("mode", ["prompt", "native", "auto"])
@pytest.mark.parametrize("face", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_rate_counts_it(mode: str, face: str, *, stream: bool) -> None:
    path, body = BODIES[face]
    if face == "usage" and not stream:
        body = {"messages": HI}
    app = ToolCallMiddleware(
        agent({"tool_calls": [CALL]}), mode=mode, faces="chat,messages,responses", rate_limit="2/minute"
    )
    for _ in range(2):
        assert (await ask_app(app, {**body, "stream": stream}, path)).status_code == 200
    tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}
    assert (await ask_app(app, {"messages": HI, "tools": [tool]})).status_code == 429


@pytest.mark.parametrize("stream", [False, True])
async def test_without_calls_the_request_and_the_answer_are_as_without_a_guard(*, stream: bool) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]},
        {"role": "user", "content": "And again", "name": "x"},
    ]
    body = {"messages": messages, "stream": stream, "temperature": 0.1, "top_k": 5, "response_format": {"type": "text"}}
    plain, guarded = agent({"content": "Hello"}), agent({"content": "Hello"})
    expected = await ask_app(ToolCallMiddleware(plain), body)
    answer = await ask_app(ToolCallMiddleware(guarded, allowlist="search", allowlist_mode="enforce"), body)
    assert guarded.bodies == plain.bodies
    if stream:
        assert answer.content == expected.content
    else:
        left_out = {"choices", "usage"}
        assert {k: v for k, v in answer.json().items() if k not in left_out} == {
            k: v for k, v in expected.json().items() if k not in left_out
        }
        (choice,), (plainly,) = answer.json()["choices"], expected.json()["choices"]
        # What is read is written with the members that OpenAI always has; they are null.
        assert choice.pop("logprobs") is None
        assert choice["message"].pop("refusal") is None
        assert choice == plainly


async def test_without_a_guard_it_passes() -> None:
    answer = await ask_app(ToolCallMiddleware(agent({"tool_calls": [CALL]})), {"messages": HI})
    assert answer.json()["choices"][0]["message"]["tool_calls"] == [CALL]


def other(data: str, media_type: str) -> Backend:
    """A backend that answers with these bytes, whatever it is asked."""
    return Backend(data.encode(), headers=[(b"content-type", media_type.encode())])


TEXTS = [
    ("{}", "application/json"),
    ('{"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}', "application/json"),
    ("<html>", "text/html"),
    ("data: [DONE]\n\n", "text/event-stream"),
]


@pytest.mark.parametrize(("data", "media_type"), TEXTS)
async def test_an_answer_that_is_no_chat_completion_is_as_without_a_guard(data: str, media_type: str) -> None:
    app = ToolCallMiddleware(other(data, media_type), allowlist="search", allowlist_mode="enforce")
    for stream in (False, True):
        answer = await ask_app(app, {"messages": HI, "stream": stream})
        assert (answer.status_code, answer.text) == (200, data)


async def test_a_text_completion_is_as_without_a_guard() -> None:
    data = 'data: {"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    app = ToolCallMiddleware(
        other(data, "text/event-stream"), paths="/invocations", allowlist="search", allowlist_mode="enforce"
    )
    answer = await ask_app(app, {"prompt": "Hi", "stream": True}, "/invocations")
    assert (answer.status_code, answer.text) == (200, data)


async def test_a_call_in_a_broken_completion_does_not_pass() -> None:
    message = {"role": "assistant", "tool_calls": [CALL]}
    not_json = {"message": {**message, "x": float("nan")}}
    for choices in ([{"message": message}, {"text": ""}], [not_json]):
        data = json.dumps({"choices": choices})
        app = ToolCallMiddleware(other(data, "application/json"), allowlist="search", allowlist_mode="enforce")
        answer = await ask_app(app, {"messages": HI})
        assert answer.status_code in {403, 502}


async def test_a_refusal_is_the_backends() -> None:
    backend = Backend(b"no tea", status=418, headers=[])
    app = ToolCallMiddleware(backend, allowlist="search", allowlist_mode="enforce")
    answer = await ask_app(app, {"messages": HI})
    assert (answer.status_code, answer.text) == (418, "no tea")
    answer = await ask_app(app, {"messages": HI, "stream": True, "stream_options": {"include_usage": True}})
    assert (answer.status_code, answer.text) == (418, "no tea")
