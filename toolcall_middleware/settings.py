"""Every option, its default, what it allows and where its value came from. The only reader of the environment."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .errors import SettingsError

ENV_PREFIX = "TOOLCALL_"


@dataclass(frozen=True, slots=True)
class Option:
    """One setting. `read` turns a string or a Python value into the setting's type or raises ValueError."""

    name: str
    default: Any
    allowed: str
    read: Callable[[Any], Any]
    room: str
    help: str
    secret: bool = False


def _choice(*values: str) -> tuple[str, Callable[[Any], Any]]:
    def read(value: Any) -> str:
        if isinstance(value, str) and value.strip().lower() in values:
            return value.strip().lower()
        raise ValueError

    return ", ".join(values), read


def _flag() -> tuple[str, Callable[[Any], Any]]:
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}

    def read(value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in words:
            return words[value.strip().lower()]
        raise ValueError

    return "true or false", read


_UNITS = {"": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}


def _integer(least: int, *, optional: bool) -> tuple[str, Callable[[Any], Any]]:
    def read(value: Any) -> int | None:
        if value is None or (isinstance(value, str) and value.strip().lower() in {"none", ""}):
            if optional:
                return None
            raise ValueError
        if isinstance(value, str):
            text = value.strip().lower().replace("_", "").replace(" ", "")
            digits = text.rstrip("bikm")
            value = int(digits) * _UNITS[text[len(digits) :]] if text[len(digits) :] in _UNITS else None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError
        return value

    return f"an integer of at least {least}" + (" or none" if optional else ""), read


def _seconds(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if not 0 < number < 1e9:
        raise ValueError
    return number


def _optional_seconds(value: Any) -> float | None:
    if value is None or (isinstance(value, str) and value.strip().lower() in {"", "none"}):
        return None
    return _seconds(value)


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value.strip().lower() in {"", "none"}):
        return None
    if not isinstance(value, str) or "\n" in value or "\r" in value:
        raise ValueError
    return value.strip()


def _word(value: Any) -> str:
    text = _text(value)
    if text is None:
        raise ValueError
    return text


def _names(value: Any) -> tuple[str, ...]:
    if value is None or (isinstance(value, str) and value.strip().lower() in {"", "none"}):
        return ()
    items = value.split(",") if isinstance(value, str) else list(value)
    if not all(isinstance(item, str) for item in items):
        raise ValueError
    return tuple(item.strip() for item in items if item.strip())


def _paths(value: Any) -> tuple[str, ...]:
    paths = _names(value)
    if not paths or not all(path.startswith("/") for path in paths):
        raise ValueError
    return paths


def _tokenizer(value: Any) -> str:
    text = _word(value)
    kind, colon, name = text.partition(":")
    if text in {"approximate", "upstream"} or (kind in {"tiktoken", "hf"} and colon and name):
        return text
    raise ValueError


def _url(value: Any) -> str | None:
    """A base address: a query or fragment has no place where request paths are added to it."""
    text = _text(value)
    if text is None:
        return None
    parts = urlsplit(text)
    # Reading the port is what checks it.
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0 or "?" in text or "#" in text:
        raise ValueError
    if any(char <= " " or char > "~" for char in text):
        raise ValueError
    parts.hostname.encode("idna")  # UnicodeError is a ValueError
    return text.rstrip("/")


# What can stand in a header; a key with a space or a line end in it is a mistake that no request would survive.
_KEY = re.compile(r"[!-~]+")


def _key(value: Any) -> str | None:
    text = _text(value)
    if text is not None and not _KEY.fullmatch(text):
        raise ValueError
    return text


def _keys(value: Any) -> tuple[str, ...]:
    keys = _names(value)
    given = bool(value) and not (isinstance(value, str) and value.strip().lower() in {"", "none"})
    # "$A,$B" with both unset is a comma: it must not open the proxy to everybody.
    if given and not keys:
        raise ValueError
    if not all(_KEY.fullmatch(key) for key in keys):
        raise ValueError
    return keys


_RATE = re.compile(r"[1-9]\d{0,8} ?(?:/|per) ?(?:[1-9]\d{0,5} )?(?:second|minute|hour|day|month|year)s?")


def _rate(value: Any) -> str | None:
    text = _text(value)
    if text is None:
        return None
    text = " ".join(text.lower().split())
    if not _RATE.fullmatch(text):
        raise ValueError
    return text


_USED = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "error", "system_fingerprint", "service_tier"}
)


