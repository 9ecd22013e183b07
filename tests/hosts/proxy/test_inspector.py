"""The inspector's server: who gets in, what is kept, and what it forbids the page."""

from __future__ import annotations

import asyncio
import json
import logging
import tracemalloc
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tests.formats.template import templates
from tests.helpers.asgi_client import Client, ask
from tests.helpers.fakes import TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.cli.faces.requests import PATHS, request_body
from toolcall_middleware.hosts.http.request_record import AccessLog
from toolcall_middleware.hosts.proxy.inspector.app import Inspector
from toolcall_middleware.hosts.proxy.inspector.store import Store
from toolcall_middleware.observe.report import Recorder, Report
from toolcall_middleware.observe.traces import Trace, TraceFiles, read_trace

TOKEN = "abcdefghijklmnop"
PAGE = f"/inspect/{TOKEN}/"
CALL = write_calls("hermes", ("weather", {"city": "Paris"}))
HOST = [(b"host", b"127.0.0.1:8080")]


def inspector(store: Store | None = None, **options: Any) -> Inspector:
    return Inspector(PlainTextResponse("the proxy", 404), store or Store(), TOKEN, **options)


async def get(app: Any, path: str, **scope: Any) -> Client:
    return await Client(path=path, method="GET", **{"headers": HOST, **scope}).run_with_others(app)


def trace(size: int = 10, **summary: Any) -> Trace:
    return Trace({"id": "x", "model": "m", "time": 0.0, **summary}, [{"at": 0, "kind": "backend", "data": "x" * size}])


@pytest.mark.parametrize(
    "name", ["", "style.css", "app.js", "dom.js", "list.js", "text.js", "exchange.js", "timeline.js", "icon.svg"]
)
async def test_the_page_and_its_files_are_there(name: str) -> None:
    answer = await get(inspector(), PAGE + name)
    assert answer.status == 200
    assert b"://" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"")


async def test_the_page_may_ask_nothing_of_anybody_else() -> None:
    headers = (await get(inspector(), PAGE)).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"


STRANGER: dict[str, Any] = {"client": ("192.0.2.1", 5)}


def named(host: bytes) -> dict[str, Any]:
    return {"headers": [(b"host", host)]}


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        *((f"/inspect/{rest}", {}) for rest in ("", "wrong-token-here/", "abcdefghijklmno/", "x")),
        *((path, STRANGER) for path in (PAGE, "/inspect")),
        ("/inspect", named(b"evil.example")),
        *((PAGE, named(host)) for host in (b"evil.example", b"evil.example:8080", b"127.0.0.1.evil.example", b"")),
    ],
)
async def test_without_the_token_from_elsewhere_or_by_another_name_there_is_nothing(
    path: str, asked: dict[str, Any]
) -> None:
    assert (await get(inspector(), path, **asked)).body == b"the proxy"
    if path == "/inspect":
        assert (await get(inspector(local_only=False), path, **asked)).body == b"the proxy"


@pytest.mark.parametrize("host", [b"localhost:8080", b"[::1]:8080", b"[::1]", b"127.0.0.1"])
async def test_this_machine_gets_in_and_others_where_they_may(host: bytes) -> None:
    assert (await get(inspector(), PAGE, **named(host))).status == 200
    assert (await get(inspector(local_only=False), PAGE, **STRANGER)).status == 200


@pytest.mark.parametrize("path", ["/inspect", PAGE[:-1]])
async def test_a_stable_address_and_one_without_its_slash_lead_to_the_page(path: str) -> None:
    answer = await get(inspector(), path)
    assert (answer.status, answer.headers["location"]) == (307, PAGE)


