"""The table of options: which there are, what each defaults to and allows, and how its value is read.

A reader takes what a variable or a keyword holds, a string or a Python value, and gives the option's own type; what
the option does not allow is a ValueError, TypeError or KeyError. Where values come from is for settings.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


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
        ("guard", "upload_timeout", 60.0, ("seconds, more than 0, or none", _optional_seconds),
         "Longest wait for the next piece of a request's body, which may lag behind 1 KiB a second by as much."),
        ("guard", "max_response_bytes", 64 * _MIB, _integer(1, optional=True), "Bytes of a whole answer."),
        ("guard", "allowlist", (), ("names or globs, comma separated, or none", _names), "Tools that may be used."),
        ("guard", "allowlist_mode", "off", _choice("enforce", "warn", "off"), "What the list does; `off`: nothing."),
        ("guard", "rate_limit", None, ("a rate such as 60/minute or 10 per 30 seconds, or none", _rate),
         "Tool calls of a tenant in a time; an answer with five calls counts five. Nothing is reserved while it runs."),
        ("guard", "rate_limit_storage", "memory://", ("memory://, redis://HOST or another URI of limits", _word),
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


OPTIONS: Mapping[str, Option] = _options()
