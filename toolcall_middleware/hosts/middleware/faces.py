"""The APIs beside chat completions: which one a request speaks, the chat completion that it becomes, and its answer.

The path decides before the backend is asked. What the exchange sends is passed on as the client's own API has it: whole
answers and errors are collected, within a limit, streams are sent piece by piece. Only the client is waited for, so
that its backpressure and its leaving reach the backend as without us. A client that waits for a stream gets events that
say so: its answer is begun before the backend's where that takes long.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import re
from collections.abc import AsyncIterator, Sequence
from urllib.parse import quote

from starlette.types import Message, Scope, Send

from ...apis.face import Face, FaceReply, FaceRequest
from ...apis.messages.client.face import MessagesFace, models_reply
from ...apis.messages.passed import refuse_unread
from ...apis.passage import PASSAGE, Passage
from ...apis.responses.face import ResponsesFace
from ...errors import ToolCallError, on_one_line, shown
from ...observe.report import Recorder
from ...request.parse import one_reading, read_overrides, without_overrides
from ...request.tools import rewritten_tools
from ...settings import Settings
from ...settings.settings import admits
from ...wire import openai
from ...wire.json_input import read_fields
from ...wire.openai import encode, raw, read_object, read_value
from ..http.answer import Answer, Reads
from ..http.bodies import offloaded
from ..http.errors import log_refusal, send_refusal, tell_refusal
from ..http.head import (
    ENTITY_HEADERS,
    Headers,
    is_chat,
    logins,
    normal_path,
    normal_path_of,
    request_scope,
    values_of,
    without,
)
from ..http.request_record import record_of
from .guards import is_guarded

_SLASHES = re.compile(r"/{2,}")
_MESSAGES = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"
_RESPONSES = "/v1/responses"
_MODEL = re.compile(r"/v1/models(?:/(.+))?")
_CHAT = "/chat/completions"
_VERSION = b"anthropic-version"
_NOT_SENT = frozenset(
    b"accept anthropic-beta anthropic-dangerous-direct-browser-access anthropic-version content-encoding content-type"
    b" expect".split()
)
"""What is about the client's API, or its body: the backend is asked for a chat completion."""
_OF_API = frozenset({b"anthropic-version", b"anthropic-beta"})
_CHECKED = frozenset({"tools", "mcp_servers", "messages"})
_MOST_LAYERS = 256


class Endpoint(enum.Enum):
    """Which path of which API a request asks."""

    CHAT = "chat"
    MESSAGES = "messages"
    COUNT = "count_tokens"
    RESPONSES = "responses"
    MAYBE_RESPONSES = "responses, if the body says so"
    MODELS = "models"


_ENDPOINTS = {_MESSAGES: Endpoint.MESSAGES, _COUNT: Endpoint.COUNT, _RESPONSES: Endpoint.RESPONSES}


def endpoint_of(scope: Scope, settings: Settings) -> Endpoint | None:
    """Which endpoint a request asks; None where none is read here."""
    faces = settings.faces
    auto = faces == ("auto",)
    if is_chat(scope, settings.paths):
        return Endpoint.CHAT if auto or "chat" in faces else None
    endpoint = endpoint_by_path(scope)
    match endpoint:
        case Endpoint.MESSAGES | Endpoint.COUNT:
            ours = "messages" in faces or (auto and shows_version(scope))
        case Endpoint.MODELS:
            ours = "messages" in faces or auto
        case Endpoint.RESPONSES:
            ours = auto or "responses" in faces
            endpoint = Endpoint.MAYBE_RESPONSES if auto else endpoint
        case _:
            ours = False
    return endpoint if ours else None


def endpoint_by_path(scope: Scope) -> Endpoint | None:
    """The endpoint that a request's method and path name, other than that of chat completions."""
    method = scope["method"]
    if method == "GET":
        return Endpoint.MODELS if shows_version(scope) and model_asked(scope) is not None else None
    if method != "POST":
        return None
    path = normal_path_of(scope)
    return next((endpoint for ending, endpoint in _ENDPOINTS.items() if path.endswith(ending)), None)


def shows_version(scope: Scope) -> bool:
    """Whether a request says which version of Anthropic's API it speaks."""
    return bool(values_of(scope.get("headers", ()), _VERSION))


def model_asked(scope: Scope) -> str | None:
    """The model that `…/v1/models/NAME` names; empty where it is the list; None on other paths."""
    path = _SLASHES.sub("/", scope["path"])
    at = path.rfind("/v1/models")
    found = _MODEL.fullmatch(path[at:].rstrip("/")) if at >= 0 else None
    return None if found is None else found[1] or ""


