"""`GET /v1/models` for clients that speak Messages: the app's own list of models, in Anthropic's form."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.types import Scope, Send

from ...apis.face import FaceReply
from ...apis.messages.client.face import MessagesFace, model_reply, models_reply
from ...errors import ToolCallError
from ...wire import openai
from ..http.answer import Answer
from ..http.errors import log_refusal
from ..http.headers import ENTITY_HEADERS, without
from ..http.offload import offloaded
from .faces import model_asked

_LIMIT = 16 << 20
_NOT_ASKED = frozenset({b"accept-encoding", b"if-none-match", b"if-modified-since", b"range", b"anthropic-version"})
_MOST_DIGITS = 9


class ModelsAnswer(Answer):
    """Makes of OpenAI's list, or an entry of it, what Anthropic's API has for it. Errors get that API's form.

    What is neither, or larger than 16 MiB, passes as it is.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        super().__init__(send, _LIMIT)
        self._scope = scope

    @property
    def scope(self) -> Scope:
        """What the app is asked with: for an answer that can be read."""
        headers = [*without(self._scope.get("headers", ()), _NOT_ASKED), (b"accept-encoding", b"identity")]
        return {**self._scope, "headers": headers, "query_string": b"", "extensions": {}}

    async def whole(self, body: bytes) -> bytes | None:
        """See Answer."""
        reply = await offloaded(len(body), self._reply, self.start["status"], body)
        if reply is None:
            return None
        self.start["status"] = reply.status
        self.start["headers"] = without(self.start["headers"], ENTITY_HEADERS)
        self.replaced(*reply.headers, length=len(reply.body))
        return reply.body

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
