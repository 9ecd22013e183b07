"""Answers of an upstream as clients may see them: without its keys, and errors in OpenAI's form on chat paths."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

from starlette.types import Send

from ....errors import ToolCallError
from ....wire.openai import read_error, read_value
from ...http.answer import Answer, Reads
from ...http.headers import SECRET_NAME, without
from ...http.offload import LARGE, offloaded

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


# A longer one is no error message; it passes.
_LIMIT = 256 * 1024
_MOST_INFLATED = 16 << 20
_MEMBERS = frozenset({"message", "type", "param", "code"})


class MaskedAnswer(Answer):
    """An upstream's answer without secrets, which some servers quote in what they refuse.

    An error, or a stream, in a content coding is decoded for that; one whose coding is not known is sent without its
    body. chat: an error gets OpenAI's envelope. hint: added to the message of a 404.
    """

    def __init__(self, send: Send, mask: Mask, *, chat: bool, hint: str = "") -> None:
        super().__init__(send, _LIMIT)
        self._hint = hint
        self._mask = mask
        self._chat = chat
        self._stream: MaskedStream | None = None
        self._unreadable = False

    def begun(self) -> Reads:
        """See Answer."""
        start, is_error = self.start, self.start["status"] >= 400
        if self._mask:
            start["headers"] = [(name, self._mask.whole(value)) for name, value in start["headers"]]
        if self.coding and (is_error or (self._mask and self.header(b"content-type").startswith(b"text/event-stream"))):
            try:
                self.decode(_MOST_INFLATED if is_error else None)
            except ToolCallError:
                self._unreadable = True
        if is_error:
            return Reads.WHOLE
        if not self._mask or self.coding:  # a body that is still coded is not read
            return Reads.NOTHING
        self._begin_stream()
        return Reads.PIECES

    def _begin_stream(self) -> None:
        self._stream = MaskedStream(self._mask, keeps_length=bool(self.header(b"content-length")))

    async def decoded(self, data: bytes) -> bytes:
        """See Answer. What cannot be decoded is sent without its body."""
        if not self._unreadable:
            try:
                return await super().decoded(data)
            except ToolCallError:
                self._unreadable = True
        return b""

    async def piece(self, data: bytes, *, last: bool) -> bytes:
        """See Answer."""
        assert self._stream is not None  # noqa: S101 - it is read in pieces
        if len(data) <= LARGE:
            return self._stream.feed(data, last=last)
        return await offloaded(len(data), partial(self._stream.feed, last=last), data)

    async def whole(self, body: bytes) -> bytes | None:
        """See Answer."""
        out = await offloaded(len(body), self._mask.whole, body)
        hint = self._hint if self.start["status"] == HTTPStatus.NOT_FOUND else ""
        if self._chat and (hint or not await offloaded(len(out), _is_envelope, out)):
            out = await offloaded(len(out), _in_envelope, out, self.start["status"], hint)
            self.replaced((b"content-type", b"application/json"), length=len(out))
        elif out != body or self._decodes:
            self.start["headers"] = without(self.start["headers"], {b"content-length"})
            self.start["headers"].append((b"content-length", b"%d" % len(out)))
        else:
            return None
        return out

    async def too_long(self) -> None:
        """See Answer."""
        self.reads = Reads.PIECES
        self._begin_stream()
        for message in self.taken():
            await self.give(await self.piece(message["body"], last=False), more=True)


def _in_envelope(body: bytes, status: int, hint: str) -> bytes:
    error = read_error(body, status)
    error.message += f" {hint}" if hint else ""
    return error.body()


def _is_envelope(body: bytes) -> bool:
    value = read_value(body)
    error = value.get("error") if isinstance(value, dict) else None
    return isinstance(error, dict) and isinstance(error.get("message"), str) and error.keys() >= _MEMBERS
