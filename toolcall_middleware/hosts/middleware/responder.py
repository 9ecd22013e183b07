"""One intercepted request: its answer is held until its first bytes tell what it is, and goes on rewritten.

The app runs as often as the exchange asks for it, in the caller's task.
"""

from __future__ import annotations

import asyncio
import contextlib

from ...errors import ToolCallError
from ...exchange import Exchange, Plan, Reply
from ...usage.pending_count import PendingCount
from ..http.bodies import Inflate, Message, Receive
from ..http.messages import App, Scope, Send, answer_error, request_scope, response_head
from .token_counting import wait_for


class GenerationEndedError(OSError):
    """Told to the app when it sends on after its answer is complete for the client (ASGI 2.4: send raises OSError)."""


class Responder:
    """Runs the app for one request. See the module."""

    def __init__(self, app: App, scope: Scope, receive: Receive, send: Send, exchange: Exchange) -> None:
        self._app = app
        self._scope = scope
        self._client_receive = receive
        self._client_send = send
        self._exchange = exchange
        self._receiving: asyncio.Future[Message] | None = None
        self._gone = False  # the client went away
        self._started = False  # the response has started for the client
        self._ended = False  # ... and is complete

    async def run(self, body: bytes) -> None:
        """Answer the request, whose body for the backend is `body`."""
        next_body: bytes | None = body
        try:
            while next_body is not None and not self._gone:
                await self._try(next_body)
                next_body = self._exchange.take_next()
        finally:
            if self._receiving is not None:
                self._receiving.cancel()
                await asyncio.gather(self._receiving, return_exceptions=True)

    async def _try(self, body: bytes) -> None:
        """One request to the app."""
        self._body: bytes | None = body
        self._start: Message | None = None
        self._plan = Plan.PASS
        self._buffer: list[bytes] = []
        self._size = 0
        self._inflate: Inflate | None = None
        self._steady = False  # the client's stream has begun, and what the app sends goes there
        self._taps = False  # ... as it is, but for the usage that may be added
        self._over = False  # the app's response is complete
        self._cut = False  # ... before the app knows
        self._stop = asyncio.get_running_loop().create_future()  # nothing more is to be received
        try:
            await self._app(request_scope(self._scope, len(body)), self._receive, self._send)
        except Exception as error:
            if self._over and _only_ours(error):
                return
            ours = not self._ended and (self._plan is Plan.STREAM or not self._started)
            if ours and isinstance(error, ToolCallError):
                # The app says what the client is to be told: the proxy raises it when its upstream breaks off.
                await (self._finish() if self._exchange.said_all else self._fail(error))
                return
            if ours and self._started:
                # The client learns that this is no end; the server learns of the exception.
                with contextlib.suppress(OSError):
                    await self._finish(cut=True)
            raise
        if self._start is not None and not self._over and not self._gone:
            await self._finish(cut=True)

    # -- what the app receives -----------------------------------------------------------------------------------

    async def _receive(self) -> Message:
        """The body once, then the client's own messages; a disconnect when the answer is complete before the app."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        # Several tasks of the app may wait here; what one of them gets, the others wait on for more.
        while not self._gone and not self._stop.done():
            if self._receiving is None:
                self._receiving = asyncio.ensure_future(self._client_receive())
            receiving = self._receiving
            await asyncio.wait({receiving, self._stop}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done() and self._receiving is receiving:
                self._receiving = None
                message = receiving.result()
                self._gone = message["type"] == "http.disconnect"
                return message
        return {"type": "http.disconnect"}

    # -- what the app sends --------------------------------------------------------------------------------------

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        try:
            if self._steady and kind == "http.response.body" and message.get("more_body", False):
                # Nearly every message of an answer: `_on_body` without its questions.
                data = message.get("body", b"")
                out = self._exchange.feed(data)
                if out:
                    await self._client_send(
                        message if out is data else {"type": "http.response.body", "body": out, "more_body": True}
                    )
                if self._exchange.stopped:
                    await self._complete()
                return
            if self._taps and kind == "http.response.body" and message.get("more_body", False):
                data = message.get("body", b"")
                out = self._exchange.feed(data)
                if out is data:  # likewise: nearly every message says nothing but text
                    await self._client_send(message)
                else:
                    out += await self._counted()
                    await self._client_send({"type": "http.response.body", "body": out, "more_body": True})
                return
            if self._cut:
                raise GenerationEndedError("the answer is complete: the middleware ended its generation")
            if kind == "http.response.start":
                await self._on_start(message)
            elif kind == "http.response.body":
                await self._on_body(message.get("body", b""), more=message.get("more_body", False))
            else:
                await self._client_send(message)
        except ToolCallError as error:
            await self._fail(error)

    async def _on_start(self, message: Message) -> None:
        headers = list(message.get("headers", ()))
        self._start = message
        self._plan = self._exchange.on_response_start(message["status"], headers)
        if self._plan is Plan.PASS or self._plan is Plan.TAP:
            await self._begin(
                message if self._plan is Plan.PASS else response_head(self._begun_by_app, self._exchange.headers())
            )
            self._taps = self._plan is Plan.TAP
            return
        coding = next((value for name, value in headers if name.lower() == b"content-encoding"), b"").strip().lower()
        if coding and coding != b"identity":
            self._inflate = Inflate(coding.decode("latin-1"), self._exchange.max_response_bytes)

    async def _on_body(self, data: bytes, *, more: bool) -> None:
        if self._start is None:
            raise RuntimeError("the app sent http.response.body before http.response.start")
        if self._over:
            return
        if self._plan is Plan.PASS or self._plan is Plan.TAP:
            if self._plan is Plan.TAP:
                data = self._exchange.feed(data)
                data += await self._counted() + (b"" if more else self._exchange.finish())
            self._over = self._ended = not more
            self._taps = self._taps and more
            await self._client_send({"type": "http.response.body", "body": data, "more_body": more})
            return
        if self._inflate is not None:
            data = self._inflate.feed(data)
        if self._plan is Plan.SNIFF:
            data = b"".join([*self._buffer, data])
            self._buffer, self._size = [], 0
            self._plan = self._exchange.plan_for(data)
        if self._plan is Plan.STREAM:
            await self._stream(self._exchange.feed(data))
            self._steady = self._started and self._inflate is None
        else:
            self._keep(data)
        if self._exchange.stopped:
            await self._complete()
        elif not more:
            await self._finish()

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        limit = self._exchange.max_response_bytes
        if limit is not None and self._size > limit:
            raise ToolCallError("upstream_error", f"The backend's answer exceeds max_response_bytes ({limit}).")
        self._buffer.append(data)

    async def _finish(self, *, cut: bool = False) -> None:
        """The app's response is complete, or broke off (`cut`)."""
        self._over = True
        self._steady = False
        try:
            if self._plan is Plan.STREAM:
                await self._stream(self._exchange.finish(cut=cut))
                await self._close()
            elif self._plan is Plan.TAP:
                await self._stream(self._exchange.finish())
            elif self._plan is not Plan.PASS:
                reply = self._exchange.whole(b"".join(self._buffer))
                if reply is not None:
                    if self._exchange.tally is not None:
                        await self._count(self._exchange.tally)
                        reply = self._exchange.counted_in(reply)
                    await self._reply(reply)
        except ToolCallError as error:
            await self._fail(error)
        self._release()

    async def _counted(self) -> bytes:
        """What had to wait for a count of tokens, if anything."""
        tally = self._exchange.tally
        if tally is None:
            return b""
        await self._count(tally)
        return self._exchange.counted()

    async def _count(self, tally: PendingCount) -> None:
        await wait_for(tally, self._app, self._scope, self._exchange.paths)

    # -- what the client gets ------------------------------------------------------------------------------------

    async def _begin(self, message: Message) -> None:
        self._started = True
        await self._client_send(message)

    async def _stream(self, out: bytes) -> None:
        if not out:
            return
        if not self._started:
            await self._begin(response_head(self._begun_by_app, self._exchange.headers()))
        await self._client_send({"type": "http.response.body", "body": out, "more_body": True})

    async def _close(self) -> None:
        """End the client's stream, if it has one: a try that is followed by another has not begun it."""
        await self._stream(await self._counted())
        if self._started and not self._ended:
            self._ended = True
            await self._client_send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _complete(self) -> None:
        """The answer is complete before the app's: the app is told to end."""
        self._over = True
        self._steady = False
        await self._close()
        self._cut = True
        # Last: an app that learns of a disconnect may cancel the very task that is sending here.
        self._release()

    def _release(self) -> None:
        """What waits to receive gets a disconnect, as from a server after the end of a response.

        Some frameworks wait for it before they return (Litestar does), and another try may have to follow.
        """
        if not self._stop.done():
            self._stop.set_result(None)

    @property
    def _begun_by_app(self) -> Message:
        assert self._start is not None  # noqa: S101 - the app has started its response
        return self._start

    async def _reply(self, reply: Reply) -> None:
        if reply.as_it_came:
            await self._begin(self._begun_by_app)
            self._ended = True
            await self._client_send({"type": "http.response.body", "body": reply.body, "more_body": False})
            return
        headers = {**reply.headers, "content-length": str(len(reply.body))}
        await self._begin(response_head(self._begun_by_app, headers, status=reply.status))
        self._ended = True
        await self._client_send({"type": "http.response.body", "body": reply.body, "more_body": False})

    async def _fail(self, error: ToolCallError) -> None:
        """An error for the client: the HTTP answer where nothing has left, else an event."""
        if self._started:
            await self._stream(self._exchange.failure(error))
        else:
            self._started = self._ended = True
            await answer_error(self._client_send, error)
        await self._complete()


def _only_ours(error: BaseException) -> bool:
    """Whether an app's exception is only its way to say that we ended its answer."""
    if isinstance(error, BaseExceptionGroup):
        return all(_only_ours(inner) for inner in error.exceptions)
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        if isinstance(at, GenerationEndedError):
            return True
        seen.add(id(at))
        at = at.__cause__ or at.__context__
    return False
