"""The log tells why an upstream said no, and every line tells which request it belongs to."""

from __future__ import annotations

import gzip
import json
import logging
from typing import Any

import pytest

from tests.helpers.asgi_client import Backend
from tests.helpers.fakes import TextBackend, write_calls
from toolcall_middleware.observe.json_log import JsonFormatter

from .proxy_servers import serving
from .routing import TOOL, Proxies, ask, chat, error_of, table

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
