"""Which API a request speaks, told by its path before the backend is asked; and the chat completion's scope for it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.types import Message, Scope

from ...apis.face import Face, FaceRequest
from ...apis.messages.client.face import MessagesFace
from ...apis.messages.unread import refuse_unread
from ...apis.passage import PASSAGE, Passage
from ...apis.responses.face import ResponsesFace
from ...errors import ToolCallError, shown
from ...request.one_reading import one_reading, rewritten_tools
from ...request.parse import read_overrides, without_overrides
from ...settings import Settings
from ...settings.settings import admits
from ...wire.json_input import read_fields
from ...wire.openai import encode, raw, read_object, read_value
from ..http.bodies import request_message
from ..http.headers import logins, request_scope, values_of, without
from ..http.paths import is_chat, normal_path, normal_path_of
from .unread import is_guarded

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
    """Which endpoint a request asks; None where nobody reads it here."""
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

    upstream_api: what stands behind speaks it. max_kept: bytes of a streamed answer, where the face keeps all of it.
    """
    if endpoint in {Endpoint.RESPONSES, Endpoint.MAYBE_RESPONSES}:
        return ResponsesFace(max_kept=max_kept)
    native = upstream_api == "anthropic"
    return MessagesFace(inline_tools=not native, native=native)


def prepare_passage(passage: Passage, scope: Scope, settings: Settings) -> None:
    """What of the client's own request may go on to an upstream of its API. Its body was checked.

    Where tools are guarded, they go on in the words that were checked. Raises ToolCallError for options of the request
    that are not allowed, and for tools that stand where no guard looks.
    """
    settings = _with_options(passage.body, settings)
    passage.keeps_ids, passage.keeps_text = not settings.rewrite_ids, settings.prose == "keep"
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
    for path in passage.unproven:
        message = (
            f"Tools are on an allowlist here, and {path} may have any called: give the server an mcp_toolset with "
            '"default_config": {"enabled": false} and each tool by its name in "configs".'
        )
        raise ToolCallError("tool_not_allowed", message, param=path)
    for name, path in passage.unoffered:
        if not admits(allowlist, name):
            message = f"The tool {shown(name)} is not on the allowlist."
            raise ToolCallError("tool_not_allowed", message, param=path)


def _with_options(body: bytes, settings: Settings) -> Settings:
    """The settings with what a request changes for itself."""
    if without_overrides(body) is body:
        return settings
    fields = read_object(body) or {}
    return settings.layer(read_overrides(fields.get("toolcall"), fields.get("request_options"), settings), "request")


def chat_request(
    scope: Scope, body: bytes, paths: tuple[str, ...], passage: Passage | None = None
) -> tuple[Scope, list[Message]]:
    """The scope and the messages of the chat completion with `body` that a face's request becomes."""
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
    return request_scope(scope, len(body)), [request_message(body)]


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
        self._made: dict[tuple[int, str], tuple[Settings, Mapping[str, Any], Settings]] = {}

    def of(self, settings: Settings, api: str, asked: FaceRequest) -> Settings:
        """`settings` for a request on this face."""
        key = id(settings), api
        known = self._made.get(key)
        if known is not None and known[0] is settings and known[1] == asked.settings:
            return known[2]
        values = {name: value for name, value in asked.settings.items() if not settings.by_hand(name)}
        made = settings.layer(values, api)
        if len(self._made) >= _MOST_LAYERS:
            self._made.clear()
        self._made[key] = settings, asked.settings, made
        return made
