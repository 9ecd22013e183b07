"""One connection to an upstream: writes a request, reads its answer, one at a time."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterable
from typing import cast

from ....http.client_library import httpx
from .answer import HttpAnswer

# Bytes of a body that wait here for a client who reads slowly; then the upstream has to wait.
_MOST_HELD = 64 * 1024
_FIRST_REFUSAL = 400


class Connection(asyncio.BufferedProtocol):
    """Made by the pool, which gives `buffer`: all its connections read into it, each for a moment.

    `lost`: nothing can be sent or read any more. `sent`: the whole request has left. `streamed`: its last answer came
    in chunks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, buffer: memoryview) -> None:
        self._loop = loop
        self._buffer = buffer
        self._transport: asyncio.Transport
        self._answer: HttpAnswer | None = None
        self._fault: httpx.TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._refused: asyncio.Future[None] | None = None
        self._write_paused = False
        self._read_paused = False
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.lost = False
        self.sent = False
        self.streamed = False
        self.idle_since = 0.0

    # -- what asyncio calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where to read into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come. An upstream that sends some without a request is not asked again."""
        answer = self._answer
        if answer is None:
            self.abort()
            return
        if self._fault is not None:
            return
        try:
            answer.feed(self._buffer[:nbytes])
        except httpx.TransportError as error:
            self._fault = error
        if answer.held >= _MOST_HELD and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
        if self._refused is not None and (self._fault or self._is_answered()):
            self._refuse()
        self._wake()

    def eof_received(self) -> bool:
        """The upstream has ended its side; ours ends with it."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self.lost = True
        if self._answer is not None and self._fault is None:
            self._fault = self._answer.end(exc)
        self._stop_timer()
        self._refuse()
        self._wake()

    def pause_writing(self) -> None:
        """The upstream takes less than there is."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """It has taken most."""
        self._write_paused = False
        self._wake()

    # -- asking ------------------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether an idle connection can be asked: nothing has come on it, not even its end."""
        return not self.lost and not self._transport.is_closing() and not self._has_input()

    def begin(self, answer: HttpAnswer) -> None:
        """From now on bytes that come are of `answer`."""
        self._answer = answer
        self._fault = None
        self.sent = False

    async def send_whole(self, data: bytes, seconds: float | None) -> None:
        """Send a request that is at hand. Raises httpx.WriteTimeout where it is not taken.

        A connection that breaks meanwhile raises nothing: an answer may have come before. So with a refusal, and with
        an answer that is whole.
        """
        self._transport.write(data)
        if self._write_paused:
            await self._taken(seconds)
        self._all_written()

    async def send_parts(
        self, head: bytes, body: AsyncIterable[bytes], *, chunked: bool, seconds: float | None
    ) -> None:
        """Send a request whose body comes in parts. A refusal that comes before its end ends it.

        Raises what `body` raises, and httpx.WriteTimeout.
        """
        self._transport.write(head)
        self._refused = self._loop.create_future()
        upload = self._loop.create_task(self._upload(body, chunked=chunked, seconds=seconds))
        try:
            await asyncio.wait({upload, self._refused}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._refused = None
            if not upload.done():
                upload.cancel()
                await asyncio.wait({upload})
            # Retrieved also where this task is cancelled, so that asyncio does not log it.
            fault = None if upload.cancelled() else upload.exception()
        if fault is not None:
            raise fault

    async def _upload(self, body: AsyncIterable[bytes], *, chunked: bool, seconds: float | None) -> None:
        write = self._transport.write
        async for part in body:
            if self.lost:
                return
            write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            if self._write_paused:
                await self._taken(seconds)
        if chunked:
            write(b"0\r\n\r\n")
            if self._write_paused:
                await self._taken(seconds)
        self._all_written()

    def _all_written(self) -> None:
        self.sent = not self._write_paused and not self._transport.is_closing()
        if self._answer is not None and self._answer.begun:
            # Who answers what it has not read may never read it, and the next request would have to wait for that.
            self._answer.clean = False

    async def _taken(self, seconds: float | None) -> None:
        """Wait until most of what was written is taken, or nothing more need be."""
        try:
            async with asyncio.timeout(seconds):
                while self._write_paused and not self.lost and not self._fault and not self._is_answered():
                    await self._wait(None)
        except TimeoutError:
            raise httpx.WriteTimeout("nothing was taken") from None

    def _is_answered(self) -> bool:
        """Whether the rest of the request need not be sent: it is refused, or its answer is whole."""
        answer = self._answer
        return answer is not None and (answer.complete or answer.status >= _FIRST_REFUSAL)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def head(self, seconds: float | None) -> None:
        """Wait for the head of the answer: all of it has to come in `seconds`, which an interim answer gives anew.
        Raises httpx.TransportError.
        """
        answer = self._answer
        assert answer is not None  # noqa: S101 - it has begun
        interim, deadline = 0, self._after(seconds)
        while not answer.begun:
            if self._fault is not None:
                raise self._fault
            if answer.interim != interim:
                interim, deadline = answer.interim, self._after(seconds)
            await self._wait(deadline)

    async def part(self, seconds: float | None) -> bytes:
        """All of the body that is there, waited for where there is none; empty at its end. Raises
        httpx.TransportError, after what came before it.
        """
        answer = self._answer
        assert answer is not None  # noqa: S101 - it has begun
        while not answer.held:
            if answer.complete:
                return b""
            if self._fault is not None:
                raise self._fault
            await self._wait(self._after(seconds))
        data = answer.take()
        if self._read_paused:
            self._read_paused = False
            if not self.lost:
                self._transport.resume_reading()
        return data

    def end(self) -> bool:
        """The answer has been read, or is not wanted any more. Whether another request may follow; if not, it closes.

        Nobody waits for it.
        """
        answer, self._answer = self._answer, None
        fault, self._fault = self._fault, None
        self._stop_timer()
        if answer is None:
            self.abort()
            return False
        self.streamed = answer.chunked
        answer.close()
        usable = answer.complete and answer.clean and self.sent and fault is None
        if usable and not self._write_paused and not self._read_paused and not self._transport.is_closing():
            return True
        # What is still to be written would have to be taken first, and the upstream may not do that.
        if answer.complete and not self._transport.get_write_buffer_size():
            self._transport.close()
        else:
            self.abort()
        return False

    def abort(self) -> None:
        """Close it now: what has not left is lost."""
        self._transport.abort()

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _after(self, seconds: float | None) -> float | None:
        return None if seconds is None else self._loop.time() + seconds

    async def _wait(self, deadline: float | None) -> None:
        """Wait until something has happened. Raises httpx.ReadTimeout at the event loop's `deadline`."""
        waiter = self._waiter = self._loop.create_future()
        if deadline is not None:
            # One timer for all waits: most end long before, and moving it would cost more than the look at its end.
            self._deadline = deadline
            if self._timer is None:
                self._timer = self._loop.call_at(self._deadline, self._look_at_clock)
        try:
            await waiter
        finally:
            self._waiter = None
            self._deadline = 0.0

    def _look_at_clock(self) -> None:
        self._timer = None
        if self._waiter is None or not self._deadline:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look_at_clock)
        elif not self._waiter.done():
            self._waiter.set_exception(httpx.ReadTimeout("nothing came"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _refuse(self) -> None:
        if self._refused is not None and not self._refused.done():
            self._refused.set_result(None)

    def _has_input(self) -> bool:
        """Whether the system has bytes, or the end, that the event loop has not read yet."""
        number = self._transport.get_extra_info("socket").fileno()
        if number < 0:
            return True
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(number, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([number], [], [], 0)[0])  # Windows, which has no poll
