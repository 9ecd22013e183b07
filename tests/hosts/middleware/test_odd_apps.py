"""Apps and clients that are odd but within their rights: views of bytes, iterators of headers, other deflates."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.helpers.asgi_client import BLOCK, JSON_TYPE, Client, ask, middleware, read_body
from tests.helpers.fakes import TextBackend
from toolcall_middleware.errors import SettingsError, ToolCallError
from toolcall_middleware.hosts.http.bodies import Inflate, in_the_clear
from toolcall_middleware.hosts.middleware.tenants import Tenancy, require_limits
from toolcall_middleware.settings import Settings
from toolcall_middleware.settings.settings import hide_login


def odd(app: TextBackend) -> Any:
    """The same app, whose bodies are views and whose headers are iterators."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        async def oddly(message: Any) -> None:
            if "headers" in message:
                message = {**message, "headers": iter(list(message["headers"]))}
            if "body" in message:
                message = {**message, "body": memoryview(message["body"])}
            await send(message)

        await app(scope, receive, oddly)

    return run


@pytest.mark.parametrize("stream", [True, False])
async def test_views_and_iterators_are_as_good_as_bytes_and_lists(*, stream: bool) -> None:
    plain = await Client(ask(stream=stream)).run(middleware(TextBackend([BLOCK])))
    made = await Client(ask(stream=stream)).run(middleware(odd(TextBackend([BLOCK]))))
    assert made.status == 200
    assert made.headers["content-type"] == plain.headers["content-type"]
    assert b"tool_calls" in made.body


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/models", "/health"])
@pytest.mark.parametrize(
    "options", [{}, {"mode": "off"}, {"max_tools": 9}, {"cors_origins": "https://a.example"}], ids=str
)
async def test_a_requests_headers_may_be_an_iterator(path: str, options: dict[str, Any]) -> None:
    """The app gets all of them, however often they are read before it is asked."""
    seen: list[dict[bytes, bytes]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(dict(scope["headers"]))
        await TextBackend(["hello"])(scope, receive, send)

    client = Client(ask(tools=()), path=path)
    headers = [*client.scope["headers"], (b"origin", b"https://a.example"), (b"x-own", b"1")]
    client.scope["headers"] = (pair for pair in headers)
    await client.run(middleware(app, **options))
    assert [headers[b"x-own"] for headers in seen] == [b"1"]


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


CODED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "one member": ("gzip", gzip.compress),
    "two members": ("gzip", lambda data: gzip.compress(data[:20]) + gzip.compress(data[20:])),
    "zlib": ("deflate", zlib.compress),
    "raw": ("deflate", raw_deflate),
}


@pytest.mark.parametrize("kind", CODED)
def test_codings_are_read_as_they_are_sent(kind: str) -> None:
    coding, pack = CODED[kind]
    data = b'{"a": "' + b"x" * 1000 + b'"}'
    packed = pack(data)
    for step in (1, 7, len(packed)):
        inflate = Inflate(coding, 2000)
        assert b"".join(inflate.feed(packed[at : at + step]) for at in range(0, len(packed), step)) == data
    scope = {"headers": [(b"content-encoding", coding.encode())]}
    assert in_the_clear(packed, scope, 2000)[0] == data
    with pytest.raises(ToolCallError):
        in_the_clear(packed, scope, 500)
    with pytest.raises(ToolCallError):
        Inflate(coding, 500).feed(packed)


def seconds(work: Callable[[], object]) -> float:
    best = 1e9
    for _ in range(3):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


@pytest.mark.parametrize("side", ["request", "answer"])
def test_gzip_members_by_the_thousand_cost_in_proportion(side: str) -> None:
    """What comes behind a member is copied by zlib: all of the rest for each of them would take hours at 30 MiB."""
    scope = {"headers": [(b"content-encoding", b"gzip")]}
    empty = gzip.compress(b"", mtime=0)

    def read(members: int) -> object:
        packed = empty * members
        if side == "request":
            return in_the_clear(packed, scope, 1 << 20)
        return Inflate("gzip", 1 << 20).feed(packed)

    assert seconds(lambda: read(60_000)) < 30 * seconds(lambda: read(5_000))  # 12 in proportion


