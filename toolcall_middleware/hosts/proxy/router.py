"""The upstreams at one address: the model of a request decides which of them may answer it, and in which order.

An upstream that cannot be reached, says nothing in time, or says that it is busy (429, 503, 529) is passed over as long
as the client has got nothing and another one is left. New upstreams (`reload`) take requests at once; the old ones end
with their last answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
from collections.abc import Sequence

from starlette.types import Message, Receive, Scope, Send

from ...errors import FormatError, SettingsError, ToolCallError, on_one_line
from ...settings import Settings
from ...wire.openai import encode
from ..http.answer import PassingAnswer
from ..http.bodies import Given, cleared, collect, offloaded
from ..http.errors import refuse_websocket, send_json
from ..http.head import scope_for_body, wants_websocket, without_keys
from ..http.request_record import Record, record_of
from ..middleware.faces import ModelsAnswer, refuse, shows_version
from .model_list import Listing, with_aliases
from .upstream.forwarder import BUSY, lifespan, retry_after
from .upstream.model_names import AliasedAnswer, Asked, Rename, aliases_of, asked_model
from .upstream.upstream import Upstream, in_turn
from .upstreams_file import upstreams_of

logger = logging.getLogger("toolcall_middleware.proxy")

_MODELS = ("/v1/models", "/models")
_MOST_SHOWN = 100
# Whether an answer is wanted as it is made: near enough for how long to wait for its beginning.
_STREAMS = re.compile(rb'"stream"\s*:\s*true\b')


class _PassedOverError(OSError):
    """Told to an upstream's app whose answer is not wanted (ASGI 2.4: send raises OSError)."""


