"""An upstream's refusals, as clients may see them: in OpenAI's form on chat paths, never with the upstream's key."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....wire.openai import read_error, read_value
from ...http.headers import OF_ITS_BYTES, without
from ...http.messages import is_chat

# A longer one is no error message; it passes.
_LIMIT = 256 * 1024
_MEMBERS = frozenset({"message", "type", "param", "code"})
# What is shorter is no key, and its letters stand anywhere.
_SHORTEST_KEY = 8


class ErrorEnvelope:
    """Passes everything but answers of status 400 and more: these get OpenAI's envelope where POST `paths` were asked.

    `key`: replaced by `***` in them, and in the headers of every answer; some servers quote what they refuse.
    """

    def __init__(self, app: ASGIApp, *, paths: tuple[str, ...], key: str | None = None) -> None:
        self._app = app
        self._paths = paths
        self._key = key.encode() if key is not None and len(key) >= _SHORTEST_KEY else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        chat = is_chat(scope, self._paths)
        held: Message | None = None
        parts: list[bytes] = []
        passes = False
        size = 0

        async def guarded(message: Message) -> None:
            nonlocal held, passes, size
            if passes:
                await send(message)
            elif held is None:
                message = self._without_key(message)
                if message["type"] != "http.response.start" or message["status"] < 400 or _is_coded(message):
                    passes = True
                    await send(message)
                else:
                    held = message
            else:
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                more = message.get("more_body", False)
                if not more:
                    await self._finish(send, held, b"".join(parts), chat=chat)
                elif size > _LIMIT:
                    passes = True
                    await send(held)
                    await send({**message, "body": b"".join(parts)})

        await self._app(scope, receive, guarded)

    def _without_key(self, message: Message) -> Message:
        key = self._key
        headers = message.get("headers", ())
        if key is None or not any(key in value for _, value in headers):
            return message
        return {**message, "headers": [(name, value.replace(key, b"***")) for name, value in headers]}

    async def _finish(self, send: Send, start: Message, body: bytes, *, chat: bool) -> None:
        out = body if self._key is None else body.replace(self._key, b"***")
        headers = list(start["headers"])
        if chat and not _is_envelope(out):
            out = read_error(out, start["status"]).body()
            headers = without(headers, OF_ITS_BYTES | {b"content-type"})
            headers.append((b"content-type", b"application/json"))
        if out != body:
            headers = without(headers, {b"content-length"})
            headers.append((b"content-length", b"%d" % len(out)))
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": out, "more_body": False})


def _is_coded(start: Message) -> bool:
    codings = [value.strip().lower() for name, value in start["headers"] if name.lower() == b"content-encoding"]
    return any(coding not in {b"", b"identity"} for coding in codings)


def _is_envelope(body: bytes) -> bool:
    value = read_value(body)
    error = value.get("error") if isinstance(value, dict) else None
    return isinstance(error, dict) and isinstance(error.get("message"), str) and error.keys() >= _MEMBERS