def test_what_comes_behind_a_deflate_stream_is_not_kept() -> None:
    inflate = Inflate("deflate", 2000)
    assert inflate.feed(zlib.compress(b"x")) == b"x"
    assert [inflate.feed(b"more" * 1000) for _ in range(3)] == [b"", b"", b""]
    assert inflate._decoder._decoder.unused_data == b""


LIMITED = '[default]\nmax_tools = 1\n[tenants.a]\nheader_sha256 = "' + "0" * 64 + '"\nrate_limit = "1/day"\n'


async def test_a_tenants_file_cut_to_nothing_lifts_no_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(LIMITED)
    tenancy = Tenancy(Settings(tenants_file=str(path)))
    for text in ("", "# nothing\n", "\n\n", "[tenants]\n", "tenants = {}\n"):
        path.write_text(text)
        os.utime(path, (1, len(text)))
        tenancy._looked = 0.0
        with caplog.at_level(logging.ERROR):
            tenant = await tenancy.find({"type": "http", "headers": []})
        assert tenant.settings.max_tools == 1
        assert "it holds no table" in caplog.text
    with pytest.raises(SettingsError, match="no table"):
        Tenancy(Settings(tenants_file=str(path)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
async def test_a_tenants_file_that_becomes_a_pipe_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(LIMITED)
    tenancy = Tenancy(Settings(tenants_file=str(path)))
    path.unlink()
    os.mkfifo(path)
    os.utime(path, (1, 1))
    tenancy._looked = 0.0
    async with asyncio.timeout(5):
        tenant = await tenancy.find({"type": "http", "headers": []})
    assert tenant.settings.max_tools == 1
    assert "is no file" in caplog.text
    with pytest.raises(SettingsError, match="is no file"):
        Tenancy(Settings(tenants_file=str(path)))


async def test_many_tenants_are_read_beside_the_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(LIMITED)
    tenancy = Tenancy(Settings(tenants_file=str(path)))
    path.write_text("[default]\n" + "".join(f"[tenants.t{number}]\nmax_tools = 2\n" for number in range(500)))
    os.utime(path, (1, 1))
    tenancy._looked = 0.0
    begin = time.monotonic()
    reading = asyncio.ensure_future(tenancy.find({"type": "http", "headers": []}))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10 or time.monotonic() - begin < 0.01
    assert len(tenancy.tenants.by_name) == 500


async def test_a_warning_about_arguments_does_not_log_them(caplog: pytest.LogCaptureFixture) -> None:
    call = '```json\n{"tool_calls": [{"name": "weather", "arguments": {"city": 4711081542}}]}\n```'
    with caplog.at_level(logging.WARNING):
        await Client(ask(stream=False)).run(middleware(TextBackend([call]), validate_arguments="warn"))
    assert "city" in caplog.text
    assert "4711081542" not in caplog.text


def test_a_password_in_a_query_is_not_shown() -> None:
    shown = hide_login("redis://host:6379/0?password=hunter22&db=1&ssl_keyfile_password=x")
    assert shown == "redis://host:6379/0?password=***&db=1&ssl_keyfile_password=***"


@pytest.mark.parametrize("address", ["redis://u:hunter22@h1:1,u:hunter22@h2", "redis://u:hun@ter22@h1:1,h2"])
def test_a_password_of_one_of_several_hosts_is_not_shown(address: str) -> None:
    """What the library quotes of an address that it cannot read."""
    with pytest.raises(SettingsError) as refused:
        require_limits(address)
    assert "ter22" not in str(refused.value)


async def test_a_coded_request_without_tools_reaches_a_translated_upstream() -> None:
    from toolcall_middleware.hosts.proxy.upstream.providers import PROVIDERS, Translator

    seen: list[Any] = []

    async def provider(_scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(json.loads(await read_body(receive)))
        await send({"type": "http.response.start", "status": 400, "headers": [JSON_TYPE]})
        await send({"type": "http.response.body", "body": b"{}"})

    app = Translator(provider, PROVIDERS["anthropic"], Settings(default_max_tokens=1))
    body = gzip.compress(ask(stream=False, tools=()))
    headers = [JSON_TYPE, (b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(body))]
    await Client(body, headers=headers).run(app)
    assert seen[0]["model"] == "m"
