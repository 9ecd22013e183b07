"""`GET /v1/models` for clients that speak Messages: the app's own list of models, in Anthropic's form."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.types import Message, Scope, Send

from ...apis.face import FaceReply
from ...apis.messages.client.face import MessagesFace, model_reply, models_reply
from ...errors import ToolCallError
from ...wire import openai
from ..http.errors import log_refusal
from ..http.headers import ENTITY_HEADERS, without
from ..http.offload import offloaded
from .faces import model_asked

_LIMIT = 16 << 20
_NOT_ASKED = frozenset({b"accept-encoding", b"if-none-match", b"if-modified-since", b"range", b"anthropic-version"})
_MOST_DIGITS = 9


class ModelsAnswer:
    """A `send` that takes OpenAI's list, or an entry of it, and sends what Anthropic's API has for it.

    What is neither and no error passes as it is, as does what is larger than 16 MiB.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._passes = False

    @property
    def scope(self) -> Scope:
        """What the app is asked with: for an answer that can be read."""
        headers = [*without(self._scope.get("headers", ()), _NOT_ASKED), (b"accept-encoding", b"identity")]
        return {**self._scope, "headers": headers, "query_string": b"", "extensions": {}}

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        if self._passes:
            await self._send(message)
        elif message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._parts.append(message.get("body", b""))
            self._size += len(self._parts[-1])
            more = message.get("more_body", False)
            if not more:
                await self._give(self._start, b"".join(self._parts))
            elif self._size > _LIMIT:
                self._passes = True
                await self._send(self._start)
                await self._send({**message, "body": b"".join(self._parts)})

    async def _give(self, start: Message, data: bytes) -> None:
        reply = await offloaded(len(data), self._reply, start["status"], data)
        if reply is None:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": data, "more_body": False})
            return
        own = [*reply.headers, (b"content-length", b"%d" % len(reply.body))]
        headers = [*without(start.get("headers", ()), ENTITY_HEADERS | {name for name, _ in own}), *own]
        await self._send({**start, "status": reply.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": reply.body, "more_body": False})

    def _reply(self, status: int, data: bytes) -> FaceReply | None:
        if status >= 400:
            return MessagesFace().error(openai.read_error(data, status))
        name = model_asked(self._scope)
        fields = openai.read_object(data)
        if status != 200 or fields is None or ("id" if name else "data") not in fields:
            return None
        if name:
            return model_reply(data, name)
        query = dict(parse_qsl(self._scope.get("query_string", b"").decode("latin-1")))
        limit = query.get("limit")
        if limit is not None and not (limit.isascii() and limit.isdigit() and len(limit) <= _MOST_DIGITS):
            wrong = ToolCallError("invalid_request", "Input should be a valid integer", param="limit")
            log_refusal(wrong)
            return MessagesFace().error(wrong)
        return models_reply(
            data,
            limit=None if limit is None else int(limit),
            after_id=query.get("after_id"),
            before_id=query.get("before_id"),
        )
