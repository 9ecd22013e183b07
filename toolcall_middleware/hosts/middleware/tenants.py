"""Who asks, and by which settings: the tenants file, read again when it has changed."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from pathlib import Path

from starlette.types import Scope

from ...errors import SettingsError, ToolCallError, on_one_line
from ...settings import Settings
from ...settings.tenants_file import Tenant, Tenants, nobody, read_tenants
from ..http.headers import logins, values_of
from .start_up import with_tokenizer

TENANT_KEY = "toolcall.tenant"
"""Where a scope holds the name of the tenant, when the host knows it: the proxy puts there whose API key was shown."""

_SECONDS = 1.0  # between two looks at the file
_MAX_BYTES = 16 << 20

_log = logging.getLogger("toolcall_middleware")
_Stamp = tuple[int, int, int]


class Tenancy:
    """The tenants of one middleware. Raises SettingsError when the file cannot be used.

    A file that changes is read again, without a restart, once it has been left alone for a second. Where the new one
    is bad, that is logged and the old one holds.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._header = settings.tenant_header.encode("ascii")
        self._path = settings.tenants_file
        self._stamp: _Stamp | None = None
        self._looked = time.monotonic()
        self._tenants = nobody(settings)
        if self._path is not None:
            self._stamp = _stamp(self._path)
            self._tenants = self._read(self._path)

    @property
    def tenants(self) -> Tenants:
        """Those of the file, as it was last read."""
        return self._tenants

    @property
    def limits_rates(self) -> bool:
        """Whether anybody's rate is limited."""
        return _limits_rates(self._tenants)

    async def find(self, scope: Scope) -> Tenant:
        """Who asks in `scope`. Raises ToolCallError where that is told in two ways: the app might believe the other.

        Who finds the file changed waits until it has been read, in a thread; others go on with what held before.
        """
        if self._path is not None and time.monotonic() - self._looked >= _SECONDS:
            self._looked = time.monotonic()
            if self._has_changed(self._path):
                await asyncio.to_thread(self._look, self._path)
        name = scope.get(TENANT_KEY)
        headers = scope.get("headers", ())
        values = set(values_of(headers, self._header))
        if not values and self._header == b"authorization":
            values = set(logins(headers))
        elif not values and self._header == b"x-api-key":
            shown = (login.partition(b" ") for login in logins(headers))
            values = {key.strip() for scheme, _, key in shown if scheme.lower() == b"bearer"}
        if len(values) > 1:
            message = f"The header {self._header.decode()} says who asks, and stands there with different values."
            raise ToolCallError("invalid_request", message)
        return self._tenants.find(name if isinstance(name, str) else None, values.pop() if values else None)

    def _has_changed(self, path: str) -> bool:
        try:
            return _stamp(path) != self._stamp
        except SettingsError:
            return True

    def _look(self, path: str) -> None:
        try:
            stamp = _stamp(path)
        except SettingsError as error:
            if self._stamp is not None:
                _log.error("%s The tenants stay as they were.", on_one_line(str(error)))
            self._stamp = None
            return
        if stamp == self._stamp:
            return
        if abs(time.time() - stamp[0] / 1e9) < _SECONDS:
            # It may be half written: the part that is there would be read as a file with fewer tenants and limits.
            return
        self._stamp = stamp
        try:
            self._tenants = self._read(path)
        except SettingsError as error:
            _log.error("%s The tenants stay as they were.", on_one_line(str(error)))
        else:
            _log.info("%s has been read again.", path)

    def _read(self, path: str) -> Tenants:
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"tenants_file: {path} cannot be read: {error}.") from None
        tenants = read_tenants(text, path, self._settings)
        for settings in (tenants.default, *tenants.by_name.values()):
            with_tokenizer(settings)
        if _limits_rates(tenants):
            from .rate_limit import require_limits

            require_limits(self._settings.rate_limit_storage)
        return tenants


def _limits_rates(tenants: Tenants) -> bool:
    return any(settings.has_rates for settings in (tenants.default, *tenants.by_name.values()))


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - once a second, in a request
    except OSError as error:
        raise SettingsError(f"tenants_file: {path} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(status.st_mode):
        # A pipe would be waited for.
        raise SettingsError(f"tenants_file: {path} is no file.")
    if status.st_size > _MAX_BYTES:
        raise SettingsError(f"tenants_file: {path} is larger than {_MAX_BYTES} bytes.")
    return status.st_mtime_ns, status.st_size, status.st_ino
