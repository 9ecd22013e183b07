"""Request ids in and out, the access log's lines, and that no key and no prompt is ever told."""

from __future__ import annotations

import gzip
import json
import logging
import re
import subprocess
import sys
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.helpers.asgi_client import Backend, close
from tests.helpers.fakes import Refusal, TextBackend, write_calls
from toolcall_middleware.observe.json_log import JsonFormatter

from .proxy_servers import ask as drive
from .proxy_servers import proxy_around, raw_upstream, read_request, says, scope_of, serving
from .routing import TOOL, Proxies, ask, chat, error_of, table


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.name == "toolcall_middleware.access"]


def values_of(headers: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def inner(*headers: tuple[bytes, bytes], pieces: tuple[bytes, ...] = (b"ok",)) -> Backend:
    """Answers 200."""
    return Backend(*pieces, b"", headers=list(headers))


def ids(app: Backend) -> list[bytes]:
    return [value for scope in app.scopes for value in values_of(scope["headers"], b"x-request-id")]


# --- ids


@pytest.mark.parametrize("shown", [b"abc-123", b"req_0F:1/2+3=", b"x" * 128])
async def test_a_sane_id_goes_on_and_comes_back(shown: bytes) -> None:
    app = inner()
    answer = await drive(proxy_around(app), scope_of(headers=[(b"X-Request-Id", shown)]))
    assert ids(app) == values_of(answer.headers, b"x-request-id") == [shown]


@pytest.mark.parametrize("shown", [[], [b""], [b"x" * 129], [b"a b"], [b"a\nb"], [b'"'], [b"\xff"], [b"a", b"b"]])
async def test_any_other_is_replaced_by_one_of_ours(shown: list[bytes]) -> None:
    app = inner()
    headers = [(b"x-request-id", value) for value in shown]
    answer = await drive(proxy_around(app), scope_of(headers=headers))
    (made,) = ids(app)
    assert re.fullmatch(rb"req_[0-9a-f]{32}", made)
    assert values_of(answer.headers, b"x-request-id") == [made]


async def test_an_upstreams_own_id_is_kept_under_another_name() -> None:
    app = proxy_around(inner((b"x-request-id", b"theirs")))
    answer = await drive(app, scope_of(headers=[(b"x-request-id", b"mine")]))
    assert values_of(answer.headers, b"x-request-id") == [b"mine"]
    assert values_of(answer.headers, b"x-upstream-request-id") == [b"theirs"]


async def test_the_id_reaches_the_upstream_and_stands_in_errors(proxies: Proxies) -> None:
    backend = TextBackend(lambda _body: "x")
    async with serving(backend) as address, proxies.running(table(f"{address}/v1", models=["m"])) as client:
        client.headers["x-request-id"] = "trace-7"
        good, bad = await ask(client), await ask(client, "unknown")
    assert backend.last.headers["x-request-id"] == "trace-7"
    assert (good.headers["x-request-id"], bad.headers["x-request-id"]) == ("trace-7", "trace-7")


# --- lines


@pytest.mark.parametrize("text", ["", "I add. "])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_line_has_the_code_that_an_answer_ended_in(
    text: str, stream: bool, proxies: Proxies, log: pytest.LogCaptureFixture
) -> None:
    backend = TextBackend(lambda _body: f'{text}<tool_call>{{"name": "add", "arguments": {{a: 1}}}}</tool_call>')
    async with (
        serving(backend) as address,
        proxies.running(table(f"{address}/v1"), access_log="json", malformed_arguments="error") as client,
    ):
        answer = await ask(client, tools=[TOOL], stream=stream)
    assert "malformed_tool_arguments" in answer.text
    (row,) = (json.loads(line) for line in lines(log))
    assert (row["status"], row["error"]) == (answer.status_code, "malformed_tool_arguments")


REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/v1/models", {"headers": {"authorization": "Bearer wrong"}}, 401, "invalid_api_key"),
    ("POST", "/v1/chat/completions", {"json": chat("nobody's")}, 404, "model_not_found"),
    ("POST", "/v1/messages", {"json": {**chat("nobody's"), "max_tokens": 9}}, 404, "model_not_found"),
    ("POST", "/v1/chat/completions", {"content": b"x" * 5000}, 413, "request_too_large"),
    ("POST", "/v1/chat/completions", {"content": b'{"model":'}, 400, "invalid_json"),
    ("POST", "/v1/nothing", {}, 404, "unknown_url"),
    ("DELETE", "/v1/models/a", {}, 405, "method_not_allowed"),
    ("GET", "/v1/models", {"headers": {"host": "evil.example"}}, 403, "host_not_allowed"),
]