@pytest.mark.parametrize("path", [PAGE, f"/{PAGE}api/exchanges", f"/v1{PAGE}", f"/%69nspect/{TOKEN}/"])
async def test_its_token_is_in_no_log(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of a request by another machine, by another name, or on another path, which goes on to the proxy."""
    log = AccessLog(style="text")

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        with log.line(scope, receive, send) as given:
            await PlainTextResponse("the proxy", 404)(*given)

    app = Inspector(proxy, Store(), TOKEN)
    with caplog.at_level(logging.DEBUG):
        await get(app, unquote(path), raw_path=path.encode(), client=("192.0.2.1", 5))
        await get(app, unquote(path), raw_path=path.encode(), headers=[(b"host", b"evil.example")])
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert all("inspect/TOKEN/" in line for line in lines)


@pytest.mark.parametrize("name", ["..%2fapp.py", "../app.py", "app.py", "%2e%2e/store.py", "page/", "x.html"])
async def test_no_other_file_is_served(name: str) -> None:
    assert (await get(inspector(), PAGE + name)).status == 404


async def observed(text: str, **settings: Any) -> Store:
    store = Store()
    app = ToolCallMiddleware(TextBackend([text]), **{"mode": "prompt", "format": "hermes", **settings})
    app._observers = [store]
    await Client(ask()).run(app)
    return store


async def test_an_exchange_is_listed_and_shown() -> None:
    app = inspector(await observed(f"Hello. {CALL}"))
    (one,) = (await get(app, f"{PAGE}api/exchanges")).json
    assert (one["number"], one["model"], one["outcomes"], one["running"]) == (1, "m", ["clean"], False)
    data = (await get(app, f"{PAGE}api/exchanges/1")).json
    assert data["explained"]["calls"][0]["name"] == "weather"
    assert {row["kind"] for row in data["rows"]} >= {"request", "ask", "backend", "client", "decision"}


async def test_calls_are_read_by_the_template_of_the_exchanges_upstream(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(templates.JSON)
    store = await observed(
        'Hello. <acme_call>{"tool": "weather", "input": {"city": "Paris"}}</acme_call>',
        format="template",
        template=str(tmp_path),
    )
    asked: list[str | None] = []

    def template_of(upstream: str | None) -> str:
        asked.append(upstream)
        return str(tmp_path)

    app = inspector(store, template_of=template_of)
    shown = (await get(app, f"{PAGE}api/exchanges/1")).json["explained"]
    assert [call["name"] for call in shown["calls"]] == ["weather"]
    assert (await get(app, f"{PAGE}api/exchanges/1/case")).json["expected_tool_calls"][0]["name"] == "weather"
    assert asked == [None, None]
    unknown = (await get(inspector(store), f"{PAGE}api/exchanges/1")).json["explained"]
    assert not unknown["calls"]


async def test_a_case_and_a_trace_can_be_saved() -> None:
    app = inspector(await observed(CALL))
    case = await get(app, f"{PAGE}api/exchanges/1/case")
    assert case.json["expected_tool_calls"][0]["name"] == "weather"
    assert "attachment" in case.headers["content-disposition"]
    assert (await get(app, f"{PAGE}api/exchanges/1/trace")).body.startswith(b'{"toolcall_trace":1')


async def test_what_is_gone_is_404() -> None:
    for path in ("api/exchanges/7", "api/exchanges/7/case", "api/exchanges/7/trace"):
        assert (await get(inspector(), PAGE + path)).status == 404


async def test_what_is_new_is_told_as_it_comes() -> None:
    store = Store()
    client = Client(path=f"{PAGE}api/events", method="GET", headers=HOST)
    told: list[Any] = []

    async def on_send(message: Any) -> None:
        events = message.get("body", b"").split(b"\n\n")
        told.extend(json.loads(event[6:]) for event in events if event.startswith(b"data: "))
        if len(told) == 1 and not store.entries:
            store.add(trace(model="first"))
        elif len(told) >= 2:
            client.leave()

    client.on_send = on_send
    store.add(trace(model="before"))
    store.entries.clear()
    await asyncio.wait_for(client.run_with_others(inspector(store)), 5)
    assert [[one["model"] for one in event["changed"]] for event in told] == [[], ["first"]]


@pytest.mark.parametrize(
    ("most", "size", "kept"), [({"max_exchanges": 3}, 10, [8, 9, 10]), ({"max_bytes": 5000}, 2000, [9, 10])]
)
def test_the_oldest_go_when_there_is_too_much(most: dict[str, int], size: int, kept: list[int]) -> None:
    store = Store(**most)
    for _ in range(10):
        store.add(trace(size))
    assert list(store.entries) == kept


def test_one_that_was_dropped_while_it_ran_takes_no_room() -> None:
    store = Store(max_exchanges=1)
    report = Report()
    store.begin(report, {})
    store.add(trace())
    store.end(report)
    assert list(store.entries) == [2]
    assert store.taken == sum(entry.size for entry in store.entries.values())


def begun(store: Store, report: Report) -> Recorder:
    store.begin(report, {})
    assert report.recorder is not None
    return report.recorder


def test_exchanges_count_while_they_run() -> None:
    """Those that have ended make room, the oldest first; then what runs is cut. All is given back at the end."""
    store = Store(max_bytes=200_000)
    store.add(trace(50_000))
    store.add(trace(50_000))
    reports = [Report() for _ in range(30)]
    recorders = [begun(store, report) for report in reports]
    grown = 0
    while len(store.entries) > 31:
        recorders[0].data("backend", b"x" * 4096)
        grown += 4096
    assert list(store.entries)[:1] == [2]
    assert grown <= 110_000
    for number in range(300):
        recorders[number % 30].data("backend", b"x" * 4096)
        assert store.taken <= 200_000
    held = sum(len(row.get("data", "")) for recorder in recorders for row in recorder.rows)
    assert 150_000 < held < 200_000
    assert "hold too much" in recorders[7].rows[-1]["why"]
    for report in reports:
        store.end(report)
    assert store.taken == sum(entry.size for entry in store.entries.values()) <= 200_000


def test_one_that_is_dropped_from_the_list_while_it_runs_still_counts() -> None:
    store = Store(max_exchanges=2)
    report = Report()
    recorder = begun(store, report)
    for _ in range(3):
        store.add(trace())
    before = store.taken
    recorder.data("backend", b"x" * 4096)
    assert store.taken - before > 4096
    store.end(report)
    assert store.taken == before


def test_what_a_row_takes_is_counted_about_right() -> None:
    store = Store()
    recorder = begun(store, Report())
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(2000):
        recorder.data("backend", b"abcd")
        recorder.data("client", "é😀".encode(), of=3)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.8 < store.taken / grown < 1.6


async def test_a_page_that_is_open_ends_with_the_process() -> None:
    store = Store()
    client = Client(path=f"{PAGE}api/events", method="GET", headers=HOST)
    running = asyncio.ensure_future(client.run_with_others(inspector(store)))
    await asyncio.sleep(0.05)
    store.close()
    await asyncio.wait_for(running, 2)
    assert client.complete


def exchange(messages: list[dict[str, Any]], answer: str = "") -> Trace:
    rows = [{"at": 0, "kind": "request", "data": json.dumps({"messages": messages})}]
    if answer:
        rows.append({"at": 1, "kind": "client", "data": answer})
    return Trace({"id": "x", "model": "m", "time": 0.0}, rows)


def called(name: str, arguments: str) -> str:
    call = {"index": 0, "id": "c", "function": {"name": name, "arguments": arguments}}
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'tool_calls': [call]}}]})}\n\n"


USER: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "text", "text": "<reminder>"}, {"type": "text", "text": "Fix  greet.py"}],
}


def reminded(text: str) -> dict[str, Any]:
    """A user's message in which Claude Code reminds the model at each `{}`."""
    return {"role": "user", "content": text.replace("{}", "<system-reminder>\nBe brief.\n</system-reminder>\n")}


RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "c", "content": "def greet"}
ASSISTANT: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}


