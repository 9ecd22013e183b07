"""Requests that are not read, while a guard is on: they pass when their body is proven to hold no tools. And the app's
own key, which is asked for before anything is refused, so that only those who show the key
learn limits and settings from our refusals.

Another API (`/v1/responses`, `/api/chat`, `/invocations`), another method or another encoding would else carry past
the guard what it is there to stop.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import ToolCallError, shown
from ...settings import Settings
from ...wire.json_input import DECODE_ERRORS, read_fields, without_lone_surrogates
from ...wire.tool_words import CARRIERS, READS_CALLS, SPEAKS_OF_TOOLS
from ..http.answer import Collected, TooLongError
from ..http.bodies import Given, cleared, collect, hides_words, odd_charset, offloaded
from ..http.errors import log_refusal, send_refusal
from ..http.head import normal_path, raw_path, values_of, without

_LIMITS = (
    "max_tools", "max_tool_name_length", "max_description_length", "max_schema_depth", "max_arguments_bytes",
    "max_tool_calls", "max_tool_rounds",
)  # fmt: skip
# One of these is in every name that SPEAKS_OF_TOOLS finds, in lower case: a quick look before the thorough one.
_WORDS = (b"tool", b"function", b"mcp_server", b"mcpserver")
_UNREAD = "a guard is on, and this is not read here"
# Fields of a chat completion that are read, and those that hold data of any name and are no more than data.
_READ = frozenset({
    "model", "messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "toolcall",
    "request_options", "metadata", "response_format",
})  # fmt: skip
# Schemas of the answer: a property may be called `tool_name`, and no more than a carrier of tools is looked for.
_SCHEMAS = frozenset({"guided_json", "structured_outputs", "json_schema"})
_OF_A_TURN = frozenset({"content", "tool_calls", "function_call"})
READ_BY_FACES = frozenset({"messages", "mcp_servers", "input", "text", "output_config", "output_format"})
_BRACKETS = frozenset("{<")
_TURNS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
# These endpoints have no tools. Their bodies are recordings and pictures.
_MEDIA = (
    "/audio/transcriptions", "/audio/translations", "/audio/speech",
    "/images/generations", "/images/edits", "/images/variations",
)  # fmt: skip


def is_guarded(settings: Settings) -> bool:
    """Whether the operator set what tools must not get past: a list, a rate, tenants or limits."""
    return (
        settings.allowlist_mode == "enforce"
        or settings.has_rates
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
    if await refused_by_app(app, scope, send):
        return
    try:
        body = await collect(receive, scope, limit=settings.max_request_bytes, within=settings.upload_timeout)
        if body is None:  # the client went away
            return
        if body:
            body, scope = await cleared(body, scope, settings.max_request_bytes)
            await offloaded(len(body), _refuse_tools, scope, body)
    except ToolCallError as error:
        await refuse(app, scope, send, error)
        return
    await app(scope, Given(body, receive), send)


def _refuse_tools(scope: Scope, body: bytes) -> None:
    if found := tools_in(scope, body):
        where = f"{scope['method']} {scope['path']}"[:100]
        message = f"Tools are guarded here, and {where} is not read: {found}. Use POST /v1/chat/completions."
        raise ToolCallError("tool_not_allowed", message)


def tools_in(scope: Scope, body: bytes) -> str:
    """Why the body may hold tools; empty where it is proven that it holds none."""
    path = raw_path(scope).decode("latin-1")
    if path.endswith(_MEDIA) and path == normal_path(path):  # a path that needs no server's leniency
        return ""
    charset = odd_charset(scope)
    if charset:
        return f"its charset {shown(charset)} hides what it holds"
    return _tools_in_body(body)


def _tools_in_body(body: bytes) -> str:
    if not _may_hold_tools(body):
        return ""
    try:
        # Every member is seen, also one that another of the same name follows.
        json.loads(body, object_pairs_hook=_check)
    except _FoundError as error:
        return f"it holds the field {shown(error.args[0])}"
    except (ValueError, RecursionError):
        return "its body is no JSON and may hold some"
    return ""


def check_charset(scope: Scope) -> None:
    """Refuse a request that is read here as UTF-8, and by an app that goes by its charset as something else.

    Raises ToolCallError.
    """
    charset = odd_charset(scope)
    if charset:
        message = f"Tools are guarded here, and the charset {shown(charset)} hides what the body holds: send UTF-8."
        raise ToolCallError("tool_not_allowed", message)


def check_unknown_fields(body: bytes, read: frozenset[str] = frozenset()) -> bytes:
    """Refuse a request with tools in places where this layer does not look, and a gateway after it may.

    LiteLLM takes fields out of `extra_body`. vLLM gives `chat_template_kwargs` to the template, which writes tools
    (Llama 3.1's those in `custom_tools`, SmolLM3's those in `xml_tools`), and takes tools of a developer's message.
    read: fields that the request's API has besides those of chat completions. Returns the body, with one member of each
    name: the last, which was checked. Raises ToolCallError.
    """
    if not _may_hold_tools(body):
        return body
    try:
        fields = read_fields(body)
    except ToolCallError:
        return body  # refused where it is read, or `check_unreadable` is asked
    for name, raw in fields.items():
        if name.casefold() in _READ or name in read:  # other spellings are refused where it is read
            continue
        _check_member(name, bytes(raw), name[:100])
    turns = fields.get("messages")
    if turns is not None and "messages" not in read:
        fields["messages"] = _checked_turns(turns)
    return _once_each(body, fields)


def _checked_turns(raw: msgspec.Raw) -> msgspec.Raw:
    """Messages with nothing beside what is read of them that may carry tools, and each member once; `raw` where they
    came so. Raises ToolCallError.
    """
    try:
        turns = _TURNS.decode(raw)
    except DECODE_ERRORS:
        return raw  # no list: refused where it is read
    checked = [_checked_turn(turn, f"messages[{at}]") for at, turn in enumerate(turns)]
    same = all(new is old for new, old in zip(checked, turns, strict=True))
    return raw if same else msgspec.Raw(b"[" + b",".join(map(bytes, checked)) + b"]")


def _checked_turn(raw: msgspec.Raw, param: str) -> msgspec.Raw:
    try:
        members = _MEMBERS.decode(raw)
    except DECODE_ERRORS:
        return raw  # no object, which is refused, too
    for name, value in members.items():
        if name not in _OF_A_TURN and SPEAKS_OF_TOOLS.search(name):
            _check_member(name, bytes(value), f"{param}.{name[:100]}")
    turn = bytes(raw)
    once = _once_each(turn, members)
    return raw if once is turn else msgspec.Raw(once)


def _check_member(name: str, raw: bytes, param: str) -> None:
    """Refuse a member that may carry tools. Raises ToolCallError."""
    member = b"{" + msgspec.json.encode(name) + b":" + raw + b"}"
    if not _may_hold_tools(member):
        return
    check = _check_carriers if name in _SCHEMAS else _check_holders
    try:
        json.loads(without_lone_surrogates(member), object_pairs_hook=check)
    except _FoundError as error:
        found = shown(error.args[0])
    except (ValueError, RecursionError):
        found = "what cannot be read"
    else:
        return
    message = f"Tools are guarded here, and the field {shown(name)} is not read: it holds {found}."
    raise ToolCallError("tool_not_allowed", message, param=param)


def check_unreadable(body: bytes) -> None:
    """Refuse a body that is no JSON here and may be tools to another parser: it would pass as it came.

    Python's takes UTF-16 and 32, byte order marks, NaN. Raises ToolCallError.
    """
    try:
        read_fields(body)
    except ToolCallError:
        if found := _tools_in_body(body):
            message = f"Tools are guarded here, and this body is no JSON in UTF-8: {found}."
            raise ToolCallError("tool_not_allowed", message) from None


def _may_hold_tools(body: bytes) -> bool:
    lowered = body.lower()
    return any(word in lowered for word in _WORDS) or hides_words(body)


def _once_each(body: bytes, fields: dict[str, msgspec.Raw]) -> bytes:
    """The JSON object `body`, or its `fields` written anew where it may hold one of them more than once.

    As clients write JSON, the fields with their separators are the body to the byte, and it stays as it is.
    """
    members = [(msgspec.json.encode(name), bytes(raw)) for name, raw in fields.items()]
    for comma, colon in ((b",", b":"), (b", ", b": ")):
        if b"{" + comma.join([name + colon + raw for name, raw in members]) + b"}" == body:
            return body
    return msgspec.json.encode(fields)


def _check_carriers(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """All members of one JSON object, also those of one name."""
    for name, value in pairs:
        if value and name.casefold() in CARRIERS:
            raise _FoundError(name)
    return pairs


def _check_holders(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The same, and what another name that speaks of tools holds: a list, an object, or one of them as text; and what
    has calls read of tools that were not offered.
    """
    for name, value in _check_carriers(pairs):
        if value and name.casefold() in READS_CALLS:
            raise _FoundError(name)
        held = bool(value) if isinstance(value, list) else isinstance(value, str) and not _BRACKETS.isdisjoint(value)
        if held and SPEAKS_OF_TOOLS.search(name):
            raise _FoundError(name)
    return pairs