@pytest.mark.parametrize(("method", "path", "given", "status", "code"), REFUSED)
async def test_what_the_proxy_refuses_by_itself_has_its_code_in_both_logs(
    method: str, path: str, given: dict[str, Any], status: int, code: str, proxies: Proxies, log: Any
) -> None:
    tables = [table("http://127.0.0.1:9/v1", name=name, models=[name]) for name in ("a", "b")]
    settings = {"access_log": "json", "api_keys": "k", "max_request_bytes": "4KiB", "allowed_hosts": "127.0.0.1"}
    async with proxies.running(*tables, **settings) as client:
        client.headers["authorization"] = "Bearer k"
        answer = await client.request(method, path, **given)
    told = answer.headers.get("x-toolcall-error") or error_of(answer)["code"]
    assert (answer.status_code, told) == (status, code)
    (row,) = (json.loads(line) for line in lines(log))
    assert (row["status"], row["error"]) == (status, code)
    (refused,) = (record for record in log.records if record.getMessage().startswith("refused: "))
    assert refused.levelname == "INFO"
    assert refused.getMessage().startswith(f"refused: status={status} code={code} ")
    assert (row["level"], row["event"]) == ("info", "request")


async def test_a_line_says_what_happened_and_no_more(proxies: Proxies, log: pytest.LogCaptureFixture) -> None:
    backend = TextBackend(lambda _body: write_calls("json", ("add", {"a": 1})), strict=True)
    keys = "blue=sk-client-key,sk-other"
    async with (
        serving(backend) as address,
        proxies.running(
            table(f"{address}/v1", name="one", rename={"fast": "fake-model"}, format="json"),
            access_log="json",
            api_keys=keys,
        ) as client,
    ):
        client.headers["authorization"] = "Bearer sk-client-key"
        answer = await ask(client, "fast", tools=[TOOL])
        await client.get("/v1/files?key=sk-in-query", headers={"authorization": "Bearer wrong"})
    good, refused = (json.loads(line) for line in lines(log))
    assert (good["tenant"], good["model"], good["upstream"], good["status"]) == ("blue", "fast", "one", 200)
    assert (good["method"], good["path"], good["client"]) == ("POST", "/v1/chat/completions", "127.0.0.1")
    assert (good["calls"], good["bytes"], good["end"]) == (1, len(answer.content), "complete")
    assert good["id"] == answer.headers["x-request-id"]
    assert 0 < good["first_byte_ms"] <= good["duration_ms"] < 5000
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", good["time"])
    assert (refused["status"], refused["tenant"], refused["path"]) == (401, None, "/v1/files")
    assert not any(word in line for line in lines(log) for word in ("sk-", "wrong", "1+1", "Bearer"))


@pytest.mark.parametrize("style", ["text", "json"])
async def test_nobody_writes_a_second_line(style: str, log: pytest.LogCaptureFixture) -> None:
    body = json.dumps(chat('m"\n2026-01-01 status=200 \x1b[31m\u2028é')).encode()
    scope = scope_of("/v1/a%0Ab/\n\x1bc d", method="POST")
    await drive(proxy_around(inner(), access_log=style, peek=True), scope, body)
    (line,) = lines(log)
    assert line.isascii()
    assert line.isprintable()
    if style == "text":
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 INFO:     request: id=req_", line)
        assert r' model="m\"\n2026-01-01 status=200 \u001b[31m\u2028\u00e9"' in line
        assert line.count(" status=") == 2  # the second one stands in the quotes of the model


