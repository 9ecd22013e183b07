"""Rates that the workers of one `serve` count together without a Redis: the process that started them counts.

The counters are `limits`' own memory, in a thread of that process. Workers ask over a Unix socket in a folder that only
this user may enter: a line of JSON with a method and its arguments, and a line with the answer. Where none comes, the
storage is down for that worker, and `rate_limit_failure` says what becomes of its requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from limits.aio.storage import MemoryStorage, Storage

SCHEME = "workers"
_LONGEST = 64 * 1024  # bytes of a line: a tenant's key is some hundred
_BACKLOG = 1024
_KEPT: list[tempfile.TemporaryDirectory[str]] = []

_Number = int | float
_question = msgspec.json.Decoder(list[str | _Number])
_answer = msgspec.json.Decoder(float)


def count_here() -> str:
    """Count in this process from now on. The address that its workers have as `rate_limit_storage`.

    Raises OSError where no socket can be made.
    """
    folder = tempfile.TemporaryDirectory(prefix="toolcall-rates-")  # removed when this process ends
    path = f"{folder.name}/counters"
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        folder.cleanup()
        raise
    _KEPT.append(folder)
    threading.Thread(
        target=asyncio.run, args=(_serve(listener),), name="toolcall-middleware rates", daemon=True
    ).start()
    return f"{SCHEME}://{path}"


async def _serve(listener: socket.socket) -> None:
    counters = MemoryStorage()
    methods: dict[str | _Number, Callable[..., Awaitable[_Number | None]]] = {
        "incr": counters.incr,
        "get": counters.get,
        "get_expiry": counters.get_expiry,
        "clear": counters.clear,
    }

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One worker's connection. What is no question of ours ends it."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            while line := await reader.readline():
                name, *arguments = _question.decode(line)
                writer.write(msgspec.json.encode(await methods[name](*arguments) or 0) + b"\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(talk, sock=listener, limit=_LONGEST)
    async with server:
        await server.serve_forever()


class WorkersStorage(Storage):
    """The counters of the process that counts, as `limits` asks for them. Of one event loop."""

    STORAGE_SCHEME = [f"async+{SCHEME}"]  # noqa: RUF012 - the base class declares it so

    def __init__(self, uri: str, wrap_exceptions: bool = False, **_: Any) -> None:  # noqa: FBT001, FBT002 - of limits
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._path = uri.partition("://")[2]
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def base_exceptions(self) -> type[Exception]:
        """What is raised where the counters cannot be reached."""
        return OSError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count `amount` for `key`, whose window lasts `expiry` seconds from its first; how many there are now."""
        return int(await self._ask("incr", key, expiry, amount))

    async def get(self, key: str) -> int:
        """How many there are."""
        return int(await self._ask("get", key))

    async def get_expiry(self, key: str) -> float:
        """When the window ends, as `time.time` counts."""
        return await self._ask("get_expiry", key)

    async def check(self) -> bool:
        """Whether the counters answer."""
        await self._ask("get", "")
        return True

    async def clear(self, key: str) -> None:
        """Forget what was counted for `key`."""
        await self._ask("clear", key)

    async def reset(self) -> int | None:
        """Workers do not forget what others have counted."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connection."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    async def _ask(self, *question: str | _Number) -> float:
        async with self._turn:
            # One that is given up in the middle is not used again: an answer would come late on it.
            streams, self._streams = self._streams, None
            if streams is None:
                streams = await asyncio.open_unix_connection(self._path, limit=_LONGEST)
            reader, writer = streams
            try:
                writer.write(msgspec.json.encode(question) + b"\n")
                line = await reader.readline()
                if not line.endswith(b"\n"):
                    raise ConnectionResetError("the process that counts rates has gone")
                self._streams = streams
            finally:
                if self._streams is None:
                    writer.close()
        return _answer.decode(line)
