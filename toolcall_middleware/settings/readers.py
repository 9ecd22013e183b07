"""How the values of settings are read, from a variable's text or from a value of Python or TOML, by `msgspec.convert`.

A reader is a type with its bounds and patterns, and the text forms of its values: `none`, `64k`, `on`, names with
commas. Values that no type describes (an address, a regular expression) are checked after the conversion.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta


@dataclass(frozen=True, slots=True)
class Reader:
    """What a setting allows."""

    allowed: str
    """The values, in words."""
    kind: Any
    """The type of its values with all bounds, for msgspec."""
    tidy: Callable[[Any], Any]
    """Converts text to a value of that type; returns other values unchanged."""
    check: Callable[[Any], Any] | None = None
    """Checks what the type cannot describe: returns the value, or raises ValueError."""

    def read(self, value: Any) -> Any:
        """The setting's value. Raises ValueError or TypeError for what is not allowed."""
        tidied = self.tidy(value)
        try:
            # Only text may be converted to another type: in TOML and Python 1 is not true.
            found = msgspec.convert(tidied, self.kind, strict=not isinstance(tidied, str))
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
        return found if self.check is None else self.check(found)


# --- text forms


def _plain(value: Any) -> Any:
    """Text without blanks around it; `none` and nothing are None."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    return None if text.lower() in {"", "none"} else text


def _line(value: Any) -> Any:
    """Like `_plain`, but a line end anywhere, also at the end, is a fault: too much was pasted."""
    text = _plain(value)
    if text is not None and isinstance(value, str) and not {"\r", "\n"}.isdisjoint(value):
        raise ValueError("there is a line end in it")
    return text


def _text_of(tidy: Callable[[Any], Any], change: Callable[[str], Any]) -> Callable[[Any], Any]:
    """`tidy`, and then `change` where that gives text."""

    def changed(value: Any) -> Any:
        text = tidy(value)
        return change(text) if isinstance(text, str) else text

    return changed


_SIZE = re.compile(r"([+-]?\d+)(?:(k)|(m)|$)(?:i?b)?", re.IGNORECASE | re.ASCII)


def _bytes(text: str) -> int | str:
    """The bytes of a size such as `64k`; other text as it is."""
    found = _SIZE.fullmatch(text.replace(" ", ""))
    return text if found is None else int(found[1]) * (1024 if found[2] else 1 << 20 if found[3] else 1)


_WORDS = {"yes": True, "on": True, "no": False, "off": False}
_lower = _text_of(_plain, str.lower)
_truth = _text_of(_lower, lambda text: _WORDS.get(text, text))
_number = _text_of(_plain, lambda text: text.replace("_", ""))
_size = _text_of(_number, _bytes)
_rate = _text_of(_line, lambda text: " ".join(text.lower().split()))
_header = _text_of(_line, str.lower)


def _names(value: Any) -> tuple[Any, ...]:
    """Names with commas between them, or several of them."""
    found = _plain(value)
    items = () if found is None else found.split(",") if isinstance(found, str) else tuple(found)
    stripped = (item.strip() if isinstance(item, str) else item for item in items)
    return tuple(item for item in stripped if item != "")


def _each(change: Callable[[str], str]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(change(name) if isinstance(name, str) else name for name in _names(value))


_lower_names = _each(str.lower)
_origins = _each(lambda name: name.lower().rstrip("/"))


def _switch(value: Any) -> Any:
    """`on` and `off` in any case, or a path as it is."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return _lower(value) if str(value).strip().lower() in {"on", "off"} else _line(value)


# --- types


def _text(pattern: str) -> Any:
    # Text has no line end at its end any more, which `$` would let through.
    return Annotated[str, Meta(pattern=f"^(?:{pattern})$")]


_SECONDS = Annotated[float, Meta(gt=0, lt=1e9)]
_ONE_KEY = _text(r"[!-~]+")  # characters that a header may hold
_PATH = _text(r"/[^\r\n]*")


def choice(*values: str) -> Reader:
    """One of `values`, in any case."""
    # Its own `none` and nothing are words here as all others.
    return Reader(", ".join(values), Literal[values], lambda value: _lower(value) or value)


def flag() -> Reader:
    """True or false, also in the words that people write for them."""
    return Reader("true or false", bool, _truth)


def integer(least: int, *, optional: bool) -> Reader:
    """A number, or a size such as `64k`. `optional`: or none."""
    kind: Any = Annotated[int, Meta(ge=least)]
    allowed = f"an integer of at least {least}"
    return Reader(f"{allowed} or none", kind | None, _size) if optional else Reader(allowed, kind, _size)


def _maybe(allowed: str, kind: Any, tidy: Callable[[Any], Any] = _line, check: Any = None) -> Reader:
    return Reader(allowed, kind | None, tidy, check)


def _many(allowed: str, kind: Any, tidy: Callable[[Any], Any] = _names, check: Any = None) -> Reader:
    return Reader(allowed, tuple[kind, ...], tidy, check)


# --- checks beyond types


def _regex(value: str | None) -> str | None:
    try:
        re.compile(value or "")
    except re.error:
        raise ValueError from None
    return value


