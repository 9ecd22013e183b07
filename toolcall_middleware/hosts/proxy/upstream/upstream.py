"""One upstream as it is asked: its app, built once, how many ask it now, and whether it had better rest. Its answers as
clients may see them: without its keys, and errors in OpenAI's form on chat paths.
"""

from __future__ import annotations

import math
import re
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from http import HTTPStatus
from random import Random
from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....errors import ToolCallError
from ....settings import Settings
from ....wire.openai import error_value, parsed_error, read_error
from ...http.answer import Answer, Reads, no_client
from ...http.bodies import LARGE, offloaded
from ...http.head import SHORTEST_SECRET, is_chat, secret_values, without
from ...http.request_record import record_of
from ...middleware.asgi import ToolCallMiddleware
from ...middleware.start_up import warm
from .client import version_hint
from .model_names import Rename
from .providers import upstream_app

_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """One `[[upstream]]`. `settings` hold its address, key and times as `upstream_*`, and what it says of formats."""

    name: str
    models: tuple[str, ...]
    settings: Settings
    rename: tuple[Rename, ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    weight: float | None = None

    @property
    def holds_credentials(self) -> bool:
        """Whether its requests carry a key, a login or a header of the operator's, whatever their length or name."""
        login = urlsplit(self.settings.upstream_url or "").netloc.rpartition("@")[0]
        return bool(self.settings.upstream_key or login or self.headers)

    def serves(self, model: str) -> bool:
        """Whether requests for a client's `model` may go here."""
        return any(fnmatchcase(model, glob) for glob in self.models) or self._renamed(model) is not None

    def model_for(self, model: str) -> str:
        """What the upstream calls a client's `model`."""
        return self._renamed(model) or model

    def _renamed(self, model: str) -> str | None:
        return next((name for rule in self.rename if (name := rule.to_upstream(model)) is not None), None)

    @property
    def literal_models(self) -> tuple[str, ...]:
        """Clients' models that are named here in full."""
        names = (*self.models, *(rule.pattern for rule in self.rename))
        return tuple(dict.fromkeys(name for name in names if not _GLOB.search(name)))

    @property
    def has_globs(self) -> bool:
        """Whether the upstream's own list is needed to know its models."""
        return any(_GLOB.search(name) for name in (*self.models, *(rule.pattern for rule in self.rename)))

    def client_names(self, model: str) -> Iterator[str]:
        """Under which names clients reach the upstream's `model`, as far as globs tell."""
        for rule in self.rename:
            name = rule.to_client(model)
            if name is not None and self.model_for(name) == model:
                yield name
        if any(fnmatchcase(model, glob) for glob in self.models) and self.model_for(model) == model:
            yield model


# Seconds for which an upstream that refused is asked last.
_REST = 5.0
_LONGEST_REST = 60.0
# In a row, until one that says nothing rests.
_SILENCES = 2


ALL_FACES = ("chat", "messages", "responses")
"""What `faces=auto` means in a proxy."""


class Upstream:
    """An app: the middleware before an upstream. Its connections close once it is retired and idle.

    Raises SettingsError or FormatError.
    """

    def __init__(self, config: UpstreamConfig, *, forward_authorization: bool) -> None:
        settings = config.settings
        self.config = config
        app = upstream_app(settings, forward_authorization=forward_authorization, headers=config.headers)
        if settings.faces == ("auto",):
            settings = settings.replace(faces=ALL_FACES)
        self._app: ASGIApp = ToolCallMiddleware(app, settings=settings)
        self._mask = Mask(secrets_of(settings.upstream_key, settings.upstream_url, config.headers))
        self._hint = version_hint(settings.upstream_url or "") if settings.upstream_api == "openai" else ""
        self.origin = urlsplit(settings.upstream_url or settings.upstream_api).netloc.rpartition("@")[2]
        self._users = 0
        self._retired = False
        self._rests_until = 0.0
        self._silences = 0

    def __repr__(self) -> str:
        return f"Upstream({self.config.name!r})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._users += 1
        if scope["type"] == "http":
            record = record_of(scope)
            record.upstream = self.config.name
            record.hide = self._mask.whole if self.config.settings.log_upstream_errors else None
            if self._mask and record.report is not None and record.report.recorder is not None:
                record.report.recorder.hide = self._mask.whole
            chat = is_chat(scope, self.config.settings.paths)
            send = MaskedAnswer(send, self._mask, chat=chat, hint=self._hint).send
        try:
            await self._app(scope, receive, send)
        finally:
            self._users -= 1
            if self._retired and not self._users:
                await self._close()

    def warm(self) -> None:
        """Load, in a thread, what the first request would wait for."""
        if self.config.settings.mode != "off":
            warm(self.config.settings)

    async def retire(self) -> None:
        """No request comes any more: what it has ends with the last one."""
        self._retired = True
        if not self._users:
            await self._close()

    async def _close(self) -> None:
        """By ASGI's lifespan, which the apps in between pass on."""

        async def receive() -> Message:
            return {"type": "lifespan.shutdown"}

        await self._app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, no_client)

    def was_silent(self) -> None:
        """It said nothing in time. Once may be chance; it rests when it happens again."""
        self._silences += 1
        if self._silences >= _SILENCES:
            self._rests_until = time.monotonic() + _LONGEST_REST

    def spoke(self) -> None:
        """It answered."""
        self._silences = 0

    def rest(self, retry_after: float | None) -> None:
        """It refused: it is asked after the others for as long as it said, or some seconds."""
        seconds = _REST if retry_after is None else min(retry_after, _LONGEST_REST)
        self._rests_until = time.monotonic() + seconds

    @property
    def rests(self) -> bool:
        """Whether it refused a moment ago."""
        return time.monotonic() < self._rests_until


def in_turn(upstreams: Sequence[Upstream], random: Random) -> list[Upstream]:
    """The order in which to ask: drawn among those with a weight, then the others; those that rest come last."""
    weighted = [upstream for upstream in upstreams if upstream.config.weight is not None]
    drawn = sorted(weighted, key=lambda upstream: _draw(upstream.config.weight or 0.0, random))
    others = [upstream for upstream in upstreams if upstream.config.weight is None]
    return sorted(drawn + others, key=lambda upstream: upstream.rests)


def _draw(weight: float, random: Random) -> float:
    # The first of exponential arrivals: an order drawn without putting back (Efraimidis and Spirakis, 2006).
    return random.expovariate(weight) if weight else math.inf


_LONGEST_UNIT = 6  # of one character: \u0061
_NO_LINE = re.compile(rb"[\r\n]")


def secrets_of(key: str | None, url: str | None, headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """What an upstream is shown: its key, the login in its address, and the operator's own headers' values."""
    found = [key or ""]
    login = urlsplit(url or "").netloc.rpartition("@")[0]
    if login:
        plain = unquote(login)
        found += [login, plain, plain.partition(":")[2], b64encode(plain.encode()).decode()]
    found += secret_values(headers)
    return tuple(sorted({secret for secret in found if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True))


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
        if self._pattern is None or not self._may_hold(data) or self._pattern.search(data) is None:
            return data
        return self._pattern.sub(b"***", data)

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
            if any(_ends_within(units, data, found.start()) for units in self._units):
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


def _ends_within(units: list[re.Pattern[bytes]], data: bytes, at: int) -> bool:
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
        if self._chat:
            out = await offloaded(len(out), parsed_error, out)
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
    value = error_value(body)
    error = value.get("error") if isinstance(value, dict) else None
    return isinstance(error, dict) and isinstance(error.get("message"), str) and error.keys() >= _MEMBERS
