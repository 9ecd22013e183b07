"""Errors of a host before the middleware, in the form of the API that the request's path is of."""

from __future__ import annotations

from starlette.types import Scope, Send

from ...errors import ToolCallError
from ..http.errors import send_refusal, tell_refusal
from .face_answer import FaceAnswer
from .faces import Endpoint, endpoint_by_path, new_face


async def refuse(scope: Scope, send: Send, error: ToolCallError) -> None:
    """Answer a request with `error`, and log that: in the client's own API, or else in OpenAI's envelope."""
    endpoint = endpoint_by_path(scope)
    if endpoint is None:
        await send_refusal(scope, send, error)
    else:
        tell_refusal(scope, error)
        await FaceAnswer(send, new_face(Endpoint.MESSAGES if endpoint is Endpoint.MODELS else endpoint), None).fail(
            error
        )
