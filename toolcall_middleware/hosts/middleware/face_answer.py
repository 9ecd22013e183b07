"""A chat answer on its way to a client that speaks another API: what is sent in, leaves as that client's face has it.

Whole answers and errors are collected, within a limit, streams leave piece by piece. Nothing waits here but for the
client, so that its backpressure and its leaving reach the backend as without us. A client that waits for a stream gets
events that say so: its answer is begun before the backend's where that takes long.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator, Sequence
from types import TracebackType

from starlette.types import Message, Scope, Send

from ...apis.face import Face, FaceReply, FaceRequest
from ...errors import ToolCallError, on_one_line
from ...observe.recorder import Recorder
from ...wire import openai
from ..http.errors import log_refusal, send_refusal, tell_refusal
from ..http.headers import ENTITY_HEADERS, Headers, values_of, without
from ..http.offload import offloaded
from ..http.request_record import record_of
from .faces import Endpoint, endpoint_by_path, new_face

_NOTE = b"x-toolcall"
_STREAM = b"text/event-stream"
_QUIET = 5.0  # seconds without an event, after which one says that the answer is being made
_STRANGE = re.compile(r"[^A-Za-z0-9_.:-]")
_LIMIT = 64 << 20
_MOST_NAMED = 20
_LONGEST_PLACE = 200  # characters of a redirect's target
_UNAUTHORIZED = 401  # the app's: who is not let in learns of nothing here


class FaceAnswer:
    """The `send` of one request on a face. asked: the request, once it was read.

    `recorder`: who is shown what leaves, where somebody wants to see it.
    """

    def __init__(self, send: Send, face: Face, limit: int | None) -> None:
        self._send = send
        self._face = face
        self._limit = _LIMIT if limit is None else limit
        self._turns = Turns()
        self._start: Message | None = None
        self._streams = False  # the answer at hand is a stream
        self._written = False  # it is in the client's words already: the exchange gave it to the face's writer
        self._parts: list[bytes] = []
        self._size = 0
        self._begun = False  # the client's answer has begun
        self._over = False
        self._quiet = True  # nothing has left since the last look
        self.recorder: Recorder | None = None
        self.asked: FaceRequest | None = None

    # -- what the chat answer is -----------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        # There are thousands of messages in a stream: what is usual makes as few calls as it can.
        kind = message["type"]
        turns = self._turns
        if turns.taken:
            await turns.come()
        turns.taken = True
        try:
            if self._over:
                return
            if kind == "http.response.body":
                data, more = message.get("body", b""), message.get("more_body", False)
                if not self._streams:
                    await self._on_body(data, more=more)
                elif data or not more:
                    self._quiet = False
                    self._over = not more
                    if data and self.recorder is not None:
                        self.recorder.data("face", data)
                    await self._send({"type": "http.response.body", "body": data, "more_body": more})
            elif kind == "http.response.start":  # else of an extension, which speaks of the chat answer's own bytes
                await self._on_start(message)
        finally:
            if turns.waiting:
                turns.leave()
            else:
                turns.taken = False

    async def _on_start(self, message: Message) -> None:
        self._start, self._parts, self._size = message, [], 0
        headers = {name.lower(): value.strip().lower() for name, value in message.get("headers", ())}
        writer = self._face.writer
        self._written = writer is not None and writer.in_use and message["status"] < 300
        self._streams = self._written and headers.get(b"content-type", b"").startswith(_STREAM)
        if self._streams:
            await self._begin(message)

    async def _on_body(self, data: bytes, *, more: bool) -> None:
        self._size += len(data)
        if self._size > self._limit:
            error = ToolCallError("upstream_error", f"The answer exceeds {self._limit} bytes.")
            log_refusal(error)
            await self._fail(error)
            return
        self._parts.append(data)
        if not more:
            await self._whole(b"".join(self._parts))

    async def _whole(self, data: bytes) -> None:
        start = self._start or {"type": "http.response.start", "status": 502, "headers": []}
        status = start["status"]
        if self._written:
            await self._reply(FaceReply(status=status, body=data, headers=self._face.whole_headers()))
            return
        headers = {name.lower(): value for name, value in start.get("headers", ())}
        if 300 <= status < 400:
            error = _redirected(status, headers.get(b"location", b""))
            log_refusal(error)
            await self._fail(error)
            return
        if self._begun:
            error = await offloaded(len(data), openai.read_error, data, max(status, 400))
            await self._body(self._face.fail(error), more=False)
            return
        await self._reply(await offloaded(len(data), self._face.whole, status, headers, data))

    # -- what leaves -----------------------------------------------------------------------------------------------

    async def fail(self, error: ToolCallError) -> None:
        """Answer with an error of our own."""
        async with self._turns:
            await self._fail(error)

    async def _fail(self, error: ToolCallError) -> None:
        if self._over:
            return
        if self._begun:
            await self._body(self._face.fail(error), more=False)
        else:
            self._start = None
            await self._reply(self._face.error(error))

    async def reply(self, reply: FaceReply, note: str = "") -> None:
        """Answer with what the face has written itself. note: of the header `x-toolcall`."""
        start = {"type": "http.response.start", "status": 200, "headers": [(_NOTE, note.encode())] if note else []}
        async with self._turns:
            self._start = start
            await self._reply(reply)

    async def _reply(self, reply: FaceReply) -> None:
        start = self._start or {"type": "http.response.start", "headers": []}
        headers = self._headers(start, [*reply.headers, (b"content-length", b"%d" % len(reply.body))])
        if not values_of(headers, b"content-type"):
            headers.append((b"content-type", b"application/json"))
        self._begun = self._over = True
        self._note(reply.body)
        await self._send({**start, "status": reply.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": reply.body, "more_body": False})

    async def _begin(self, start: Message) -> None:
        if self._begun:
            return
        self._begun = True
        self._quiet = False
        await self._send({**start, "headers": self._headers(start, self._face.stream_headers())})

    async def _body(self, out: bytes, *, more: bool) -> None:
        self._quiet = False
        self._over = not more
        self._note(out)
        await self._send({"type": "http.response.body", "body": out, "more_body": more})

    def _note(self, out: bytes) -> None:
        if out and self.recorder is not None:
            self.recorder.data("face", out)

    def _headers(self, start: Message, own: Sequence[tuple[bytes, bytes]]) -> Headers:
        """The chat answer's headers as the face's answer has them."""
        given = start.get("headers", ())
        notes = values_of(given, _NOTE)
        dropped = self.asked.dropped_tools if self.asked is not None else ()
        names = ",".join(_STRANGE.sub("_", name[:64]) for name in dropped[:_MOST_NAMED])
        note = b"; ".join([b"api=" + self._face.api.encode(), *notes])
        if names:
            note += b"; dropped_tools=" + names.encode()
        if self._face.dropped_images:
            note += b"; dropped_images=%d" % self._face.dropped_images
        replaced = ENTITY_HEADERS | {name.lower() for name, _ in own} | {_NOTE}
        told = [(_NOTE, note)] if start.get("status") != _UNAUTHORIZED else []
        return [*without(given, replaced), *own, *told]

    # -- a client that waits ---------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def waiting(self, scope: Scope) -> AsyncIterator[None]:
        """While the answer is made, a client that waits for events gets some; what it is owed if that breaks off."""
        keeping = asyncio.ensure_future(self._keep(scope)) if self.asked is not None and self.asked.stream else None
        try:
            yield
        except Exception:
            if self._begun and not self._over:
                # The server may not tell the client that this is no end.
                with contextlib.suppress(OSError):
                    await self._body(self._face.cut(), more=False)
            raise
        finally:
            if keeping is not None:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

    async def _keep(self, scope: Scope) -> None:
        with contextlib.suppress(OSError):  # the client has gone, which others learn by themselves
            while not self._over:
                self._quiet = True
                await asyncio.sleep(_QUIET)
                async with self._turns:
                    if self._quiet and not self._over:
                        await self._tell(scope)

    async def _tell(self, scope: Scope) -> None:
        if self._begun:
            if self._streams or self._start is None:
                if out := self._face.begin() or self._face.keepalive():
                    await self._body(out, more=True)
            return
        # Once the answer has begun, no other upstream can give it. A refusal that is being read is no answer.
        if not record_of(scope).others and self._start is None:
            await self._begin({"type": "http.response.start", "status": 200, "headers": [(b"content-type", _STREAM)]})
            await self._body(self._face.begin(), more=True)


def _redirected(status: int, location: bytes) -> ToolCallError:
    """The error for a redirect. It leads to chat completions, where a client of another API has nothing to ask."""
    where = f" to {on_one_line(location.decode('latin-1')[:_LONGEST_PLACE])}" if location else ""
    return ToolCallError("upstream_error", f"The backend answered with status {status}, a redirect{where}.")


class Turns:
    """As `asyncio.Lock`, for what is done thousands of times: where none waits, a turn costs no call.

        if turns.taken:
            await turns.come()
        turns.taken = True
        try:
            ...
        finally:
            if turns.waiting:
                turns.leave()
            else:
                turns.taken = False

    taken: a task has the turn. waiting: those that come next.
    """

    __slots__ = ("taken", "waiting")

    def __init__(self) -> None:
        self.taken = False
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def come(self) -> None:
        """Wait for the turn. A task that is cancelled meanwhile does not get it, and does not hold up others."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Nobody else can take the turn between this and the next one's going on: it stays taken."""
        while self.waiting:
            next_one = self.waiting.popleft()
            if not next_one.done():
                next_one.set_result(None)
                return
        self.taken = False

    async def __aenter__(self) -> None:
        if self.taken:
            await self.come()
        self.taken = True

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.leave()


async def refuse(scope: Scope, send: Send, error: ToolCallError) -> None:
    """Answer a request with `error`, and log that: in the client's own API, or else in OpenAI's envelope."""
    endpoint = endpoint_by_path(scope)
    if endpoint is None:
        await send_refusal(scope, send, error)
    else:
        tell_refusal(scope, error)
        await FaceAnswer(send, new_face(Endpoint.MESSAGES if endpoint is Endpoint.MODELS else endpoint), None).fail(
            error
        )
