"""Asking a backend, within limits: of time, of tokens it may write, of bytes it may answer.

    question ──> [middleware, for some] ──> Meter ──> the backend (an ASGI app, as a rule the proxy's Forwarder)

One question at a time: llama-cpp-python breaks off an answer when the next request comes, and small servers queue.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import ToolCallError
from ...hosts.http.client_library import httpx
from ...upstream.backend_memory import Told
from ...wire import openai
from ..faces.answers import Received, read_answer
from ..faces.requests import HEADERS, PATHS, request_body

QUESTION_SECONDS = 60.0
_MAX_BYTES = 1024 * 1024
_COMPLETION_TOKENS = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,9})')
_THINKS = 6  # times as many tokens for a model that reasons before it answers


class BudgetSpentError(Exception):
    """No time or no tokens are left. The remaining questions stay unanswered."""


class TooLargeError(Exception):
    """An answer without end."""


class Meter:
    """Counts what reaches the backend, and lets nothing through when the budget is spent.

    seconds, tokens: the budget. Tokens are those that the backend says it wrote; where it does not say, the events of a
    stream, else as many as it was allowed to write.
    """

    def __init__(
        self, app: ASGIApp, *, seconds: float, tokens: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._clock = clock
        self._begin = clock()
        self._seconds = seconds
        self._tokens = tokens
        self.requests = 0
        self.tokens = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the check began."""
        return self._clock() - self._begin

    @property
    def seconds_left(self) -> float:
        """Of the budget; never negative."""
        return max(0.0, self._seconds - self.elapsed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        fields = openai.read_value(body) if body else None
        fields = fields if isinstance(fields, dict) else {}
        allowed = next((n for n in map(fields.get, ("max_tokens", "max_completion_tokens")) if isinstance(n, int)), 0)
        if not self.seconds_left or self.tokens + allowed > self._tokens:
            raise BudgetSpentError
        self.requests += 1
        inbox: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        status = size = events = 0
        tail = b""

        async def replay() -> Message:
            return inbox.pop() if inbox else await receive()

        async def counted(message: Message) -> None:
            nonlocal status, size, events, tail
            status = message.get("status", status)
            data = message.get("body", b"")
            size += len(data)
            events += data.count(b"data:")
            if size > _MAX_BYTES:
                raise TooLargeError
            tail = (tail + data)[-65536:]
            await send(message)

        try:
            await self._app(scope, replay, counted)
        finally:
            told = _COMPLETION_TOKENS.findall(tail)
            if told:
                self.tokens += int(told[-1])
            elif status < 400:
                self.tokens += min(allowed, events or allowed)


class Asker:
    """Asks one model. `meter` is the metered backend; questions may go through another app in front of it."""

    def __init__(self, meter: Meter, model: str, *, secrets: Sequence[str] = ()) -> None:
        self.meter = meter
        self.model = model
        self._secrets = [secret for secret in secrets if secret]
        self._limit = "max_tokens"
        self._times = 1

    async def send(
        self, path: str, body: bytes = b"", *, app: ASGIApp | None = None, headers: Mapping[str, str] | None = None
    ) -> Told:
        """The answer to a GET, or to a POST of `body`. Raises TimeoutError, ToolCallError or TooLargeError.

        app: what the request goes through, in front of the meter.
        """
        # The transport is this process; time is measured around each question.
        transport = httpx.ASGITransport(app=app or self.meter)
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://backend") as client,
            asyncio.timeout(min(QUESTION_SECONDS, self.meter.seconds_left)),
        ):
            response = await (client.post(path, content=body, headers=headers) if body else client.get(path))
        return Told(response.status_code, response.content)

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

        tokens: how many the answer may have. app: what the question goes through, in front of the meter. api: the API
        that it speaks.
        Raises BudgetSpentError, also where it is the check's own time that was too short.
        """
        if not self.meter.seconds_left:
            raise BudgetSpentError
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "temperature": 0}
        body |= {self._limit: tokens * self._times, **fields}
        seconds = min(QUESTION_SECONDS, self.meter.seconds_left)
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
        except TooLargeError:
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

    def learn(self, answer: Received) -> bool:
        """Whether a first question is worth asking again, in another way: reasoning needs room, OpenAI other names."""
        if not answer.ok and "max_completion_tokens" in (answer.error or "") and self._limit == "max_tokens":
            self._limit = "max_completion_tokens"
            return True
        if answer.ok and self._times == 1 and (answer.reasoning or "<think>" in answer.text):
            self._times = _THINKS
            return True
        return False

    @property
    def reasons(self) -> bool:
        """Whether the model was found to reason before it answers."""
        return self._times > 1
