"""Many upstreams behind one address: the model of a request says who may answer it, in which order they are asked.

An upstream that cannot be reached, or says that it is busy (429, 503, 529), is passed over as long as the client has
got nothing and another one is left. New upstreams (`reload`) take requests at once; the old ones end with their last
answer.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from starlette.types import Message, Receive, Scope, Send

from ...errors import FormatError, SettingsError, ToolCallError
from ...wire.openai import encode
from ..http.upload import collect, in_the_clear
from ..middleware.asgi import REFUSED
from .auth import send_error, send_json
from .model_list import Listing
from .request_record import record_of
from .upstream.model_alias import RenamedAnswer, model_of, with_body, with_model
from .upstream.retries import BUSY, retry_after
from .upstream.upstream import Route, in_turn
from .upstreams_file import Upstream

logger = logging.getLogger("toolcall_middleware.proxy")

_MODELS = ("/v1/models", "/models")
_MOST_SHOWN = 100


class _PassedOverError(OSError):
    """Told to an upstream's app whose answer is not wanted (ASGI 2.4: send raises OSError)."""


class Router:
    """An ASGI app over the upstreams that `read` gives, now and at each `reload`.

    A POST body is read whole, at most `max_request_bytes`, except multipart forms. What names no model goes to the
    first upstream. `forward_authorization`: see Forwarder. Raises what `read` raises.
    """

    def __init__(
        self,
        read: Callable[[], Sequence[Upstream]],
        *,
        forward_authorization: bool,
        max_request_bytes: int | None,
        max_response_bytes: int | None,
        upload_timeout: float | None = None,
    ) -> None:
        self._read = read
        self._forward_authorization = forward_authorization
        self._max_request_bytes = max_request_bytes
        self._max_response_bytes = max_response_bytes
        self._upload_timeout = upload_timeout
        self._random = random.Random()  # noqa: S311 - who is asked is no secret
        self._listing = Listing()
        self._routes: list[Route] = self._build([])
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """Those in use."""
        return tuple(route.upstream for route in self._routes)

    def _build(self, old: Sequence[Route]) -> list[Route]:
        """A route each; what has not changed keeps its connections and what it has learned."""
        kept = {route.upstream.name: route for route in old}
        routes = []
        for upstream in self._read():
            route = kept.get(upstream.name)
            if route is None or route.upstream != upstream:
                try:
                    route = Route(upstream, forward_authorization=self._forward_authorization)
                except (SettingsError, FormatError) as error:
                    raise SettingsError(f"upstream {upstream.name!r}: {error}") from error
            routes.append(route)
        return routes

    def reload(self) -> bool:
        """Read the upstreams again; whether that went well. A mistake is logged, and all stays as it was.

        To be called in the event loop.
        """
        try:
            routes = self._build(self._routes)
        except (SettingsError, FormatError) as error:
            logger.error("The upstreams stay as they are: %s", error)  # noqa: TRY400 - the message says it all
            return False
        gone = [route for route in self._routes if route not in routes]
        self._routes = routes
        self._listing.forget()
        for route in gone:
            task = asyncio.get_running_loop().create_task(route.retire())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        logger.info("%d upstreams are in use: %s", len(routes), ", ".join(route.upstream.name for route in routes))
        return True

    async def aclose(self) -> None:
        """Close the connections of all upstreams."""
        await asyncio.gather(*self._closing, *(route.retire() for route in self._routes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] != "http":
            await self._routes[0](scope, receive, send)
        elif scope["method"] == "GET" and (name := _model_asked(scope)) is not None:
            await self._models(name, scope, send)
        elif scope["method"] == "POST" and not _is_form(scope):
            await self._post(scope, receive, send)
        else:
            await self._pass(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that names no model."""
        record_of(scope).others = False
        await self._routes[0](scope, receive, send)

    # -- models --------------------------------------------------------------------------------------------------

    async def _models(self, name: str, scope: Scope, send: Send) -> None:
        """The list of models, or one of them."""
        if not name:
            entries, _ = await self._listing.models(self._routes, scope)
            await send_json(send, 200, encode({"object": "list", "data": entries}))
            return
        routes = [route for route in self._routes if route.upstream.serves(name)]
        entries, complete = await self._listing.models(routes, scope)
        entry = next((entry for entry in entries if entry["id"] == name), None)
        if entry is None and routes and not complete:
            # An upstream that does not tell its models may still have it.
            entry = {"id": name, "object": "model", "created": 0, "owned_by": routes[0].upstream.name}
        if entry is None:
            await send_error(send, _unknown(name))
        else:
            await send_json(send, 200, encode(entry))

    # -- requests ------------------------------------------------------------------------------------------------

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            limit = self._max_request_bytes
            body, messages = await collect(receive, scope, limit=limit, within=self._upload_timeout)
            if body is not None:
                body, _, scope = in_the_clear(body, messages, scope, limit)
        except ToolCallError as refusal:
            await send_error(send, refusal)
            return
        if body is None:  # the client went away
            return
        record = record_of(scope)
        record.model = model = model_of(body)
        if model is None:
            await self._pass(with_body(scope, len(body)), _giving(body, receive), send)
            return
        routes = [route for route in self._routes if route.upstream.serves(model)]
        if not routes:
            await send_error(send, _unknown(model))
            return
        routes = in_turn(routes, self._random)
        for route in routes:
            record.others = route is not routes[-1]
            if await self._try(route, model, body, scope, receive, send):
                return
            name = route.upstream.name
            logger.warning("The upstream %s refused or was not reached: the next one is asked (%s).", name, record.id)

    async def _try(self, route: Route, model: str, body: bytes, scope: Scope, receive: Receive, send: Send) -> bool:
        """Ask one upstream; False when its answer is none for the client and another one is left."""
        record = record_of(scope)
        record.unreached = False
        own = route.upstream.model_for(model)
        renamed = own != model
        if renamed:
            body = with_model(body, own)
            send = RenamedAnswer(send, model, self._max_response_bytes).send
        started = False
        passed_over = False

        async def guarded(message: Message) -> None:
            nonlocal started, passed_over
            if not started:
                if message["type"] == "http.response.start":
                    # Our own refusals (a tenant's rate) are none of the upstream's.
                    if REFUSED not in asked and (record.unreached or message["status"] in BUSY):
                        route.rest(retry_after(message.get("headers", ())))
                        passed_over = record.others
                    started = not passed_over
                if passed_over:
                    raise _PassedOverError("another upstream is asked")
            await send(message)

        asked = with_body(scope, len(body), identity=renamed)
        try:
            await route(asked, _giving(body, receive), guarded)
        except _PassedOverError:
            passed_over = True
        return not passed_over


def _model_asked(scope: Scope) -> str | None:
    """The model that a path names; empty where it is the list that is asked for; None on other paths."""
    path: str = scope["path"]
    root = scope.get("root_path", "").rstrip("/")
    if root and path.startswith(root + "/"):
        path = path[len(root) :]
    for prefix in _MODELS:
        if path.rstrip("/") == prefix:
            return ""
        if path.startswith(prefix + "/"):
            return path[len(prefix) + 1 :]
    return None


def _is_form(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name.lower() == b"content-type"]
    return any(kind.strip().lower().startswith(b"multipart/") for kind in kinds)


def _unknown(model: str) -> ToolCallError:
    shown = model if len(model) <= _MOST_SHOWN else model[:_MOST_SHOWN] + "…"
    message = f"The model {shown!r} does not exist here; GET /v1/models lists those that do."
    return ToolCallError("model_not_found", message, param="model")


def _giving(body: bytes, receive: Receive) -> Receive:
    """`body` once, then the client's own messages."""
    given = False

    async def give() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give
