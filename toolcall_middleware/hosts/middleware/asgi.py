"""The middleware: guards the scope, collects the body, and hands a request that is ours to a `Responder` of its own.

The object holds configuration and what was learned of the backend. The wrapped app runs in the caller's task, so
context variables and cancellation reach it as without us.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from ...answer.operations import AnswerWriter
from ...apis.face import Face
from ...apis.messages.client.face import MessagesFace
from ...apis.passage import PASSAGE, Passage
from ...errors import FormatError, SettingsError, ToolCallError, is_ours
from ...exchange import Action, Ask, Done, Exchange, Fail, Learn, Request
from ...formats import registry
from ...observe.json_log import lines_of, log_event
from ...observe.report import Report, observers_of
from ...request.parse import one_reading, without_overrides
from ...settings import Settings, hide_login
from ...upstream.backend_memory import BackendMemory
from ...usage.meter import completes_whole_answers, prompt_meter
from ...version import __version__
from ...wire import openai
from ..http.answer import MeasuredAnswer
from ..http.bodies import Given, cleared, collect, do_later, offloaded, while_huge
from ..http.cors import ReadableAnswer, admits_origin
from ..http.errors import log_refusal
from ..http.head import header_of, logins, scope_for_body, values_of, without
from ..http.request_record import Record, record_of, watched
from .backend_questions import ToolProofs, WholeUsage, wait_for
from .faces import (
    Endpoint,
    FaceAnswer,
    FaceSettings,
    ModelsAnswer,
    chat_request,
    endpoint_of,
    means_responses,
    new_face,
    prepare_passage,
)
from .guards import (
    READ_BY_FACES,
    check_charset,
    check_unknown_fields,
    check_unreadable,
    gone,
    is_guarded,
    pass_without_tools,
    refuse,
    refused_by_app,
)
from .observed import ObservedExchange, WatchedWriter
from .responder import Responder
from .start_up import is_served, refuse_start, warm, warn_of_starlette, with_tokenizer

if TYPE_CHECKING:
    from typing import Unpack

    from ...settings.keywords import Keywords
    from .tenants import Budget, RateLimiter, Tenancy

_log = logging.getLogger("toolcall_middleware")
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_CODINGS = b"accept-encoding"


class ToolCallMiddleware:
    """Gives a chat-completions app OpenAI tool calling.

    app: any ASGI app. settings: a Settings; without one they come from the `TOOLCALL_*` variables.
    options: fields of Settings, which win over both.
    Raises SettingsError or FormatError for what is not allowed; where a server is running already (frameworks make
    their middleware when the first message comes), the app's start-up fails with it instead.
    """

    if TYPE_CHECKING:
        # For Starlette's add_middleware, whose type wants `app` by position. It passes it by name in older versions.
        def __init__(
            self, app: ASGIApp, /, *, settings: Settings | None = None, **options: Unpack[Keywords]
        ) -> None: ...

    else:

        def __init__(self, app: ASGIApp, *, settings: Settings | None = None, **options: Any) -> None:
            self.app = app
            self._fault = None
            try:
                self._configure(settings, options)
            except (SettingsError, FormatError) as error:
                if not is_served():
                    raise
                self._fault = error

    app: ASGIApp
    _fault: SettingsError | FormatError | None
    """Why the app must not start, where its server must know."""

    def _configure(self, settings: Settings | None, options: dict[str, Any]) -> None:
        if settings is None:
            settings = Settings.from_env(**options)
        elif options:
            settings = settings.replace(**options)
        settings = with_tokenizer(settings)  # now, because it takes time, and its errors are the operator's
        registry.of_settings(settings)
        warn_of_starlette()
        if settings.choose and (settings.constrain == "off" or settings.mode == "native"):
            raise SettingsError("choose constrains answers by prompt: unset it, or set constrain=auto and mode=prompt.")
        if settings.allowlist and not settings.by_hand("allowlist_mode"):
            _log.warning(
                "%s is set and does nothing, because allowlist_mode is off: set it to enforce, warn or off.",
                settings.where("allowlist"),
            )
        if settings.allowlist_mode == "enforce" and not settings.allowlist and settings.tenants_file is None:
            _log.warning(
                "allowlist is empty and %s is enforce: every tool is refused.", settings.where("allowlist_mode")
            )
        if settings.mode != "off":
            fields = {"version": __version__, "mode": settings.mode, "format": settings.format}
            upstream = hide_login(settings.upstream_url or "")
            log_event(_log, logging.INFO, "active", {**fields, "paths": ",".join(settings.paths), "upstream": upstream})
        self.settings = settings
        self._memory = BackendMemory()
        self._proofs = ToolProofs()
        self._guarded = settings.mode != "off" and is_guarded(settings)
        self._face_settings = FaceSettings()
        self._tenancy: Tenancy | None = None
        self._rates: RateLimiter | None = None
        self._observers = observers_of(settings)
        if settings.has_rates or settings.tenants_file is not None:
            from .tenants import Tenancy

            self._tenancy = Tenancy(settings)
            if self._tenancy.limits_rates:
                self._limiter()

    def _limiter(self) -> RateLimiter:
        if self._rates is None:
            from .tenants import RateLimiter

            self._rates = RateLimiter(self.settings.rate_limit_storage, self.settings.rate_limit_failure)
        return self._rates

    async def _admitted(self, caller: _Caller, scope: Scope) -> None:
        """Find out who asks, and what of the tenant's limits is left. Raises ToolCallError."""
        if self._tenancy is None:
            return
        tenant = await self._tenancy.find(scope)
        record = record_of(scope)
        record.tenant = record.tenant or tenant.name
        caller.settings = tenant.settings
        if tenant.settings.has_rates:
            from .tenants import Budget

            caller.budget = budget = Budget(self._limiter(), tenant)
            await budget.admit("token_limit")
            if not record.counted:
                await budget.admit("request_limit", cost=1)
                record.counted = True

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is not read here."""
        if scope["type"] == "lifespan":
            if self.settings.mode != "off":
                warm(self.settings)
            await self.app(scope, receive, send)
            if self._rates is not None:
                await self._rates.aclose()
            return
        if self._tenancy is not None and scope["type"] == "http" and scope["method"] not in _LOOKS:
            caller = _Caller(self.app, scope, receive, send, self.settings)
            try:
                await self._admitted(caller, scope)
            except ToolCallError as refusal:
                await caller.refuse(refusal)
                return
            scope, send = caller.unread(scope)
        if self._guarded:
            await pass_without_tools(self.app, scope, receive, send, self.settings)
        else:
            await self.app(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        if self._fault is not None:
            await refuse_start(scope, receive, send, self._fault)
            return
        if type(scope.get("headers", [])) is not list:
            # ASGI allows any iterable. A generator can be read once, and the app is to get the headers, too.
            scope = {**scope, "headers": list(scope["headers"])}
        settings = self.settings
        if settings.cors_origins and scope["type"] == "http":
            origin = header_of(scope, b"origin")
            if origin is not None and admits_origin(origin, settings.cors_origins):
                # Our errors are sent from outside of the app's own CORS layer.
                send = ReadableAnswer(send, origin, replace=False).send
        endpoint = endpoint_of(scope, settings) if scope["type"] == "http" and settings.mode != "off" else None
        if endpoint is None:
            await self._other(scope, receive, send)
            return
        if endpoint is Endpoint.MODELS:
            models = ModelsAnswer(scope, send)
            await self.app(models.scope, receive, models.send)
            return
        record = record_of(scope)
        with lines_of(record):
            if self._observers and record.report is None:
                await watched(partial(self._answer, endpoint), self._observers, scope, receive, send)
            else:
                await self._answer(endpoint, scope, receive, send)

    async def _answer(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """One request that is read here."""
        settings = self.settings
        most = settings.max_response_bytes
        face = None if endpoint is Endpoint.CHAT else new_face(endpoint, settings.upstream_api, most)
        answer = None if face is None else FaceAnswer(send, face, most)
        caller = _Caller(self.app, scope, receive, send if answer is None else answer.send, settings)
        if await refused_by_app(self.app, scope, caller.send):
            return
        try:
            await self._admitted(caller, scope)
            settings = caller.settings
            received = await collect(receive, scope, limit=settings.max_request_bytes, within=settings.upload_timeout)
            if received is None:
                if face is None:  # the app sees a client that went away, and nothing of a body that was not read
                    await self._other(scope, gone, send)
                return
            untouched = received, scope
            body, scope = await cleared(received, scope, settings.max_request_bytes)
            if is_guarded(settings):
                check_charset(scope)
        except ToolCallError as refusal:
            await caller.refuse(refusal)
            return
        if endpoint is Endpoint.MAYBE_RESPONSES and not await offloaded(len(body), means_responses, body):
            await self._other(untouched[1], Given(untouched[0], receive), send)
            return
        with while_huge(len(body)):
            if face is None or answer is None:
                await self._chat(caller, body, scope, untouched)
            else:
                await self._face(caller, face, answer, body, scope)

    async def _face(self, caller: _Caller, face: Face, answer: FaceAnswer, body: bytes, scope: Scope) -> None:
        """A request of another API than chat completions, which becomes one. Its body has been read."""
        report = record_of(scope).report
        if report is not None and report.recorder is not None:
            answer.recorder = report.recorder
            answer.recorder.data("face_request", body, api=face.api)
        try:
            asked = await offloaded(len(body), face.request, body)
            if is_guarded(caller.settings):
                await offloaded(len(body), check_unknown_fields, body, READ_BY_FACES)
            settings = self._face_settings.of(caller.settings, face)
            if face.passage is not None:
                await offloaded(len(body), prepare_passage, face.passage, scope, settings)
        except ToolCallError as refusal:
            await caller.refuse(refusal)
            return
        caller.settings, answer.asked = settings, asked
        if isinstance(face, MessagesFace) and face.counting:
            await self._count(caller, face, answer, asked.body, scope)
            return
        async with answer.waiting(scope):
            inner = chat_request(scope, asked.body, settings.paths, face.passage)
            await self._chat(caller, asked.body, inner, (asked.body, inner), always=True, writer=face.writer)

    async def _count(self, caller: _Caller, face: MessagesFace, answer: FaceAnswer, body: bytes, scope: Scope) -> None:
        """How long the prompt would be that the backend is asked with."""
        settings = caller.settings
        memory = self._memory.of(_client(scope, settings))
        action = await _first_action(Exchange(settings, memory, always=True), body)
        if isinstance(action, Fail):
            await caller.refuse(action.error)
            return
        prompt = action.body if isinstance(action, Ask) else body
        if face.passage is not None and face.passage.counts and _counts_upstream(settings):
            inner = chat_request(scope, prompt, settings.paths, face.passage)
            await self.app(inner, Given(prompt, caller.receive), answer.send)
            return
        meter = await offloaded(len(prompt), prompt_meter, settings, openai.model_of(prompt), memory, prompt)
        inner = chat_request(scope, prompt, settings.paths)
        await wait_for(meter, self.app, inner, settings.paths)
        counted = meter.prompt
        await answer.reply(face.counted(counted.tokens), "" if counted.exact else "usage=estimated")

    async def _chat(
        self,
        caller: _Caller,
        body: bytes,
        scope: Scope,
        untouched: tuple[bytes, Scope],
        *,
        always: bool = False,
        writer: AnswerWriter | None = None,
    ) -> None:
        """A chat completion. untouched: its body and scope as they came. always: its answer is read in any case.

        writer: writes the answer in another API.
        """
        settings, receive, send, budget = caller.settings, caller.receive, caller.send, caller.budget
        record = record_of(scope)
        memory = self._memory.of(_client(scope, settings))
        guarded = is_guarded(settings)
        reads = guarded and settings.mode != "off"
        exchange = exchange_for(settings, memory, record.report, writer, always=always)
        exchange.guarded = reads
        received = body
        try:
            if guarded:
                body = await offloaded(len(body), check_unknown_fields, body)
            action = await _first_action(exchange, body)
            if guarded and exchange.passes and not isinstance(action, Fail):
                await offloaded(len(body), check_unreadable, body)
        except ToolCallError as refusal:
            await caller.refuse(refusal)
            return
        if isinstance(action, Fail):
            await caller.refuse(action.error)
            return
        if not isinstance(action, Ask | Learn):
            plain = await offloaded(len(body), _unread_request, body)
            outgoing = plain
            if plain is received:
                outgoing, scope = untouched
            else:
                scope = scope_for_body(scope, len(plain))
            scope, send = caller.unread(scope)
            given = Given(outgoing, receive)
            if completes_whole_answers(settings):
                await WholeUsage(send, self.app, scope, settings, self._memory, plain).run(given)
            else:
                await self.app(scope, given, send)
            return
        if budget is not None:
            budget.calls = partial(_units, exchange, scope)
            budget.tokens = partial(offloaded, len(body), partial(_tokens, exchange))
            send = budget.sender(send)
            if exchange.offers_tools:
                try:
                    await budget.admit("rate_limit")
                except ToolCallError as refusal:
                    await caller.refuse(refusal)
                    return
        try:
            if isinstance(action, Learn):
                await self._proofs.learn(action.proof, self.app, scope, settings.paths)
                action = (await offloaded(len(body), exchange.receive, Done()))[0]
            if isinstance(action, Fail):
                await caller.refuse(action.error)
            elif isinstance(action, Ask):
                await Responder(self.app, scope, receive, send, exchange, settings.paths).run(action)
        finally:
            _record(exchange, record, units=0 if budget is None else _units(exchange, scope))
            try:
                if budget is not None:
                    await budget.settle()
            finally:
                do_later(len(body), exchange.let_go)


def exchange_for(
    settings: Settings, memory: BackendMemory, report: Report | None, writer: AnswerWriter | None, *, always: bool
) -> Exchange:
    """A new exchange, observed where there is a report. writer, always: see `Exchange`."""
    if report is None:
        exchange = Exchange(settings, memory, defer=True, always=always)
        exchange.writer = writer
        return exchange
    observed = ObservedExchange(settings, memory, report, always=always)
    observed.writer = None if writer is None else WatchedWriter(writer, observed.notes)
    return observed


def _units(exchange: Exchange, scope: Scope) -> int:
    """What a request has cost by now: the calls that left for the client, and those that the upstream made itself."""
    passage: Passage | None = scope.get(PASSAGE)
    return exchange.emitted_calls + (0 if passage is None else passage.ran)


def _tokens(exchange: Exchange) -> int:
    """The tokens that a request has cost by now. To count them may take time."""
    return 0 if exchange.facts is None else exchange.facts.usage.spent()


def _record(exchange: Exchange, record: Record, *, units: int) -> None:
    """For the logs and for observers."""
    facts = exchange.facts
    if facts is None:
        return
    error = facts.error
    if error is not None and is_ours(error.code):  # else the backend said so itself
        record.error = str(error.code)
        log_refusal(error)
    record.mode, record.format, record.outcomes = facts.mode, facts.format, facts.outcomes
    record.calls = exchange.emitted_calls if exchange.offers_tools else None
    record.no_call = facts.no_call
    if (report := record.report) is not None:
        report.constraint, report.stream, report.rate_units = facts.constraint, facts.stream, units
        report.model, report.calls = facts.model or report.model, exchange.emitted_calls
        report.prompt_tokens, report.completion_tokens, report.estimated = facts.usage.so_far()


@dataclass(slots=True)
class _Caller:
    """Who asks, by which settings, and where the answer goes. scope: as the host gave it."""

    app: ASGIApp
    scope: Scope
    receive: Receive
    send: Send
    settings: Settings
    budget: Budget | None = None
    """What the request may spend, where the tenant has limits in a time."""

    def unread(self, scope: Scope) -> tuple[Scope, Send]:
        """Scope and `send` for an answer that is not read: its tokens are those that it states at its end."""
        if self.budget is None:
            return scope, self.send
        answer = MeasuredAnswer(self.budget.sender(self.send))
        self.budget.tokens = answer.tokens
        return {**scope, "headers": [*without(scope["headers"], {_CODINGS}), (_CODINGS, b"identity")]}, answer.send

    async def refuse(self, error: ToolCallError) -> None:
        """Answer with an error before the app is asked."""
        record_of(self.scope).refused = True
        await refuse(self.app, self.scope, self.send, error)


async def _first_action(exchange: Exchange, body: bytes) -> Action:
    """What is to be done with a request."""
    return (await offloaded(len(body), exchange.receive, Request(body)))[0]


def _unread_request(body: bytes) -> bytes:
    """A request that is not read, for the backend."""
    return one_reading(without_overrides(body))


def _client(scope: Scope, settings: Settings) -> bytes:
    """What tells clients apart, for what is learned from their requests; empty where nothing does."""
    name = settings.tenant_header.encode()
    values = logins(scope["headers"]) if name == b"authorization" else values_of(scope["headers"], name)
    return values[0] if values else b""


def _counts_upstream(settings: Settings) -> bool:
    """Whether an upstream that counts the tokens of a prompt itself is asked to."""
    return settings.tokenizer == "upstream" or not settings.by_hand("tokenizer")