async def test_a_long_name_does_not_fill_the_log(log: pytest.LogCaptureFixture) -> None:
    app = proxy_around(inner(), access_log="text", peek=True)
    await drive(app, scope_of("/" + "p" * 9999, method="POST"), b'{"model":"x"}')
    assert len(lines(log)[0]) < 600


async def test_how_it_ended_is_told(log: pytest.LogCaptureFixture) -> None:
    gone = Backend(b"x", more=True)
    broken = Backend(b"x", more=True, error=LookupError("broken"))
    await drive(proxy_around(inner(), access_log="text"), scope_of())
    await drive(proxy_around(gone, access_log="text"), scope_of())
    with pytest.raises(LookupError):
        await drive(proxy_around(broken, access_log="text"), scope_of())
    assert [line.rpartition("end=")[2] for line in lines(log)] == ["complete", "gone", "error"]


async def test_off_is_silent_and_other_scopes_pass(log: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    await close(proxy_around(app, access_log="text"))
    await drive(proxy_around(inner(), access_log="off"), scope_of())
    assert seen == ["lifespan"]
    assert lines(log) == []


def test_lines_come_out_on_standard_output_by_themselves() -> None:
    program = (
        "import logging, toolcall_middleware.hosts.http.request_record as a\n"
        "a.write_to_stdout(); a.write_to_stdout()\n"
        "a.logger.info('one line')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert (done.stdout, done.stderr) == ("one line\n", "")


# --- models and tokens

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "prompt_tokens_details": {"cached_tokens": 2}}
LIAR = json.dumps({"choices": [{"message": {"content": '"usage": {"prompt_tokens": 666, "completion_tokens": 666}'}}]})


@pytest.mark.parametrize("cut", [1, 40, 10_000])
@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (json.dumps({"choices": [], "usage": USAGE}), (7, 3)),
        (json.dumps({"choices": [], "usage": USAGE}, separators=(",", ":")), (7, 3)),
        ('data: {"choices":[],"usage":{"completion_tokens":3,"prompt_tokens":7}}\n\ndata: [DONE]\n\n', (7, 3)),
        ('data: {"usage":{"prompt_tokens":1}}\n\n' + 'data: {"usage": null}\n\n' * 9, (1, None)),
        ('{"choices": []}', (None, None)),
        (LIAR, (None, None)),
        (LIAR[:-1] + ', "usage": {"prompt_tokens": 5, "completion_tokens": 0}}', (5, 0)),
        ('{"usage": {"prompt_tokens": -1, "completion_tokens": "x"}}', (None, None)),
        ("", (None, None)),
    ],
)
async def test_the_tokens_of_an_answer_are_told(
    answer: str, seen: tuple[int | None, int | None], cut: int, log: pytest.LogCaptureFixture
) -> None:
    body = answer.encode()
    # Cut near its end only: usage is looked for in the last pieces.
    pieces = (body[:-cut], body[-cut:]) if cut < len(body) else (body,)
    await drive(proxy_around(inner(pieces=pieces), access_log="json"), scope_of())
    row = json.loads(lines(log)[0])
    assert (row["prompt_tokens"], row["completion_tokens"]) == seen


async def test_the_tokens_stand_in_the_line_of_a_proxied_request(
    proxies: Proxies, log: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(TextBackend(lambda _body: write_calls("json", ("add", {"a": 1})))) as address,
        proxies.running(table(f"{address}/v1", name="one"), access_log="text") as client,
    ):
        answer = await ask(client, tools=[TOOL])
        usage = answer.json()["usage"]
    (line,) = lines(log)
    assert f" prompt_tokens={usage['prompt_tokens']} completion_tokens={usage['completion_tokens']} " in line


@pytest.mark.parametrize("pieces", [1, 3, 200])
async def test_the_model_of_a_large_body_is_told(pieces: int, log: pytest.LogCaptureFixture) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 2_000_000}], "model": "late"}).encode()
    size = len(body) // pieces + 1
    parts = [body[at : at + size] for at in range(0, len(body), size)]

    app = inner()
    await drive(proxy_around(app, access_log="json", peek=True), scope_of(method="POST"), *parts)
    assert app.raw == [body]
    assert json.loads(lines(log)[0])["model"] == "late"


