"""The metrics as an ASGI app, for an app of one's own and for the proxy."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from ...observe.metrics import Metrics, shared_metrics
from .errors import send_json
from .headers import values_of


def metrics_app() -> ASGIApp:
    """An ASGI app that answers every GET with the metrics of this process, or of all where they are shared.

    `app.mount("/metrics", metrics_app())`. Raises SettingsError where the extra `metrics` is not installed.
    """
    return MetricsApp(shared_metrics())


class MetricsApp:
    """See `metrics_app`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's
        if scope["type"] != "http":
            return
        if scope["method"] not in {"GET", "HEAD"}:
            await send_json(
                send, 405, b'{"error":{"message":"The metrics are read with GET."}}', {"allow": "GET, HEAD"}
            )
            return
        accept = next(iter(values_of(scope["headers"], b"accept")), b"").decode("latin-1")
        body, content_type = self._metrics.render(accept)
        headers = [
            (b"content-type", content_type.encode("latin-1")),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": shown, "more_body": False})
