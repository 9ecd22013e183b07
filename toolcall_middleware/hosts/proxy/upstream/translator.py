"""An OpenAI face for an app that is a provider with another API: requests go in translated, answers come out so.

What is said in which words is the translation's (apis/upstream.py); here are paths, headers, bodies and endings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from ....apis.passage import PASSAGE
from ....apis.upstream import TranslatedRequest, Translation
from ....errors import ToolCallError
from ....wire.sse import DONE
from ...http.answer import Answer, Reads
from ...http.bodies import cleared, collect, giving
from ...http.errors import send_error
from ...http.headers import ENTITY_HEADERS, Headers, raw_path, values_of, without
from ...http.offload import Held, offloaded
from ...http.paths import normal_path_of
from ...http.request_record import record_of

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

    `make` gives a translation for each request. `headers` are sent with each, unless its translation has its own of
    the name. The limits are those of the settings; a longer request is a 413, a longer answer that is not streamed a
    502. `own`: paths of the provider's own API; what is posted there, and no face has read, passes as it is. Other
    paths are a 404 in OpenAI's form.
    """

    def __init__(
        self,
        app: ASGIApp,
        make: Callable[[], Translation],
        *,
        max_request_bytes: int | None = None,
        upload_timeout: float | None = None,
        max_response_bytes: int | None = None,
        headers: Mapping[str, str] | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self._app = app
        self._own = own
        self._make = make
        self._max_request_bytes = max_request_bytes
        self._upload_timeout = upload_timeout
        self._max_response_bytes = max_response_bytes
        self._headers = [(name.lower().encode(), value.encode("ascii")) for name, value in (headers or {}).items()]

    def __repr__(self) -> str:
        return f"Translator({self._app!r})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "POST" and normal_path_of(scope) in self._own:
            await self._pass(scope, receive, send)
            return
        translation = self._make()
        try:
            request = await self._translated(scope, receive, translation)
        except ToolCallError as error:
            record_of(scope).error = str(error.code)
            await send_error(send, error)
            return
        if request is None:
            return
        answer = _TranslatedAnswer(translation, send, self._max_response_bytes)
        try:
            await self._app(_scope_of(scope, request, self._headers), giving(request.body, receive), answer.send)
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
            limit = self._max_request_bytes
            body, messages = await collect(receive, scope, limit=limit, within=self._upload_timeout)
            if body is None:
                return None
            body, _, _ = await cleared(body, messages, scope, limit)
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
        if not (self._translation.stream and is_stream and start["status"] < 300):
            return Reads.WHOLE
        headers.append((b"content-type", b"text/event-stream"))
        return Reads.PIECES

    async def piece(self, data: bytes, *, last: bool) -> bytes:
        """See Answer."""
        out = await self._fed.read(self._translation.feed, data)
        return out + self._translation.finish(cut=False) if last else out

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
        if self.reads is Reads.PIECES:
            out = self._translation.finish(cut=True)
            if self._translation.done or out or self._opened:
                ending = b"" if self._translation.done else error.sse() + DONE
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
