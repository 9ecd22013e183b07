"""What is told at start: a wrong setting, with which the server does not start, and a hole in what it stands on.

Frameworks make their middleware when the first message comes, the one of the server's lifespan. A server takes an
exception there for an app without a lifespan, starts, and every request fails; `lifespan.startup.failed` ends it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from importlib import metadata

from starlette.types import Receive, Scope, Send

from ...errors import FormatError, SettingsError
from ...settings import Settings
from ...usage.tokenizers.base import load

_SOUND_STARLETTE = (1, 0, 1)
"""CVE-2026-48710 is repaired since: https://github.com/Kludex/starlette/security/advisories/GHSA-86qp-5c8j-p5mr"""

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


def with_tokenizer(settings: Settings) -> Settings:
    """Load the tokenizer that is set, and keep its special tokens out of what tools say. Raises SettingsError.

    Returns the settings with the chat template in its folder, where no setting says which one.
    """
    tokenizer = load(settings.tokenizer)
    if tokenizer.special_tokens:
        from ...formats.prompt import escaping  # with every family

        escaping.add_tokens(tokenizer.special_tokens)
    if tokenizer.checkpoint is None or settings.template is not None or settings.by_hand("template"):
        return settings
    return settings.replace(template=tokenizer.checkpoint)


@functools.cache
def warn_of_starlette() -> None:
    """Warn, once a process, of a Starlette whose `request.url` an attacker can choose.

    We decide by the path that the server read, but the app around us may not. The floor of our dependency is lower,
    because inference servers pin it: where they allow a later one, an installer takes it.
    """
    version = metadata.version("starlette")
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if numbers < _SOUND_STARLETTE:
        _log.warning(
            "Starlette %s takes request.url from a Host header that it does not check (CVE-2026-48710): what an app"
            " decides by request.url.path can be bypassed. Install 1.0.1 or later where the server allows it.",
            version,
        )
