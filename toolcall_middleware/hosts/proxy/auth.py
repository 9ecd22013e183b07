"""What the proxy answers by itself, before any work."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ToolCallError
from ..http.errors import send_json
from ..http.headers import raw_path, without
from ..http.request_record import record_of
from ..middleware.face_errors import refuse
from ..middleware.tenants import TENANT_KEY

# `NAME=KEY`. A key that ends in base64's own `=` is one without a name.
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,63})=(?=.*[^=])(.+)")
_SHOW_KEYS = frozenset({b"authorization", b"x-api-key"})


class Gate:
    """`GET /healthz` is 200 `{"status": "ok"}`; a client that shows none of `keys` gets 401; the rest goes to `app`.

    A key is shown as `Authorization: Bearer KEY`, or else as `x-api-key: KEY`. Without `keys` everybody passes. Where a
    key was given as `NAME=KEY`, `app` finds the name in its scope as `toolcall.tenant`. Both headers hold the
    key that opened there. `HEAD /api/hello`, by which Claude Code learns whether somebody is there, is 200. Errors
    have the form of the API that the path is of.

    After `drain`, `/healthz` is 503 `{"status": "draining"}`, and so is every new request, as an error.
    """

    def __init__(self, app: ASGIApp, keys: Iterable[str] = ()) -> None:
        self._app = app
        self._keys = [_named(key) for key in keys]
        self._drains = False

    def drain(self) -> None:
        """Take no new requests: the process is about to end."""
        self._drains = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] in {"GET", "HEAD"} and raw_path(scope) == b"/healthz":
            if self._drains:
                await send_json(send, 503, b'{"status":"draining"}', _LEAVE)
            else:
                await send_json(send, 200, b'{"status":"ok"}')
            return
        if scope["method"] == "HEAD" and raw_path(scope) == b"/api/hello":
            await send_json(send, 200, b"")
            return
        if self._drains:
            message = "This proxy is about to end and takes no new requests."
            await refuse(scope, send, ToolCallError("upstream_error", message, status=503, headers=_LEAVE))
            return
        tenant = None
        if self._keys:
            key, tenant = self._shown(scope)
            if key is None:
                message = "This proxy wants one of its own keys as `Authorization: Bearer KEY`."
                refusal = ToolCallError("invalid_api_key", message, headers={"www-authenticate": "Bearer"})
                await refuse(scope, send, refusal)
                return
            headers = without(scope["headers"], _SHOW_KEYS)
            scope = {**scope, "headers": [*headers, (b"authorization", b"Bearer " + key), (b"x-api-key", key)]}
        if tenant is not None:
            record_of(scope).tenant = tenant
            scope = {**scope, TENANT_KEY: tenant}
        await self._app(scope, receive, send)

    def _shown(self, scope: Scope) -> tuple[bytes | None, str | None]:
        """(the key that was shown, if it is one of ours, whose it is)."""
        shown = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if not shown:
            shown = [b"Bearer " + value for name, value in scope["headers"] if name.lower() == b"x-api-key"]
        if len(shown) != 1:
            return None, None
        scheme, _, given = shown[0].partition(b" ")
        key = given.strip()
        # All of them are compared, so that the time does not tell which one came near.
        matches = [(hmac.compare_digest(key, known), name) for name, known in self._keys]
        names = [name for matches_it, name in matches if matches_it]
        return (key, names[0]) if names and scheme.lower() == b"bearer" else (None, None)


# The connection closes with the answer: the next attempt comes to another process.
_LEAVE = {"connection": "close", "retry-after": "1"}


def _named(key: str) -> tuple[str | None, bytes]:
    found = _NAMED.fullmatch(key)
    return (found[1], found[2].encode()) if found else (None, key.encode())