def means_responses(body: bytes) -> bool:
    """Whether a body is a request of OpenAI's Responses: an object with `model` and `input`."""
    fields = read_object(body)
    return fields is not None and {"model", "input"} <= fields.keys()


def new_face(endpoint: Endpoint, upstream_api: str = "openai", max_kept: int | None = None) -> Face:
    """What reads a request to this endpoint, and writes its answer.

    upstream_api: which API the upstream speaks. max_kept: bytes of a stream, where the face keeps all of it.
    """
    if endpoint in {Endpoint.RESPONSES, Endpoint.MAYBE_RESPONSES}:
        return ResponsesFace(max_kept=max_kept)
    return MessagesFace(native=upstream_api == "anthropic", counting=endpoint is Endpoint.COUNT)


def prepare_passage(passage: Passage, scope: Scope, settings: Settings) -> None:
    """What of the client's own request may go on to an upstream of its API. Its body was checked.

    Where tools are guarded, they go on in the words that were checked. Raises ToolCallError for options of the request
    that are not allowed, and for tools in places where no guard looks.
    """
    settings = _with_options(passage.body, settings)
    passage.keeps_ids = not settings.rewrite_ids
    body = one_reading(without_overrides(passage.body))
    if is_guarded(settings):
        fields = read_fields(body)
        for name in _CHECKED & fields.keys():
            value = read_value(fields[name])
            refuse_unread(name, value)
            fields[name] = rewritten_tools(fields[name]) if name == "tools" else raw(value)
        if settings.allowlist_mode == "enforce":
            _check_list(passage, settings.allowlist)
        body = encode(fields)
    passage.body = body
    passage.query = scope.get("query_string", b"")
    passage.headers = tuple(
        (name.lower(), value) for name, value in scope.get("headers", ()) if name.lower() in _OF_API
    )


def _check_list(passage: Passage, allowlist: tuple[str, ...]) -> None:
    """Refuse tools of a passed request that the list does not hold, and that its chat completion does not show."""
    for path in passage.servers:
        message = f"An allowlist is enforced, and any tool of {path} could be called: leave MCP servers out."
        raise ToolCallError("tool_not_allowed", message, param=path)
    for tool in passage.unoffered:
        if not admits(allowlist, tool.name):
            message = f"The tool {shown(tool.name)} is not on the allowlist."
            raise ToolCallError("tool_not_allowed", message, param=tool.path)


def _with_options(body: bytes, settings: Settings) -> Settings:
    """The settings with what a request changes for itself."""
    if without_overrides(body) is body:
        return settings
    fields = read_object(body) or {}
    return settings.layer(read_overrides(fields.get("toolcall"), fields.get("request_options"), settings), "request")


def chat_request(scope: Scope, body: bytes, paths: tuple[str, ...], passage: Passage | None = None) -> Scope:
    """The scope of the chat completion with `body` that a face's request becomes."""
    path = _sibling(scope["path"], paths)
    root = scope.get("root_path", "")
    raw_path = quote(path).encode()
    headers = without(scope.get("headers", ()), _NOT_SENT)
    headers.append((b"content-type", b"application/json"))
    if not values_of(headers, b"authorization"):
        # Where a chat completion's key is looked for.
        headers += [(b"authorization", login) for login in logins(headers)][:1]
    scope = {**scope, "path": path, "raw_path": raw_path, "root_path": root, "query_string": b"", "headers": headers}
    if passage is not None:
        scope[PASSAGE] = passage
    return request_scope(scope, len(body))


def _sibling(path: str, paths: tuple[str, ...]) -> str:
    """Where the same server has chat completions: beside this path."""
    path = _normal(path)
    if not path.endswith(tuple(_ENDPOINTS)):
        path = normal_path(path)  # spelled otherwise, as the most lenient server would read it
    ending = next(one for one in _ENDPOINTS if path.endswith(one))
    before = path.removesuffix(ending)
    sibling = f"{before}/v1{_CHAT}"
    return sibling if sibling.endswith(paths) else before + paths[0]


def _normal(path: str) -> str:
    return _SLASHES.sub("/", path).rstrip("/")


