"""Whole answers that a host gives by itself: errors in OpenAI's envelope, the metrics, and other JSON."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ToolCallError
from ...observe.json_log import log_event
from ...observe.metrics import shared_metrics
from .head import Headers, values_of
from .request_record import record_of

_log = logging.getLogger("toolcall_middleware")
_SUPPORTED = "WebSocket is not supported here: send the request as an HTTP POST; streams are server-sent events."
_CLOSED_BY_SERVER = 1011


def log_refusal(error: ToolCallError) -> None:
    """Say that a request ends in `error`, and nothing of what it or the model said."""
    fields = {"status": error.status, "code": error.code, "param": error.param}
    log_event(_log, logging.INFO, "refused", fields)


def tell_refusal(scope: Scope, error: ToolCallError) -> None:
    """Say in both logs that the request in `scope` ends in `error`."""
    record_of(scope).error = str(error.code)
    log_refusal(error)


async def send_refusal(scope: Scope, send: Send, error: ToolCallError) -> None:
    """Answer the request in `scope` with `error`, and tell the logs."""
    tell_refusal(scope, error)
    await send_error(send, error)


async def send_error(send: Send, error: ToolCallError) -> None:
    """Answer a request with `error`."""
    await send_json(send, error.status, error.body(), error.headers)


async def send_json(
    send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None, *, kind: str = "http"
) -> None:
    """Answer a request with a JSON `body`. `headers` are added; what Latin-1 does not have becomes `?` in them.

    kind: what ASGI's messages begin with.
    """
    head: Headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    head += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in (headers or {}).items()]
    await send({"type": f"{kind}.response.start", "status": status, "headers": head})
    await send({"type": f"{kind}.response.body", "body": body, "more_body": False})


async def refuse_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer an upgrade with 426 and what is supported; close it where the server cannot send an answer."""
    error = ToolCallError(
        "websocket_not_supported", _SUPPORTED, headers={"upgrade": "HTTP/1.1", "connection": "upgrade"}
    )
    if scope["type"] == "http":
        await send_refusal(scope, send, error)
        return
    await receive()
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": _CLOSED_BY_SERVER, "reason": _SUPPORTED})
        return

    tell_refusal(scope, error)
    await send_json(send, error.status, error.body(), error.headers, kind="websocket.http")


def metrics_app() -> ASGIApp:
    """An ASGI app that answers every GET with the metrics of this process, or of all where they are shared.

    `app.mount("/metrics", metrics_app())`. Raises SettingsError where the extra `metrics` is not installed.
    """
    metrics = shared_metrics()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - ASGI's
        if scope["type"] != "http":
            return
        if scope["method"] not in {"GET", "HEAD"}:
            await send_json(
                send, 405, b'{"error":{"message":"The metrics are read with GET."}}', {"allow": "GET, HEAD"}
            )
            return
        accept = next(iter(values_of(scope["headers"], b"accept")), b"").decode("latin-1")
        body, content_type = metrics.render(accept)
        headers = [
            (b"content-type", content_type.encode("latin-1")),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": shown, "more_body": False})

    return app
