"""Requests and answers that are huge, of each kind that has held the event loop once, in each API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import material

Body = dict[str, Any]

_PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
_PATHS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
_SMALL = 'yes <tool_call>\n{"name": "write_file", "arguments": {"path": "a"}}\n</tool_call>'


@dataclass(frozen=True, slots=True)
class Case:
    """What the client asks, and what the upstream answers. `api` is the upstream's."""

    name: str
    path: str
    body: bytes
    answer: bytes
    api: str = "openai"


def _prose(size: int) -> str:
    return (material.PROSE * (size // len(material.PROSE) + 1))[:size]


def _arguments(size: int) -> str:
    return json.dumps({"path": "a", "content": _prose(size)})


def _call_text(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "write_file", "arguments": {arguments}}}\n</tool_call>\n'


# -- requests ----------------------------------------------------------------------------------------------------------


def _call(number: int, arguments: str = "{}", *, named: bool = True) -> Body:
    call: Body = {"type": "function", "function": {"name": "write_file", "arguments": arguments}}
    return {"id": f"c{number}", **call} if named else call


def _round(number: int, content: Any = "x") -> list[Body]:
    asked = {"role": "assistant", "content": None, "tool_calls": [_call(number)]}
    return [asked, {"role": "tool", "tool_call_id": f"c{number}", "content": content}]


def _user(content: Any) -> list[Body]:
    return [{"role": "user", "content": content}]


_CHATS: dict[str, Callable[[int], list[Body]]] = {
    "messages of one role": lambda n: _user("x") * (n // 36),
    "turns": lambda n: [*_user("x"), {"role": "assistant", "content": "y"}] * (n // 80),
    "calls without ids": lambda n: [
        *_user("x"),
        {"role": "assistant", "content": None, "tool_calls": [_call(0, named=False)] * (n // 80)},
    ],
    "empty messages": lambda n: _user("") * (n // 35),
    "rounds": lambda n: [*_user("x"), *(message for at in range(n // 210) for message in _round(at))],
    "a nested result": lambda n: [*_user("x"), *_round(0, [{"type": "text", "text": json.dumps([[[0]]] * (n // 11))}])],
    "nested results": lambda n: [
        *_user("x"), *(m for at in range(n // 250) for m in _round(at, {"a": {"b": [{"c": [1]}]}}))
    ],
    "parts": lambda n: _user([{"type": "text", "text": "x"}] * (n // 32)),
    "< by the million": lambda n: _user("<" * n),
    "< in a result": lambda n: [*_user("x"), *_round(0, "<" * n)],
    "lone surrogates": lambda n: _user("\ud83d" * (n // 6)),
    "surrogates in a result": lambda n: [*_user("x"), *_round(0, "\ud83d" * (n // 6))],
}  # fmt: skip


def _messages_round(number: int, content: Any = "x") -> list[Body]:
    use = {"type": "tool_use", "id": f"c{number}", "name": "write_file", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": content}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


_MESSAGES: dict[str, Callable[[int], list[Body]]] = {
    "messages of one role": lambda n: _user("x") * (n // 36),
    "turns": lambda n: [*_user("x"), {"role": "assistant", "content": "y"}] * (n // 80),
    "calls": lambda n: [
        *_user("x"),
        {"role": "assistant", "content": [_messages_round(0)[0]["content"][0]] * (n // 70)},
    ],
    "empty messages": lambda n: _user([]) * (n // 35),
    "rounds": lambda n: [*_user("x"), *(message for at in range(n // 200) for message in _messages_round(at))],
    "parts": lambda n: _user([{"type": "text", "text": "x"}] * (n // 32)),
    "parts of a result": lambda n: [*_user("x"), *_messages_round(0, [{"type": "text", "text": "x"}] * (n // 32))],
    "< by the million": lambda n: _user("<" * n),
    "lone surrogates": lambda n: _user("\ud83d" * (n // 6)),
}


def _item_round(number: int, output: Any = "x") -> list[Body]:
    call = {"type": "function_call", "call_id": f"c{number}", "name": "write_file", "arguments": "{}"}
    return [call, {"type": "function_call_output", "call_id": f"c{number}", "output": output}]


_RESPONSES: dict[str, Callable[[int], Any]] = {
    "messages of one role": lambda n: _user("x") * (n // 36),
    "calls": lambda n: [*_user("x"), *(_item_round(at)[0] for at in range(n // 90))],
    "empty messages": lambda n: _user([]) * (n // 35),
    "rounds": lambda n: [*_user("x"), *(item for at in range(n // 160) for item in _item_round(at))],
    "parts": lambda n: _user([{"type": "input_text", "text": "x"}] * (n // 38)),
    "< by the million": lambda n: "<" * n,
    "lone surrogates": lambda n: "\ud83d" * (n // 6),
}


def _chat(**fields: Any) -> bytes:
    tool = {"type": "function", "function": {"name": "write_file", "parameters": _PARAMETERS}}
    return json.dumps({"model": "m", "messages": _user("x"), "tools": [tool], **fields}).encode()


def _asked(face: str, *, stream: bool = False, given: Any = None) -> bytes:
    """A request of a face; `given`: its messages."""
    if face == "chat":
        return _chat(stream=stream, **({} if given is None else {"messages": given}))
    tool: Body = {"name": "write_file", "input_schema": _PARAMETERS}
    body: Body = {"model": "m", "max_tokens": 9, "messages": given or _user("x"), "tools": [tool], "stream": stream}
    if face == "responses":
        tool = {"type": "function", "name": "write_file", "parameters": _PARAMETERS}
        body = {"model": "m", "input": given or "x", "tools": [tool], "stream": stream}
    return json.dumps(body).encode()


def requests(size: int) -> Iterator[Case]:
    """A huge request, a small answer."""
    small = _whole(_SMALL)
    for face, kinds in (("chat", _CHATS), ("messages", _MESSAGES), ("responses", _RESPONSES)):
        for name, made in kinds.items():
            yield Case(f"{face}: {name}", _PATHS[face], _asked(face, given=made(size)), small)
    yield Case("chat: no tools, turns", CHAT, _without_tools(_CHATS["turns"](size)), small)
    yield Case("chat: no JSON", CHAT, b"[" * size, small)


def _without_tools(messages: list[Body]) -> bytes:
    return json.dumps({"model": "m", "messages": messages}).encode()


def translated(size: int) -> Iterator[Case]:
    """A huge request, or a huge answer, where the upstream speaks another API."""
    for api, answer in (("anthropic", _anthropic), ("google", _google)):
        small = answer([("text", "yes")])
        for name in ("turns", "rounds", "parts", "calls without ids", "< by the million", "lone surrogates"):
            yield Case(f"{api}: {name}", CHAT, _asked("chat", given=_CHATS[name](size)), small, api)
        big = answer([("text", _prose(size))])
        yield Case(f"{api}: answer, prose", CHAT, _asked("chat"), big, api)
        calls = answer([("call", "a")] * (size // 100))
        yield Case(f"{api}: answer, calls", CHAT, _asked("chat"), calls, api)
    yield Case("anthropic: Messages, rounds", MESSAGES, _asked("messages", given=_MESSAGES["rounds"](size)),
               _anthropic([("text", "yes")]), "anthropic")  # fmt: skip


# -- answers -----------------------------------------------------------------------------------------------------------


def _http(body: bytes, kind: bytes = b"application/json") -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return head % (kind, len(body)) + body


def _whole(content: str | None, **message: Any) -> bytes:
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return _http(json.dumps({**head, "choices": [choice], "usage": usage}).encode())


def _stream(*deltas: Body) -> bytes:
    made = []
    for delta in ({"role": "assistant", "content": ""}, *deltas, None):
        choice = {"index": 0, "delta": delta or {}, "finish_reason": None if delta is not None else "stop"}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        made.append(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    return _http(b"".join([*made, b"data: [DONE]\n\n"]), b"text/event-stream")


def _anthropic(blocks: list[tuple[str, str]]) -> bytes:
    content = [
        {"type": "text", "text": text} if kind == "text"
        else {"type": "tool_use", "id": f"t{at}", "name": "write_file", "input": {"path": text}}
        for at, (kind, text) in enumerate(blocks)
    ]  # fmt: skip
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return _http(json.dumps({**head, "content": content, "usage": usage}).encode())


def _google(blocks: list[tuple[str, str]]) -> bytes:
    parts = [
        {"text": text} if kind == "text" else {"functionCall": {"name": "write_file", "args": {"path": text}}}
        for kind, text in blocks
    ]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return _http(json.dumps({"candidates": [candidate]}).encode())


_TEXTS: dict[str, Callable[[int], str]] = {
    "prose": _prose,
    "calls": lambda n: _call_text('{"path": "a"}') * (n // 90),
    "one call": lambda n: _call_text(_arguments(n)),
    "nested arguments": lambda n: _call_text('{"path": ' + "[[0]," * (n // 5) + "0" + "]" * (n // 5) + "}"),
    "half calls": lambda n: "<tool_call>{" * (n // 12),
    "< by the million": lambda n: "<" * n,
    "lone surrogates": lambda n: "\ud83d" * (n // 6),
    "thoughts": lambda n: "<think>" + _prose(n),
}


def _native(size: int, each: int) -> list[Body]:
    return [{"index": at, **_call(at, _arguments(each))} for at in range(max(1, size // (each + 120)))]


def answers(size: int) -> Iterator[Case]:
    """A small request, a huge answer: whole, in one event, in events of 64 KiB and in small ones."""
    for face, path in _PATHS.items():
        whole, streamed = _asked(face), _asked(face, stream=True)
        for name, made in _TEXTS.items():
            text = made(size)
            yield Case(f"{face}: whole, {name}", path, whole, _whole(text))
            yield Case(f"{face}: one event, {name}", path, streamed, _stream({"content": text}))
        held = [{"content": piece} for piece in material.cut(_call_text(_arguments(size)), 64 * 1024)]
        yield Case(f"{face}: large events, one call", path, streamed, _stream(*held))
        small = [{"content": piece} for piece in material.cut(_prose(size // 40), 4)]
        yield Case(f"{face}: small events, prose", path, streamed, _stream(*small))
        for each, name in ((20, "native calls"), (size, "one native call")):
            calls = _native(size, each)
            yield Case(f"{face}: whole, {name}", path, whole, _whole(None, tool_calls=calls))
            yield Case(f"{face}: one event, {name}", path, streamed, _stream({"tool_calls": calls}))


KINDS: dict[str, Callable[[int], Iterator[Case]]] = {
    "requests": requests,
    "answers": answers,
    "translated": translated,
}
