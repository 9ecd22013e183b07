"""The tenants file: the settings of each tenant, read from TOML. A tenant is identified by a name or a hash.

    [default]                       # for all of them; a tenant's own table wins
    max_tools = 64

    [tenants.research]
    header_sha256 = "9f86d081…"     # of the tenant header's value, here `Bearer KEY`; or a list of such
    profile = "gateway"
    rate_limit = "600/hour"
    allowlist = ["search", "get_*"] # enforced, unless allowlist_mode says else

The secret itself is neither stored nor compared: `printf 'Bearer KEY' | sha256sum` gives the value for the file. A
tenant that the proxy knows by the name of its API key needs no hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SettingsError
from . import MAXIMA, OPTIONS, Settings, show
from .options import Strictness
from .settings import Faults, meant
from .toml_text import read_toml

HASHES = "header_sha256"
_HASH = re.compile(r"[0-9a-f]{64}")
_MORE = frozenset({"profile", "rate_limit", "request_limit", "token_limit", "extension_field", "max_request_bytes"})
ALLOWED = frozenset(
    name
    for name, option in OPTIONS.items()
    if name in _MORE or (name != "mode" and option.strictness not in {Strictness.OPERATOR, Strictness.FREE})
)
"""The settings that a table may hold: limits, the allowlist, the rates, the profile, validation and the dialect."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """The tenant of a request: `key` identifies its counters of rates, `settings` apply to it."""

    key: str
    settings: Settings

    @property
    def name(self) -> str | None:
        """Its name in the file or of its API key; None for a client that has none."""
        kind, _, name = self.key.partition(":")
        return name if kind == "tenant" else None


@dataclass(frozen=True, slots=True)
class Tenants:
    """Settings by the tenants' names and by their hashes, and those of all other clients."""

    default: Settings
    by_name: Mapping[str, Settings]
    by_hash: Mapping[str, str]

    def find(self, name: str | None, header: bytes | None) -> Tenant:
        """The tenant of a request. `name`: that of its API key. `header`: the value of the tenant header."""
        digest = None if header is None else hash_of(header)
        if name is None or name not in self.by_name:
            name = self.by_hash.get(digest or "", name)
        if name is not None:
            return Tenant(f"tenant:{name}", self.by_name.get(name, self.default))
        return Tenant("anonymous" if digest is None else f"header:{digest}", self.default)


def without_file(settings: Settings) -> Tenants:
    """The tenants without a file: the same settings for all clients. Only their rates are counted apart."""
    return Tenants(settings, {}, {})


def hash_of(header: bytes) -> str:
    """The SHA-256 of a header's value, as hex. A login scheme's case and the blanks after it make no difference."""
    scheme, blank, rest = header.strip().partition(b" ")
    if blank and scheme.lower() in {b"bearer", b"basic"}:
        header = scheme.capitalize() + b" " + rest.strip()
    return hashlib.sha256(header.strip()).hexdigest()


def read_tenants(text: str, path: str, settings: Settings) -> Tenants:
    """The tenants in the file's `text`, on top of `settings`.

    Raises SettingsError with all faults, a line each: the file, the line number where it is known, table and key.
    """
    try:
        tables = read_toml(text)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    if not tables or tables == {"tenants": {}}:
        # The file may be incomplete or truncated: an operator who wants no limits writes `[default]`.
        raise SettingsError(f"{path}: it holds no table; write [default] or [tenants.NAME].")
    reader = _Reader(text, path, settings)
    tenants = reader.read(tables)
    reader.faults.refuse()
    return tenants


