"""Call ids in the form of an upstream that takes no other: Mistral's nine letters and digits."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from ....apis.foreign_call_ids import IdForm, with_ids
from ....errors import ToolCallError
from ...http.bodies import collect, giving
from ...http.errors import send_error
from ...http.headers import scope_for_body
from ...http.offload import offloaded
from ...http.paths import is_chat
from ...http.request_record import record_of


class CallIdCodec:
    """An app before an upstream: the ids in chat completions (POST to `paths`) get `form`. The rest passes."""

    def __init__(
        self,
        app: ASGIApp,
        form: IdForm,
        *,
        paths: tuple[str, ...],
        max_request_bytes: int | None,
        upload_timeout: float | None,
    ) -> None:
        self._app = app
        self._form = form
        self._paths = paths
        self._max_request_bytes = max_request_bytes
        self._upload_timeout = upload_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_chat(scope, self._paths):
            await self._app(scope, receive, send)
            return
        try:
            body, _ = await collect(receive, scope, limit=self._max_request_bytes, within=self._upload_timeout)
            if body is None:  # the client went away
                return
            body = await offloaded(len(body), with_ids, body, self._form)
        except ToolCallError as error:
            record_of(scope).error = str(error.code)
            await send_error(send, error)
            return
        await self._app(scope_for_body(scope, len(body)), giving(body, receive), send)