class FaceSettings:
    """The settings of requests on each face, made once: those that a face needs, weaker than what was set by hand."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], tuple[Settings, Settings]] = {}

    def of(self, settings: Settings, face: Face) -> Settings:
        """`settings` for a request on this face."""
        key = id(settings), face.api
        known = self._made.get(key)
        if known is not None and known[0] is settings:
            return known[1]
        made = settings.layer({n: v for n, v in face.settings.items() if not settings.by_hand(n)}, face.api)
        if len(self._made) >= _MOST_LAYERS:
            self._made.clear()
        self._made[key] = settings, made
        return made


_NOTE = b"x-toolcall"
_STREAM = b"text/event-stream"
_MESSAGES_OF_ANSWERS = frozenset({"http.response.start", "http.response.body"})
"""Others are of extensions, which speak of the chat answer's own bytes."""
_QUIET = 5.0  # seconds without an event, after which one says that the answer is being made
_STRANGE = re.compile(r"[^A-Za-z0-9_.:-]")
_LIMIT = 64 << 20
_MOST_NAMED = 20
_LONGEST_PLACE = 200  # characters of a redirect's target
_UNAUTHORIZED = 401  # the app's: who is not let in learns of nothing here


class FaceAnswer(Answer):
    """The answer to one request on a face. asked: the request, once it was read.

    recorder: gets the bytes that are sent, if the request is observed.
    """

    def __init__(self, send: Send, face: Face, limit: int | None) -> None:
        super().__init__(send, _LIMIT if limit is None else limit)
        self._face = face
        self._keepalive_sent: asyncio.Event | None = None  # set once a client that waits was sent its event
        self._busy = False  # a message of the app is being sent
        self._answered = False  # the app's answer has begun
        self._written = False  # by the face's writer, to which the exchange gave it
        self._quiet = True  # no bytes were sent since the last look
        self.recorder: Recorder | None = None
        self.asked: FaceRequest | None = None

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        # There are thousands of messages in a stream: what is usual makes as few calls as it can.
        if self._keepalive_sent is not None:
            await self._keepalive_sent.wait()
        self._busy = True
        try:
            kind = message["type"]
            if kind == "http.response.body" and self.reads is Reads.PIECES and not self.ended:
                data, more = message.get("body", b""), message.get("more_body", False)
                if data or not more:
                    self.ended = not more
                    await self._client({"type": kind, "body": self._noted(data), "more_body": more})
            elif kind in _MESSAGES_OF_ANSWERS:
                await super().send(message)
        finally:
            self._busy = False

    def begun(self) -> Reads:
        """See Answer."""
        self._answered = True
        writer = self._face.writer
        self._written = writer is not None and writer.in_use and self.start["status"] < 300
        if not self._written or not self.header(b"content-type").startswith(_STREAM):
            return Reads.WHOLE
        self._quiet = False
        self.start["headers"] = self._headers(self._face.headers(stream=True))
        return Reads.PIECES

    async def whole(self, body: bytes) -> bytes:
        """See Answer."""
        status = self.start["status"]
        if self._limit is not None and len(body) > self._limit:
            return self._noted(self._refused(self._exceeds()))
        if self._written:
            return self._replaced(FaceReply(status=status, body=body, headers=self._face.headers(stream=False)))
        headers = {name.lower(): value for name, value in self.start["headers"]}
        if 300 <= status < 400:
            error = _redirected(status, headers.get(b"location", b""))
            log_refusal(error)
            return self._noted(self._refused(error))
        if self._opened:
            error = await offloaded(len(body), openai.read_error, body, max(status, 400))
            return self._noted(self._face.fail(error))
        return self._replaced(await offloaded(len(body), self._face.whole, status, headers, body))

    async def too_long(self) -> None:
        """See Answer."""
        self.taken()
        await self.fail(self._exceeds())

    def _exceeds(self) -> ToolCallError:
        error = ToolCallError("upstream_error", f"The answer exceeds {self._limit} bytes.")
        log_refusal(error)
        return error

    # -- what is sent ---------------------------------------------------------------------------------------------

    async def fail(self, error: ToolCallError) -> None:
        """Answer with an error of our own."""
        if not self.ended:
            await self.give(self._noted(self._refused(error)), more=False)

    async def reply(self, reply: FaceReply, note: str = "") -> None:
        """Answer with what the face has written itself. note: of the header `x-toolcall`."""
        self.start = _head([(_NOTE, note.encode())] if note else [])
        await self.give(self._replaced(reply), more=False)

    def _refused(self, error: ToolCallError) -> bytes:
        """The body of an answer with an error of our own, or its last event."""
        if self._opened:
            return self._face.fail(error)
        self.start = _head([])
        return self._replaced(self._face.error(error))

    def _replaced(self, reply: FaceReply) -> bytes:
        """The body of an answer whose head becomes that of `reply`."""
        headers = self._headers([*reply.headers, (b"content-length", b"%d" % len(reply.body))])
        if not values_of(headers, b"content-type"):
            headers.append((b"content-type", b"application/json"))
        self.start = {**self.start, "status": reply.status, "headers": headers}
        return self._noted(reply.body)

    def _noted(self, out: bytes) -> bytes:
        """Bytes that are about to be sent."""
        self._quiet = False
        if out and self.recorder is not None:
            self.recorder.data("face", out)
        return out

    def _headers(self, own: Sequence[tuple[bytes, bytes]]) -> Headers:
        """The chat answer's headers as the face's answer has them."""
        given = self.start["headers"]
        dropped = self.asked.dropped_tools if self.asked is not None else ()
        names = ",".join(_STRANGE.sub("_", name[:64]) for name in dropped[:_MOST_NAMED])
        note = b"; ".join([b"api=" + self._face.api.encode(), *values_of(given, _NOTE)])
        if names:
            note += b"; dropped_tools=" + names.encode()
        if self._face.dropped_images:
            note += b"; dropped_images=%d" % self._face.dropped_images
        replaced = ENTITY_HEADERS | {name.lower() for name, _ in own} | {_NOTE}
        notes = [(_NOTE, note)] if self.start["status"] != _UNAUTHORIZED else []
        return [*without(given, replaced), *own, *notes]

    # -- a client that waits ---------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def waiting(self, scope: Scope) -> AsyncIterator[None]:
        """Send events to a client that waits for the answer, and one that ends a stream that breaks off."""
        keeping = asyncio.ensure_future(self._keep(scope)) if self.asked is not None and self.asked.stream else None
        try:
            yield
        except Exception:
            if self._opened and not self.ended:
                # The server may not tell the client that this is no end.
                with contextlib.suppress(OSError):
                    await self.give(self._noted(self._face.cut()), more=False)
            raise
        finally:
            if keeping is not None:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

    async def _keep(self, scope: Scope) -> None:
        with contextlib.suppress(OSError):  # the client has gone, which others learn by themselves
            while not self.ended:
                self._quiet = True
                await asyncio.sleep(_QUIET)
                if self._quiet and not self._busy:
                    self._keepalive_sent = asyncio.Event()
                    try:
                        await self._keep_alive(scope)
                    finally:
                        self._keepalive_sent.set()
                        self._keepalive_sent = None

    async def _keep_alive(self, scope: Scope) -> None:
        if self._answered and self.reads is not Reads.PIECES:
            return  # a refusal that is being read is no answer
        if self._opened:
            if out := self._face.begin() or self._face.keepalive():
                await self.give(self._noted(out), more=True)
        elif not record_of(scope).others and not self._answered:
            # Once the answer has begun, no other upstream can give it.
            self.start = _head([(b"content-type", _STREAM)])
            self.start["headers"] = self._headers(self._face.headers(stream=True))
            await self.give(self._noted(self._face.begin()), more=True)