class _Reader:
    """Reads one file."""

    def __init__(self, text: str, path: str, settings: Settings) -> None:
        self._text = text
        self._path = path
        self._base = settings
        self.faults = Faults()

    def read(self, tables: dict[str, Any]) -> Tenants:
        for name in tables:
            if name not in {"default", "tenants"}:
                near = meant(name, ("default", "tenants"))
                self._say((name,), f"{name!r} is not known here; {near} Use [default] and [tenants.NAME]")
        default = self._settings(self._base, ("default",), tables.get("default", {}), f"file {self._path}")
        named = tables.get("tenants", {})
        if not isinstance(named, dict):
            self._say(("tenants",), "it must be tables, [tenants.NAME]")
            named = {}
        by_name: dict[str, Settings] = {}
        by_hash: dict[str, str] = {}
        for name, table in named.items():
            where = ("tenants", name)
            if not name.strip() or not name.isprintable():
                self._say(where, "a tenant needs a name that can be printed")
            hashes = table.pop(HASHES, ()) if isinstance(table, dict) else ()
            for digest in self._hashes(hashes, (*where, HASHES)):
                if digest in by_hash:
                    self._say((*where, HASHES), f"the tenant {by_hash[digest]!r} has the same")
                by_hash[digest] = name
            by_name[name] = self._settings(default, where, table, f"tenant {name} ({self._path})")
        return Tenants(default, by_name, by_hash)

    def _hashes(self, value: Any, where: tuple[str, ...]) -> Iterable[str]:
        given = value if isinstance(value, list | tuple) else [value]
        hashes = [item.strip().lower() if isinstance(item, str) else "" for item in given]
        if not all(_HASH.fullmatch(digest) for digest in hashes):
            # Not shown: people put the secret itself there.
            self._say(where, "it must be a SHA-256 as 64 hex digits, or a list of such")
            return ()
        return hashes

    def _settings(self, base: Settings, where: tuple[str, ...], table: Any, source: str) -> Settings:
        if not isinstance(table, dict):
            self._say(where, "it must be a table")
            return base
        values: dict[str, Any] = {}
        for name, value in table.items():
            place = (*where, name)
            if name not in ALLOWED:
                what = "cannot be set for a tenant" if name in OPTIONS else "is not a setting"
                self._say(place, f"it {what}; {meant(name, sorted(ALLOWED | {HASHES}))}")
                continue
            try:
                values[name] = OPTIONS[name].read(value)
            except (ValueError, TypeError, KeyError):
                self._say(place, f"{value!r} is not allowed; use {OPTIONS[name].allowed}")
        if values.get("allowlist") and base.allowlist_mode == "off":
            # A list that is given is meant to hold.
            values.setdefault("allowlist_mode", "enforce")
        settings = base.layer(values, source)
        for profile in {self._base.profile, settings.profile}:
            for name, most in MAXIMA.get(profile, {}).items():
                value = getattr(settings, name)
                # A value that the operator set by hand is kept.
                by_hand = settings.source(name).startswith(("keyword", "environment ", "command line"))
                if (value is None or value > most) and not by_hand:
                    message = f"{show(value)} is more than the {most} that profile {profile} allows for a tenant"
                    self._say((*where, name), message)
        return settings

    def _say(self, place: tuple[str, ...], message: str) -> None:
        """Note a fault at `place`."""
        line = self._line(place)
        at = self._path if line is None else f"{self._path}, line {line}"
        self.faults.note(f"{at}: {'.'.join(place)}: {message}.")

    def _line(self, place: tuple[str, ...]) -> int | None:
        """The line of a key in the usual form, `key =` below `[table]`, or else the line of its table."""
        wanted, table, found = ".".join(place), "", None
        for number, line in enumerate(self._text.splitlines(), 1):
            bare = line.partition("#")[0].strip()
            if bare.startswith("["):
                table = _plain(bare.strip("[]"))
                if found is None and (table == ".".join(place[:-1]) or f"{table}.".startswith(f"{wanted}.")):
                    found = number
                key = table
            else:
                key = _plain(f"{table}.{bare.partition('=')[0]}").strip(".")
            if key == wanted:
                return number
        return found


def _plain(key: str) -> str:
    """A TOML key without quotes and without blanks around its parts."""
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