def _extension(value: Any) -> str | None:
    text = _text(value)
    if text in _USED:
        raise ValueError
    return text


def _header(value: Any) -> str:
    name = _word(value).lower()
    if not re.fullmatch(r"[a-z0-9!#$%&'*+.^_`|~-]+", name):
        raise ValueError
    return name


_LIST = "names, comma separated, or none"
_KIB = 1024
_MIB = 1024 * _KIB


def _options() -> dict[str, Option]:
    rows: list[tuple[str, str, Any, tuple[str, Callable[[Any], Any]], str]] = [
        ("prompt", "mode", "prompt", _choice("prompt", "native", "auto", "off"),
         "`prompt`: tools go into the prompt, calls are read from text. `off`: everything passes."),
        ("prompt", "format", "auto", ("auto or a format's name", _word), "How calls are written and read."),
        ("prompt", "profile", "compat", _choice("compat", "gateway", "strict"), "A preset of other settings."),
        ("prompt", "paths", ("/chat/completions",), ("path suffixes, comma separated, each with a leading /", _paths),
         "Which paths are intercepted (POST only)."),
        ("prompt", "constrain", "auto",
         _choice("auto", "off", "response_format", "structured_outputs", "structural_tag", "llama_cpp"),
         "What to ask of the backend's constrained decoding for `required`, a named tool or `strict: true`."),
        ("prompt", "retries", 1, _integer(0, optional=False),
         "New tries when `required` or a named tool got no call."),
        ("prompt", "parallel", "client", _choice("client", "never"), "Whether several calls may come in one answer."),
        ("parsing", "unknown_tool", "text", _choice("text", "drop", "forward", "error"),
         "A call of a name that is not offered."),
        ("parsing", "malformed_arguments", "repair", _choice("repair", "text", "error"),
         "Arguments that are not JSON."),
        ("parsing", "stream_arguments", True, _flag(),
         "`true`: fragments as the model writes them. `false`: a call goes out when it is complete and valid."),
        ("parsing", "reasoning", "ignore", _choice("ignore", "parse"), "Markup inside reasoning."),
        ("parsing", "reasoning_field", None, ("none, reasoning or reasoning_content", _reasoning_field),
         "Where reasoning found in the text goes; none leaves it in content as written."),
        ("parsing", "prose", "keep", _choice("keep", "drop"), "Text beside calls."),
        ("prompt", "messages", "plain", _choice("plain", "keep"),
         "How history reaches a text backend; `keep` rewrites only messages with calls or results."),
        ("prompt", "system_role", "system", _choice("system", "user"), "For templates that have no system role."),
        ("prompt", "special_tokens", "auto", _choice("auto", "on", "off"),
         "Whether `skip_special_tokens: false` is sent for formats whose markers are special tokens."),
        ("parsing", "validate_arguments", "off", _choice("off", "warn", "error", "retry"),
         "The finished call against the tool's schema, before the client sees it."),
        ("usage", "usage", "auto", _choice("auto", "backend", "count", "off"),
         "`auto`: the backend's own numbers, counted where it gives none."),
        ("usage", "tokenizer", "approximate", ("approximate, upstream, tiktoken:NAME or hf:PATH_OR_NAME", _tokenizer),
         "What counts tokens where the backend does not."),
        ("prompt", "drop_params", (), (_LIST, _names), "Request fields that are not sent on."),
        ("guard", "max_tools", 128, _integer(0, optional=True), "Tools in a request."),
        ("guard", "max_tool_name_length", 64, _integer(1, optional=True), "Characters in a tool's name."),
        ("guard", "max_description_length", None, _integer(0, optional=True), "Characters in a description."),
        ("guard", "max_schema_depth", None, _integer(1, optional=True), "Levels of a tool's schema."),
        ("guard", "max_arguments_bytes", 4 * _MIB, _integer(2, optional=True), "Bytes of one call's arguments."),
        ("guard", "max_tool_calls", 128, _integer(1, optional=True), "Calls in an answer; generation stops there."),
        ("guard", "max_tool_rounds", None, _integer(1, optional=True), "Assistant turns with calls in the history."),
        ("guard", "max_messages", None, _integer(1, optional=True), "Messages in a request."),
        ("guard", "max_result_bytes", None, _integer(1, optional=True), "Longer tool results are truncated."),
        ("guard", "max_request_bytes", 32 * _MIB, _integer(1, optional=True), "Bytes of a request."),
        ("guard", "max_response_bytes", 64 * _MIB, _integer(1, optional=True), "Bytes of a whole answer."),
        ("guard", "allowlist", (), ("names or globs, comma separated, or none", _names), "Tools that may be used."),
        ("guard", "allowlist_mode", "off", _choice("enforce", "warn", "off"), "What the allowlist does."),
        ("guard", "rate_limit", None, ("a rate such as 60/minute or 10 per 30 seconds, or none", _rate),
         "Tool calls of a tenant in a time; an answer with five calls counts five."),
        ("guard", "rate_limit_storage", "memory://", ("a storage URI of the limits library: redis://host", _word),
         "Where they are counted; several workers or machines share a Redis."),
        ("guard", "rate_limit_failure", "open", _choice("open", "closed"),
         "When the storage is down: requests pass uncounted, or are refused."),
        ("guard", "tenant_header", "authorization", ("a header's name", _header), "What tells tenants apart."),
        ("guard", "tenants_file", None, ("a path, or none", _text), "TOML with settings by tenant."),
        ("strict", "arguments_as_object", False, _flag(), "Arguments as a JSON object, not a string."),
        ("strict", "rewrite_ids", False, _flag(), "Own call ids in native mode too."),
        ("strict", "require_descriptions", False, _flag(), "Tools and parameters must be described."),
        ("strict", "refuse_deprecated", False, _flag(), "`functions` and `function_call` are refused."),
        ("strict", "strict_names", False, _flag(), "Names of tools must match `^[a-zA-Z0-9_]+$`."),
        ("strict", "strict_schemas", False, _flag(), "A tool with `strict: true` is held to OpenAI's rules for it."),
        ("strict", "strict_ids", False, _flag(), "Call ids in the history must match `^call_[a-zA-Z0-9]+$`."),
        ("strict", "strict_results", False, _flag(), "Every call in the history has one result, right behind it."),
        ("guard", "call_index", False, _flag(), "Calls of whole answers have an `index`, as those of streams."),
        ("guard", "extension_field", None, ("a field's name that OpenAI's API does not use, or none", _extension),
         "Warnings are added to answers under this key."),
        ("proxy", "upstream_url", None, ("an http:// or https:// address without a query, or none", _url),
         "The upstream's base address, `/v1` included."),
        ("proxy", "upstream_api", "openai", _choice("openai", "anthropic", "google"), "What the upstream speaks."),
        ("proxy", "upstream_ids", None, ("none or mistral", _id_form),
         "The form of call ids that the upstream demands; `mistral`: nine letters and digits."),
        ("proxy", "upstream_key", None, ("a key, or none", _key), "Sent to the upstream instead of the client's."),
        ("proxy", "upstreams_file", None, ("a path, or none", _text), "TOML with several upstreams."),
        ("proxy", "upstream_timeout", 300.0, ("seconds, more than 0", _seconds), "Longest wait for a next byte."),
        ("proxy", "default_max_tokens", 8192, _integer(1, optional=False),
         "Length of an answer where the client gives none and the upstream's API wants one (Anthropic's)."),
        ("proxy", "upstream_connect_timeout", 10.0, ("seconds, more than 0", _seconds),
         "Longest wait for a connection."),
        ("proxy", "upstream_total_timeout", None, ("seconds, more than 0, or none", _optional_seconds),
         "Longest a whole answer may take."),
        ("proxy", "upstream_connections", None, _integer(1, optional=True),
         "Connections open to an upstream at a time; more requests wait for one."),
        ("proxy", "upstream_retries", 2, _integer(0, optional=False),
         "New tries where no connection was had, or after a 429 or 503 that says to come back soon."),
        ("proxy", "api_keys", (), ("keys or NAME=KEY, comma separated, or none", _keys),
         "Keys, one of which clients of the proxy must show; a name tells whose it is."),
        ("proxy", "shutdown_grace", 30, _integer(0, optional=False),
         "Seconds that running answers may go on after a signal to stop."),
        ("proxy", "access_log", "text", _choice("text", "json", "off"), "One line a request on standard output."),
    ]  # fmt: skip
    secret = {"upstream_key", "api_keys", "rate_limit_storage"}
    return {
        name: Option(name, default, allowed, read, room, text, name in secret)
        for room, name, default, (allowed, read), text in rows
    }


