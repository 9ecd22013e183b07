"""What is done at start: wrong settings end it, and a thread loads what the first request with tools would wait for.

Frameworks make their middleware when the first message comes, the one of the server's lifespan. A server takes an
exception there for an app without a lifespan, starts, and every request fails; `lifespan.startup.failed` ends it.

What is loaded are imports, the patterns of the formats, the checks of JSON Schemas: a tenth of a second of work. That
is done in a thread, and not before the server runs: importing the package and making the middleware stay quick, and a
process that forks its workers has not begun it yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import logging
import re
import threading
from importlib import metadata

from starlette.types import Receive, Scope, Send

from ...errors import FormatError, SettingsError, ToolCallError
from ...exchange import Ask, Body, Exchange, Head, Request
from ...json_schema.validate_arguments import checker_for
from ...request.parse import ChatRequest, read_request
from ...settings import Settings
from ...upstream.backend_memory import BackendMemory
from ...usage.tokenizers.vocabularies import load
from ...wire import openai
from ...wire.sse import DONE

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


_NAME = "toolcall-middleware warming"
_TOOL = {"type": "function", "function": {"name": "warm_up", "parameters": {"type": "object", "properties": {}}}}
_ASKED = {"model": "m", "messages": [{"role": "user", "content": ""}], "tools": [_TOOL]}
_REQUEST = json.dumps(_ASKED).encode()
_TEXT = 'So.\n```json\n{"tool_calls": [{"name": "warm_up", "arguments": {}}]}\n```'


@functools.lru_cache(maxsize=16)  # once a process for each settings
def warm(settings: Settings) -> threading.Thread:
    """Start it, once. The thread, which ends by itself."""
    thread = threading.Thread(target=_load, args=(settings,), name=_NAME, daemon=True)
    thread.start()
    return thread


def settle() -> threading.Thread:
    """Once all is warm, take what this process has by then out of the garbage collector's sight: it stays anyway, and
    to look through it takes some fifty milliseconds in which every stream pauses. Only for a process that is a
    server and nothing else. The thread, which ends by itself.
    """
    thread = threading.Thread(target=_settle, name="toolcall-middleware settling", daemon=True)
    thread.start()
    return thread


def _settle() -> None:
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join()
    gc.collect()
    gc.freeze()


def _load(settings: Settings) -> None:
    settings = settings.replace(allowlist_mode="off")  # no client asked for our tool: it needs no warning
    own = threading.get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != own

    _log.addFilter(of_others)  # no model has called a tool: what this thread would log is not so
    try:
        _answer(settings)
    finally:
        _log.removeFilter(of_others)
    with contextlib.suppress(ToolCallError):  # settings may refuse it: what they need is loaded by then
        chat = read_request(_REQUEST, settings)
        if settings.validate_arguments != "off" and isinstance(chat, ChatRequest):
            checker_for(chat.tools_raw, chat.tools).faults("warm_up", "{}")


def _answer(settings: Settings) -> None:
    """One exchange, as far as the settings let it go. A whole answer is read as its stream is."""
    exchange = Exchange(settings, BackendMemory())
    ask = exchange.receive(Request(json.dumps({**_ASKED, "stream": True}).encode()))[0]
    if not isinstance(ask, Ask):
        return
    if ask.prompt is not None:
        with contextlib.suppress(ToolCallError):  # a template may refuse this conversation, and is ready by then
            ask.prompt.write()
    exchange.receive(Head(200, [(b"content-type", b"text/event-stream")]))
    pieces = [({"content": _TEXT[at : at + 8]}, None) for at in range(0, len(_TEXT), 8)]
    for delta, reason in (*pieces, ({}, "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        exchange.receive(Body(openai.event(openai.encode(chunk)), last=False))
    exchange.receive(Body(DONE, last=True))