def _head(headers: Headers) -> Message:
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _redirected(status: int, location: bytes) -> ToolCallError:
    """The error for a redirect. It leads to chat completions, where a client of another API has nothing to ask."""
    where = f" to {on_one_line(location.decode('latin-1')[:_LONGEST_PLACE])}" if location else ""
    return ToolCallError("upstream_error", f"The backend answered with status {status}, a redirect{where}.")


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


_LIST_LIMIT = 16 << 20
_NOT_ASKED = frozenset({b"accept-encoding", b"if-none-match", b"if-modified-since", b"range", b"anthropic-version"})


class ModelsAnswer(Answer):
    """Makes of OpenAI's list, or an entry of it, what Anthropic's API has for it. Errors get that API's form.

    What is neither, or larger than 16 MiB, passes as it is.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        super().__init__(send, _LIST_LIMIT)
        self._scope = scope

    @property
    def scope(self) -> Scope:
        """What the app is asked with: for an answer that can be read."""
        headers = [*without(self._scope.get("headers", ()), _NOT_ASKED), (b"accept-encoding", b"identity")]
        return {**self._scope, "headers": headers, "query_string": b"", "extensions": {}}

    async def whole(self, body: bytes) -> bytes | None:
        """See Answer."""
        reply = await offloaded(len(body), self._reply, self.start["status"], body)
        if reply is None:
            return None
        self.start["status"] = reply.status
        self.start["headers"] = without(self.start["headers"], ENTITY_HEADERS)
        self.replaced(*reply.headers, length=len(reply.body))
        return reply.body

    def _reply(self, status: int, data: bytes) -> FaceReply | None:
        if status >= 400:
            return MessagesFace().error(openai.read_error(data, status))
        name = model_asked(self._scope)
        fields = openai.read_object(data)
        if status != 200 or fields is None or ("id" if name else "data") not in fields:
            return None
        return models_reply(data, name or "")
