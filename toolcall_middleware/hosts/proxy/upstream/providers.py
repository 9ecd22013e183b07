"""The APIs that an upstream can speak, as one table: how each is reached, and who translates for it.

`Translator` is an OpenAI face for an app that is a provider with another API: requests go in translated, answers come
out so. What is said in which words is the translation's (apis/upstream.py); here are paths, headers, bodies and
endings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from ....apis.google.translation import GoogleTranslation
from ....apis.messages.upstream.translation import AnthropicTranslation
from ....apis.passage import PASSAGE
from ....apis.upstream import TranslatedRequest, Translation, UpstreamAnswer
from ....errors import SettingsError, ToolCallError
from ....settings import Settings
from ....wire.sse import DONE
from ...http.answer import Answer, Reads
from ...http.bodies import Given, Held, cleared, collect, offloaded
from ...http.client_library import httpx
from ...http.errors import send_error
from ...http.head import ENTITY_HEADERS, Headers, normal_path_of, raw_path, values_of, without
from ...http.request_record import record_of
from .forwarder import Forwarder


@dataclass(frozen=True, slots=True)
class Provider:
    """An API that is not OpenAI's.

    `url` is the address used where the operator gives none. What of `versions` an address ends in is cut off, because
    the paths of a translation begin with a version. `key_header` is the Forwarder's. `headers` are sent with each
    request, unless its translation has its own of the name. `make` gives the translation of one request. `own` are the
    paths of its API that a client may ask itself.
    """

    url: str
    versions: tuple[str, ...]
    key_header: str
    make: Callable[[Settings], Translation]
    headers: Mapping[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()


def _anthropic(settings: Settings) -> Translation:
    return AnthropicTranslation(
        default_max_tokens=settings.default_max_tokens,
        limit=settings.max_response_bytes,
    )


def _google(settings: Settings) -> Translation:
    return GoogleTranslation(limit=settings.max_response_bytes)


PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(
        url="https://api.anthropic.com",
        versions=("/v1",),
        key_header="x-api-key",
        # Not the newest: 2026-10-21 takes no temperature, also for the models that know one, and other vendors of this
        # API do not know it.
        headers={"anthropic-version": "2023-06-01"},
        make=_anthropic,
        own=frozenset({"/v1/messages", "/v1/messages/count_tokens"}),
    ),
    "google": Provider(
        url="https://generativelanguage.googleapis.com",
        # The second is where Google itself has an OpenAI face.
        versions=("/v1beta", "/v1beta/openai", "/v1alpha", "/v1"),
        key_header="x-goog-api-key",
        make=_google,
    ),
}


def with_mode(settings: Settings) -> Settings:
    """`settings` with `mode=native` for an upstream of another API than OpenAI's, unless the operator set a mode."""
    if settings.upstream_api not in PROVIDERS or settings.by_hand("mode"):
        return settings
    return settings.replace(mode="native")


def _without_version(address: str, versions: tuple[str, ...]) -> str:
    return next((address.removesuffix(version) for version in versions if address.endswith(version)), address)


def upstream_app(
    settings: Settings,
    *,
    forward_authorization: bool,
    headers: Iterable[tuple[bytes, bytes]] = (),
    transport: httpx.AsyncBaseTransport | None = None,
) -> ASGIApp:
    """An app that is one upstream and speaks OpenAI's API, whatever the upstream speaks. Raises SettingsError.

    settings: `upstream_*` and limits. headers: the operator's, added to what the API wants. The others: see Forwarder.
    """
    forward = partial(
        Forwarder,
        settings=settings,
        forward_authorization=forward_authorization,
        headers=headers,
        transport=transport,
    )
    url = settings.upstream_url
    if settings.upstream_api == "openai":
        if url is None:
            raise SettingsError("There is no upstream: give --upstream URL or set TOOLCALL_UPSTREAM_URL.")
        return forward(url)
    provider = PROVIDERS[settings.upstream_api]
    address = _without_version((url or provider.url).rstrip("/"), provider.versions)
    return Translator(forward(address, key_header=provider.key_header, translated=True), provider, settings)


_CHAT = re.compile(rb"(?:/v1)?/chat/completions/?")
_MODELS = re.compile(rb"(?:/v1)?/models/?")
_MODEL = re.compile(rb"(?:/v1)?/models/([^?#]+)")

# Of the body that is replaced, of the answer's coding, and what concerns only a browser or OpenAI.
_OF_BROWSERS = frozenset({b"cookie", b"origin", b"referer"})
_NOT_SENT = _OF_BROWSERS | frozenset(
    b"content-length content-type content-encoding transfer-encoding expect accept accept-encoding".split()
)
_NOT_SENT_PREFIXES = (b"x-stainless-", b"openai-", b"sec-")
_NOT_SENT_BACK = ENTITY_HEADERS | {b"content-type", b"set-cookie"}


