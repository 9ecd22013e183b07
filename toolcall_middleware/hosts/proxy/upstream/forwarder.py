"""The reverse proxy: sends a request to an upstream, once all of it has come, and the answer back as it comes.

Nothing is decoded here. Only the unfinished event of a stream is collected, and an error of less than 8 KiB, which is
parsed. An answer that the upstream breaks off never looks complete to the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from random import Random
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.types import Message, Receive, Scope, Send

from ....apis.foreign_call_ids import FORMS, with_ids
from ....errors import SettingsError, ToolCallError, on_one_line
from ....observe.json_log import log_event
from ....settings import Settings
from ....wire import openai
from ....wire.openai import read_object
from ....wire.sse import DONE, EventReader
from ...http.bodies import Inflate, Leaving, collect, offloaded
from ...http.client_library import httpx
from ...http.errors import refuse_websocket, send_error, send_refusal
from ...http.head import (
    Headers,
    is_chat,
    raw_path,
    request_headers,
    response_headers,
    scope_for_body,
    secret_values,
    upstream_path,
    values_of,
    wants_websocket,
)
from ...http.request_record import Record, record_of
from .client import (
    Client,
    HttpxClient,
    Progress,
    Question,
    Reply,
    client_to,
    reason,
    tls_to,
    version_hint,
)

logger = logging.getLogger("toolcall_middleware.proxy")

T = TypeVar("T")
# Also escaped, because some servers unescape before they resolve.
_DOT_SEGMENT = re.compile(rb"(?:^|/|\\|%2f|%5c)(?:\.|%2e){1,2}(?:;|/|\\|%2f|%5c|$)", re.IGNORECASE)
_MOST_WORDS = 8192  # bytes of an error that are looked at for the log
_SHOWN_WORDS = 200
# How a request ends on a connection that the upstream has closed.
_CLOSED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_BODILESS = frozenset({204, 304})
# How a request ends of which nothing has left for the upstream.
_UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
# 529 is Anthropic's word for overloaded.
BUSY = frozenset({429, 503, 529})
# Seconds. A longer `retry-after` is left to the client.
LONGEST_WAIT = 5.0
_FIRST_WAIT = 0.2
_NUMBER = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """The seconds that an answer's `retry-after` says, as a number or a date; None where there is none."""
    given = next(iter(values_of(headers, b"retry-after")), None)
    if given is None:
        return None
    if _NUMBER.fullmatch(given):
        return float(given)
    try:
        return max(0.0, parsedate_to_datetime(given.decode("latin-1")).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def pause(attempts: int, random: Random) -> float:
    """Seconds before the attempt after `attempts` others: doubled each time, and not the same for all who wait."""
    return _FIRST_WAIT * 2.0 ** min(attempts, 10) * random.uniform(0.5, 1.0)


async def lifespan(
    receive: Receive, send: Send, begin: Callable[[], object], end: Callable[[], Awaitable[object]]
) -> None:
    """Answer a server's lifespan: `begin` is called at its startup, `end` at its shutdown."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            begin()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await end()
            await send({"type": "lifespan.shutdown.complete"})
            return


class _ClientGoneError(Exception):
    """The client does not wait for the answer any more."""


class Forwarder:
    """An ASGI app that is the upstream: same answers, other address.

    `upstream_url` is the base address that a client of the upstream would use; `upstream_path` says where a client's
    path is there. Path and query keep their bytes.

    `settings` say how long to wait, how often to try, how large a body may be, and which form call ids have
    (`upstream_ids`). `upstream_key` replaces the client's authorization (`Bearer KEY`), as does a login in
    `upstream_url`; `forward_authorization=False` drops it where there is neither. `key_header` is where the key goes
    when that is not `authorization`: then the key alone, without `Bearer`. `headers` are sent with each request, in
    place of the client's of the same name. `transport` is closed with the app.

    `translated`: requests are in another API's words. Their paths are appended to the address as they are, and no
    `x-forwarded-*` is sent, because such an upstream is a public service.

    Further attempts (`upstream_retries`) are made where no connection was had, or after a 429, 503 or 529 whose
    `retry-after` is short; only where nothing has left for the client and no other upstream can be asked
    (`Record.others`).

    Upstream down, slow or talking nonsense: `upstream_error` or `upstream_timeout`. When the answer has already
    started, an event stream ends with one error event and `[DONE]`; for any other, and for all with
    `translated`, the ToolCallError is raised, so that the server drops the connection. A client that leaves
    takes its upstream request with it.
    """

    def __init__(
        self,
        upstream_url: str,
        settings: Settings,
        *,
        key_header: str = "authorization",
        headers: Iterable[tuple[bytes, bytes]] = (),
        forward_authorization: bool = True,
        translated: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        try:
            url = httpx.URL(upstream_url)
        except httpx.InvalidURL as error:
            raise SettingsError(f"upstream_url: {error}.") from error
        self._settings = settings
        self._origin = url.copy_with(userinfo=b"", raw_path=b"/")
        self._base = url.raw_path.rstrip(b"/")
        self._translated = translated
        self._ids = None if translated or settings.upstream_ids is None else FORMS[settings.upstream_ids]
        self.address = f"{self._origin.scheme}://{self._origin.netloc.decode()}{self._base.decode()}"
        self._hint = "" if translated else version_hint(self.address)
        connect = min(settings.upstream_timeout, settings.upstream_connect_timeout)
        pool = None if settings.upstream_connections is None else connect
        self._timeouts = httpx.Timeout(settings.upstream_timeout, connect=connect, pool=pool).as_dict()
        self._random = random.Random()  # noqa: S311 - how long a pause takes is no secret
        self._own = list(headers)
        self._key_header = key_header.encode()
        key = settings.upstream_key
        if url.userinfo and key is None:
            self._own.append((b"authorization", b"Basic " + b64encode(unquote_to_bytes(url.userinfo))))
        elif key is not None:
            scheme = b"Bearer " if key_header == "authorization" else b""
            self._own.append((self._key_header, scheme + key.encode("ascii")))
        self._keep_key = forward_authorization and key is None and not url.userinfo
        self._client: Client | None = None if transport is None else HttpxClient(self._origin, transport)
        self._tls = tls_to(self._origin)

    def __repr__(self) -> str:
        return f"Forwarder({self.address!r})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http" | "websocket" if wants_websocket(scope):
                await refuse_websocket(scope, receive, send)
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await lifespan(receive, send, self._opened_client, self._close)
            case kind:
                raise RuntimeError(f"unknown ASGI scope {kind!r}")

    async def _close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _opened_client(self) -> Client:
        if self._client is None:
            self._client = client_to(self._origin, connections=self._settings.upstream_connections, tls=self._tls)
        return self._client

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            settings = self._settings
            body = await collect(receive, scope, limit=settings.max_request_bytes, within=settings.upload_timeout)
            if body is None:  # the client went away
                return
            if self._ids is not None and is_chat(scope, settings.paths):
                body = await offloaded(len(body), with_ids, body, self._ids)
                scope = scope_for_body(scope, len(body))
        except ToolCallError as error:
            await send_refusal(scope, send, error)
            return

        async def send_to_client(message: Message) -> None:
            try:
                await send(message)
            except OSError as error:
                # How servers since ASGI 2.4 say that the client has gone.
                raise _ClientGoneError from error

        async with Leaving(receive):
            with contextlib.suppress(_ClientGoneError):
                await self._exchange(scope, body, send_to_client)

    async def _exchange(self, scope: Scope, body: bytes, send: Send) -> None:
        """One request and its answer. Raises ToolCallError when the answer broke off and cannot say so itself."""
        total = self._settings.upstream_total_timeout
        deadline = None if total is None else asyncio.get_running_loop().time() + total
        try:
            reply, first = await self._in_time(deadline, self._answered(scope, body), record_of(scope))
        except ToolCallError as error:
            await send_error(send, error)
            return
        try:
            try:
                head = self._head(reply)
            except ToolCallError as error:
                await send_error(send, error)
                return
            await send(head)
            words = bytearray() if reply.status >= HTTPStatus.BAD_REQUEST else None
            events = WholeEvents() if not self._translated and is_event_stream(head["headers"]) else None
            holds = words is not None and events is None and not values_of(reply.headers, b"content-encoding")
            ending = b""
            fault: ToolCallError | None = None
            try:
                await self._in_time(deadline, _pass(reply, first, events, words, send, holds=holds), record_of(scope))
            except ToolCallError as error:
                fault = error
            except httpx.TransportError as error:
                fault = self._fault(error, started=True)
                _log_fault(fault, record_of(scope))
            held = bytes(words) if holds and words and len(words) < _MOST_WORDS else b""
            if events is not None:
                if fault is None and events.ends_half and not values_of(reply.headers, b"transfer-encoding"):
                    # The end of the connection is the only end that there is: also when the upstream has died.
                    fault = self._fault(httpx.ReadError("half an event"), started=True)
                    _log_fault(fault, record_of(scope))
                ending = events.rest() if fault is None else events.broken(fault)
            elif fault is not None:
                if held:
                    await send({"type": "http.response.body", "body": held, "more_body": True})
                raise fault
            elif held:
                ending = held if record_of(scope).is_question else openai.parsed_error(held)
            await send({"type": "http.response.body", "body": ending, "more_body": False})
            if words is not None:
                hint = self._hint if reply.status == HTTPStatus.NOT_FOUND else ""
                said = ending if held else bytes(words + ending[:_MOST_WORDS])
                _log_refusal(said, reply.status, head["headers"], scope, hint)
        finally:
            # Also when the client has gone: the upstream stops working when its connection closes.
            await reply.close()

    async def _in_time(self, deadline: float | None, work: Coroutine[Any, Any, T], record: Record) -> T:
        """What `work` gives, before the event loop's `deadline`. Raises ToolCallError after it."""
        if deadline is None:
            return await work
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            late = self._late()
            _log_fault(late, record)
            raise late from None

    async def _answered(self, scope: Scope, body: bytes) -> tuple[Reply, bytes]:
        """(the upstream's answer, asked for as often as that is wise, what of its body was waited for)."""
        record = record_of(scope)
        left = 0 if record.others else self._settings.upstream_retries
        attempts = 0
        stale = True
        while True:
            progress = Progress()
            try:
                reply, first = await self._first(self._question(scope, body, progress), record)
            except ToolCallError as error:
                unread = not progress.sent or scope["method"] in _REPEATABLE
                if stale and unread and progress.reused and isinstance(error.__cause__, _CLOSED):
                    # The upstream has closed it while it was idle, and we learn of it only now. What it may have read
                    # is not sent again, unless that changes nothing.
                    stale = False
                    continue
                record.unreached = isinstance(error.__cause__, _UNREACHED)
                record.silent = isinstance(error.__cause__, httpx.ReadTimeout)
                # Who has waited for a connection once has waited long enough.
                if not left or not isinstance(error.__cause__, httpx.ConnectError):
                    _log_fault(error, record)
                    raise
                wait = 0.0
            else:
                record.unreached = False
                asked = retry_after(reply.headers) if left and reply.status in BUSY else None
                if asked is None or asked > LONGEST_WAIT:
                    return reply, first
                wait = asked
                await reply.close()
            await asyncio.sleep(wait + pause(attempts, self._random))
            left -= 1
            attempts += 1

    async def _first(self, question: Question, record: Record) -> tuple[Reply, bytes]:
        """(the answer, what of its body was waited for).

        Where another upstream can be asked, the first piece is waited for: engines send the head of a stream before
        they have anything to say, and the other one may be quicker.
        """
        if not record.others:
            return await self._open(question), b""
        limit = self._settings.upstream_first_byte_timeout if record.streams else None
        waiting = asyncio.timeout(limit)
        try:
            async with waiting:
                reply = await self._open(question)
                question.progress.sent = True  # who answers has read it
                return reply, await self._begun(reply)
        except TimeoutError:
            if not waiting.expired():
                raise
        raise self._fault(httpx.ReadTimeout("no first byte"), started=False, seconds=limit)

    async def _begun(self, reply: Reply) -> bytes:
        """The first piece of the body, empty where it has none."""
        try:
            return await anext(reply.pieces, b"")
        except BaseException as error:
            await reply.close()
            if isinstance(error, httpx.TransportError):
                raise self._fault(error, started=True) from error
            raise

    def _question(self, scope: Scope, body: bytes, progress: Progress) -> Question:
        method = scope["method"]
        if method != method.upper():
            # httpx would make them upper case: a `post` would be a POST that was not checked.
            raise ToolCallError("invalid_request", f"There is no method {method}; they are upper case.", status=405)
        if method in {"CONNECT", "TRACE"}:
            # TRACE would show the client the upstream's key.
            raise ToolCallError("invalid_request", f"The proxy does not forward {method} requests.", status=405)
        try:
            headers = request_headers(
                scope,
                host=self._origin.netloc,
                own=self._own,
                key_header=self._key_header,
                keep_key=self._keep_key,
                tell_client=not self._translated,
                length=len(body),
            )
        except ValueError as error:
            raise ToolCallError("invalid_request", f"The request's headers are wrong: {error}.") from error
        return Question(method, self._target(scope), headers, body, self._timeouts, progress)

    def _target(self, scope: Scope) -> bytes:
        path = raw_path(scope)
        if not path.startswith(b"/"):
            raise ToolCallError("invalid_request", "The request's target must be a path.")
        # Dots would lead out of the base address.
        if self._base.removesuffix(b"/v1") and _DOT_SEGMENT.search(path):
            raise ToolCallError("invalid_request", "The path must not hold dot segments.")
        target = self._base + path if self._translated else upstream_path(self._base, path)
        query = scope.get("query_string", b"")
        return target + (b"?" + query if query else b"")

    async def _open(self, question: Question) -> Reply:
        try:
            return await self._opened_client().ask(question)
        except httpx.LocalProtocolError as error:
            # h11's words would quote a bad header, and that may be our key.
            message = "The request cannot be sent on: its method, target, headers or length are not valid HTTP."
            raise ToolCallError("invalid_request", message) from error
        except httpx.TransportError as error:
            raise self._fault(error, started=False) from error

    def _head(self, reply: Reply) -> Message:
        try:
            headers = response_headers(reply.headers)
        except ValueError:
            headers = None
        if headers is None or not 200 <= reply.status <= 599:
            raise ToolCallError("upstream_error", f"The upstream {self.address} did not answer with valid HTTP.")
        if reply.status in _BODILESS:
            # No body follows, and some servers wait for one that was announced.
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        return {"type": "http.response.start", "status": reply.status, "headers": headers}

    def _late(self) -> ToolCallError:
        total = self._settings.upstream_total_timeout
        return ToolCallError(
            "upstream_timeout", f"The upstream {self.address} took longer than {total:g} s for its whole answer."
        )

    def _fault(self, error: httpx.TransportError, *, started: bool, seconds: float | None = None) -> ToolCallError:
        """What to tell the client. Never the error's own words on what was received: an echo could hold the key."""
        code, what = "upstream_error", "did not answer with valid HTTP"
        match error:
            case httpx.ConnectTimeout():
                code, what = "upstream_timeout", f"accepted no connection for {self._timeouts['connect']:g} s"
            case httpx.PoolTimeout():
                code, most = "upstream_timeout", self._settings.upstream_connections
                what = f"had no free connection of {most} for {self._timeouts['pool']:g} s"
            case httpx.WriteTimeout():
                code, what = "upstream_timeout", f"took nothing of the request for {self._timeouts['write']:g} s"
            case httpx.TimeoutException():
                code, what = "upstream_timeout", f"sent nothing for {seconds or self._timeouts['read']:g} s"
            case httpx.ConnectError() | httpx.ProxyError():
                what = f"cannot be reached: {reason(error)}"
            case _ if started:
                what = "broke off its answer"
            case httpx.NetworkError():
                what = "closed the connection without an answer"
            case httpx.RemoteProtocolError() if "disconnected" in str(error):
                what = "closed the connection without an answer"
        fault = ToolCallError(code, f"The upstream {self.address} {what}.")
        # Kept for the server's log, where the error is raised in the end.
        fault.__cause__ = error
        return fault


async def _pass(
    reply: Reply, first: bytes, events: WholeEvents | None, words: bytearray | None, send: Send, *, holds: bool
) -> None:
    """The body of an answer, which begins with `first`, to the client as it comes.

    words: gets the beginning of an error. holds: nothing is sent before `_MOST_WORDS` bytes of it have come, because a
    shorter error is parsed, and sent whole with that.
    """

    def passed(part: bytes) -> bytes:
        out = part if events is None else events.feed(part)
        if words is None or len(words) >= _MOST_WORDS:
            return out
        held = bytes(words) if holds else b""
        words.extend(out[:_MOST_WORDS])
        return b"" if holds and len(words) < _MOST_WORDS else held + out

    if first and (out := passed(first)):
        await send({"type": "http.response.body", "body": out, "more_body": True})
    async for part in reply.pieces:
        if out := passed(part):
            await send({"type": "http.response.body", "body": out, "more_body": True})


def _log_refusal(body: bytes, status: int, headers: Headers, scope: Scope, hint: str) -> None:
    """Say in the log why the upstream refused, in one line. body: of its answer, or the beginning of that."""
    record = record_of(scope)
    if not record.is_question:
        says = ""
        if record.hide is not None:
            says = _said(body, status, headers, record.hide, secret_values(scope["headers"]))
        log_event(logger, logging.WARNING, "upstream refused", {"status": status, "says": says, "hint": hint})


def _said(
    body: bytes, status: int, headers: Headers, hide: Callable[[bytes], bytes], client_secrets: Iterable[str]
) -> str:
    coding = next(iter(values_of(headers, b"content-encoding")), b"").decode("latin-1")
    try:
        plain = Inflate(coding.lower(), _MOST_WORDS * 8).feed(body) if coding else body
    except ToolCallError:
        plain = b""
    text = openai.read_error(hide(plain), status).message
    for secret in client_secrets:
        text = text.replace(secret, "***")
    text = " ".join(text.split())
    return on_one_line(text if len(text) <= _SHOWN_WORDS else text[: _SHOWN_WORDS - 1] + "…")


def _log_fault(fault: ToolCallError, record: Record) -> None:
    """One line a request, however often it was tried: which one it was, and what is wrong with which upstream."""
    record.error = str(fault.code)
    if not record.is_question:
        logger.warning("%s", fault.message)


# An event that is longer passes as it comes.
_LONGEST = 1 << 20
# Enough to hold the last line of a stream and its end.
_TAIL = 32
# A line end and a blank line; the second covers two spellings.
_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")


def is_event_stream(headers: Headers) -> bool:
    """Whether an answer with these headers is an event stream to which something can be added."""
    names = dict(headers)
    kind = names.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return kind == b"text/event-stream" and b"content-encoding" not in names and b"content-length" not in names


class WholeEvents:
    """One event stream. No byte is changed or lost, unless it breaks off."""

    __slots__ = ("_held", "_tail")

    def __init__(self) -> None:
        self._held = bytearray()
        self._tail = b""  # of what has left

    def feed(self, part: bytes) -> bytes:
        """The next bytes; returns those up to the end of the last whole event."""
        held = self._held
        if not held and part.endswith((b"\n\n", b"\r\n\r\n")):  # nearly always
            self._note_sent(part)
            return part
        begin = max(0, len(held) - 2)
        held += part
        found = [(held.rfind(mark, begin), len(mark)) for mark in _ENDS]
        end = max(at + length if at >= 0 else 0 for at, length in found)
        # Comments keep connections alive: they do not wait for a blank line.
        if len(held) - end > _LONGEST or (held.startswith(b":", end) and held.endswith(b"\n")):
            end = len(held)
        out = bytes(held[:end])
        del held[:end]
        self._note_sent(out)
        return out

    @property
    def ends_half(self) -> bool:
        """Whether an end here is one in the middle of an event."""
        held = bytes(self._held)
        return bool(held.strip(b"\r\n")) and not self._is_done(held) and not _is_whole(held)

    def rest(self) -> bytes:
        """What is held of a stream that the upstream has ended by itself."""
        return bytes(self._held)

    def broken(self, fault: ToolCallError) -> bytes:
        """How a stream ends that broke off: what is held, if only its blank line is missing, and the error.

        No error where all was said, and only the connection's end was untidy.
        """
        # No blank line too many: to the OpenAI SDK one is an empty event, once the stream has given ids.
        out = b"" if not self._tail or self._tail.endswith((b"\n\n", b"\n\r\n", b"\r\r")) else b"\n\n"
        if self._is_done(self._tail):
            return out
        held = bytes(self._held).rstrip(b"\r\n")
        if self._is_done(held):
            return out + held + b"\n\n"
        if _is_whole(bytes(self._held)):
            out += held + b"\n\n"
        return out + fault.sse() + DONE

    def _note_sent(self, out: bytes) -> None:
        self._tail = out if len(out) >= _TAIL else (self._tail + out)[-_TAIL:]

    @staticmethod
    def _is_done(data: bytes) -> bool:
        return data.rstrip(b"\r\n").endswith((b"data: [DONE]", b"data:[DONE]"))


def _is_whole(held: bytes) -> bool:
    """Whether an event that lacks its blank line says what it was to say: JSON to its end, or one line to its end."""
    reader = EventReader()
    reader.feed(held)
    data = next((event.data for event in reader.finish()), None)
    if data is None:
        return False
    if data.lstrip().startswith((b"{", b"[")):
        return read_object(data) is not None
    return held.endswith((b"\n", b"\r"))
