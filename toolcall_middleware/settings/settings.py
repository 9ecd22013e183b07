"""The settings of one app: whose value an option gets, and where it came from. The only reader of the environment.

By hand (a keyword, a variable, a tenant's table) wins over the profile, that over the default. What each option allows
is in options.py.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, Unpack

from ..errors import SettingsError
from .keywords import Keywords
from .options import OPTIONS, PROFILES, Levels, Strictness, Values

ENV_PREFIX = "TOOLCALL_"
COMMAND_LINE = "_TOOLCALL_COMMAND_LINE"
"""A variable that names the settings whose variables the command line has set, for the app that it starts."""
_AS_OPTIONS = frozenset({"port", "host", "workers", "log_level", "inspect", "upstream", "upstreams"})
"""Options of `serve` that people take for settings."""
_SHOWN_AS = {"upstream": "upstream_url", "upstreams": "upstreams_file"}
_CHAT = "/chat/completions"
_T = TypeVar("_T")
_Default = TypeVar("_Default")
_Given = TypeVarTuple("_Given")


class Faults:
    """Collects the faults of settings, to raise them together."""

    def __init__(self, said: Iterable[str] = ()) -> None:
        self._said = list(said)

    def note(self, fault: str) -> None:
        """Add a fault."""
        self._said.append(fault)

    def read(self, default: _Default, reader: Callable[[*_Given], _T], *given: *_Given) -> _T | _Default:
        """Return what `reader(*given)` returns, or `default` where it raises a SettingsError, which is noted."""
        try:
            return reader(*given)
        except SettingsError as error:
            self._said.append(str(error))
            return default

    def refuse(self) -> None:
        """Raise a SettingsError with all that was noted, a line each, where anything was."""
        if self._said:
            raise SettingsError("\n".join(self._said))


class Settings(Values):
    """All options, validated and frozen. A keyword is an option's name; what is not given is the profile's or default.

    Raises SettingsError, naming the option and what it allows.
    """

    _given: dict[str, tuple[Any, str]]
    _values: dict[str, Any]
    _sources: dict[str, str]

    def __init__(self, **values: Unpack[Keywords]) -> None:
        self._fill({name: (value, "keyword") for name, value in values.items()})

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, /, **values: Unpack[Keywords]) -> Settings:
        """Settings from `TOOLCALL_*` variables; keywords win over them.

        An empty variable counts as not set: compose files and units write `NAME=` for what has no value, and that
        must not lift a limit.
        """
        given: dict[str, tuple[Any, str]] = {}
        variables = os.environ if environ is None else environ
        faults: list[str] = []
        as_options = variables.get(COMMAND_LINE, "").split(",")
        for variable, text in variables.items():
            if variable.startswith(ENV_PREFIX):
                name = variable[len(ENV_PREFIX) :].lower()
                if name not in OPTIONS:
                    faults.append(_unknown(variable[len(ENV_PREFIX) :], ENV_PREFIX))
                elif text.strip():
                    given[name] = (text, "command line" if name in as_options else f"environment {variable}")
        given.update({name: (value, "keyword") for name, value in values.items()})
        return cls._of(given, faults)

    @classmethod
    def _of(cls, given: Mapping[str, tuple[Any, str]], faults: Sequence[str] = ()) -> Settings:
        settings = cls.__new__(cls)
        settings._fill(given, faults)  # noqa: SLF001 - our own instance
        return settings

    def replace(self, **values: Unpack[Keywords]) -> Settings:
        """A copy with other values; profile presets apply to settings that were not set by hand."""
        return self.layer(values, "keyword")

    def layer(self, values: Mapping[str, Any], source: str) -> Settings:
        """The same, with `source` (a tenant, the request) as where the values come from."""
        return self._of(self._given | {name: (value, source) for name, value in values.items()})

    def by_hand(self, name: str) -> bool:
        """Whether a keyword or a variable set the option, and not its default or a profile."""
        return name in self._given

    @property
    def has_rates(self) -> bool:
        """Whether tool calls, requests or tokens in a time are limited."""
        return not (self.rate_limit is None and self.request_limit is None and self.token_limit is None)

    def _fill(self, given: Mapping[str, tuple[Any, str]], faults: Sequence[str] = ()) -> None:
        """Set the values. Raises SettingsError with all that is wrong, a line each; `faults` are those before."""
        noted = Faults(faults)
        values: dict[str, Any] = {name: option.default for name, option in OPTIONS.items()}
        sources = dict.fromkeys(OPTIONS, "default")
        for name, (value, source) in given.items():
            values[name] = noted.read(None, _read, name, value, source)
            sources[name] = source
        noted.refuse()
        for name, value in PROFILES[values["profile"]].items():
            if sources[name] == "default":
                values[name], sources[name] = value, f"profile {values['profile']}"
        checks = values["validate_arguments"]
        if checks not in {"off", "warn"} and sources["malformed_arguments"] == "default":
            # Coerced arguments are not those that the model wrote, so a check of them would show nothing.
            values["malformed_arguments"] = "error"
            sources["malformed_arguments"] = f"implied by validate_arguments={checks}"
        implying = (("validate_arguments", "off"), ("malformed_arguments", "repair"), ("arguments_as_object", False))
        for name, harmless in implying:
            if values[name] != harmless and values["stream_arguments"]:
                values["stream_arguments"] = False
                sources["stream_arguments"] = f"implied by {name}={show(values[name])}"
        # Plain attributes: they are read for each request.
        self.__dict__.update(values)
        self.__dict__["_given"] = dict(given)
        self.__dict__["_values"] = values
        self.__dict__["_sources"] = sources

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Settings are frozen; use settings.replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Settings are frozen; use settings.replace({name}=...)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        changed = ", ".join(f"{name}={shown}" for name, shown, source in self.explain() if source != "default")
        return f"Settings({changed})"

    def source(self, name: str) -> str:
        """Where the value of the setting `name` came from."""
        return self._sources[name]

    def where(self, name: str) -> str:
        """What a message calls the setting `name`: the variable that set it, or its own name."""
        return _where(name, self._sources[name])

    def explain(self) -> list[tuple[str, str, str]]:
        """Rows of (name, value as text with secrets hidden, source), in the order of the documentation."""
        rows = []
        for name, option in OPTIONS.items():
            value = self._values[name]
            shown = "(hidden)" if option.secret and value != option.default else hide_login(show(value))
            rows.append((name, shown, self._sources[name]))
        return rows


def show(value: Any) -> str:
    """A value as it would be written in a variable."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_variable(name: str) -> str | None:
    """The environment variable `name`, to which a file of settings refers; None when not set."""
    return os.environ.get(name)


