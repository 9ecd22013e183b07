"""Which paths a client may ask of an upstream with the operator's key."""

from __future__ import annotations

from starlette.types import Scope

from ...errors import ToolCallError
from ...settings import Settings
from ..http.paths import ends_with, matches, normal_path_of

_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_LISTED = ("/models", "/models/*")
"""Clients only read these: OpenAI deletes a model by DELETE, llama.cpp's router unloads one by a POST below it."""


def check_path(scope: Scope, settings: Settings) -> None:
    """Refuse a request whose path is neither in `forward_paths` nor in `paths` (404). Raises ToolCallError.

    A path that servers may resolve in different ways (dot segments, `;params`, nested escapes) is a 400, because the
    upstream might resolve it to another one than was checked. For models any method that changes something is a 405:
    it would be done with the operator's key. `forward_paths=*` allows everything.
    """
    if "*" in settings.forward_paths:
        return
    path = normal_path_of(scope)
    given = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
    if path != "/" + "/".join(part for part in given.casefold().split("/") if part):
        raise ToolCallError("invalid_request", "The path must be spelled plainly, without dots, `;` or `\\`.")
    if not matches(path, settings.forward_paths) and not ends_with(path, settings.paths):
        message = f"There is no {scope['method']} {given[:100]} here; the setting forward_paths says what there is."
        raise ToolCallError("unknown_url", message)
    if scope["method"] not in _LOOKS and matches(path, _LISTED):
        message = f"{scope['method']} {given[:100]} is not forwarded; the setting forward_paths says what is."
        raise ToolCallError("method_not_allowed", message)
