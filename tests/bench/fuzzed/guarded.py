"""What attackers send: tools in any spelling of path, name, member and encoding past an allowlist; patterns that count,
held against long strings; many stop strings.

No tool but the allowed one reaches the app as any JSON parser reads the body; a schema is refused or checked in time;
stop strings end a text as by their definition, however it is cut.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import Callable
from typing import Any

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.json_schema.validate_arguments import checker_for
from toolcall_middleware.parsing.sink import StopFinder
from toolcall_middleware.request.parse import ChatRequest, read_request
from toolcall_middleware.settings import Settings

from .dice import Dice, chance, pick, pieces

_LONGEST = 5.0
"""Seconds of a check, on any machine: what is dear is refused or given up after milliseconds."""
_EVIL = b"evil"
_PATHS = (
    "/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat", "/v1/completions", "/invocations", "/x",
)  # fmt: skip
_NAMES = ("tools", "Tools", "TOOLS", "\\u0074ools", "functions", "tool\\u0073", "mcp_servers")
_UNKNOWN = ("extra_body", "extra_body", "Extra_Body", "chat_template_kwargs", "x")
_SPACES = ("", " ", "\n  ")
_ODD = ('"y": NaN', '"y": "\\ud800"', '"y": "\u00e9"', '"y": -Infinity', '"y": 1e999', '"y": ' + "[" * 600 + "]" * 600)
_ATOMS = ("x", "[ab]", "\\p{L}", "(a|b)", ".", "\\d", "(?:ab)*", "a?")
_CHARS = "ab<"


def one(dice: Dice) -> str:
    """One of them; gives which."""
    kind = pick(dice, ("path", "pattern", "stops"))
    {"path": _path, "pattern": _pattern, "stops": _stops}[kind](dice)
    return kind


# -- past an allowlist -------------------------------------------------------------------------------------------------


def _spelled(dice: Dice, path: str) -> str:
    ways: tuple[Callable[[str], str], ...] = (
        str.upper,
        lambda text: text.replace("/", "//", 2),
        lambda text: text.replace("/", "/./", 2),
        lambda text: "/y/.." + text,
        lambda text: text + ";a=b",
        lambda text: text + "/",
        lambda text: text.replace("a", "%61"),
        lambda text: text.replace("%", "%25"),
        lambda text: text.replace("/c", "\\c"),
    )
    for _ in range(dice.below(4)):
        path = pick(dice, ways)(path)
    return path


def _tools(dice: Dice) -> str:
    name = pick(dice, ("evil", "ok"))
    function = {"name": name, "parameters": {"type": "object"}, "input_schema": {"type": "object"}}
    entry: Any = {"type": "function", "function": function, **function} if chance(dice, 2) else function
    return pick(dice, (json.dumps([entry]), json.dumps([entry]), "null", "[]"))


def _body(dice: Dice) -> bytes:
    members = ['"model": "m"', '"messages": [{"role": "user", "content": "x"}]', '"input": "x"', '"max_tokens": 5']
    members += [f'"{pick(dice, _NAMES)}": {_tools(dice)}' for _ in range(dice.below(4))]
    while chance(dice, 3):
        inner = [f'"{pick(dice, _NAMES)}": {_tools(dice)}' for _ in range(dice.below(3))]
        at = dice.below(len(members) + 1)
        members.insert(at, f'"{pick(dice, _UNKNOWN)}": {{{pick(dice, _SPACES).join(["", ",".join(inner), ""])}}}')
    if chance(dice, 4):
        members.append(pick(dice, _ODD))
    return ("{" + ("," + pick(dice, _SPACES)).join(members) + "}").encode()


def _coded(dice: Dice, body: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    json_type = (b"content-type", b"application/json")
    match dice.below(7):
        case 0:
            half = dice.below(len(body))
            return gzip.compress(body[:half]) + gzip.compress(body[half:]), [json_type, (b"content-encoding", b"gzip")]
        case 1:
            return zlib.compress(body)[2:-4], [json_type, (b"content-encoding", b"deflate")]
        case 2:
            charset = pick(dice, ("utf-16", "utf-16-le", "utf-32", "utf-7", "utf-8-sig"))
            return body.decode().encode(charset), [(b"content-type", b"application/json; charset=" + charset.encode())]
        case 3:
            return body, [(b"content-type", b"text/plain")]
        case _:
            return body, [json_type]


class _App:
    """Answers everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.bodies.append(body)
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b'{"choices": [{"message": {"content": "x"}}]}'})


def _path(dice: Dice) -> None:
    path = _spelled(dice, pick(dice, _PATHS))
    body, headers = _coded(dice, _body(dice))
    method = pick(dice, ("POST", "POST", "POST", "PUT", "GET"))
    app = _App()
    settings = Settings(
        allowlist="ok", allowlist_mode="enforce", faces=pick(dice, (("chat",), ("chat", "messages", "responses")))
    )
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"x"), *headers, (b"content-length", b"%d" % len(body))], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80), "extensions": {},
    }  # fmt: skip
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    statuses: list[int] = []

    async def receive() -> Any:
        if sent:
            return sent.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    asyncio.run(ToolCallMiddleware(app, settings=settings)(scope, receive, send))
    assert statuses, "no answer"
    assert statuses[0] < 500 or app.bodies, statuses
    for got in app.bodies:
        assert _EVIL not in got, got
        assert _EVIL not in got.replace(b"\0", b""), got


# -- patterns and stop strings -----------------------------------------------------------------------------------------


def _pattern(dice: Dice) -> None:
    pattern = ""
    for _ in range(1 + dice.below(4)):
        count = 10 ** dice.below(10)
        pattern += pick(dice, _ATOMS) + pick(dice, ("", "*", "+", f"{{{count}}}", f"{{{count},}}", f"{{0,{count}}}"))
        if chance(dice, 3):
            pattern = f"({pattern}){{{1 + dice.below(2000)}}}"
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": pattern + pick(dice, ("", "c", "$"))}},
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    argument = "".join(pick(dice, _CHARS) for _ in range(8)) * 10 ** dice.below(5)
    begin = time.process_time()
    try:
        chat = read_request(json.dumps(asked).encode(), Settings(validate_arguments="error"))
        assert isinstance(chat, ChatRequest)
        checker_for(chat.tools_raw, chat.tools).faults("f", json.dumps({"a": argument}))
    except ToolCallError as error:
        if error.status != 400:
            raise
    assert time.process_time() - begin < _LONGEST, pattern


def _stops(dice: Dice) -> None:
    stops = tuple(
        "".join(pick(dice, _CHARS) for _ in range(1 + dice.below(5)))
        for _ in range(1 + dice.below(pick(dice, (4, 64))))
    )
    text = "".join(pick(dice, _CHARS + "c") for _ in range(dice.below(60)))
    finder = StopFinder(stops)
    shown = "".join(finder.feed(piece) for piece in pieces(dice, text)) + finder.flush()
    ends = [(end, stop) for end in range(1, len(text) + 1) for stop in stops if text[:end].endswith(stop)]
    if not ends:
        assert (shown, finder.found) == (text, None)
        return
    first = ends[0][0]
    found = max((stop for end, stop in ends if end == first), key=len)
    assert (shown, finder.found) == (text[: first - len(found)], found)
