"""The file of upstreams: TOML in, frozen values out. Every mistake names the file, the table and the key.

[[upstream]]
name = "local"
models = ["qwen*"]
url = "http://127.0.0.1:8000/v1"
format = "hermes"

`template=props` means the chat template that the upstream, a llama.cpp server, shows at `/props`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from ...errors import FormatError, SettingsError
from ...formats import registry
from ...formats.template import sources
from ...settings import OPTIONS, Settings, hide_login, read_variable, whole_path
from ...settings.settings import Faults, meant
from ...settings.toml_text import read_file, read_toml
from ..http.head import upstream_address
from .upstream.model_names import Rename, aliases_of
from .upstream.providers import PROVIDERS, with_mode
from .upstream.upstream import UpstreamConfig

# Keys that are settings `upstream_<key>` of the single case. `retries` is another setting, and keeps its meaning.
PREFIXED = ("url", "api", "key", "timeout", "connect_timeout", "total_timeout", "connections", "ids")
_PROXY = ("upstream_retries", "default_max_tokens")
_ALIASES = "model_aliases"
_OWN = ("name", "models", "rename", _ALIASES, "headers", "key_env", "weight")
_ROOMS = frozenset({"prompt", "parsing", "usage"})
# What only one upstream has: a value for all would send a key to whom it was not given for.
_SINGLE = ("upstream_url", "upstream_key", "upstream_api", "upstreams_file")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
# Written by the proxy itself; two of one kind would be read in two ways.
_FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "te", "upgrade"})
MAX_WEIGHT = 1e6
_log = logging.getLogger("toolcall_middleware")


def upstreams_of(settings: Settings) -> tuple[UpstreamConfig, ...]:
    """The upstreams that the settings describe: those of `upstreams_file`, or the one of `upstream_*`, which has every
    model. Raises SettingsError.
    """
    if settings.upstreams_file is not None:
        return read_upstreams(settings.upstreams_file, settings)
    settings = with_mode(settings)
    api = settings.upstream_api
    url = settings.upstream_url or (PROVIDERS[api].url if api in PROVIDERS else None)
    if url is None:
        raise SettingsError("There is no upstream: give --upstream URL or set TOOLCALL_UPSTREAM_URL.")
    return (UpstreamConfig(urlsplit(url).netloc.rpartition("@")[2], ("*",), with_template(settings)),)


def read_upstreams(path: str, base: Settings) -> tuple[UpstreamConfig, ...]:
    """The upstreams of the file at `path`, in its order. What a table does not say is as in `base`.

    `model_aliases` of the file, which precede its tables, take the place of those in `base`; a table's own are
    for its upstream alone.

    Raises SettingsError with all that is wrong, a line each.
    """
    if base.upstream_url is not None:
        raise SettingsError("Both upstream_url and upstreams_file are set: give one of them.")
    try:
        tables = read_toml(read_file(path))
    except ValueError as error:
        raise SettingsError(f"upstreams_file {path}: {error}.") from None
    faults = Faults()
    _known(path, tables, ("upstream", _ALIASES), faults)
    given = tables.get("upstream")
    if not isinstance(given, list) or not given or not all(isinstance(table, dict) for table in given):
        faults.note(f"{path}: there is no upstream; write a table [[upstream]] for each.")
        given = []
    base = base.replace(**{name: OPTIONS[name].default for name in _SINGLE})
    if _ALIASES in tables:
        base = base.replace(model_aliases=faults.read((), _aliases, path, tables[_ALIASES]))
    upstreams: list[UpstreamConfig] = []
    for number, table in enumerate(given, 1):
        name = table.get("name")
        where = f"{path}: [[upstream]] {number}" + (f" ({name!r})" if isinstance(name, str) else "")
        upstream = _Table(where, table, faults).read(base)
        if upstream.name and any(other.name == upstream.name for other in upstreams):
            faults.note(f"{where}: name: {upstream.name!r} is another one's already; give each its own.")
        if (other := _shadow(upstream, upstreams)) is not None:
            _log.warning("%s: %r, before it, has all of its models: it is asked only where that fails.", where, other)
        upstreams.append(upstream)
    faults.refuse()
    return tuple(upstreams)


def _shadow(upstream: UpstreamConfig, before: Sequence[UpstreamConfig]) -> str | None:
    """The upstream before this one whose wider globs take every model that this one names; None for none.

    Two with the same names are meant to replace each other, and one with a weight is asked in its turn.
    """
    if upstream.weight is not None:
        return None
    names = (*upstream.models, *(rule.pattern for rule in upstream.rename))
    wider = (
        other.name
        for other in before
        if all(any(glob != name and fnmatchcase(name, glob) for glob in other.models) for name in names)
    )
    return next(wider, None)


class _Table:
    """One `[[upstream]]` on its way to an UpstreamConfig. `where` begins its errors."""

    def __init__(self, where: str, table: Mapping[str, Any], faults: Faults) -> None:
        self._where = where
        self._table = table
        self._faults = faults

    def read(self, base: Settings) -> UpstreamConfig:
        """The upstream, with a default for what is wrong and noted."""
        table, read = self._table, self._faults.read
        _known(self._where, table, (*PREFIXED, *_OWN, *table_settings()), self._faults)
        values = {f"upstream_{key}": table[key] for key in PREFIXED if key in table}
        values |= {key: table[key] for key in table_settings() if key in table}
        if "key_env" in table:
            values["upstream_key"] = read(None, self._key_from_environment)
        settings = self._settings(base, values)
        rename = read((), self._rename)
        models = read(("*",), self._models, rename)
        if _ALIASES in table:
            own = read((), _aliases, self._where, table[_ALIASES])
            rename += tuple(aliases_of(base.replace(model_aliases=own)))
        name = read("", self._name, settings.upstream_url or "")
        return UpstreamConfig(name, models, settings, rename, read((), self._headers), read(None, self._weight))

    def _error(self, key: str, what: str) -> SettingsError:
        return SettingsError(f"{self._where}: {key}: {what}.")

    def _settings(self, base: Settings, values: Mapping[str, Any]) -> Settings:
        settings = base
        for name, value in values.items():
            settings = self._faults.read(settings, self._with, settings, name, value)
        provider = PROVIDERS.get(settings.upstream_api)
        if provider is not None and "mode" not in values:
            settings = settings.replace(mode="native")
        if settings.upstream_url is None and provider is not None:
            settings = settings.replace(upstream_url=provider.url)
        if "url" not in self._table and settings.upstream_url is None:
            self._faults.note(f"{self._where}: url: it is missing; give the upstream's base address.")
        return self._faults.read(settings, self._checked, settings)

    def _checked(self, settings: Settings) -> Settings:
        """`settings` with the template that they name. Raises SettingsError."""
        settings = with_template(settings)
        try:
            registry.of_settings(settings)
        except (FormatError, SettingsError) as error:
            raise SettingsError(f"{self._where}: {error}") from None
        return settings

    def _with(self, settings: Settings, name: str, value: Any) -> Settings:
        """`settings` with one more value. Raises SettingsError."""
        key = name if name in _PROXY else name.removeprefix("upstream_")
        if name == "upstream_url" and isinstance(value, str) and (fault := whole_path(value)):
            raise self._error(key, fault)
        if isinstance(value, dict) or (value == "" and name in {"upstream_url", "upstream_key"}):
            raise self._error(key, f"it is empty or a table; use {OPTIONS[name].allowed}")
        try:
            return settings.replace(**{name: value})
        except SettingsError as error:
            raise SettingsError(f"{self._where}: {str(error).replace(name, key, 1)}") from None

    def _key_from_environment(self) -> str:
        variable = self._table["key_env"]
        if "key" in self._table:
            raise self._error("key_env", "there is also `key`; give one of them")
        if not isinstance(variable, str) or not variable:
            raise self._error("key_env", f"{variable!r} is not allowed; use the name of a variable")
        key = read_variable(variable)
        if not key:
            raise self._error("key_env", f"the variable {variable} is not set")
        return key

    def _name(self, url: str) -> str:
        name = self._table.get("name")
        if name is None:
            return urlsplit(url).netloc.rpartition("@")[2]
        if not isinstance(name, str) or not re.fullmatch(r"[!-~](?:[ -~]{0,62}[!-~])?", name):
            raise self._error("name", f"{name!r} is not allowed; use 1 to 64 ASCII characters")
        return name

    def _models(self, rename: tuple[Rename, ...]) -> tuple[str, ...]:
        value = self._table.get("models", [] if rename else ["*"])
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self._error("models", f"{value!r} is not allowed; use a list of names or globs")
        if not value and not rename and _ALIASES not in self._table:
            raise self._error("models", "it is empty; give names or globs")
        return tuple(value)

    def _rename(self) -> tuple[Rename, ...]:
        given = self._table.get("rename", {})
        if not isinstance(given, dict):
            raise self._error("rename", f'{given!r} is not allowed; use {{client = "upstream\'s"}}')
        for pattern, target in given.items():
            wanted = "the upstream's name of it; one `*` is allowed, on the left or on both sides"
            if not isinstance(target, str) or not target or not pattern:
                raise self._error(f"rename.{pattern}", f"{target!r} is not allowed; use {wanted}")
            stars = (pattern.count("*"), target.count("*"))
            if re.search(r"[?\[\]]", pattern) or stars not in {(0, 0), (1, 0), (1, 1)}:
                raise self._error(f"rename.{pattern}", f"{target!r} is not allowed; use {wanted}")
        return tuple(Rename(pattern, target) for pattern, target in given.items())

    def _headers(self) -> tuple[tuple[bytes, bytes], ...]:
        headers: dict[bytes, bytes] = {}
        given = self._table.get("headers", {})
        if not isinstance(given, dict):
            raise self._error("headers", 'use {"name" = "value"}')
        for name, value in given.items():
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _FRAMING:
                raise self._error(f"headers.{name}", "it is no header that can be set")
            # Not shown: it may be a key.
            if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
                raise self._error(f"headers.{name}", "its value is not allowed; use ASCII text in one line")
            headers[name.lower().encode()] = value.strip().encode()
        return tuple(headers.items())

    def _weight(self) -> float | None:
        weight = self._table.get("weight")
        if weight is None:
            return None
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= MAX_WEIGHT:
            raise self._error("weight", f"{weight!r} is not allowed; use a number from 0 to {MAX_WEIGHT:g}")
        return float(weight)


def _aliases(where: str, value: Any) -> tuple[str, ...]:
    """Rules PATTERN=NAME: a string with commas, a list of them, or a table. Raises SettingsError."""
    given = [f"{pattern}={name}" for pattern, name in value.items()] if isinstance(value, dict) else value
    try:
        rules: tuple[str, ...] = OPTIONS[_ALIASES].read(given)
    except (ValueError, TypeError, KeyError):
        raise SettingsError(
            f"{where}: {_ALIASES}: {value!r} is not allowed; use {OPTIONS[_ALIASES].allowed}."
        ) from None
    return rules


def table_settings() -> tuple[str, ...]:
    """Settings that a table may hold by their own names."""
    return (*_PROXY, *(name for name, option in OPTIONS.items() if option.room in _ROOMS))


def _known(where: str, table: Mapping[str, Any], keys: tuple[str, ...], faults: Faults) -> None:
    for key in table:
        if key not in keys:
            faults.note(f"{where}: {key} is not a key here; {meant(key, keys)}")


_PROPS_SECONDS = 5.0


def with_template(settings: Settings) -> Settings:
    """The settings with the place of the upstream's template for `props`, asked for now.

    Where it cannot be had, `format=auto` goes on without it, and the log says why. Raises SettingsError for
    `format=template` and `send=completions`.
    """
    if settings.template != sources.PROPS or settings.upstream_url is None:
        return settings
    url = settings.upstream_url
    try:
        ask(url, settings.upstream_key)
    except SettingsError as error:
        if settings.format == "template" or settings.send == "completions":
            raise
        _log.warning("%s", error)
        return settings.replace(template=None)
    return settings.replace(template=url)


def ask(url: str, key: str | None) -> None:
    """Makes the address of a llama.cpp server, with or without `/v1`, a source of templates. Raises SettingsError."""
    from .upstream.client import ask_json

    place = upstream_address(url, "/props")
    try:
        props = ask_json(place, key, _PROPS_SECONDS)
    except SettingsError:
        raise
    except ValueError as error:
        raise SettingsError(f"template: {hide_login(place)} cannot be asked: {error}.") from None
    sources.remember(url, hide_login(place), props)
