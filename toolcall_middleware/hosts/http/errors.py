"""Whole answers that a host gives by itself: errors in OpenAI's envelope, and other JSON."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.types import Send

from ...errors import ToolCallError
from .headers import Headers

_log = logging.getLogger("toolcall_middleware")


def log_refusal(error: ToolCallError) -> None:
    """Say that a request ends in `error`, and nothing of what it or the model said."""
    fields = {"event": "refused", "status": error.status, "code": error.code, "param": error.param}
    what = (error.status, error.code, error.param or "-")
    _log.info("refused: status=%s; code=%s; param=%s", *what, extra={"toolcall": fields})


async def send_error(send: Send, error: ToolCallError) -> None:
    """Answer a request with `error`."""
    await send_json(send, error.status, error.body(), error.headers)


async def send_json(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """Answer a request with a JSON `body`. `headers` are added; what Latin-1 does not have becomes `?` in them."""
    head: Headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    head += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body, "more_body": False})