class Translator:
    """An ASGI app: OpenAI's `chat/completions` and `models` over `app`, which is the provider itself.

    The limits are those of the settings; a longer request is a 413, a longer answer that is not streamed a 502. What is
    posted to `provider.own`, and no face has read, passes as it is. Other paths are a 404 in OpenAI's form.
    """

    def __init__(self, app: ASGIApp, provider: Provider, settings: Settings) -> None:
        self._app = app
        self._provider = provider
        self._settings = settings
        self._headers = [(name.lower().encode(), value.encode("ascii")) for name, value in provider.headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "POST" and normal_path_of(scope) in self._provider.own:
            await self._pass(scope, receive, send)
            return
        translation = self._provider.make(self._settings)
        try:
            request = await self._translated(scope, receive, translation)
        except ToolCallError as error:
            record_of(scope).error = str(error.code)
            await send_error(send, error)
            return
        if request is None:
            return
        answer = _TranslatedAnswer(translation, send, self._settings.max_response_bytes)
        try:
            await self._app(_scope_of(scope, request, self._headers), Given(request.body, receive), answer.send)
        except ToolCallError as error:
            if not answer.ended:
                await answer.fail(error)
            return
        if not answer.ended:
            await answer.fail(ToolCallError("upstream_error", "The upstream broke off its answer."))

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request in the provider's own words, and its answer."""
        names = {name.lower() for name, _ in scope["headers"]}
        given = [pair for pair in scope["headers"] if pair[0].lower() not in _OF_BROWSERS]
        usual = [pair for pair in self._headers if pair[0] not in names]
        await self._app({**scope, "headers": [*given, *usual]}, receive, send)

    async def _translated(self, scope: Scope, receive: Receive, translation: Translation) -> TranslatedRequest | None:
        """The provider's request; None when the client has gone."""
        method, path = scope["method"], raw_path(scope)
        if method == "POST" and _CHAT.fullmatch(path):
            limit = self._settings.max_request_bytes
            body = await collect(receive, scope, limit=limit, within=self._settings.upload_timeout)
            if body is None:
                return None
            body, _ = await cleared(body, scope, limit)
            return await offloaded(len(body), translation.request, body, scope.get(PASSAGE))
        if method == "GET" and _MODELS.fullmatch(path):
            return translation.models(None)
        if method == "GET" and (found := _MODEL.fullmatch(path)):
            return translation.models(unquote(found[1].decode("latin-1")))
        raise ToolCallError(
            "unknown_url",
            f"There is no {method} {path.decode('latin-1')} here: the upstream's API is another one, and only "
            "POST /v1/chat/completions and GET /v1/models are translated.",
        )


class _TranslatedAnswer(Answer):
    """What the provider sends, on its way to the client."""

    lazy = True

    def __init__(self, translation: Translation, send: Send, limit: int | None) -> None:
        super().__init__(send, limit)
        self._translation = translation
        self._stream: UpstreamAnswer | None = None  # what reads the answer, if it is a stream
        self._fed = Held()

    def begun(self) -> Reads:
        """See Answer."""
        start = self.start
        is_stream = self.header(b"content-type").startswith(b"text/event-stream")
        self.decode(self._limit)
        headers = without(start["headers"], _NOT_SENT_BACK)
        if not values_of(headers, b"x-request-id"):
            # Where OpenAI's clients look for it.
            headers += [(b"x-request-id", value) for value in values_of(headers, b"request-id")]
        start["headers"] = headers
        if self._translation.streamed is None or not is_stream or start["status"] >= 300:
            return Reads.WHOLE
        self._stream = self._translation.streamed
        headers.append((b"content-type", b"text/event-stream"))
        return Reads.PIECES

    async def piece(self, data: bytes, *, last: bool) -> bytes:
        """See Answer."""
        stream = self._stream
        assert stream is not None  # noqa: S101 - pieces are of a stream
        out = await self._fed.read(stream.feed, data)
        return out + stream.finish(cut=False) if last else out

    async def whole(self, body: bytes) -> bytes:
        """See Answer."""
        if self._limit is not None and len(body) > self._limit:
            await self.too_long()
        self.start["status"], out = await offloaded(len(body), self._translation.whole, self.start["status"], body)
        self.replaced((b"content-type", b"application/json"), length=len(out))
        return out

    async def too_long(self) -> None:
        """See Answer."""
        raise ToolCallError("upstream_error", f"The upstream's answer exceeds max_response_bytes ({self._limit}).")

    async def fail(self, error: ToolCallError) -> None:
        """The answer cannot go on."""
        if self._stream is not None:
            out = self._stream.finish(cut=True)
            if self._stream.done or out or self._opened:
                ending = b"" if self._stream.done else error.sse() + DONE
                await self.give(out + ending, more=False)
                return
        self.ended = True
        await send_error(self._client, error)


def _scope_of(scope: Scope, request: TranslatedRequest, usual: Headers) -> Scope:
    own = {name.lower() for name, _ in request.headers}
    usual = [(name, value) for name, value in usual if name not in own]
    own |= {name for name, _ in usual}
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name.lower() not in _NOT_SENT | own and not name.lower().startswith(_NOT_SENT_PREFIXES)
    ]
    headers += [(b"accept", b"*/*"), (b"accept-encoding", b"identity"), *usual, *request.headers]
    if request.method == "POST":
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(request.body))]
    path = request.path.encode("ascii")
    return {
        **scope,
        "method": request.method,
        "path": unquote(request.path),
        "raw_path": path,
        "root_path": "",
        "query_string": request.query,
        "headers": headers,
        "extensions": {},
    }
