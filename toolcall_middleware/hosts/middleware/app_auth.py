"""An app that wants a key is asked before anything is refused: without the key nobody learns limits and settings from
our refusals.
"""

from __future__ import annotations

import contextlib

from starlette.types import ASGIApp, Message, Scope, Send

from ...errors import ToolCallError
from ..http.answer import Collected, TooLongError
from ..http.bodies import giving
from ..http.errors import send_refusal
from ..http.headers import values_of

_UNAUTHORIZED = 401
_MOST = 64 * 1024
_DEPTH = 16
_LARGE = 64 * 1024  # bytes; less is read at once, and not worth another question
_DIGITS = 20
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})


def wants_keys(app: ASGIApp) -> bool:
    """Whether a layer of authentication stands in `app`, by the names of its layers (vLLM's, Starlette's)."""
    at: object = app
    for _ in range(_DEPTH):
        if at is None:
            return False
        if "auth" in type(at).__name__.lower():
            return True
        at = getattr(at, "app", None)
    return False


async def _app_refusal(app: ASGIApp, scope: Scope) -> list[Message]:
    """The app's 401 to a GET with the headers of `scope`; empty where it answers something else."""
    dropped = {b"content-length", b"content-type", b"transfer-encoding", b"content-encoding", b"expect"}
    headers = [pair for pair in scope["headers"] if pair[0].lower() not in dropped]
    answer = Collected(_MOST)
    with contextlib.suppress(TooLongError):
        await app({**scope, "method": "GET", "headers": headers}, giving(b"", _gone), answer.send)
    if answer.status != _UNAUTHORIZED or answer.body is None:
        return []
    return [answer.start, {"type": "http.response.body", "body": answer.body, "more_body": False}]


async def _gone() -> Message:
    return {"type": "http.disconnect"}


async def refused_by_app(app: ASGIApp, scope: Scope, send: Send) -> bool:
    """Whether the app does not let the client in, which is asked before a large body is read: its 401 is sent."""
    if not wants_keys(app) or not _is_large(scope):
        return False
    for message in (told := await _app_refusal(app, scope)):
        await send(message)
    return bool(told)


def _is_large(scope: Scope) -> bool:
    """Whether the body is, or may be."""
    if scope["method"] in _BODILESS:
        return False
    length = next(iter(values_of(scope["headers"], b"content-length")), b"")
    return not length.isdigit() or int(length[:_DIGITS]) > _LARGE


async def refuse(app: ASGIApp, scope: Scope, send: Send, error: ToolCallError) -> None:
    """Answer with `error`, and log that; in the app's own words where it would not have let the client in."""
    if wants_keys(app):
        for message in (told := await _app_refusal(app, scope)):
            await send(message)
        if told:
            return
    await send_refusal(scope, send, error)
