"""Keys that must not reach a client, found in bytes however servers quote them, and replaced by `***`."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from ...http.headers import SECRET_NAME

# What is shorter is no key, and its letters occur anywhere.
_SHORTEST = 8
_LONGEST_UNIT = 6  # of one character: \u0061
_NO_LINE = re.compile(rb"[\r\n]")


def secrets_of(key: str | None, url: str | None, headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """What an upstream is shown: its key, the login in its address, and the operator's own headers' values."""
    found = [key or ""]
    login = urlsplit(url or "").netloc.rpartition("@")[0]
    if login:
        plain = unquote(login)
        found += [login, plain, plain.partition(":")[2], b64encode(plain.encode()).decode()]
    for name, value in headers:
        text = value.decode("latin-1")
        # Not every header is a secret; those that say so by their name, and what looks like none of a person's words.
        if SECRET_NAME.search(name):
            found += [text, text.partition(" ")[2]]
    return tuple(sorted({secret for secret in found if len(secret) >= _SHORTEST}, key=len, reverse=True))


class Mask:
    """Replaces `secrets` in bytes: as they are, in JSON's escapes, or percent-encoded, in any mixture."""

    __slots__ = ("_begins", "_heads", "_pattern", "_units", "_window")

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._heads = tuple({secret[:3].encode() for secret in secrets} | ({b"\\", b"%"} if secrets else set()))
        self._units = [[_unit(char) for char in secret] for secret in secrets]
        patterns = [b"".join(unit.pattern for unit in units) for units in self._units]
        self._pattern = re.compile(b"|".join(patterns)) if patterns else None
        firsts = b"|".join({units[0].pattern for units in self._units})
        # A place where one may begin: its first character, or the first byte of an escape of it.
        self._begins = re.compile(rb"(?:%s|\\|%%)" % firsts)
        self._window = max((len(units) for units in self._units), default=0) * _LONGEST_UNIT

    def __bool__(self) -> bool:
        return self._pattern is not None

    def whole(self, data: bytes) -> bytes:
        """`data` without secrets."""
        return data if self._pattern is None or not self._may_hold(data) else self._pattern.sub(b"***", data)

    def same_length(self, data: bytes) -> bytes:
        """The same, as many bytes as before."""
        if self._pattern is None or not self._may_hold(data):
            return data
        return self._pattern.sub(lambda found: b"*" * len(found[0]), data)

    def _may_hold(self, data: bytes) -> bool:
        """Whether `data` may hold a secret: it begins as it is, or something is escaped. Nearly always not."""
        return any(head in data for head in self._heads)

    def unfinished(self, data: bytes) -> int:
        """Where at the end of `data` a secret may have begun, whose rest is still to come; else its length."""
        begin = max(0, len(data) - self._window)
        for found in self._begins.finditer(data, begin):
            if _NO_LINE.search(data, found.start()):
                continue
            if any(_goes_on(units, data, found.start()) for units in self._units):
                return found.start()
        return len(data)


class MaskedStream:
    """One body on its way. `keeps_length`: secrets are replaced by as many bytes."""

    __slots__ = ("_held", "_mask", "_replace")

    def __init__(self, mask: Mask, *, keeps_length: bool) -> None:
        self._mask = mask
        self._replace = mask.same_length if keeps_length else mask.whole
        self._held = b""

    def feed(self, data: bytes, *, last: bool) -> bytes:
        """What may leave of the bytes so far."""
        if not self._mask:
            return data
        data = self._replace(self._held + data if self._held else data)
        end = len(data) if last or data.endswith(b"\n") else self._mask.unfinished(data)
        self._held = data[end:]
        return data[:end] if end < len(data) else data


def _unit(char: str) -> re.Pattern[bytes]:
    """A pattern for one character in any of its spellings."""
    ways = [re.escape(char.encode()), rb"\\u" + _hex(b"%04x" % ord(char))]
    ways.append(b"".join(b"%" + _hex(b"%02x" % byte) for byte in char.encode()))
    if char in '/"\\':
        ways.append(rb"\\" + re.escape(char.encode()))
    return re.compile(b"(?:" + b"|".join(ways) + b")")


def _hex(digits: bytes) -> bytes:
    """A pattern for hex digits in any case."""
    return b"".join(b"[%c%c]" % (digit, digit ^ 32) if digit > ord("9") else b"%c" % digit for digit in digits)


def _goes_on(units: list[re.Pattern[bytes]], data: bytes, at: int) -> bool:
    """Whether `data` ends in the middle of these characters, which begin at `at`."""
    for unit in units:
        rest = len(data) - at
        found = unit.match(data, at)
        if found is None:
            # Half an escape at the very end.
            return rest == 0 or (rest < _LONGEST_UNIT and data[at : at + 1] in {b"\\", b"%"})
        at = found.end()
    return False