NAMELESS = [b'{"model": "a"', b"[1]", b'{"model": 3}', b" ", b"\xff", b'{"model": "%s"}' % (b"x" * (9 << 20))]


@pytest.mark.parametrize("body", NAMELESS, ids=range(6))
async def test_what_names_no_model_has_none(body: bytes, log: pytest.LogCaptureFixture) -> None:
    await drive(proxy_around(inner(), access_log="json", peek=True), scope_of(method="POST"), body)
    assert json.loads(lines(log)[0])["model"] is None


# --- secrets

KEY, LOGIN, HEADER = "sk-upstream-secret", "hunter2-login", "sk-in-header"


@pytest.mark.parametrize("tools", [None, [TOOL]])
@pytest.mark.parametrize("status", [400, 401, 500, 503])
async def test_an_upstream_that_quotes_our_key_does_not_tell_the_client(
    status: int, tools: list[Any] | None, proxies: Proxies, log: pytest.LogCaptureFixture
) -> None:
    def model(body: dict[str, Any]) -> Refusal:
        seen = backend.last.headers
        return Refusal(status, {"error": {"message": f"Incorrect API key {seen['authorization']}", "code": "bad"}})

    backend = TextBackend(model)
    more: dict[str, Any] = {"tools": tools} if tools else {}
    async with (
        serving(backend) as address,
        proxies.running(table(f"{address}/v1", key=KEY), access_log="json") as client,
    ):
        answer = await ask(client, **more)
    assert backend.last.headers["authorization"] == f"Bearer {KEY}"
    assert answer.status_code == status
    assert error_of(answer)["message"] == "Incorrect API key Bearer ***"
    assert KEY not in answer.text + log.text


async def test_a_key_in_an_answers_headers_is_blacked_out(proxies: Proxies) -> None:
    async def echo(reader: Any, writer: Any) -> None:
        head = await read_request(reader)
        (shown,) = re.findall(rb"authorization: [^\r]+", head)
        writer.write(b"HTTP/1.1 200 OK\r\nx-seen: " + shown + b"\r\ncontent-length: 2\r\n\r\n{}")

    async with raw_upstream(echo) as address, proxies.running(table(address, key=KEY)) as client:
        answer = await client.get("/v1/embeddings")
    assert (answer.headers["x-seen"], answer.text) == ("authorization: Bearer ***", "{}")


