"""Requests that nobody here reads, while a guard is on: they pass when their body is proven to hold no tools.

Another API (`/v1/responses`, `/api/chat`, `/invocations`), another method or another encoding would else carry past
the guard what it is there to stop.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ToolCallError, shown
from ...settings import Settings
from ..http.bodies import replay
from ..http.errors import log_refusal
from ..http.hidden_words import hides_words
from ..http.offload import offloaded
from ..http.paths import normal_path_of
from ..http.upload import cleared, collect
from .first_word import refuse, turned_away

_LIMITS = (
    "max_tools", "max_tool_name_length", "max_description_length", "max_schema_depth", "max_arguments_bytes",
    "max_tool_calls", "max_tool_rounds",
)  # fmt: skip
# Every API calls what carries tools so: `tools`, `functions`, `toolConfig`, `function_declarations`, `tool_calls`.
_WORDS = (b"tool", b"function", b"mcp_server")
_NAME = re.compile(r"tool|function|mcp_?server", re.IGNORECASE)
_PLAIN_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "latin1"})
_UNREAD = "a guard is on, and this is not read here"
# Fields of a chat completion that are read, and those that hold data of any name and are no more than data.
_READ = frozenset({
    "model", "messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "toolcall",
    "request_options", "metadata", "response_format",
})  # fmt: skip
READ_BY_FACES = frozenset({"mcp_servers", "input", "text", "output_config", "output_format"})
_CARRIERS = frozenset({
    "tools", "functions", "mcp_servers", "function_declarations", "functiondeclarations", "toolconfig", "tool_config",
})  # fmt: skip
# Their APIs have no tools, and their bodies are recordings and pictures.
_MEDIA = ("/audio/", "/images/")


def is_guarded(settings: Settings) -> bool:
    """Whether the operator set what tools must not get past: a list, a rate, tenants or limits."""
    return (
        settings.allowlist_mode == "enforce"
        or settings.rate_limit is not None
        or settings.tenants_file is not None
        or any(settings.source(name) != "default" and getattr(settings, name) is not None for name in _LIMITS)
    )


async def pass_without_tools(app: ASGIApp, scope: Scope, receive: Receive, send: Send, settings: Settings) -> None:
    """Run `app` for a request that is not read, unless it may hold tools: then it is a 403 `tool_not_allowed`."""
    if scope["type"] == "websocket":
        await receive()
        log_refusal(ToolCallError("tool_not_allowed", _UNREAD))
        await send({"type": "websocket.close", "code": 1008, "reason": _UNREAD})
        return
    if await turned_away(app, scope, send):
        return
    try:
        body, messages = await collect(receive, scope, limit=settings.max_request_bytes, within=settings.upload_timeout)
        if body:
            body, messages, scope = await cleared(body, messages, scope, settings.max_request_bytes)
            await offloaded(len(body), _refuse_tools, scope, body)
    except ToolCallError as error:
        await refuse(app, scope, send, error)
        return
    await app(scope, replay(messages, receive), send)


def _refuse_tools(scope: Scope, body: bytes) -> None:
    if found := tools_in(scope, body):
        where = f"{scope['method']} {scope['path']}"[:100]
        message = f"Tools are guarded here, and {where} is not read: {found}. Use POST /v1/chat/completions."
        raise ToolCallError("tool_not_allowed", message)


def tools_in(scope: Scope, body: bytes) -> str:
    """Why the body may hold tools; empty where it is proven that it holds none."""
    path = normal_path_of(scope)
    if any(kind in path for kind in _MEDIA):
        return ""
    charset = _charset(scope)
    if charset not in _PLAIN_CHARSETS:
        return f"its charset {shown(charset)} hides what it holds"
    lowered = body.lower()
    if not any(word in lowered for word in _WORDS) and not hides_words(body):
        return ""
    try:
        # Every member is seen, also one that another of the same name follows.
        json.loads(body, object_pairs_hook=_check)
    except _FoundError as error:
        return f"it holds the field {shown(error.args[0])}"
    except (ValueError, RecursionError):
        return "its body is no JSON and may hold some"
    return ""


def check_unknown_fields(body: bytes, read: frozenset[str] = frozenset()) -> None:
    """Refuse a request whose tools stand where this layer does not look, and a gateway behind it may.

    LiteLLM takes fields out of `extra_body`, vLLM gives `chat_template_kwargs` to the template, which writes tools.
    read: fields that the request's API has besides those of chat completions. Raises ToolCallError.
    """
    if not any(word in body.lower() for word in _WORDS) and not hides_words(body):
        return
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return  # refused where it is read
    if not isinstance(fields, dict):
        return
    for name, value in fields.items():
        if name.casefold() in _READ or name in read or value is None:  # other spellings are refused where it is read
            continue
        found = name if name.casefold() in _CARRIERS and value else _carrier(value)
        if found:
            message = f"Tools are guarded here, and the field {shown(name)} is not read: it holds {shown(found)}."
            raise ToolCallError("tool_not_allowed", message, param=name[:100])


def _carrier(value: Any) -> str:
    """A field of tools somewhere in a JSON value; empty where there is none."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as fields:
                found = next((name for name, inner in fields.items() if inner and name.casefold() in _CARRIERS), "")
                if found:
                    return str(found)
                waiting += fields.values()
            case list() as items:
                waiting += items
    return ""


class _FoundError(Exception):
    """A member whose name speaks of tools."""


def _check(pairs: list[tuple[str, Any]]) -> None:
    for name, value in pairs:
        if _NAME.search(name) and value is not None and value != []:
            raise _FoundError(name)
        if name == "type" and isinstance(value, str) and _NAME.search(value):
            raise _FoundError(f"type: {value}")


def _charset(scope: Scope) -> str:
    kinds = [value for name, value in scope.get("headers", ()) if name.lower() == b"content-type"]
    found = re.search(rb"charset\s*=\s*\"?([^\s;\",]*)", b",".join(kinds), re.IGNORECASE)
    return found[1].decode("latin-1").lower() if found else ""
