"""A wrong setting in an app: the server is told, and does not start.

Frameworks make their middleware when the first message comes, the one of the server's lifespan. A server takes an
exception there for an app without a lifespan, starts, and every request fails; `lifespan.startup.failed` ends it.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.types import Receive, Scope, Send

from ...errors import FormatError, SettingsError

_log = logging.getLogger("toolcall_middleware")


def is_served() -> bool:
    """Whether a server runs: an exception would be taken for something else."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def refuse_start(scope: Scope, receive: Receive, send: Send, fault: SettingsError | FormatError) -> None:
    """Answer the lifespan of an app that must not start. Raises `fault` for anything else, such as a request."""
    if scope["type"] != "lifespan":
        raise fault
    await receive()
    _log.error("%s", fault)
    await send({"type": "lifespan.startup.failed", "message": str(fault)})