@pytest.mark.parametrize(
    ("messages", "answer", "title"),
    [
        ([USER], called("read", '{"path": "greet.py"}'), "Fix greet.py"),
        ([USER, ASSISTANT, RESULT], called("read", '{"path": "greet.py"}'), "read greet.py"),
        ([USER, ASSISTANT, RESULT], called("now", "{}"), "now"),
        ([USER, ASSISTANT, RESULT], called("run", '"ls'), 'run "ls'),
        ([USER, ASSISTANT, RESULT], "", "Fix greet.py"),
        ([USER, ASSISTANT, RESULT], called("read", '{"path": "/home/ada/project/greet.py"}'), "read greet.py"),
        ([USER, ASSISTANT, RESULT], called("run", '{"command": "/bin/ls -l /tmp"}'), "run /bin/ls -l /tmp"),
        ([USER, ASSISTANT, RESULT], called("read", '{"path": "/"}'), "read /"),
        ([reminded("{}Fix greet.py")], "", "Fix greet.py"),
        ([reminded("{}\nFix {}greet.py{}")], "", "Fix greet.py"),
        ([reminded("{}")], "", "<system-reminder> Be brief. </system-reminder>"),
        ([reminded("Fix <system-reminder> greet.py")], "", "Fix <system-reminder> greet.py"),
        ([{"role": "user", "content": "x" * 500}], "", "x" * 119 + "…"),
        ([{"role": "system", "content": "S"}], "", ""),
    ],
)
def test_a_row_is_titled_by_the_users_words_or_the_call_made(
    messages: list[dict[str, Any]], answer: str, title: str
) -> None:
    summary = Store().add(exchange(messages, answer)).summary
    assert (summary["title"], summary["messages"]) == (title, len(messages))


