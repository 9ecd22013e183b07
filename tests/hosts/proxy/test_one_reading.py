"""An error of an upstream is parsed once on its way to the client, whatever passes it on."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from tests.helpers.asgi_client import Backend, asked_on_each_face

from .proxy_servers import ask, masked, scope_of, serving
from .routing import TOOL, Proxies, table

_MARK = b"no such thing here"
_SAID = _MARK.decode()
_READERS = frozenset({"read_value", "read_object", "read_objects", "read_fields", "read_text"})
"""All that parse JSON in `wire/`."""
_FACES = asked_on_each_face("Hi", TOOL)
_PLAIN = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
_ASKED = [*_FACES.items(), ("/v1/chat/completions", _PLAIN), ("/v1/embeddings", {"model": "m", "input": "Hi"})]


@contextlib.contextmanager
def parsed() -> Iterator[list[str]]:
    """The names of the readers that get JSON with the mark in it."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name in _READERS and "/wire/" in frame.f_code.co_filename:
            given = frame.f_locals.get(frame.f_code.co_varnames[0])
            if given is not None and _MARK in bytes(given):
                found.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


OURS = {"error": {"message": _SAID, "type": "x", "param": None, "code": None}}
ANTHROPIC = {"type": "error", "error": {"type": "invalid_request_error", "message": _SAID}}
GOOGLE = {"error": {"code": 400, "message": _SAID, "status": "INVALID_ARGUMENT", "details": []}}


@pytest.mark.parametrize(("path", "asked"), _ASKED)
@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("openai", OURS),
        ("openai", {"detail": _SAID}),
        ("openai", {"error": _SAID}),
        ("anthropic", ANTHROPIC),
        ("google", GOOGLE),
    ],
)
async def test_a_refusal_is_parsed_once(
    proxies: Proxies, path: str, asked: dict[str, Any], api: str, body: dict[str, Any]
) -> None:
    """For the log's line, OpenAI's envelope, the exchange's decision and the form of the client's API together."""
    written = json.dumps(body).encode()
    app = Backend(written, status=400, headers=[(b"content-type", b"application/json")])
    values = {"api": api, "mode": "native" if api != "openai" else "prompt", "upstream_retries": 0}
    async with (
        serving(app) as address,
        proxies.running(table(f"{address}/v1", name="one", **values), access_log="json") as client,
    ):
        with parsed() as readings:
            answer = await client.post(path, json=asked)
    if api != "openai" and path == "/v1/embeddings":
        assert (answer.status_code, readings) == (404, [])  # of the proxy: no translation has this path
        return
    assert answer.status_code == 400
    assert _SAID in answer.text
    assert len(readings) == 1


@pytest.mark.parametrize("size", [100, 10_000])
@pytest.mark.parametrize("body", [OURS, {"detail": _SAID}])
async def test_a_client_that_reads_slowly_holds_only_the_bytes_of_a_large_error(
    body: dict[str, Any], size: int
) -> None:
    """Its JSON may take twenty times as much. Coded, because the body is then another than the upstream's."""
    written = gzip.compress(json.dumps({**body, "details": [[]] * size}).encode())
    upstream = Backend(written, status=400, headers=[(b"content-encoding", b"gzip")])
    answer = await ask(masked(upstream), scope_of("/chat/completions", method="POST"))
    sent = b"".join(message["body"] for message in answer.got[1:])
    assert _MARK in sent
    carrying = [message for message in answer.got[1:] if hasattr(message["body"], "value")]
    assert bool(carrying) is (len(sent) <= 8192)
