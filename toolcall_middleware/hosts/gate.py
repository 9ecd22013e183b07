"""What the proxy answers by itself, before any work."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import ToolCallError
from .headers import raw_path


class Gate:
    """`GET /healthz` is 200 `{"status": "ok"}`; a client that shows none of `keys` gets 401; the rest goes to `app`.

    A key is shown as `Authorization: Bearer KEY`. Without `keys` everybody passes.
    """

    def __init__(self, app: ASGIApp, keys: Iterable[str] = ()) -> None:
        self._app = app
        self._keys = tuple(key.encode() for key in keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"} and raw_path(scope) == b"/healthz":
            await _send_json(send, 200, b'{"status":"ok"}')
        elif scope["type"] == "http" and self._keys and not self._may_pass(scope):
            message = "This proxy wants one of its own keys as `Authorization: Bearer KEY`."
            await send_error(send, ToolCallError("invalid_api_key", message, headers={"www-authenticate": "Bearer"}))
        else:
            await self._app(scope, receive, send)

    def _may_pass(self, scope: Scope) -> bool:
        shown = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if len(shown) != 1:
            return False
        scheme, _, key = shown[0].partition(b" ")
        # All of them are compared, so that the time does not tell which one came near.
        matches = [hmac.compare_digest(key.strip(), known) for known in self._keys]
        return scheme.lower() == b"bearer" and any(matches)


async def send_error(send: Send, error: ToolCallError) -> None:
    """Answers a request with `error`."""
    await _send_json(send, error.status, error.body(), error.headers)


async def _send_json(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    head += [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body, "more_body": False})
