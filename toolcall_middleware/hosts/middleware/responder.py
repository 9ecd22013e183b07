"""The host of an exchange: runs the app for one intercepted request, tells the exchange what the app sends, and does
what it asks for.

The app runs as often as the exchange asks for it, in the caller's task. What is decided about an answer is decided in
exchange.py; here is only what I/O needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope
from starlette.types import Send as SendMessage

from ...errors import ToolCallError
from ...exchange import (
    Action,
    Ask,
    Body,
    BrokenOff,
    Count,
    Done,
    Exchange,
    Fail,
    Failed,
    Forward,
    Head,
    Send,
    Start,
    State,
    StopUpstream,
)
from ..http.answer import bytes_of
from ..http.bodies import CODED, LARGE, Held, Inflate, offloaded
from ..http.errors import send_error
from ..http.head import request_scope, response_head, values_of
from .backend_questions import wait_for

_READING = frozenset({State.SNIFFING, State.COLLECTING})
_log = logging.getLogger("toolcall_middleware")


class GenerationEndedError(OSError):
    """Told to the app when it sends on after its answer is complete for the client (ASGI 2.4: send raises OSError)."""


class Responder:
    """Runs the app for one request. See the module.

    paths: the suffixes that are intercepted, beside which the backend is asked to count.
    """

    def __init__(
        self,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: SendMessage,
        exchange: Exchange,
        paths: tuple[str, ...],
    ) -> None:
        self._app = app
        self._scope = scope
        self._client_receive = receive
        self._client_send = send
        self._exchange = exchange
        self._paths = paths
        self._next: Ask | None = None
        self._receiving: asyncio.Future[Message] | None = None
        self._gone = False  # the client went away

    async def run(self, ask: Ask) -> None:
        """Answer the request, with which the backend is asked as `ask` says."""
        self._next = ask
        try:
            while self._next is not None and not self._gone:
                ask, self._next = self._next, None
                await self._attempt(ask)
                if self._next is not None:
                    await self._look_for_client()
        finally:
            if self._receiving is not None:
                receiving, self._receiving = self._receiving, None
                if receiving.cancel():
                    await asyncio.wait([receiving])
                if not receiving.cancelled():
                    receiving.exception()  # its result is not needed any more

    async def _attempt(self, ask: Ask) -> None:
        """One request to the app."""
        self._body: bytes | None = ask.body
        self._start: Message | None = None
        self._inflate: Inflate | None = None
        self._held = Held()
        self._over = asyncio.get_running_loop().create_future()  # done once nothing more of the app's answer is read
        self._cut = False  # nothing more is read, and the app may not know it
        try:
            app = self._app
            if ask.prompt is not None:
                from .raw_prompts import written  # with all that renders templates

                app, self._body = await written(app, ask.body, ask.prompt)
            await app(request_scope(self._scope, len(self._body or b"")), self._receive, self._send)
        except Exception as error:
            if self._over.done() and _only_ours(error):
                return
            if isinstance(error, ToolCallError):
                # The app has an error for the client: the proxy raises it when its upstream breaks off.
                actions = self._exchange.receive(Failed(error))
                if actions:
                    await self._execute(actions)
                    return
                raise
            if await self._is_retried():
                _log.warning("The app raised after an answer that is retried.", exc_info=True)
                return
            # The client learns that this is no end; the server learns of the exception.
            with contextlib.suppress(OSError):
                await self._execute(self._exchange.receive(BrokenOff(raised=True)))
            raise
        if self._start is not None and not self._over.done() and not self._gone:
            await self._execute(await offloaded(self._held.size, self._exchange.receive, BrokenOff()))

    async def _is_retried(self) -> bool:
        """The app raised: whether it is asked again all the same."""
        facts = self._exchange.facts
        asked_whole = facts is not None and facts.why == "empty_stream"
        if self._next is None and self._exchange.state is State.SNIFFING and not (self._held.size or asked_whole):
            # A stream that says nothing: llama-cpp-python refuses so, and raises what it would say without a stream.
            await self._execute(self._exchange.receive(Body(b"", last=True)))
        return self._next is not None

    # -- what the app receives -----------------------------------------------------------------------------------

    async def _receive(self) -> Message:
        """The body once, then the client's own messages; a disconnect when the answer is complete before the app."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        # Several tasks of the app may wait here; what one of them gets, the others wait on for more.
        while not self._gone and not self._over.done():
            if self._receiving is None:
                self._receiving = asyncio.ensure_future(self._client_receive())
            receiving = self._receiving
            await asyncio.wait([receiving, self._over], return_when=asyncio.FIRST_COMPLETED)
            if receiving.done() and self._receiving is receiving:
                self._receiving = None
                message = receiving.result()
                self._gone = message["type"] == "http.disconnect"
                return message
        return {"type": "http.disconnect"}

    async def _look_for_client(self) -> None:
        """Whether the client has gone: an app that answers without listening does not know, and need not go on."""
        if self._gone:
            return
        if self._receiving is None:
            self._receiving = asyncio.ensure_future(self._client_receive())
        receiving = self._receiving
        await asyncio.sleep(0)  # a server that knows says so at once
        if receiving.done() and not receiving.cancelled() and receiving.exception() is None:
            self._gone = receiving.result()["type"] == "http.disconnect"

    # -- what the app sends --------------------------------------------------------------------------------------

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if self._over.done():
            if self._cut:
                raise GenerationEndedError("the answer is complete: the middleware ended its generation")
            if kind in {"http.response.start", "http.response.body"}:
                return
        if kind == "http.response.body":
            data = message.get("body", b"")
            if not isinstance(data, bytes):
                data = bytes_of(message)
                message = {**message, "body": data}
            if self._inflate is not None:
                try:
                    data = await offloaded(LARGE + 1 if len(data) > CODED else 0, self._inflate.feed, data)
                except ToolCallError as error:
                    await self._execute(self._exchange.receive(Failed(error)))
                    return
                message = {**message, "body": data}
            last = not message.get("more_body", False)
            # What is held may be read now: a whole answer with its end, an event, a call or prose with any piece.
            size = self._held.size + len(data)
            if size <= LARGE:
                actions = self._exchange.receive(Body(data, last))
            else:
                actions = await offloaded(size, self._exchange.receive, Body(data, last))
            # Nearly every message has one action: it is done here, without another coroutine.
            only = actions[0] if len(actions) == 1 else None
            if only is None or self._held.size:
                self._held.note(len(data), sum(_size(action, data) for action in actions))
            if type(only) is Forward:
                await self._client_send(message)
            elif type(only) is Send:
                await self._client_send({"type": "http.response.body", "body": only.data, "more_body": not only.last})
            elif actions:
                await self._execute(actions)
        elif kind == "http.response.start":
            # An iterator gives its headers once.
            self._start = message = {**message, "headers": list(message.get("headers", ()))}
            await self._execute(self._exchange.receive(Head(message["status"], message["headers"])))
            coding = next(iter(values_of(message["headers"], b"content-encoding")), b"").lower()
            if coding not in {b"", b"identity"} and self._exchange.state in _READING:
                try:
                    self._inflate = Inflate(coding.decode("latin-1"), self._exchange.reads_at_most)
                except ToolCallError as error:
                    await self._execute(self._exchange.receive(Failed(error)))
        else:
            await self._client_send(message)

    # -- what the exchange asks for ------------------------------------------------------------------------------

    async def _execute(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Send(data, last):
                    await self._client_send({"type": "http.response.body", "body": data, "more_body": not last})
                case Start(headers, status):
                    start = self._start
                    assert start is not None  # noqa: S101 - the app has started its response
                    try:
                        head = start if headers is None else response_head(start, headers, status=status)
                        await self._client_send(head)
                    except BaseException:
                        self._end()  # without its head nothing of the answer may be sent
                        raise
                case StopUpstream(early):
                    self._cut = self._cut or early
                    self._end()
                case Ask():
                    self._next = action
                case Count(pending):
                    await wait_for(pending, self._app, self._scope, self._paths)
                    await self._execute(self._exchange.receive(Done()))
                case Fail(error):
                    await send_error(self._client_send, error)
                case _:
                    raise AssertionError(action)

    def _end(self) -> None:
        """Read nothing more of the app's answer. What waits to receive gets a disconnect, as after a response's end.

        Some frameworks wait for it before they return (Litestar does), and another attempt may have to follow.
        """
        if not self._over.done():
            self._over.set_result(None)


def _size(action: Action, data: bytes) -> int:
    """Bytes that leave; `data` where it is forwarded."""
    return len(action.data) if isinstance(action, Send) else len(data) if isinstance(action, Forward) else 0


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