@pytest.mark.parametrize("data", ["", "{", "[]", '{"messages": 3}', '{"messages": [1]}', "[" * 100_000])
def test_a_request_that_cannot_be_read_has_no_title(data: str) -> None:
    entry = Store().add(Trace({"id": "x", "time": 0.0}, [{"at": 0, "kind": "request", "data": data}]))
    assert (entry.summary["title"], entry.summary["conversation"]) == ("", "")


def test_the_requests_of_a_conversation_belong_together() -> None:
    store = Store()
    first, second, other = (
        store.add(exchange(messages)).summary["conversation"]
        for messages in ([USER], [USER, ASSISTANT, RESULT], [{"role": "user", "content": "Else"}])
    )
    assert first == second != other


async def test_the_whole_content_is_searched() -> None:
    store = await observed(f"Hello from the model. {CALL}")
    app = inspector(store)
    for text, numbers in (("FROM model", [1]), ("paris", [1]), ("nothing like it", []), ("hello paris nowhere", [])):
        assert (await get(app, f"{PAGE}api/search", query_string=f"text={text}".encode())).json == numbers


HALF = "Hi \ud83d there"


async def halves(scope: Scope, receive: Receive, send: Send) -> None:
    """A backend whose model writes half of a surrogate pair, in its text and in an argument of its own call."""
    is_stream = (await Request(scope, receive).json()).get("stream", False)
    function = {"name": "weather", "arguments": json.dumps({"city": HALF}, ensure_ascii=False)}
    call: dict[str, Any] = {"id": "c", "type": "function", "function": function}
    message = {"role": "assistant", "content": HALF, "tool_calls": [call]}
    head = {"id": "c", "created": 1, "model": "m"}
    if is_stream:
        call["index"] = 0
        chunks = [{"index": 0, "delta": message}, {"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
        made = [{**head, "object": "chat.completion.chunk", "choices": [chunk]} for chunk in chunks]
        data = "".join(f"data: {json.dumps(one)}\n\n" for one in made) + "data: [DONE]\n\n"
    else:
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        data = json.dumps({**head, "object": "chat.completion", "choices": [choice]})
    kind = b"text/event-stream" if is_stream else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": data.encode()})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_half_of_a_surrogate_pair_is_shown_searched_and_traced(api: str, tmp_path: Path, *, stream: bool) -> None:
    store = Store()
    files = TraceFiles(tmp_path, sample=1, max_bytes=1 << 20)
    app = ToolCallMiddleware(halves, mode="native", format="hermes", faces=tuple(PATHS))
    app._observers = [store, files]
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "weather", "parameters": parameters}}
    chat = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": HALF}], "tools": [tool]}
    client = Client(json.dumps(request_body(api, chat)).encode(), path=PATHS[api])
    await client.run(app)
    assert client.status == 200
    page = inspector(store)
    for what in ("", "/1", "/1/case", "/1/trace"):
        assert (await get(page, f"{PAGE}api/exchanges{what}")).status == 200
    assert (await get(page, f"{PAGE}api/search", query_string=b"text=there")).json == [1]
    files.flush()
    (file,) = await asyncio.to_thread(lambda: list(tmp_path.glob("*.jsonl")))
    assert read_trace(await asyncio.to_thread(file.read_bytes)).summary["outcomes"]


@pytest.mark.parametrize("what", ["", "/case", "/trace", "/report", "/read"])
async def test_an_exchange_that_is_gone_is_not_found(what: str) -> None:
    assert (await get(inspector(), f"{PAGE}api/exchanges/7{what}")).status == 404


async def test_a_format_that_is_unknown_is_named() -> None:
    store = Store()
    store.add(trace())
    answer = await get(inspector(store), f"{PAGE}api/exchanges/1/read", query_string=b"format=nosuch")
    assert answer.status == 400
    assert b"nosuch" in answer.body


async def test_only_a_proxys_page_offers_to_send_again() -> None:
    for sends in (True, False):
        about = json.loads((await get(inspector(sends=sends), f"{PAGE}api/about")).body)
        assert about["sends"] is sends
        assert "hermes" in about["formats"]