def _id_form(value: Any) -> str | None:
    text = _text(value)
    if text not in {None, "mistral"}:
        raise ValueError
    return text


def _reasoning_field(value: Any) -> str | None:
    text = _text(value)
    if text not in {None, "reasoning", "reasoning_content"}:
        raise ValueError
    return text


OPTIONS: Mapping[str, Option] = _options()

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "compat": {},
    "gateway": {
        "max_description_length": 1024,
        "max_schema_depth": 5,
        "max_arguments_bytes": 64 * _KIB,
        "max_tool_calls": 20,
        "extension_field": "_toolcall",
        "call_index": True,
    },
    "strict": {
        "arguments_as_object": True,
        "rewrite_ids": True,
        "require_descriptions": True,
        "malformed_arguments": "error",
        "refuse_deprecated": True,
        "strict_names": True,
        "strict_schemas": True,
        "strict_ids": True,
        "strict_results": True,
    },
}

MAXIMA: Mapping[str, Mapping[str, int]] = {
    "gateway": {
        "max_description_length": 4096,
        "max_schema_depth": 10,
        "max_arguments_bytes": 256 * _KIB,
        "max_tool_calls": 50,
    },
}
"""The most that a tenant may be given under a profile, whatever its table says."""


class Settings:
    """All options, validated and frozen. A keyword is an option's name; what is not given is the profile's or default.

    Raises SettingsError, naming the option and what it allows.
    """

    mode: str
    format: str
    profile: str
    paths: tuple[str, ...]
    constrain: str
    retries: int
    parallel: str
    unknown_tool: str
    malformed_arguments: str
    stream_arguments: bool
    reasoning: str
    reasoning_field: str | None
    prose: str
    messages: str
    system_role: str
    special_tokens: str
    validate_arguments: str
    usage: str
    tokenizer: str
    drop_params: tuple[str, ...]
    max_tools: int | None
    max_tool_name_length: int | None
    max_description_length: int | None
    max_schema_depth: int | None
    max_arguments_bytes: int | None
    max_tool_calls: int | None
    max_tool_rounds: int | None
    max_messages: int | None
    max_result_bytes: int | None
    max_request_bytes: int | None
    max_response_bytes: int | None
    allowlist: tuple[str, ...]
    allowlist_mode: str
    rate_limit: str | None
    rate_limit_storage: str
    rate_limit_failure: str
    tenant_header: str
    tenants_file: str | None
    arguments_as_object: bool
    rewrite_ids: bool
    require_descriptions: bool
    refuse_deprecated: bool
    strict_names: bool
    strict_schemas: bool
    strict_ids: bool
    strict_results: bool
    call_index: bool
    extension_field: str | None
    upstream_url: str | None
    upstream_api: str
    upstream_ids: str | None
    upstream_key: str | None
    upstreams_file: str | None
    upstream_timeout: float
    default_max_tokens: int
    upstream_connect_timeout: float
    upstream_total_timeout: float | None
    upstream_connections: int | None
    upstream_retries: int
    api_keys: tuple[str, ...]
    shutdown_grace: int
    access_log: str
    _given: dict[str, tuple[Any, str]]
    _values: dict[str, Any]
    _sources: dict[str, str]

    def __init__(self, **values: Any) -> None:
        given = {name: (value, "keyword") for name, value in values.items()}
        self._fill(given)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, /, **values: Any) -> Settings:
        """Settings from `TOOLCALL_*` variables; keywords win over them.

        An empty variable counts as not set: compose files and units write `NAME=` for what has no value, and that
        must not lift a limit.
        """
        given: dict[str, tuple[Any, str]] = {}
        for variable, text in (os.environ if environ is None else environ).items():
            if variable.startswith(ENV_PREFIX):
                name = variable[len(ENV_PREFIX) :].lower()
                if name not in OPTIONS:
                    raise SettingsError(_unknown(variable[len(ENV_PREFIX) :], ENV_PREFIX))
                if text.strip():
                    given[name] = (text, f"environment {variable}")
        given.update({name: (value, "keyword") for name, value in values.items()})
        settings = cls.__new__(cls)
        settings._fill(given)  # noqa: SLF001 - our own instance
        return settings

    def replace(self, **values: Any) -> Settings:
        """A copy with other values; profile presets apply to what nobody set by hand."""
        return self.layer(values, "keyword")

    def layer(self, values: Mapping[str, Any], source: str) -> Settings:
        """The same, with `source` (a tenant, the request) as where the values come from."""
        given = self._given | {name: (value, source) for name, value in values.items()}
        settings = type(self).__new__(type(self))
        settings._fill(given)  # noqa: SLF001 - our own instance
        return settings

    def by_hand(self, name: str) -> bool:
        """Whether a keyword or a variable set the option, and not its default or a profile."""
        return name in self._given

    def _fill(self, given: Mapping[str, tuple[Any, str]]) -> None:
        values: dict[str, Any] = {name: option.default for name, option in OPTIONS.items()}
        sources = dict.fromkeys(OPTIONS, "default")
        for name, (value, source) in given.items():
            if name not in OPTIONS:
                raise SettingsError(_unknown(name))
            values[name] = _read(OPTIONS[name], value, source)
            sources[name] = source
        for name, value in PROFILES[values["profile"]].items():
            if sources[name] == "default":
                values[name], sources[name] = value, f"profile {values['profile']}"
        implying = (("malformed_arguments", "repair"), ("validate_arguments", "off"), ("arguments_as_object", False))
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
    """The environment variable `name`, for what a file of settings leaves to the environment; None when not set."""
    return os.environ.get(name)


