"""The upstream's key never reaches a client, in whatever form the upstream quotes it."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.asgi_client import Backend
from toolcall_middleware.hosts.proxy.upstream.upstream import Mask, MaskedStream, secrets_of

from ...observe.test_traces import written
from .proxy_servers import ask, masked, scope_of, serving
from .routing import Proxies, table

KEY = 'sk-ab/cd"ef+1234567890'


def quoted(key: str) -> dict[str, bytes]:
    return {
        "plain": key.encode(),
        "json": json.dumps(key)[1:-1].encode(),
        "php": json.dumps(key)[1:-1].replace("/", "\\/").encode(),
        "escapes": "".join(f"\\u{ord(char):04x}" for char in key).encode(),
        "big escapes": "".join(f"\\u{ord(char):04X}" for char in key).encode(),
        "percent": "".join(f"%{ord(char):02x}" for char in key).encode(),
        "mixed": ("".join(f"\\u{ord(char):04x}" if char in "kb" else char for char in key)).encode(),
    }


def says(status: int, headers: dict[bytes, bytes], *parts: bytes) -> Backend:
    """An upstream that answers with these parts."""
    return Backend(*parts, b"", status=status, headers=list(headers.items()))


async def answer_of(app: Backend, path: str = "/v1/embeddings") -> Any:
    return await ask(masked(app, *secrets_of(KEY, None, ())), scope_of(path, method="POST"))


@pytest.mark.parametrize("form", quoted(KEY))
@pytest.mark.parametrize("kind", ["whole", "gzip", "deflate", "long", "long and told", "stream", "pieces"])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completions"])
async def test_a_key_does_not_come_back(kind: str, form: str, path: str) -> None:
    key = quoted(KEY)[form]
    body = b'{"error": {"message": "wrong key ' + key + b'!"}}'
    long = b"x" * 300_000 + body + b"y" * 100
    sse = {b"content-type": b"text/event-stream"}
    app = {
        "whole": says(401, {}, body),
        "gzip": says(401, {b"content-encoding": b"gzip", b"content-length": b"9"}, gzip.compress(body)),
        "deflate": says(403, {b"Content-Encoding": b"deflate"}, zlib.compress(body)),
        "long": says(500, {}, long[:300_050], long[300_050:]),
        "long and told": says(500, {b"content-length": b"%d" % len(long)}, long[:300_040], long[300_040:]),
        "stream": says(200, sse, b'data: {"a": 1}\n\n', b"data: " + body + b"\n\n"),
        "pieces": says(200, sse, *(body[at : at + 3] for at in range(0, len(body), 3))),
    }[kind]
    answer = await answer_of(app, path)
    assert key not in answer.body
    assert KEY not in json.dumps(answer.body.decode())
    assert b"wrong key **" in answer.body
    told = dict(answer.headers).get(b"content-length")
    assert told is None or int(told) == len(answer.body)
    assert b"content-encoding" not in {name.lower() for name, _ in answer.headers}


async def test_an_error_in_an_unknown_coding_leaves_without_its_body() -> None:
    answer = await answer_of(says(401, {b"content-encoding": b"br"}, b"\x0b" + KEY.encode()))
    assert (answer.status, answer.body) == (401, b"")


@given(st.binary(max_size=60), st.sampled_from(sorted(quoted(KEY))), st.lists(st.integers(1, 9), min_size=1))
def test_no_cut_lets_a_key_through_and_nothing_else_changes(before: bytes, form: str, sizes: list[int]) -> None:
    mask = Mask(secrets_of(KEY, None, ()))
    data = before + quoted(KEY)[form] + b" and more"
    stream = MaskedStream(mask, keeps_length=False)
    out, at, turn = b"", 0, 0
    while at < len(data):
        part = data[at : at + sizes[turn % len(sizes)]]
        at, turn = at + len(part), turn + 1
        out += stream.feed(part, last=at >= len(data))
    assert out == mask.whole(data) == before + b"*** and more"


def test_logins_and_the_operators_headers_are_secrets_too() -> None:
    keys = [(b"x-portkey-api-key", b"pk-1234567890"), (b"authorization", b"Bearer tok-123456")]
    headers = [*keys, (b"x-team", b"research-team")]
    found = secrets_of(None, "https://user:p%40ssw0rd1@host/v1", headers)
    assert {"pk-1234567890", "tok-123456", "p@ssw0rd1", b64encode(b"user:p@ssw0rd1").decode()} <= set(found)
    assert "research-team" not in found


async def test_what_holds_no_key_passes_to_the_byte() -> None:
    parts = [b'data: {"a": "s', b'k-a%"}\n\n', b"data: [DONE]\n\n"]
    answer = await answer_of(says(200, {b"content-type": b"text/event-stream"}, *parts))
    assert answer.body == b"".join(parts)


PLAIN_KEY = "sk-ab/cd+1234567890"


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        ("/v1/messages", {"name": "f", "input_schema": {"type": "object"}}),
        ("/v1/chat/completions", {"type": "function", "function": {"name": "f"}}),
    ],
)
async def test_a_trace_holds_no_key_either(path: str, tool: dict[str, Any], tmp_path: Path, proxies: Proxies) -> None:
    """The middleware reads the answer before it is masked for the client."""
    body = b'{"error": {"message": "wrong key %s!"}}' % PLAIN_KEY.encode()
    upstream = says(401, {b"content-type": b"application/json"}, body)
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    (traces := tmp_path / "traces").mkdir()
    async with serving(upstream) as address:
        up = table(f"{address}/v1", key=PLAIN_KEY)
        async with proxies.running(up, trace_dir=str(traces)) as client:
            assert (await client.post(path, json=asked)).status_code == 401
    (trace,) = written(traces)
    assert b"wrong key ***!" in trace.read_bytes()
    assert PLAIN_KEY.encode() not in trace.read_bytes()
