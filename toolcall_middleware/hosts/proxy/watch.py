"""Observers of a whole proxy: every request that is not about the proxy itself gets a report."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from ...observe.observers import Observers
from ..http.headers import raw_path
from ..http.watch import watched


class Watch:
    """An app before `app`. ignored: paths that nobody is told of."""

    def __init__(self, app: ASGIApp, observers: Observers, ignored: Collection[bytes]) -> None:
        self._app = app
        self._observers = observers
        self._ignored = frozenset(ignored)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or raw_path(scope).rstrip(b"/") in self._ignored:
            await self._app(scope, receive, send)
        else:
            await watched(self._app, self._observers, scope, receive, send)
