"""How the values of settings are read: from the text of a variable or from a Python value.

A reader takes what a variable or a keyword holds and gives the setting's own type; what the setting does not allow is
a ValueError, TypeError or KeyError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Reader:
    """What a setting allows."""

    type: str
    """The type of its values, as an annotation."""
    allowed: str
    """The values, in words."""
    read: Callable[[Any], Any]


def choice(*values: str) -> Reader:
    """One of `values`, in any case."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value.strip().lower() in values:
            return value.strip().lower()
        raise ValueError

    return Reader("str", ", ".join(values), read)


def flag() -> Reader:
    """True or false, also in the words that people write for them."""
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}

    def read(value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in words:
            return words[value.strip().lower()]
        raise ValueError

    return Reader("bool", "true or false", read)


_UNITS = {"": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}


def integer(least: int, *, optional: bool) -> Reader:
    """A number, or a size such as `64k`. `optional`: or none."""

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

    kind, more = ("int | None", " or none") if optional else ("int", "")
    return Reader(kind, f"an integer of at least {least}{more}", read)


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


def _regex(value: Any) -> str | None:
    text = _text(value)
    if text is not None:
        try:
            re.compile(text)
        except re.error:
            raise ValueError from None
    return text


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


def _forward_paths(value: Any) -> tuple[str, ...]:
    paths = _names(value)
    if not all(path == "*" or (path.startswith("/") and "*" not in path.removesuffix("/*")) for path in paths):
        raise ValueError
    return paths


_HOST = re.compile(r"(?:\*\.)?[a-z0-9._-]+|\[[0-9a-f:.]+\]|\*")


def _hosts(value: Any) -> tuple[str, ...]:
    hosts = tuple(name.lower() for name in _names(value))
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise ValueError
    return hosts


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s,?#@*]+|\*")


def _origins(value: Any) -> tuple[str, ...]:
    origins = tuple(name.lower().rstrip("/") for name in _names(value))
    if not all(_ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError
    return origins


_FACES = ("chat", "messages", "responses")


def _faces(value: Any) -> tuple[str, ...]:
    faces = tuple(dict.fromkeys(name.lower() for name in _names(value)))
    if faces != ("auto",) and (not faces or not set(faces) <= set(_FACES)):
        raise ValueError
    return faces


def _aliases(value: Any) -> tuple[str, ...]:
    """`PATTERN=NAME`: one `*` at most in each, as in the upstreams file; in the name only where the pattern has it."""
    rules = []
    for rule in _names(value):
        pattern, equals, name = (part.strip() for part in rule.partition("="))
        if not equals or not pattern or not name or pattern.count("*") > 1 or name.count("*") > pattern.count("*"):
            raise ValueError
        rules.append(f"{pattern}={name}")
    return tuple(rules)


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


_METRICS_PATH = re.compile(r"/[A-Za-z0-9._/-]*[A-Za-z0-9._-]")


def _metrics(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    text = _word(value)
    if text.lower() in {"off", "on"}:
        return text.lower()
    if not _METRICS_PATH.fullmatch(text):
        raise ValueError
    return text


def _share(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError
    return number


# Long enough that nobody guesses it, and nothing that an address would have to quote.
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")


def _token(value: Any) -> str | None:
    text = _text(value)
    if text is not None and not _TOKEN.fullmatch(text):
        raise ValueError
    return text


FORMAT = Reader("str", "auto or a format's name", _word)
TEMPLATE = Reader(
    "str | None", "a checkpoint's folder or file, a model's name in Hugging Face's cache, cache, props, or none", _text
)
PATHS = Reader("tuple[str, ...]", "path suffixes, comma separated, each with a leading /", _paths)
FORWARD_PATHS = Reader(
    "tuple[str, ...]",
    "paths, comma separated, each with a leading /, `/*` at the end for all below; or *, or none",
    _forward_paths,
)
HOSTS = Reader("tuple[str, ...]", "host names without ports, `*.` before one for all below it, *, or none", _hosts)
ORIGINS = Reader("tuple[str, ...]", "origins such as https://app.example, *, or none", _origins)
REASONING_FIELD = Reader("str | None", "none, reasoning or reasoning_content", _reasoning_field)
FACES = Reader("tuple[str, ...]", "auto, or chat, messages, responses, comma separated", _faces)
ALIASES = Reader("tuple[str, ...]", "PATTERN=NAME, comma separated, a * at most in each, or none", _aliases)
TOKENIZER = Reader("str", "approximate, upstream, tiktoken:NAME or hf:PATH_OR_NAME", _tokenizer)
NAMES = Reader("tuple[str, ...]", "names, comma separated, or none", _names)
OPTIONAL_SECONDS = Reader("float | None", "seconds, more than 0, or none", _optional_seconds)
PATTERNS = Reader("tuple[str, ...]", "names or globs, comma separated, or none", _names)
RATE = Reader("str | None", "a rate such as 60/minute or 10 per 30 seconds, or none", _rate)
STORAGE = Reader("str", "memory://, redis://HOST or another URI of limits", _word)
HEADER = Reader("str", "a header's name", _header)
PATH = Reader("str | None", "a path, or none", _text)
REGEX = Reader("str | None", "a regular expression, or none", _regex)
EXTENSION = Reader("str | None", "a field's name that OpenAI's API does not use, or none", _extension)
URL = Reader("str | None", "an http:// or https:// address without a query, or none", _url)
ID_FORM = Reader("str | None", "none or mistral", _id_form)
KEY = Reader("str | None", "a key, or none", _key)
SECONDS = Reader("float", "seconds, more than 0", _seconds)
KEYS = Reader("tuple[str, ...]", "keys or NAME=KEY, comma separated, or none", _keys)
METRICS = Reader("str", "off, on (at /metrics) or a path such as /internal/metrics", _metrics)
SHARE = Reader("float", "a number from 0 to 1", _share)
TOKEN = Reader("str | None", "16 to 128 letters, digits, - and _, or none", _token)
