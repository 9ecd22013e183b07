"""An app's answer on its way to a client: what collects, passes or replaces it, and what measures it."""

from __future__ import annotations

import asyncio
import enum
import re
import time

from starlette.types import Message, Send

from .bodies import CODED, LARGE, Inflate, offloaded
from .head import ENTITY_HEADERS, OF_ITS_BYTES, values_of, without

_TAIL = 4096
# Quotes inside of a string have a backslash, so that no text can look like it.
_USAGE = re.compile(rb'(?<!\\)"usage"\s*:\s*\{')
_COUNTS = {
    name: re.compile(rb'(?<!\\)"(?:%s)"\s*:\s*([0-9]{1,15})\b' % words)
    for name, words in (
        ("prompt_tokens", rb"prompt_tokens|input_tokens"),
        ("completion_tokens", rb"completion_tokens|output_tokens"),
    )
}


class Reads(enum.Enum):
    """How much of an answer is read at once."""

    NOTHING = "it passes as it came"
    PIECES = "each piece is read by `piece`"
    WHOLE = "all of it is read by `whole`"


class Answer:
    """One answer. The app gets its `send`; subclasses decide in `begun`, `piece`, `whole` and `too_long`.

    An answer of more than `limit` bytes that is to be read whole passes as it came. `lazy`: the head of an answer that
    is read in pieces is sent with its first bytes, not before.
    """

    lazy = False

    def __init__(self, send: Send, limit: int | None = None) -> None:
        self._client = send
        self._limit = limit
        self._decodes = False
        self._inflate: Inflate | None = None
        self._held: list[Message] = []
        self._size = 0
        self._passes = False
        self._opened = False
        self.reads = Reads.NOTHING
        self.start: Message = {"type": "http.response.start", "status": 502, "headers": []}
        """The head that the client gets."""
        self.ended = False
        """The client has all of it."""

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        if self._passes:
            await self._client(message)
        elif self.ended:
            pass
        elif message["type"] == "http.response.body":
            data, more = bytes_of(message), message.get("more_body", False)
            if self._decodes:
                data = await self.decoded(data)
            if self.reads is Reads.PIECES:
                out = await self.piece(data, last=not more)
                if out and more and self._opened:  # nearly always, so with few calls
                    await self._client({"type": "http.response.body", "body": out, "more_body": True})
                elif out or not more:
                    await self.give(out, more=more)
            else:
                await self._collect({**message, "body": data}, more=more)
        elif message["type"] == "http.response.start":
            self.start = {**message, "headers": list(message.get("headers", ()))}
            self.reads = self.begun()
            if self.reads is Reads.NOTHING:
                self._passes = True
                await self._open()
            elif self.reads is Reads.PIECES and not self.lazy:
                await self._open()
        else:  # of an extension: the body is not in messages
            await self.flush()
            await self._client(message)

    # -- what subclasses decide ------------------------------------------------------------------------------------

    def begun(self) -> Reads:
        """How the answer that begins with `self.start` is read. May change `self.start`."""
        return Reads.WHOLE

    async def piece(self, data: bytes, *, last: bool) -> bytes:  # noqa: ARG002 - for subclasses
        """What the client gets for a piece."""
        return data

    async def whole(self, body: bytes) -> bytes | None:  # noqa: ARG002 - for subclasses
        """What the client gets for the whole body; None where it gets that as it came."""
        return None

    async def decoded(self, data: bytes) -> bytes:
        """A piece without its content coding. Raises ToolCallError."""
        if self._inflate is None:
            return data
        return await offloaded(LARGE + 1 if len(data) > CODED else 0, self._inflate.feed, data)

    async def too_long(self) -> None:
        """More than `limit` bytes have come. They pass, and so does the rest."""
        self._passes = True
        await self.flush()

    # -- what they do it with --------------------------------------------------------------------------------------

    def header(self, name: bytes) -> bytes:
        """A header of the answer in lower case, without blanks around it; empty where there is none."""
        return next(iter(values_of(self.start["headers"], name)), b"").lower()

    @property
    def kind(self) -> bytes:
        """The content type without its parameters."""
        return self.header(b"content-type").partition(b";")[0].strip()

    @property
    def coding(self) -> str:
        """The content codings; empty for none."""
        codings = [value.lower() for value in values_of(self.start["headers"], b"content-encoding")]
        return b", ".join(coding for coding in codings if coding not in {b"", b"identity"}).decode("latin-1")

    def decode(self, limit: int | None) -> None:
        """Undo the content coding of an answer that is read. Raises ToolCallError for one that is not known."""
        coding = self.coding
        self._decodes = bool(coding)
        self.start["headers"] = without(self.start["headers"], ENTITY_HEADERS)
        self._inflate = Inflate(coding, limit) if coding else None

    def replaced(self, *headers: tuple[bytes, bytes], length: int) -> None:
        """The client gets another body, of `length` bytes. `headers` replace those of the same name."""
        kept = without(self.start["headers"], OF_ITS_BYTES | {name for name, _ in headers})
        self.start["headers"] = [*kept, *headers, (b"content-length", b"%d" % length)]

    async def give(self, data: bytes, *, more: bool) -> None:
        """Send bytes to the client, after the head where that was not sent yet."""
        await self._open()
        self.ended = not more
        await self._client({"type": "http.response.body", "body": data, "more_body": more})

    async def flush(self) -> None:
        """What was collected passes as it came."""
        if self.reads is Reads.WHOLE:
            await self._open()
        for message in self.taken():
            await self._client(message)

    def taken(self) -> list[Message]:
        """What was collected, which is not held any more."""
        held, self._held = self._held, []
        return held

    async def _open(self) -> None:
        if not self._opened:
            self._opened = True
            await self._client(self.start)

    async def _collect(self, message: Message, *, more: bool) -> None:
        self._held.append(message)
        self._size += len(message["body"])
        if more and self._limit is not None and self._size > self._limit:
            await self.too_long()
        elif not more:
            # A single piece stays the same object: an `ErrorBody` knows its error.
            body = message["body"] if len(self._held) == 1 else b"".join([held["body"] for held in self._held])
            out = await self.whole(body)
            if out is None:
                await self.flush()
                self.ended = True
            else:
                self.taken()
                await self.give(out, more=False)


