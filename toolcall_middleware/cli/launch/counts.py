"""Counts the requests that go through the proxy of a launch."""

from __future__ import annotations

from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..command import many


class Counts:
    """An ASGI app before the proxy. `failed`: requests that were answered with an error, by status."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requests = 0
        self.failed: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        self.requests += 1

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                self.failed[message["status"]] += 1
            await send(message)

        await self._app(scope, receive, counting)

    @property
    def answers(self) -> int:
        """Requests that were not answered with an error."""
        return self.requests - self.failed.total()

    def lines(self, calls: Counter[str] | None, outcomes: Counter[str]) -> list[str]:
        """What happened, for a person. calls: by name; None: unread. outcomes: of the calls that are not clean."""
        lines = [many(self.requests, "request")]
        if calls is not None:
            lines[0] += f", {many(calls.total(), 'tool call')}{_listed(calls)}"
        if outcomes:
            lines.append(f"not clean{_listed(outcomes)}")
        if self.failed:
            lines.append(f"{many(self.failed.total(), 'error')}{_listed(self.failed)}")
        return lines


def _listed(counts: Counter[str] | Counter[int]) -> str:
    shown = ", ".join(f"{name} {number}" for name, number in counts.most_common(8))
    return f" ({shown})" if shown else ""
