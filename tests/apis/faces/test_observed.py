"""Traces of requests on a face hold the face's own request and events beside the chat form; keys are in neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.apis.faces.asking import PATHS, body_of, chat_tool
from tests.helpers.asgi_client import Client
from tests.helpers.fakes import TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.observe.traces import Trace, TraceFiles, read_trace

CALL = write_calls("hermes", ("weather", {"city": "Paris"}))
HEADERS = [
    (b"content-type", b"application/json"), (b"anthropic-version", b"2023-06-01"), (b"x-api-key", b"sk-secret"),
]  # fmt: skip
TOOL = chat_tool("weather", {"type": "object", "properties": {"city": {"type": "string"}}})
APIS = ("messages", "responses")


def written(app: ToolCallMiddleware, folder: Path) -> Trace:
    for observer in app._observers:
        if isinstance(observer, TraceFiles):
            observer.flush()
    (path,) = folder.glob("*.jsonl")
    assert b"sk-secret" not in path.read_bytes()
    return read_trace(path.read_bytes())


async def traced(folder: Path, api: str, body: dict[str, Any]) -> tuple[Trace, bytes]:
    app = ToolCallMiddleware(TextBackend([CALL]), mode="prompt", format="hermes", trace_dir=str(folder))
    client = Client(json.dumps(body).encode(), headers=HEADERS, path=PATHS[api])
    got = await client.run(app)
    return written(app, folder), got.body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_a_trace_holds_what_the_client_sent_and_what_left_for_it(api: str, stream: bool, tmp_path: Path) -> None:
    body = body_of(api, TOOL, stream=stream)
    trace, got = await traced(tmp_path, api, body)
    kinds = [row["kind"] for row in trace.rows]
    own = trace.rows[kinds.index("face_request")]
    assert (own["api"], json.loads(own["data"])) == (api, body)
    assert kinds.index("face_request") < kinds.index("request") < kinds.index("ask") < kinds.index("face")
    assert "messages" in json.loads(trace.rows[kinds.index("request")]["data"])
    assert "".join(row["data"] for row in trace.rows if row["kind"] == "face").encode() == got
    assert any(row["kind"] == "client" for row in trace.rows)
    assert trace.summary["api"] == api
    assert [row["at"] for row in trace.rows] == sorted(row["at"] for row in trace.rows)


@pytest.mark.parametrize("api", APIS)
async def test_a_refused_request_is_there_in_its_own_words(api: str, tmp_path: Path) -> None:
    body = body_of(api, tools=[5])
    trace, got = await traced(tmp_path, api, body)
    kinds = [row["kind"] for row in trace.rows]
    assert kinds[0] == "face_request"
    assert trace.rows[kinds.index("face")]["data"].encode() == got
    assert trace.summary["status"] == 400


async def test_a_chat_completion_has_no_such_rows(tmp_path: Path) -> None:
    app = ToolCallMiddleware(TextBackend([CALL]), mode="prompt", format="hermes", trace_dir=str(tmp_path))
    await Client(json.dumps(body_of("chat", TOOL)).encode(), headers=HEADERS).run(app)
    assert not {row["kind"] for row in written(app, tmp_path).rows} & {"face", "face_request"}
