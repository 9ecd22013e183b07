"""`GET /v1/models` for clients that speak Messages: the app's own list of models, in Anthropic's form."""

from __future__ import annotations

from starlette.types import Scope, Send

from ...apis.face import FaceReply
from ...apis.messages.client.face import MessagesFace, models_reply
from ...wire import openai
from ..http.answer import Answer
from ..http.headers import ENTITY_HEADERS, without
from ..http.offload import offloaded
from .faces import model_asked

_LIMIT = 16 << 20
_NOT_ASKED = frozenset({b"accept-encoding", b"if-none-match", b"if-modified-since", b"range", b"anthropic-version"})


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
        return models_reply(data, name or "")