def hide_login(text: str) -> str:
    """`text` with the login of an address in it (`redis://:secret@host`) replaced by `***`."""
    # Up to the last @, because people write unescaped ones into passwords.
    return re.sub(r"(?<=://).*@", "***@", text)


def _read(option: Option, value: Any, source: str) -> Any:
    try:
        return option.read(value)
    except (ValueError, TypeError, KeyError):
        where = source.removeprefix("environment ") if source.startswith("environment") else option.name
        shown = "(hidden)" if option.secret else hide_login(repr(value))
        raise SettingsError(f"{where}: {shown} is not allowed; use {option.allowed}.") from None


def _unknown(name: str, prefix: str = "") -> str:
    # Compared without the prefix, which alone would make any two variables look alike.
    near = difflib.get_close_matches(name.lower(), OPTIONS, n=1)
    known = [prefix + (option.upper() if prefix else option) for option in near or sorted(OPTIONS)]
    hint = f"did you mean {known[0]}?" if near else "known: " + ", ".join(known)
    return f"{prefix}{name} is not a setting; {hint}"


def library_folder(*variables: str) -> Path | None:
    """The folder that one of these variables of another library names; the first that is set."""
    found = next((text for name in variables if (text := os.environ.get(name, "").strip())), None)
    return None if found is None else Path(found).expanduser()