def bytes_of(message: Message) -> bytes:
    """The body in a message. ASGI's type is bytes; servers take a view of them, too."""
    data = message.get("body", b"")
    return data if isinstance(data, bytes) else bytes(data)


class TooLongError(Exception):
    """The answer has more bytes than are kept."""


class Collected:
    """The answer to a request of our own: `status`, 0 where there is none, and `body`, None until it is complete.

    Raises TooLongError to the app for more than `limit` bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._received = bytearray()
        self._over = asyncio.Event()
        self.start: Message = {}
        self.status = 0
        self.body: bytes | None = None

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        if message["type"] == "http.response.start":
            self.start, self.status = message, message["status"]
        elif message["type"] == "http.response.body" and self.body is None:
            self._received += message.get("body", b"")
            if len(self._received) > self._limit:
                raise TooLongError
            if not message.get("more_body", False):
                self.body = bytes(self._received)
                self._over.set()

    async def gone(self) -> Message:
        """ASGI's `receive` after the request: a disconnect once the answer is complete, as from a server."""
        await self._over.wait()
        return {"type": "http.disconnect"}


async def no_client(_message: Message) -> None:
    """A `send` that drops its messages: they are for no client."""


class PassingAnswer:
    """An answer that passes `send` as it comes. Subclasses look at it in `started` and `passed`."""

    __slots__ = ("_send",)

    def __init__(self, send: Send) -> None:
        self._send = send

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        if message["type"] == "http.response.body":
            self.passed(message.get("body", b""), last=not message.get("more_body", False))
        elif message["type"] == "http.response.start":
            message = self.started(message)
        await self._send(message)

    def started(self, start: Message) -> Message:
        """The head that the client gets."""
        return start

    def passed(self, body: bytes, *, last: bool) -> None:
        """A piece of the body is about to be sent."""


class MeasuredAnswer(PassingAnswer):
    """`complete`: all of the answer has been sent. `first`: when the first byte of the body was. Its last bytes are
    kept for their usage.
    """

    __slots__ = ("_tail", "complete", "first", "size", "status")

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        self.status: int | None = None
        self.size = 0
        self.first: float | None = None
        self.complete = False
        self._tail = (b"", b"", b"")

    def started(self, start: Message) -> Message:
        """See PassingAnswer."""
        self.status = start["status"]
        return start

    def passed(self, body: bytes, *, last: bool) -> None:
        """See PassingAnswer."""
        self.complete = self.complete or last
        if body:
            self.size += len(body)
            # The usage may be in two pieces, and [DONE] in a third.
            _, two, three = self._tail
            self._tail = two, three, body if len(body) <= _TAIL else body[-_TAIL:]
            if self.first is None:
                self.first = time.perf_counter()

    async def tokens(self) -> int:
        """All tokens of the usage; 0 where the answer does not say."""
        return sum(filter(None, self.usage().values()))

    def usage(self) -> dict[str, int | None]:
        """The tokens that the answer says it took; None where it does not say."""
        return usage_in(b"".join(self._tail))


def usage_in(answer: bytes) -> dict[str, int | None]:
    """The tokens in the last usage of an answer, or of its last bytes; None for those that it does not say."""
    begins = [found.end() for found in _USAGE.finditer(answer)]
    usage = answer[begins[-1] :] if begins else b""
    counts = {name: pattern.search(usage) for name, pattern in _COUNTS.items()}
    return {name: None if found is None else int(found[1]) for name, found in counts.items()}