def whole_path(url: str | None) -> str | None:
    """The fault of an upstream's address that includes the path of one request; None for any other."""
    base = (url or "").rstrip("/")
    if not base.lower().endswith(_CHAT):
        return None
    return f"leave out {_CHAT}, which is added: {hide_login(base[: -len(_CHAT)])}"


def hide_login(text: str) -> str:
    """`text` with the login of an address in it (`redis://:secret@host`, `redis://host?password=secret`) replaced by
    `***`.
    """
    # Up to the last @, because people write unescaped ones into passwords.
    text = re.sub(r"(?<=://).*@", "***@", text)
    text = re.sub(r"[^\s/'\"*]+:[^\s/]*@", "***@", text)  # as libraries quote one of several hosts, without a scheme
    return re.sub(r"(?i)([?&;][^=&;\s]*(?:pass|secret|token|key|auth|user)[^=&;\s]*=)[^&;\s'\"]*", r"\1***", text)


def _read(name: str, value: Any, source: str) -> Any:
    option = OPTIONS.get(name)
    if option is None:
        raise SettingsError(_unknown(name))
    try:
        return option.read(value)
    except (ValueError, TypeError, KeyError):
        where = _where(name, source)
        shown = "(hidden)" if option.secret else hide_login(repr(value))
        raise SettingsError(f"{where}: {shown} is not allowed; use {option.allowed}.") from None


def _where(name: str, source: str) -> str:
    return source.removeprefix("environment ") if source.startswith("environment") else name


def meant(name: str, known: Collection[str], spelled: Callable[[str], str] = str) -> str:
    """What a name that is not known may have meant, else all that there are: the end of a message."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {spelled(near[0])}?" if near else f"known: {', '.join(map(spelled, known))}"


def _unknown(name: str, prefix: str = "") -> str:
    if prefix and (option := name.lower()) in _AS_OPTIONS:
        setting = _SHOWN_AS.get(option)
        other = f", or the variable {prefix}{setting.upper()}" if setting else ""
        return f"{prefix}{name} is not a setting; it is an option of serve: --{option.replace('_', '-')}{other}"

    def spelled(option: str) -> str:
        return prefix + option.upper() if prefix else option

    # Compared without the prefix, which alone would make any two variables look alike.
    return f"{prefix}{name} is not a setting; {meant(name.lower(), sorted(OPTIONS), spelled)}"


def library_folder(*variables: str) -> Path | None:
    """The folder that one of these variables of another library names; the first that is set."""
    found = next((text for name in variables if (text := os.environ.get(name, "").strip())), None)
    return None if found is None else Path(found).expanduser()


def of_request(name: str) -> bool:
    """Whether a request may say something about this setting."""
    return name in OPTIONS and OPTIONS[name].strictness is not Strictness.OPERATOR


def is_looser(name: str, value: Any, settings: Settings) -> bool:
    """Whether `value` would loosen what `settings` say."""
    current = getattr(settings, name)
    match OPTIONS[name].strictness:
        case Strictness.OPERATOR:
            return bool(value != current)
        case Strictness.FREE:
            return False
        case Strictness.FEWER:
            return current is not None and (value is None or value > current)
        case Strictness.SUBSET:
            return settings.allowlist_mode != "off" and not all(_within(pattern, current) for pattern in value)
        case levels:
            return _level(levels, value) < _level(levels, current)


def _level(levels: Levels, value: Any) -> int:
    return next(number for number, values in enumerate(levels) if value in values)


def _within(pattern: str, patterns: tuple[str, ...]) -> bool:
    """Whether all that `pattern` admits is admitted by `patterns`: a name that they admit, or one of them."""
    return pattern in patterns or (not set("*?[") & set(pattern) and admits(patterns, pattern))


def admits(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a tool's name is one of `patterns`: names, or globs with `*`, `?` and `[...]`."""
    return _matcher(patterns)(name) is not None


@functools.lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    """All patterns in one regular expression: each is compared with each tool of each request."""
    return re.compile("|".join(map(fnmatch.translate, patterns)) or "(?!)").match
