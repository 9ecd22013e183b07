"""Asking a backend, within limits: of time, of tokens it may write, of bytes it may answer.

    question ──> [middleware, for some] ──> Asker ──> the backend (an ASGI app, as a rule the proxy's Forwarder)

One question at a time: llama-cpp-python breaks off an answer when the next request comes, and small servers queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import ToolCallError
from ...hosts.http.answer import PassingAnswer, TooLongError, usage_in
from ...hosts.http.bodies import Given
from ...hosts.http.client_library import httpx
from ...upstream.backend_memory import BackendReply
from ...wire import openai
from ..faces.answers import Received, read_answer
from ..faces.requests import HEADERS, PATHS, request_body

QUESTION_SECONDS = 60.0
_MAX_BYTES = 1024 * 1024
_LIMITS = ("max_tokens", "max_completion_tokens")
_THINKS = 6  # times as many tokens for a model that reasons before it answers


class BudgetSpentError(Exception):
    """No time or no tokens are left. The remaining questions stay unanswered."""


class _Metered(PassingAnswer):
    """An answer of the backend, kept whole: a server's debug fields may follow the usage. Raises TooLongError for one
    without end.
    """

    __slots__ = ("body", "status")

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        self.status = 0
        self.body = bytearray()

    def started(self, start: Message) -> Message:
        """See PassingAnswer."""
        self.status = start["status"]
        return start

    def passed(self, body: bytes, *, last: bool) -> None:  # noqa: ARG002 - see PassingAnswer
        """See PassingAnswer."""
        self.body += body
        if len(self.body) > _MAX_BYTES:
            raise TooLongError


class Asker:
    """Asks one model of the backend `app`. It is also that backend as an ASGI app, metered, for the middleware that
    some questions go through.

    seconds, tokens: the budget. Tokens are those that the backend says it wrote; where it does not say, the events of a
    stream, else as many as it was allowed to write. secrets: what no answer shows.
    """

    def __init__(
        self,
        app: ASGIApp,
        model: str = "",
        *,
        seconds: float,
        tokens: int,
        secrets: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model = model
        self.limit = "max_tokens"
        """The backend's name for the limit of an answer."""
        self.reasons = False
        """Whether the model reasons before it answers, for which it needs room."""
        self.requests = 0
        self.tokens = 0
        self._app = app
        self._clock = clock
        self._begin = clock()
        self._seconds = seconds
        self._tokens = tokens
        self._secrets = [secret for secret in secrets if secret]

    @property
    def elapsed(self) -> float:
        """Seconds since the check began."""
        return self._clock() - self._begin

    @property
    def seconds_left(self) -> float:
        """Of the budget; never negative."""
        return max(0.0, self._seconds - self.elapsed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises BudgetSpentError where the budget is spent; then the backend is not asked."""
        body = await Request(scope, receive).body()
        fields = openai.read_value(body) if body else None
        limits = map(fields.get, _LIMITS) if isinstance(fields, dict) else ()
        allowed = next((limit for limit in limits if isinstance(limit, int)), 0)
        if not self.seconds_left or self.tokens + allowed > self._tokens:
            raise BudgetSpentError
        self.requests += 1
        answer = _Metered(send)
        try:
            await self._app(scope, Given(body, receive), answer.send)
        finally:
            written = usage_in(bytes(answer.body))["completion_tokens"]
            if written is not None:
                self.tokens += written
            elif answer.status < 400:
                self.tokens += min(allowed, answer.body.count(b"data:") or allowed)

    async def send(
        self, path: str, body: bytes = b"", *, app: ASGIApp | None = None, headers: Mapping[str, str] | None = None
    ) -> BackendReply:
        """The answer to a GET, or to a POST of `body`. Raises TimeoutError, ToolCallError or TooLongError.

        app: what the request goes through.
        """
        # The transport is this process; time is measured around each question.
        transport = httpx.ASGITransport(app=app or self)
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://backend") as client,
            asyncio.timeout(min(QUESTION_SECONDS, self.seconds_left)),
        ):
            response = await (client.post(path, content=body, headers=headers) if body else client.get(path))
        return BackendReply(response.status_code, response.content)

    async def ask(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tokens: int,
        app: ASGIApp | None = None,
        api: str = "chat",
        **fields: Any,
    ) -> Received:
        """One question. An answer that does not come, in time or at all, has the status 0.

        tokens: how many the answer may have. app: what the question goes through. api: the API that it speaks.
        Raises BudgetSpentError, also where it is the check's own time that was too short.
        """
        seconds = min(QUESTION_SECONDS, self.seconds_left)
        if not seconds:
            raise BudgetSpentError
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "temperature": 0}
        body |= {self.limit: tokens * (_THINKS if self.reasons else 1), **fields}
        headers = {"content-type": "application/json", **HEADERS[api]}
        try:
            status, said = await self.send(PATHS[api], openai.encode(request_body(api, body)), app=app, headers=headers)
        except TimeoutError:
            if seconds < QUESTION_SECONDS:
                raise BudgetSpentError from None
            return Received(0, error=f"slow: no answer within {seconds:g} s", late=True)
        except ToolCallError as error:
            # How the proxy says that the answer broke off.
            return Received(0, error=self.hide(error.message))
        except TooLongError:
            return Received(0, error="an answer without end")
        if status != 200:
            return Received(status, error=self.hide(openai.read_error(said, status).message))
        answer = read_answer(api, said)
        answer.error = answer.error and self.hide(answer.error)
        return answer

    def hide(self, text: str) -> str:
        """`text` without the keys that this check uses; backends like to quote them."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text
