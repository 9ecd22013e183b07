"""A new connection to a host of several addresses: the next one is tried where one does not answer soon (RFC 8305)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from itertools import zip_longest
from typing import TypeVar

# Seconds: the RFC's own "Connection Attempt Delay".
_STAGGER = 0.25

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def dial(make: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None) -> P:
    """The protocol that `make` gives, connected. Raises OSError, of the first address where there are several."""
    addresses = await _addresses(host, port)
    if len(addresses) == 1:
        return await _connect(make, addresses[0], port, tls, host)
    running: set[asyncio.Task[P]] = set()
    fault: BaseException | None = None
    try:
        for at, address in enumerate(addresses, 1):
            running.add(asyncio.ensure_future(_connect(make, address, port, tls, host)))
            while running:
                wait = None if at == len(addresses) else _STAGGER
                done, _ = await asyncio.wait(running, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task.exception() is None:
                        running.discard(task)
                        return task.result()
                    running.discard(task)
                    fault = fault or task.exception()
                if wait is not None:
                    break
        raise fault or OSError(f"{host} has no address")
    finally:
        for task in running:
            task.cancel()
        for late in await asyncio.gather(*running, return_exceptions=True):
            if not isinstance(late, BaseException):
                late.abort()  # type: ignore[attr-defined]


async def _connect(make: Callable[[], P], address: str, port: int, tls: ssl.SSLContext | None, host: str) -> P:
    loop = asyncio.get_running_loop()
    name = host if tls is not None else None
    _, protocol = await loop.create_connection(make, address, port, ssl=tls, server_hostname=name)
    return protocol


async def _addresses(host: str, port: int) -> list[str]:
    """Numeric, the kinds in turns, the resolver's first one first."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    kinds: dict[int, list[str]] = {}
    for kind, _, _, _, address in found:
        kinds.setdefault(kind, []).append(str(address[0]))
    turns = zip_longest(*kinds.values())
    return list(dict.fromkeys(address for turn in turns for address in turn if address is not None))