class Router:
    """An ASGI app over the upstreams that the settings describe, now and at each `reload`.

    A body is read whole. What names no model goes to the first upstream, what may name one and cannot be read is
    refused. The rules of `model_aliases`, which the upstreams' settings share, rename a client's model for all of them.
    Raises SettingsError or FormatError.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.is_direct = settings.upstreams_file is None and not settings.model_aliases
        """Whether there is one upstream, without a file and without aliases: it can get every request unread."""
        self._aliases: list[Rename] = []
        self._random = random.Random()  # noqa: S311 - who is asked is no secret
        self._listing = Listing()
        self._listed: frozenset[str] = frozenset()  # names of the last list that a client got
        self._upstreams: list[Upstream] = self._build([])
        self._closing: set[asyncio.Task[None]] = set()

    def apps(self) -> tuple[Upstream, ...]:
        """Those in use."""
        return tuple(self._upstreams)

    def _build(self, old: Sequence[Upstream]) -> list[Upstream]:
        """An app each; what has not changed keeps its connections and what it has learned."""
        kept = {upstream.config.name: upstream for upstream in old}
        upstreams = []
        configs = upstreams_of(self._settings)
        for config in configs:
            upstream = kept.get(config.name)
            if upstream is None or upstream.config != config:
                try:
                    # Where the proxy has keys of its own, a client's `authorization` is one of them and is not sent on.
                    upstream = Upstream(config, forward_authorization=not self._settings.api_keys)
                except (SettingsError, FormatError) as error:
                    if self.is_direct:
                        raise
                    raise SettingsError(f"upstream {config.name!r}: {error}") from error
            upstreams.append(upstream)
        self._aliases = aliases_of(configs[0].settings) if configs else []
        return upstreams

    def reload(self) -> bool:
        """Read the upstreams again; whether that went well. A mistake is logged, and all stays as it was.

        To be called in the event loop.
        """
        try:
            upstreams = self._build(self._upstreams)
        except (SettingsError, FormatError) as error:
            logger.error("The upstreams stay as they are: %s", on_one_line(str(error)))  # noqa: TRY400 - the message says it all
            return False
        gone = [upstream for upstream in self._upstreams if upstream not in upstreams]
        self._upstreams = upstreams
        self._listing.forget()
        for upstream in gone:
            task = asyncio.get_running_loop().create_task(upstream.retire())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        logger.info(
            "%d upstreams are in use: %s", len(upstreams), ", ".join(upstream.config.name for upstream in upstreams)
        )
        return True

    async def aclose(self) -> None:
        """Close the connections of all upstreams."""
        await asyncio.gather(*self._closing, *(upstream.retire() for upstream in self._upstreams))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send, self._warm, self.aclose)
        elif wants_websocket(scope):
            await refuse_websocket(scope, receive, send)
        elif scope["method"] == "GET" and (name := _model_asked(scope)) is not None:
            await self._models(name, scope, send)
        else:
            await self._route(scope, receive, send)

    def _warm(self) -> None:
        for upstream in self._upstreams:
            upstream.warm()

    def _named(self, model: str) -> str:
        """What we call a client's model."""
        return next((name for rule in self._aliases if (name := rule.to_upstream(model)) is not None), model)

    def _is_listed(self, model: str) -> bool:
        """Whether a client's model is in the configuration, or in the list that a client got last."""
        aliases = (rule.pattern for rule in self._aliases)
        return (
            model in aliases
            or self._named(model) in self._listed
            or any(self._named(model) in upstream.config.literal_models for upstream in self._upstreams)
        )

    # -- models --------------------------------------------------------------------------------------------------

    async def _models(self, name: str, scope: Scope, send: Send) -> None:
        """The list of models, or one of them."""
        if shows_version(scope):
            send = ModelsAnswer(scope, send).send
        if not name:
            entries, _ = await self._listing.models(self._upstreams, scope)
            self._listed = frozenset(entry["id"] for entry in entries)
            entries = with_aliases(entries, self._aliases)
            await send_json(send, 200, encode({"object": "list", "data": entries}))
            return
        own = self._named(name)
        upstreams = [upstream for upstream in self._upstreams if upstream.config.serves(own)]
        entries, complete = await self._listing.models(upstreams, scope)
        entry = next(({**entry, "id": name} for entry in entries if entry["id"] == own), None)
        if entry is None and upstreams and not complete:
            # An upstream that does not tell its models may still have it.
            entry = {"id": name, "object": "model", "created": 0, "owned_by": upstreams[0].config.name}
        if entry is None:
            await refuse(scope, send, _unknown(name))
        else:
            await send_json(send, 200, encode(entry))

    # -- requests ------------------------------------------------------------------------------------------------

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = record_of(scope)
        try:
            limit = self._settings.max_request_bytes
            body = await collect(receive, scope, limit=limit, within=self._settings.upload_timeout)
            if body is None:  # the client went away
                return
            if body:
                body, scope = await cleared(body, scope, limit)
            asked = await offloaded(len(body), asked_model, scope, body)
        except ToolCallError as refusal:
            await refuse(scope, send, refusal)
            return
        record.model = model = asked.model
        record.model_listed = model is not None and self._is_listed(model)
        record.streams = _STREAMS.search(body) is not None
        if model is None:
            await self._upstreams[0](scope_for_body(scope, len(body)) if body else scope, Given(body, receive), send)
            return
        named = self._named(model)
        upstreams = [upstream for upstream in self._upstreams if upstream.config.serves(named)]
        if not upstreams:
            await refuse(scope, send, _unknown(model))
            return
        owner = upstreams[0]
        upstreams = in_turn(upstreams, self._random)
        for upstream in upstreams:
            # What the client showed is meant for one of them.
            shown = scope if upstream.origin == owner.origin else without_keys(scope)
            record.others = upstream is not upstreams[-1]
            if await self._attempt(upstream, asked, body, shown, receive, send, named=named):
                return
            name = upstream.config.name
            if record.report is not None and (record.unreached or record.silent):
                record.report.unreached.append(name)
            logger.warning("The upstream %s refused or was not reached: the next one is asked.", name)

    async def _attempt(
        self,
        upstream: Upstream,
        asking: Asked,
        body: bytes,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        named: str,
    ) -> bool:
        """Ask one upstream; False when its answer is not for the client and another upstream is left.

        named: our name of the model, which is another one than the client's where it has an alias.
        """
        record = record_of(scope)
        record.unreached = record.silent = record.refused = False
        record.error = None  # of the upstream before
        model = asking.model or ""
        own = upstream.config.model_for(named)
        aliased = own != model
        if aliased:
            try:
                body = await offloaded(len(body), asking.renamed, body, own)
            except ToolCallError as refusal:
                await refuse(scope, send, refusal)
                return True
            send = AliasedAnswer(send, model, self._settings.max_response_bytes).send
        asked = scope_for_body(scope, len(body), identity=aliased)
        answer = _Judged(send, upstream, record)
        with contextlib.suppress(_PassedOverError):
            await upstream(asked, Given(body, receive), answer.send)
        return not answer.passed_over


class _Judged(PassingAnswer):
    """One upstream's answer. `passed_over`: it is not for the client, and another upstream is asked."""

    __slots__ = ("_record", "_upstream", "passed_over")

    def __init__(self, send: Send, upstream: Upstream, record: Record) -> None:
        super().__init__(send)
        self._upstream = upstream
        self._record = record
        self.passed_over = False

    def started(self, start: Message) -> Message:
        record, upstream = self._record, self._upstream
        if record.refused:
            return start  # our own refusals (a tenant's rate) are none of the upstream's
        if record.silent:
            upstream.was_silent()
        elif record.unreached or start["status"] in BUSY:
            upstream.rest(retry_after(start.get("headers", ())))
        else:
            upstream.spoke()
            return start
        self.passed_over = record.others
        if self.passed_over:
            raise _PassedOverError("another upstream is asked")
        return start

    def passed(self, body: bytes, *, last: bool) -> None:  # noqa: ARG002 - as a PassingAnswer
        if self.passed_over:
            raise _PassedOverError("another upstream is asked")


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


def _unknown(model: str) -> ToolCallError:
    shown = model if len(model) <= _MOST_SHOWN else model[:_MOST_SHOWN] + "…"
    message = f"The model {shown!r} does not exist here; GET /v1/models lists those that do."
    return ToolCallError("model_not_found", message, param="model")
