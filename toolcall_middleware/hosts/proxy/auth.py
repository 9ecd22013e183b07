"""The proxy's own keys."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable

from starlette.types import Scope

from ...errors import ToolCallError
from ..http.headers import without
from ..http.request_record import record_of
from ..middleware.tenants import TENANT_KEY

# `NAME=KEY`. A key that ends in base64's own `=` is one without a name.
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,63})=(?=.*[^=])(.+)")
_SHOW_KEYS = frozenset({b"authorization", b"x-api-key"})


class Keys:
    """The keys that clients show as `Authorization: Bearer KEY`, or else as `x-api-key: KEY`."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = [_named(key) for key in keys]

    def opened(self, scope: Scope) -> Scope:
        """The scope of a request that shows one of the keys, or of any request where there are none.

        Both headers hold the key then. The name of a key that was given as `NAME=KEY` is the request's tenant. Raises
        ToolCallError (401).
        """
        if not self._keys:
            return scope
        key, tenant = self._shown(scope)
        if key is None:
            message = "This proxy wants one of its own keys as `Authorization: Bearer KEY`."
            raise ToolCallError("invalid_api_key", message, headers={"www-authenticate": "Bearer"})
        headers = without(scope["headers"], _SHOW_KEYS)
        scope = {**scope, "headers": [*headers, (b"authorization", b"Bearer " + key), (b"x-api-key", key)]}
        if tenant is not None:
            record_of(scope).tenant = tenant
            scope = {**scope, TENANT_KEY: tenant}
        return scope

    def _shown(self, scope: Scope) -> tuple[bytes | None, str | None]:
        """(the key that was shown, its name); None for a key that is not ours."""
        shown = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if not shown:
            shown = [b"Bearer " + value for name, value in scope["headers"] if name.lower() == b"x-api-key"]
        if len(shown) != 1:
            return None, None
        scheme, _, given = shown[0].partition(b" ")
        key = given.strip()
        # All keys are compared, so that the time does not reveal how much of one matched.
        matches = [(hmac.compare_digest(key, known), name) for name, known in self._keys]
        names = [name for matches_it, name in matches if matches_it]
        return (key, names[0]) if names and scheme.lower() == b"bearer" else (None, None)


def _named(key: str) -> tuple[str | None, bytes]:
    found = _NAMED.fullmatch(key)
    return (found[1], found[2].encode()) if found else (None, key.encode())