class _FoundError(Exception):
    """A member whose name speaks of tools."""


def _check(pairs: list[tuple[str, Any]]) -> None:
    for name, value in pairs:
        if SPEAKS_OF_TOOLS.search(name) and value is not None and value != []:
            raise _FoundError(name)
        if name == "type" and isinstance(value, str) and SPEAKS_OF_TOOLS.search(value):
            raise _FoundError(f"type: {value}")


_UNAUTHORIZED = 401
_MOST = 64 * 1024
_DEPTH = 16
_LARGE = 64 * 1024  # bytes; less is read at once, and not worth another question
_DIGITS = 20
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})


def wants_keys(app: ASGIApp) -> bool:
    """Whether `app` has a layer of authentication, by the names of its layers (vLLM's, Starlette's)."""
    at: object = app
    for _ in range(_DEPTH):
        if at is None:
            return False
        if "auth" in type(at).__name__.lower():
            return True
        at = getattr(at, "app", None)
    return False


async def _turned_away(app: ASGIApp, scope: Scope, send: Send) -> bool:
    """Whether `app` wants keys and answers 401 to a GET with the headers of `scope`: that answer is sent."""
    if not wants_keys(app):
        return False
    dropped = {b"content-length", b"content-type", b"transfer-encoding", b"content-encoding", b"expect"}
    answer = Collected(_MOST)
    with contextlib.suppress(TooLongError):
        get = {**scope, "method": "GET", "headers": without(scope["headers"], dropped)}
        await app(get, Given(b"", gone), answer.send)
    if answer.status != _UNAUTHORIZED or answer.body is None:
        return False
    await send(answer.start)
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
    return True


async def gone() -> Message:
    """ASGI's `receive` of a client that has left."""
    return {"type": "http.disconnect"}


async def refused_by_app(app: ASGIApp, scope: Scope, send: Send) -> bool:
    """Whether the app does not let the client in, which is asked before a large body is read: its 401 is sent."""
    return _is_large(scope) and await _turned_away(app, scope, send)


def _is_large(scope: Scope) -> bool:
    """Whether the body is, or may be."""
    if scope["method"] in _BODILESS:
        return False
    length = next(iter(values_of(scope["headers"], b"content-length")), b"")
    return not length.isdigit() or int(length[:_DIGITS]) > _LARGE


async def refuse(app: ASGIApp, scope: Scope, send: Send, error: ToolCallError) -> None:
    """Answer with `error`, and log that; in the app's own words where it would not have let the client in."""
    if not await _turned_away(app, scope, send):
        await send_refusal(scope, send, error)