async def test_no_failure_tells_a_key(proxies: Proxies, log: pytest.LogCaptureFixture) -> None:
    """Down, silent, talking nonsense, breaking off: neither the answers nor the logs of any level hold a secret."""

    async def echo(reader: Any, writer: Any) -> None:
        head = await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nx " + head + b"\r\n\r\n")

    cut = says(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz")
    silent = says(stalls=True)
    texts = []
    async with raw_upstream(echo) as one, raw_upstream(cut) as two, raw_upstream(silent) as three:
        for address in (one, two, three, "http://127.0.0.1:9"):
            secret = {"key": KEY, "headers": {"x-team": HEADER}}
            login = address.replace("://", f"://me:{LOGIN}@")
            for values in (secret, {"headers": {"x-team": HEADER}}):
                made = table(address if "key" in values else login, timeout=0.2, upstream_retries=1, **values)
                async with proxies.running(made, access_log="text") as client:
                    for more in ({}, {"tools": [TOOL]}, {"stream": True}):
                        answer = await ask(client, **more)
                        texts.append(answer.text + repr(answer.headers))
                        assert "error" in answer.text
    told = "".join(texts) + log.text
    assert "127.0.0.1:9" in told
    assert not [secret for secret in (KEY, LOGIN, HEADER) if secret in told]


async def test_an_answer_of_the_next_upstream_is_no_error(proxies: Proxies, log: pytest.LogCaptureFixture) -> None:
    dead = table("http://127.0.0.1:9/v1", name="dead", models=["m"])
    async with (
        serving(TextBackend(lambda _body: "one")) as live,
        proxies.running(dead, table(f"{live}/v1", name="live", models=["m"]), metrics="on") as client,
    ):
        assert (await ask(client, tools=[TOOL])).status_code == 200
        metrics = (await client.get("/metrics")).text
    (line,) = [line for line in lines(log) if "chat/completions" in line]
    assert "upstream=live" in line
    assert "error=" not in line
    assert 'toolcall_upstream_up{upstream="live"} 1.0' in metrics
    assert 'toolcall_upstream_up{upstream="dead"} 0.0' in metrics


# --- lines of the other log

PAGE = b"""<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>body {color: red}</style></head>
<body><h1>502 Bad Gateway</h1><script>alert("x")</script><p>nginx &amp; friends</p></body></html>"""


def refuses(status: int, body: bytes, *headers: tuple[bytes, bytes]) -> Backend:
    """An upstream that answers everything with one error."""
    return Backend(body, status=status, headers=list(headers))


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[tuple[str, dict[str, Any]]]:
    """The lines of an event in text, and as JSON."""
    formatter = JsonFormatter()
    return [
        (record.getMessage(), json.loads(formatter.format(record)))
        for record in caplog.records
        if record.getMessage().startswith(event)
    ]


async def refused(
    app: Backend, proxies: Proxies, caplog: pytest.LogCaptureFixture, url: str = "/v1", **settings: Any
) -> tuple[str, dict[str, Any], Any]:
    caplog.set_level(logging.DEBUG)
    async with serving(app) as address, proxies.running(table(f"{address}{url}", name="local"), **settings) as client:
        answer = await client.post("/v1/chat/completions", json=chat("m"), headers={"x-request-id": "mine"})
    ((line, fields),) = said(caplog, "upstream refused")
    return line, fields, answer


@pytest.mark.parametrize(
    ("app", "says"),
    [
        (refuses(400, b'{"error": {"message": "max_tokens is\\n too large", "type": "x"}}'), "max_tokens is too large"),
        (refuses(404, b'{"detail": "Not Found"}'), "Not Found"),
        (refuses(502, PAGE, (b"content-type", b"text/html")), "502 Bad Gateway; nginx & friends"),
        (refuses(503, gzip.compress(b'{"error": "busy"}'), (b"content-encoding", b"gzip")), "busy"),
        (refuses(500, b"no \x1b[2J" + b"x" * 500), "no \\x1b[2J" + "x" * 188),
        (refuses(400, b'{"error": "wrong key sk-hunter22222"}'), "wrong key ***"),
        (refuses(429, b""), "The backend answered with status 429 and no text."),
    ],
)
async def test_why_an_upstream_refused_is_one_warning(
    app: Backend, says: str, proxies: Proxies, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    extra = {"key": "sk-hunter22222", "upstream_retries": 0}
    async with serving(app) as address, proxies.running(table(f"{address}/v1", name="local", **extra)) as client:
        await client.post("/v1/chat/completions", json=chat("m"), headers={"x-request-id": "mine"})
    ((line, fields),) = said(caplog, "upstream refused")
    assert line.startswith(f"upstream refused: status={app.status} says=")
    assert line.endswith(" id=mine upstream=local")
    assert (fields["level"], fields["status"]) == ("warning", app.status)
    assert (fields["id"], fields["upstream"]) == ("mine", "local")
    assert fields["says"].startswith(says)
    assert len(fields["says"]) <= 220
    assert "sk-hunter" not in caplog.text


async def test_of_a_stream_of_errors_the_log_has_what_the_client_gets(
    proxies: Proxies, caplog: pytest.LogCaptureFixture
) -> None:
    """The half event where it breaks off may end in half a key, which no mask knows."""
    caplog.set_level(logging.DEBUG)
    half = b'data: {"note": "slow"}\n\ndata: {"error": "wrong key sk-hunter22'
    stream = b"HTTP/1.1 500 X\r\ncontent-type: text/event-stream\r\n\r\n" + half
    async with (
        raw_upstream(says(stream)) as address,
        proxies.running(table(f"{address}/v1", name="local", key="sk-hunter22222", upstream_retries=0)) as client,
    ):
        answer = await client.post("/v1/embeddings", json={"model": "m", "input": "x"})
    assert b"broke off" in answer.content
    ((_, fields),) = said(caplog, "upstream refused")
    assert fields["says"].startswith('data: {"note": "slow"} data: {"error":{"message":"The upstream http://')
    assert "sk-hunter" not in caplog.text
    assert b"sk-hunter" not in answer.content


@pytest.mark.parametrize("header", ["authorization", "x-api-key", "x-goog-api-key"])
async def test_the_key_of_a_client_is_not_in_the_log(
    header: str, proxies: Proxies, caplog: pytest.LogCaptureFixture
) -> None:
    """The client still gets the upstream's words as they are: the key is its own. PHP escapes the slash."""
    value = "Bearer sk-mine/3333" if header == "authorization" else "sk-mine/3333"
    async with (
        serving(refuses(401, b'{"error": "wrong key sk-mine\\/3333"}')) as address,
        proxies.running(table(f"{address}/v1", name="local", upstream_retries=0)) as client,
    ):
        answer = await client.post("/v1/chat/completions", json=chat("m"), headers={header: value})
    ((_, fields),) = said(caplog, "upstream refused")
    assert fields["says"] == "wrong key ***"
    assert error_of(answer)["message"] == "wrong key sk-mine/3333"


async def test_a_setting_hides_the_words(proxies: Proxies, caplog: pytest.LogCaptureFixture) -> None:
    app = refuses(400, b'{"error": "Alice is 40"}')
    line, fields, _ = await refused(app, proxies, caplog, log_upstream_errors="false")
    assert fields["says"] == ""
    assert "Alice" not in line


async def test_an_address_without_its_version_is_named_as_the_cure(
    proxies: Proxies, caplog: pytest.LogCaptureFixture
) -> None:
    line, _, answer = await refused(refuses(404, b'{"detail": "Not Found"}'), proxies, caplog, url="")
    assert "Is /v1 missing in the upstream's address, http://127.0.0.1:" in line
    assert "Is /v1 missing in the upstream's address" in error_of(answer)["message"]
    caplog.clear()
    line, _, answer = await refused(refuses(400, b'{"detail": "Not Found"}'), proxies, caplog, url="")
    assert "Is /v1 missing" not in line + answer.text


async def test_an_html_page_reaches_the_client_as_its_words(proxies: Proxies, caplog: pytest.LogCaptureFixture) -> None:
    _, _, answer = await refused(refuses(502, PAGE, (b"content-type", b"text/html")), proxies, caplog)
    assert error_of(answer)["message"] == "502 Bad Gateway; nginx & friends"


async def test_calls_refusals_and_decisions_belong_to_a_request(
    proxies: Proxies, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    backend = TextBackend(lambda _body: write_calls("hermes", ("add", {"a": 1})), strict=True)
    async with (
        serving(backend) as address,
        proxies.running(table(f"{address}/v1", name="one", format="hermes"), api_keys="blue=sk-client-key") as client,
    ):
        client.headers["authorization"] = "Bearer sk-client-key"
        answer = await ask(client, "fake-model", tools=[TOOL])
        await ask(client, "fake-model", tools=[TOOL], tool_choice={"type": "function", "function": {"name": "no"}})
    own = answer.headers["x-request-id"]
    for event in ("call: ", "decision: "):
        line, fields = said(caplog, event)[0]
        assert line.endswith(f" id={own} tenant=blue upstream=one")
        assert (fields["id"], fields["tenant"], fields["upstream"]) == (own, "blue", "one")
    ((line, fields),) = said(caplog, "refused: ")
    assert " id=req_" in line
    assert (fields["tenant"], fields["upstream"]) == ("blue", "one")
    ((_, call),) = said(caplog, "call: ")
    assert (call["mode"], call["format"], call["tool"]) == ("prompt", "hermes", "add")
    assert "how" not in call


async def test_a_client_cannot_forge_a_line_by_its_id(proxies: Proxies, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(refuses(400, b"no")) as address, proxies.running(table(f"{address}/v1", name="one")) as client:
        await client.post("/v1/chat/completions", json=chat("m"), headers={"x-request-id": "a b; tenant=root"})
    ((line, _),) = said(caplog, "upstream refused")
    assert "root" not in line
