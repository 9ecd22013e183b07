"""Which paths go on to an upstream: with the operator's key in hand, no client picks what it opens."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ToolCallError
from ...settings import Settings
from ..http.paths import ends_with, matches, normal_path_of
from ..middleware.face_errors import refuse

_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_LISTED = ("/models", "/models/*")
"""What is listed is looked at: OpenAI deletes a model by DELETE, llama.cpp's router unloads one by a POST below it."""


class ForwardPaths:
    """Passes requests for the paths that `settings` let through, `forward_paths` and `paths`; others are a 404.

    A path that servers may resolve in different ways (dot segments, `;params`, escapes in escapes) is a 400, because
    the upstream might find another one than was looked at here. Models are only looked at, any other
    method is a 405: it would be done with the operator's key.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._patterns = settings.forward_paths
        self._paths = settings.paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and "*" not in self._patterns:
            try:
                self._check(scope)
            except ToolCallError as refusal:
                await refuse(scope, send, refusal)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        path = normal_path_of(scope)
        given = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
        if path != "/" + "/".join(part for part in given.casefold().split("/") if part):
            raise ToolCallError("invalid_request", "The path must be spelled plainly, without dots, `;` or `\\`.")
        if not matches(path, self._patterns) and not ends_with(path, self._paths):
            message = f"There is no {scope['method']} {given[:100]} here; the setting forward_paths says what there is."
            raise ToolCallError("unknown_url", message)
        if scope["method"] not in _LOOKS and matches(path, _LISTED):
            message = f"{scope['method']} {given[:100]} is not forwarded; the setting forward_paths says what is."
            raise ToolCallError("method_not_allowed", message)
