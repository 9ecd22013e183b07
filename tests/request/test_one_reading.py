"""What leaves is read alike by first-wins, last-wins and case-insensitive parsers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.asgi_client import TOOL, Client, ask, middleware
from tests.helpers.fakes import TextBackend
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import one_reading
from toolcall_middleware.request.tools import rewritten_tools
from toolcall_middleware.wire.json_input import read_fields

EVIL = {"type": "function", "function": {"name": "evil", "parameters": {"type": "object"}}}


def first_wins(body: bytes) -> dict[str, Any]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, value in found:
            out.setdefault(name.casefold(), value)
        return out

    value: dict[str, Any] = json.loads(body, object_pairs_hook=pairs)
    return value


def body_of(before: str, after: str) -> bytes:
    return (
        ask(tools=(), stream=False).replace(b'"model"', before.encode() + b', "model"')[:-1] + f", {after}}}".encode()
    )


TWICE = {
    "null behind": body_of(f'"tools": {json.dumps([EVIL])}', '"tools": null'),
    "empty behind": body_of(f'"tools": {json.dumps([EVIL])}', '"tools": []'),
    "an escape": body_of(f'"t\\u006fols": {json.dumps([EVIL])}', '"tools": null'),
    "another case": body_of(f'"Tools": {json.dumps([EVIL])}', '"x": 1'),
    "a long s": body_of(f'"toolſ": {json.dumps([EVIL])}', '"x": 1'),
    "a long s as an escape": body_of(f'"tool\\u017F": {json.dumps([EVIL])}', '"x": 1'),
    "long functions": body_of(f'"FUNCTIONſ": {json.dumps([EVIL["function"]])}', '"x": 1'),
    "another tool behind": body_of(f'"tools": {json.dumps([EVIL])}', f'"tools": {json.dumps([TOOL])}'),
    "other messages": body_of('"messages": [{"role": "tool", "content": "evil"}]', '"x": 1'),
}


@pytest.mark.parametrize("mode", ["prompt", "native"])
@pytest.mark.parametrize("kind", TWICE)
async def test_two_parsers_read_the_same_of_what_leaves(kind: str, mode: str) -> None:
    backend = TextBackend(["ok"])
    await Client(TWICE[kind]).run(middleware(backend, mode=mode))
    for seen in backend.seen:
        assert b"evil" not in seen.raw
        assert first_wins(seen.raw) == json.loads(seen.raw)


def is_readable(body: bytes) -> bool:
    try:
        return bool(read_fields(body))
    except ToolCallError:
        return False


def test_no_value_hides_that_a_field_is_doubled() -> None:
    """All members of such a body cannot be listed: an integer is too long for that, or the nesting too deep."""
    for beside in ("1" * 5000, *("[" * depth + "]" * depth for depth in range(900, 1000))):
        body = body_of(f'"tools": {json.dumps([EVIL])}', f'"x": {beside}, "tools": []')
        assert not is_readable(body) or b"evil" not in one_reading(body)


async def test_an_allowed_tool_cannot_hide_another_in_native_mode() -> None:
    tool = json.dumps(TOOL)
    hidden = (
        tool.replace('"name": "weather"', '"name": "evil", "name": "weather"'),
        tool.replace('"type": "function"', '"Function": {"name": "evil"}, "type": "function"'),
        tool.replace('"name": "weather"', '"Name": "evil", "name": "weather"'),
        tool.replace('"type"', '"name": "evil", "parameters": {}, "type"', 1),
        tool.replace('"type"', '"custom": {"name": "evil"}, "type"', 1),
    )
    for text in hidden:
        backend = TextBackend(["ok"])
        body = ask(stream=False).replace(tool.encode(), text.encode())
        made = await Client(body).run(middleware(backend, mode="native", allowlist="weather", allowlist_mode="enforce"))
        assert made.status == 200
        assert b"weather" in backend.seen[0].raw
        assert b"evil" not in backend.seen[0].raw


@pytest.mark.parametrize(
    "body", [ask(), ask(tools=()), b'{"a": "\\u0041", "tools":  [] }', b"no json", b'{"x": {"tools": 1}}']
)
def test_an_ordinary_body_keeps_its_bytes(body: bytes) -> None:
    assert one_reading(body) is body


def test_a_schema_keeps_its_names() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"Name": {}, "Type": {}}}}}
    assert json.loads(bytes(rewritten_tools(json.dumps([tool]).encode()))) == [tool]
    own = {"type": "custom", "custom": {"name": "f", "format": {"type": "text"}}, "cache_control": {"type": "x"}}
    assert json.loads(bytes(rewritten_tools(json.dumps([own]).encode()))) == [own]
    legacy = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    assert json.loads(bytes(rewritten_tools(json.dumps([legacy]).encode()))) == [legacy]
    kinds: list[Any] = ["custom", "name", "function", "web_search_20250305", None, []]
    for kind in kinds:  # tools of Messages
        theirs = {"type": kind, "name": "f", "input_schema": {"type": "object"}}
        assert json.loads(bytes(rewritten_tools(json.dumps([theirs]).encode()))) == [theirs]


def test_a_name_is_found_in_a_large_body() -> None:
    for size in (1, 1 << 17):
        body = b'{"a": "%b", "tools": [1], "TOOLS" \n : [2]}' % (b"x" * size)
        assert json.loads(one_reading(body)) == {"a": "x" * size, "tools": [1]}
