"""httpx and its successor httpx2: either is enough, and where both are there the successor is used throughout."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import toolcall_middleware
from tests.helpers.fakes import Answer, TextBackend, serve
from toolcall_middleware.cli._probe import look
from toolcall_middleware.hosts.http.client_library import httpx

ROOT = Path(toolcall_middleware.__file__).parent

PROGRAM = """
import sys
for name in {missing!r}:
    sys.modules[name] = None  # as if it were not installed
import asyncio, json, os
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream import client
client.HAS_PARSER = {with_httptools!r}
from toolcall_middleware import create_proxy
from toolcall_middleware.cli._probe import look

URL, GONE = {url!r}, "http://127.0.0.1:9"

async def ask(upstream, stream):
    os.environ["TOOLCALL_UPSTREAM_URL"] = upstream + "/v1"
    app = create_proxy()
    sent = []
    body = json.dumps({{"model": "m", "messages": [{{"role": "user", "content": "hi"}}], "stream": stream}}).encode()
    scope = {{"type": "http", "asgi": {{"version": "3.0"}}, "http_version": "1.1", "method": "POST", "scheme": "http",
             "path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions", "query_string": b"",
             "root_path": "", "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
             "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080)}}
    messages = [{{"type": "http.request", "body": body, "more_body": False}}]
    async def receive():
        return messages.pop(0) if messages else await asyncio.sleep(60)
    async def send(message):
        sent.append(message)
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)

status, body = asyncio.run(ask(URL, False))
assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "Hello there."), (status, body)
status, body = asyncio.run(ask(URL, True))
assert status == 200 and body.endswith(b"data: [DONE]\\n\\n"), body
status, body = asyncio.run(ask(GONE, False))
assert (status, json.loads(body)["error"]["code"]) == (502, "upstream_error"), (status, body)
assert look(URL + "/v1", None).models, "the probe asks by the same library"
assert look(GONE + "/v1", None).fault == "Connection refused"
print(httpx.__name__, sorted({{"httpx", "httpx2"}} & {{name for name, module in sys.modules.items() if module}}))
"""


def run(missing: list[str], *, with_httptools: bool) -> str:
    with serve(TextBackend([Answer("Hello there.")] * 9)) as url:
        program = PROGRAM.format(missing=missing, url=url, with_httptools=with_httptools)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("with_httptools", [True, False], ids=["httptools", "plain"])
def test_httpx_alone_is_enough(with_httptools: bool) -> None:
    assert run(["httpx2", "httpcore2"], with_httptools=with_httptools) == "httpx ['httpx']"


@pytest.mark.parametrize("with_httptools", [True, False], ids=["httptools", "plain"])
def test_its_successor_alone_is_enough(with_httptools: bool) -> None:
    pytest.importorskip("httpx2")
    assert run(["httpx", "httpcore"], with_httptools=with_httptools) == "httpx2 ['httpx2']"


def test_where_both_are_there_one_is_used_throughout() -> None:
    pytest.importorskip("httpx2")
    assert run([], with_httptools=True) == "httpx2 ['httpx2']"


def test_the_oldest_that_is_allowed_asks_about_an_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of httpx 0.25 take no `proxy`."""
    make = httpx.Client.__init__

    def make_0_25(client: httpx.Client, **options: Any) -> None:
        assert "proxy" not in options
        make(client, **options)

    monkeypatch.setattr(httpx.Client, "__init__", make_0_25)
    with serve(TextBackend([])) as url:
        assert look(f"{url}/v1", None).models


def test_nobody_else_chooses_the_library() -> None:
    """Two libraries in one process would not know each other's exceptions."""
    for path in ROOT.rglob("*.py"):
        if path.name != "client_library.py":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                assert not {name.partition(".")[0] for name in names} & {"httpx", "httpx2"}, path