def _some(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError
    return value


def _faces(value: tuple[str, ...]) -> tuple[str, ...]:
    faces = tuple(dict.fromkeys(value))
    if not faces or ("auto" in faces and len(faces) > 1):
        raise ValueError
    return faces


def _aliases(value: tuple[str, ...]) -> tuple[str, ...]:
    """`PATTERN=NAME`: one `*` at most in each, as in the upstreams file; in the name only where the pattern has it."""
    rules = []
    for rule in value:
        pattern, equals, name = (part.strip() for part in rule.partition("="))
        if not equals or not pattern or not name or pattern.count("*") > 1 or name.count("*") > pattern.count("*"):
            raise ValueError
        rules.append(f"{pattern}={name}")
    return tuple(rules)


def _url(value: str | None) -> str | None:
    """A base address: a query or fragment has no place where request paths are added to it."""
    if value is None:
        return None
    parts = urlsplit(value)
    # Reading the port is what checks it.
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError
    parts.hostname.encode("idna")  # UnicodeError is a ValueError
    return value.rstrip("/")


def _keys(value: Any) -> tuple[Any, ...]:
    keys = _names(value)
    # "$A,$B" with both unset is a comma: it must not open the proxy to everybody.
    if not keys and value and _plain(value) is not None:
        raise ValueError
    return keys


_RATES = r"[1-9]\d{0,8} ?(?:/|per) ?(?:[1-9]\d{0,5} )?(?:second|minute|hour|day|month|year)s?"
_HOST = r"(?:\*\.)?[a-z0-9._-]+|\[[0-9a-f:.]+\]|\*"
_ORIGIN = r"[a-z][a-z0-9+.-]*://[^/\s,?#@*]+|\*"
_USED = "id|object|created|model|choices|usage|error|system_fingerprint|service_tier"
_HEADER = r"[a-z0-9!#$%&'*+.^_`|~-]+"

FORMAT = Reader("auto or a format's name", str, _line)
TEMPLATE = _maybe("a checkpoint's folder or file, a model's name in Hugging Face's cache, cache, props, or none", str)
PATHS = _many("path suffixes, comma separated, each with a leading /", _PATH, check=_some)
FORWARD_PATHS = _many(
    "paths, comma separated, each with a leading /, `/*` at the end for all below; or *, or none",
    _text(r"\*|/[^*\r\n]*(?:/\*)?|/\*"),
)
HOSTS = _many("host names without ports, `*.` before one for all below it, *, or none", _text(_HOST), _lower_names)
ORIGINS = _many("origins such as https://app.example, *, or none", _text(_ORIGIN), _origins)
REASONING_FIELD = _maybe("none, reasoning or reasoning_content", Literal["reasoning", "reasoning_content"])
FACES = _many(
    "auto, or chat, messages, responses, comma separated",
    Literal["auto", "chat", "messages", "responses"],
    _lower_names,
    _faces,
)
ALIASES = _many("PATTERN=NAME, comma separated, a * at most in each, or none", str, check=_aliases)
TOKENS = Reader(
    "a number of tokens, auto or none",
    Annotated[int, Meta(ge=1)] | Literal["auto"] | None,
    lambda value: _size(_lower(value)),
)
TOKENIZER = Reader(
    "approximate, upstream, tiktoken:NAME or hf:PATH_OR_NAME",
    _text(r"approximate|upstream|(?:tiktoken|hf):.+"),
    _line,
)
NAMES = _many("names, comma separated, or none", str)
OPTIONAL_SECONDS = Reader("seconds, more than 0, or none", _SECONDS | None, _number)
PATTERNS = _many("names or globs, comma separated, or none", str)
RATE = _maybe("a rate such as 60/minute or 10 per 30 seconds, or none", _text(_RATES), _rate)
STORAGE = Reader("memory://, redis://HOST:PORT or another URI of limits", str, _line)
HEADER = Reader("a header's name", _text(_HEADER), _header)
PATH = _maybe("a path, or none", str)
REGEX = _maybe("a regular expression, or none", str, check=_regex)
EXTENSION = _maybe("a field's name that OpenAI's API does not use, or none", _text(rf"(?!(?:{_USED})$).*"))
URL = _maybe("an http:// or https:// address without a query, or none", _text(r'[!"$->@-~]+'), check=_url)
ID_FORM = _maybe("none or mistral", Literal["mistral"])
KEY = _maybe("a key, or none", _ONE_KEY)
SECONDS = Reader("seconds, more than 0", _SECONDS, _number)
KEYS = _many("keys or NAME=KEY, comma separated, or none", _ONE_KEY, _keys)
METRICS = Reader(
    "off, on (at /metrics) or a path such as /internal/metrics",
    _text(r"off|on|/[A-Za-z0-9._/-]*[A-Za-z0-9._-]"),
    _switch,
)
SHARE = Reader("a number from 0 to 1", Annotated[float, Meta(ge=0, le=1)], _number)
# Long enough to be unguessable, with only characters that a URL need not quote.
TOKEN = _maybe("16 to 128 letters, digits, - and _, or none", _text("[A-Za-z0-9_-]{16,128}"))
